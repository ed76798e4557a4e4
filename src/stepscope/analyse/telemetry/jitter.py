"""How signals of one device move against each other: links in turns, and busy with power. Pure."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.telemetry.check import correlation
from stepscope.analyse.telemetry.device import busy
from stepscope.analyse.telemetry.table import Samples
from stepscope.model.sample import F64
from stepscope.model.trace import I64

LEAST_SWING = 0.2
"""A rate whose 5th percentile is closer than this to its 95th, as a share of that, does not fall."""
EVEN = 0.5
"""Falls are periodic where their distance differs from the median by at most this part of it."""


def numbers(samples: Samples) -> dict[str, float]:
    """`nvlink_with_pcie` (−1..1), `nvlink_cycles` and `busy_with_power` (−1..1), where they can be told."""
    found: dict[str, float] = {}
    link = np.fmax(samples.column("nvlink_tx_bytes_per_second"), samples.column("nvlink_rx_bytes_per_second"))
    if np.isnan(link).all():
        link = samples.column("nvlink_bytes_per_second")
    together = correlation(link, samples.column("pcie_rx_bytes_per_second"))
    if together is not None:
        found["nvlink_with_pcie"] = together
    known = ~np.isnan(link)
    if known.sum() >= 8:
        found["nvlink_cycles"] = float(cycles(samples.at_ns[known], link[known]))
    with_power = correlation(busy(samples), samples.column("power_watts"))
    if with_power is not None:
        found["busy_with_power"] = with_power
    return found


def cycles(at_ns: I64, value: F64) -> int:
    """How often a signal falls from its upper to its lower third at about even distances; 0 where it hardly
    swings. Between the thirds it is neither, so that noise around the middle is no fall."""
    low, high = np.percentile(value, (5, 95))
    if high <= 0 or high - low < LEAST_SWING * high:
        return 0
    state = np.zeros(len(value), dtype=np.int8)
    state[value >= low + (high - low) * 2 / 3] = 1
    state[value <= low + (high - low) / 3] = -1
    told = np.flatnonzero(state)
    fell = told[1:][(state[told[1:]] == -1) & (state[told[:-1]] == 1)]
    if len(fell) < 3:
        return len(fell)
    apart = np.diff(at_ns[fell]).astype(np.float64)
    usual = float(np.median(apart))
    return int((np.abs(apart - usual) <= EVEN * usual).sum()) + 1
