"""Makes the packaged sample of `stepscope demo`: a made-up training run in the profiler's own layout.

    python tools/make_demo.py            writes src/stepscope/demo/demo.pt.trace.json.gz

What is planted, for six steps of a small convolutional network on one GPU:

* The loader runs in the main process and takes about 37 ms of every step of about 57 ms. The device still has
  queued work when it begins, so about 20 ms of it are hidden, and the device idles for the rest: about 30 %
  of the step. The two figures are not the same, and both belong into the answer.
* Half of the launches come from the autograd thread.
* Four kernels of step 13 have lost their launch record, as happens when a profiler's buffer is dropped.

The same seed gives the same events. Nothing here is taken from a real run.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "src/stepscope/demo/demo.pt.trace.json.gz"

SEED = 20
FIRST_STEP = 10
NUM_STEPS = 6
STEP_WITH_LOST_LAUNCHES = 13
NUM_LOST_LAUNCHES = 4
BASE_NS = 1_780_000_000_000_000_000
PID, MAIN, AUTOGRAD, STREAM = 4242, 4242, 4310, 7

# (op, kernel, median microseconds, input shapes, [grid], [block], registers)
CONV = (
    "aten::cudnn_convolution",
    "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1"
    "_g1_tensor16x8x16_kernel_cudnn",
    520.0,
    [[64, 128, 56, 56], [128, 128, 3, 3], [], [], [], [], [], [], []],
    [1568, 1, 1],
    [128, 1, 1],
    234,
)
NORM = (
    "aten::cudnn_batch_norm",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<__nv_bfloat16, float, 512, true, 1>(cudnnTensorStruct)",
    150.0,
    [[64, 128, 56, 56], [128], [128], [128], [128], [], [], []],
    [128, 1, 1],
    [512, 1, 1],
    40,
)
RELU = (
    "aten::clamp_min_",
    "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar(at::TensorIteratorBase&, "
    "c10::Scalar, c10::Scalar)::{lambda()#1}, std::array<char*, 2ul> >(int)",
    75.0,
    [[64, 128, 56, 56], []],
    [25088, 1, 1],
    [128, 1, 1],
    24,
)
CONV_BACKWARD = (
    "aten::convolution_backward",
    "sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1"
    "_g1_tensor16x8x16_kernel_cudnn",
    960.0,
    [[64, 128, 56, 56], [64, 128, 56, 56], [128, 128, 3, 3], [], [], [], [], [], [], []],
    [1568, 1, 1],
    [128, 1, 1],
    242,
)
NORM_BACKWARD = (
    "aten::cudnn_batch_norm_backward",
    "void cudnn::bn_bw_1C11_kernel_new<__nv_bfloat16, float, float2, 512, true, 1>(float, float, float)",
    260.0,
    [[64, 128, 56, 56], [64, 128, 56, 56], [128], [], [], [128], [128], []],
    [128, 1, 1],
    [512, 1, 1],
    56,
)
RELU_BACKWARD = (
    "aten::threshold_backward",
    "void at::native::vectorized_elementwise_kernel<4, at::native::threshold_kernel_impl<c10::BFloat16>(at::Tensor"
    "IteratorBase&, c10::BFloat16, c10::BFloat16)::{lambda()#1}, std::array<char*, 3ul> >(int)",
    110.0,
    [[64, 128, 56, 56], [64, 128, 56, 56], []],
    [25088, 1, 1],
    [128, 1, 1],
    24,
)
UPDATE = (
    "aten::_foreach_add_",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorList"
    "Metadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>",
    180.0,
    [[], [], []],
    [320, 1, 1],
    [512, 1, 1],
    48,
)
NUM_BLOCKS = 18
HOST_OP_US = 165.0
LOADER_US = 37_000.0


class _Recorder:
    """Collects events in the profiler's layout; times are microseconds since `BASE_NS`."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)
        self.events: list[dict[str, Any]] = []
        self.external_id = 100
        self.correlation = 2000
        self.stream_free_us = 0.0

    def about(self, median: float, spread: float = 0.06) -> float:
        """A positive number near `median`."""
        return median * min(max(self.random.gauss(1.0, spread), 0.6), 1.6)

    def span(
        self,
        cat: str,
        name: str,
        tid: int | str,
        start: float,
        end: float,
        args: dict[str, Any],
        pid: Any = PID,
    ) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
             "ts": round(start, 3), "dur": round(end - start, 3), "args": args}
        )  # fmt: skip

    def op(
        self,
        kind: tuple[Any, ...],
        thread: int,
        start: float,
        loses_launch: bool = False,
        outer: str | None = None,
    ) -> float:
        """One op with its launch and its kernel; returns when the host is done with it."""
        name, kernel, median, shapes, grid, block, registers = kind
        end = start + self.about(HOST_OP_US)
        self.external_id += 1
        self.correlation += 1
        op_id, correlation = self.external_id, self.correlation
        if outer is not None:
            self.external_id += 1
            self.span("cpu_op", outer, thread, start - 6.0, end + 4.0,
                      {"External id": self.external_id, "Ev Idx": self.external_id})  # fmt: skip
        self.span("cpu_op", name, thread, start, end,
                  {"External id": op_id, "Ev Idx": op_id, "Input Dims": shapes})  # fmt: skip
        launch = start + self.about(90.0)
        launched = launch + self.about(6.0, 0.2)
        if not loses_launch:
            self.span("cuda_runtime", "cudaLaunchKernel", thread, launch, launched,
                      {"External id": op_id, "cbid": 211, "correlation": correlation})  # fmt: skip
            self.flow("s", correlation, PID, thread, launch)
        begin = max(launched + self.about(4.0, 0.2), self.stream_free_us + 1.0)
        finish = begin + self.about(median)
        self.stream_free_us = finish
        self.span("kernel", kernel, STREAM, begin, finish,
                  {"External id": op_id, "queued": 0, "device": 0, "context": 1, "stream": STREAM,
                   "correlation": correlation, "registers per thread": registers, "shared memory": 0,
                   "blocks per SM": round(grid[0] / 108, 2), "warps per SM": round(grid[0] * block[0] / 32 / 108, 2),
                   "grid": grid, "block": block, "est. achieved occupancy %": 50}, pid=0)  # fmt: skip
        if not loses_launch:
            self.flow("f", correlation, 0, STREAM, begin)
        return end

    def flow(self, phase: str, ident: int, pid: int, tid: int, at: float) -> None:
        event = {
            "ph": phase,
            "id": ident,
            "pid": pid,
            "tid": tid,
            "ts": round(at, 3),
            "cat": "ac2g",
            "name": "ac2g",
        }
        if phase == "f":
            event["bp"] = "e"
        self.events.append(event)

    def copy_in(self, start: float) -> float:
        """The batch goes to the device from pinned memory, without waiting."""
        self.external_id += 1
        self.correlation += 1
        end = start + self.about(60.0)
        self.span("cpu_op", "aten::copy_", MAIN, start, end,
                  {"External id": self.external_id, "Ev Idx": self.external_id,
                   "Input Dims": [[64, 3, 224, 224], [64, 3, 224, 224], []]})  # fmt: skip
        launch = start + 20.0
        self.span("cuda_runtime", "cudaMemcpyAsync", MAIN, launch, launch + 9.0,
                  {"External id": self.external_id, "cbid": 41, "correlation": self.correlation})  # fmt: skip
        self.flow("s", self.correlation, PID, MAIN, launch)
        begin = max(launch + 12.0, self.stream_free_us + 1.0)
        finish = begin + self.about(1480.0, 0.02)
        self.stream_free_us = finish
        num_bytes = 64 * 3 * 224 * 224 * 4
        self.span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", STREAM, begin, finish,
                  {"External id": self.external_id, "device": 0, "context": 1, "stream": STREAM,
                   "correlation": self.correlation, "bytes": num_bytes,
                   "memory bandwidth (GB/s)": round(num_bytes / (finish - begin) / 1000, 2)}, pid=0)  # fmt: skip
        self.flow("f", self.correlation, 0, STREAM, begin)
        return end

    def step(self, number: int, start: float) -> float:
        """One training step on the host; returns its end."""
        now = start + 30.0
        loaded = now + self.about(LOADER_US, 0.04)
        self.span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", MAIN, now, loaded,
                  {"External id": self.external_id})  # fmt: skip
        self.decode(now, loaded)
        now = self.copy_in(loaded + 40.0) + 20.0
        first_device = self.events[-1]["ts"]
        for _ in range(NUM_BLOCKS):
            for kind in (CONV, NORM, RELU):
                now = self.op(kind, MAIN, now) + 5.0
        waits = now
        now += 60.0
        lost = 0
        for _ in range(NUM_BLOCKS):
            for kind, outer in (
                (RELU_BACKWARD, "autograd::engine::evaluate_function: ReluBackward0"),
                (NORM_BACKWARD, "autograd::engine::evaluate_function: CudnnBatchNormBackward0"),
                (CONV_BACKWARD, "autograd::engine::evaluate_function: ConvolutionBackward0"),
            ):
                loses = (
                    number == STEP_WITH_LOST_LAUNCHES and kind is NORM_BACKWARD and lost < NUM_LOST_LAUNCHES
                )
                lost += loses
                now = self.op(kind, AUTOGRAD, now + 8.0, loses, outer) + 5.0
        # the main thread waits in backward() for the autograd thread
        now += 30.0
        self.external_id += 1
        self.span("user_annotation", "backward", MAIN, waits, now, {"External id": self.external_id})
        begin = now
        for _ in range(6):
            now = self.op(UPDATE, MAIN, now + 10.0) + 5.0
        self.external_id += 1
        self.span(
            "user_annotation", "Optimizer.step#SGD.step", MAIN, begin, now, {"External id": self.external_id}
        )
        end = now + 40.0
        self.external_id += 1
        self.span(
            "user_annotation", f"ProfilerStep#{number}", MAIN, start, end, {"External id": self.external_id}
        )
        self.span("gpu_user_annotation", f"ProfilerStep#{number}", STREAM, first_device, self.stream_free_us,
                  {"External id": self.external_id}, pid=0)  # fmt: skip
        return end

    def decode(self, start: float, end: float) -> None:
        """What the loader does: a few host ops per batch."""
        now = start + 200.0
        for name in (
            "aten::to",
            "aten::permute",
            "aten::contiguous",
            "aten::div",
            "aten::sub",
            "aten::stack",
        ):
            self.external_id += 1
            done = min(now + self.about(900.0), end - 50.0)
            self.span(
                "cpu_op", name, MAIN, now, done, {"External id": self.external_id, "Ev Idx": self.external_id}
            )
            now = done + (end - start - 6000.0) / 7


def make() -> bytes:
    """The sample as JSON text, in the profiler's layout."""
    recorder = _Recorder()
    now = 1_000.0
    for number in range(FIRST_STEP, FIRST_STEP + NUM_STEPS):
        now = recorder.step(number, now) + 4.0
    recorder.correlation += 1
    recorder.span("cuda_runtime", "cudaDeviceSynchronize", MAIN, now, recorder.stream_free_us + 15.0,
                  {"External id": 0, "cbid": 165, "correlation": recorder.correlation})  # fmt: skip
    names: list[dict[str, Any]] = []
    for pid, name, label in ((PID, "python", "CPU"), (0, "python", "GPU 0")):
        names.append(
            {"name": "process_name", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"name": name}}
        )
        names.append(
            {"name": "process_labels", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"labels": label}}
        )
    for pid, tid, name in (
        (PID, MAIN, f"thread {MAIN} (python)"),
        (PID, AUTOGRAD, f"thread {AUTOGRAD} (pt_autograd_0)"),
        (0, STREAM, "stream 7"),
    ):
        names.append(
            {"name": "thread_name", "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}
        )
    head = {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84974239744, "computeMajor": 8,
             "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
             "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108}
        ],
        "record_shapes": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
    }  # fmt: skip
    lines = ",\n".join(json.dumps(event, separators=(", ", ": ")) for event in names + recorder.events)
    opening = json.dumps(head)[:-1]
    return f'{opening},\n"traceEvents": [\n{lines}\n],\n"traceName": "demo.pt.trace.json"\n}}\n'.encode()


if __name__ == "__main__":
    OUTPUT.write_bytes(gzip.compress(make(), compresslevel=9, mtime=0))
    print(f"{OUTPUT}: {OUTPUT.stat().st_size / 1000:.0f} kB")
