"""The run without its stragglers: between collectives no rank works longer than the median one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analyse.replay.program import Program
from stepscope.model.trace import I64

LEAST_NS = 1_000
"""Less is no difference."""
LARGE_OF_MOST = 0.5
"""Ranks are named whose work shrinks by at least so much of what the most is."""


def levelled(
    programs: Sequence[Program], matched: Sequence[I64], *, is_even: bool = False
) -> tuple[I64, tuple[int, ...]]:
    """Weights of all edges, program after program, and the ranks that work less than before.

    With `is_even` device work is dealt out anew: every rank has the mean of all, those with less have more.

    A segment is what a rank does between issuing two matched collectives, one after the other; ranks that
    have the same two compare. Host work above their lower median is taken from its longest stretches: what
    stalls a rank is long; device work is scaled.
    """
    keys, host, device, owner = [], [], [], []
    segment_key = []
    for i, (p, of) in enumerate(zip(programs, matched, strict=True)):
        key = _keys(of)
        segment_key.append(key)
        num = len(key)
        is_host = p.host_edge == np.arange(len(p.host_edge))
        at = np.maximum(p.segment, 0)
        in_segment = p.segment >= 0
        mine = np.flatnonzero(is_host & in_segment)
        work = np.zeros(num, dtype=np.int64)
        np.add.at(work, at[mine], p.host_part_ns[mine])
        # Every way into an event names its work: the whole of it is the most that one names.
        busy = np.zeros(p.num_nodes, dtype=np.int64)
        where = np.zeros(p.num_nodes, dtype=np.int64)
        np.maximum.at(busy, p.target[in_segment], p.device_part_ns[in_segment])
        where[p.target[in_segment]] = at[in_segment]
        computed = np.zeros(num, dtype=np.int64)
        np.add.at(computed, where, busy)
        unique, inverse = np.unique(key, return_inverse=True)
        keys.append(unique)
        host.append(np.bincount(inverse, weights=work).astype(np.int64))
        device.append(np.bincount(inverse, weights=computed).astype(np.int64))
        owner.append(np.full(len(unique), i))
    key_all, who = np.concatenate(keys), np.concatenate(owner)
    host_all, device_all = np.concatenate(host), np.concatenate(device)
    host_low, device_low = _lower_median(key_all, host_all), _lower_median(key_all, device_all)
    most_share = 1.0
    if is_even:
        device_low, most_share = _mean(key_all, device_all), np.inf
    weights, saved = [], np.zeros(len(programs), dtype=np.int64)
    for i, p in enumerate(programs):
        mine = who == i
        order = np.searchsorted(key_all[mine], segment_key[i])
        cut_host = np.maximum(host_all - host_low, 0)[mine]
        own_device = device_all[mine]
        share = np.ones(len(own_device))
        has = own_device > 0
        share[has] = np.minimum(device_low[mine][has] / own_device[has], most_share)
        weights.append(_lighter(p, order, cut_host, share))
        saved[i] = int(cut_host.sum() + ((1 - share) * own_device).sum())
    most = int(saved.max(initial=0))
    named = [
        p.rank
        for p, ns in zip(programs, saved.tolist(), strict=True)
        if most > 0 and ns >= LARGE_OF_MOST * most and p.rank is not None
    ]
    return np.concatenate(weights), tuple(sorted(named))


def _keys(matched: I64) -> I64:
    """A number for (matched collective before, matched collective next) of each segment, the one behind the
    last collective included; the same on every rank for the same two."""
    num = len(matched)
    place = np.arange(num + 1)
    before = np.append(-1, np.maximum.accumulate(np.where(matched >= 0, place[:num], -1)))
    after = np.where(matched >= 0, place[:num], num)
    after = np.append(np.minimum.accumulate(after[::-1])[::-1], num)
    ids = np.append(matched, -1)
    first = np.where(before >= 0, ids[np.maximum(before, 0)], -1)
    stride = 2**31
    key: I64 = (first + 1) * stride + ids[after] + 1
    return key


def _lower_median(key: I64, value: I64) -> I64:
    """Of each entry the lower median of the values with its key."""
    order = np.lexsort((value, key))
    sorted_key = key[order]
    heads = np.flatnonzero(np.append(True, sorted_key[1:] != sorted_key[:-1]))
    count = np.diff(np.append(heads, len(order)))
    middle = value[order][heads + (count - 1) // 2]
    result = np.empty(len(key), dtype=np.int64)
    result[order] = np.repeat(middle, count)
    return result


def _mean(key: I64, value: I64) -> I64:
    """Of each entry the mean of the values with its key."""
    _, which, count = np.unique(key, return_inverse=True, return_counts=True)
    total = np.bincount(which, weights=value)
    mean: I64 = np.round(total / count).astype(np.int64)[which]
    return mean


def _lighter(p: Program, key_of: I64, cut_ns: I64, share: np.ndarray) -> I64:
    """The weights of a program whose segments lose host work (by key) and whose device work is scaled."""
    is_host = np.flatnonzero(p.host_edge == np.arange(len(p.host_edge)))
    key = key_of[np.clip(p.segment, 0, len(key_of) - 1)]
    left = p.host_part_ns.copy()
    for each in np.flatnonzero(cut_ns > LEAST_NS).tolist():
        mine = is_host[(key[is_host] == each) & (p.segment[is_host] >= 0)]
        left[mine] = _capped(left[mine], int(cut_ns[each]))
    ratio = np.ones(len(p.source))
    some = is_host[p.host_part_ns[is_host] > 0]
    ratio[some] = left[some] / p.host_part_ns[some]
    of_host = np.where(p.host_edge >= 0, 1 - ratio[np.maximum(p.host_edge, 0)], 0.0)
    of_device = np.where(p.segment >= 0, 1 - share[key], 0.0)
    less = of_host * p.host_part_ns + of_device * p.device_part_ns
    lighter: I64 = p.untouched - np.round(less).astype(np.int64)
    return lighter


def _capped(length: I64, excess: int) -> I64:
    """Lengths cut at the level above which `excess` lies."""
    order = np.sort(length)[::-1]
    above = np.cumsum(order) - np.arange(1, len(order) + 1) * np.append(order[1:], 0)
    at = int(np.searchsorted(above, excess))
    if at >= len(order):
        return np.zeros(len(length), dtype=np.int64)
    level = (int(order[: at + 1].sum()) - excess) // (at + 1)
    return np.minimum(length, max(level, 0))
