"""How collectives are used: many small ones, and gradients that are reduced more often than they are used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.analyse.collective import MIN_MESSAGE_BYTES, Collectives
from stepscope.model.analysis import DeviceAnalysis, RankAnalysis
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
REDUCER = re.compile(r"reducer::(mul_out|div_out|copy_bucket_to_grad)$")
"""What DistributedDataParallel's reducer does with a gradient, and only where it reduces it."""
NORMALISED = re.compile(r"SyncBatchNorm")
LEAST_SHARE = 0.01
"""A message of a smaller share of the largest is a statistic or a metric, and no bucket of gradients: these
are of one size, 25 MB, but for the first, 1 MB, and the last."""
UPDATE = re.compile(r"^Optimizer\.step#")
MEDIAN, PER_STEP = "small_collective_median_ns", "small_collectives_per_step"
_REDUCING = ("all_reduce", "reduce_scatter")


def small(found: Collectives, exposed_ns: I64, num_steps: int) -> dict[str, float]:
    """`small_of_communication_share`: collectives of less than a megabyte that end fast, 0..1 of the time in
    which nothing hides a collective; `small_collectives_per_step`: how many, where there are steps;
    `small_collective_median_ns`: how long one takes.

    `exposed_ns` is each collective's own time that nothing hides, inside the windows. Empty without any, and
    where most of that time is of collectives whose size was not recorded.
    """
    total = int(exposed_ns.sum())
    if not total or int(exposed_ns[found.bytes > 0].sum()) < 0.5 * total:
        return {}
    is_small = (found.bytes > 0) & (found.bytes < MIN_MESSAGE_BYTES) & (found.duration_ns <= SMALL_NS)
    numbers = {"small_of_communication_share": int(exposed_ns[is_small].sum()) / total}
    is_exposed = is_small & (exposed_ns > 0)
    if is_exposed.any():
        numbers["small_collective_median_ns"] = float(np.median(found.duration_ns[is_exposed]))
    if num_steps:
        numbers["small_collectives_per_step"] = int(is_exposed.sum()) / num_steps
    return numbers


def with_peers(analyses: Sequence[RankAnalysis]) -> Sequence[RankAnalysis]:
    """The analyses with small collectives held against those of the other ranks of the job.

    A rank that is late finds the others waiting and is done at once: its time is the latency, and what
    another rank takes beyond that is a wait for it. Of each device `small_collective_median_ns` becomes the
    least of the ranks, and `small_of_communication_share` loses as large a part. Only ranks with as many of
    them in a step are held against each other, for they take part in the same.
    """
    peers = [
        (analysis.rank, analysis.world_size, device.numbers[PER_STEP], device.numbers[MEDIAN])
        for analysis in analyses
        for device in analysis.devices
        if analysis.rank is not None and PER_STEP in device.numbers and MEDIAN in device.numbers
    ]
    if len({rank for rank, *_ in peers}) < 2:
        return analyses

    def held(analysis: RankAnalysis, device: DeviceAnalysis) -> DeviceAnalysis:
        own, count = device.numbers.get(MEDIAN), device.numbers.get(PER_STEP)
        if not own or not count:
            return device
        least = min(
            (
                time
                for _, world, number, time in peers
                if world == analysis.world_size and abs(number - count) <= (1 - SAME_SHARE) * count
            ),
            default=own,
        )
        small = device.numbers.get("small_of_communication_share", 0.0) * least / own
        numbers = {**device.numbers, MEDIAN: least, "small_of_communication_share": small}
        return replace(device, numbers=numbers)

    return [replace(each, devices=tuple(held(each, device) for device in each.devices)) for each in analyses]


def repeated_syncs(
    trace: Trace, kinds: npt.NDArray[np.int32], activities: Activities, found: Collectives, exposed_ns: I64
) -> dict[str, float]:
    """How often gradients are reduced for one update of the optimizer, where DistributedDataParallel ran.

    `gradient_syncs_per_update`: micro-steps (a forward and its backward pass) that reduce as many bytes as
    the last one before the update, the last included; the median over updates. `repeated_sync_part`: the
    time of those other than the last, 0..1 of the time in which nothing hides a collective. Messages far
    smaller than the largest, statistics and metrics, are no gradients. Where sizes lack, the wrapper's
    own rows tell which micro-steps reduce gradients, and no time is told where batch normalisation reduces
    too.

    The first is 0 where ops were recorded and nothing is reduced. Both are absent without that wrapper (what
    another one reduces is not known), without a marked update, and where neither sizes nor such rows tell.
    """
    spans = trace.spans
    is_host = is_of(kinds, *HOST_KINDS)
    forward = _rows(trace, is_host, FORWARD)
    update = _rows(trace, is_host, UPDATE)
    launch = activities.launch_row[found.at]
    is_gradient = np.array([kind in _REDUCING for kind in found.kind], dtype=bool)
    mine = np.flatnonzero(is_gradient & (launch >= 0))
    if not is_gradient.any():
        return {"gradient_syncs_per_update": 0.0} if is_of(kinds, Kind.OP).any() else {}
    if not len(forward) or not len(mine) or not len(update):
        return {}
    begun, over = spans.ts_ns[forward], spans.ts_ns[forward] + spans.dur_ns[forward]

    def after(ts_ns: I64) -> npt.NDArray[np.intp]:
        """The forward pass that an instant follows, -1 for none: what it exchanges itself is no gradient."""
        of = np.searchsorted(begun, ts_ns, side="right") - 1
        return np.where((of >= 0) & (ts_ns >= over[np.maximum(of, 0)]), of, -1)

    of = after(spans.ts_ns[launch[mine]])
    mine, of = mine[of >= 0], of[of >= 0]
    is_sized = bool((found.bytes[mine] > 0).all())
    if is_sized:
        is_large = found.bytes[mine] >= LEAST_SHARE * found.bytes[mine].max(initial=0)
        mine, of = mine[is_large], of[is_large]
        sent = np.bincount(of, weights=found.bytes[mine], minlength=len(forward))
    else:
        reduced = after(spans.ts_ns[_rows(trace, is_host, REDUCER)])
        if not len(reduced):
            return {}
        # Present or not: how many rows there are depends on where each begins.
        sent = (np.bincount(reduced[reduced >= 0], minlength=len(forward)) > 0).astype(np.float64)
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
    is_mixed = not is_sized and len(_rows(trace, is_host, NORMALISED)) > 0
    return numbers | ({"repeated_sync_part": repeated / total} if total and not is_mixed else {})


def _rows(trace: Trace, is_host: npt.NDArray[np.bool_], pattern: re.Pattern[str]) -> npt.NDArray[np.intp]:
    """Host rows of this name, by start."""
    named = np.array([pattern.search(name) is not None for name in trace.names] or [False])
    row = np.flatnonzero(is_host & named[trace.spans.name_id])
    return row[np.argsort(trace.spans.ts_ns[row], kind="stable")]
