"""The agent's loop: every source in its own thread and by its own period, so that none waits for another.

A source that fails is asked again after a growing pause; one that does not come back is told and left alone
until it does. With a clock that a test turns, the same loop runs a day in one thread in seconds.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence

from stepscope.agent.clock import Clock
from stepscope.agent.context import Tally
from stepscope.agent.job import Labels
from stepscope.agent.pack import Packer
from stepscope.agent.profile import Profile
from stepscope.agent.source import Event, Kind, NotHere, Reading, Source
from stepscope.agent.worker import MOST_PAUSE_NS, Said, Worker, next_due_ns, pause_ns
from stepscope.model.batch import Batch
from stepscope.model.error import StepscopeError

TEND_SECONDS = 0.25
MOST_QUEUED = 10_000
"""Readings that may wait for the main thread; beyond it they are dropped and counted."""


class Loop:
    """Reads the sources, hands batches to the sink. `is_busy` says whether a job runs."""

    def __init__(
        self,
        sources: Sequence[tuple[Kind, Source]],
        *,
        profile: Profile,
        clock: Clock,
        packer: Packer,
        sink: Callable[[Batch], object],
        is_busy: Callable[[], bool],
        tally: Tally,
    ) -> None:
        now = clock.mono_ns()
        self.workers = [Worker(source, kind, now) for kind, source in sources]
        self._profile, self._clock, self._packer, self._sink = profile, clock, packer, sink
        self._is_busy, self.tally = is_busy, tally
        self._queue: queue.Queue[Said] = queue.Queue(MOST_QUEUED)
        self._was_busy = False
        self._telling = threading.Lock()
        self._threads: list[threading.Thread] = []

    # ── with threads ──

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. What was read is flushed; a source that hangs is left behind."""
        self._threads = [
            threading.Thread(
                target=self._work, args=(worker, stop), name=f"agent-{worker.source.name}", daemon=True
            )
            for worker in self.workers
        ]
        for thread in self._threads:
            thread.start()
        while not stop.is_set():
            with contextlib.suppress(queue.Empty):
                self._hear(self._queue.get(timeout=TEND_SECONDS))
            self._tend()
        for worker in self.workers:
            worker.wake.set()
        for thread in self._threads:
            thread.join(0.5)
        while not self._queue.empty():
            self._hear(self._queue.get())
        self._emit(self._packer.flush())
        for worker, thread in zip(self.workers, self._threads, strict=True):
            if not thread.is_alive():
                worker.source.close()

    def _work(self, worker: Worker, stop: threading.Event) -> None:
        while not stop.is_set():
            self._clock.wait(worker.wake, worker.due_ns)
            worker.wake.clear()
            if stop.is_set() or self._clock.mono_ns() < worker.due_ns:
                continue
            said = self._look(worker)
            try:
                self._queue.put_nowait(said)
            except queue.Full:
                self.tally.num_dropped += sum(len(each.samples) for each in said.readings)

    # ── in one thread ──

    def run_alone(self, stop: threading.Event, until_mono_ns: int) -> None:
        """The same, source after source in this thread, until that time."""
        while self.workers:
            worker = min(self.workers, key=lambda each: each.due_ns)
            if worker.due_ns >= until_mono_ns or self._clock.wait(stop, worker.due_ns):
                break
            self._hear(self._look(worker))
            self._tend()
        self._emit(self._packer.flush())

    def once(self, *, apart_ns: int, over_ns: int, num_looks: int = 2) -> None:
        """Ask every source so often, all at a time, and flush: rates need two looks. Who does not answer
        within `over_ns` is told and left behind."""
        stop = threading.Event()

        def looks(worker: Worker) -> None:
            for look in range(num_looks):
                if look:
                    self._clock.wait(stop, self._clock.mono_ns() + apart_ns)
                if not stop.is_set() and not worker.is_absent:
                    said = self._look(worker)
                    worker.is_absent = said.is_absent
                    self._queue.put(said)

        threads = [
            threading.Thread(target=looks, args=(worker,), name=f"agent-{worker.source.name}", daemon=True)
            for worker in self.workers
        ]
        for thread in threads:
            thread.start()
        until = self._clock.mono_ns() + over_ns
        while any(thread.is_alive() for thread in threads) and self._clock.mono_ns() < until:
            with contextlib.suppress(queue.Empty):
                self._hear(self._queue.get(timeout=0.05))
        stop.set()
        while not self._queue.empty():
            self._hear(self._queue.get())
        for worker, thread in zip(self.workers, threads, strict=True):
            if thread.is_alive():
                self.tell("source_hung", f"{worker.source.name} has not answered")
            else:
                worker.source.close()
        self._emit(self._packer.flush())

    def take(self, source: str, reading: Reading) -> None:
        """Events and lines that no source of the loop gave. From any thread."""
        with self._telling:
            self._emit(self._packer.add(source, reading, self._clock.mono_ns()))

    def tell(self, what: str, text: str, code: int | None = None, labels: Labels = ()) -> None:
        """An event of the agent itself. From any thread."""
        event = Event(self._clock.real_ns(), what, text, code, labels=labels)
        self.take("agent", Reading(event.at_ns, events=[event]))

    def hurry(self, source: str, period_ns: int, for_ns: int) -> None:
        """Somebody waits for what this source gives: look now, and by this period for so long. From any
        thread."""
        for worker in self.workers:
            if worker.source.name == source:
                now = self._clock.mono_ns()
                worker.hurry_ns, worker.hurried_ns = period_ns, max(worker.hurried_ns, now + for_ns)
                if not worker.num_failures:
                    worker.due_ns = min(worker.due_ns, now)
                    worker.wake.set()

    # ── both ──

    def _look(self, worker: Worker) -> Said:
        """One read, in whichever thread; sets when the next is due."""
        began = self._clock.mono_ns()
        worker.began_ns = worker.last_ns = began
        failure, is_absent, readings = None, False, list[Reading]()
        try:
            readings = list(worker.source.read())
        except NotHere as error:
            failure, is_absent = str(error), True
        except (StepscopeError, OSError) as error:
            failure = str(error) or type(error).__name__
        except Exception as error:  # noqa: BLE001  one source's fault must not end the others
            failure = f"{type(error).__name__}: {error}"
        now = self._clock.mono_ns()
        worker.began_ns = None
        usual = worker.kind.fixed_ns or self._profile.period_ns(self._is_busy(), worker.kind.least_ns)
        period = worker.period_ns(usual, now)
        if failure is None:
            worker.num_failures = 0
            worker.due_ns, num_late = next_due_ns(worker.due_ns, now, period)
            self.tally.num_late += num_late
        else:
            worker.num_failures += 1
            pause = MOST_PAUSE_NS if is_absent else pause_ns(period, worker.num_failures)
            worker.due_ns = now + pause
        return Said(worker, readings, began, now - began, failure, is_absent)

    def _hear(self, said: Said) -> None:
        worker, name, tally = said.worker, said.worker.source.name, self.tally
        tally.num_reads[name] = tally.num_reads.get(name, 0) + 1
        tally.read_seconds[name] = tally.read_seconds.get(name, 0.0) + said.took_ns / 1e9
        if worker.is_hung:
            worker.is_hung = False
            self.tell("source_back", f"{name} answered after {said.took_ns / 1e9:.1f} s")
        if said.failure is not None:
            tally.num_failed[name] = tally.num_failed.get(name, 0) + (not said.is_absent)
            if not worker.is_told:
                what = "source_absent" if said.is_absent else "source_failed"
                text = said.failure if name in said.failure else f"{name}: {said.failure}"
                self.tell(what, text)
            worker.is_told, worker.is_absent = True, said.is_absent
        elif worker.is_told:
            worker.is_told = worker.is_absent = False
            self.tell("source_back", f"{name} answers again")
        for reading in said.readings:
            tally.num_samples += len(reading.samples)
            self._emit(self._packer.add(reading.source or name, reading, self._clock.mono_ns()))

    def _tend(self) -> None:
        now = self._clock.mono_ns()
        self._emit(self._packer.due(now))
        for worker in self.workers:
            began = worker.began_ns
            if began is not None and not worker.is_hung and now - began > worker.kind.patience_ns:
                worker.is_hung = True
                seconds = worker.kind.patience_ns / 1e9
                self.tell(
                    "source_hung",
                    f"{worker.source.name} has not answered for {seconds:g} s; it is left behind, the others "
                    "go on",
                )
        is_busy = self._is_busy()
        if is_busy and not self._was_busy:
            for worker in self.workers:
                if worker.kind.fixed_ns is None and not worker.num_failures:
                    busy_ns = self._profile.period_ns(True, worker.kind.least_ns)
                    worker.due_ns = min(worker.due_ns, max(now, worker.last_ns + busy_ns))
                    worker.wake.set()
        self._was_busy = is_busy

    def _emit(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self.tally.num_batches += 1
            self._sink(batch)
