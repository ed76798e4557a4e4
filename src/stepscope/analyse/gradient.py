"""How collectives are used: many small ones, and gradients that are reduced more often than they are used."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from stepscope.analyse.collective import MIN_MESSAGE_BYTES, Collectives
from stepscope.model.trace import I64, Trace
from stepscope.trace.category import HOST_KINDS, Kind, is_of
from stepscope.trace.link import Activities

SMALL_NS = 200_000
"""A small message takes tens of microseconds within a node and up to about this across many: what takes
longer waits for a peer and not for its latency."""
SAME_SHARE = 0.9
"""A micro-step reduces all gradients that reduces as many bytes as the last of its update, but for a
tenth."""

FORWARD = re.compile(r"^DistributedDataParallel\.forward$")
UPDATE = re.compile(r"^Optimizer\.step#")
_REDUCING = ("all_reduce", "reduce_scatter")


def small(found: Collectives, exposed_ns: I64, num_steps: int) -> dict[str, float]:
    """`small_of_communication_share`: collectives of less than a megabyte that end fast, 0..1 of the time in
    which nothing hides a collective; `small_collectives_per_step`: how many, where there are steps.

    `exposed_ns` is each collective's own time that nothing hides, inside the windows. Empty without any, and
    where most of that time is of collectives whose size was not recorded.
    """
    total = int(exposed_ns.sum())
    if not total or int(exposed_ns[found.bytes > 0].sum()) < 0.5 * total:
        return {}
    is_small = (found.bytes > 0) & (found.bytes < MIN_MESSAGE_BYTES) & (found.duration_ns <= SMALL_NS)
    numbers = {"small_of_communication_share": int(exposed_ns[is_small].sum()) / total}
    if num_steps:
        numbers["small_collectives_per_step"] = int((is_small & (exposed_ns > 0)).sum()) / num_steps
    return numbers


def repeated_syncs(
    trace: Trace, kinds: npt.NDArray[np.int32], activities: Activities, found: Collectives, exposed_ns: I64
) -> dict[str, float]:
    """How often gradients are reduced for one update of the optimizer, where DistributedDataParallel ran.

    `gradient_syncs_per_update`: micro-steps (a forward and its backward pass) that reduce as many bytes as
    the last one before the update, the last included; the median over updates. `repeated_sync_part`: the
    time of those other than the last, 0..1 of the time in which nothing hides a collective. Where no size was
    recorded, reductions are counted instead of bytes. The first is 0 where ops were recorded and no such
    wrapper, or no reduction; both are absent where no update is marked.
    """
    spans = trace.spans
    is_host = is_of(kinds, *HOST_KINDS)
    forward = _rows(trace, is_host, FORWARD)
    update = _rows(trace, is_host, UPDATE)
    launch = activities.launch_row[found.at]
    is_gradient = np.array([kind in _REDUCING for kind in found.kind], dtype=bool)
    mine = np.flatnonzero(is_gradient & (launch >= 0))
    if not len(forward) or not len(mine):
        return {"gradient_syncs_per_update": 0.0} if is_of(kinds, Kind.OP).any() else {}
    if not len(update):
        return {}
    begun, over = spans.ts_ns[forward], spans.ts_ns[forward] + spans.dur_ns[forward]
    called = spans.ts_ns[launch[mine]]
    of = np.searchsorted(begun, called, side="right") - 1
    # What the forward pass itself exchanges is no gradient.
    is_after = (of >= 0) & (called >= over[np.maximum(of, 0)])
    mine, of = mine[is_after], of[is_after]
    size = found.bytes[mine] if found.bytes[mine].any() else np.ones(len(mine))
    sent = np.bincount(of, weights=size, minlength=len(forward))
    hidden_by_none = np.bincount(of, weights=exposed_ns[mine], minlength=len(forward))
    ends = np.searchsorted(begun, spans.ts_ns[update], side="left")
    counts, repeated = [], 0.0
    for low, high in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        # Updates of several optimizers in a row have no forward pass between them.
        if low >= high or sent[high - 1] <= 0:
            continue
        is_synced = sent[low:high] >= SAME_SHARE * sent[high - 1]
        counts.append(int(is_synced.sum()))
        repeated += float(hidden_by_none[low : high - 1][is_synced[:-1]].sum())
    if not counts:
        return {}
    total = int(exposed_ns.sum())
    numbers = {"gradient_syncs_per_update": float(np.median(counts))}
    return numbers | ({"repeated_sync_part": repeated / total} if total else {})


def _rows(trace: Trace, is_host: npt.NDArray[np.bool_], pattern: re.Pattern[str]) -> npt.NDArray[np.intp]:
    """Host rows of this name, by start."""
    named = np.array([pattern.search(name) is not None for name in trace.names] or [False])
    row = np.flatnonzero(is_host & named[trace.spans.name_id])
    return row[np.argsort(trace.spans.ts_ns[row], kind="stable")]
