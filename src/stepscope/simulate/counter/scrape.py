"""When an exporter reads its device, and when it is scraped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.simulate.config import Recording
from stepscope.simulate.counter.meter import BIN_NS, I64
from stepscope.simulate.counter.timeline import Timeline

INSIDE_NS = 40_000_000
"""From the end of a window until an exporter that is scraped has it."""


@dataclass(frozen=True, slots=True)
class Collected:
    """When an exporter read its device: `at_ns` ascending, each the end of a window."""

    at_ns: I64
    window_ns: int

    @classmethod
    def of(cls, timeline: Timeline, node: int, recording: Recording) -> Collected:
        """A node's exporter, at a phase of its own."""
        window = recording.collect_ms * 1_000_000
        phase = int(window * np.random.default_rng([timeline.cluster.config.seed, 23, node]).random())
        stop = timeline.start_ns + timeline.num_bins * BIN_NS
        return cls(np.arange(timeline.start_ns + phase, stop, window, dtype=np.int64), window)

    def lag_ns(self, at_ns: int) -> int | None:
        """How old the newest window's end is at a scrape; `None` before the first."""
        number = int(np.searchsorted(self.at_ns, at_ns - INSIDE_NS, side="right")) - 1
        return None if number < 0 else int(at_ns - self.at_ns[number])


def scraped_ns(timeline: Timeline, node: int, recording: Recording, purpose: int = 24) -> list[int]:
    """True times of a node's scrapes: steady but for a few milliseconds, and some are lost."""
    draw = np.random.default_rng([timeline.cluster.config.seed, purpose, node])
    every = recording.scrape_ms * 1_000_000
    stop = timeline.start_ns + timeline.num_bins * BIN_NS
    due = np.arange(timeline.start_ns + int(every * draw.random()), stop, every, dtype=np.int64)
    late = draw.integers(0, 4_000_000, len(due))
    is_kept = draw.random(len(due)) >= recording.lost
    found: list[int] = (due + late)[is_kept & (due + late < stop)].tolist()
    return found


def scrapes(timeline: Timeline, node: int, recording: Recording, at: Collected) -> Iterator[tuple[int, int]]:
    """Scrapes of an exporter: when, by the clock of what scrapes, and which collection it answers with."""
    skew = round(1e6 * recording.skew_ms)
    for true_ns in scraped_ns(timeline, node, recording):
        number = int(np.searchsorted(at.at_ns, true_ns - INSIDE_NS, side="right")) - 1
        if number >= 0:
            yield true_ns + skew, number
