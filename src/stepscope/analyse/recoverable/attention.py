"""Attention scores that are written to memory and read back."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.analyse.roofline import Known

LEAST_SCORES = 64 * 64
"""A table of attention scores with fewer elements a head is no table worth avoiding."""
MOST = 2**60
"""More elements than any memory holds: no shape of a real tensor."""
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
Size = tuple[int, int, int]
"""(elements or batch, rows, columns)."""


def attention_ns(seen: Seen) -> F64 | None:
    """Time of what runs between the product that writes attention scores and the one that reads them.

    Scores are what a softmax (an op or a kernel of that class) reads whose last two dimensions are those that
    a batched product of this run writes. Counted are activities between two such products on one stream, with
    a softmax among them: scaling, masks, dropout and their gradients. The products are not: fused attention
    does them too. `None` where softmax ran and the shapes that it read were not recorded.
    """
    is_softmax = seen.of_kind("softmax")
    if (is_softmax & ~seen.has_op).any():
        return None
    by_kernel = set(np.unique(seen.which[is_softmax]).tolist())
    read: set[Size] = set()
    for place, each in enumerate(seen.known):
        if place in by_kernel or "softmax" in each.op.lower():
            sizes = _sizes(each.call.shapes)
            if not sizes and place in by_kernel:
                return None
            read.update(sizes)
    writes = [_written(each) for each in seen.known]
    scores = {size for size in writes if size in read and size[1] * size[2] >= LEAST_SCORES}
    if not scores:
        return np.zeros(len(seen.own_ns))
    is_writer = seen.of_known([size in scores for size in writes])
    is_reader = seen.of_known([bool(scores.intersection(_operands(each))) for each in seen.known])
    has_scores = seen.of_known([bool(scores.intersection(_sizes(each.call.shapes))) for each in seen.known])
    named = seen.of_known(["softmax" in each.op.lower() for each in seen.known])
    between = _between(seen, is_writer, is_reader, is_softmax | named) & has_scores
    between &= ~(is_writer | is_reader)
    # A product over the scores is no work of its own to align: it goes when attention is fused.
    seen.taken |= between | is_writer | is_reader
    return np.where(between, seen.own_ns, 0.0)


def _between(
    seen: Seen,
    is_writer: npt.NDArray[np.bool_],
    is_reader: npt.NDArray[np.bool_],
    is_softmax: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Activities of a stream between a writer and the next reader, where a softmax is among them."""
    found = np.zeros(len(seen.own_ns), dtype=bool)
    for _, members in groups(seen.calls.activities.stream):
        writers = np.flatnonzero(is_writer[members])
        readers = np.flatnonzero(is_reader[members])
        count = np.append(0, np.cumsum(is_softmax[members]))
        after = np.append(readers, len(members))[np.searchsorted(readers, writers, side="right")]
        for begin, end in zip(writers.tolist(), after.tolist(), strict=True):
            if end < len(members) and count[end] > count[begin + 1]:
                found[members[begin + 1 : end]] = True
    return found


def _cubes(known: Known) -> list[Size]:
    """The two operands of a batched product, as (batch, rows, columns); empty where they do not tell."""
    if known.op not in _PRODUCTS:
        return []
    cubes = [(s[0], s[1], s[2]) for s in _shapes(known.call.shapes) if len(s) == 3][-2:]
    return cubes if len(cubes) == 2 else []


def _written(known: Known) -> Size | None:
    cubes = _cubes(known)
    if not cubes:
        return None
    (batch, rows, _), (_, _, columns) = cubes
    return batch * rows * columns, rows, columns


def _operands(known: Known) -> list[Size]:
    return _sizes([list(cube) for cube in _cubes(known)])


def _sizes(shapes: Iterable[object]) -> list[Size]:
    """Of the tensors with a batch or head dimension."""
    return [(math.prod(shape), shape[-2], shape[-1]) for shape in _shapes(shapes) if len(shape) >= 3]


def _shapes(shapes: Iterable[object]) -> list[tuple[int, ...]]:
    """Those that are shapes of tensors: lists of numbers that a memory holds."""
    plain = [
        tuple(shape)
        for shape in shapes
        if isinstance(shape, list) and shape and all(type(n) is int and n >= 0 for n in shape)
    ]
    return [shape for shape in plain if math.prod(shape) < MOST]
