"""Kernels whose behaviour is known, run for a while each, and work in bursts. Needs torch with CUDA.

A large matrix product should fill the multiprocessors and the tensor cores, a copy and an elementwise kernel
the memory: what the counters and the clock say of them is what the thresholds are held against.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tools.gpu_check.case import Order

SIDE = 8192
"""Of the matrices: 1.1e12 operations a product."""
COPIED_BYTES = 1 << 30
BURST_SECONDS = 12.0


def kernels(free_bytes: int) -> dict[str, tuple[Callable[[], None], float, float, str]]:
    """By name: (one launch, operations, bytes it moves, precision of the peak or "")."""
    found: dict[str, tuple[Callable[[], None], float, float, str]] = {}
    work = 2.0 * SIDE**3
    for name, dtype, is_tf32 in (
        ("matmul-bf16", torch.bfloat16, True),
        ("matmul-fp16", torch.float16, True),
        ("matmul-tf32", torch.float32, True),
        ("matmul-fp32", torch.float32, False),
    ):
        left = torch.randn(SIDE, SIDE, device="cuda", dtype=dtype)
        out = torch.empty_like(left)

        def product(left: torch.Tensor = left, out: torch.Tensor = out, is_tf32: bool = is_tf32) -> None:
            torch.backends.cuda.matmul.allow_tf32 = is_tf32
            torch.mm(left, left, out=out)

        found[name] = (product, work, 3.0 * left.nbytes, name.removeprefix("matmul-"))
    num_bytes = min(COPIED_BYTES, free_bytes // 8)
    source = torch.ones(num_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    found["copy"] = (lambda: (target.copy_(source), None)[1], 0.0, 2.0 * source.nbytes, "")
    found["elementwise"] = (
        lambda: (torch.add(source, 1.0, out=target), None)[1], float(source.numel()), 2.0 * source.nbytes, "",
    )  # fmt: skip
    return found


def run_kernels(order: Order) -> dict[str, Any]:
    """Each kernel for `order.seconds`: when it ran, and its operations and bytes a second."""
    rows = []
    for name, (launch, work, moved, precision) in kernels(torch.cuda.mem_get_info()[0]).items():
        for _ in range(3):
            launch()
        torch.cuda.synchronize()
        start_ns, start, num = time.time_ns(), time.perf_counter(), 0
        while time.perf_counter() - start < order.seconds:
            for _ in range(10):
                launch()
            num += 10
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        rows.append(
            {
                "name": name, "precision": precision, "start_ns": start_ns, "end_ns": time.time_ns(),
                "flops": work * num / seconds, "bytes_per_second": moved * num / seconds,
            }
        )  # fmt: skip
    return {"kernels": rows}


def run_bursts(order: Order) -> dict[str, Any]:
    """Work and rest of random lengths under the profiler: nothing repeats itself, so one lag alone fits."""
    draw = random.Random(order.seed)
    side = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    out = torch.empty_like(side)
    trace = os.path.join(order.folder, "rank0.pt.trace.json.gz")
    seconds = min(BURST_SECONDS, 6 * order.seconds)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        start, start_ns, number = time.perf_counter(), time.time_ns(), 0
        while time.perf_counter() - start < seconds:
            with record_function(f"ProfilerStep#{number}"):
                until = time.perf_counter() + draw.uniform(0.05, 0.6)
                while time.perf_counter() < until:
                    for _ in range(20):
                        torch.mm(side, side, out=out)
                    torch.cuda.synchronize()
                time.sleep(draw.uniform(0.05, 0.6))
            number += 1
        end_ns = time.time_ns()
    profiler.export_chrome_trace(trace)
    return {"trace": trace, "start_ns": start_ns, "end_ns": end_ns, "num_steps": number}
