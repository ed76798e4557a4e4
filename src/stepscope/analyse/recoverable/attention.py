"""Attention scores that are written to memory and read back."""

from __future__ import annotations

import math

import numpy as np

from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.analyse.roofline import Known
from stepscope.analyse.work.pointwise import FUSIBLE

LEAST_SCORES = 64 * 64
"""A table of attention scores with fewer elements a head is no table worth avoiding."""


def attention_ns(seen: Seen) -> F64:
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
    chosen = [
        (each.op in FUSIBLE or "softmax" in each.op or "dropout" in each.op)
        and any(_scores(shape) in scores for shape in each.call.shapes)
        for each in seen.known
    ]
    mine = seen.of_known(chosen)
    seen.taken |= mine
    # A product over the same scores is no work of its own to align: it goes when attention is fused.
    products = [
        each.op in ("aten::bmm", "aten::baddbmm")
        and any((s[0] * s[1] * s[2], s[1], s[2]) in scores for s in _cubes(each))
        for each in seen.known
    ]
    seen.taken |= seen.of_known(products)
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
