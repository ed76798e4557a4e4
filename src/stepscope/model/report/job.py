"""What only the ranks of a job together show: who is late, when each does what, what a change would win."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from stepscope.model.report.base import Part, Persistence, RowStatus, written


class Straggler(Part, frozen=True, kw_only=True):
    """A rank that others wait for."""

    rank: int
    """Who is late."""
    lateness_ns: int | None = None
    """The median lateness against the median rank, over the steps in which it is late; absent where the input
    has no unit of time."""
    lateness_share: float | None = None
    """The same of its peers' step time; of tables of step times only."""
    cost_ns: int | None = None
    """What the others wait for it, over the window: the last start less the second-last; absent where the
    input has no unit of time."""
    persistence: Persistence
    """Whether it is the same rank always, a different one each step, or a pipeline stage."""
    reason: str
    """A cause of `idle` without `_ns`, `slower_kernels`, `more_work` or `unknown`."""
    share: float | None = None
    """`cost_ns` of the window."""
    num_steps: int | None = None
    """Steps that were judged; absent where no step was marked."""
    num_late: int | None = None
    """Steps in which it is late."""
    late_steps: tuple[int, ...] = field(default_factory=written)
    """Those steps, the first 200 of them."""
    culprit: str | None = None
    """What ran meanwhile: a Python function, an annotation, an op or a kernel; absent where nothing is
    named."""
    is_confirmed: bool | None = None
    """Whether the durations of collectives alone, without any clock, name the same rank; absent where they
    cannot tell."""
    stage: int | None = None
    """Its pipeline stage, where the input tells."""
    data_parallel_rank: int | None = None
    """Its rank among the replicas, where the input tells."""


class RankLateness(Part, frozen=True, kw_only=True):
    """One rank's row of the map of lateness."""

    rank: int
    """Whose row."""
    lateness_ns: tuple[int | None, ...]
    """How much later than the median rank it came, the most in the step; null where it has no such step."""
    wait_ns: tuple[int | None, ...]
    """How long it waited for others in the step; null where it has no such step."""


class Lateness(Part, frozen=True, kw_only=True):
    """Lateness of ranks by step, and how small a lateness can be told."""

    status: RowStatus
    """`withheld`: nobody can be named, `why` says what lacks."""
    noise_ns: int | None = None
    """A rank is late only beyond this: the spread of ordinary steps, and the error of the clocks."""
    noise_share: float | None = None
    """The same of the median step; of tables of step times only."""
    why: str | None = None
    """Why nobody can be named, or why only with doubt."""
    num_collectives: int = 0
    """Matched collectives that make ranks wait for each other."""
    steps: tuple[int, ...] = field(default_factory=written)
    """Columns of the map; at most 200 of the steps."""
    rows: tuple[RankLateness, ...] = field(default_factory=written)
    """One a rank."""


class RankCells(Part, frozen=True, kw_only=True):
    """What one rank did over time."""

    rank: int
    """Whose row."""
    cells: tuple[int, ...]
    """For each cell the place in `RankMap.parts` of what took most of it; -1 where nothing was recorded."""


class RankMap(Part, frozen=True, kw_only=True):
    """Ranks against time, on the corrected clock: what each did."""

    start_ns: int
    """When the first cell begins."""
    cell_ns: int
    """How long a cell is."""
    parts: tuple[str, ...]
    """`compute`, `wait` (in a collective, for a later rank), `communication`, `copy` or a cause of `idle`."""
    rows: tuple[RankCells, ...] = field(default_factory=written)
    """One a rank."""


ImbalanceClass = Literal["bad_worker", "sequence_length", "stage", "expert", "none", "unknown"]


class Imbalance(Part, frozen=True, kw_only=True):
    """Why ranks of a job differ in how much they have to do, or how fast they do it."""

    class_: ImbalanceClass = field(name="class")
    """One bad worker, sequences of different length, stages of different weight, experts of different
    load."""
    why: str
    """The figures that decide, in words."""
    slowdown: float | None = None
    """Step time over what it would be were all equal (every op at the mean of its kind): the ratio of the
    replays."""
    ranks: tuple[int, ...] = field(default_factory=written)
    """Who has more to do, or is slower; empty where it is nobody in particular."""
    stage: int | None = None
    """The pipeline stage that all others wait for."""
    forward_backward_correlation: float | None = None
    """Of the times of forward and backward passes of the same micro-batch: near 1 where its length
    decides."""
    micro_batch_variation: float | None = None
    """Standard deviation over mean of one worker's micro-batches, the median worker."""
    bubble_share: float | None = None
    """Time in which a worker waits for other pipeline stages, of step time."""


class WhatIf(Part, frozen=True, kw_only=True):
    """Step time with one cause removed, by replaying the recorded dependencies."""

    remove: str
    """`input`, `straggler` (no rank works longer than the median one), `imbalance` (all ranks have the mean
    of their work), `communication` (perfect overlap), `launch`, `imbalance` (every operation at the
    mean of its kind), or `compute.<class>` at half its time."""
    step_ns: int
    """Mean step time of the untouched replay."""
    predicted_ns: int
    """Mean step time without it."""
    gain_share: float
    """What that wins, of `step_ns`."""
    ranks: tuple[int, ...] = field(default_factory=written)
    """Whose cause it is; empty for all."""


class PathPart(Part, frozen=True, kw_only=True):
    """What the critical path passes through."""

    part: str
    """`compute.<class>`, `communication` (transfer), `copy`, a cause of `idle`, or `unknown`."""
    time_ns: int
    """How much of the path."""
    share: float
    """Of the path."""
    rank: int | None = None
    """On which rank; absent where a report has one rank."""


class Replay(Part, frozen=True, kw_only=True):
    """The recorded dependencies played again: how well that reproduces the run, and what it predicts."""

    status: RowStatus
    """`withheld` where the untouched replay misses a rank's step by more than 5 %."""
    error_share: float
    """The largest difference between replayed and recorded step time of any rank, of the latter."""
    num_steps: int
    """Steps that were replayed."""
    what_if: tuple[WhatIf, ...] = field(default_factory=written)
    """By what they win; empty where withheld."""
    critical_path: tuple[PathPart, ...] = field(default_factory=written)
    """By time; empty where withheld."""
    why: str | None = None
    """Why it is withheld or degraded."""
