"""The hourly diagnosis: of each job that ran, where a signal left its hour's median, with the traces of that
time and the five hottest ops. Its card is kept and shown, and nobody is paged by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
import numpy as np

from stepscope.detect.segment import Segment, segments
from stepscope.model.alarm import About
from stepscope.model.error import StepscopeError
from stepscope.model.incident import CaptureOf, Incident, Noted
from stepscope.model.report import Operator, Report
from stepscope.model.sample import F64
from stepscope.model.text import Lang
from stepscope.model.trace import I64
from stepscope.offline.stored import Asked, window_of
from stepscope.server.judge.handling import Diagnose
from stepscope.server.judge.look import window_of_marks
from stepscope.store.contract import RunRow, Store

S = 1_000_000_000
HOUR_NS = 3600 * S
LATE_NS = 120 * S
"""So long after an hour its last samples may still come."""
SIGNALS = (
    "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "compute_busy_ratio", "power_watts",
    "sm_clock_hertz", "nvlink_tx_bytes_per_second", "pcie_rx_bytes_per_second",
)  # fmt: skip
"""Whose segments are looked for, beside the steps' own time."""
MOST_SEGMENTS = 50
MARGIN_NS = 10 * S
SETTLE_NS = 5 * S
"""Behind the first step: counters that average over some seconds still hold the start."""
STEP_WEIGHT = 5
"""A segment of steps counts for so many of counters: what slows no step matters less."""


class SegmentOf(msgspec.Struct, frozen=True):
    """One abnormal segment: of which signal and device or rank, when, and how far (`effect` as a share of the
    hour's median)."""

    signal: str
    owner: str
    start_ns: int
    end_ns: int
    median: float
    extreme: float
    effect: float


class HourlyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document `hourly`, `JOB/RUN/HOUR`. `captures` are those whose traces are of the segments' time;
    `report` the id of the diagnosis of the worst stretch, absent where no signal left its median."""

    job: str
    run: str
    start_ns: int
    end_ns: int
    segments: tuple[SegmentOf, ...]
    num_segments: int
    worst_ns: tuple[int, int] | None = None
    captures: tuple[int, ...] = ()
    top_operators: tuple[Operator, ...] = ()
    cards: tuple[str, ...] = ()
    report: str | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class _Capture:
    id: int
    steps: tuple[int, int] | None


class _Made(msgspec.Struct):
    """Of a capture's document what is needed here."""

    id: int
    run: str
    state: str
    asked_ns: int
    ended_ns: int | None = None
    steps: tuple[int, int] | None = None


class Hourly:
    """`tick` from the judge's thread: an hour of one job at a time, each once."""

    def __init__(
        self, store: Store, diagnose: Diagnose, now_ns: Callable[[], int], lang: Lang = "en"
    ) -> None:
        self._store, self._diagnose, self._now_ns, self._lang = store, diagnose, now_ns, lang
        self._done_ns: int | None = None
        """The start of the last hour of which all jobs are done."""
        self.num_made = 0

    def tick(self) -> None:
        """The next job of the last whole hour that is not done yet."""
        hour = (self._now_ns() - LATE_NS) // HOUR_NS * HOUR_NS - HOUR_NS
        if self._done_ns is not None and self._done_ns >= hour:
            return
        for row in self._store.runs():
            if row.start_ns < hour + HOUR_NS and row.last_ns >= hour:
                id = f"{row.job}/{row.run}/{hour // S}"
                if self._store.get("hourly", id) is None:
                    self._make(row, hour, id)
                    return
        self._done_ns = hour

    def _make(self, row: RunRow, hour_ns: int, id: str) -> None:
        end = hour_ns + HOUR_NS
        found = sorted(self._segments(row, hour_ns, end), key=lambda each: -abs(each.effect))
        made = HourlyReport(
            job=row.job, run=row.run, start_ns=hour_ns, end_ns=end,
            segments=tuple(found[:MOST_SEGMENTS]), num_segments=len(found),
        )  # fmt: skip
        if found:
            made = self._diagnosed(made, worst(found))
        self.num_made += 1
        self._store.put("hourly", id, msgspec.json.encode(made), job=row.job, run=row.run, at_ns=end)

    def _segments(self, row: RunRow, start_ns: int, end_ns: int) -> Iterable[SegmentOf]:
        """Of the steps of each rank, and of counters from the first step on: how a job starts is no news."""
        ranks = window_of_marks(self._store, row.job, row.run, start_ns, end_ns)
        firsts = [int(each.steps.start_ns[0]) for each in ranks if len(each.steps)]
        for marks in ranks:
            begun = marks.steps.start_ns
            if len(begun) > 1:
                is_clean = ~(marks.steps.is_captured | marks.steps.is_stalled)[:-1]
                took = np.diff(begun)[is_clean] / S
                yield from _of("step_seconds", f"rank {marks.identity.rank}", begun[:-1][is_clean], took)
        begin = max(firsts, default=start_ns) + SETTLE_NS if row.start_ns >= start_ns else start_ns
        for part in self._store.telemetry(row.job, row.run, begin, end_ns):
            for series in part.series:
                if series.signal in SIGNALS:
                    name = series.owner.uuid or f"{series.owner.host}:{series.owner.index}"
                    yield from _of(series.signal, name, series.at_ns, series.value)

    def _diagnosed(self, made: HourlyReport, stretch: tuple[int, int]) -> HourlyReport:
        """The diagnosis of the worst stretch, with the traces of it."""
        start, end = stretch[0] - MARGIN_NS, stretch[1] + MARGIN_NS
        captures = self._captures(made, start, end)
        traces = [p for each in captures for p in self._store.traces(made.job, made.run, each.id)]
        window = window_of(self._store, made.job, made.run, start, end, traces)
        numbers = tuple(each.id for each in captures)
        try:
            report = self._diagnose(window, Asked(lang=self._lang))
        except (StepscopeError, OSError) as error:
            return msgspec.structs.replace(made, worst_ns=stretch, captures=numbers, why_not=str(error))
        place = f"hourly-{_name(made)}"
        at = self._now_ns()
        self._store.put("report", place, msgspec.json.encode(report), job=made.job, run=made.run, at_ns=at)
        if report.cards:
            self._show(made, report, place, captures, at)
        return msgspec.structs.replace(
            made,
            worst_ns=stretch,
            captures=numbers,
            report=place,
            top_operators=report.top_operators[:5],
            cards=tuple(each.id for each in report.cards),
        )

    def _captures(self, made: HourlyReport, start_ns: int, end_ns: int) -> list[_Capture]:
        """One capture of that time, the newest: its traces are still there whole."""
        for document in self._store.documents(
            "capture", job=made.job, start_ns=start_ns - HOUR_NS, end_ns=end_ns
        ):
            each = msgspec.json.decode(document.body, type=_Made)
            is_then = each.asked_ns < end_ns and (each.ended_ns or each.asked_ns) >= start_ns
            if each.run == made.run and each.state == "done" and is_then:
                return [_Capture(each.id, each.steps)]
        return []

    def _show(
        self, made: HourlyReport, report: Report, place: str, captures: Sequence[_Capture], at_ns: int
    ) -> None:
        """The card where cards are listed: an incident that is over, told to nobody."""
        card = report.cards[0]
        own = [each for each in report.findings if each.rule == card.id]
        ranks = tuple(sorted({rank for each in own for rank in each.subject.ranks}))
        incident = Incident(
            id=place,
            about=About(job=made.job, run=made.run, ranks=ranks),
            severity="info",
            title=f"Hourly diagnosis: {card.title}",
            title_zh=f"每小时诊断：{card.title}",
            cause=own[0].cause if own else None,
            rule=card.id,
            onset_ns=card.onset_ns or made.segments[0].start_ns,
            onset_step=card.onset_step,
            opened_ns=at_ns,
            state="closed",
            closed_ns=at_ns,
            ended_ns=at_ns,
            report=place,
            card=card.id,
            capture=CaptureOf(state="done", id=captures[0].id, steps=captures[0].steps)
            if captures
            else CaptureOf(),
            history=(Noted(at_ns=at_ns, what=f"{made.num_segments} abnormal segments in this hour"),),
        )
        self._store.put(
            "incident", place, msgspec.json.encode(incident), job=made.job, run=made.run, at_ns=at_ns
        )


def _of(signal: str, owner: str, at_ns: I64, value: F64) -> Iterable[SegmentOf]:
    for each in segments(at_ns, value):
        yield _told(signal, owner, each)


def _told(signal: str, owner: str, each: Segment) -> SegmentOf:
    return SegmentOf(signal, owner, each.start_ns, each.end_ns, each.median, each.extreme, each.effect)


def worst(found: Sequence[SegmentOf]) -> tuple[int, int]:
    """The stretch in which segments of most series lie at once, those of steps before those of counters: from
    where the first of these begins to where the last of them ends, no longer than ten minutes."""
    weight = [STEP_WEIGHT if each.signal == "step_seconds" else 1 for each in found]
    edges = sorted(
        [(each.start_ns, w) for each, w in zip(found, weight, strict=True)]
        + [(each.end_ns + 1, -w) for each, w in zip(found, weight, strict=True)],
        key=lambda edge: (edge[0], -edge[1]),
    )
    depth, deepest, at = 0, 0, found[0].start_ns
    for when, step in edges:
        depth += step
        if depth > deepest:
            deepest, at = depth, when
    there = [each for each in found if each.start_ns <= at <= each.end_ns]
    start, end = min(each.start_ns for each in there), max(each.end_ns for each in there)
    return max(start, at - 300 * S), min(end, max(start, at - 300 * S) + 600 * S)


def _name(made: HourlyReport) -> str:
    """A name for its report that is the same after a restart."""
    return sha256(f"{made.job}\0{made.run}\0{made.start_ns}".encode()).hexdigest()[:15]
