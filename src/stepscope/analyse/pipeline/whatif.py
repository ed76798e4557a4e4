"""A timeline played again: as recorded, without pauses, as an even job, and without one cause at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.pipeline.dependency import Dependencies, dependencies
from stepscope.analyse.pipeline.imbalance import Passes, Uneven, imbalance
from stepscope.analyse.pipeline.operation import BACKWARD, FORWARD, operation
from stepscope.analyse.replay.graph import critical_edges, play
from stepscope.model.table import Timeline
from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]
AT_ONCE = 4
"""Scenarios that are played together: eight bytes an edge each."""
MOST_PATHS = 8
"""Steps whose critical path is walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Step time without one cause: `without_ns` by step, to be compared with `Played.tight_ns`."""

    remove: str
    ranks: tuple[int, ...]
    without_ns: I64


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Step times by step, in nanoseconds, and what follows.

    `recorded_ns` from the table itself; `replayed_ns` of the untouched replay; `tight_ns` without any pause
    between operations; `even_ns` as tight, every operation at the mean of its kind.
    """

    steps: I64
    recorded_ns: I64
    replayed_ns: I64
    tight_ns: I64
    even_ns: I64
    error_share: float
    """The largest difference of any worker's step between replay and record."""
    gains: tuple[Gain, ...]
    """Each against `tight_ns`."""
    path: tuple[tuple[str, int, int], ...]
    """(part, rank, nanoseconds) of the critical path of the tight replay, summed over a few steps."""
    bubble_share: float
    """Time in which a worker waits for neighbouring stages, of step time, the mean worker."""
    passes: Passes
    uneven: Uneven
    dependencies: Dependencies

    @property
    def slowdown(self) -> float:
        """Step time over that of the even job: both without pauses, which may hide waiting of their own."""
        return float(self.tight_ns.sum() / max(int(self.even_ns.sum()), 1))

    def won_ns(self, gain: Gain) -> int:
        """What a cause costs over all steps."""
        return max(int((self.tight_ns - gain.without_ns).sum()), 0)


def played(timeline: Timeline) -> Played:
    """Play a timeline. Raises CycleError where what is recorded contradicts itself."""
    parts = dependencies(timeline)
    steps, place = np.unique(timeline.step, return_inverse=True)
    place = place.reshape(-1)
    ends = _play(
        parts, [(parts.transfer_ns, True), (parts.transfer_ns, False), (_even(timeline, parts), False)]
    )
    end = timeline.start_ns + timeline.duration_ns
    origin = _least(timeline.start_ns, place, len(steps))
    recorded = _most(end - origin[place], place, len(steps))
    replayed, tight, even = (_most(each, place, len(steps)) for each in ends)
    lane = np.unique(np.stack([timeline.step, timeline.rank], axis=1), axis=0, return_inverse=True)[
        1
    ].reshape(-1)
    num_lanes = int(lane.max(initial=-1)) + 1
    own, again = _most(end - origin[place], lane, num_lanes), _most(ends[0], lane, num_lanes)
    slowdown = float(tight.sum() / max(int(even.sum()), 1))
    passes = passes_of(timeline)
    uneven = imbalance(passes, slowdown)
    causes = _causes(timeline, parts, uneven)
    without = _play(parts, [(durations, False) for _, _, durations in causes])
    return Played(
        steps=steps,
        recorded_ns=recorded,
        replayed_ns=replayed,
        tight_ns=tight,
        even_ns=even,
        error_share=float(np.abs(again / np.maximum(own, 1) - 1).max(initial=0.0)),
        gains=tuple(
            Gain(remove=name, ranks=ranks, without_ns=_most(each, place, len(steps)))
            for (name, ranks, _), each in zip(causes, without, strict=True)
        ),
        path=_path(timeline, parts, place, len(steps)),
        bubble_share=_bubble(timeline, parts, recorded),
        passes=passes,
        uneven=uneven,
        dependencies=parts,
    )


def passes_of(timeline: Timeline) -> Passes:
    """Forward and backward passes of the same (step, rank, chunk, number), side by side."""
    kinds = {name: number for number, name in enumerate(timeline.kinds)}
    key = np.unique(
        np.stack(
            [timeline.step, timeline.rank, timeline.chunk, timeline.micro_batch, timeline.sequence], axis=1
        ),
        axis=0,
        return_inverse=True,
    )[1].reshape(-1)
    forward = np.flatnonzero(timeline.kind == kinds.get(FORWARD, -1))
    backward = np.flatnonzero(timeline.kind == kinds.get(BACKWARD, -1))
    _, a, b = np.intersect1d(key[forward], key[backward], return_indices=True)
    rows, other = forward[a], backward[b]
    return Passes(
        rank=timeline.rank[rows],
        stage=timeline.stage[rows],
        data_parallel_rank=timeline.data_parallel_rank[rows],
        step=timeline.step[rows],
        micro_batch=timeline.micro_batch[rows],
        forward_ns=timeline.duration_ns[rows],
        backward_ns=timeline.duration_ns[other],
    )


def _play(parts: Dependencies, scenarios: Sequence[tuple[I64, bool]]) -> list[I64]:
    """When each operation ends, from the start of its step, for each (durations, with pauses)."""
    result: list[I64] = []
    for low in range(0, len(scenarios), AT_ONCE):
        some = scenarios[low : low + AT_ONCE]
        weights = np.stack([parts.weights(durations, with_gaps=gaps) for durations, gaps in some])
        begins = np.stack([parts.begins(with_gaps=gaps) for _, gaps in some])
        values = play(parts.graph, weights, begins)
        result += [row[1 : 2 * len(parts.transfer_ns) : 2] for row in values]
    return result


def _most(values: I64, place: I64, num: int) -> I64:
    most = np.full(num, np.iinfo(np.int64).min)
    np.maximum.at(most, place, values)
    return most


def _least(values: I64, place: I64, num: int) -> I64:
    least = np.full(num, np.iinfo(np.int64).max)
    np.minimum.at(least, place, values)
    return least


def _even(timeline: Timeline, parts: Dependencies) -> I64:
    """Every operation at the mean of its kind."""
    count = np.maximum(np.bincount(timeline.kind, minlength=len(timeline.kinds)), 1)
    mean = np.bincount(timeline.kind, parts.transfer_ns, len(timeline.kinds)) / count
    whole: I64 = np.rint(mean).astype(np.int64)
    each: I64 = whole[timeline.kind]
    return each


def _causes(
    timeline: Timeline, parts: Dependencies, uneven: Uneven
) -> list[tuple[str, tuple[int, ...], I64]]:
    """(what to remove, of whom, durations without it)."""
    causes: list[tuple[str, tuple[int, ...], I64]] = []
    if uneven.ranks:
        of_peers = _of_peers(timeline, parts, uneven.ranks)
        causes.append(("straggler", uneven.ranks, of_peers))
    is_talk = np.array([operation(name).part == "communication" for name in timeline.kinds], dtype=bool)
    causes.append(("communication", (), np.where(is_talk[timeline.kind], 0, parts.transfer_ns)))
    return causes


def _of_peers(timeline: Timeline, parts: Dependencies, ranks: tuple[int, ...]) -> I64:
    """Durations with those of these ranks at the median of their kind on the other workers of their stage."""
    is_slow = np.isin(timeline.rank, ranks)
    durations: I64 = parts.transfer_ns.copy()
    for stage in np.unique(timeline.stage[is_slow]):
        for kind in range(len(timeline.kinds)):
            mine = (timeline.stage == stage) & (timeline.kind == kind)
            slow, others = mine & is_slow, mine & ~is_slow
            if slow.any() and others.any():
                durations[slow] = int(np.median(durations[others]))
    return durations


def without_ranks(timeline: Timeline, play_of: Played, ranks: Sequence[int]) -> list[Gain]:
    """What it wins to have each of these ranks work as fast as the others of its stage."""
    parts = play_of.dependencies
    place = np.searchsorted(play_of.steps, timeline.step)
    ends = _play(parts, [(_of_peers(timeline, parts, (rank,)), False) for rank in ranks])
    return [
        Gain(remove="straggler", ranks=(rank,), without_ns=_most(each, place, len(play_of.steps)))
        for rank, each in zip(ranks, ends, strict=True)
    ]


def without_stage(timeline: Timeline, play_of: Played, stage: int) -> I64:
    """Step times were every operation of this stage at the mean of its kind over all stages."""
    parts = play_of.dependencies
    even = np.where(timeline.stage == stage, _even(timeline, parts), parts.transfer_ns)
    return _most(
        _play(parts, [(even, False)])[0], np.searchsorted(play_of.steps, timeline.step), len(play_of.steps)
    )


def _path(timeline: Timeline, parts: Dependencies, place: I64, num: int) -> tuple[tuple[str, int, int], ...]:
    """What decides when a step ends, over up to MOST_PATHS steps at equal distances."""
    weights = parts.weights(parts.transfer_ns, with_gaps=False)
    value = play(parts.graph, weights, parts.begins(with_gaps=False))[0]
    ends = value[1 : 2 * len(timeline) : 2]
    known = [operation(name).part for name in timeline.kinds]
    total: dict[tuple[str, int], int] = {}
    for step in np.unique(np.linspace(0, num - 1, min(num, MOST_PATHS)).astype(int)):
        rows = np.flatnonzero(place == step)
        last = int(rows[ends[rows].argmax()])
        for edge in critical_edges(parts.graph, weights, value, 2 * last + 1).tolist():
            if weights[edge] > 0:
                op = int(parts.edge_op[edge])
                key = known[timeline.kind[op]], int(timeline.rank[op])
                total[key] = total.get(key, 0) + int(weights[edge])
    return tuple(
        (part, rank, time) for (part, rank), time in sorted(total.items(), key=lambda item: -item[1])
    )


def _bubble(timeline: Timeline, parts: Dependencies, step_ns: I64) -> float:
    passing = np.array([operation(name).peers in ("next", "previous") for name in timeline.kinds], dtype=bool)
    rows = np.flatnonzero(passing[timeline.kind])
    # Of a batch of two the wait is one.
    lane = np.stack([timeline.step[rows], timeline.rank[rows], timeline.start_ns[rows]], axis=1)
    _, first = np.unique(lane, axis=0, return_index=True)
    waited = int(parts.wait_ns[rows[first]].sum())
    num_workers = len(np.unique(timeline.rank))
    if len(np.unique(timeline.stage)) > 1:  # a later stage is done before the first one
        end = timeline.start_ns + timeline.duration_ns
        lane, row = np.unique(np.stack([timeline.step, timeline.rank], axis=1), axis=0, return_inverse=True)
        own = _most(end, row.reshape(-1), len(lane))
        _, place = np.unique(lane[:, 0], return_inverse=True)
        waited += int((_most(own, place.reshape(-1), len(step_ns))[place.reshape(-1)] - own).sum())
    return min(waited / max(int(step_ns.sum()) * num_workers, 1), 1.0)
