"""Tensors that elementwise ops hand to each other through memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.phase import Phase
from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.analyse.roofline import Known
from stepscope.analyse.work.pointwise import FUSIBLE, result

_FIRST_READ = {"aten::copy_": 1, "aten::zero_": 1, "aten::fill_": 1}
"""Ops whose first operand is written and not read."""
_KINDS = ("elementwise", "normalization", "softmax", "reduction", "copy")


@dataclass(frozen=True, slots=True)
class Fusion:
    """Of each activity: what neighbours hand on (`handed_ns`), and the most that fusing whole runs of such
    kernels could save (`bound_ns`)."""

    handed_ns: F64
    bound_ns: F64


def fusion(seen: Seen) -> Fusion:
    """Time that fusing elementwise kernels saves, by neighbours and by whole runs.

    *Neighbours*: two kernels that follow each other on one stream, both fusible ops of one kernel, where the
    second reads an operand of the shape that the first writes. The second need not read it, and the first
    need not write it unless the backward pass wants it (then only the read is counted).

    *Runs*: kernels of these kinds in a row on one stream. Fused they still read the largest operand of the
    first and write the result of the last; all other traffic is the most that can go, and so is all time of a
    kernel whose traffic is not known.

    The same op on the same shapes again is no neighbour: it goes through a list of tensors. Nor is the next
    step. Each share of
    traffic stands for the same share of its kernel's time.
    """
    calls = seen.calls
    fusible = seen.of_kind(*_KINDS) & ~seen.taken & (seen.own_ns > 0)
    # Layout changes have a rule of their own, and stand in nobody's way.
    is_other = ~fusible & ~seen.of_kind("layout")
    handed, bound = np.zeros(len(seen.own_ns)), np.zeros(len(seen.own_ns))
    outputs = [result(each.op, each.call) for each in seen.known]
    traffic = np.array(
        [float(each.work.bytes) if each.work is not None else 0.0 for each in seen.known] or [0.0]
    )
    usable = [each.op in FUSIBLE and bool(traffic[key] > 0) for key, each in enumerate(seen.known)]
    _, of_call, launches = np.unique(calls.own_row, return_inverse=True, return_counts=True)
    is_known = fusible & seen.of_known(usable) & (launches[of_call] == 1)
    moved = np.where(is_known, traffic[seen.which] if len(traffic) else 0.0, 0.0)
    for _, members in groups(calls.activities.stream):
        mine = members[fusible[members]]
        if len(mine) < 2:
            continue
        broken = np.cumsum(is_other[members])[fusible[members]]
        same = seen.which[mine][1:] == seen.which[mine][:-1]
        same &= seen.has_op[mine][1:] & seen.has_op[mine][:-1]
        linked = (broken[1:] == broken[:-1]) & (seen.step[mine][1:] == seen.step[mine][:-1]) & ~same
        _hand_on(seen, mine[:-1][linked], mine[1:][linked], is_known, outputs, handed)
        _bound(seen, mine, np.append(0, np.cumsum(~linked)), is_known, moved, outputs, bound)
    handed = np.minimum(handed, seen.own_ns)
    return Fusion(handed, np.maximum(np.minimum(bound, seen.own_ns), handed))


def _hand_on(
    seen: Seen,
    first: npt.NDArray[np.intp],
    second: npt.NDArray[np.intp],
    is_known: npt.NDArray[np.bool_],
    outputs: list[tuple[tuple[int, ...], int] | None],
    handed: F64,
) -> None:
    both = is_known[first] & is_known[second]
    first, second = first[both], second[both]
    if not len(first):
        return
    phase = seen.calls.who.phase
    is_forward = phase == Phase.FORWARD if phase is not None else np.zeros(len(handed), dtype=bool)
    pairs = np.stack([seen.which[first], seen.which[second]], axis=1)
    found, which = np.unique(pairs, axis=0, return_inverse=True)
    for place, here in groups(which.reshape(-1).astype(np.int64)):
        a, b = (int(key) for key in found[place])
        moved = _handed_on(outputs[a], seen.known[b])
        work_a, work_b = seen.known[a].work, seen.known[b].work
        if not moved or work_a is None or work_b is None:
            continue
        i, j = first[here], second[here]
        handed[j] += seen.own_ns[j] * min(1.0, moved / work_b.bytes)
        handed[i] += np.where(is_forward[i], 0.0, seen.own_ns[i] * min(1.0, moved / work_a.bytes))


def _bound(
    seen: Seen,
    mine: npt.NDArray[np.intp],
    run: npt.NDArray[np.intp],
    is_known: npt.NDArray[np.bool_],
    moved: F64,
    outputs: list[tuple[tuple[int, ...], int] | None],
    bound: F64,
) -> None:
    """Fill in what each run of two kernels or more saves at most; `run` is the number of each one's run."""
    count = np.bincount(run)
    whole = np.bincount(run, weights=moved[mine])
    first = np.flatnonzero(np.append(True, np.diff(run) > 0))
    last = np.append(first[1:], len(mine)) - 1
    needed = np.zeros(len(count))
    for place, (begin, end) in enumerate(zip(mine[first].tolist(), mine[last].tolist(), strict=True)):
        if count[place] > 1:
            read = _largest_read(seen.known[seen.which[begin]]) if is_known[begin] else 0
            out = outputs[seen.which[end]] if is_known[end] else None
            needed[place] = read + (out[1] if out is not None else 0)
    share = np.where(whole > 0, np.maximum(0.0, 1 - needed / np.maximum(whole, 1)), 1.0)
    of_each = np.where(is_known[mine], share[run], 1.0)
    bound[mine] = np.where(count[run] > 1, seen.own_ns[mine] * of_each, 0.0)


def _handed_on(written: tuple[tuple[int, ...], int] | None, reader: Known) -> int:
    """Bytes of what the first op writes, where the second reads an operand of that shape; else 0."""
    if written is None or len(written[0]) == 0:
        return 0
    read = reader.call.shapes[_FIRST_READ.get(reader.op, 0) :]
    return written[1] if any(shape == list(written[0]) for shape in read) else 0


def _largest_read(known: Known) -> int:
    """Bytes of the largest operand that an op reads."""
    places = range(_FIRST_READ.get(known.op, 0), len(known.call))
    return max((known.call.bytes(at) for at in places if known.call.has(at)), default=0)
