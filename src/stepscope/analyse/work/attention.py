"""Scaled-dot-product attention as one op: two products forward, five backward (the scores are made again).

Of causal attention only the pairs that are let through count: kernels skip the others. Materialised
attention is made of `bmm` and `softmax`, which stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stepscope.analyse.work.call import Call, Unknown, Work


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the tensors and the mask stand. `is_heads_first`: (batch, heads, length, size), else (batch,
    length, heads, size). `packed` are places of which a tensor says that sequences of several lengths are
    packed."""

    query: int
    flag: int
    is_heads_first: bool
    packed: tuple[int, ...] = ()
    is_mask_type: bool = False
    """A number stands for the mask: 0 none, 1 causal from the first key, 2 causal to the last key."""
    causal: int = 2
    """What the flag means."""
    bias: int = -1
    """Where a bias of the scores stands, which is read too."""
    window: tuple[int, ...] = ()
    """Where the sizes of a sliding window stand."""


def pairs(num_queries: int, num_keys: int, first: int) -> int:
    """(query, key) pairs where query i, from 0, sees the first `first + i` keys, of those that there are."""
    total = 0
    # Queries that see nothing, then ever more, then all.
    blind = min(max(1 - first, 0), num_queries)
    rising = min(max(num_keys - first + 1, 0), num_queries) - blind
    if rising > 0:
        low = first + blind
        total += rising * (2 * low + rising - 1) // 2
    return total + (num_queries - blind - max(rising, 0)) * num_keys


def _num_pairs(call: Call, places: _Places, num_queries: int, num_keys: int) -> int:
    if places.is_mask_type:
        mask = call.number(places.flag)
        if mask not in (0, 1, 2):
            raise Unknown
    else:
        mask = places.causal if call.flag(places.flag) else 0
    first = {0: num_keys, 1: 1, 2: num_keys - num_queries + 1}[mask]
    return pairs(num_queries, num_keys, first)


def _attention(places: _Places, is_backward: bool = False) -> Callable[[Call], Work]:
    def work(call: Call) -> Work:
        if any(call.bytes(at) for at in places.packed) or any(map(call.is_number, places.window)):
            raise Unknown
        first = places.query
        query, key, value = (call.shape(at, 4) for at in (first, first + 1, first + 2))
        if places.is_heads_first:
            query, key, value = ((s[0], s[2], s[1], s[3]) for s in (query, key, value))
        batch, num_queries, heads, size = query
        if key[0] != batch or key[1] != value[1] or key[3] != size or value[0] != batch:
            raise Unknown
        scores = batch * heads * _num_pairs(call, places, num_queries, key[1])
        inputs = sum(call.bytes(at) for at in (first, first + 1, first + 2))
        if places.bias >= 0:
            inputs += call.bytes(places.bias)
        result = batch * num_queries * heads * value[3] * call.size(first)
        if is_backward:
            # Q·Kᵀ, dQ and dK are as wide as Q; dV and the scores' gradient as wide as V. What was read
            # forward is read again with the result's gradient, and a gradient is written for each input.
            flops = 2 * scores * (3 * size + 2 * value[3])
            moved = 2 * (inputs + result)
            return Work(flops, moved, call.precision(first), is_matrix=True, repeated=2 * scores * size)
        return Work(2 * scores * (size + value[3]), inputs + result, call.precision(first), is_matrix=True)

    return work


FORMULAS: Mapping[str, Callable[[Call], Work]] = {
    "aten::_flash_attention_forward": _attention(_Places(0, 8, False, packed=(3, 4), window=(11, 12))),
    "aten::_efficient_attention_forward": _attention(
        _Places(0, 9, False, packed=(4, 5), is_mask_type=True, bias=3)
    ),
    "aten::_cudnn_attention_forward": _attention(_Places(0, 10, True, packed=(4, 5), bias=3)),
    "aten::_scaled_dot_product_flash_attention": _attention(_Places(0, 4, True)),
    "aten::_scaled_dot_product_efficient_attention": _attention(_Places(0, 6, True, causal=1, bias=3)),
    "aten::_scaled_dot_product_cudnn_attention": _attention(_Places(0, 6, True, causal=1, bias=3)),
    "aten::_flash_attention_backward": _attention(
        _Places(1, 11, False, packed=(6, 7), window=(15, 16)), is_backward=True
    ),
    "aten::_efficient_attention_backward": _attention(
        _Places(1, 14, False, packed=(6, 7), is_mask_type=True, bias=4), is_backward=True
    ),
    "aten::_scaled_dot_product_flash_attention_backward": _attention(
        _Places(1, 11, True, packed=(6, 7)), is_backward=True
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(
        _Places(1, 11, True, causal=1, bias=4), is_backward=True
    ),
}
