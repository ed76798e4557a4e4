"""The watches over what comes in, in a thread of their own: batches from the feed in, alarms to it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from stepscope.detect.hang import HangWatch
from stepscope.detect.watch import Watch
from stepscope.model.batch import Batch, Happened, Marks
from stepscope.model.incident import Incident
from stepscope.server.feed import Feed
from stepscope.store.contract import Store

TICK_S = 0.25
REPLAYED_NS = 1_800_000_000_000
"""What the store holds of so long ago is looked at again after a start: normals are learned from it."""


class Watching:
    """`start` and `stop` the thread; a test calls `turn` instead. `say` hears of a fault of ours, once."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        now_ns: Callable[[], int],
        watch: Watch | None = None,
        hangs: HangWatch | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._store, self._feed, self._now_ns, self._say = store, feed, now_ns, say
        self.watch, self.hangs = watch or Watch(), hangs or HangWatch()
        self._inbox: queue.SimpleQueue[Sequence[Batch]] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._confirmed: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
        self._ends: list[Callable[[], None]] = []
        self._said: str | None = None
        self._runs: set[tuple[str, str]] = set()
        self.num_batches = 0

    def start(self) -> None:
        """Look at the newest of what is stored, then at what comes."""
        self._ends = [
            self._feed.listen("batches", self._inbox.put), self._feed.listen("incident", self._confirm)
        ]  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="stepscope-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more looks."""
        for end in self._ends:
            end()
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(20)

    def _run(self) -> None:
        self._guarded(self._replay)
        while not self._is_over.wait(TICK_S):
            self._guarded(self.turn)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  a watch that ends would end all noticing, in silence
            line = f"a fault of stepscope while watching ({type(error).__name__}: {error})"
            if line != self._said:
                self._said = line
                self._say(line)

    def turn(self) -> None:
        """Look at what came, and tell what it means."""
        fresh: list[Batch] = []
        while not self._confirmed.empty():
            self.watch.confirm(self._confirmed.get())
        while not self._inbox.empty():
            fresh.extend(self._inbox.get())
        self._look(fresh)

    def _confirm(self, incident: Incident) -> None:
        if incident.rule is not None:
            self._confirmed.put(incident.alarms)

    def _replay(self) -> None:
        """Alarms of then are not told again: what still holds is told by the next look."""
        now_ns = self._now_ns()
        for row in self._store.runs():
            if not row.is_over and row.last_ns >= now_ns - REPLAYED_NS:
                batches = self._store.batches(row.job, row.run, now_ns - REPLAYED_NS, now_ns)
                self._runs.add((row.job, row.run))
                self._take(batches)

    def _look(self, fresh: Sequence[Batch]) -> None:
        self._take(fresh)
        now_ns = self._now_ns()
        stuck = self.hangs.tick(now_ns)
        self.watch.heed(stuck)
        for alarm in (*stuck, *self.watch.tick(now_ns)):
            self._feed.tell("alarm", alarm)
        self._tell_runs(fresh)

    def _take(self, batches: Sequence[Batch]) -> None:
        self.num_batches += len(batches)
        self.watch.take(batches)
        self.hangs.take(batches)

    def _tell_runs(self, fresh: Sequence[Batch]) -> None:
        """Runs that began, and those of which a rank ended."""
        told: dict[tuple[str, str], None] = {}
        for each in fresh:
            is_end = isinstance(each, Happened) and each.what == "exit"
            if isinstance(each, Marks):
                job, run = each.identity.get("job"), each.identity.get("run")
            elif isinstance(each, Happened) and is_end:
                job, run = each.labels.get("job"), each.labels.get("run")
            else:
                continue
            key = (str(job), str(run))
            if job and run and (is_end or key not in self._runs):
                self._runs.add(key)
                told[key] = None
        for key in told:
            self._feed.tell("run", key)
