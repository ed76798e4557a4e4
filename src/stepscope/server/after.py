"""After the change: incidents that people take on and change, whether it worked, and when one is over.

What may follow on what is in `act.incident.life`; whether steps are faster in `diagnose.gain`. Here is only
which windows of the store are looked at, and when.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stepscope.act.incident import learn, life
from stepscope.act.incident.difference import commit_of, config_difference, inferred_change
from stepscope.analyse.compare.marked import MarkedWindow, Spans, marked_window
from stepscope.diagnose.gain import LEAST_BEHIND, gain_of
from stepscope.model.alarm import Alarm
from stepscope.model.error import StepscopeError
from stepscope.model.incident import Change, Gain, Incident, Noted
from stepscope.model.report import Report
from stepscope.model.report import decode as decode_report
from stepscope.server.feed import Feed
from stepscope.store.contract import RunRow, Store

HOUR_NS = 3_600_000_000_000
MOST_INCIDENTS = 1_000
MOST_ALARMS = 5_000

Amend = Callable[[str, Callable[[Incident], Incident]], Incident | None]
"""Reads an incident, changes it, writes and tells it, under whatever lock all that change incidents share;
`None` where there is none of that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long is looked and waited. `window_ns` of the incident and before it are compared at most; `settle`
    steps of a new run are left out; an incident whose change worked is closed after `healthy_ns`."""

    window_ns: int = HOUR_NS
    settle: int = 10
    healthy_ns: int = 6 * HOUR_NS
    look_ns: int = 14 * 24 * HOUR_NS
    """Incidents that were opened longer ago are left alone."""


class After:
    """What people do to incidents (`server.parts.IncidentActions`), and `tick`, which does the rest."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        clock_ns: Callable[[], int],
        *,
        amend: Amend | None = None,
        waits: Waits | None = None,
    ) -> None:
        self._store, self._feed, self._clock_ns = store, feed, clock_ns
        self._amend = amend or self._amended
        self._waits = waits or Waits()
        self._lock = threading.Lock()
        self._judged_at: dict[str, tuple[Change, int]] = {}
        """Incident -> the change, and how many steps there were when nothing could be told."""

    # ── people ──

    def acknowledge(self, id: str, by: str, note: str | None = None) -> Incident:
        """Somebody looks after it. KeyError where there is no such incident."""
        now_ns = self._clock_ns()

        def act(incident: Incident) -> Incident:
            made = life.acknowledged(incident, by, now_ns)
            if note is None:
                return made
            line = Noted(at_ns=now_ns, what=note, by=by)
            return msgspec.structs.replace(made, history=(*made.history, line))

        return self._acted(id, act)

    def change(self, id: str, change: Change) -> Incident:
        """Somebody changed something. What labels of the runs say of it is filled in where it was not told:
        commit, configuration, and the run."""
        return self._acted(id, lambda incident: life.changed(incident, self._completed(incident, change)))

    def close(self, id: str, by: str, why: str | None = None) -> Incident:
        """It is over."""
        now_ns = self._clock_ns()
        return self._acted(id, lambda incident: life.closed(incident, by, now_ns, why))

    def reopen(self, id: str, by: str, why: str | None = None) -> Incident:
        """It came back."""
        now_ns = self._clock_ns()
        return self._acted(id, lambda incident: life.reopened(incident, by, now_ns, why))

    def _acted(self, id: str, act: Callable[[Incident], Incident]) -> Incident:
        done = self._amend(id, act)
        if done is None:
            raise KeyError(id)
        return done

    # ── what was learned ──

    def lessons(self) -> dict[str, learn.Lesson]:
        """What came of every remedy here."""
        return learn.lessons(self._incidents(None))

    def with_history(self, report: Report) -> Report:
        """The report with what came of its remedies here."""
        return learn.with_history(report, self.lessons())

    # ── by itself ──

    def run(self, stop: threading.Event, every_s: float = 10.0, err: Callable[[str], None] = print) -> None:
        """`tick` until `stop`: for a thread of its own."""
        told = ""
        while not stop.wait(every_s):
            try:
                self.tick()
                told = ""
            except Exception as error:  # noqa: BLE001  a loop that must live: the next turn tries again
                line = f"changes could not be judged ({type(error).__name__}: {error})"
                if line != told:
                    err(line)
                told = line

    def tick(self) -> list[Incident]:
        """Look at every incident that is not closed: those that this changed."""
        now_ns = self._clock_ns()
        done: list[Incident] = []
        for incident in self._incidents(now_ns - self._waits.look_ns):
            if incident.state in ("open", "acknowledged"):
                done += self._inferred(incident)
            elif incident.state == "changed":
                done += self._verified(incident, now_ns)
            elif incident.state == "verified" and self._is_healthy(incident, now_ns):
                done += self._healed(incident, now_ns)
        return done

    def _healed(self, incident: Incident, now_ns: int) -> list[Incident]:
        why = f"no alarm for {self._waits.healthy_ns / HOUR_NS:g} hours since the change worked"
        return self._as_it_was(incident, lambda each: life.closed(each, life.STEPSCOPE, now_ns, why))

    def _as_it_was(self, incident: Incident, act: Callable[[Incident], Incident]) -> list[Incident]:
        """Act on an incident that nobody has moved on meanwhile."""

        def only(there: Incident) -> Incident:
            return act(there) if (there.state, there.change) == (incident.state, incident.change) else there

        done = self._amend(incident.id, only)
        if done is None or (done.state, done.gain) == (incident.state, incident.gain):
            return []
        return [done]

    def _is_healthy(self, incident: Incident, now_ns: int) -> bool:
        since = max((line.at_ns for line in incident.history), default=incident.opened_ns)
        is_over = incident.ended_ns is not None
        return is_over and now_ns - max(since, incident.ended_ns or 0) >= self._waits.healthy_ns

    def _inferred(self, incident: Incident) -> list[Incident]:
        """A new run of the job whose labels differ is taken for the change, and said to be inferred."""
        runs = self._runs(incident)
        own = next((row for row in runs if row.run == incident.about.run), None)
        newest = runs[0] if runs else None
        if own is None or newest is None or newest.run == own.run or newest.start_ns <= incident.onset_ns:
            return []
        change = inferred_change(own.labels, newest.labels, run=newest.run, at_ns=newest.start_ns)
        if change is None:
            return []
        return self._as_it_was(incident, lambda each: life.changed(each, change))

    def _completed(self, incident: Incident, change: Change) -> Change:
        runs = self._runs(incident)
        own = next((row for row in runs if row.run == incident.about.run), None)
        target = self._run_behind(incident, change, runs)
        if own is None or target is None or own.run == target.run:
            return change
        config = change.config or config_difference(own.labels, target.labels)
        commit = commit_of(target.labels)
        is_other = commit is not None and commit != commit_of(own.labels)
        return msgspec.structs.replace(
            change,
            run=target.run,
            config=config,
            commit=change.commit or (commit if is_other else None),
        )

    def _run_behind(self, incident: Incident, change: Change, runs: Sequence[RunRow]) -> RunRow | None:
        """The run in which a change is seen: the one that was told, else the newest that began after the
        incident did, else its own."""
        if change.run is not None:
            return next((row for row in runs if row.run == change.run), None)
        later = [
            row
            for row in runs
            if row.start_ns > incident.onset_ns and (not row.is_over or row.last_ns > change.at_ns)
        ]
        return later[0] if later else next((row for row in runs if row.run == incident.about.run), None)

    def _verified(self, incident: Incident, now_ns: int) -> list[Incident]:
        change, job = incident.change, incident.about.job
        if change is None or job is None:
            return []
        runs = self._runs(incident)
        target = self._run_behind(incident, change, runs)
        if target is None:
            return []
        is_new_run = target.run != incident.about.run
        # A person may tell of a change after its run began; in the same run it holds from when it is told on.
        start_ns = target.start_ns if is_new_run else change.at_ns
        behind = self._window(job, target.run, start_ns, now_ns, self._waits.settle)
        num = len(behind.steps.counted_ns)
        known = self._judged_at.get(incident.id)
        if num < LEAST_BEHIND or (known is not None and known[0] == change and num < 2 * known[1]):
            return []
        before = incident.about.run or target.run
        end_ns = min(incident.ended_ns or change.at_ns, change.at_ns)
        onset_ns, window_ns = incident.onset_ns, self._waits.window_ns
        gain = gain_of(
            self._window(job, before, onset_ns - window_ns, onset_ns, 0, self._ill(incident)),
            self._window(job, before, onset_ns, min(end_ns, onset_ns + window_ns), 0),
            behind,
            self._predicted(incident, change),
            are_alarms_over=incident.ended_ns is not None and incident.ended_ns <= now_ns,
        )
        if gain.verdict == "unknown":
            self._judged_at[incident.id] = change, num
        if gain == incident.gain:
            return []
        told = self._completed(incident, change)  # its run may have begun after it was told

        def act(each: Incident) -> Incident:
            return _judged(msgspec.structs.replace(each, change=told), gain, now_ns)

        return self._as_it_was(incident, act)

    def _predicted(self, incident: Incident, change: Change) -> tuple[float, float] | None:
        """The gain that the remedy's advice promised."""
        body = self._store.get("report", incident.report) if incident.report and change.remedy else None
        if body is None:
            return None
        try:
            report = decode_report(body)
        except msgspec.MsgspecError:
            return None
        remedies = (remedy for finding in report.findings for remedy in finding.remedies)
        mine = next((remedy for remedy in remedies if remedy.id == change.remedy), None)
        if mine is None:
            return None
        before = mine.history.gain_share_before if mine.history is not None else None
        return before or mine.gain_share

    def _window(
        self, job: str, run: str, start_ns: int, end_ns: int, settle: int, without: Spans = ()
    ) -> MarkedWindow:
        if end_ns <= start_ns:
            return marked_window((), start_ns, end_ns)
        marks = self._store.marks(job, run, start_ns, end_ns)
        return marked_window(marks, start_ns, end_ns, settle, without)

    def _ill(self, incident: Incident) -> list[tuple[int, int | None]]:
        """When other incidents and alarms of the job held: steps before this incident that were not healthy
        either, whose difference is no noise. An alarm that was never over is left to its incident."""
        job, since_ns = incident.about.job, incident.onset_ns - self._waits.window_ns
        spans: list[tuple[int, int | None]] = []
        for document in self._store.documents("incident", job=job, limit=MOST_INCIDENTS):
            other = msgspec.json.decode(document.body, type=Incident)
            ends = [each for each in (other.ended_ns, other.closed_ns) if each is not None]
            if other.state == "verified" and other.history:
                ends.append(other.history[-1].at_ns)
            if other.id != incident.id and other.onset_ns < incident.onset_ns:
                spans.append((other.onset_ns, min(ends) if ends else None))
        for document in self._store.documents("alarm", job=job, start_ns=since_ns, limit=MOST_ALARMS):
            alarm = msgspec.json.decode(document.body, type=Alarm)
            if alarm.pages and alarm.end_ns is not None and alarm.onset_ns < incident.onset_ns:
                spans.append((alarm.onset_ns, alarm.end_ns))
        return [(first, last) for first, last in spans if last is None or last > since_ns]

    def _runs(self, incident: Incident) -> tuple[RunRow, ...]:
        """Runs of its job, the one that began last first."""
        job = incident.about.job
        rows = self._store.runs(job) if job is not None else ()
        return tuple(sorted(rows, key=lambda row: -row.start_ns))

    def _incidents(self, start_ns: int | None) -> Iterator[Incident]:
        for document in self._store.documents("incident", start_ns=start_ns, limit=MOST_INCIDENTS):
            yield msgspec.json.decode(document.body, type=Incident)

    def _amended(self, id: str, act: Callable[[Incident], Incident]) -> Incident | None:
        with self._lock:
            body = self._store.get("incident", id)
            if body is None:
                return None
            there = msgspec.json.decode(body, type=Incident)
            made = act(there)
            if made != there:
                self._store.put(
                    "incident", id, msgspec.json.encode(made), job=made.about.job, run=made.about.run,
                    at_ns=made.opened_ns,
                )  # fmt: skip
        if made != there:
            self._feed.tell("incident", made)
        return made


def _judged(incident: Incident, gain: Gain, now_ns: int) -> Incident:
    try:
        return life.judged(incident, gain, now_ns)
    except StepscopeError:  # somebody moved it on meanwhile
        return incident
