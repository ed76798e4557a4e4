"""What only a trace and counters together tell of one device. Pure.

`Activity` is the trace's side (cells of time), `Samples` the counters' side with its lag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analyse.telemetry.device import LEAST_ROWS, busy
from stepscope.analyse.telemetry.table import Rows, Samples
from stepscope.model import report
from stepscope.model.activity import Activity
from stepscope.model.hardware import hardware_of
from stepscope.model.sample import F64

BROKEN_BUSY, BROKEN_COUNTER = 0.5, 0.02
"""A trace this busy beside a counter this low: the counter is broken, the device is not idle."""

MOSTLY = 0.8
"""A reading with so much of its window in collectives is of collectives."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The readings that are of the trace's time alone: `rows` of the samples."""

    rows: Rows

    @property
    def count(self) -> int:
        """How many."""
        return int(self.rows.sum())


def overlap(samples: Samples, activity: Activity) -> Overlap:
    """The readings whose whole window lies in the trace."""
    end = samples.at_ns - samples.lag_ns
    start = end - samples.window_ns
    return Overlap(np.asarray((start >= activity.start_ns) & (end <= activity.end_ns), dtype=bool))


def predicted(samples: Samples, activity: Activity, part: str) -> F64:
    """What a reading would show of one part of the trace, 0..1: its mean over the reading's window. NaN where
    the window is not all in the trace, or the part is not told."""
    result = np.full(len(samples), np.nan)
    column = activity.parts.get(part)
    if column is None:
        return result
    rows = overlap(samples, activity).rows
    edges = activity.start_ns + activity.cell_ns * np.arange(len(column) + 1, dtype=np.float64)
    summed = np.concatenate(([0.0], np.cumsum(column)))
    end = (samples.at_ns - samples.lag_ns)[rows].astype(np.float64)
    window = max(samples.window_ns, activity.cell_ns)
    inside = np.interp(end, edges, summed) - np.interp(end - window, edges, summed)
    result[rows] = np.clip(inside / window, 0.0, 1.0)
    return result


def numbers(samples: Samples, activity: Activity | None, account: report.Accounting) -> dict[str, float]:
    """Checks of one device, by feature's name; empty where the two do not overlap."""
    found: dict[str, float] = {}
    if activity is None:
        return found
    rows = overlap(samples, activity).rows
    found["overlapping_samples"] = float(rows.sum())
    expected, seen = predicted(samples, activity, "busy"), busy(samples)
    both = rows & ~np.isnan(expected) & ~np.isnan(seen)
    if both.sum() >= LEAST_ROWS:
        trace, counter = float(expected[both].mean()), float(seen[both].mean())
        found["trace_busy_share"] = trace
        found["busy_beyond_trace"] = counter - trace
        is_broken = trace >= BROKEN_BUSY and float(seen[both].max()) <= BROKEN_COUNTER
        found["counter_is_broken"] = 1.0 if is_broken else 0.0
    found |= _links(samples, rows, account)
    if activity.estimated_occupancy is not None and rows.sum() >= LEAST_ROWS:
        occupancy = samples.column("sm_occupancy_ratio")[rows]
        compute = predicted(samples, activity, "compute")[rows]
        known = ~np.isnan(occupancy) & ~np.isnan(compute)
        if known.sum() >= LEAST_ROWS and compute[known].sum() > 0:
            measured = float(occupancy[known].sum() / compute[known].sum())
            found["occupancy_beyond_estimate"] = measured - activity.estimated_occupancy
    found |= _with_input(samples, activity, rows)
    return found | _in_collectives(samples, activity)


def _links(samples: Samples, rows: Rows, account: report.Accounting) -> dict[str, float]:
    """Rates of NVLink and PCIe while collectives ran: the mean rate over the share of time in collectives.

    It is the rate inside collectives where nothing else uses the link, and more than it else.
    """
    hardware = hardware_of(account.device.name or samples.owner.model)
    communication = account.communication
    if hardware is None or communication is None or account.total_ns <= 0:
        return {}
    share = communication.total_ns / account.total_ns
    if share < 0.01:
        return {}
    chosen = samples.take(rows) if rows.sum() >= LEAST_ROWS else samples
    found = {}
    for name, sent, received, rate in (
        (
            "nvlink_in_collectives_link_share",
            "nvlink_tx_bytes_per_second",
            "nvlink_rx_bytes_per_second",
            hardware.link_bytes_per_second,
        ),
        (
            "pcie_in_collectives_link_share",
            "pcie_tx_bytes_per_second",
            "pcie_rx_bytes_per_second",
            hardware.pcie_bytes_per_second,
        ),
    ):
        one = np.fmax(chosen.column(sent), chosen.column(received))
        known = one[~np.isnan(one)]
        if len(known) and rate:
            found[name] = float(known.mean()) / rate / share
    return found


def _in_collectives(samples: Samples, activity: Activity) -> dict[str, float]:
    """`sm_active_in_collectives`: mean of the readings that are nearly all of collectives with nothing beside
    them; absent of fewer than `LEAST_ROWS`, or where the lag is not known."""
    if not samples.is_lag_known:
        return {}
    communication = predicted(samples, activity, "communication")
    compute = predicted(samples, activity, "compute")
    active = samples.column("sm_active_ratio")
    with np.errstate(invalid="ignore"):
        alone = (communication >= MOSTLY) & (compute <= 1 - MOSTLY) & ~np.isnan(active)
    return {"sm_active_in_collectives": float(active[alone].mean())} if alone.sum() >= LEAST_ROWS else {}


def _with_input(samples: Samples, activity: Activity, rows: Rows) -> dict[str, float]:
    """Correlation of PCIe to the device with waiting for input, −1..1, over readings in the trace: in the
    same reading or the next, whichever is more, for a batch is copied when the loader is done with it. Absent
    where the lag is not known: then nobody knows which readings these are."""
    if not samples.is_lag_known:
        return {}
    waits = np.where(rows, predicted(samples, activity, "idle_input"), np.nan)
    received = np.where(rows, samples.column("pcie_rx_bytes_per_second"), np.nan)
    found = (correlation(waits, received), correlation(waits[:-1], received[1:]))
    known = [value for value in found if value is not None]
    return {"pcie_with_input": max(known)} if known else {}


def correlation(a: F64, b: F64) -> float | None:
    """Pearson's, −1..1; `None` of fewer than eight pairs or where either hardly varies."""
    known = ~np.isnan(a) & ~np.isnan(b)
    if known.sum() < 8:
        return None
    x, y = a[known], b[known]
    if x.std() <= 1e-3 * max(abs(float(x.mean())), 1e-12) or y.std() <= 1e-3 * max(
        abs(float(y.mean())), 1e-12
    ):
        return None
    return float(np.corrcoef(x, y)[0, 1])
