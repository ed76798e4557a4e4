"""Tensors that elementwise ops hand to each other through memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.phase import Phase
from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.analyse.roofline import Known
from stepscope.analyse.work.pointwise import FUSIBLE, result


def fusion_saving_ns(seen: Seen) -> F64:
    """Time that elementwise ops take to hand tensors to each other through memory.

    Two kernels that follow each other on one stream are a link where both are fusible ops of one kernel and
    the second has an operand of the shape that the first writes. Fused, the second need not read it, and the
    first need not write it unless the backward pass wants it (then only the read is counted). Each share of
    traffic stands for the same share of its kernel's time.
    """
    calls = seen.calls
    outputs = [result(each.op, each.call) for each in seen.known]
    usable = [each.op in FUSIBLE and each.work is not None and each.work.bytes > 0 for each in seen.known]
    _, of_call, launches = np.unique(calls.own_row, return_inverse=True, return_counts=True)
    fits = seen.of_known(usable) & (launches[of_call] == 1) & (seen.own_ns > 0)
    saved = np.zeros(len(seen.own_ns))
    is_forward = np.zeros(len(saved), dtype=bool)
    if calls.who.phase is not None:
        is_forward = calls.who.phase == Phase.FORWARD
    streams = calls.activities.stream
    links: dict[tuple[int, int], int] = {}
    for _, members in groups(streams):
        first, second = members[:-1], members[1:]
        both = fits[first] & fits[second]
        first, second = first[both], second[both]
        pairs = np.stack([seen.which[first], seen.which[second]], axis=1)
        for (a, b), here in _groups_of(pairs):
            moved = links.setdefault((a, b), _handed_on(outputs[a], seen.known[b]))
            work_a, work_b = seen.known[a].work, seen.known[b].work
            if not moved or work_a is None or work_b is None:
                continue
            i, j = first[here], second[here]
            saved[j] += seen.own_ns[j] * min(1.0, moved / work_b.bytes)
            saved[i] += np.where(is_forward[i], 0.0, seen.own_ns[i] * min(1.0, moved / work_a.bytes))
    return np.minimum(saved, seen.own_ns)


def _groups_of(pairs: npt.NDArray[np.intp]) -> list[tuple[tuple[int, int], npt.NDArray[np.intp]]]:
    if not len(pairs):
        return []
    found, which = np.unique(pairs, axis=0, return_inverse=True)
    of = dict(groups(which.reshape(-1).astype(np.int64)))
    return [((int(a), int(b)), of[place]) for place, (a, b) in enumerate(found.tolist())]


def _handed_on(written: tuple[tuple[int, ...], int] | None, reader: Known) -> int:
    """Bytes of what the first op writes, where the second has an operand of that shape; else 0."""
    if written is None or len(written[0]) == 0:
        return 0
    return written[1] if any(shape == list(written[0]) for shape in reader.call.shapes) else 0
