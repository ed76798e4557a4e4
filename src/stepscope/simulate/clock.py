"""Clocks that are off: what a rank's clock shows at a true time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.simulate.config import START_NS, Config

I64 = npt.NDArray[np.int64]
MONTH_NS = 30 * 86_400 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """A rank's clock: `local = true + offset + drift · (true − start)`, to the nanosecond; offset > 0 is
    ahead. `base_ns` is where its file begins to count."""

    offset_ns: int
    drift_ppm: float
    base_ns: int

    def local_ns(self, true_ns: I64) -> I64:
        """What the clock shows."""
        drift = np.rint((true_ns - START_NS) * (self.drift_ppm / 1e6)).astype(np.int64)
        shown: I64 = true_ns + self.offset_ns + drift
        return shown


def clock_of(config: Config, rank: int) -> Clock:
    """The clock of a rank, by seed."""
    offset, drift, base = np.random.default_rng([config.seed, 3, rank]).uniform(-1.0, 1.0, 3)
    return Clock(
        offset_ns=round(1e6 * config.clock_offset_ms * offset),
        drift_ppm=round(config.clock_drift_ppm * float(drift), 6),
        # As the profiler's own: whole seconds, some weeks before the run.
        base_ns=START_NS // MONTH_NS * MONTH_NS + round(config.base_spread_s * base) * 1_000_000_000,
    )
