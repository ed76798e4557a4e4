"""The loop's middle: alarms in, incidents and cards out. One thread; what it asks for answers by the feed.

What a case went through is in its incident's history, each line with its time: from it the loop's latency can
be read, and after a kill the loop goes on where it stood.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stepscope.model.alarm import SEVERITIES, Alarm
from stepscope.model.batch import Batch, Lines
from stepscope.model.incident import CaptureOf
from stepscope.model.report import Report
from stepscope.server.feed import Feed, Topic
from stepscope.server.judge.case import CaptureMade, Captures, Case, id_of
from stepscope.server.judge.handling import USUAL, Diagnose, Handling, S, Settings
from stepscope.server.judge.record import keep_alarm
from stepscope.store.contract import Store


class Judge:
    """`start` runs it in a thread of its own; a test calls `turn` instead."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        captures: Captures,
        diagnose: Diagnose,
        now_ns: Callable[[], int],
        settings: Settings = USUAL,
        thresholds: Callable[[], Mapping[str, Mapping[str, float]]] = dict,
        ticks: Sequence[Callable[[], None]] = (),
        notes_of: Callable[[Case, Report], Sequence[str]] = lambda case, report: (),
    ) -> None:
        """`thresholds` are the site's own now; `ticks` are called between cases, when nothing waits;
        `notes_of` as `Telling` takes it."""
        self.handling = Handling(store, feed, captures, diagnose, now_ns, settings, thresholds, notes_of)
        self.store, self.feed, self.settings, self.now_ns = store, feed, settings, now_ns
        self._ticks = ticks
        self._inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._ends: list[Callable[[], None]] = []
        self.num_alarms = 0
        heard: tuple[Topic, ...] = ("alarm", "capture", "run")
        self._ends += [feed.listen(topic, self._hear(topic)) for topic in heard]
        self._ends.append(feed.listen("batches", self._stacks))

    def start(self) -> None:
        """Take up what an earlier server left open, and go on in a thread."""
        self.handling.resume()
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
            try:
                with contextlib.suppress(queue.Empty):
                    self._handle(*self._inbox.get(timeout=0.25))
                self.turn()
            except Exception:  # noqa: BLE001  the loop must live
                self.handling.num_failed += 1

    def turn(self) -> None:
        """Everything that can be done now."""
        while self._drain() or self._advance():
            pass
        self.handling.tend()
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
        self.handling.cases = [each for each in self.handling.cases if not self._is_forgotten(each, now)]
        for case in self.handling.cases:
            if case.phase == "look":
                self._guarded(case, self.handling.look)
                return True
            if (
                case.phase in ("capture", "stacks", "counters")
                and case.until_ns is not None
                and now >= case.until_ns
            ):
                self._guarded(case, self.handling.waited)
                return True
        return False

    def _guarded(self, case: Case, act: Callable[[Case], None]) -> None:
        """A fault of ours in one case does not end the others, and its alarms are told all the same."""
        try:
            act(case)
        except Exception as error:  # noqa: BLE001  see above
            self.handling.failed(case, f"a fault of stepscope ({type(error).__name__}: {error})")

    def _is_forgotten(self, case: Case, now_ns: int) -> bool:
        end = case.ended_ns
        return case.phase == "over" and end is not None and now_ns - end > self.settings.cool_down_ns

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
            for case in self.handling.cases:
                if case.phase == "stacks" and what in (None, case.job):
                    # Those of the other ranks come a moment later.
                    case.until_ns = min(case.until_ns or 0, self.now_ns() + S)
        elif topic == "run":
            self.handling.end_runs(what[0])

    def _alarm(self, alarm: Alarm) -> None:
        keep_alarm(self.store, alarm)
        self.handling.told_again(alarm)
        mine = next((case for case in reversed(self.handling.cases) if alarm.id in case.alarms), None)
        spell = "" if mine is None else _spell(mine, alarm, is_settled=self.handling.is_settled(mine))
        if mine is not None and not spell:
            was, before = mine.ended_ns, mine.alarms[alarm.id]
            onset = min(before.onset_ns, alarm.onset_ns)
            mine.heard(msgspec.structs.replace(alarm, onset_ns=onset))
            self.handling.note_end(mine, was)
            return
        if alarm.end_ns is not None or not alarm.pages or alarm.inhibited_by is not None:
            return
        self.num_alarms += 1
        run = alarm.about.run or self._newest_run(alarm)
        for case in self.handling.cases:
            if (
                case.is_of(alarm.about.job, run)
                and not case.is_dismissed
                and case.takes(alarm, self.handling.catalog)
                and not self.handling.is_settled(case)
            ):
                self.handling.join(case, alarm)
                return
        case = Case(id_of(alarm, spell), alarm.about.job, run, {alarm.id: alarm})
        self.handling.cases.append(case)
        if not any(self.handling.others(case)):
            self.handling.open(case)
        if case.family.asks == "stacks":
            self.handling.ask_stacks(case)

    def _newest_run(self, alarm: Alarm) -> str | None:
        rows = self.store.runs(alarm.about.job) if alarm.about.job is not None else ()
        return rows[0].run if rows else None

    def _capture(self, made: CaptureMade) -> None:
        case = next((c for c in self.handling.cases if c.captured.id == made.id), None)
        if case is None or case.is_dismissed:
            return
        if made.state in ("failed", "refused"):
            self.handling.without(case, made.state, made.refusal or made.state)
        elif made.state == "done":
            case.captured = CaptureOf(state="done", id=made.id, steps=made.steps, ranks=made.ranks)
            self.handling.amend(case, f"traces of capture {made.id} are here")
            traces = self.store.traces(made.job, made.run, made.id)
            self._guarded(case, lambda each: self.handling.joint(each, traces))
        elif made.state == "recording":
            steps_ = "" if made.steps is None else f", steps {made.steps[0]} to {made.steps[1]}"
            self.handling.amend(case, f"capture {made.id} is armed{steps_}")


def _spell(case: Case, alarm: Alarm, *, is_settled: bool) -> str:
    """What makes an alarm that a case has a matter of its own again: it holds anew long after that was over,
    or after it was settled, or is worse than what was dismissed. Empty where it is not."""
    if alarm.end_ns is not None:
        return ""
    before = case.alarms[alarm.id]
    if before.end_ns is not None and (is_settled or case.is_past(alarm.onset_ns)):
        return f"@{before.end_ns}"
    is_worse = SEVERITIES.index(alarm.severity) > SEVERITIES.index(before.severity)
    return f"@{alarm.severity}" if (case.is_dismissed or is_settled) and is_worse else ""
