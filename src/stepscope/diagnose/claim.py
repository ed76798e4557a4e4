"""Costs as claims on time: what one finding has claimed, the next one cannot claim again.

Idle causes are disjoint, so most claims are simply their parts; a claim on a share of a part leaves the rest
to others. A finding that is no part of the accounting (regularly slow steps) claims what its steps took
beyond the median and nobody else has claimed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from stepscope.analyse.features import part_ns
from stepscope.model import report
from stepscope.model.analysis import DeviceAnalysis
from stepscope.rules.rule import Finding

PEERS = "peers"
"""What a claim is of that other ranks lose."""
PEER_WINDOW = "peer_window_ns"
"""The number that says how long the job's window is: that of the rank with the longest."""
_RANK = {"high": 0, "medium": 1, "low": 2}


@dataclass(frozen=True, slots=True)
class Claim:
    """Nanoseconds of one row claimed by one finding; `overlaps_with` are ids of rules that came first."""

    time_ns: int
    of: str
    overlaps_with: tuple[str, ...] = ()


def claims(found: Sequence[Finding], device: DeviceAnalysis) -> dict[str, Claim]:
    """Rule id -> its claim on this device's row; higher confidence takes first, then a cause before what it
    explains, then the larger share.

    The claims of a row sum to at most its total, and no part is claimed twice.
    """
    row = device.accounting
    costly = [f for f in found if f.rule.cost is not None and f.cost_share is not None]

    def is_effect(finding: Finding) -> bool:
        parts = set(_parts(finding))
        return any(finding.rule.id in f.rule.explains and parts.intersection(_parts(f)) for f in costly)

    def place(f: Finding) -> tuple[bool, int, bool, float, str]:
        # What is no part of the accounting comes last: its time is also somebody's part.
        return not _parts(f), _RANK[f.confidence], is_effect(f), -(f.cost_share or 0.0), f.rule.id

    left = _capacity(row, costly)
    owners: dict[str, list[str]] = {part: [] for part in left}
    shared: dict[str, set[str]] = {}
    result: dict[str, Claim] = {}
    for finding in sorted(costly, key=place):
        parts = _parts(finding)
        whole = round((finding.cost_share or 0.0) * row.total_ns)
        if parts:
            before = tuple(dict.fromkeys(rule for part in parts for rule in owners[part]))
            # A rule may cost less than its parts. What others claimed there may be the same time: none is
            # claimed twice, so it is taken off; labels of kernels are disjoint, and nothing is.
            is_labelled = finding.rule.cost is not None and finding.rule.cost.blame != ()
            others = () if is_labelled else (r for r, its in shared.items() if its.intersection(parts))
            wanted = max(0, whole - sum(result[rule].time_ns for rule in others))
            time = 0
            for part in parts:
                some = min(wanted - time, left[part])
                left[part] -= some
                time += some
                owners[part] += [finding.rule.id] if some else []
            if not is_labelled:
                shared[finding.rule.id] = set(parts)
            overlaps = before if time < whole else ()
            of = "+".join(parts)
        elif finding.rule.cost is not None and finding.rule.cost.is_of_peers:
            # Time of others: it takes nothing from this row's own, and is a share of the job's window.
            window = device.numbers.get(PEER_WINDOW, float(row.total_ns))
            result[finding.rule.id] = Claim(round((finding.cost_share or 0.0) * window), PEERS)
            continue
        else:
            taken = {part: there - left[part] for part, there in _capacity(row, costly).items()}
            unclaimed = row.total_ns - sum(c.time_ns for c in result.values() if c.of != PEERS)
            time = max(0, min(whole, unclaimed, _beyond_median_ns(device, taken)))
            overlaps = tuple(rule for rule, claim in result.items() if claim.time_ns) if time < whole else ()
            of = "steps"
        result[finding.rule.id] = Claim(time, of, overlaps)
    return result


def _capacity(row: report.Accounting, costly: Sequence[Finding]) -> dict[str, int]:
    """What there is to claim of each part that any finding is of."""
    return {part: part_ns(row, part) for finding in costly for part in _parts(finding)}


def _parts(finding: Finding) -> tuple[str, ...]:
    return finding.rule.cost.of if finding.rule.cost is not None else ()


def _beyond_median_ns(device: DeviceAnalysis, taken: Mapping[str, int]) -> int:
    """Time of slow steps beyond the median step, less what computing and claimed parts took beyond theirs:
    of a part at most as much as was claimed of it (`taken`), for the rest is nobody's."""
    variation, steps = device.accounting.variation, device.by_step
    if variation is None or not variation.slow_steps or not steps:
        return device.accounting.total_ns
    slow = [steps[number] for number in variation.slow_steps if number in steps]

    def beyond(key: str) -> int:
        usual = median_low([parts.get(key, 0) for parts in steps.values()])
        return sum(max(0, parts.get(key, 0) - usual) for parts in slow)

    claimed = sum(min(beyond(f"{part}_ns"), time) for part, time in taken.items() if part != "compute")
    return beyond("total_ns") - beyond("compute_ns") - claimed
