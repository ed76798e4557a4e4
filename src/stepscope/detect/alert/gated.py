"""Series of jobs against their own normal: which rows of `detect.stream.Gates` are whose, and what they say.

A row belongs to a job, not to a run: a new run is first held against the job's last normal without being
judged. Where its first steps take as long, that normal goes on; where they do not (another shape, another
number of ranks), all of the job's rows are learned anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.detect.kind import FEWER, SHARE_DOWN, SLOWER, SeriesKind
from stepscope.detect.series import Verdicts
from stepscope.detect.stream import Gates
from stepscope.model.alarm import AlarmSeverity
from stepscope.model.trace import ABSENT_I64

NS = 1_000_000_000
_SHARE_UP = SeriesKind(direction="up", is_ratio=True)
KINDS: Mapping[str, SeriesKind] = {
    "step_seconds": SLOWER,
    "step_mean_seconds": SLOWER,
    "tokens_per_second": FEWER,
    "communication_seconds": SLOWER,
    "data_wait_ratio": _SHARE_UP,
    "tensor_active_ratio": SHARE_DOWN,
    "sm_active_ratio": SHARE_DOWN,
    "dram_active_ratio": _SHARE_UP,
}
STEPS, MEANS = "step_seconds", "step_mean_seconds"
COUNTERS = ("tensor_active_ratio", "sm_active_ratio", "dram_active_ratio")
"""By the second and not by the step: what they show follows the pace of the steps."""
MEAN_OF, MEAN_EVERY = 20, 5
"""Steps of which a point of `MEANS` is the mean, and from one to the next: what one long step touches, or a
plateau of four, is no six points of eight."""
RARE = 0.14
"""One step in fifty that takes twice as long, as a standard deviation: a hundred steps may well show none."""
LEVELS: tuple[AlarmSeverity, ...] = ("info", "info", "warning", "critical")
"""By the gate's severity 0..3; 0 is a drift alone."""
WARM_UP, TRIED = 10, 16
"""Steps of a new run that are passed over, and that are then held against the job's last normal."""
LEAST_EFFECT = 0.05
"""A drift below it is not told: the sum finds what nobody would act on."""
SAME_RATIO = 0.05
NEEDED = 60
"""Clean points before anything is judged."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a series: `rank` `None` of what is the whole job's."""

    job: str
    feature: str
    rank: int | None
    value: float
    is_clean: bool
    at_ns: int


@dataclass(frozen=True, slots=True)
class Left:
    """A series is away from its normal: `severity` 0 of a drift alone. `effect` as in `SeriesKind`."""

    point: Point
    severity: int
    effect: float | None
    normal: float
    onset_ns: int
    is_specified: bool


@dataclass(frozen=True, slots=True)
class Back:
    """It is back, since `since_ns`."""

    point: Point
    since_ns: int


@dataclass(slots=True)
class _Trial:
    """The first steps of a new run."""

    num: int = 0
    took: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    number: int
    is_away: bool = False
    back_ns: int | None = None
    num_baseline: int = 0
    normal: float = float("nan")
    effect: float = 0.0
    """Of its last clean point."""


class Gated:
    """`push` points and hear what left its normal, or came back."""

    def __init__(self, clear_for_ns: Mapping[str, int]) -> None:
        self._gates = Gates()
        self._rows: dict[tuple[str, str, int | None], _Row] = {}
        self._free: dict[SeriesKind, list[int]] = {}
        self._trials: dict[str, _Trial] = {}
        self._clear_for_ns = clear_for_ns

    def begin(self, job: str, *, is_same_shape: bool) -> None:
        """A new run of a job. `is_same_shape`: it has as many ranks as the one before."""
        known = [row for (name, _, _), row in self._rows.items() if name == job]
        if not known:
            return
        for row in known:
            row.is_away, row.back_ns = False, None
        if is_same_shape and self.num_learned(job):
            self._trials[job] = _Trial()
        else:
            self._reset(job)

    def forget(self, job: str) -> None:
        """Nobody will ask for this job again."""
        self._trials.pop(job, None)
        for key in [key for key in self._rows if key[0] == job]:
            row = self._rows.pop(key)
            self._gates.reset(np.array([row.number]))
            self._free.setdefault(KINDS[key[1]], []).append(row.number)

    def num_learned(self, job: str) -> int:
        """Clean steps behind the normal of its step time; 0 while it is learned."""
        row = self._rows.get((job, STEPS, None))
        return 0 if row is None else row.num_baseline

    def is_trying(self, job: str) -> bool:
        """Whether a new run is held against the last one's normal."""
        return job in self._trials

    def push(self, points: Sequence[Point]) -> list[Left | Back]:
        """At most one point of a series."""
        if not points:
            return []
        rows = [self._row(each) for each in points]
        verdicts = self._gates.push(
            np.array([row.number for row in rows], dtype=np.int64),
            np.array([each.value for each in points]),
            np.array([self._counts(each, row) for each, row in zip(points, rows, strict=True)]),
            np.array([each.at_ns for each in points], dtype=np.int64),
        )
        found: list[Left | Back] = []
        for n, (point, row) in enumerate(zip(points, rows, strict=True)):
            row.num_baseline, row.normal = int(verdicts.num_baseline[n]), float(verdicts.normal[n])
            if point.is_clean:
                effect = float(verdicts.effect[n])
                row.effect = 0.0 if effect != effect else effect
            told = self._turn(point, row, verdicts, n)
            if told is not None:
                found.append(told)
        for each in points:
            if each.feature != STEPS:
                continue
            if each.job in self._trials and each.is_clean:
                self._try(each.job, each.value)
            self._adopt(each.job)
        return found

    def _counts(self, point: Point, row: _Row) -> bool:
        """Whether it is learned from and judged. A counter's normal is that of ordinary steps: learned or
        improved upon while the steps are slow, their recovery would look like a fault. And memory that is
        busier because steps are shorter is no fault either."""
        if not point.is_clean or point.job in self._trials:
            return False
        if point.feature not in COUNTERS:
            return True
        steps = self._rows.get((point.job, STEPS, None))
        if steps is None or not steps.num_baseline:
            return True
        is_usual = not steps.is_away and abs(steps.effect) < LEAST_EFFECT
        is_less_a_fault = point.feature != "dram_active_ratio"
        return is_usual or (is_less_a_fault and row.num_baseline > 0)

    def _adopt(self, job: str) -> None:
        """What is normal of a mean of steps follows from the steps: nobody waits for a hundred means."""
        steps, means = self._rows.get((job, STEPS, None)), self._rows.get((job, MEANS, None))
        if steps is None or means is None or not steps.num_baseline or means.num_baseline:
            return
        mean, deviation = self._gates.mean_of(steps.number)
        sigma = float(np.hypot(deviation, RARE * mean)) / MEAN_OF**0.5
        self._gates.adopt(means.number, mean, sigma, steps.num_baseline, round(MEAN_EVERY * mean * NS))
        means.num_baseline, means.normal = steps.num_baseline, mean

    def _turn(self, point: Point, row: _Row, verdicts: Verdicts, n: int) -> Left | Back | None:
        if not self._counts(point, row) or bool(verdicts.is_masked[n]):
            return None
        level, effect = int(verdicts.severity[n]), float(verdicts.effect[n])
        if level or (bool(verdicts.drift[n]) and not abs(effect) < LEAST_EFFECT):
            row.is_away, row.back_ns = True, None
            onset = int(verdicts.onset_ns[n])
            return Left(
                point,
                level,
                None if effect != effect else effect,
                float(verdicts.normal[n]),
                point.at_ns if onset == ABSENT_I64 else onset,
                bool(verdicts.specified[n]),
            )
        if not row.is_away:
            return None
        if row.back_ns is None:
            row.back_ns = point.at_ns
        if point.at_ns - row.back_ns < self._clear_for_ns.get(point.feature, 30 * NS):
            return None
        row.is_away, since = False, row.back_ns
        return Back(point, since)

    def _row(self, point: Point) -> _Row:
        key = (point.job, point.feature, point.rank)
        row = self._rows.get(key)
        if row is None:
            kind = KINDS[point.feature]
            free = self._free.get(kind)
            number = free.pop() if free else int(self._gates.add([kind])[0])
            row = self._rows[key] = _Row(number)
        return row

    def _try(self, job: str, took: float) -> None:
        trial = self._trials[job]
        trial.num += 1
        if trial.num > WARM_UP:
            trial.took.append(took)
        if len(trial.took) < TRIED:
            return
        del self._trials[job]
        normal = self._rows[job, STEPS, None].normal
        if not abs(float(np.median(trial.took)) - normal) <= SAME_RATIO * normal:
            self._reset(job)

    def _reset(self, job: str) -> None:
        rows = [row for (name, _, _), row in self._rows.items() if name == job]
        self._gates.reset(np.array([row.number for row in rows], dtype=np.int64))
        for row in rows:
            row.is_away, row.back_ns, row.num_baseline, row.effect = False, None, 0, 0.0
