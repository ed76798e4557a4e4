"""Host rows to causes: what must be found, and what only looks like it."""

from __future__ import annotations

import pytest

from stepscope.trace.category import Kind
from stepscope.trace.host_cause import COLLECTIVE, LAUNCH_CALL, TABLE, WAITING

OP, MARK, FRAME, CALL, OVER = Kind.OP, Kind.ANNOTATION, Kind.PYTHON, Kind.CALL, Kind.OVERHEAD


def cause_of(kind: Kind, name: str) -> str | None:
    return next((row.cause for row in TABLE if kind in row.kinds and row.pattern.search(name)), None)


@pytest.mark.parametrize(
    ("kind", "name", "cause"),
    [
        (MARK, "checkpoint", "checkpoint"),
        (MARK, "save_checkpoint", "checkpoint"),
        (MARK, "ckpt", "checkpoint"),
        (FRAME, "torch/serialization.py(943): save", "checkpoint"),
        (MARK, "activation checkpoint", None),
        (MARK, "activation_checkpointing", None),
        *(
            (MARK, name, None)
            for name in (
                "gradient_checkpointing",
                "selective_checkpoint",
                "recompute_checkpoint",
                "torch.utils.checkpoint",
                "checkpoint_sequential",
                "checkpoint_wrapper",
            )
        ),
        *(
            (MARK, name, None)
            for name in (
                "FSDP::backward_prefetch for layers.3",
                "FullyShardedDataParallel._pre_backward_prefetch",
                "prefetch_params",
                "zero3_prefetch",
                "KV prefetch",
                "embedding_prefetch",
                "get_batch_norm",
                "get_data_parallel_rank",
                "get_batch_size",
                "get_batch_logps",
                "batch_load_balancing_loss",
                "evaluate_actions",
                "policy_eval",
                "validate_args",
                "train_and_eval",
                "checkpoint_block",
                "ModelCheckpoint",
                "tensor_parallel.checkpoint",
                "te_checkpoint",
                "remat/checkpoint",
                "act_ckpt",
                "reward_model_eval",
                "[pl][module]models.evaluation.Head: eval",
                "update_weights_from_checkpoint",
                "load_batch_to_device",
                "[pl][profile]run_training_batch",
            )
        ),
        *(
            (MARK, name, "eval")
            for name in (
                "eval_step_3",
                "validation_loop",
                "run_validation",
                "Trainer: eval",
                "evaluate_and_print_results",
                "estimate_loss",
                "_validate",
                "eval_batch",
                "valid_step",
                "[_EvaluationLoop].val_next",
                "[pl][profile][Strategy]SingleDeviceStrategy.validation_step",
            )
        ),
        *(
            (MARK, name, "input")
            for name in (
                *("load batch from disk", "## get_batch ##", "next_batch #3", "wait for data_loader"),
                *("get-batch", "data-iterator", "wait_for_data", "next(train_iter)", "train.next_data_iter"),
            )
        ),
        *(
            (MARK, name, "checkpoint")
            for name in ("dcp_save", "dcp.async_save", "maybe_finalize_async_save", "## ckpt_save ##")
        ),
        (MARK, "save_checkpoint_async", "checkpoint"),
        *(
            (MARK, name, "input")
            for name in (
                "data_prefetch",
                "batch_prefetcher",
                "prefetch_batch",
                "next_batch",
                "fetch data",
                "get_train_batch",
            )
        ),
        *(
            (MARK, name, None)
            for name in (
                "save_state_for_backward",
                "save_model_inputs",
                "save_state_dict_hook",
                "store_activation_checkpoint",
                "save_input_checkpoint",
                "save_checkpoint_inputs",
                "activation_checkpoint_hook",
                "write_kv_cache_ckpt",
                "save_model_outputs",
            )
        ),
        *(
            (MARK, name, "checkpoint")
            for name in (
                "save_model",
                "save_model()",
                "save_model_weights",
                "save_state",
                "save_state_dict",
                "save_train_state",
                "Trainer.save_pretrained",
                "save_model_to_disk",
                "save_megatron_checkpoint",
                "Trainer::save_state_dict #3",
            )
        ),
        (OP, "CheckpointFunction", None),
        (OP, "CheckpointFunctionBackward", None),
        (FRAME, "torch/utils/checkpoint.py(343): checkpoint", None),
        (MARK, "eval", "eval"),
        (MARK, "validation", "eval"),
        (MARK, "test_step", "eval"),
        (OP, "autograd::engine::evaluate_function: MulBackward0", None),
        (MARK, "retrieval", None),
        (MARK, "interval", None),
        (OVER, "Buffer Flush", "profiler"),
        (OVER, "Lazy Function Loading", "compile"),
        (OP, "TorchDynamo Cache Lookup", None),
        (MARK, "Torch-Compiled Region: 0/0", None),
        (MARK, "_compile.compile_inner (dynamo_timed)", "compile"),
        (FRAME, "torch/_dynamo/eval_frame.py(738): _fn", None),
        (FRAME, "torch/_dynamo/convert_frame.py(1372): __call__", "compile"),
        (FRAME, "triton/runtime/jit.py(709): run", None),
        (FRAME, "<built-in function collect>", "gc"),
        (FRAME, "<built-in method collect of module object>", "gc"),
        (FRAME, "<built-in method collect of module object at 0x7f2a>", "gc"),
        (MARK, "Python GC (generation 2)", "gc"),
        (FRAME, "<built-in method collect of builtins.PyLazyFrame object at 0x7f2a>", None),
        (FRAME, "<built-in method collect of PyCapsule object at 0x7f2a>", None),
        (FRAME, "/home/ada/job/gc.py(3): run", None),
        (MARK, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "input"),
        (MARK, "data_loading", "input"),
        (MARK, "get_batch", "input"),
        (FRAME, "torch/utils/data/dataloader.py(708): __next__", "input"),
        (FRAME, "torch/utils/data/dataloader.py(50): __init__", None),
        (MARK, "DistributedDataParallel.forward", None),
        (MARK, "metadata", None),
        (CALL, "cudaMalloc", "allocator"),
        (CALL, "cudaMallocAsync", None),
        (CALL, "cuMemCreate", "allocator"),
        (CALL, "hipFree", "allocator"),
        (CALL, "cudaMemcpy", "copy_wait"),
        (CALL, "cudaMemcpyAsync", None),
        (CALL, "hipMemcpyWithStream", "copy_wait"),
        (CALL, "cudaStreamSynchronize", "host_sync"),
        (CALL, "hipDeviceSynchronize", "host_sync"),
        (CALL, "cuCtxSynchronize", "host_sync"),
        (CALL, "cudaStreamWaitEvent", None),
        (MARK, "logging", "logging"),
        (FRAME, "<built-in function print>", "logging"),
        (OP, "aten::log_softmax", None),
        (MARK, "log_softmax", None),
        (MARK, "gloo:all_reduce", "peer"),
        (OP, "c10d::barrier", "peer"),
        (MARK, "nccl:all_reduce", None),
    ],
)
def test_a_row_has_its_cause(kind: Kind, name: str, cause: str | None) -> None:
    assert cause_of(kind, name) == cause


@pytest.mark.parametrize(
    "name",
    [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaLaunchCooperativeKernel",
        "cudaGraphLaunch",
        "hipLaunchKernel",
        "hipModuleLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipExtLaunchKernel",
        "hipGraphLaunch",
    ],
)
def test_every_launch_call_is_one(name: str) -> None:
    assert LAUNCH_CALL.search(name)


@pytest.mark.parametrize(
    "name", ["cudaMemcpyAsync", "cudaEventRecord", "cudaStreamIsCapturing", "cudaFuncGetAttributes"]
)
def test_no_other_call_is_a_launch(name: str) -> None:
    assert not LAUNCH_CALL.search(name)


def test_waiting_rows_wait() -> None:
    def waits(kind: Kind, name: str) -> bool:
        return any(kind in kinds and pattern.search(name) for kinds, pattern in WAITING)

    assert waits(OP, "backward")
    assert waits(MARK, "## backward ##")
    assert waits(FRAME, "<built-in method run_backward of torch._C._EngineBase object at 0x7f>")
    assert waits(FRAME, "<built-in method acquire of _thread.lock object at 0x7f>")
    assert not waits(OP, "aten::mm")
    assert not waits(OP, "autograd::engine::evaluate_function: MmBackward0")
    assert not waits(FRAME, "train.py(10): backward_hook")


def test_collectives_are_told_by_their_back_end() -> None:
    assert COLLECTIVE.search("gloo:all_reduce")
    assert COLLECTIVE.search("c10d::allreduce_")
    assert not COLLECTIVE.search("aten::all")
