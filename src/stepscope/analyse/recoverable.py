"""Compute time that a known change takes away, at most: what better kernels would save.

Every activity has one label at most, so that the amounts of different changes never count the same kernel
twice: recomputation and the optimizer keep theirs whole, then materialised attention, matrix work off the
tensor cores, misaligned matrix work, and chains of elementwise ops. All are bounds from what was recorded
(shapes, types, kernel names); where that does not tell, the number is absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.operator import Calls
from stepscope.analyse.phase import Phase
from stepscope.analyse.roofline import Known, Works
from stepscope.analyse.work.align import is_aligned
from stepscope.analyse.work.pointwise import FUSIBLE, result
from stepscope.model.analysis import Culprit
from stepscope.model.hardware import Hardware
from stepscope.model.report import COMPUTE_KINDS
from stepscope.model.trace import I64
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import COMPUTE

MAX_CULPRITS = 8
LEAST_SCORES = 64 * 64
"""A table of attention scores with fewer elements a head is no table worth avoiding."""
_NO_CORES = re.compile(
    r"gemv|dot_kernel|gemmk1|dgemm|zgemm|cgemm|_dfma_|depthwise|winograd|fft|grouped_direct", re.I
)
"""Kernels off the tensor cores that would not run on them in another precision either."""
_WIDE = frozenset({"fp32", "fp64"})
_PLACE = {kind: place for place, kind in enumerate(COMPUTE_KINDS)}

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recoverable:
    """`numbers` in nanoseconds (keys end in `_ns`) or as their names say, `culprits` by the same labels."""

    numbers: Mapping[str, float]
    culprits: Mapping[str, tuple[Culprit, ...]]


def recoverable(calls: Calls, own_ns: I64, hardware: Hardware | None, num_steps: int) -> Recoverable:
    """The amounts of one device: `calls` of its activities in scope, `own_ns` the compute time of each."""
    known, which = Works(calls.trace).known(np.where(calls.who.op_row >= 0, calls.who.op_row, 0))
    has_op = calls.who.op_row >= 0
    seen = _Seen(calls, own_ns.astype(np.float64), known, which, has_op, np.zeros(len(own_ns), dtype=bool))
    kept = np.isin(calls.who.kind, [_PLACE["recompute"], _PLACE["optimizer"]])
    seen.taken |= kept
    numbers: dict[str, float] = {}
    spent: dict[str, F64] = {
        kind: np.where(calls.who.kind == _PLACE[kind], seen.own_ns, 0.0)
        for kind in ("recompute", "optimizer", "layout")
    }
    is_softmax = calls.who.kind == _PLACE["softmax"]
    if has_shapes(known, which, has_op) or not is_softmax.any():
        spent["attention_scores"] = _attention(seen)
    slow = _off_cores(seen, hardware)
    if slow is not None:
        ours = "tf32_off" if hardware is not None and "tf32" in hardware.peak_flops else "off_tensor_cores"
        other = {"tf32_off": "off_tensor_cores", "off_tensor_cores": "tf32_off"}[ours]
        spent[ours], numbers[f"{ours}_saving_ns"] = slow
        spent[other], numbers[f"{other}_saving_ns"] = np.zeros(len(own_ns)), 0.0
    misaligned = _misaligned(seen)
    if misaligned is not None:
        spent["misaligned"], saving = misaligned
        if saving is not None:
            numbers["misaligned_saving_ns"] = saving
    seen.taken |= calls.who.kind == _PLACE["layout"]
    if has_shapes(known, which, has_op):
        spent["fusion_saving"] = _fusion(seen)
    numbers |= {f"{label}_ns": float(ns.sum()) for label, ns in spent.items() if label != "layout"}
    numbers |= _optimizer(calls, seen.own_ns, num_steps) | _by_class(calls)
    numbers["num_ops"] = float(has_op.sum())
    return Recoverable(numbers, {label: _culprits(calls, ns) for label, ns in spent.items() if ns.any()})


def has_shapes(known: list[Known], which: npt.NDArray[np.intp], has_op: npt.NDArray[np.bool_]) -> bool:
    """Whether shapes were recorded: without them nothing is known of what ops could share."""
    return any(known[key].call.shapes for key in np.unique(which[has_op]).tolist())


@dataclass(slots=True)
class _Seen:
    """What all searches look at; `taken` marks activities that have their label."""

    calls: Calls
    own_ns: F64
    known: list[Known]
    which: npt.NDArray[np.intp]
    has_op: npt.NDArray[np.bool_]
    taken: npt.NDArray[np.bool_]

    def of_keys(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Activities not taken yet of ops with a chosen key."""
        return self.has_op & ~self.taken & chosen[self.which]


# ── attention ──────────────────────────────────────────────────────────────────────────────────────


def _attention(seen: _Seen) -> F64:
    """Time of softmax and elementwise ops over attention scores that a matrix product wrote out.

    Scores are what a softmax reads whose last two dimensions are those that a batched product of this run
    writes. The products are not counted: fused attention does them too.
    """
    written = set()
    for each in seen.known:
        if each.op in ("aten::bmm", "aten::baddbmm"):
            shapes = [s for s in each.call.shapes if isinstance(s, list) and len(s) == 3][-2:]
            if len(shapes) == 2:
                written.add((shapes[0][0] * shapes[0][1] * shapes[1][2], shapes[0][1], shapes[1][2]))
    scores = set()
    for each in seen.known:
        if "softmax" in each.op and each.call.shapes:
            size = _scores(each.call.shapes[0])
            if size in written and size[1] * size[2] >= LEAST_SCORES:
                scores.add(size)
    if not scores:
        return np.zeros(len(seen.own_ns))
    chosen = np.array(
        [
            (each.op in FUSIBLE or "softmax" in each.op or "dropout" in each.op)
            and any(_scores(shape) in scores for shape in each.call.shapes)
            for each in seen.known
        ]
    )
    mine = seen.of_keys(chosen)
    seen.taken |= mine
    # A product over the same scores is no work of its own to align: it goes when attention is fused.
    products = np.array(
        [
            each.op in ("aten::bmm", "aten::baddbmm")
            and any((s[0] * s[1] * s[2], s[1], s[2]) in scores for s in _cubes(each))
            for each in seen.known
        ]
    )
    seen.taken |= seen.of_keys(products)
    return np.where(mine, seen.own_ns, 0.0)


def _cubes(known: Known) -> list[list[int]]:
    """Operands and result of a batched product, as (batch, rows, columns)."""
    shapes = [s for s in known.call.shapes if isinstance(s, list) and len(s) == 3][-2:]
    return [*shapes, [shapes[0][0], shapes[0][1], shapes[1][2]]] if len(shapes) == 2 else shapes


def _scores(shape: object) -> tuple[int, int, int]:
    """(elements, rows, columns) of a tensor with a batch or head dimension, zeros of any other."""
    if not isinstance(shape, list) or len(shape) < 3 or not all(isinstance(n, int) for n in shape):
        return 0, 0, 0
    return math.prod(shape), shape[-2], shape[-1]


# ── tensor cores ───────────────────────────────────────────────────────────────────────────────────


def _off_cores(seen: _Seen, hardware: Hardware | None) -> tuple[F64, float] | None:
    """Time of fp32 matrix work on the vector units, and what the tensor cores would save of it at most.

    Nothing on a device without a faster precision; `None` where there is such work and the device is not
    known. The saving assumes the same share of the peak, and no less than the memory's time where shapes tell
    it.
    """
    calls = seen.calls
    is_matrix = np.isin(calls.who.kind, [_PLACE["gemm"], _PLACE["convolution"]])
    names = calls.trace.names
    able = {n: not _NO_CORES.search(names[n]) for n in np.unique(calls.kernel_id[is_matrix]).tolist()}
    named = np.isin(calls.kernel_id, [n for n, is_able in able.items() if is_able])
    works = [each.work for each in seen.known]
    is_other = np.array(
        [w is not None and (w.precision != "fp32" or not w.is_matrix) for w in works] or [False]
    )
    mine = is_matrix & named & (calls.activities.tensor_core == 0) & ~seen.taken
    if len(works):
        mine &= ~(seen.has_op & is_other[seen.which])
    nothing = np.zeros(len(seen.own_ns))
    if not mine.any():
        return nothing, 0.0
    if hardware is None:
        return None
    peaks = hardware.peak_flops
    slow, fast = peaks.get("fp32"), peaks.get("tf32") or peaks.get("fp16")
    # AMD's matrix units do fp32 as fp32, and a card without tensor cores has no faster type.
    if not slow or not fast or fast <= slow or hardware.key.startswith("MI"):
        return nothing, 0.0
    seen.taken |= mine
    saved = seen.own_ns * (1 - slow / fast)
    bandwidth = hardware.memory_bytes_per_second
    if bandwidth and len(works):
        floor = np.array([w.bytes / bandwidth * 1e9 if w is not None else 0.0 for w in works])
        bound = np.maximum(seen.own_ns - floor[seen.which], 0.0)
        saved = np.where(seen.has_op, np.minimum(saved, bound), saved)
    return np.where(mine, seen.own_ns, 0.0), float(saved[mine].sum())


def _misaligned(seen: _Seen) -> tuple[F64, float | None] | None:
    """Time of products with misaligned rows, and what the rate of aligned ones of this run would save.

    Compared are products of one precision with at most four times more or less arithmetic. `None` where there
    are products and the alignment of none is known; the saving is `None` where nothing can be compared.
    """
    flags = [is_aligned(each.op, each.call, each.strides) for each in seen.known]
    if not any(flag is not None for flag in flags):
        # Wide types (those of the vector units) have no such rows; of other products nothing is known.
        is_wide = [each.work is not None and each.work.precision in _WIDE for each in seen.known]
        products = seen.calls.who.kind == _PLACE["gemm"]
        wide = np.array(is_wide or [False])[seen.which] & seen.has_op if len(seen.which) else products
        wide = wide | (seen.calls.activities.tensor_core == 0)
        return None if (products & ~wide).any() else (np.zeros(len(seen.own_ns)), 0.0)
    rates: list[tuple[str, int, float, float]] = []
    spent = {
        key: float(seen.own_ns[members][~seen.taken[members]].sum()) for key, members in groups(seen.which)
    }
    times = {key: _num_calls(seen, members) for key, members in groups(seen.which)}
    for key, (each, flag) in enumerate(zip(seen.known, flags, strict=True)):
        if flag and each.work is not None and spent.get(key, 0) > 0:
            rate = each.work.flops * times[key] / spent[key]
            rates.append((each.work.precision, each.work.flops, rate, spent[key]))
    chosen = np.array([flag is False for flag in flags])
    mine = seen.of_keys(chosen)
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
        if alike:
            usual = sum(rate * weight for rate, weight in alike) / sum(weight for _, weight in alike)
            saving += spent[key] * max(0.0, 1 - work.flops * times[key] / spent[key] / usual)
            is_known = True
    return np.where(mine, seen.own_ns, 0.0), saving if is_known else None


def _num_calls(seen: _Seen, members: npt.NDArray[np.intp]) -> int:
    return len(np.unique(seen.calls.own_row[members]))


# ── fusion ─────────────────────────────────────────────────────────────────────────────────────────


def _fusion(seen: _Seen) -> F64:
    """Time that elementwise ops take to hand tensors to each other through memory.

    Two kernels that follow each other on one stream are a link where both are fusible ops of one kernel and
    the second has an operand of the shape that the first writes. Fused, the second need not read it, and the
    first need not write it unless the backward pass wants it (then only the read is counted). Each share of
    traffic stands for the same share of its kernel's time.
    """
    calls = seen.calls
    outputs = [result(each.op, each.call) for each in seen.known]
    usable = np.array(
        [each.op in FUSIBLE and each.work is not None and each.work.bytes > 0 for each in seen.known]
    )
    _, of_call, launches = np.unique(calls.own_row, return_inverse=True, return_counts=True)
    fits = seen.of_keys(usable) & (launches[of_call] == 1) & (seen.own_ns > 0)
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


def _by_class(calls: Calls) -> dict[str, float]:
    """Shares of the summed time of all compute kernels."""
    is_kernel = calls.activities.part == COMPUTE
    whole = int(calls.duration_ns[is_kernel].sum())
    if not whole:
        return {}
    return {
        f"{label}_kernel_share": int(
            calls.duration_ns[
                is_kernel & np.isin(calls.activities.cls, [CLASSES.index(c) for c in classes])
            ].sum()
        )
        / whole
        for label, classes in _SHARES.items()
    }


_SHARES = {
    "elementwise": ("elementwise",),
    "normalization": ("normalization",),
    "convolution": ("convolution",),
}


# ── optimizer, and who it was ──────────────────────────────────────────────────────────────────────


def _optimizer(calls: Calls, own_ns: F64, num_steps: int) -> dict[str, float]:
    """Kernels of the optimizer in a step, and how much of its time multi-tensor or fused kernels are."""
    mine = calls.who.kind == _PLACE["optimizer"]
    if not (calls.who.op_row >= 0).any():
        return {}
    if not mine.any():
        return {"optimizer_kernels_per_step": 0.0}
    if not num_steps:
        return {}
    names = calls.trace.names
    ids = [n for n in np.unique(calls.kernel_id[mine]).tolist() if _MULTI.search(names[n])]
    whole = float(own_ns[mine].sum())
    multi = float(own_ns[mine & np.isin(calls.kernel_id, ids)].sum())
    return {
        "optimizer_kernels_per_step": float(mine.sum()) / num_steps,
        **({"optimizer_multi_tensor_share": multi / whole} if whole else {}),
    }


_MULTI = re.compile(
    r"multi_tensor_apply|FusedOptimizer|fused_adam|fused_sgd|fused_lamb|fused_adagrad|split_embedding", re.I
)


def _culprits(calls: Calls, ns: F64) -> tuple[Culprit, ...]:
    """Ops by the time that a label takes of theirs, largest first; the place of the longest activity."""
    result_ = []
    for name_id, members in groups(calls.name_id):
        time = int(ns[members].sum())
        if time <= 0:
            continue
        longest = int(members[int(np.argmax(ns[members]))])
        row = int(calls.activities.row[longest])
        result_.append(
            Culprit(
                name=calls.trace.names[name_id],
                time_ns=time,
                span=int(calls.trace.spans.index[row]),
                start_ns=int(calls.activities.start_ns[longest]),
                end_ns=int(calls.activities.end_ns[longest]),
            )
        )
    result_.sort(key=lambda each: (-each.time_ns, each.name))
    return tuple(result_[:MAX_CULPRITS])


__all__ = ["Recoverable", "recoverable"]
