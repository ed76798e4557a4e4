"""A simulated job and an agent beside it, in this process: batches as a server gets them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from stepscope.agent.catalog import rings
from stepscope.agent.context import Context
from stepscope.agent.exporter import Exporter
from stepscope.agent.pack import Packer
from stepscope.agent.source import Reading
from stepscope.model.batch import Batch
from stepscope.sources.ring import RingReader
from tests.simulate.live import CLOCKS, START_NS, Job

NS = 1_000_000_000


class _SimulatedClock:
    """The clock of the job's hosts."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def mono_ns(self) -> int:
        return CLOCKS.mono(self._job.service.now_ns)

    def real_ns(self) -> int:
        return CLOCKS.real(self._job.service.now_ns)

    def wait(self, stop: threading.Event, until_mono_ns: int) -> bool:
        return stop.is_set()


class _Held(RingReader):
    """A lock does not tell a process of itself."""

    def is_alive(self) -> bool:
        return True


class Watched:
    """A job of one node with full counters. Seconds are simulated ones since its first step; `batches` are
    all so far, numbered as one agent's."""

    def __init__(self, out: Path, **given: Any) -> None:
        self.job = Job(out, **{"ranks": 2, "layers": 2, "step_ms": 250.0, **given})
        self.clock = _SimulatedClock(self.job)
        self.host = self.job.service.places[0].host
        self.context = Context(host=self.host, agent="a1", clock=self.clock, run_dirs=(str(out / "run"),))
        self._rings = rings.RingSource(self.context)
        self._pages = (
            Exporter(shown="dcgm", host=self.host, hold_ns=5 * NS),
            Exporter(shown="node", host=self.host, hold_ns=NS),
        )
        self._packer = Packer(
            agent="a1", host=self.host, jobs=self.context.jobs, devices=self.context.devices, hold_ns=NS
        )
        self.batches: list[Batch] = []
        self._host_s = 0.0

    @property
    def now_ns(self) -> int:
        """Wall time of the job's hosts."""
        return self.clock.real_ns()

    def until(self, seconds: float) -> list[Batch]:
        """Let time go on; the batches of it."""
        found: list[Batch] = []
        while self.job.seconds < seconds:
            self.job.until(min(self.job.seconds + 1.0, seconds), every=0.25)
            found += self._look()
        return found

    def _look(self) -> list[Batch]:
        with patch.object(rings, "RingReader", _Held):
            readings: list[tuple[str, Reading]] = [("rings", each) for each in self._rings.read()]
        texts = [self.job.service.devices(0)]
        if len(self.batches) == 0 or self.job.seconds >= self._host_s + 4:
            self._host_s = self.job.seconds  # a page of a host takes longest to read
            texts.append(self.job.service.host(0))
        for page, text in zip(self._pages, texts, strict=False):
            readings += [(each.source or "exporter", each) for each in page.page(text, self.now_ns)]
        found: list[Batch] = []
        for source, reading in readings:
            found += self._packer.add(source, reading, self.clock.mono_ns())
        found += self._packer.due(self.clock.mono_ns())
        for each in found:
            self.batches.append(msgspec.structs.replace(each, seq=len(self.batches) + 1))
        return self.batches[-len(found) :] if found else []

    def capture(self, num_steps: int = 4, capture: int = 1) -> tuple[list[str], tuple[int, int]]:
        """Agree on steps as a server does, and wait: paths of the traces by rank, and the steps."""
        begun = int(self.job.said(0, "step_begin")[-1]["step"])
        first = begun + 6
        self.job.ask("propose", capture, first, num_steps)
        self.until(self.job.seconds + 1.0)
        self.job.ask("commit", capture, first, num_steps)
        while not all(
            ("done", capture) in self.job.answers(rank) for rank in range(len(self.job.service.ranks))
        ):
            self.until(self.job.seconds + 1.0)
        folder = self.job.out / f"run/traces/capture-{capture}"
        return sorted(str(each) for each in folder.glob("rank*.json.gz")), (first, first + num_steps - 1)


__all__ = ["CLOCKS", "NS", "START_NS", "Watched"]
