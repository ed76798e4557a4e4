"""Telemetry that is made from made work, with the lag that is true.

What a source shows is worked out here from instants at which the device becomes busy and idle, not with the
code under test. Everything comes from a seed; times are nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stepscope.model.activity import Activity
from stepscope.model.sample import Owner, Series

EPOCH = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
CELL = 10_000_000
DEVICE = Owner(uuid="GPU-0a", index=0, host="node-1")


@dataclass
class Work:
    """Busy intervals in seconds from the first instant, sorted and disjoint."""

    start: np.ndarray
    end: np.ndarray

    def before(self, at: np.ndarray) -> np.ndarray:
        """Busy seconds before each instant."""
        total = np.append(0.0, np.cumsum(self.end - self.start))
        index = np.searchsorted(self.start, at, side="right")
        over = np.where(index > 0, np.maximum(self.end[np.maximum(index - 1, 0)] - at, 0.0), 0.0)
        return total[index] - over

    def mean(self, end: np.ndarray, window: float) -> np.ndarray:
        """Busy share of the window that ends at each instant."""
        return (self.before(end) - self.before(end - window)) / window


def aperiodic(seed: int, seconds: float, step: float = 1.0, pause: float = 0.4) -> Work:
    """Steps of uneven length with uneven pauses, as of a loader that is too slow now and then."""
    rng = np.random.default_rng(seed)
    num = int(4 * seconds / step) + 40
    busy = step * rng.lognormal(-0.2, 0.5, num)
    idle = pause * rng.lognormal(-0.4, 1.0, num)
    edges = np.cumsum(np.column_stack([idle, busy]).ravel()) - 60.0
    return Work(edges[0::2], edges[1::2])


def periodic(period: float, seconds: float, busy: float = 0.6, phase: float = 0.0) -> Work:
    """The same step over and over."""
    start = np.arange(-60.0, seconds + 60.0, period) + phase
    return Work(start, start + busy * period)


def nearly_periodic(seed: int, seconds: float, period: float, jitter: float) -> Work:
    """Steps of one length that differ a little, as those of training do."""
    rng = np.random.default_rng([seed, 11])
    length = period * (1.0 + jitter * rng.normal(size=int((seconds + 120.0) / period)))
    start = np.append(0.0, np.cumsum(length))[:-1] - 60.0
    return Work(start, start + 0.6 * length)


def steady(seconds: float) -> Work:
    """Busy throughout."""
    return Work(np.array([-60.0]), np.array([seconds + 60.0]))


def traced(work: Work, first: float, last: float) -> Activity:
    """What a trace from `first` to `last` shows."""
    edges = first + np.arange(round((last - first) * SECOND / CELL) + 1) * (CELL / SECOND)
    busy = np.diff(work.before(edges)) * SECOND
    return Activity(start_ns=EPOCH + round(first * SECOND), cell_ns=CELL, parts={"busy": busy})


@dataclass
class Source:
    """How the source reads and is read."""

    lag: float = 0.5
    window: float = 1.0
    collect: float | None = None
    """How often it reads its device by its own clock; `None`: whenever it is read."""
    scrape: float = 1.0
    jitter: float = 0.0
    """Readings come up to this much later than due, in seconds."""
    noise: float = 0.02
    lost: float = 0.0
    quantum: float | None = 0.01
    gain: float = 1.0
    offset: float = 0.0
    drift: float = 0.0
    """Standard deviation of a slow wander that has nothing to do with the work."""
    signal: str = "compute_busy_ratio"
    owner: Owner = field(default_factory=lambda: DEVICE)

    age: float = 0.0
    """After `read`: the mean age of a reading, the lag and how long its value was held."""

    def of(self, **changes: object) -> Source:
        return replace(self, **changes)  # type: ignore[arg-type]

    def read(self, work: Work, first: float, last: float, seed: int) -> Series:
        """Readings from `first` to `last`."""
        rng = np.random.default_rng([seed, 7])
        at = np.arange(first, last, self.scrape) + rng.uniform(0.0, 1.0) * self.scrape
        at = at + rng.uniform(0.0, 1.0, len(at)) * self.jitter
        seen = at - self.lag
        if self.collect is not None:
            phase = rng.uniform(0.0, self.collect)
            tick = np.floor((seen - phase) / self.collect)
            seen = phase + tick * self.collect
        _, once = np.unique(seen, return_inverse=True)
        noise = rng.normal(0.0, self.noise, once.max() + 1)
        wander = rng.normal(0.0, 1.0, once.max() + 1)
        for index in range(1, len(wander)):
            wander[index] = 0.98 * wander[index - 1] + 0.2 * wander[index]
        value = self.gain * work.mean(seen, self.window) + self.offset
        value = value + (noise + self.drift * wander)[once] * abs(self.gain)
        if self.signal.endswith("_ratio"):
            value = np.clip(value, 0.0, 1.0)
        if self.quantum:
            value = np.round(value / self.quantum) * self.quantum
        self.age = float(np.mean(at - seen))
        kept = rng.uniform(0.0, 1.0, len(at)) >= self.lost
        at_ns = EPOCH + np.round(at * SECOND).astype(np.int64)
        return Series(self.signal, self.owner, at_ns[kept], value[kept])
