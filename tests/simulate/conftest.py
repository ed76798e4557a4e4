"""Recorded runs, and what an exporter's text says: read here by a few lines of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from stepscope.simulate import Cluster, Config, Recording, parse, recorded
from stepscope.simulate.counter.place import Place, places
from stepscope.simulate.counter.timeline import Timeline

_LINE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
Key = tuple[str, str]


@dataclass
class Scraped:
    """An exporter's file: when it was scraped, and of each metric and owner (a label's value) the samples."""

    at_ns: list[int] = field(default_factory=list)
    of: dict[Key, list[tuple[int, float]]] = field(default_factory=dict)

    def values(self, name: str, owner: str = "") -> np.ndarray[Any, Any]:
        """Of one series, in order."""
        return np.array([value for _, value in self.of[name, owner]])

    def within(self, name: str, owner: str, first_ns: int, last_ns: int) -> np.ndarray[Any, Any]:
        """Those scraped in a time."""
        return np.array([v for at, v in self.of[name, owner] if first_ns <= at <= last_ns])


def scraped(text: str, by: str = "gpu") -> Scraped:
    """A text file, its series by one label."""
    found, at = Scraped(), 0
    for line in text.splitlines():
        if line.startswith("# scraped_at_ns "):
            at = int(line.rpartition(" ")[2])
            found.at_ns.append(at)
        elif not line.startswith("#"):
            match = _LINE.fullmatch(line)
            assert match, line
            labels = dict(_LABEL.findall(match["labels"] or ""))
            found.of.setdefault((match["name"], labels.get(by, "")), []).append((at, float(match["value"])))
    return found


@dataclass
class Run:
    """A recorded run: its files by path, and where its ranks are."""

    cluster: Cluster
    files: dict[str, str]
    places: list[Place]
    timeline: Timeline

    def dcgm(self, node: int = 0) -> Scraped:
        """The device exporter of a host, by the driver's number of the device."""
        return scraped(self.files[f"telemetry/node{node}.dcgm.prom"])

    def host(self, by: str = "mode", node: int = 0) -> Scraped:
        """The host's exporter."""
        return scraped(self.files[f"telemetry/node{node}.node.prom"], by)

    def device(self, rank: int) -> str:
        """The driver's number of a rank's device, as the exporter labels it."""
        return str(self.places[rank].index)

    def mean(self, name: str, rank: int) -> float:
        """Of a field of a rank's device, while steps run."""
        ends = self.cluster.step_end_ns[rank]
        start = ends[0] + 2_000_000_000
        return float(self.dcgm().within(f"DCGM_FI_{name}", self.device(rank), start, ends[-1]).mean())

    def rate(self, name: str, owner: str = "", by: str = "mode") -> float:
        """Of a host's counter, per second, from the first step to the last."""
        text = self.host(by)
        ends = self.cluster.step_end_ns[0]
        pairs = [(at, v) for at, v in text.of[name, owner] if ends[0] <= at <= ends[-1]]
        return (pairs[-1][1] - pairs[0][1]) / ((pairs[-1][0] - pairs[0][0]) / 1e9)


@lru_cache(maxsize=64)
def record(*faults: str, recording: tuple[tuple[str, Any], ...] = (), **given: Any) -> Run:
    """A recorded run of two ranks and some fifteen seconds, full counters."""
    given = {"ranks": 2, "steps": 50, "step_ms": 300.0, "layers": 6, "seed": 4} | given
    told = Recording(**({"counters": "full", "lost": 0.0} | dict(recording)))
    config = Config(**given, faults=tuple(parse(fault) for fault in faults), telemetry=told)
    cluster = Cluster(config)
    return Run(cluster, dict(recorded(cluster)), places(config), Timeline(cluster))


@pytest.fixture(name="record")
def record_fixture() -> Any:
    """`record(*faults, recording=(("key", value), …), **config)`."""
    return record
