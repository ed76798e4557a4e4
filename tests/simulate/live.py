"""A live job whose time is turned by the test, and what an agent would do beside it."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from stepscope.simulate import Config, Recording, parse
from stepscope.simulate.config import START_NS
from stepscope.simulate.serve import Clocks, Service
from stepscope.simulate.serve.live import BEGIN_NS
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi

KIND = {each.number: each.name for each in abi.KINDS}
_LINE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
SHAPE: dict[str, Any] = {"ranks": 2, "layers": 2, "step_ms": 300.0, "run_ahead": 0, "seed": 4}
CLOCKS = Clocks(mono_ns=5_000_000_000_000, real_ns=1_796_000_000_000_000_000)


class Job:
    """A job with full counters. Seconds are simulated ones since its first step."""

    def __init__(
        self, out: Path, *faults: str, has_events: bool = False, recording: dict[str, Any] | None = None,
        **given: Any,
    ) -> None:  # fmt: skip
        told = Recording(**{"counters": "full", "lost": 0.0, "log_style": "plain"} | (recording or {}))
        config = Config(
            **SHAPE | given, steps=1_000_000, faults=tuple(parse(each) for each in faults), telemetry=told
        )
        self.out = out
        self.service = Service(config, out, CLOCKS, has_events=has_events, boot_id="boot")
        self._readers: dict[int, RingReader] = {}
        self._records: dict[int, list[np.void]] = {}

    def until(self, seconds: float, every: float = 0.05) -> None:
        """Turn time in small steps, as a server does."""
        now, end = self.service.now_ns, START_NS + round(1e9 * seconds)
        while now < end:
            now = min(now + round(1e9 * every), end)
            self.service.tick(now)

    @property
    def seconds(self) -> float:
        """Where it is."""
        return (self.service.now_ns - START_NS) / 1e9

    def scrape(self, seconds: float | None = None) -> dict[str, dict[int, float]]:
        """Each metric of the devices, by rank."""
        if seconds is not None:
            self.until(seconds)
        rank_of = {str(place.index): place.rank for place in self.service.places}
        found: dict[str, dict[int, float]] = {}
        for name, labels, value in _LINE.findall(self.service.devices(0)):
            gpu = re.search(r'gpu="(\d)"', labels)
            assert gpu is not None
            found.setdefault(name.removeprefix("DCGM_FI_"), {})[rank_of[gpu[1]]] = float(value)
        return found

    def host(self, name: str, labels: str = "") -> float:
        """One metric of the host, summed over what has these labels."""
        rows = _LINE.findall(self.service.host(0))
        return sum(float(value) for each, has, value in rows if each == name and labels in has)

    def records(self, rank: int) -> list[np.void]:
        """All of a rank's ring so far."""
        if rank not in self._readers:
            (path,) = self.out.glob(f"run/rank{rank}-*.ring")
            self._readers[rank], self._records[rank] = RingReader(str(path)), []
        part = self._readers[rank].poll()
        assert part.num_lost == 0
        self._records[rank] += list(part.records)
        return self._records[rank]

    def said(self, rank: int, kind: str) -> list[np.void]:
        """Its records of one kind."""
        return [each for each in self.records(rank) if KIND[int(each["kind"])] == kind]

    def step_seconds(self, rank: int) -> dict[int, float]:
        """How long each whole step was, from its begin to the next one's."""
        begun = self.said(rank, "step_begin")
        return {int(a["step"]): float(b["mono_ns"] - a["mono_ns"]) / 1e9 for a, b in pairwise(begun)}

    def phase_seconds(self, rank: int, name: str) -> dict[int, float]:
        """How long this phase was in each step, in sum."""
        found: dict[int, float] = {}
        for each in self.said(rank, "phase_end"):
            if abi.PHASES[int(each["a"])] == name:
                step = int(each["step"])
                found[step] = found.get(step, 0.0) - float(each["c"]) / 1e9
        return found

    def ask(
        self, command: str, capture: int, first: int, num: int = 3, mode: str = "full",
        ranks: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """Write a command into control files, as an agent does."""
        words = struct.pack("<6q", abi.COMMANDS.index(command), capture, first, num, abi.MODES.index(mode), 0)
        for rank in range(len(self.service.ranks)) if ranks is None else ranks:
            (path,) = self.out.glob(f"run/rank{rank}-*.control")
            with path.open("r+b") as file:
                file.seek(abi.place(abi.CONTROL, "seq").offset)
                (seq,) = struct.unpack("<Q", file.read(8))
                for place, raw in (
                    ("seq", struct.pack("<Q", seq + 1)),
                    ("command", words),
                    ("crc", struct.pack("<Q", crc32(words))),
                    ("seq", struct.pack("<Q", seq + 2)),
                ):
                    file.seek(abi.place(abi.CONTROL, place).offset)
                    file.write(raw)
                    file.flush()

    def answers(self, rank: int) -> list[tuple[str, int]]:
        """What a rank has said to captures, and of which."""
        return [(abi.ANSWERS[int(each["b"])], int(each["a"])) for each in self.said(rank, "answer")]


__all__ = ["BEGIN_NS", "CLOCKS", "KIND", "SHAPE", "START_NS", "Job"]
