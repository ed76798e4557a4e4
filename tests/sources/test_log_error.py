"""Errors that logs state: device and host memory, collectives, workers, tracebacks, exits."""

from __future__ import annotations

import pytest

from stepscope.model.log import Log, LogEvent
from stepscope.sources.log import read_log

GIB = float(1 << 30)
MIB = float(1 << 20)


def log_of(text: str) -> Log:
    return read_log("made.log", data=text.encode())


def event_of(text: str) -> LogEvent:
    (event,) = log_of(text).events
    return event


OUT_OF_MEMORY = {
    "1.3": (
        "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 16.00 GiB total capacity; "
        "14.00 GiB "
        "already allocated; 100.25 MiB free; 1.50 GiB cached)",
        {
            "requested_bytes": 512 * MIB, "capacity_bytes": 16 * GIB, "allocated_bytes": 14 * GIB,
            "free_bytes": 100.25 * MIB, "reserved_bytes": 1.5 * GIB, "device_index": 0,
        },
    ),
    "1.13": (
        "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; "
        "79.25 GiB total "
        "capacity; 71.25 GiB already allocated; 512.00 MiB free; 73.50 GiB reserved in total by PyTorch) "
        "If reserved "
        "memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
        {
            "requested_bytes": 2 * GIB, "capacity_bytes": 79.25 * GIB, "allocated_bytes": 71.25 * GIB,
            "free_bytes": 512 * MIB, "reserved_bytes": 73.5 * GIB, "device_index": 3,
        },
    ),
    "2.1": (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a "
        "total capacity "
        "of 79.25 GiB of which 1.50 GiB is free. Process 123 has 77.75 GiB memory in use. Of the "
        "allocated memory "
        "70.00 GiB is allocated by PyTorch, and 6.50 GiB is reserved by PyTorch but unallocated.",
        {
            "requested_bytes": 2 * GIB, "capacity_bytes": 79.25 * GIB, "allocated_bytes": 70 * GIB,
            "free_bytes": 1.5 * GIB, "reserved_bytes": 76.5 * GIB, "other_process_bytes": 77.75 * GIB,
            "device_index": 3,
        },
    ),
    "2.5, its own process": (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total "
        "capacity of 64.00 "
        "GiB of which 16.00 MiB is free. Including non-PyTorch memory, this process has 63.50 GiB memory "
        "in use.",
        {
            "requested_bytes": 20 * MIB, "capacity_bytes": 64 * GIB, "free_bytes": 16 * MIB,
            "process_bytes": 63.5 * GIB, "device_index": 1,
        },
    ),
    "Ascend": (
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 5; 60.50 GiB total capacity; "
        "55.25 GiB "
        "already allocated; 55.25 GiB current active; 1.50 GiB free; 57.50 GiB reserved in total by PyTorch)",
        {
            "requested_bytes": 2 * GIB, "capacity_bytes": 60.5 * GIB, "allocated_bytes": 55.25 * GIB,
            "free_bytes": 1.5 * GIB, "reserved_bytes": 57.5 * GIB, "device_index": 5,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OUT_OF_MEMORY)
def test_every_generation_of_out_of_memory_states_its_numbers_in_bytes(kind: str) -> None:
    text, numbers = OUT_OF_MEMORY[kind]
    event = event_of(text)
    assert (event.kind, event.what, event.severity) == ("oom", "cuda_out_of_memory", "critical")
    assert event.rank == (3 if "[rank3]" in text else None)
    assert event.numbers == pytest.approx(numbers)


def test_a_watchdog_states_rank_sequence_and_times() -> None:
    event = event_of(
        "[rank3]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective "
        "operation "
        "timeout: WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=131072, NumelOut=131072, Timeout(ms)"
        "=600000) ran "
        "for 600081 milliseconds before timing out.\n"
        # the same collective, said again by the layers that end
        "[rank3]:[E1218 20:27:21.486305774 ProcessGroupNCCL.cpp:1895] [PG ID 1 PG GUID 1 Rank 3] Process "
        "group "
        "watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=131072, NumelOut=131072, Timeout(ms)=600000) ran "
        "for "
        "600081 milliseconds before timing out.\n"
    )
    assert (event.what, event.rank) == ("nccl_watchdog", 3)
    assert "OpType=ALLREDUCE" in event.text
    assert event.numbers == {
        "sequence": 1234.0,
        "num_elements": 131072.0,
        "timeout_seconds": 600.0,
        "ran_seconds": pytest.approx(600.081),
    }


def test_the_watchdog_of_pytorch_1_has_no_sequence() -> None:
    event = event_of(
        "[E ProcessGroupNCCL.cpp:566] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType=ALLREDUCE, TensorShape=[1], Timeout(ms)=1800000) ran for 1808499 milliseconds"
    )
    assert (event.what, event.rank, event.numbers["timeout_seconds"]) == ("nccl_watchdog", 2, 1800.0)
    assert "sequence" not in event.numbers


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "error", "cuda_error"),
        ("RuntimeError: CUDA error: device-side assert triggered", "error", "cuda_error"),
        ("RuntimeError: CUDA error: unspecified launch failure", "error", "cuda_error"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "error", "cuda_error"),
        ("RuntimeError: CUDA error: out of memory", "oom", "cuda_out_of_memory"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`", "error",
            "cuda_error"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", "error", "cuda_error"),
        ("RuntimeError: HIP error: invalid device ordinal", "error", "cuda_error"),
        ("RuntimeError: ACL stream synchronize failed, error code:507018", "error", "cuda_error"),
        ("torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled "
         "system error "
         "(run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5", "error", "nccl_error"),
        ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
         "prematurely.",
         "error", "nccl_error"),
        ("RuntimeError: NCCL communicator was aborted on rank 3.", "error", "nccl_error"),
        ("RuntimeError: create:HCCLUtils.cpp:89 HCCL function error: HcclGetRootInfo(&id), error code is 7",
         "error", "nccl_error"),
        ("RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed.", "oom",
            "host_out_of_memory"),
        ("RuntimeError: DataLoader worker (pid 42) is killed by signal: Bus error. It is possible that "
         "dataloader's "
         "workers are out of shared memory.", "error", "data_loader_error"),
        ("RuntimeError: DataLoader worker (pid(s) 42, 43) exited unexpectedly", "error", "data_loader_error"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been "
         "OOM Killed.",
         "oom", "host_out_of_memory"),
        ("OSError: [Errno 28] No space left on device", "error", "disk_full"),
        ("Segmentation fault (core dumped)", "exit", "exit"),
        ("slurmstepd: error: *** JOB 12 ON node7 CANCELLED AT 2024-05-01T12:00:00 DUE TO TIME LIMIT ***",
            "exit",
            "exit"),
    ],
)  # fmt: skip
def test_a_line_says_which_failure_it_is(line: str, kind: str, what: str) -> None:
    event = event_of(line)
    assert (event.kind, event.what, event.severity) == (kind, what, "critical")
    assert event.text == line


@pytest.mark.parametrize(
    ("line", "code", "pid", "host"),
    [
        ("torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 3 "
         "(pid: 77) of "
         "binary: /usr/bin/python", -9, 77, None),
        ("Signal 9 (SIGKILL) received by PID 77", None, 77, None),
        ("[2024-05-01 12:00:00,000] [ERROR] [launch.py:325:sigkill_handler] ['python'] exits with return "
         "code = -6",
         -6, None, None),
        ("srun: error: node7: task 3: Exited with exit code 137", 137, None, "node7"),
    ],
)  # fmt: skip
def test_an_exit_states_code_process_and_host(line: str, code: int, pid: int, host: str) -> None:
    event = event_of(line)
    assert (event.what, event.code, event.pid, event.host) == ("exit", code, pid, host)


def test_a_traceback_is_told_by_its_last_line_and_each_rank_has_its_own() -> None:
    log = log_of(
        "[rank0]: Traceback (most recent call last):\n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank0]:   File "train.py", line 10, in <module>\n'
        "[rank1]:     main()\n"
        "[rank0]: ValueError: batch 7 is empty\n"
        "[rank1]: my.package.OddError\n"
        "not a traceback: ValueError\n"
    )
    told = [(event.what, event.rank, event.line, event.text) for event in log.events]
    assert told == [
        ("error", 0, 5, "ValueError: batch 7 is empty"),
        ("error", 1, 6, "my.package.OddError"),
    ]


def test_what_launchers_say_again_is_told_once() -> None:
    line = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    assert len(log_of(line * 3).events) == 1


def test_secrets_go_from_every_text_and_are_counted() -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA2b"
    log = log_of(
        f"Traceback (most recent call last):\nValueError: bad token {secret}\n"
        f"node1:1:1 [0] NCCL WARN Connection refused token={secret}\n"
        f"step 1 loss nan api_key={secret}\n"
    )
    assert log.num_redacted >= 3
    assert secret not in repr(log)
    assert len(log.events) == 3


def test_an_event_without_a_time_takes_that_of_the_line_before() -> None:
    log = log_of(
        "2024-05-01 12:00:00 INFO loading\nplain words\nRuntimeError: CUDA error: device-side assert "
        "triggered\n"
    )
    assert [event.at_ns for event in log.events] == [1_714_564_800_000_000_000]
    assert log.is_zone_assumed
