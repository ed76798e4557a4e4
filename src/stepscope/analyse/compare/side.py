"""One side of a comparison: a report, its steps in columns, and what tells whether the work is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec
import numpy as np

from stepscope.model.report import Accounting, Compute, Idle, Report, Step, StepUse
from stepscope.model.report.base import written
from stepscope.model.sample import F64
from stepscope.model.trace import I64

PARTS = ("compute_ns", "communication_exposed_ns", "copy_exposed_ns", "idle_ns")


@dataclass(frozen=True, slots=True)
class StepSeries:
    """Step times of a job, by step number: of each step the median over ranks, in nanoseconds.

    `counted_ns` are the ordinary steps, `all_ns` those and marked ones (checkpoints, evaluations).
    `median_ns` and `mean_ns` are of all steps where only some of them are listed, `None` else.
    """

    number: I64
    counted_ns: F64
    all_ns: F64
    median_ns: float | None = None
    mean_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared. `settings` are versions and settings as the recording has them; `history_ns` medians
    of earlier healthy windows of the job; `command` shows this side alone."""

    name: str
    report: Report
    steps: StepSeries
    settings: Mapping[str, str] = field(default_factory=dict)
    history_ns: tuple[float, ...] = ()
    command: str | None = None

    @property
    def ranks(self) -> frozenset[int]:
        """Ranks that are named."""
        return frozenset(row.rank for row in self.report.accounting if row.rank is not None)


def side_of(
    name: str,
    report: Report,
    *,
    steps: Sequence[Step] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Side:
    """A side from its report. `steps` are all of them, where the report lists only some of very many."""
    return Side(name, report, series_of(report, steps), dict(settings or {}))


def of_ranks(side: Side, ranks: frozenset[int]) -> Side:
    """The side by these of its ranks alone."""
    if not ranks or ranks == side.ranks:
        return side

    def kept(rows: Sequence[object]) -> tuple[object, ...]:
        return tuple(row for row in rows if getattr(row, "rank", None) in ranks)

    names = ("steps", "accounting", "operators", "operator_shapes", "efficiency", "memory")
    report = msgspec.structs.replace(
        side.report, **{name: kept(getattr(side.report, name)) for name in names}
    )
    return replace(side, report=report, steps=series_of(report))


def series_of(report: Report, steps: Sequence[Step] | None = None) -> StepSeries:
    """The step times of a report."""
    rows = step_rows(report)
    if steps is None:
        told = [row for row in rows if row.window == "device" and not row.steps_left_out]
        took = [((row.rank, row.input), {each.step: each.total_ns for each in row.by_step}) for row in told]
        listed: Sequence[Step] = as_accounted(report.steps, took)
    else:
        listed = steps
    series = series_of_steps((each.step, each.dur_ns, each.use) for each in listed)
    num_rows = sum(row.num_steps for row in rows)
    most = max((row.num_steps for row in rows), default=0)
    if steps is not None or len(series.all_ns) >= most or not any(row.steps_left_out for row in rows):
        return series
    medians = [row.variation.median_ns for row in rows if row.variation and row.variation.median_ns]
    return replace(
        series,
        median_ns=float(np.median(medians)) if medians else None,
        mean_ns=sum(row.total_ns for row in rows) / num_rows if num_rows else None,
    )


def as_accounted(
    steps: Sequence[Step], took: Sequence[tuple[tuple[int | None, int | None], Mapping[int, int]]]
) -> list[Step]:
    """The steps with the time that the accounting gives them on the device: rows of ((rank, input), step
    number -> nanoseconds).

    A loop that runs ahead of its device marks its first steps far too short, until the queue is full: the
    device's own steps are what is compared. Of several devices of a rank the longest counts.
    """
    known: dict[tuple[int | None, int | None, int], int] = {}
    for (rank, place), of in took:
        for number, total_ns in of.items():
            key = rank, place, number
            known[key] = max(known.get(key, 0), total_ns)
    return [
        msgspec.structs.replace(each, dur_ns=total_ns)
        if (total_ns := known.get((each.rank, each.input, each.step), 0)) > 0
        else each
        for each in steps
    ]


def series_of_steps(steps: Iterable[tuple[int, int, StepUse]]) -> StepSeries:
    """The series of (number, nanoseconds, use) of all ranks. A step that is cut, captured or warm-up on one
    rank is left out: ranks wait for each other."""
    numbers: dict[int, list[tuple[int, StepUse]]] = {}
    for number, took, use in steps:
        if use != "no_device_data":
            numbers.setdefault(number, []).append((took, use))
    ordinary, every, kept = [], [], []
    for number in sorted(numbers):
        of = numbers[number]
        if not all(use in ("counted", "marked") for _, use in of):
            continue
        typical = float(np.median([took for took, _ in of]))
        every.append(typical)
        if all(use == "counted" for _, use in of):
            ordinary.append(typical)
            kept.append(number)
    return StepSeries(
        np.array(kept, dtype=np.int64),
        np.array(ordinary, dtype=np.float64),
        np.array(every, dtype=np.float64),
    )


def step_rows(report: Report) -> list[Accounting]:
    """The rows that are over steps; of a report without any those of whole traces."""
    rows = [row for row in report.accounting if row.scope == "steps" and row.num_steps]
    return rows or [row for row in report.accounting if row.scope == "trace"]


def cut(side: Side, first: int | None, last: int | None) -> Side:
    """The side by the steps from `first` to `last` alone, both included: step times, and the accounting where
    the report has it step by step. What is of the whole report (ops, signals, findings) is left out."""

    def inside(number: int) -> bool:
        return (first is None or number >= first) and (last is None or number <= last)

    report = side.report
    rows = tuple(made for row in report.accounting if (made := _row_of(row, inside)) is not None)
    steps = tuple(step for step in report.steps if inside(step.step))
    told = [step.step for step in steps]
    window = report.window
    if window is not None:
        window = msgspec.structs.replace(window, steps=(min(told), max(told)) if told else None)
    report = msgspec.structs.replace(
        report, steps=steps, accounting=rows, window=window, operators=written(), operator_shapes=written(),
        collectives=written(), signals=written(), findings=written(), memory=written(),
        efficiency=written(), top_operators=written(),
    )  # fmt: skip
    return replace(side, report=report, steps=series_of(report))


def _row_of(row: Accounting, inside: Callable[[int], bool]) -> Accounting | None:
    """The row by some of its steps; `None` where it is not told step by step."""
    if row.scope != "steps" or row.steps_left_out:
        return None
    mine = [each for each in row.by_step if inside(each.step)]
    if not mine:
        return None
    idle = {name: sum(getattr(each.idle, name) for each in mine) for name in Idle.__struct_fields__}
    took = np.array([each.total_ns for each in mine])
    variation = row.variation
    if variation is not None:
        variation = msgspec.structs.replace(
            variation, first_ns=int(took[0]), median_ns=int(np.median(took)), p95_ns=None, slow_steps=(),
            period_steps=None,
        )  # fmt: skip
    return msgspec.structs.replace(
        row,
        num_steps=len(mine),
        total_ns=int(took.sum()),
        **{name: sum(getattr(each, name) for each in mine) for name in PARTS},
        idle=Idle(**idle),
        by_step=tuple(mine),
        compute=None,
        phases=None,
        communication=None,
        host=None,
        variation=variation,
    )


def parts_of(row: Accounting) -> dict[str, int]:
    """The parts of a row in nanoseconds, as `PartChange.part` names them."""
    found = {name.removesuffix("_ns"): cast("int", getattr(row, name)) for name in PARTS[:-1]}
    found |= {f"idle.{name.removesuffix('_ns')}": getattr(row.idle, name) for name in Idle.__struct_fields__}
    if row.compute is not None:
        found |= {
            f"compute.{name.removesuffix('_ns')}": getattr(row.compute, name)
            for name in Compute.__struct_fields__
        }
    return found
