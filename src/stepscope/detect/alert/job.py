"""Conditions of jobs: their steps, ranks, losses and checkpoints, into the book."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stepscope.detect.alert.book import Book
from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.entry import Fired, Key, Member
from stepscope.detect.alert.gated import COUNTERS, LEVELS, MEAN_EVERY, MEAN_OF, Back, Gated, Left, Point
from stepscope.detect.alert.pause import Pauses
from stepscope.detect.alert.peers import Peers, Slow
from stepscope.detect.alert.timed import Timed
from stepscope.detect.seen.run import RunSeen, Whole
from stepscope.model.alarm import AlarmSeverity, Measured
from stepscope.model.text import Text

NS = 1_000_000_000
EFFECTS: tuple[tuple[float, AlarmSeverity], ...] = ((0.20, "critical"), (0.10, "warning"), (0.05, "info"))
LOADED_STEPS = 32
SAME_STEPS = 20
MISSED_LOGS = 10
"""A loss that is logged every n steps is not updated when it was not for so many times n."""
CHECKPOINT_TAIL = 3.0
OF_FEATURE = {
    "step_seconds": "step-slow",
    "step_mean_seconds": "step-mean-up",
    "tokens_per_second": "tokens-falling",
    "communication_seconds": "communication-up",
    "data_wait_ratio": "data-wait-up",
    "tensor_active_ratio": "tensor-low",
    "sm_active_ratio": "sm-low",
    "dram_active_ratio": "dram-high",
}


@dataclass(slots=True)
class _Job:
    """What is kept of a run beside its rings."""

    peers: Peers = field(default_factory=Peers)
    pauses: Pauses = field(default_factory=Pauses)
    loaded: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=LOADED_STEPS))
    ended: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=256))
    """(when it began, when it ended, step) of the last steps."""
    took: deque[float] = field(default_factory=lambda: deque(maxlen=MEAN_OF))
    num_clean: int = 0

    def mean(self, job: str, whole: Whole) -> list[Point]:
        """Every fifth clean step the mean of the last 20: a point of what the median does not see."""
        if not whole.is_clean:
            return []
        self.took.append(whole.took_s)
        self.num_clean += 1
        if len(self.took) < MEAN_OF or self.num_clean % MEAN_EVERY:
            return []
        return [Point(job, "step_mean_seconds", None, sum(self.took) / MEAN_OF, True, whole.end_ns)]


class Jobs:
    """`steps` takes whole steps of a run, `counters` its counters, `look` what is not bound to a step."""

    def __init__(self, table: Mapping[str, Condition], book: Book) -> None:
        self._table, self._book = table, book
        clear = {name: table[id_].clear_for_ns for name, id_ in OF_FEATURE.items()}
        self.gated = Gated(clear)
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._fired: dict[tuple[str, str, str, int | None], tuple[Key, Member]] = {}
        self._slow: Timed[tuple[str, str, int]] = Timed(table["rank-slow"])
        self._loading: Timed[tuple[str, str, int]] = Timed(table["data-wait-high"])
        self._same: Timed[tuple[str, str]] = Timed(table["loss-not-updated"])
        self._broken: Timed[tuple[str, str]] = Timed(table["loss-not-finite"])
        self._stuck: Timed[tuple[str, str]] = Timed(table["checkpoint-stuck"])
        self._pausing: Timed[tuple[str, str]] = Timed(table["pauses-high"])

    def steps(self, run: RunSeen, wholes: list[Whole]) -> None:
        """Steps that all ranks have done."""
        key = (run.job, run.run)
        job = self._jobs.setdefault(key, _Job())
        for whole in wholes:
            job.ended.append((whole.begin_ns, whole.end_ns, whole.step))
            self._take(run, self.gated.push([*_points(run.job, whole), *job.mean(run.job, whole)]))
            job.peers.take(whole)
            job.pauses.take(whole)
            if whole.is_clean:
                job.loaded.append(whole.data_ratio)
        if wholes:
            self._ranks(run, job, wholes[-1])
            self._loads(run, job, wholes[-1])
            self._pauses(run, job, wholes[-1])

    def counters(self, run: RunSeen, points: list[Point]) -> None:
        """One second of its counters."""
        self._take(run, self.gated.push(points))

    def look(self, run: RunSeen, now_ns: int) -> None:
        """Loss and checkpoint, by our time."""
        key, now = (run.job, run.run), run.agent_now_ns(now_ns)
        if now is None:
            return
        self._losses(run, key, now)
        open_ = run.checkpoint(now_ns)
        limit = (self._table["checkpoint-stuck"].threshold or 600.0) * NS
        holds = open_ is not None and now - open_[0] >= max(limit, CHECKPOINT_TAIL * open_[1])
        told = self._stuck.look(key, holds, now)
        if told is None:
            return
        if open_ is not None and told[0]:
            measured = Measured("checkpoint_seconds", "s", (now - open_[0]) / NS, normal=open_[1] / NS)
            rank = open_[2].rank
            self._fire("checkpoint-stuck", run, rank, open_[0], "critical", measured)
        else:
            self._end("checkpoint-stuck", run, None, told[1])

    def begin(self, run: RunSeen, *, is_same_shape: bool) -> None:
        """A new run of a job."""
        self.gated.begin(run.job, is_same_shape=is_same_shape)

    def end(self, run: RunSeen, at_ns: int) -> None:
        """It is over."""
        key = (run.job, run.run)
        self._book.end_run(run.job, run.run, at_ns)
        self._jobs.pop(key, None)
        for place in [place for place in self._fired if place[:2] == key]:
            del self._fired[place]
        for timed in (self._slow, self._loading):
            timed.forget([each for each in timed.all() if each[:2] == key])
        for alone in (self._same, self._broken, self._stuck, self._pausing):
            alone.forget([key])

    # ── series ──

    def _take(self, run: RunSeen, told: list[Left | Back]) -> None:
        for each in told:
            id_ = OF_FEATURE[each.point.feature]
            if isinstance(each, Back):
                self._end(id_, run, each.point.rank, each.since_ns)
                continue
            point, condition = each.point, self._table[id_]
            onset_ns = each.onset_ns if point.feature in COUNTERS else self._begin_ns(run, each.onset_ns)
            measured = Measured(point.feature, condition.unit, point.value, each.normal, effect=each.effect)
            if each.effect is not None:
                value = each.normal * (1 + each.effect)
                value = each.normal + each.effect if condition.unit == "ratio" else value
                measured = Measured(point.feature, condition.unit, value, each.normal, effect=each.effect)
            self._fire(
                id_, run, point.rank, onset_ns, condition.severity or LEVELS[each.severity], measured,
                is_specified=each.is_specified, pages=condition.pages and each.severity > 0,
            )  # fmt: skip

    def _ranks(self, run: RunSeen, job: _Job, last: Whole) -> None:
        slow = {each.rank: each for each in job.peers.slow()}
        keys = {(run.job, run.run, rank) for rank in slow}
        keys |= {each for each in self._slow.all() if each[:2] == (run.job, run.run)}
        for key in sorted(keys):
            each = slow.get(key[2])
            told = self._slow.look(key, each is not None, last.end_ns)
            if told is None:
                continue
            if each is not None:
                self._fire("rank-slow", run, key[2], each.since_ns, _severity(each.effect), _measured(each))
            elif not told[0]:
                self._end("rank-slow", run, key[2], told[1])

    def _loads(self, run: RunSeen, job: _Job, last: Whole) -> None:
        if len(job.loaded) < LOADED_STEPS or any(len(each) != len(last.ranks) for each in job.loaded):
            return
        condition = self._table["data-wait-high"]
        threshold, clear = condition.threshold or 0.2, condition.clear or condition.threshold or 0.2
        known = np.array(job.loaded)
        told = (~np.isnan(known)).sum(axis=0) >= LOADED_STEPS // 2
        for place, rank in enumerate(last.ranks):
            if not told[place]:
                continue
            share, key = float(np.nanmedian(known[:, place])), (run.job, run.run, rank)
            holds = share >= threshold or (share > clear and key in self._loading.alarms())
            found = self._loading.look(key, holds, last.end_ns)
            if found is not None and found[0]:
                measured = Measured("data_wait_ratio", "ratio", share, threshold=threshold)
                severity = condition.severity or "warning"
                self._fire("data-wait-high", run, rank, found[1], severity, measured)
            elif found is not None:
                self._end("data-wait-high", run, rank, found[1])

    def _pauses(self, run: RunSeen, job: _Job, last: Whole) -> None:
        share = job.pauses.share
        if share is None or not self.gated.num_learned(run.job):
            return
        condition, key = self._table["pauses-high"], (run.job, run.run)
        threshold = condition.threshold or 0.2
        since_ns = job.pauses.begin_ns(threshold) or last.begin_ns
        is_alarm = key in self._pausing.alarms()
        holds = share >= threshold or (is_alarm and share > (condition.clear or threshold))
        found = self._pausing.look(key, holds, last.end_ns)
        if found is not None and found[0] and not is_alarm:
            measured = Measured("pause_ratio", "ratio", share, threshold=threshold)
            self._fire("pauses-high", run, None, since_ns, condition.severity or "warning", measured)
        elif found is not None and not found[0]:
            self._end("pauses-high", run, None, found[1])

    # ── loss ──

    def _losses(self, run: RunSeen, key: tuple[str, str], now: int) -> None:
        ring = next((each for each in run.rings.values() if each.loss is not None), None)
        loss = None if ring is None else ring.loss
        if ring is None or loss is None:
            return
        told = self._broken.look(key, not np.isfinite(loss.value), now)
        if told is not None and told[0]:
            shown = Text("NaN", "NaN") if loss.value != loss.value else Text("infinite", "无穷大")
            self._fire("loss-not-finite", run, None, loss.since_ns, "critical", None, detail=shown)
        elif told is not None:
            self._end("loss-not-finite", run, None, told[1])
        steps = (ring.last_step or loss.step) - loss.step
        is_left = loss.every_steps > 0 and steps >= max(SAME_STEPS, MISSED_LOGS * loss.every_steps)
        is_same = loss.num_same >= SAME_STEPS and bool(np.isfinite(loss.value))
        told = self._same.look(key, is_left or is_same, now)
        if told is not None and told[0]:
            severity = self._table["loss-not-updated"].severity or "warning"
            since = loss.at_ns if is_left else loss.since_ns
            self._fire(
                "loss-not-updated", run, None, since, severity, None, detail=Text(*[f"{loss.value:g}"] * 2)
            )
        elif told is not None:
            self._end("loss-not-updated", run, None, told[1])

    # ── the book ──

    def _fire(
        self, id_: str, run: RunSeen, rank: int | None, onset_ns: int, severity: AlarmSeverity,
        measured: Measured | None, *, is_specified: bool | None = None, pages: bool = True,
        detail: Text | None = None,
    ) -> None:  # fmt: skip
        condition = self._table[id_]
        if not condition.is_on:
            return
        ring = None if rank is None else run.rank(rank)
        member = Member(rank, ring.device if ring else None, ring.host if ring else None)
        fired = Fired(
            condition=condition, member=member, onset_ns=onset_ns, job=run.job, run=run.run,
            severity=severity, measured=measured, is_specified=is_specified,
            steps=self._steps(run, onset_ns), detail=detail, pages=pages and condition.pages, hosts=run.hosts,
        )  # fmt: skip
        self._fired[run.job, run.run, id_, rank] = fired.key, member
        self._book.fire(fired)

    def _end(self, id_: str, run: RunSeen, rank: int | None, at_ns: int) -> None:
        """For this rank; without one for whoever it was fired for."""
        for place in [
            place
            for place in self._fired
            if place[:3] == (run.job, run.run, id_) and (rank is None or place[3] == rank)
        ]:
            key, member = self._fired.pop(place)
            self._book.end(key, member, at_ns)

    def _steps(self, run: RunSeen, onset_ns: int) -> tuple[int, int] | None:
        job = self._jobs.get((run.job, run.run))
        if job is None or not job.ended:
            return None
        last = job.ended[-1][2]
        first = next((step for _, end_ns, step in job.ended if end_ns > onset_ns), last)
        return first, max(last, first)

    def _begin_ns(self, run: RunSeen, end_ns: int) -> int:
        """When the step began that ended then: a step is a point of its series when it is over."""
        job = self._jobs.get((run.job, run.run))
        known = () if job is None else job.ended
        return next((begin_ns for begin_ns, step_end_ns, _ in known if step_end_ns == end_ns), end_ns)


def _points(job: str, whole: Whole) -> list[Point]:
    """A step as points of its series."""
    clean, at_ns = whole.is_clean, whole.end_ns
    points = [Point(job, "step_seconds", None, whole.took_s, clean, at_ns)]
    if whole.tokens_per_second is not None:
        points.append(Point(job, "tokens_per_second", None, whole.tokens_per_second, clean, at_ns))
    if whole.communication_s is not None:
        points.append(Point(job, "communication_seconds", None, whole.communication_s, clean, at_ns))
    for rank, share in zip(whole.ranks, whole.data_ratio.tolist(), strict=True):
        points.append(Point(job, "data_wait_ratio", rank, share, clean, at_ns))
    return points


def _severity(effect: float) -> AlarmSeverity:
    return next((severity for least, severity in EFFECTS if effect >= least), "info")


def _measured(each: Slow) -> Measured:
    return Measured("own_step_seconds", "s", each.took_s, each.peers_s, effect=each.effect)
