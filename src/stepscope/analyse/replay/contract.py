"""From a record to a program: runs of activities become one event each.

On a stream, activity j starts when the one before has ended and when its launch has arrived. Of a run of
them only its end matters to others, and that is `max(T + D, H + M)`: T when the stream was free and D the sum
of the durations; H the host event behind which all of the run was issued and M the greatest of (launch of j +
latency + durations from j on).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay import program as pr
from stepscope.analyse.replay.edge import Edges
from stepscope.analyse.replay.program import BASE, NEVER, OVERLAP, Program
from stepscope.analyse.replay.queue import NO_WORK
from stepscope.analyse.replay.record import Record
from stepscope.model import report
from stepscope.model.trace import I64
from stepscope.trace.link import COMMUNICATION


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs in order of (stream, start): first and last activity of each; `of` is the run of each activity.

    Events: `tail` of each stream (work before the program), `end` of each run, `ready` of each collective
    (-1 for other runs) and `bound` of each step on the device; the host's come first, from 0 on.
    """

    first: I64
    last: I64
    of: I64
    is_talk: npt.NDArray[np.bool_]
    opens: npt.NDArray[np.bool_]
    stream: I64
    segment: I64
    tail: I64
    end: I64
    ready: I64
    bound: I64

    @property
    def target(self) -> I64:
        """The event of each run that waits."""
        return np.where(self.is_talk, self.ready, self.end)


@dataclass(frozen=True, slots=True)
class _Times:
    """(scenarios, runs): `through` a run with its gaps, `launched` from its host event to its end,
    `last_launched` the same by its last launch alone, `from_first` from the start of its first activity.
    Communication's own time is in none. `binding` is the activity of each run that decides `launched`."""

    through: I64
    launched: I64
    last_launched: I64
    from_first: I64
    binding: I64


def contracted(
    r: Record,
    table_row: I64,
    *,
    rank: int | None,
    window: Literal["host", "device"],
    status: report.RowStatus,
) -> Program:
    """The program. `table_row` is the row of each activity among the device's communication, -1 for none."""
    runs = _runs(r)
    times = _times(r, runs)
    begin = np.full(int(runs.bound[-1]) + 1, NEVER, dtype=np.int64)
    begin[0], begin[runs.tail], begin[runs.bound[0]] = r.bounds[0], r.q.free_ns, r.device_ns[0]
    # What nothing recorded precedes begins when it did.
    alone = ~r.q.has_launch[runs.first] & runs.opens & (r.q.free_ns[runs.stream] <= NO_WORK)
    begin[runs.target[alone]] = r.q.start_ns[runs.first[alone]] + times.from_first[0, alone]

    e = Edges(r.scenarios)
    _host_edges(e, r)
    _stream_edges(e, r, runs, times)
    _launch_edges(e, r, runs, times)
    _event_edges(e, r, runs, times)
    own_edge = e.num_edges + np.cumsum(runs.is_talk) - 1
    _own_edges(e, r, runs)
    _wait_edges(e, r, runs)
    _bound_edges(e, r, runs)
    talk = runs.of[r.talks]
    return Program(
        rank=rank,
        window=window,
        step=r.number,
        host_ns=r.bounds,
        device_ns=r.device_ns,
        host_node=np.searchsorted(r.line.at_ns, r.bounds).astype(np.int64),
        device_node=runs.bound,
        scenarios=r.scenarios,
        begin=begin,
        collective_row=table_row[r.talks],
        collective_start_ns=r.q.start_ns[r.talks],
        collective_stream=r.q.stream[r.talks],
        ready=runs.ready[talk].astype(np.int32),
        done=runs.end[talk].astype(np.int32),
        own_edge=own_edge[talk].astype(np.int32),
        unexplained_share=r.unexplained_share,
        status=status,
        **e.columns(),
    )


def _runs(r: Record) -> _Runs:
    """A run ends where its stream, or the host event behind which it was issued, changes; around collectives;
    behind an activity that others wait for; and before one that waits for others."""
    q = r.q
    cut = q.opens
    cut[1:] |= (r.node[1:] != r.node[:-1]) | (q.has_launch[1:] != q.has_launch[:-1])
    cut[r.talks] = True
    behind = np.concatenate([r.talks, r.lags.source, r.waits.activity[r.waits.activity >= 0]]) + 1
    cut[behind[behind < len(q)]] = True
    cut[r.lags.target] = True
    first = np.flatnonzero(cut).astype(np.int64)
    is_talk = q.part[first] == COMMUNICATION
    num_talks = int(is_talk.sum())
    tail = len(r.line.at_ns) + np.arange(len(q.free_ns), dtype=np.int64)
    end = tail[-1] + 1 + np.arange(len(first), dtype=np.int64)
    ready = np.full(len(first), -1, dtype=np.int64)
    ready[is_talk] = end[-1] + 1 + np.arange(num_talks)
    return _Runs(
        first=first,
        last=np.append(first[1:], len(q)) - 1,
        of=(np.cumsum(cut) - 1).astype(np.int64),
        is_talk=is_talk,
        opens=q.opens[first],
        stream=q.stream[first],
        segment=np.searchsorted(q.issued_ns[r.talks], q.issued_ns[first], side="left").astype(np.int64),
        tail=tail,
        end=end,
        ready=ready,
        bound=end[-1] + 1 + num_talks + np.arange(len(r.bounds), dtype=np.int64),
    )


def _times(r: Record, runs: _Runs) -> _Times:
    q, first, last = r.q, runs.first, runs.last
    own = np.where(runs.is_talk, r.duration_ns[first], 0)
    columns: list[list[I64]] = [[], [], [], []]
    binding = first
    for scenario in r.scenarios:
        duration = r.duration_in(scenario)
        reach = np.cumsum(r.lags.gap_ns + duration)
        rest = reach[last][runs.of] - reach + duration
        offset = r.host_work(scenario, r.line.at_ns[r.node], q.issued_ns)
        arrival = np.where(q.has_launch, offset + r.lags.latency_ns + rest, NEVER)
        latest = np.maximum.reduceat(arrival, first)
        if scenario == BASE:
            hit = np.flatnonzero(arrival == latest[runs.of])
            binding = hit[np.unique(runs.of[hit], return_index=True)[1]]
        through = reach[last] - np.append(np.int64(0), reach)[first]
        for column, each in zip(columns, (through, latest, arrival[last], rest[first]), strict=True):
            column.append(each - own)
    through_, launched, last_launched, from_first = (np.array(column) for column in columns)
    return _Times(through_, launched, last_launched, from_first, binding.astype(np.int64))


def _sum(parts: list[tuple[int, I64]], num: int) -> I64:
    return sum((ns for _, ns in parts), np.zeros(num, dtype=np.int64))


def _host_edges(e: Edges, r: Record) -> None:
    """The host goes from event to event; its edges come first: edge k leads from event k to the next."""
    line, w = r.line, r.waits
    start, end, wait = line.at_ns[:-1], line.arrive_ns[1:], line.wait[1:]
    weight = np.array([r.host_work(scenario, start, end) + line.cost_ns[1:] for scenario in r.scenarios])
    is_copy = np.append(w.is_copy, False)[wait]
    e.add(
        np.arange(len(start)),
        np.arange(1, len(start) + 1),
        weight,
        rest=np.where(wait < 0, pr.UNKNOWN, np.where(is_copy, pr.COPY_WAIT, pr.HOST_SYNC)),
        parts=r.host_parts(start, end),
        segment=np.searchsorted(r.q.issued_ns[r.talks], line.at_ns[1:], side="left"),
        host_part=weight[0],
        host_edge=np.arange(len(start)),
    )


def _stream_edges(e: Edges, r: Record, runs: _Runs, times: _Times) -> None:
    """A run begins when the one before it on its stream has ended.

    With perfect overlap a computation behind a collective follows the computation before that, and a
    collective follows the collective before it.
    """
    overlap, talks = r.scenarios.index(OVERLAP), runs.is_talk
    place = np.arange(len(runs.first))
    before = np.where(runs.opens, runs.tail[runs.stream], np.append(np.int64(0), runs.end[:-1]))
    is_behind = np.append(False, talks[:-1]) & ~runs.opens & ~talks
    weight = times.through.copy()
    weight[overlap, is_behind] = NEVER
    parts = r.device_parts(runs.first, runs.last)
    e.add(
        before,
        runs.target,
        weight,
        rest=pr.QUEUED,
        parts=parts,
        segment=runs.segment,
        device_part=_sum(parts, len(place)),
    )
    begins = np.maximum.accumulate(np.where(runs.opens, place, 0))
    last_plain = np.append(-1, np.maximum.accumulate(np.where(~talks, place, -1))[:-1])
    last_talk = np.append(-1, np.maximum.accumulate(np.where(talks, place, -1))[:-1])

    over = np.flatnonzero(is_behind)
    is_inside = last_plain[over] >= begins[over]
    source = np.where(is_inside, runs.end[last_plain[over]], runs.tail[runs.stream[over]])
    weight = np.full((len(r.scenarios), len(over)), NEVER, dtype=np.int64)
    weight[overlap] = times.through[overlap, over]
    e.add(source, runs.end[over], weight, rest=pr.QUEUED)
    after = np.flatnonzero(talks & ~runs.opens & np.append(False, ~talks[:-1]) & (last_talk >= begins))
    e.add(runs.end[last_talk[after]], runs.ready[after], 0, rest=pr.QUEUED)


def _launch_edges(e: Edges, r: Record, runs: _Runs, times: _Times) -> None:
    """A run ends no sooner than its launches allow: by the one that decides, and by the last, which decides
    where the device is faster."""
    has = r.q.has_launch[runs.first]
    paused = np.cumsum(r.lags.gap_ns)
    for which, at, weight in (
        (has, times.binding, times.launched),
        (has & (runs.last > runs.first), runs.last, times.last_launched),
    ):
        issuing, last = at[which], runs.last[which]
        node = r.node[issuing]
        begun, issued = r.line.at_ns[node], r.q.issued_ns[issuing]
        inner = r.device_parts(issuing, last)
        e.add(
            node,
            runs.target[which],
            weight[:, which],
            rest=pr.LAUNCH,
            parts=[*r.host_parts(begun, issued), *inner, (pr.QUEUED, paused[last] - paused[issuing])],
            segment=runs.segment[which],
            host_part=r.host_work(BASE, begun, issued),
            host_edge=np.minimum(node, len(r.line.at_ns) - 2),
            device_part=_sum(inner, len(last)),
        )


def _event_edges(e: Edges, r: Record, runs: _Runs, times: _Times) -> None:
    """A run whose first activity waits for another stream; with perfect overlap not for communication."""
    target, source = runs.of[r.lags.target], runs.of[r.lags.source]
    weight = times.from_first[:, target] + r.lags.lag_ns
    weight[r.scenarios.index(OVERLAP), runs.is_talk[source] & ~runs.is_talk[target]] = NEVER
    parts = r.device_parts(runs.first[target], runs.last[target])
    e.add(
        runs.end[source],
        runs.target[target],
        weight,
        rest=pr.QUEUED,
        parts=parts,
        segment=runs.segment[target],
        device_part=_sum(parts, len(target)),
    )


def _own_edges(e: Edges, r: Record, runs: _Runs) -> None:
    """A collective that no peer shares takes as long as it did."""
    talks = runs.is_talk
    e.add(
        runs.ready[talks],
        runs.end[talks],
        r.duration_ns[runs.first[talks]],
        rest=pr.COMMUNICATION,
        segment=runs.segment[talks],
    )


def _wait_edges(e: Edges, r: Record, runs: _Runs) -> None:
    """An elastic call returns when what it waited for has ended."""
    w = r.waits
    is_own = w.activity >= 0
    run = runs.of[np.maximum(w.activity, 0)]
    weight = np.tile(w.lag_ns, (len(r.scenarios), 1))
    weight[r.scenarios.index(OVERLAP), is_own & runs.is_talk[run]] = NEVER
    e.add(
        np.where(is_own, runs.end[run], runs.tail[np.clip(-1 - w.activity, 0, len(runs.tail) - 1)]),
        np.searchsorted(r.line.at_ns, w.end_ns[w.call]),
        weight,
        rest=np.where(w.is_copy[w.call], pr.COPY_WAIT, pr.HOST_SYNC),
    )


def _bound_edges(e: Edges, r: Record, runs: _Runs) -> None:
    """A step has ended on the device when all work issued before its end has; with perfect overlap
    communication goes on under the next step."""
    q, num = r.q, len(r.number)
    e.add(runs.bound[:-1], runs.bound[1:], 0, rest=pr.UNKNOWN)
    step = np.clip(np.searchsorted(r.bounds, q.issued_ns, side="right") - 1, 0, num - 1)
    key = (q.stream * num + step) * 2 + (q.part == COMMUNICATION)
    order = np.argsort(key, kind="stable")
    last = order[np.append(np.diff(key[order]) != 0, True)]
    weight = np.zeros((len(r.scenarios), len(last)), dtype=np.int64)
    weight[r.scenarios.index(OVERLAP), q.part[last] == COMMUNICATION] = NEVER
    e.add(runs.end[runs.of[last]], runs.bound[step[last] + 1], weight, rest=pr.UNKNOWN)
