"""Runs made of ops with one kernel each, back to back: what rules of kernels are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stepscope
from stepscope.analyse.rank import analyse_rank
from stepscope.model import report
from stepscope.model.analysis import DeviceAnalysis
from stepscope.trace.load import load
from tests.analyse.build import Build

H100, A100, V100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"
BF16, FP32 = "c10::BFloat16", "float"


@dataclass(frozen=True)
class Op:
    """An op with one kernel that runs so many microseconds."""

    name: str
    us: float
    dims: Sequence[Any] = ()
    type: str = FP32
    kernel: str = "void at::native::vectorized_elementwise_kernel<4>"
    strides: Sequence[Any] | None = None
    times: int = 1
    args: dict[str, Any] = field(default_factory=dict)


def dense(shape: Sequence[int]) -> list[int]:
    """Strides of a dense tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def arguments(op: Op) -> dict[str, Any]:
    if not op.dims:
        return dict(op.args)
    tensors = [shape != [] for shape in op.dims]
    found = {
        "Input Dims": [list(shape) for shape in op.dims],
        "Input type": [op.type if is_tensor else "Scalar" for is_tensor in tensors],
        **op.args,
    }
    if op.strides is not None:
        found["Input Strides"] = [list(each) for each in op.strides]
    return found


def run(ops: Sequence[Op], device: str | None = H100, steps: int = 3, pause_us: float = 0) -> Build:
    """So many steps of these ops, all launched at the step's start: the device is idle in pauses alone."""
    properties = {"deviceProperties": [{"id": 0, "name": device}]} if device else {}
    build = Build(**properties)
    length = sum((op.us + pause_us) * op.times for op in ops)
    begin = 1000.0
    build = busy_until(build, begin)
    for number in range(steps):
        host, at = number * length, begin + number * length
        build = build.step(number, host, host + length)
        for op in ops:
            for _ in range(op.times):
                build = build.op(op.name, host + 1, host + 1.4, **arguments(op))
                build = build.kernel(op.kernel, at, at + op.us, launched=(host + 1.1, host + 1.2))
                host, at = host + 0.5, at + op.us + pause_us
    return build


def busy_until(build: Build, end: float) -> Build:
    """A kernel launched before the first step: the first window begins where it ends."""
    return build.kernel("void warm_up()", 0, end, launched=(-8, -7))


def device_of(build: Build, where: Path) -> DeviceAnalysis:
    """The analysis of its one device."""
    file = where / "t.json"
    file.write_text(build.write())
    (analysis,) = analyse_rank(load(str(file)))
    (device,) = analysis.devices
    return device


def report_of(build: Build, where: Path) -> report.Report:
    """The report of the run."""
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)
