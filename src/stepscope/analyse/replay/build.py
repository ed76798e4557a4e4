"""One device of one process as a program (`program.Program`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay import program as pr
from stepscope.analyse.replay.edge import Edges
from stepscope.analyse.replay.host import (
    HostCauses,
    blocking_calls,
    event_waits,
    holes,
    host_causes,
    time_before,
)
from stepscope.analyse.replay.lag import NO_WORK, Lags, Queue, lags
from stepscope.analyse.replay.program import BASE, INPUT, NEVER, NO_LAUNCH, OVERLAP, PARTS, Program
from stepscope.analyse.replay.wait import Waits, waits
from stepscope.analyse.use import UsedSteps
from stepscope.analyse.window import windows
from stepscope.model.interval import Intervals, join
from stepscope.model.report import COMPUTE_KINDS
from stepscope.model.trace import I64, Trace
from stepscope.trace.link import COMMUNICATION, COMPUTE, COPY, Activities
from stepscope.trace.step import owner_of
from stepscope.trace.thread import Threads

MOST_STEPS = 20
"""Steps that are replayed, those in the middle of the longest run of consecutive ones: every rank of a job
has the same."""
LEAST_CLASS_SHARE = 0.10
"""Of device time, for a class of kernels to be played at half its time."""
SPEEDUP = 2


def program_of(
    trace: Trace,
    threads: Threads,
    used: UsedSteps,
    activities: Activities,
    kind: npt.NDArray[np.int8],
    *,
    rank: int | None = None,
    why: str | None = None,
) -> Program | None:
    """The program of one device; `activities` are its own, `kind` the place of each in `COMPUTE_KINDS`.

    `why` says why the accounting withholds causes, `None` where it does not. `None` without steps in scope or
    without device work in them.
    """
    chosen = _consecutive(used)
    if not len(chosen) or not len(activities):
        return None
    steps = used.steps
    bounds = np.append(steps.start_ns[chosen], steps.end_ns[chosen[-1]])
    has = activities.launch_row >= 0
    issued = has & (activities.called_ns >= bounds[0]) & (activities.called_ns < bounds[-1])
    if not issued.any():
        return None
    device_ns = _reached(activities, has, bounds)
    unlaunched = ~has & ~activities.is_before_trace
    unlaunched &= (activities.start_ns >= device_ns[0]) & (activities.start_ns < device_ns[-1])
    mine = np.flatnonzero(issued | unlaunched)
    mine = mine[np.lexsort((activities.start_ns[mine], activities.stream[mine]))]
    earlier = (has & (activities.called_ns < bounds[0])) | activities.is_before_trace
    earlier |= ~has & (activities.start_ns < device_ns[0])
    q = _queue(activities, mine, earlier)
    owner = owner_of(steps, activities.called_ns, has)
    window = windows(steps, activities, owner).kind
    return _Builder(
        trace, threads, q, activities.take(mine), kind[mine], steps.number[chosen], bounds, device_ns
    ).program(rank, window, _table_rows(activities, mine), why)


def _consecutive(used: UsedSteps) -> npt.NDArray[np.intp]:
    """Positions of the steps to replay: of the longest run of consecutive ones in scope those in the
    middle."""
    at = np.flatnonzero(used.in_scope)
    if not len(at):
        return at
    is_new = np.append(True, (np.diff(at) > 1) | ~used.steps.follows[at[1:]])
    run = np.cumsum(is_new) - 1
    longest = at[run == np.argmax(np.bincount(run))]
    first = max(0, (len(longest) - MOST_STEPS) // 2)
    return longest[first : first + MOST_STEPS]


def _reached(activities: Activities, has: npt.NDArray[np.bool_], bounds: I64) -> I64:
    """When all work issued before each bound had ended; never before the first bound."""
    before = activities.is_before_trace
    low = int(activities.end_ns[before].max(initial=int(bounds[0])))
    order = np.flatnonzero(has)[np.argsort(activities.called_ns[has], kind="stable")]
    reach = np.append(np.int64(low), np.maximum.accumulate(activities.end_ns[order]))
    return np.maximum(reach[np.searchsorted(activities.called_ns[order], bounds, side="left")], low)


def _queue(activities: Activities, mine: npt.NDArray[np.intp], earlier: npt.NDArray[np.bool_]) -> Queue:
    streams, stream = np.unique(activities.stream[mine], return_inverse=True)
    free = np.full(len(streams), NO_WORK, dtype=np.int64)
    of = np.searchsorted(streams, activities.stream[earlier])
    known = (of < len(streams)) & (streams[np.minimum(of, len(streams) - 1)] == activities.stream[earlier])
    np.maximum.at(free, of[known], activities.end_ns[earlier][known])
    launch_row = activities.launch_row[mine]
    is_first = np.zeros(len(mine), dtype=bool)
    by_start = np.argsort(activities.start_ns[mine], kind="stable")
    is_first[by_start[np.unique(launch_row[by_start], return_index=True)[1]]] = True
    return Queue(
        stream.astype(np.int64),
        activities.start_ns[mine],
        activities.end_ns[mine],
        activities.launch_ns[mine],
        launch_row >= 0,
        activities.part[mine],
        is_first,
        free,
    )


def _table_rows(activities: Activities, mine: npt.NDArray[np.intp]) -> I64:
    """The row of each in the table of the device's communication, -1 for other work."""
    row = np.full(len(activities), -1, dtype=np.int64)
    talks = np.flatnonzero(activities.part == COMMUNICATION)
    row[talks[np.argsort(activities.start_ns[talks], kind="stable")]] = np.arange(len(talks))
    return row[mine]


@dataclass(frozen=True, slots=True)
class _Line:
    """Host events: when they were recorded, when the host came to each and what it costs to pass it; `wait`
    is the elastic call that ends in it, -1 for none."""

    at_ns: I64
    arrive_ns: I64
    cost_ns: I64
    wait: I64


class _Builder:
    """Puts a program together. Columns over activities are in the order of the queue."""

    def __init__(
        self,
        trace: Trace,
        threads: Threads,
        q: Queue,
        activities: Activities,
        kind: npt.NDArray[np.int8],
        number: I64,
        bounds: I64,
        device_ns: I64,
    ) -> None:
        self.q, self.number, self.bounds, self.device_ns = q, number, bounds, device_ns
        self.duration = np.maximum(q.end_ns - q.start_ns, 0)
        self.part = _part_of(q, kind)
        self.talks = np.flatnonzero(q.part == COMMUNICATION)
        by_issue = np.argsort(self._issued(self.talks), kind="stable")
        self.talks = self.talks[by_issue]
        self.lags: Lags = lags(q, event_waits(trace, threads, int(bounds[0]), int(bounds[-1])))
        self.waits = self._waits(trace, threads, activities)
        self.line = self._line()
        low, high = int(bounds[0]), int(bounds[-1])
        main = threads.main
        causes = host_causes(threads.timeline, main, low, high)
        self.causes: HostCauses = causes.without(self.waits.skipped)
        self.classes = self._classes()
        self.scenarios = (BASE, INPUT, NO_LAUNCH, OVERLAP, *(PARTS[p] for p in self.classes))
        self.removed: dict[str, Intervals] = {
            BASE: self.waits.skipped,
            INPUT: join(self.waits.skipped, causes.of("input")),
            NO_LAUNCH: join(self.waits.skipped, causes.of("launch")),
        }

    def _issued(self, at: npt.NDArray[np.integer]) -> I64:
        return np.where(self.q.has_launch[at], self.q.launch_ns[at], self.q.start_ns[at])

    def _classes(self) -> list[int]:
        total = int(self.duration.sum())
        time = np.bincount(self.part, weights=self.duration, minlength=len(PARTS))
        return [p for p in range(len(COMPUTE_KINDS)) if total and time[p] >= LEAST_CLASS_SHARE * total]

    def _waits(self, trace: Trace, threads: Threads, activities: Activities) -> Waits:
        q, spans = self.q, trace.spans
        launched = np.unique(q.launch_ns[q.has_launch])
        calls = blocking_calls(trace, threads, launched, int(self.bounds[0]), int(self.bounds[-1]))
        row = activities.launch_row
        order = np.argsort(row, kind="stable")
        at = np.searchsorted(row[order], calls.row, side="right") - 1
        own = np.where((at >= 0) & (row[order][np.maximum(at, 0)] == calls.row), order[np.maximum(at, 0)], -1)
        # Launches of kernels: a call that blocks to copy is no launch that lacks room.
        plain = np.flatnonzero(q.has_launch & q.is_first & ~np.isin(row, calls.row))
        plain = plain[np.argsort(q.launch_ns[plain], kind="stable")]
        begin = spans.ts_ns[row[plain]]
        launch = (begin, begin + spans.dur_ns[row[plain]], plain.astype(np.int64))
        return waits(q, calls, own.astype(np.int64), launch, self.bounds)

    def _line(self) -> _Line:
        q, w = self.q, self.waits
        launched = np.unique(q.launch_ns[q.has_launch])
        calls = np.unique(np.concatenate([self.bounds, w.start_ns, w.end_ns, launched]))
        step_ns = float(np.median(np.diff(self.bounds)))
        extra = np.concatenate([self._issued(self.talks), holes(calls, w.skipped, step_ns)])
        extra = extra[(extra > self.bounds[0]) & (extra < self.bounds[-1])]
        # Nothing happens on the line inside a call that holds it up.
        order = np.argsort(w.start_ns, kind="stable")
        inside = np.searchsorted(w.start_ns[order], extra, side="left") - 1
        extra = extra[(inside < 0) | (extra >= w.end_ns[order][np.maximum(inside, 0)])] if len(order) else extra
        at = np.unique(np.concatenate([self.bounds, w.end_ns, extra]))
        wait = np.full(len(at), -1, dtype=np.int64)
        wait[np.searchsorted(at, w.end_ns)] = np.arange(len(w.end_ns))
        arrive, cost = at.copy(), np.zeros(len(at), dtype=np.int64)
        held = np.flatnonzero(wait >= 0)
        arrive[held], cost[held] = w.start_ns[wait[held]], w.cost_ns[wait[held]]
        return _Line(at, arrive, cost, wait)

    def program(self, rank: int | None, window: str, table_row: I64, why: str | None) -> Program:
        """The whole."""
        q, line = self.q, self.line
        num_host, num_streams = len(line.at_ns), len(q.free_ns)
        issued = self._issued(np.arange(len(q)))
        node = np.maximum(np.searchsorted(line.at_ns, issued, side="right") - 1, 0)
        first, last, run = self._runs(node, issued)
        is_talk = q.part[first] == COMMUNICATION
        tails = num_host + np.arange(num_streams)
        ends = num_host + num_streams + np.arange(len(first))
        ready = np.full(len(first), -1, dtype=np.int64)
        ready[is_talk] = num_host + num_streams + len(first) + np.arange(int(is_talk.sum()))
        num_events = num_host + num_streams + len(first) + int(is_talk.sum())
        device_node = num_events + np.arange(len(self.bounds))
        begin = np.full(num_events + len(self.bounds), NEVER, dtype=np.int64)
        begin[0], begin[tails], begin[device_node] = self.bounds[0], q.free_ns, NEVER
        begin[device_node[0]] = self.device_ns[0]

        e = Edges(self.scenarios)
        segment_of = np.sort(issued[self.talks])
        self._host_edges(e, segment_of)
        own_edge = self._device_edges(e, node, issued, (first, last, run), (tails, ends, ready), segment_of, begin)
        self._wait_edges(e, run, tails, ends, is_talk)
        self._bound_edges(e, run, issued, ends, device_node)
        talk_run = run[self.talks]
        return Program(
            rank=rank,
            window=window,
            step=self.number,
            host_ns=self.bounds,
            device_ns=self.device_ns,
            host_node=np.searchsorted(line.at_ns, self.bounds).astype(np.int64),
            device_node=device_node.astype(np.int64),
            scenarios=self.scenarios,
            begin=begin,
            collective_row=table_row[self.talks],
            collective_start_ns=q.start_ns[self.talks],
            collective_stream=q.stream[self.talks],
            ready=ready[talk_run].astype(np.int32),
            done=ends[talk_run].astype(np.int32),
            own_edge=own_edge[talk_run].astype(np.int32),
            class_share=self._shares(),
            why=why,
            **e.columns(),
        )

    def _shares(self) -> dict[str, float]:
        total = int(self.duration.sum())
        return {
            PARTS[p]: float(self.duration[self.part == p].sum() / total) for p in self.classes if total
        }

    def _runs(self, node: I64, issued: I64) -> tuple[I64, I64, I64]:
        """First and last activity of each run, and the run of each activity.

        A run ends where its stream, or the host event its launches hang on, changes; around collectives;
        behind an activity that others wait for; and before one that waits for others.
        """
        q, w, d = self.q, self.waits, self.lags
        cut = q.opens
        cut[1:] |= node[1:] != node[:-1]
        cut[1:] |= q.has_launch[1:] != q.has_launch[:-1]
        talk = q.part == COMMUNICATION
        cut |= talk
        behind = np.concatenate([np.flatnonzero(talk), d.source, w.activity[w.activity >= 0]]) + 1
        cut[behind[behind < len(q)]] = True
        cut[d.target] = True
        first = np.flatnonzero(cut)
        last = np.append(first[1:], len(q)) - 1
        return first, last, np.cumsum(cut) - 1

    def _host_work(self, scenario: str, start: I64, end: I64) -> I64:
        """What the host works between two instants, in nanoseconds, less what the scenario removes."""
        removed = self.removed.get(scenario, self.removed[BASE])
        return (end - start) - (time_before(removed, end) - time_before(removed, start))

    def _host_parts(self, start: I64, end: I64) -> list[tuple[int, I64]]:
        """The same of the untouched scenario, by part."""
        return [
            (part, time_before(when, end) - time_before(when, start)) for part, when in self.causes.sets.items()
        ]

    def _host_edges(self, e: Edges, segment_of: I64) -> None:
        line = self.line
        start, end = line.at_ns[:-1], line.arrive_ns[1:]
        weight = np.array([self._host_work(s, start, end) + line.cost_ns[1:] for s in self.scenarios])
        n = len(start)
        is_copy = self.waits.is_copy[line.wait[1:]] & (line.wait[1:] >= 0) if len(self.waits.is_copy) else False
        rest = np.where(line.wait[1:] >= 0, np.where(is_copy, pr.COPY_WAIT, pr.HOST_SYNC), pr.UNKNOWN)
        e.add(
            np.arange(n),
            np.arange(1, n + 1),
            weight,
            rest=rest,
            parts=self._host_parts(start, end),
            segment=np.searchsorted(segment_of, line.at_ns[1:], side="left"),
            host_part=weight[0],
            host_edge=np.arange(n),
        )

    def _device_edges(
        self,
        e: Edges,
        node: I64,
        issued: I64,
        runs: tuple[I64, I64, I64],
        nodes: tuple[I64, I64, I64],
        segment_of: I64,
        begin: I64,
    ) -> I64:
        """Edges into runs from their stream, their launches and other streams; returns the edge of each
        collective's own duration."""
        q, d = self.q, self.lags
        first, last, run = runs
        tails, ends, ready = nodes
        is_talk = ready >= 0
        target = np.where(is_talk, ready, ends)
        before = np.append(0, ends[:-1])
        opens = q.opens[first]
        before[opens] = tails[q.stream[first][opens]]
        segment = np.searchsorted(segment_of, issued[first], side="left")
        through, launched, last_launched, rest_first = [], [], [], []
        binding = np.empty(0, dtype=np.int64)
        offset = issued - self.line.at_ns[node]
        for scenario in self.scenarios:
            duration = self._duration(scenario)
            reach = np.cumsum(d.gap_ns + duration)
            total = reach[last] - np.append(0, reach)[first]
            rest = reach[last][run] - reach + duration
            offset = self._host_work(scenario, self.line.at_ns[node], issued)
            arrival = np.where(q.has_launch, offset + d.latency_ns + rest, NEVER)
            launched.append(np.maximum.reduceat(arrival, first))
            last_launched.append(arrival[last])
            through.append(total)
            rest_first.append(rest[first])
            if scenario == BASE:
                binding = _first_at(arrival, launched[-1], first, run)
        # A collective's own duration is an edge of its own.
        own = self.duration[first]
        for each in (through, launched, last_launched, rest_first):
            for column in each:
                column -= np.where(is_talk, own, 0)
        through_, launched_ = np.array(through), np.array(launched)
        after_talk = np.append(False, is_talk[:-1]) & ~opens
        overlap = self.scenarios.index(OVERLAP)
        normal = through_.copy()
        normal[overlap, after_talk & ~is_talk] = NEVER
        own_parts = self._device_parts(first, last)
        busy = sum((ns for _, ns in own_parts), np.zeros(len(first), dtype=np.int64))
        e.add(before, target, normal, rest=pr.QUEUED, parts=own_parts, segment=segment, device_part=busy)
        self._bypass(e, through_, is_talk, opens, (tails, ends, ready), first)

        has = q.has_launch[first]
        at = binding[has]
        parts = self._host_parts(self.line.at_ns[node[at]], issued[at])
        inner = self._device_parts(at, last[has])
        host_part = offset_of = self._host_work(BASE, self.line.at_ns[node[at]], issued[at])
        busy_from = sum((ns for _, ns in inner), np.zeros(len(at), dtype=np.int64))
        along = np.minimum(node[at], len(self.line.at_ns) - 2)
        e.add(
            node[at],
            target[has],
            launched_[:, has],
            rest=pr.LAUNCH,
            parts=[*parts, *inner],
            segment=segment[has],
            host_part=offset_of,
            host_edge=along,
            device_part=busy_from,
        )
        long = has & (last > first)
        end = last[long]
        e.add(
            node[end],
            target[long],
            np.array(last_launched)[:, long],
            rest=pr.LAUNCH,
            parts=[],
            segment=segment[long],
            host_part=self._host_work(BASE, self.line.at_ns[node[end]], issued[end]),
            host_edge=np.minimum(node[end], len(self.line.at_ns) - 2),
            device_part=self.duration[end],
        )
        del host_part
        # What nothing recorded precedes begins when it did.
        alone = ~has & opens & (q.free_ns[q.stream[first]] <= NO_WORK)
        begin[target[alone]] = q.start_ns[first[alone]] + np.where(is_talk, 0, rest_first[0])[alone]

        of = run[d.target]
        weight = np.array([d.lag_ns + each[of] for each in rest_first])
        weight[overlap, is_talk[run[d.source]] & ~is_talk[of]] = NEVER
        e.add(
            ends[run[d.source]],
            target[of],
            weight,
            rest=pr.QUEUED,
            parts=self._device_parts(first[of], last[of]),
            segment=segment[of],
            device_part=busy[of],
        )
        own_edge = np.full(len(first), -1, dtype=np.int64)
        own_edge[is_talk] = e.num_edges + np.arange(int(is_talk.sum()))
        e.add(
            ready[is_talk],
            ends[is_talk],
            np.tile(own[is_talk], (len(self.scenarios), 1)),
            rest=pr.COMMUNICATION,
            parts=[],
            segment=segment[is_talk],
        )
        return own_edge

    def _bypass(
        self,
        e: Edges,
        through: I64,
        is_talk: npt.NDArray[np.bool_],
        opens: npt.NDArray[np.bool_],
        nodes: tuple[I64, I64, I64],
        first: I64,
    ) -> None:
        """Where a collective stands between computations of one stream: with perfect overlap the computation
        follows the one before, and the collective the one before it."""
        tails, ends, ready = nodes
        stream = self.q.stream[first]
        place = np.arange(len(first))
        begins = np.maximum.accumulate(np.where(opens, place, 0))
        plain = np.maximum.accumulate(np.where(~is_talk, place, -1))
        talk = np.maximum.accumulate(np.where(is_talk, place, -1))
        last_plain, last_talk = np.append(-1, plain[:-1]), np.append(-1, talk[:-1])
        overlap = self.scenarios.index(OVERLAP)

        over = np.flatnonzero(~is_talk & ~opens & np.append(False, is_talk[:-1]))
        source = np.where(last_plain[over] >= begins[over], ends[last_plain[over]], tails[stream[over]])
        weight = np.full((len(self.scenarios), len(over)), NEVER, dtype=np.int64)
        weight[overlap] = through[overlap, over]
        e.add(source, ends[over], weight, rest=pr.QUEUED, parts=[], segment=-1)
        after = np.flatnonzero(is_talk & ~opens & np.append(False, ~is_talk[:-1]) & (last_talk >= begins))
        weight = np.zeros((len(self.scenarios), len(after)), dtype=np.int64)
        e.add(ends[last_talk[after]], ready[after], weight, rest=pr.QUEUED, parts=[], segment=-1)

    def _duration(self, scenario: str) -> I64:
        """Of each activity."""
        if scenario in PARTS and PARTS.index(scenario) in self.classes:
            return np.where(self.part == PARTS.index(scenario), self.duration // SPEEDUP, self.duration)
        return self.duration

    def _device_parts(self, first: I64, last: I64) -> list[tuple[int, I64]]:
        """Device time from one activity to another of the same run, by part; collectives aside."""
        found = []
        for part in np.unique(self.part).tolist():
            if part == pr.COMMUNICATION:
                continue
            reach = np.append(0, np.cumsum(np.where(self.part == part, self.duration, 0)))
            found.append((part, reach[last + 1] - reach[first]))
        return found

    def _wait_edges(
        self, e: Edges, run: I64, tails: I64, ends: I64, is_talk: npt.NDArray[np.bool_]
    ) -> None:
        w = self.waits
        if not len(w.call):
            return
        host = np.searchsorted(self.line.at_ns, w.end_ns[w.call])
        is_own = w.activity >= 0
        of = run[np.maximum(w.activity, 0)]
        source = np.where(is_own, ends[of], tails[np.clip(-1 - w.activity, 0, len(tails) - 1)])
        weight = np.tile(w.lag_ns, (len(self.scenarios), 1))
        weight[self.scenarios.index(OVERLAP), is_own & is_talk[of]] = NEVER
        rest = np.where(w.is_copy[w.call], pr.COPY_WAIT, pr.HOST_SYNC)
        e.add(source, host, weight, rest=rest, parts=[], segment=-1)

    def _bound_edges(
        self,
        e: Edges,
        run: I64,
        issued: I64,
        ends: I64,
        device_node: I64,
    ) -> None:
        """A step has ended on the device when all work issued before its end has; with perfect overlap
        communication goes on under the next step."""
        q = self.q
        num = len(self.scenarios)
        n = len(device_node) - 1
        e.add(device_node[:-1], device_node[1:], np.zeros((num, n)), rest=pr.UNKNOWN, parts=[], segment=-1)
        step = np.clip(np.searchsorted(self.bounds, issued, side="right") - 1, 0, n - 1)
        talks = q.part == COMMUNICATION
        key = (q.stream * n + step) * 2 + talks
        by_key = np.argsort(key, kind="stable")
        at = by_key[np.append(np.diff(key[by_key]) != 0, True)]
        weight = np.zeros((num, len(at)), dtype=np.int64)
        weight[self.scenarios.index(OVERLAP), talks[at]] = NEVER
        e.add(
            ends[run[at]],
            device_node[step[at] + 1],
            weight,
            rest=pr.UNKNOWN,
            parts=[],
            segment=-1,
        )


def _part_of(q: Queue, kind: npt.NDArray[np.int8]) -> I64:
    part = np.full(len(q), pr.UNKNOWN, dtype=np.int64)
    part[q.part == COMPUTE] = kind[q.part == COMPUTE]
    part[q.part == COMMUNICATION] = pr.COMMUNICATION
    part[q.part == COPY] = pr.COPY
    return part


def _first_at(arrival: I64, latest: I64, first: I64, run: I64) -> I64:
    """In each run the first activity whose arrival is the latest."""
    hit = np.flatnonzero(arrival == latest[run])
    at: I64 = hit[np.unique(run[hit], return_index=True)[1]]
    return at
