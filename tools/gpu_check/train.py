"""One case in a child process: trained as it should be, then with its fault, then recorded. Needs torch."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule

from tools.gpu_check.case import BY_NAME, Order, Setup
from tools.gpu_check.inject import Fragments, loader_of, neighbour, read_back
from tools.gpu_check.model import model_of, size_of

WARM_STEPS = 5
LEAST_STEPS, MOST_STEPS = 8, 40
TRACED_SECONDS = 1.5
"""Of steps under the profiler: some fifteen readings of 100 ms, and a file of some megabytes."""


class Loop:
    """A training loop of a setup. Use it in `with`: it ends its workers and its neighbour."""

    def __init__(self, setup: Setup, order: Order, step_seconds: float, need_bytes: int) -> None:
        self.setup, self.device = setup, order.device
        torch.manual_seed(order.seed)
        torch.backends.cuda.matmul.allow_tf32 = setup.is_tf32
        torch.backends.cudnn.allow_tf32 = setup.is_tf32
        self.model = model_of(setup, order.device)
        kind = {"fused": True} if setup.is_fused else {"foreach": False, "fused": False}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **kind)
        self.is_picture = setup.model == "convnet"
        self.loader = loader_of(setup, order.device, step_seconds)
        self.fragments = Fragments(need_bytes, order.seed) if setup.is_fragmented else None
        self.batches: Iterator[Any] = iter(())

    def __enter__(self) -> Loop:
        import stepscope_sdk

        self.stack = contextlib.ExitStack()
        self.neighbour_pid = self.stack.enter_context(neighbour(self.setup.has_neighbour))
        self.marks = stepscope_sdk.monitor()
        self.batches = iter(self.marks.data(self.loader))
        return self

    def __exit__(self, *why: object) -> None:
        del self.batches, self.loader
        if self.fragments:
            self.fragments.end()
        self.stack.close()

    def step(self) -> None:
        """One step, marked. Where memory is full, the fragments go first."""
        with self.marks.step():
            inputs, wanted = next(self.batches)
            if self.fragments:
                self.fragments.step()
            try:
                self._train(inputs, wanted)
            except torch.cuda.OutOfMemoryError:
                assert self.fragments is not None
                self.fragments.blocks.clear()
                self.optimizer.zero_grad()
                torch.cuda.empty_cache()

    def _train(self, inputs: torch.Tensor, wanted: torch.Tensor) -> None:
        setup, marks = self.setup, self.marks
        if self.device == "cuda":
            inputs = inputs.to("cuda", non_blocking=setup.is_pinned)
            wanted = wanted.to("cuda", non_blocking=setup.is_pinned)
        if self.is_picture:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        is_half = setup.is_half and self.device == "cuda"
        with marks.phase("forward"), torch.autocast(self.device, torch.bfloat16, enabled=is_half):
            loss = functional.cross_entropy(self.model(inputs), wanted)
        with marks.phase("backward"):
            loss.backward()
        if setup.reads_each_step:
            read_back(self.model, loss)
        with marks.phase("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad()

    def settle(self) -> None:
        """Wait until the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def timed(self, seconds: float) -> tuple[float, int]:
        """(seconds a step, steps) after a warm-up; at least `LEAST_STEPS`."""
        for _ in range(WARM_STEPS):
            self.step()
        self.settle()
        start = time.perf_counter()
        num = 0
        while num < LEAST_STEPS or time.perf_counter() - start < seconds:
            self.step()
            num += 1
            if num % 8 == 0:
                self.settle()  # a host that runs ahead would count steps that are not done
        self.settle()
        return (time.perf_counter() - start) / num, num

    def traced(self, path: str, step_seconds: float, most_seconds: float) -> int:
        """Record steps into `path`: how many."""
        wanted = min(TRACED_SECONDS, most_seconds)
        num = int(min(max(wanted / step_seconds, LEAST_STEPS), MOST_STEPS))
        activities = [ProfilerActivity.CPU]
        if self.device == "cuda":
            activities.append(ProfilerActivity.CUDA)
        with profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=1, active=num, repeat=1),
            on_trace_ready=lambda done: done.export_chrome_trace(path),
            record_shapes=True,
            profile_memory=self.setup.is_fragmented,
        ) as profiler:
            for _ in range(num + 1):
                self.step()
                profiler.step()
        return num


def run(order: Order) -> dict[str, Any]:
    """What a case measured: seconds a sample without and with the fault, steps, pids, and its files."""
    case = BY_NAME[order.case]
    os.environ["STEPSCOPE_RUN_DIR"] = os.path.join(order.folder, "marks")
    if order.device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.reset_peak_memory_stats()
    with Loop(case.healthy, order, 0.0, 0) as loop:
        healthy, _ = loop.timed(order.seconds)
    need = torch.cuda.max_memory_allocated() if order.device == "cuda" else 0
    del loop
    if order.device == "cuda":
        torch.cuda.empty_cache()
    with Loop(case.faulty, order, healthy, need) as loop:
        start_ns = time.time_ns()
        faulty, num = (healthy, 0) if case.faulty == case.healthy else loop.timed(order.seconds)
        trace = os.path.join(order.folder, "rank0.pt.trace.json.gz")
        traced = loop.traced(trace, faulty, order.seconds)
        loop.settle()
        end_ns = time.time_ns()
        other = loop.neighbour_pid
    samples = [size_of(each, order.device).batch for each in (case.healthy, case.faulty)]
    return {
        "case": case.name, "trace": trace, "start_ns": start_ns, "end_ns": end_ns,
        "healthy_seconds": healthy, "faulty_seconds": faulty, "num_steps": num, "num_traced": traced,
        "healthy_samples": samples[0], "faulty_samples": samples[1],
        "pid": os.getpid(), "neighbour_pid": other,
    }  # fmt: skip


if __name__ == "__main__":
    import sys

    print(json.dumps(run(Order(**json.loads(sys.argv[1])))))
