"""MFU and HFU: matrix arithmetic of a device against its peak, recomputation apart.

Definitions as in the PaLM paper (Chowdhery et al., 2022, appendix B): model FLOPs utilisation counts what the
model needs, hardware FLOPs utilisation all that ran. Both are of the matrix arithmetic: the rest runs on
other units and is a small part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.operator import Calls
from stepscope.analyse.phase import Phase
from stepscope.analyse.roofline import MOST, arithmetic_seconds, peak_of
from stepscope.analyse.work import Work
from stepscope.model import report
from stepscope.model.hardware import Hardware

MATRIX = frozenset({"gemm", "convolution", "attention"})
LEAST_KNOWN = 0.90
"""Less known matrix work than this, by device time, derives no MFU: it would be far too low."""


def efficiency(
    calls: Calls,
    device: int,
    row: report.Accounting,
    rank: int | None,
    given_flops: int | None = None,
) -> tuple[report.Efficiency | None, float | None]:
    """Arithmetic of one device over its row; `None` where it did no matrix work or no shapes are known.

    `device` is its number among the activities, `given_flops` what the model needs in all steps of the row,
    where the caller knows it. The second is a utilisation above 1, which cannot be: then the report has none.
    """
    model = calls.hardware.get(device)
    which = _matrix(calls, calls.activities.device == device)
    its_calls = calls.calls(which)
    is_known = np.zeros(len(calls.call_row), dtype=bool)
    is_known[its_calls] = calls.is_matrix()[its_calls]
    # Done with less arithmetic than the definition: how much is not known.
    is_known[calls.call[which[calls.is_transform[which]]]] = False
    matrix = int(calls.duration_ns[which].sum())
    known = int(calls.duration_ns[which[is_known[calls.call[which]]]].sum())
    counted = _innermost(calls, np.flatnonzero(is_known))
    again = np.zeros(len(calls.call_row), dtype=bool)
    if calls.who.phase is not None:
        again[calls.call[calls.who.phase == Phase.RECOMPUTE]] = True
    first_time = _arithmetic(calls, counted[~again[counted]], model)
    repeated = _arithmetic(calls, counted[again[counted]], model)
    flops = first_time.flops + repeated.flops
    # What an op does again of the forward pass the model does not need either.
    again_flops = repeated.flops + first_time.again_flops
    if (given_flops is None and not flops) or flops > MOST:
        return None, None
    precision, peak = _most(first_time.by_precision + repeated.by_precision, model)
    known_share = known / matrix if matrix else None
    is_told = known_share is not None and known_share >= LEAST_KNOWN
    whole = row.total_ns / 1e9
    hfu = mfu = None
    if is_told and whole and first_time.seconds is not None and repeated.seconds is not None:
        hfu = (first_time.seconds + repeated.seconds) / whole
        mfu = (first_time.seconds - first_time.again_seconds) / whole
    model_flops = flops - again_flops if is_told else None
    if given_flops is not None:
        model_flops = given_flops
        mfu = given_flops / (peak * whole) if peak and whole else None
    worst = max(hfu or 0.0, mfu or 0.0)
    if hfu is not None and hfu > 1:  # more than the device can do: neither is true
        hfu, mfu = None, mfu if given_flops is not None else None
    found = report.Efficiency(
        device=row.device,
        rank=rank,
        total_ns=row.total_ns,
        flops=flops or None,
        recomputed_flops=again_flops if calls.who.phase is not None and flops else None,
        known_share=known_share,
        model_flops=model_flops,
        is_given=True if given_flops is not None else None,
        hfu=hfu,
        mfu=mfu if mfu is not None and mfu <= 1 else None,
        precision=precision,
        peak_flops_per_second=peak,
    )
    return found, worst if worst > 1 else None


def _matrix(calls: Calls, on_device: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Activities of ops that compute matrix products, convolutions or attention."""
    found = [
        mine
        for name_id, which in groups(calls.name_id)
        if len(mine := which[on_device[which]]) and calls.class_of(calls.trace.names[name_id], mine) in MATRIX
    ]
    return np.concatenate([np.empty(0, dtype=np.intp), *found])


def _innermost(calls: Calls, which: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Those of these calls that hold none of the others: an op that calls another does no work beside it."""
    spans, row = calls.trace.spans, calls.call_row[which]
    track, start, end = spans.track_id[row], spans.ts_ns[row], spans.ts_ns[row] + spans.dur_ns[row]
    order = np.lexsort((-end, start, track))
    holds = np.zeros(len(order), dtype=bool)
    holds[:-1] = (track[order][1:] == track[order][:-1]) & (start[order][1:] < end[order][:-1])
    return which[order[~holds]]


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """Of calls: FLOPs, the seconds they take at the device's peak (`None`: not known), both of what repeats
    forward work inside them, and FLOPs by precision and whether on tensor cores (`None`: not known)."""

    flops: int
    seconds: float | None
    again_flops: int
    again_seconds: float
    by_precision: Counter[tuple[str, bool | None]]


def _arithmetic(calls: Calls, which: npt.NDArray[np.intp], model: Hardware | None) -> _Arithmetic:
    flops, again, seconds, again_seconds = 0, 0, [], []
    by_precision = Counter[tuple[str, bool | None]]()
    for work, cores, times in calls.works(which):
        if work is not None:
            took = arithmetic_seconds(work, model, cores)
            seconds.append(None if took is None else took * times)
            flops += work.flops * times
            again += work.repeated * times
            if took and work.flops:
                again_seconds.append(took * times * work.repeated / work.flops)
            by_precision[work.precision, None if cores < 0 else bool(cores)] += work.flops * times
    told = [each for each in seconds if each is not None]
    whole = math.fsum(told) if len(told) == len(seconds) else None
    return _Arithmetic(flops, whole, again, math.fsum(again_seconds), by_precision)


def _most(
    flops: Mapping[tuple[str, bool | None], int], model: Hardware | None
) -> tuple[str | None, float | None]:
    """The precision of most of the arithmetic as it ran, and the device's peak in it."""
    if not flops:
        return None, None
    precision, cores = max(flops, key=lambda key: (flops[key], key[0]))
    flag = -1 if cores is None else int(cores)
    peak = peak_of(Work(1, 0, precision, is_matrix=True), model, flag)
    is_tf32 = precision == "fp32" and cores and model is not None and "tf32" in model.peak_flops
    return "tf32" if is_tf32 else precision, peak
