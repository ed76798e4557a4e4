"""MFU and HFU: matrix arithmetic of a device against its peak, recomputation apart.

Definitions as in the PaLM paper (Chowdhery et al., 2022, appendix B): model FLOPs utilisation counts what the
model needs, hardware FLOPs utilisation all that ran. Both are of the matrix arithmetic: the rest runs on
other units and is a small part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.operator import Calls
from stepscope.analyse.phase import Phase
from stepscope.analyse.roofline import arithmetic_seconds, peak_of
from stepscope.analyse.work import Work
from stepscope.model import report
from stepscope.model.hardware import Hardware

MATRIX = frozenset({"gemm", "convolution", "attention"})
LEAST_KNOWN = 0.90
"""Less known matrix work than this, by device time, derives no MFU: it would be far too low."""


def efficiency(
    calls: Calls,
    device: report.Device,
    total_ns: int,
    rank: int | None,
    given_flops: int | None = None,
) -> tuple[report.Efficiency | None, float | None]:
    """Arithmetic of one device over its row; `None` where it did no matrix work or no shapes are known.

    The second is a utilisation above 1, which cannot be: then the report holds none.

    `given_flops` is what the model needs in all steps of the row, where the caller knows it.
    """
    index = device.index if device.index is not None else -1
    on_device = calls.activities.device == index
    model = calls.hardware.get(index)
    known = matrix = flops = again = 0
    seconds = again_seconds = 0.0
    by_precision: dict[tuple[str, bool | None], int] = {}
    is_bounded = True
    for name_id, which in groups(calls.name_id):
        mine = which[on_device[which]]
        if not len(mine) or calls.class_of(calls.trace.names[name_id], mine) not in MATRIX:
            continue
        duration = int(calls.duration_ns[mine].sum())
        matrix += duration
        for part, is_again in _split(calls, mine):
            works = calls.matrix_works(part)
            if works is None:
                continue
            known += int(calls.duration_ns[part].sum())
            amount = sum(work.flops * times for work, _, times in works)
            took = _seconds(works, model)
            if took is None:
                is_bounded = False
            flops, seconds = flops + amount, seconds + (took or 0.0)
            if is_again:
                again, again_seconds = again + amount, again_seconds + (took or 0.0)
            for work, cores, times in works:
                key = work.precision, None if cores < 0 else bool(cores)
                by_precision[key] = by_precision.get(key, 0) + work.flops * times
    if given_flops is None and not flops:
        return None, None
    precision, peak = _most(by_precision, model)
    known_share = known / matrix if matrix else None
    is_known = known_share is not None and known_share >= LEAST_KNOWN
    is_derived = given_flops is None and is_known
    model_flops = given_flops if given_flops is not None else flops - again if is_derived else None
    whole = total_ns / 1e9
    hfu = seconds / whole if is_bounded and is_known and whole and model is not None else None
    if given_flops is not None:
        mfu = given_flops / (peak * whole) if peak and whole else None
    else:
        mfu = (seconds - again_seconds) / whole if hfu is not None else None
    worst = max((each for each in (hfu, mfu) if each is not None), default=0.0)
    found = report.Efficiency(
        device=device,
        rank=rank,
        total_ns=total_ns,
        flops=flops or None,
        recomputed_flops=again if calls.who.phase is not None and flops else None,
        known_share=known_share,
        model_flops=model_flops,
        is_given=True if given_flops is not None else None,
        hfu=hfu if hfu is not None and hfu <= 1 else None,
        mfu=mfu if mfu is not None and mfu <= 1 else None,
        precision=precision,
        peak_flops_per_second=peak,
    )
    return found, worst if worst > 1 else None


def _split(calls: Calls, which: npt.NDArray[np.intp]) -> Iterator[tuple[npt.NDArray[np.intp], bool]]:
    """Activities of one op apart by whether they are recomputed."""
    if calls.who.phase is None:
        yield which, False
        return
    is_again = calls.who.phase[which] == Phase.RECOMPUTE
    for mask, flag in ((~is_again, False), (is_again, True)):
        if mask.any():
            yield which[mask], flag


def _seconds(works: Sequence[tuple[Work, int, int]], model: Hardware | None) -> float | None:
    total = 0.0
    for work, cores, times in works:
        took = arithmetic_seconds(work, model, cores)
        if took is None:
            return None
        total += took * times
    return total


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
