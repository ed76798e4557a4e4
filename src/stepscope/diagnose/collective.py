"""Collectives of a job: one row for each kind, group and message size, over all ranks."""

from __future__ import annotations

import numpy as np

from stepscope.align.token import SYNCHRONISING
from stepscope.analyse.collective import MAX_LINK_SHARE, MIN_MESSAGE_BYTES, bus_bandwidth
from stepscope.analyse.joined import Joined, exposed_waits, group_sizes
from stepscope.analyse.lateness import Lateness
from stepscope.model import report
from stepscope.model.trace import I64

MOST_ROWS = 200


def collective_rows(
    whole: Joined, late: Lateness
) -> tuple[tuple[report.Collective, ...], tuple[report.HealthIssue, ...]]:
    """The report's rows, by time, and an issue where a rate is more than the link carries."""
    calls = whole.calls
    size = _bytes(whole)
    groups = group_sizes(whole.tables, calls)
    exposed = np.zeros(len(calls), dtype=np.int64)
    for place in range(calls.num_ranks):
        exposed[calls.of_rank(place)] = exposed_waits(whole, place)
    duration = np.maximum(calls.end_ns - calls.start_ns, 0)
    keys: dict[tuple[int, str, int], list[int]] = {}
    for call, (group, token, of) in enumerate(
        zip(calls.group.tolist(), calls.token.tolist(), size.tolist(), strict=True)
    ):
        keys.setdefault((group, calls.kind[token], of), []).append(call)
    head_of = np.full(max(whole.matching.num, 1), -1, dtype=np.int64)
    if len(whole.heads):
        head_of[whole.matching.instance[whole.by_instance[whole.heads]]] = np.arange(len(whole.heads))
    skew, transfer = _skews(whole)
    rows, suspects = [], []
    for (group, kind, of), members in keys.items():
        at = np.array(members)
        instances = np.unique(whole.matching.instance[at])
        instances = instances[instances >= 0]
        heads = head_of[instances]
        heads = heads[heads >= 0]
        known = at[(whole.wait_ns[at] >= 0) & whole.is_whole[at]]
        ranks = int(np.unique(calls.rank[at]).size)
        time = int(np.median(transfer[heads])) if len(heads) else 0
        members_of_group = int(max(groups[group], ranks))
        rate = (
            bus_bandwidth(kind, of, members_of_group, time)
            if len(heads) and len(known) and time > whole.clock_noise_ns
            else None
        )
        links = [t.link_bytes_per_second for t in whole.tables if t.link_bytes_per_second]
        link = min(links) if links else None
        algorithm = of / (time / 1e9) if rate is not None else None
        if rate is not None and link and rate > link:
            # A little more is the rounding of times; much more is a wrong size, group or duration.
            suspects += [rate / link] if rate > MAX_LINK_SHARE * link else []
            rate = algorithm = None
        late_heads = heads[skew[heads] > whole.clock_noise_ns] if len(heads) else heads
        rows.append(
            (
                int(duration[at].sum()),
                report.Collective(
                    kind=kind,
                    count=len(instances) or len(at),
                    group=calls.group_names[group],
                    bytes=of or None,
                    transfer_ns=int((duration[known] - whole.wait_ns[known]).sum()) if len(known) else None,
                    wait_ns=int(whole.wait_ns[known].sum()) if len(known) else None,
                    wait_exposed_ns=int(exposed[known].sum()) if len(known) else None,
                    last_rank=_most_often(whole, late, late_heads),
                    skew_ns=int(np.median(skew[heads])) if len(heads) else None,
                    num_ranks=ranks,
                    num_unmatched=int((whole.matching.instance[at] < 0).sum()) or None,
                    algorithm_bytes_per_second=algorithm,
                    bus_bytes_per_second=rate,
                    link_share=rate / link if rate is not None and link else None,
                ),
            )
        )
    rows.sort(key=lambda pair: -pair[0])
    issues: tuple[report.HealthIssue, ...] = ()
    if suspects:
        detail = (
            f"transfers of {len(suspects)} kinds of collectives imply up to {max(suspects):,.1f} times "
            "what the link carries: their recorded size, group or duration is wrong, and their bandwidth "
            "is withheld"
        )
        issues = (report.HealthIssue(code="unit_suspect", count=len(suspects), effect="none", detail=detail),)
    return tuple(row for _, row in rows[:MOST_ROWS]), issues


def _bytes(whole: Joined) -> I64:
    return (
        np.concatenate([table.collectives.bytes for table in whole.tables])
        if whole.tables
        else np.empty(0, dtype=np.int64)
    )


def _skews(whole: Joined) -> tuple[I64, I64]:
    """Of each instance: last less first start, and the shortest transfer of its ranks."""
    at, heads = whole.by_instance, whole.heads
    if not len(heads):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    start = whole.start_ns[at]
    skew = np.maximum.reduceat(start, heads) - np.minimum.reduceat(start, heads)
    duration = whole.calls.end_ns[at] - whole.calls.start_ns[at]
    return skew, np.minimum.reduceat(duration - whole.wait_ns[at], heads)


def _most_often(whole: Joined, late: Lateness, heads: I64) -> int | None:
    """The rank that came last most often, `None` where nobody was late beyond the clocks."""
    if not len(heads):
        return None
    place = int(np.bincount(late.last_rank[heads]).argmax())
    return whole.tables[place].rank


def transfer_rate(whole: Joined, place: int) -> float | None:
    """Bus bandwidth of a rank's large transfers, waiting left out, weighted by time; `None` without any."""
    calls, table = whole.calls, whole.tables[place]
    mine = calls.of_rank(place)
    is_large = (table.collectives.bytes >= MIN_MESSAGE_BYTES) & (whole.wait_ns[mine] >= 0)
    is_large &= whole.is_whole[mine]
    is_large &= calls.is_of(*SYNCHRONISING)[mine]
    if not is_large.any():
        return None
    groups = group_sizes(whole.tables, calls)
    rates, weights = [], []
    for call, of in zip(mine[is_large].tolist(), table.collectives.bytes[is_large].tolist(), strict=True):
        time = int(calls.end_ns[call] - calls.start_ns[call] - whole.wait_ns[call])
        if time <= whole.clock_noise_ns:
            continue
        rate = bus_bandwidth(calls.kind[calls.token[call]], of, int(groups[calls.group[call]]), time)
        link = table.link_bytes_per_second
        if rate is not None and not (link and rate > MAX_LINK_SHARE * link):
            rates.append(rate)
            weights.append(time)
    return float(np.average(rates, weights=weights)) if rates else None


def slower_group(whole: Joined, place: int) -> float | None:
    """How much longer the transfers of a rank's groups take than those of other groups with the same kind,
    size and number of ranks: the largest ratio of medians; `None` without such groups."""
    calls, found = whole.calls, None
    skew_of, transfer = _skews(whole)
    del skew_of
    if not len(whole.heads):
        return None
    head_calls = whole.by_instance[whole.heads]
    size, groups = _bytes(whole)[head_calls], group_sizes(whole.tables, calls)
    token_kind = [calls.kind[t] for t in calls.token[head_calls].tolist()]
    of_group = calls.group[head_calls]
    mine = set(np.unique(calls.group[calls.of_rank(place)]).tolist())
    kinds: dict[tuple[str, int, int], dict[int, list[int]]] = {}
    for kind, bytes_, group, time in zip(
        token_kind, size.tolist(), of_group.tolist(), transfer.tolist(), strict=True
    ):
        if bytes_ >= MIN_MESSAGE_BYTES and kind in SYNCHRONISING:
            kinds.setdefault((kind, bytes_, int(groups[group])), {}).setdefault(group, []).append(time)
    for by_group in kinds.values():
        medians = {group: float(np.median(times)) for group, times in by_group.items()}
        others = [ns for group, ns in medians.items() if group not in mine]
        own = [ns for group, ns in medians.items() if group in mine]
        if others and own and float(np.median(others)) > whole.clock_noise_ns:
            ratio = max(own) / float(np.median(others))
            found = ratio if found is None else max(found, ratio)
    return found
