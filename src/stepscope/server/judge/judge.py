"""The loop's middle: alarms in, incidents and cards out. One thread; what it asks for answers by the feed.

What a case went through is in its incident's history, each line with its time: from it the loop's latency can
be read, and after a kill the loop goes on where it stood.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stepscope.act.capture.need import FEW_STEPS, wanted
from stepscope.act.capture.request import Request
from stepscope.model.alarm import Alarm
from stepscope.model.batch import Batch, Lines
from stepscope.model.error import StepscopeError
from stepscope.model.incident import CaptureOf, Noted
from stepscope.model.report import Report
from stepscope.model.text import Lang
from stepscope.offline.stored import Asked, Window
from stepscope.rules import load_catalog
from stepscope.server.feed import Feed
from stepscope.server.judge.case import CaptureMade, Captures, Case, id_of, incident_of_case, with_ranks
from stepscope.server.judge.look import USUAL_RANGE, Range, Seen, window_for
from stepscope.server.judge.record import amended, opened
from stepscope.server.judge.resume import cases_of
from stepscope.server.judge.tell import Telling
from stepscope.server.judge.verdict import Verdict, judged
from stepscope.store.contract import Store

S = 1_000_000_000
Diagnose = Callable[[Window, Asked], Report]
"""`worker.Worker.diagnose`, or another that raises StepscopeError where there is no report."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`capture_ns`: how long traces are waited for, and longer where `capture_steps` steps take longer;
    `cool_down_ns`: how long after its end an incident takes alarms of its cause up again; `most_ranks`: so
    many are captured of a larger job, those in question first."""

    lang: Lang = "en"
    capture_ns: int = 20 * S
    capture_steps: int = 24
    most_capture_ns: int = 180 * S
    stacks_ns: int = 6 * S
    cool_down_ns: int = 600 * S
    most_ranks: int = 32
    range: Range = USUAL_RANGE


class Judge:
    """`start` runs it in a thread of its own; a test calls `turn` instead. Counts are whole at any time."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        captures: Captures,
        diagnose: Diagnose,
        now_ns: Callable[[], int],
        settings: Settings = Settings(),
        thresholds: Callable[[], Mapping[str, Mapping[str, float]]] = dict,
        ticks: Sequence[Callable[[], None]] = (),
        notes_of: Callable[[Case, Report], Sequence[str]] = lambda case, report: (),
    ) -> None:
        """`thresholds` are the site's own now; `ticks` are called between cases, when nothing waits;
        `notes_of` as `Telling` takes it."""
        self.store, self.feed, self.captures = store, feed, captures
        self.settings, self.now_ns = settings, now_ns
        self._diagnose, self._thresholds, self._ticks = diagnose, thresholds, ticks
        self._catalog = load_catalog()
        self.telling = Telling(store, feed, settings.lang, now_ns, notes_of)
        self._inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._ends: list[Callable[[], None]] = []
        self.cases: list[Case] = []
        self.num_alarms = self.num_incidents = self.num_joined = 0
        self.num_captures = self.num_failed = 0
        for topic, listen in (
            ("alarm", self._hear("alarm")), ("capture", self._hear("capture")), ("run", self._hear("run")),
            ("batches", self._stacks),
        ):  # fmt: skip
            self._ends.append(feed.listen(topic, listen))  # type: ignore[arg-type]

    # ── its thread ──

    def start(self) -> None:
        """Take up what an earlier server left open, and go on in a thread."""
        self.resume()
        self._thread = threading.Thread(target=self._run, name="stepscope-judge", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hear no more; what is under way is taken up by the next start."""
        for end in self._ends:
            end()
        self._ends.clear()
        self._is_over.set()
        self._inbox.put(("wake", None))
        if self._thread is not None:
            self._thread.join(10)

    def _run(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(queue.Empty):
                self._handle(*self._inbox.get(timeout=0.25))
            try:
                self.turn()
            except Exception:  # noqa: BLE001  the loop must live: the case that failed is over
                self.num_failed += 1
                for case in self.cases:
                    if case.phase == "look":
                        case.phase = "over"

    def turn(self) -> None:
        """Everything that can be done now."""
        while self._drain() or self._advance():
            pass
        for tick in self._ticks:
            tick()

    def _drain(self) -> bool:
        any_ = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._handle(*self._inbox.get_nowait())
                any_ = True
        return any_

    def _advance(self) -> bool:
        """One case a step further; whether any was."""
        now = self.now_ns()
        self.cases = [each for each in self.cases if not self._is_forgotten(each, now)]
        for case in self.cases:
            if case.phase == "look":
                self._look(case)
                return True
            if case.phase in ("capture", "stacks") and case.until_ns is not None and now >= case.until_ns:
                self._waited(case)
                return True
        return False

    def _is_forgotten(self, case: Case, now_ns: int) -> bool:
        end = case.ended_ns
        return case.phase == "over" and end is not None and now_ns - end > self.settings.cool_down_ns

    # ── what it hears ──

    def _hear(self, topic: str) -> Callable[[Any], None]:
        def put(what: Any) -> None:
            self._inbox.put((topic, what))

        return put

    def _stacks(self, batches: tuple[Batch, ...]) -> None:
        for each in batches:
            if isinstance(each, Lines) and each.log == "stacks":
                self._inbox.put(("stacks", each.labels.get("job")))

    def _handle(self, topic: str, what: Any) -> None:
        if topic == "alarm":
            self._alarm(what)
        elif topic == "capture":
            self._capture(what)
        elif topic == "stacks":
            for case in self.cases:
                if case.phase == "stacks" and what in (None, case.job):
                    # Those of the other ranks come a moment later.
                    case.until_ns = min(case.until_ns or 0, self.now_ns() + S)
        elif topic == "run":
            self._run_ended(*what)

    def _alarm(self, alarm: Alarm) -> None:
        self.store.put(
            "alarm", alarm.id, msgspec.json.encode(alarm), job=alarm.about.job, run=alarm.about.run,
            at_ns=alarm.onset_ns,
        )  # fmt: skip
        mine = next((case for case in self.cases if alarm.id in case.alarms), None)
        if mine is not None:
            was, mine.alarms[alarm.id] = mine.ended_ns, alarm
            self._note_end(mine, was)
            return
        if alarm.end_ns is not None or not alarm.pages or alarm.inhibited_by is not None:
            return
        self.num_alarms += 1
        for case in self.cases:
            if case.job == alarm.about.job and not case.is_dismissed and case.takes(alarm, self._catalog):
                self._join(case, alarm)
                return
        case = Case(
            id_of(alarm), alarm.about.job, alarm.about.run or self._newest_run(alarm), {alarm.id: alarm}
        )
        self.cases.append(case)
        if not any(self._others(case)):
            self._open(case)
        if case.family.asks == "stacks":
            self._ask_stacks(case)

    def _join(self, case: Case, alarm: Alarm) -> None:
        self.num_joined += 1
        was = case.ended_ns
        case.alarms[alarm.id] = alarm
        self._amend(case, f"alarm {alarm.condition} joins: {alarm.text}".rstrip(": "))
        self._note_end(case, was)

    def _note_end(self, case: Case, was: int | None) -> None:
        now = case.ended_ns
        if (now is None) != (was is None):
            what = "its alarms hold again" if now is None else "its alarms are over"
            self._amend(case, what)

    def _newest_run(self, alarm: Alarm) -> str | None:
        rows = self.store.runs(alarm.about.job) if alarm.about.job is not None else ()
        return rows[0].run if rows else None

    def _run_ended(self, job: str, run: str) -> None:
        rows = [row for row in self.store.runs(job) if row.run == run]
        if not rows or not rows[0].is_over:
            return
        for case in self.cases:
            if (case.job, case.run) == (job, run) and case.ended_ns is None and case.family.asks != "stacks":
                end = self.now_ns()
                case.alarms = {
                    n: a if a.end_ns is not None else msgspec.structs.replace(a, end_ns=end)
                    for n, a in case.alarms.items()
                }
                self._amend(case, "the run ended")

    def _capture(self, made: CaptureMade) -> None:
        case = next((c for c in self.cases if c.captured.id == made.id), None)
        if case is None or case.is_dismissed:
            return
        if made.state in ("failed", "refused"):
            self._without(case, made.state, made.refusal or made.state)
        elif made.state == "done":
            case.captured = CaptureOf(state="done", id=made.id, steps=made.steps, ranks=made.ranks)
            self._amend(case, f"traces of capture {made.id} are here")
            traces = self.store.traces(made.job, made.run, made.id)
            self._joint(case, traces)
        elif made.state == "recording":
            steps_ = "" if made.steps is None else f", steps {made.steps[0]} to {made.steps[1]}"
            self._amend(case, f"capture {made.id} is armed{steps_}")

    # ── what it does ──

    def _others(self, case: Case) -> Iterator[Case]:
        """Other cases of its job that people know of, or may."""
        return (
            each
            for each in self.cases
            if each is not case and each.job == case.job and each.is_opened and not each.is_dismissed
        )

    def _open(self, case: Case) -> None:
        if not case.is_opened:
            case.is_opened = True
            self.num_incidents += 1
            opened(self.store, self.feed, incident_of_case(case, self.now_ns()))

    def _amend(self, case: Case, what: str) -> None:
        """A line for its history, and how it stands now."""
        noted = Noted(at_ns=self.now_ns(), what=what)
        if case.is_opened:
            amended(self.store, self.feed, case.id, case.stands, noted)
        else:
            case.notes.append(noted)

    def _report(self, case: Case, traces: tuple[str, ...]) -> tuple[Report, Seen]:
        assert case.job is not None
        assert case.run is not None
        window, seen = window_for(
            self.store, case.job, case.run, case.onset_ns, self.now_ns(),
            is_speed=case.is_speed, traces=traces, range_=self.settings.range,
        )  # fmt: skip
        asked = Asked(lang=self.settings.lang, thresholds=self._thresholds() or None)
        return self._diagnose(window, asked), seen

    def _verdict(self, case: Case, report: Report, seen: Seen) -> Verdict:
        known = {other.rule for other in self._others(case) if other.rule}
        return judged(report, list(case.alarms.values()), self._catalog, slowdown=seen.slowdown, known=known)

    def _look(self, case: Case) -> None:
        """The first look, without a trace: it decides, or says what to record."""
        case.phase = "over"
        if case.job is None or case.run is None:
            self._open(case)
            self._amend(case, "no job: nothing to diagnose")
            self.telling.without_report(case)
            return
        try:
            report, seen = self._report(case, ())
        except (StepscopeError, OSError) as error:
            self.num_failed += 1
            self._open(case)
            self._amend(case, f"no diagnosis: {error}")
            self.telling.without_report(case)
            return
        verdict = self._verdict(case, report, seen)
        case.report, case.verdict, case.onset_step = report, verdict, seen.onset_step
        if not case.is_opened and self._joined_known(case, verdict, is_last=False):
            return
        self._amend(case, f"looked at without a trace: {verdict.rule or verdict.outcome}")
        if case.family.asks != "trace":
            self._tell(case, seen)
            return
        request = wanted(report, slowest=verdict.ranks)
        if verdict.is_sure:
            self._tell(case, seen)
            if request is None:
                return
        self._ask(case, request or Request(num_steps=FEW_STEPS + 1), seen)

    def _ask(self, case: Case, request: Request, seen: Seen) -> None:
        """The least capture, of the right ranks."""
        assert case.job is not None
        assert case.run is not None
        ranks = {row.rank for row in self.store.ranks(case.job, case.run)}
        request = with_ranks(request, case, ranks, self.settings.most_ranks)
        self.num_captures += 1
        try:
            made = self.captures.ask(
                case.job, case.run, request, by="stepscope", why=f"incident {case.id}: {case.first.condition}"
            )
        except StepscopeError as error:
            self._without(case, "refused", str(error))
            return
        case.captured = CaptureOf(id=made.id, ranks=made.ranks)
        if made.state in ("failed", "refused"):
            self._without(case, made.state, made.refusal or made.state)
            return
        slow = (seen.step_ns or 0) * self.settings.capture_steps
        wait = min(max(self.settings.capture_ns, slow), self.settings.most_capture_ns)
        case.phase, case.until_ns = "capture", self.now_ns() + wait
        case.captured = CaptureOf(state="asked", id=made.id, ranks=made.ranks)
        self._amend(case, f"capture {made.id} asked: {request.num_steps} steps")

    def _ask_stacks(self, case: Case) -> None:
        assert case.job is not None or case.run is None
        if case.job is None or case.run is None:
            return
        with contextlib.suppress(StepscopeError):
            if self.captures.ask_stacks(
                case.job, case.run, by="stepscope", why=f"incident {case.id}: {case.first.condition}"
            ):
                case.phase, case.until_ns = "stacks", self.now_ns() + self.settings.stacks_ns
                self._amend(case, "stacks of the ranks asked")

    def _waited(self, case: Case) -> None:
        """What was asked did not come in time."""
        if case.phase == "stacks":
            case.phase = "look"
            return
        self._without(case, "failed", "no traces in time")

    def _without(self, case: Case, state: str, why: str) -> None:
        """The card without a trace, which says so. Traces that come later are looked at all the same."""
        was, case.phase, case.until_ns = case.phase, "over", None
        case.captured = msgspec.structs.replace(
            case.captured, state="refused" if state == "refused" else "failed", why=why
        )
        self._amend(case, f"no trace: {why}")
        if case.told is None and case.report is not None and case.verdict is not None:
            seen = Seen(None, case.onset_step, None)
            if was == "capture":
                # It went on meanwhile: more of it is there than at the first look.
                with contextlib.suppress(StepscopeError, OSError):
                    case.report, seen = self._report(case, ())
                    case.verdict = self._verdict(case, case.report, seen)
            self._tell(case, seen, no_trace=why)

    def _joint(self, case: Case, traces: tuple[str, ...]) -> None:
        """Marks, counters, logs and traces together: the verdict."""
        case.phase, case.until_ns = "over", None
        try:
            report, seen = self._report(case, traces)
        except (StepscopeError, OSError) as error:
            self.num_failed += 1
            self._without(case, "failed", f"the traces cannot be read: {error}")
            return
        verdict = self._verdict(case, report, seen)
        case.report, case.verdict = report, verdict
        self._tell(case, seen)

    def _tell(self, case: Case, seen: Seen, no_trace: str | None = None) -> None:
        """The verdict that a case has now."""
        assert case.report is not None
        assert case.verdict is not None
        if not case.is_opened:
            if self._joined_known(case, case.verdict, is_last=True):
                return
            self._open(case)
        self.telling.verdict(case, case.report, case.verdict, onset_step=seen.onset_step, no_trace=no_trace)

    def _joined_known(self, case: Case, verdict: Verdict, *, is_last: bool) -> bool:
        """Whether its alarms joined another incident: one of the same cause, or, where nothing more will be
        recorded, one whose cause is all that the report shows."""
        shown = {card.id for card in case.report.cards} if case.report is not None else set()
        for other in self._others(case):
            is_same = other.rule is not None and other.rule == verdict.rule
            is_all = is_last and verdict.outcome != "confirmed" and other.rule in shown
            if other.rule and (is_same or (is_all and case.family.asks == "trace")):
                self.cases.remove(case)
                for alarm in case.alarms.values():
                    self._join(other, alarm)
                return True
        return False

    def resume(self) -> None:
        """Take up the incidents that are open in the store: nothing is told twice."""
        for case, incident in cases_of(self.store, self.now_ns(), self.settings.cool_down_ns):
            self.cases.append(case)
            if incident.told_ns is None and case.phase == "over":
                self.telling.again(case, incident)
