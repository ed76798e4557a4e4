"""The summary of a trace by op and kernel, `stepscope.ops/1`: what to keep of a profiled step when the trace
itself is too large to keep.

Tables are columns of equal length; a number that points into another table is its row there. Times are
integer nanoseconds. The sums are over every event of the step, not over the hottest ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import field

from stepscope.model.report.base import Part, StepUse, written

OPS_SCHEMA: Literal["stepscope.ops/1"] = "stepscope.ops/1"


class SummaryStep(Part, frozen=True, kw_only=True):
    """One profiled step."""

    step: int
    """Its number, as the profiler wrote it."""
    start_ns: int
    """When it begins."""
    dur_ns: int
    """How long it is."""
    use: StepUse
    """How a report uses it."""


class Ops(Part, frozen=True, kw_only=True):
    """The distinct ops: by name and by the shapes and types of their inputs."""

    name: tuple[int, ...] = field(default_factory=written)
    """In `texts`."""
    dims: tuple[int, ...] = field(default_factory=written)
    """In `texts`: the shapes of the inputs, as JSON; -1 where they were not recorded."""
    types: tuple[int, ...] = field(default_factory=written)
    """In `texts`: the types of the inputs, as JSON; -1 where they were not recorded."""


class OpSteps(Part, frozen=True, kw_only=True):
    """What an op did in a step."""

    step: tuple[int, ...] = field(default_factory=written)
    """In `steps`; -1 outside of every step."""
    op: tuple[int, ...] = field(default_factory=written)
    """In `ops`."""
    count: tuple[int, ...] = field(default_factory=written)
    """How often it was called."""
    host_ns: tuple[int, ...] = field(default_factory=written)
    """Sum of its durations on the host, ops that it calls included."""
    device_ns: tuple[int, ...] = field(default_factory=written)
    """Sum of the durations of the device work that it launched itself."""


class Kernels(Part, frozen=True, kw_only=True):
    """The distinct kernels, copies and sets: by name and launching op."""

    name: tuple[int, ...] = field(default_factory=written)
    """In `texts`."""
    op: tuple[int, ...] = field(default_factory=written)
    """The innermost op that launched it, in `ops`; -1 where none was open or no launch is known."""


class KernelSteps(Part, frozen=True, kw_only=True):
    """What a kernel did in a step (that in which it was launched)."""

    step: tuple[int, ...] = field(default_factory=written)
    """In `steps`; -1 outside of every step."""
    kernel: tuple[int, ...] = field(default_factory=written)
    """In `kernels`."""
    count: tuple[int, ...] = field(default_factory=written)
    """How often it ran."""
    device_ns: tuple[int, ...] = field(default_factory=written)
    """Sum of its durations."""
    max_ns: tuple[int, ...] = field(default_factory=written)
    """The longest of them."""


class TraceSummary(Part, frozen=True, kw_only=True):
    """One trace."""

    input: str
    """The trace's name, as in a report."""
    rank: int | None = None
    """Absent where the trace names none."""
    texts: tuple[str, ...] = field(default_factory=written)
    """Names, shapes and types."""
    merged_ops: int
    """How many distinct ops of least time stand together as `(others)`, for the file to stay small."""
    merged_kernels: int
    """How many distinct kernels do."""
    left_out: int | None = None
    """Ops and kernels that no sum holds, for a zero, negative or far-off time; absent in files of before."""
    steps: tuple[SummaryStep, ...] = field(default_factory=written)
    """Every step; empty where none was marked."""
    ops: Ops = field(default_factory=Ops)
    """The distinct ops."""
    op_steps: OpSteps = field(default_factory=OpSteps)
    """A row for each op and step in which it was called."""
    kernels: Kernels = field(default_factory=Kernels)
    """The distinct kernels."""
    kernel_steps: KernelSteps = field(default_factory=KernelSteps)
    """A row for each kernel and step in which it was launched."""

    def rows(self) -> Iterator[OpRow]:
        """Each row of `op_steps`, in words."""
        for step, op, count, host_ns, device_ns in zip(
            self.op_steps.step,
            self.op_steps.op,
            self.op_steps.count,
            self.op_steps.host_ns,
            self.op_steps.device_ns,
            strict=True,
        ):
            dims, types = self.ops.dims[op], self.ops.types[op]
            yield OpRow(
                self.steps[step].step if step >= 0 else None,
                self.texts[self.ops.name[op]],
                self.texts[dims] if dims >= 0 else None,
                self.texts[types] if types >= 0 else None,
                count,
                host_ns,
                device_ns,
            )


def _schema() -> Literal["stepscope.ops/1"]:
    return OPS_SCHEMA


class OpSummary(Part, frozen=True, kw_only=True):
    """The whole file."""

    schema: Literal["stepscope.ops/1"] = field(default_factory=_schema)
    """The version of this shape."""
    version: str
    """The version of stepscope that wrote it."""
    traces: tuple[TraceSummary, ...] = field(default_factory=written)
    """One entry a trace."""


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op in one step; `step` is its number, `None` outside of every step."""

    step: int | None
    name: str
    dims: str | None
    types: str | None
    count: int
    host_ns: int
    device_ns: int


def decode(data: bytes | str) -> OpSummary:
    """A summary from its JSON; a field that does not fit raises `msgspec.ValidationError` with its path."""
    return msgspec.json.decode(data, type=OpSummary)
