"""Matrix products whose rows in memory fit no fast kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.analyse.work import Work
from stepscope.analyse.work.align import is_aligned
from stepscope.model.hardware import Hardware

_WIDE = frozenset({"fp32", "fp64"})
"""Types that no fast kernel reads in pieces."""


def misaligned_ns(seen: Seen, hardware: Hardware | None) -> tuple[F64, float | None] | None:
    """Time of products with misaligned rows, and what the rate of aligned ones of this run would save.

    Compared are products of one precision with at most four times more or less arithmetic; where there is
    none, half the device's peak. None gets faster than the memory lets it. `None` where there
    are products and the alignment of none is known; the saving is `None` where nothing can be compared.
    """
    flags = [is_aligned(each.op, each.call, each.strides) for each in seen.known]
    if not any(flag is not None for flag in flags):
        # Wide types (those of the vector units) have no such rows; of other products nothing is known.
        is_wide = [each.work is not None and each.work.precision in _WIDE for each in seen.known]
        products = seen.of_kind("gemm")
        wide = np.array(is_wide or [False])[seen.which] & seen.has_op if len(seen.which) else products
        wide = wide | (seen.calls.activities.tensor_core == 0)
        return None if (products & ~wide).any() else (np.zeros(len(seen.own_ns)), 0.0)
    rates: list[tuple[str, int, float, float]] = []
    free = np.flatnonzero(seen.has_op & ~seen.taken)
    spent, times = {}, {}
    for key, members in groups(seen.which[free]):
        spent[key] = float(seen.own_ns[free[members]].sum())
        times[key] = _num_calls(seen, free[members])
    for key, (each, flag) in enumerate(zip(seen.known, flags, strict=True)):
        if flag and each.work is not None and spent.get(key, 0) > 0:
            rate = each.work.flops * times[key] / spent[key]
            rates.append((each.work.precision, each.work.flops, rate, spent[key]))
    mine = seen.of_known([flag is False for flag in flags])
    seen.taken |= mine
    saving, is_known = 0.0, not mine.any()
    for key in np.unique(seen.which[mine]).tolist():
        work = seen.known[key].work
        if work is None or spent[key] <= 0:
            continue
        alike = [
            (rate, weight)
            for precision, flops, rate, weight in rates
            if precision == work.precision and work.flops / 4 <= flops <= work.flops * 4
        ]
        usual = (
            sum(rate * weight for rate, weight in alike) / sum(weight for _, weight in alike)
            if alike
            else None
        )
        if usual is None and spent[key] >= LEAST_CALL_NS * times[key]:
            usual = _ordinary(work, hardware)
        if usual is not None:
            at_rate = work.flops * times[key] / usual
            saving += max(0.0, spent[key] - max(at_rate, times[key] * _floor_ns(work, hardware)))
            is_known = True
    return np.where(mine, seen.own_ns, 0.0), saving if is_known else None


LEAST_CALL_NS = 50_000
"""Shorter products are bounded by more than their arithmetic."""
ORDINARY_SHARE = 0.5
"""Of the peak: what large aligned products reach at least. Public runs measure 0.8 to 0.86 of it on A100 and
H100 (maximum achievable matmul FLOPS); half leaves room for shapes and clocks."""


def _ordinary(work: Work, hardware: Hardware | None) -> float | None:
    """FLOP a nanosecond of an aligned product, where this run has none like it; `None` of an unknown peak."""
    peak = hardware.peak_flops.get(work.precision) if hardware is not None else None
    return ORDINARY_SHARE * peak / 1e9 if peak else None


def _floor_ns(work: Work, hardware: Hardware | None) -> float:
    """What the least traffic of one call takes at the memory's rate, 0 where that is not known."""
    bandwidth = hardware.memory_bytes_per_second if hardware is not None else None
    return work.bytes / bandwidth * 1e9 if bandwidth else 0.0


def _num_calls(seen: Seen, members: npt.NDArray[np.intp]) -> int:
    return len(np.unique(seen.calls.own_row[members]))
