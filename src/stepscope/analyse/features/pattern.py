"""Features of the four specified patterns, the ordered walks and single-signal hints.

Of a matrix product's shape, and of what `analyse.telemetry.jitter` and the join of ranks tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepscope.analyse.features import has_device
from stepscope.analyse.shape import MAX_SHAPES
from stepscope.model import report
from stepscope.model.feature import Feature, Observed
from stepscope.model.report import Origin

LARGE_SHAPE = 0.20
"""A matrix product of one shape that takes so much of the device's time is a large one (pattern A)."""


def _number(name: str, unit: str, origin: Origin, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: observed.device.numbers.get(name), origin=origin)


def matrix_shapes(
    operators: Sequence[report.Operator], shapes: Sequence[report.OperatorShape]
) -> tuple[report.OperatorShape, ...]:
    """The matrix products among the shapes, hottest first: an op's class stands in the table of ops."""
    products = {row.name for row in operators if row.class_ == "gemm"}
    found = [row for row in shapes if row.name in products and row.share is not None]
    return tuple(sorted(found, key=lambda row: -(row.share or 0.0)))


def _shapes(observed: Observed) -> tuple[report.OperatorShape, ...]:
    return matrix_shapes(observed.rank.operators, observed.rank.operator_shapes)


def _hottest_share(observed: Observed) -> float | None:
    """0 where shapes were recorded and none is a product's; absent where products without a recorded shape
    take more than the hottest one with."""
    rank = observed.rank
    if not rank.operator_shapes or not has_device(observed):
        return None
    found = _shapes(observed)
    hottest = (found[0].share or 0.0) if found else 0.0
    # A full table left shapes out, all of them smaller than its last row: those are not unknown.
    if len(rank.operator_shapes) < MAX_SHAPES:
        whole = sum(row.share or 0.0 for row in rank.operators if row.class_ == "gemm")
        if whole - sum(row.share or 0.0 for row in found) > max(hottest, 1e-6):
            return None
    return hottest


gemm_shape_share = Feature(
    "gemm_shape_share",
    "ratio",
    "The matrix product of one shape that takes most device time, as a share of all device time.",
    _hottest_share,
)


def _roofline(observed: Observed) -> float | None:
    found = _shapes(observed)
    if not found:
        return None
    known = [each for each in (found[0].peak_share, found[0].memory_peak_share) if each is not None]
    return max(known) if found[0].peak_share is not None else None


gemm_shape_roofline_share = Feature(
    "gemm_shape_roofline_share",
    "ratio",
    "Of the matrix product of one shape that takes most device time: the time that the roofline allows it, "
    "of "
    "the time that it takes.",
    _roofline,
    needs_peaks=True,
)


def _large_at_peak(observed: Observed) -> float | None:
    """The least over the large shapes; absent where none is large, one's rate or the clock is not known."""
    clock = observed.device.numbers.get("sm_clock_share")
    large = [row.peak_share for row in _shapes(observed) if (row.share or 0.0) >= LARGE_SHAPE]
    if not clock or not large or any(each is None for each in large):
        return None
    return min(each for each in large if each is not None) / min(clock, 1.0)


large_gemm_peak_share = Feature(
    "large_gemm_peak_share",
    "ratio",
    "What a matrix product of one shape with at least 20 % of the device time reaches of the precision's "
    "peak "
    "at the clock that was measured: the least of them.",
    _large_at_peak,
    needs_peaks=True,
)


def _of_efficiency(value: Callable[[report.Efficiency], float | None]) -> Callable[[Observed], float | None]:
    def read(observed: Observed) -> float | None:
        device = observed.device.accounting.device
        mine = next((row for row in observed.rank.efficiency if row.device == device), None)
        return None if mine is None else value(mine)

    return read


flops_peak_share = Feature(
    "flops_peak_share",
    "ratio",
    "Matrix arithmetic that ran, against what the device could have done in the time (HFU).",
    _of_efficiency(lambda row: row.hfu),
    needs_peaks=True,
)
wait_spread_share = _number(
    "wait_spread_share",
    "ratio",
    "trace",
    "From the first to the last rank's coming to the collectives of this device, as a share of the step.",
)
nvlink_cycles = _number(
    "nvlink_cycles",
    "1",
    "telemetry",
    "How often NVLink's rate falls from high to low at about even distances.",
)
busy_with_power = _number(
    "busy_with_power", "1", "telemetry", "Correlation of compute busy with the board's power."
)
scope_suspects = _number(
    "scope_suspects",
    "1",
    "telemetry",
    "Signals of this device whose scope or unit cannot be what they claim (a sum of cards, percent as a "
    "ratio).",
)
