"""The watch over all jobs: batches of agents in, alarms out. Pure: whoever calls turns the time.

    watch = Watch()
    watch.take(batches)          # as they come, in any order of agents
    alarms = watch.tick(now_ns)  # a few times a second: new, changed and ended ones

An alarm that is told again has the id it had; its newest form replaces the others. What it needs and when it
is silent: `detect.alert.table`, `detect.alert.relation`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.detect.alert.book import Book
from stepscope.detect.alert.budget import Budget
from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.gated import NEEDED, Point
from stepscope.detect.alert.happening import Happenings
from stepscope.detect.alert.job import Jobs
from stepscope.detect.alert.level import Levels, States
from stepscope.detect.alert.table import TABLE
from stepscope.detect.alert.threshold import with_thresholds
from stepscope.detect.seen.column import Columns
from stepscope.detect.seen.middle import Middles
from stepscope.detect.seen.run import RunSeen
from stepscope.detect.seen.second import NS, Second, Whose
from stepscope.model.alarm import Alarm
from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples

OVER_NS = 3 * NS
"""After the last word of a run, before what was of it is closed: other ranks' last words may be late."""
FORGET_NS = 3600 * NS
"""A job of which nothing was heard for so long."""
WARM_UP_STEPS = 10


@dataclass(frozen=True, slots=True)
class Learning:
    """A run whose normal is not known yet: until then only literal conditions make alarms."""

    job: str
    run: str
    num_steps: int
    num_needed: int


class Watch:
    """All jobs and devices. Not safe for several threads."""

    def __init__(
        self,
        table: Sequence[Condition] = TABLE,
        thresholds: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`thresholds` as read from TOML (`detect.alert.threshold`); UsageError where they cannot be."""
        self.table = with_thresholds(table, thresholds or {})
        by_id = {each.id: each for each in self.table}
        self._book = Book(budget)
        self._columns = Columns()
        self._happenings = Happenings(by_id, self._columns, self._book)
        self._levels = Levels(self.table, self._columns, self._book, self._happenings.gauge)
        self._jobs = Jobs(by_id, self._book)
        self._middles = Middles()
        self._states = States()
        self._runs: dict[tuple[str, str], RunSeen] = {}
        self._newest: dict[str, RunSeen] = {}
        self._over: set[tuple[str, str]] = set()
        self._rows: dict[str, list[int]] = {}
        self._waiting: deque[Batch] = deque()

    # ── what is asked ──

    def take(self, batches: Iterable[Batch]) -> None:
        """Batches of any agents, each agent's in order. They are looked at by the next `tick`."""
        self._waiting.extend(batches)

    def heed(self, alarms: Sequence[Alarm]) -> None:
        """Alarms of another watch (`detect.hang`): they explain ours, and are not told from here."""
        for each in alarms:
            run = self._newest.get(each.about.job or "")
            self._book.heed((each,), run.hosts if run is not None else frozenset())

    def confirm(self, ids: Collection[str]) -> None:
        """A cause was found for these alarms: they do not count against their jobs' budgets."""
        self._book.confirm(ids)

    def tick(self, now_ns: int) -> list[Alarm]:
        """Alarms that are new, changed or over. `now_ns` is ours, and never goes back."""
        self._book.now_ns = now_ns = max(now_ns, self._book.now_ns)
        while self._waiting:
            self._take(self._waiting.popleft(), now_ns)
        self._refresh(now_ns)
        for run in list(self._newest.values()):
            if (run.job, run.run) in self._over:
                continue
            self._jobs.steps(run, run.whole(now_ns))
            self._jobs.look(run, now_ns)
        for second in self._columns.advance(now_ns):
            self._second(second)
        self._levels.tend(lambda row: int(self._columns.cursor[row]) * NS)
        self._happenings.tend()
        self._end_runs(now_ns)
        return self._book.changed()

    def learning(self) -> tuple[Learning, ...]:
        """Runs whose normal is not known yet."""
        found = []
        for job, run in self._newest.items():
            if not self._jobs.gated.num_learned(job) or self._jobs.gated.is_trying(job):
                found.append(Learning(job, run.run, run.num_steps, NEEDED + WARM_UP_STEPS))
        return tuple(found)

    @property
    def num_held_back(self) -> dict[str, int]:
        """Pages of each job that its budget held back."""
        return dict(self._book.spent.num_held_back)

    @property
    def num_late(self) -> int:
        """Samples that came too late to be looked at."""
        return self._columns.num_late

    # ── batches ──

    def _take(self, batch: Batch, now_ns: int) -> None:
        if isinstance(batch, Samples):
            for second in self._columns.take(batch, now_ns):
                self._refresh(now_ns)
                self._second(second)
        elif isinstance(batch, Marks):
            self._marks(batch, now_ns)
        elif isinstance(batch, Happened):
            self._happenings.take(batch)
        elif isinstance(batch, Lines):
            self._happenings.lines(batch)

    def _marks(self, batch: Marks, now_ns: int) -> None:
        identity = batch.identity
        job = str(identity.get("job") or identity.get("run") or f"@{batch.host}")
        name = str(identity.get("run") or batch.ring)
        key = (job, name)
        if key in self._over:
            return
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = RunSeen(job, name)
        run.take(batch, now_ns)
        before = self._newest.get(job)
        if before is run:
            return
        is_newer = before is None or (run.first_ns or 0) >= (before.first_ns or 0)
        if is_newer:
            self._newest[job] = run
            if before is not None:
                self._close(before, before.last_ns or now_ns)
            same = before is not None and _world(before) == _world(run)
            self._jobs.begin(run, is_same_shape=same or before is None)

    # ── seconds ──

    def _refresh(self, now_ns: int) -> None:
        """Whose devices are, and what their jobs' steps do now."""
        columns, states = self._columns, self._states
        if columns.changed or columns.forgotten:
            self._rows = {}
            for row, whose in enumerate(columns.whose):
                if whose.job is not None:
                    self._rows.setdefault(whose.job, []).append(row)
        states.fit(columns.size)
        states.of_row = {}
        states.is_still[:] = False
        states.is_steady[:] = False
        for job, rows in self._rows.items():
            run = self._newest.get(job)
            state = "unknown" if run is None else run.state(now_ns)
            states.of_row.update(dict.fromkeys(rows, state))
            if state == "still":
                states.is_still[rows] = True
            elif state == "advancing" and run is not None and run.num_steps >= WARM_UP_STEPS:
                states.is_steady[rows] = True

    def _second(self, second: Second) -> None:
        self._middles.take(second)
        cursor = self._columns.cursor
        for job, rows in self._rows.items():
            run = self._newest.get(job)
            if run is None or (job, run.run) in self._over:
                continue  # samples of its last seconds come late: what began then would never end
            if run.is_set_aside(int(cursor[rows[0]])):
                self._states.is_steady[rows] = False
            for found in self._middles.of(job, rows, cursor):
                if not found:
                    continue
                is_clean = run.num_steps >= WARM_UP_STEPS and not run.is_set_aside(found[0].second)
                self._jobs.counters(
                    run, [Point(job, each.signal, None, each.value, is_clean, each.at_ns) for each in found]
                )
        self._levels.take(second, self._states)

    # ── ends ──

    def _end_runs(self, now_ns: int) -> None:
        for job, run in list(self._newest.items()):
            key = (job, run.run)
            if run.is_over and key not in self._over and now_ns - run.heard_ns >= OVER_NS:
                self._close(run, run.last_ns or now_ns)
            if now_ns - run.heard_ns >= FORGET_NS:
                self._close(run, run.last_ns or now_ns)
                del self._newest[job]
                self._jobs.gated.forget(job)
                self._middles.forget(job)
                self._runs = {each: run for each, run in self._runs.items() if each[0] != job}
                self._over = {each for each in self._over if each[0] != job}
        self._book.spent.forget(now_ns)

    def _close(self, run: RunSeen, at_ns: int) -> None:
        key = (run.job, run.run)
        if key in self._over:
            return
        self._over.add(key)
        self._runs.pop(key, None)
        self._jobs.end(run, at_ns)
        for row in self._rows.get(run.job, ()):
            if self._columns.whose[row].run == run.run:
                self._columns.whose[row] = Whose(host=self._columns.whose[row].host)
                self._columns.changed.append(row)


def _world(run: RunSeen) -> int | None:
    return max((each.world_size for each in run.rings.values() if each.world_size), default=None)
