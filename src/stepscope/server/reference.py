"""A healthy trace of each job, kept to compare with: taken once when the job has run well for a while, and
where nothing is wrong. Later reports say which ops take longer than in it.

Its traces stay whole; its op table is the body of the document `reference`, `JOB/RUN/CAPTURE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from stepscope.act.capture.need import FEW_STEPS
from stepscope.act.capture.request import Request
from stepscope.diagnose.card import runs
from stepscope.model.error import StepscopeError
from stepscope.model.incident import Incident
from stepscope.model.report import Report
from stepscope.model.text import Lang, Text, duration
from stepscope.offline.stored import Asked, window_of
from stepscope.server.feed import Feed
from stepscope.server.judge.case import CaptureMade, Captures, Case
from stepscope.server.judge.handling import Diagnose
from stepscope.store.contract import RunRow, Store

S = 1_000_000_000
KIND = "reference"
LOOK_NS = 30 * S
"""How often is looked whether a job lacks one."""
AFTER_NS = 300 * S
"""A job that is younger is not asked: its baseline is not learned."""
LIVE_NS = 60 * S
LEAST_STEPS = 100
AGAIN_NS = 3600 * S
"""Behind a capture that failed or was refused."""
SLOWER = 1.2
"""A call that takes so many times as long as in the reference is told."""
LEAST_SHARE = 0.02
"""Of the device's time: ops with less are not compared."""
MOST_TOLD = 3

TOLD = Text(
    en="{op} takes {now} a call on rank {ranks}, {then} in the job's healthy trace of step {step}: "
    "{ratio:.1f} times as long",
    zh="{op} 在 rank {ranks} 上每次调用 {now}，该作业第 {step} 步的健康 trace 中为 {then}（{ratio:.1f} 倍）",
)


class OpTime(msgspec.Struct, frozen=True):
    """One op with the same shapes: calls and device time of all ranks. `shapes` is empty where they were not
    recorded."""

    name: str
    shapes: str
    count: int
    device_ns: int
    share: float


class ReferenceTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a healthy trace. `steps` are the recorded ones."""

    job: str
    run: str
    capture: int
    at_ns: int
    world_size: int | None
    steps: tuple[int, int] | None
    ops: tuple[OpTime, ...]
    report: str
    """The id of its report."""


Key = tuple[str, str]


def _rows(report: Report) -> Iterable[tuple[int | None, Key, int, int, float]]:
    """(rank, op and shapes, calls, device ns, share) of a report, by shapes where they were recorded."""
    shaped = {(row.rank, row.name) for row in report.operator_shapes}
    for row in report.operator_shapes:
        yield row.rank, (row.name, row.shapes), row.count, row.device_ns, row.share or 0.0
    for op in report.operators:
        if (op.rank, op.name) not in shaped:
            yield op.rank, (op.name, ""), op.count, op.device_ns, op.share or 0.0


def op_times(report: Report) -> tuple[OpTime, ...]:
    """The ops of a report over its ranks, most device time first."""
    sums: dict[Key, tuple[int, int, float]] = {}
    for _, key, count, device_ns, share in _rows(report):
        before = sums.get(key, (0, 0, 0.0))
        sums[key] = (before[0] + count, before[1] + device_ns, max(before[2], share))
    found = (
        OpTime(*key, count, device_ns, share)
        for key, (count, device_ns, share) in sums.items()
        if count and device_ns
    )
    return tuple(sorted(found, key=lambda each: (-each.device_ns, each.name, each.shapes)))


def slower_ops(report: Report, reference: ReferenceTrace, lang: Lang) -> tuple[str, ...]:
    """A line for each op of which a call takes longer than in the reference, those that cost most first."""
    then = {(each.name, each.shapes): each.device_ns / each.count for each in reference.ops}
    slow: dict[Key, list[tuple[int | None, float]]] = {}
    cost: dict[Key, float] = {}
    for rank, key, count, device_ns, share in _rows(report):
        if key in then and count and share >= LEAST_SHARE and device_ns / count >= SLOWER * then[key]:
            slow.setdefault(key, []).append((rank, device_ns / count))
            cost[key] = cost.get(key, 0.0) + device_ns - count * then[key]
    lines = []
    for key in sorted(slow, key=lambda each: (-cost[each], each))[:MOST_TOLD]:
        now = max(mean for _, mean in slow[key])
        ranks = sorted(rank for rank, _ in slow[key] if rank is not None)
        lines.append(
            TOLD.in_(lang).format(
                op=f"{key[0]} {key[1]}".strip(),
                now=duration(now),
                then=duration(then[key]),
                ratio=now / then[key],
                ranks=", ".join(runs(ranks)) or "?",
                step=reference.steps[0] if reference.steps else "?",
            )
        )
    return tuple(lines)


def references(store: Store, job: str) -> tuple[ReferenceTrace, ...]:
    """The healthy traces of a job, newest first."""
    found = store.documents(KIND, job=job, limit=20)
    return tuple(msgspec.json.decode(each.body, type=ReferenceTrace) for each in found)


class Reference:
    """Asks for the traces and keeps them. `tick` is called from the judge's thread (`Judge(ticks=…)`), as
    `notes` is (`Judge(notes_of=…)`)."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        captures: Captures,
        diagnose: Diagnose,
        now_ns: Callable[[], int],
        lang: Lang = "en",
    ) -> None:
        self._store, self._captures, self._diagnose = store, captures, diagnose
        self._now_ns, self._lang = now_ns, lang
        self._looked_ns = 0
        self._pending: dict[int, RunRow] = {}
        self._not_before: dict[str, int] = {}
        self._ended: list[CaptureMade] = []
        self.num_kept = 0
        self.close = feed.listen("capture", self._hear)

    def _hear(self, made: Any) -> None:
        if made.id in self._pending and made.state in ("done", "failed", "refused"):
            self._ended.append(made)

    def notes(self, case: Case, report: Report) -> Sequence[str]:
        """What the job's newest healthy trace of the same size says of a report with ops."""
        if case.job is None or not report.operators:
            return ()
        sizes = {each.world_size for each in report.inputs if each.kind == "trace"}
        same = (
            each
            for each in references(self._store, case.job)
            if each.capture != case.captured.id and (each.world_size in sizes or None in sizes)
        )
        newest = next(same, None)
        return () if newest is None else slower_ops(report, newest, self._lang)

    def tick(self) -> None:
        """Keep what came, and now and then ask for what lacks."""
        while self._ended:
            made = self._ended.pop()
            row = self._pending.pop(made.id)
            if made.state == "done":
                self._keep(row, made)
        now = self._now_ns()
        if now - self._looked_ns < LOOK_NS:
            return
        self._looked_ns = now
        waiting = {row.job for row in self._pending.values()}
        for row in self._store.runs():
            if row.job not in waiting and self._lacks(row, now):
                self._ask(row, now)
                waiting.add(row.job)

    def _lacks(self, row: RunRow, now_ns: int) -> bool:
        if row.is_over or now_ns - row.last_ns > LIVE_NS or now_ns - row.start_ns < AFTER_NS:
            return False
        if now_ns < self._not_before.get(row.job, 0) or not self._is_calm(row.job):
            return False
        if any(each.world_size == row.world_size for each in references(self._store, row.job)):
            return False
        marks = self._store.marks(row.job, row.run, now_ns - AFTER_NS, now_ns)
        return any(len(each.steps) >= LEAST_STEPS for each in marks)

    def _is_calm(self, job: str) -> bool:
        """Whether nothing is open of the job."""
        for each in self._store.documents("incident", job=job, limit=20):
            incident = msgspec.json.decode(each.body, type=Incident)
            if incident.ended_ns is None and incident.closed_ns is None:
                return False
        return True

    def _ask(self, row: RunRow, now_ns: int) -> None:
        self._not_before[row.job] = now_ns + AGAIN_NS
        try:
            made = self._captures.ask(
                row.job,
                row.run,
                Request(num_steps=FEW_STEPS + 1, flags=frozenset({"shapes"})),
                by="stepscope",
                why="a healthy trace to compare with",
            )
        except StepscopeError:
            return
        if made.state not in ("failed", "refused"):
            self._pending[made.id] = row

    def _keep(self, row: RunRow, made: CaptureMade) -> None:
        now = self._now_ns()
        place = f"reference-{made.id}"
        if self._is_calm(row.job):
            try:
                window = window_of(
                    self._store, row.job, row.run, now - LIVE_NS, now + 1,
                    self._store.traces(row.job, row.run, made.id),
                )  # fmt: skip
                report = self._diagnose(window, Asked(lang=self._lang))
            except (StepscopeError, OSError):
                report = None
            if report is not None and report.operators:
                kept = ReferenceTrace(
                    job=row.job, run=row.run, capture=made.id, at_ns=now, world_size=row.world_size,
                    steps=made.steps, ops=op_times(report), report=place,
                )  # fmt: skip
                at = {"job": row.job, "run": row.run, "at_ns": now}
                self._store.put("report", place, msgspec.json.encode(report), **at)  # type: ignore[arg-type]
                self._store.put(
                    KIND,
                    f"{row.job}/{row.run}/{made.id}",
                    msgspec.json.encode(kept),
                    **at,  # type: ignore[arg-type]
                )
                self.num_kept += 1
                return
        self._store.summarise_traces(row.job, row.run, made.id)
