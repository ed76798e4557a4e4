"""What is done for a case: looked at, recorded, looked at again, told. Called from one thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from stepscope.act.capture.need import FEW_STEPS, wanted
from stepscope.act.capture.request import Request
from stepscope.model.alarm import Alarm
from stepscope.model.error import StepscopeError
from stepscope.model.incident import CaptureOf, Noted
from stepscope.model.report import Report
from stepscope.model.text import Lang
from stepscope.offline.stored import Asked, Window, window_of
from stepscope.rules import load_catalog
from stepscope.server.feed import Feed
from stepscope.server.judge.case import Captures, Case, incident_of_case, is_same_matter, with_ranks
from stepscope.server.judge.look import USUAL_RANGE, Range, Seen, is_short, window_for
from stepscope.server.judge.record import amended, incident_of, keep_alarm, opened
from stepscope.server.judge.resume import alarms_left, cases_of
from stepscope.server.judge.tell import Telling
from stepscope.server.judge.verdict import Verdict, judged
from stepscope.store.contract import Store

S = 1_000_000_000
RECENT_NS = 60 * S
Diagnose = Callable[[Window, Asked], Report]
"""`worker.Worker.diagnose`, or another that raises StepscopeError where there is no report."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`also`: languages in which people are told besides `lang`. `capture_ns`: how long traces are waited
    for, and longer where `capture_steps` steps take longer; `cool_down_ns`: how long after its end an
    incident takes alarms of its cause up again; `most_ranks`: so many are captured of a larger job, those in
    question first. `counters_ns`: how long counters of the traced steps are waited for once the traces are
    here."""

    lang: Lang = "en"
    also: tuple[Lang, ...] = ()
    capture_ns: int = 20 * S
    capture_steps: int = 24
    most_capture_ns: int = 180 * S
    stacks_ns: int = 6 * S
    counters_ns: int = 6 * S
    cool_down_ns: int = 600 * S
    most_ranks: int = 32
    range: Range = USUAL_RANGE


USUAL = Settings()
UNCONFIRMED_NS = 60 * S
"""After a start: a condition that holds is told again long before."""


class Handling:
    """The cases of all jobs, and what is done for one."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        captures: Captures,
        diagnose: Diagnose,
        now_ns: Callable[[], int],
        settings: Settings,
        thresholds: Callable[[], Mapping[str, Mapping[str, float]]],
        notes_of: Callable[[Case, Report], Sequence[str]],
    ) -> None:
        self.store, self.feed, self.captures = store, feed, captures
        self.settings, self.now_ns = settings, now_ns
        self._diagnose, self._thresholds = diagnose, thresholds
        self.catalog = load_catalog()
        self.telling = Telling(store, feed, settings.lang, now_ns, notes_of, self._in_other_languages)
        self.cases: list[Case] = []
        self._began_ns = 0
        self.left: dict[str, Alarm] = {}
        """Alarms that an earlier server left open, and that no watch has told since."""
        self.num_incidents = self.num_joined = self.num_captures = self.num_failed = 0

    def resume(self) -> None:
        """Take up the incidents and alarms that are open in the store: nothing is told twice."""
        self.left = alarms_left(self.store, self.now_ns())
        for case, incident in cases_of(self.store, self.now_ns(), self.settings.cool_down_ns):
            self.cases.append(case)
            if incident.told_ns is None and case.phase == "over":
                self.telling.again(case, incident)

    def tend(self) -> None:
        """Alarms that an earlier server left, and that no watch tells again, are over: whatever they were of
        ended while nobody looked."""
        now = self.now_ns()
        self._began_ns = self._began_ns or now
        if now - self._began_ns < UNCONFIRMED_NS:
            return
        for alarm in self.left.values():
            self.feed.tell("alarm", msgspec.structs.replace(alarm, end_ns=max(now, alarm.onset_ns)))
        self.left.clear()
        for case in self.cases:
            if case.unconfirmed:
                was = case.ended_ns
                for id in list(case.unconfirmed):
                    case.give_up(id, now)
                self.note_end(case, was)

    def told_again(self, alarm: Alarm) -> None:
        """What an earlier server left of this alarm, under this id or another, is this one."""
        self.left.pop(alarm.id, None)
        for left in [each for each in self.left.values() if is_same_matter(each, alarm)]:
            del self.left[left.id]
            end_ns = max(alarm.seen_ns, left.onset_ns)
            self.feed.tell("alarm", msgspec.structs.replace(left, end_ns=end_ns))

    def is_settled(self, case: Case) -> bool:
        """Whether somebody closed it, or the change against it worked: what comes then is a new matter."""
        incident = incident_of(self.store, case.id) if case.is_opened else None
        return incident is not None and incident.state in ("verified", "closed")

    def end_runs(self, job: str) -> None:
        """Alarms of runs that are over end with them; that a run stands still, or is gone, is over when a
        newer one of the job makes steps."""
        rows = {row.run: row for row in self.store.runs(job)}
        newest_ns = max((row.start_ns for row in rows.values() if not row.is_over), default=0)
        for case in self.cases:
            row = rows.get(case.run or "")
            if case.job != job or case.ended_ns is not None or row is None or not row.is_over:
                continue
            is_replaced = row.start_ns < newest_ns
            if case.family.asks == "stacks" and not is_replaced:
                continue
            now = self.now_ns()
            for alarm in [each for each in case.alarms.values() if each.end_ns is None]:
                case.alarms[alarm.id] = ended = msgspec.structs.replace(alarm, end_ns=now)
                keep_alarm(self.store, ended)
            self.amend(case, "a newer run of the job goes on" if is_replaced else "the run ended")

    def open(self, case: Case) -> None:
        if not case.is_opened:
            case.is_opened = True
            self.num_incidents += 1
            opened(self.store, self.feed, incident_of_case(case, self.now_ns()))

    def join(self, case: Case, alarm: Alarm) -> None:
        self.num_joined += 1
        was = case.ended_ns
        case.heard(alarm)
        self.amend(case, f"alarm {alarm.condition} joins: {alarm.text}".rstrip(": "))
        self.note_end(case, was)

    def note_end(self, case: Case, was: int | None) -> None:
        now = case.ended_ns
        if (now is None) != (was is None):
            what = "its alarms hold again" if now is None else "its alarms are over"
            self.amend(case, what)

    def others(self, case: Case) -> Iterator[Case]:
        """Other cases of its run that people know of, or may."""
        return (
            each
            for each in self.cases
            if each is not case
            and each.is_of(case.job, case.run)
            and each.is_opened
            and not each.is_dismissed
            and not self.is_settled(each)
        )

    def amend(self, case: Case, what: str) -> None:
        """A line for its history, and how it stands now."""
        noted = Noted(at_ns=self.now_ns(), what=what)
        if case.is_opened:
            amended(self.store, self.feed, case.id, case.stands, noted)
        else:
            case.notes.append(noted)

    def look(self, case: Case) -> None:
        """The first look, without a trace: it decides, or says what to record."""
        case.phase = "over"
        if case.job is None or case.run is None:
            self.open(case)
            self.amend(case, "no job: nothing to diagnose")
            self.telling.without_report(case)
            return
        try:
            report, seen = self._report(case, ())
        except (StepscopeError, OSError) as error:
            self.failed(case, str(error))
            return
        verdict = self._verdict(case, report, seen)
        case.report, case.verdict, case.onset_step = report, verdict, seen.onset_step
        if not case.is_opened and self._joined_known(case, verdict, is_last=False):
            return
        self.amend(case, f"looked at without a trace: {verdict.rule or verdict.outcome}")
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
            self.without(case, "refused", str(error))
            return
        case.captured = CaptureOf(id=made.id, ranks=made.ranks)
        if made.state in ("failed", "refused"):
            self.without(case, made.state, made.refusal or made.state)
            return
        slow = (seen.step_ns or 0) * self.settings.capture_steps
        wait = min(max(self.settings.capture_ns, slow), self.settings.most_capture_ns)
        case.phase, case.until_ns = "capture", self.now_ns() + wait
        case.captured = CaptureOf(state="asked", id=made.id, ranks=made.ranks)
        self.amend(case, f"capture {made.id} asked: {request.num_steps} steps")

    def failed(self, case: Case, why: str) -> None:
        """There is no diagnosis: the incident is told as its alarms have it."""
        self.num_failed += 1
        case.phase, case.until_ns = "over", None
        self.open(case)
        self.amend(case, f"no diagnosis: {why}")
        if case.told is None:
            self.telling.without_report(case)

    def ask_stacks(self, case: Case) -> None:
        assert case.job is not None or case.run is None
        if case.job is None or case.run is None:
            return
        with contextlib.suppress(StepscopeError):
            if self.captures.ask_stacks(case.job, case.run):
                case.phase, case.until_ns = "stacks", self.now_ns() + self.settings.stacks_ns
                self.amend(case, "stacks of the ranks asked")

    def waited(self, case: Case) -> None:
        """What was asked did not come in time."""
        if case.phase == "stacks":
            case.phase = "look"
            return
        if case.phase == "counters":
            self.joint(case, case.traces)
            return
        self.without(case, "failed", "no traces in time")

    def without(self, case: Case, state: str, why: str) -> None:
        """The card without a trace, which says so. Traces that come later are looked at all the same."""
        was, case.phase, case.until_ns = case.phase, "over", None
        case.captured = msgspec.structs.replace(
            case.captured, state="refused" if state == "refused" else "failed", why=why
        )
        self.amend(case, f"no trace: {why}")
        if case.told is None and case.report is not None and case.verdict is not None:
            seen = Seen(None, case.onset_step, None)
            if was == "capture":
                # It went on meanwhile: more of it is there than at the first look.
                with contextlib.suppress(StepscopeError, OSError):
                    case.report, seen = self._report(case, ())
                    case.verdict = self._verdict(case, case.report, seen)
            self._tell(case, seen, no_trace=why)

    def joint(self, case: Case, traces: tuple[str, ...]) -> None:
        """Marks, counters, logs and traces together: the verdict."""
        case.phase, case.until_ns, case.traces = "over", None, traces
        if case.num_waits * S < self.settings.counters_ns and self._is_short(case):
            case.num_waits += 1
            case.phase, case.until_ns = "counters", self.now_ns() + S
            return
        try:
            report, seen = self._report(case, traces)
        except (StepscopeError, OSError) as error:
            self.num_failed += 1
            self.without(case, "failed", f"the traces cannot be read: {error}")
            return
        verdict = self._verdict(case, report, seen)
        case.report, case.verdict = report, verdict
        self._tell(case, seen)

    def _is_short(self, case: Case) -> bool:
        assert case.job is not None
        assert case.run is not None
        now = self.now_ns()
        return is_short(window_of(self.store, case.job, case.run, now - RECENT_NS, now + 1))

    def _tell(self, case: Case, seen: Seen, no_trace: str | None = None) -> None:
        """The verdict that a case has now."""
        assert case.report is not None
        assert case.verdict is not None
        if not case.is_opened:
            if self._joined_known(case, case.verdict, is_last=True):
                return
            self.open(case)
        self.telling.verdict(case, case.report, case.verdict, onset_step=seen.onset_step, no_trace=no_trace)

    def _joined_known(self, case: Case, verdict: Verdict, *, is_last: bool) -> bool:
        """Whether its alarms joined another incident: one of the same cause, or, where nothing more will be
        recorded, one whose cause is all that the report shows."""
        shown = {card.id for card in case.report.cards} if case.report is not None else set()
        for other in self.others(case):
            is_same = other.rule is not None and other.rule == verdict.rule
            is_same = is_same and other.is_again(case, verdict.ranks)
            is_all = is_last and verdict.outcome != "confirmed" and other.rule in shown
            is_all = is_all and not other.is_past(case.onset_ns)
            is_again = is_last and not other.rule and verdict.rule is None and case.is_like(other)
            if is_again or (other.rule and (is_same or (is_all and case.family.asks == "trace"))):
                self.cases.remove(case)
                for alarm in case.alarms.values():
                    self.join(other, alarm)
                if is_same:
                    self.telling.widen(other, verdict)
                return True
        return False

    def _report(self, case: Case, traces: tuple[str, ...]) -> tuple[Report, Seen]:
        assert case.job is not None
        assert case.run is not None
        range_, before_ns = self.settings.range, case.family.before_ns
        window, seen = window_for(
            self.store, case.job, case.run, case.onset_ns, self.now_ns(), is_speed=case.is_speed,
            traces=traces, range_=range_ if before_ns is None else replace(range_, before_ns=before_ns),
        )  # fmt: skip
        asked = Asked(lang=self.settings.lang, thresholds=self._thresholds() or None)
        case.looked = (window, asked)
        step = case.onset_alarm_step
        return self._diagnose(window, asked), seen if step is None else replace(seen, onset_step=step)

    def _in_other_languages(self, case: Case) -> Sequence[tuple[Lang, Report]]:
        """The same diagnosis once more for each, where people are told in it."""
        found: list[tuple[Lang, Report]] = []
        if case.looked is not None:
            window, asked = case.looked
            for lang in self.settings.also:
                with contextlib.suppress(StepscopeError, OSError):
                    found.append((lang, self._diagnose(window, replace(asked, lang=lang))))
            case.looked = None
        return found

    def _verdict(self, case: Case, report: Report, seen: Seen) -> Verdict:
        now = [other for other in self.others(case) if not other.is_past(case.onset_ns)]
        known = {other.rule for other in now if other.rule}
        return judged(report, list(case.alarms.values()), self.catalog, slowdown=seen.slowdown, known=known)
