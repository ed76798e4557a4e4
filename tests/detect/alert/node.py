"""A simulated job whose time is turned by hand, the agent's own sources and packer beside it, and a watch.

Everything of the way but HTTP and the disk: rings and pages become batches as an agent makes them, held up to
five seconds, and are looked at four times a second.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepscope.agent.catalog import rings
from stepscope.agent.context import Context
from stepscope.agent.device import DeviceTable
from stepscope.agent.exporter import Exporter
from stepscope.agent.job import JobTable
from stepscope.agent.pack import Packer
from stepscope.detect.watch import Watch
from stepscope.model.alarm import Alarm
from stepscope.model.batch import Batch
from stepscope.sources.ring import RingReader
from tests.simulate.live import CLOCKS, START_NS, Job

NS = 1_000_000_000
HOST = "gpu-node-1"
PAGES = 4
"""Looks of the watch in a second."""


class _JobClock:
    """The job's own clocks, for the agent."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def mono_ns(self) -> int:
        return CLOCKS.mono(self._job.service.now_ns)

    def real_ns(self) -> int:
        return CLOCKS.real(self._job.service.now_ns)

    def wait(self, stop: threading.Event, until_mono_ns: int) -> bool:
        raise AssertionError("nobody waits here: the test turns the time")


class Node:
    """A job on one host, an agent and a watch. `alarms` are all that were told, with the second of the job in
    which they were."""

    def __init__(
        self, out: Path, *, watch: Watch | None = None, hold_ns: int = 5 * NS, events: bool = False,
        **given: Any,
    ) -> None:  # fmt: skip
        self.job = Job(out, has_events=events, **given)
        clock = _JobClock(self.job)
        context = Context(
            host=HOST, agent="a", clock=clock, run_dirs=(str(out / "run"),), devices=DeviceTable(),
            jobs=JobTable(),
        )  # fmt: skip
        rings.RingReader = self._reader()  # type: ignore[misc]
        self.rings = rings.RingSource(context)
        self.exporter = Exporter(shown="http://127.0.0.1:9400/metrics", host=HOST, hold_ns=5 * NS)
        self.packer = Packer(
            agent="a", host=HOST, jobs=context.jobs, devices=context.devices, hold_ns=hold_ns
        )
        self.clock = clock
        self.watch = Watch() if watch is None else watch
        self.alarms: list[tuple[float, Alarm]] = []
        self.keep: list[Batch] | None = None

    def run(self, seconds: float) -> list[tuple[float, Alarm]]:
        """Go on for so long: what was told meanwhile."""
        first = len(self.alarms)
        end = self.job.service.now_ns + round(seconds * NS)
        while self.job.service.now_ns < end:
            self.job.until((self.job.service.now_ns - START_NS) / NS + 1 / PAGES, every=1 / PAGES)
            now = self.clock.mono_ns()
            batches = list(self.packer.due(now))
            if round(self.job.seconds * PAGES) % PAGES == 0:
                batches += self._look(now)
            if self.keep is not None:
                self.keep += batches
            self.watch.take(batches)
            for alarm in self.watch.tick(self.clock.real_ns()):
                self.alarms.append((self.job.seconds, alarm))
        return self.alarms[first:]

    def _look(self, now: int) -> Iterator[Batch]:
        for reading in self.rings.read():
            yield from self.packer.add("rings", reading, now)
        page = self.job.service.devices(0)
        for reading in self.exporter.page(page, self.clock.real_ns()) if page else ():
            yield from self.packer.add(reading.source or "scrape", reading, now)

    def _reader(self) -> type[RingReader]:
        """A lock tells nothing to the process that holds it: whether a rank lives, the job says."""
        alive = self.job.service.ranks

        class Reader(RingReader):
            def is_alive(self) -> bool:
                return any(each.ring is not None and str(each._path) == str(self.path) for each in alive)

        return Reader

    def close(self) -> None:
        rings.RingReader = RingReader  # type: ignore[misc]
        self.rings.close()
        self.job.service.end(is_complete=False)
