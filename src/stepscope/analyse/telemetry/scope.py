"""Whether figures are of what they claim: one card or the sum of several, power or energy, ratio or percent,
capacity or bandwidth, one direction or both. Pure.

Only what cannot be is said: the limit of the card that the telemetry itself states, else of its model in our
table, else of any card there is. A signal that is no figure of one card is withheld: no verdict may follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stepscope.analyse.telemetry.capacity import MOST_GIGABYTES, memory_bytes_of
from stepscope.model import report
from stepscope.model.hardware import TABLE, hardware_of
from stepscope.model.sample import F64, Owner, Series, Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.model.text import percent, scaled, size

BEYOND = 1.2
"""So far above its limit no card draws power over a twentieth of the time: limits are means over a moment."""
BEYOND_RATED = 1.5
"""No vendor lets a card's limit be raised so far above its rated power; two cards have twice as much."""
BEYOND_MEMORY, BEYOND_LINK = 1.05, 1.1
"""Drivers count memory a little differently; rates of links include headers."""
USUAL_NODE, MOST_IN_NODE = 8, 16
"""Devices of a node: a sum of more is rare."""
IDLE_SHARE = 0.10
"""A card draws at least about this part of its limit: an H100 idles at 70 of 700 W."""
FLOOR_NS = 100_000_000
"""Profiling counters average over no less: shorter windows give zeros or blanks (NVIDIA/DCGM#310)."""
LEAST_RISING = 20
"""So many readings that only rise, to beyond any card's power, are a counter of energy."""
SAME = 0.01
LEAST_SAME = 10
"""So many readings of memory busy that equal memory in use are no coincidence."""
PROFILED = frozenset(
    {
        "graphics_engine_active_ratio", "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio",
        "tensor_int8_active_ratio", "tensor_fp16_active_ratio", "tensor_fp64_active_ratio",
        "fp64_active_ratio", "fp32_active_ratio", "fp16_active_ratio", "int_active_ratio",
        "dram_active_ratio", "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second",
        "nvlink_tx_bytes_per_second", "nvlink_rx_bytes_per_second",
    }
)  # fmt: skip

CODES = (
    "sum_of_cards",  # more than one card can
    "energy_as_power",
    "percent_as_ratio",
    "both_directions",  # or several cards
    "capacity_as_bandwidth",
    "device_unlabelled",
    "window_too_short",
)
"""Codes of the health issues."""
Key = tuple[str | int | None, ...]


@dataclass(frozen=True, slots=True)
class Suspect:
    """One signal of one owner that is not what it claims, in one sentence."""

    code: str
    signal: str
    owner: Owner
    detail: str
    source: str
    is_withheld: bool = True


@dataclass(frozen=True, slots=True)
class Scope:
    """What is suspect. `withheld` are (source's name, signal, owner's key)."""

    suspects: tuple[Suspect, ...] = ()
    withheld: frozenset[tuple[str, str, Key]] = field(default_factory=frozenset)

    def issues(self) -> tuple[report.HealthIssue, ...]:
        """One issue a code and signal; the sentence is the first owner's."""
        found: dict[tuple[str, str, bool], list[Suspect]] = {}
        for each in self.suspects:
            found.setdefault((each.code, each.signal, each.is_withheld), []).append(each)
        return tuple(
            report.HealthIssue(
                code=code,
                count=len(those),
                effect="withheld" if is_withheld else "none",
                detail=those[0].detail + (f" (and {len(those) - 1} more)" if len(those) > 1 else ""),
                affects=(signal,),
            )
            for (code, signal, is_withheld), those in found.items()
        )

    def numbers(self, owner: Owner) -> dict[str, float]:
        """`scope_suspects` of one device: how many of its signals are withheld."""
        return {"scope_suspects": float(len({s for _, s, key in self.withheld if key == owner.key}))}


def scope(telemetry: Sequence[Telemetry], num_devices: int | None = None) -> Scope:
    """Everything suspect. `num_devices` on the job's hosts, where something else than the telemetry tells."""
    found: list[Suspect] = []
    for source in telemetry:
        of_owner: dict[Key, dict[str, Series]] = {}
        for series in source.series:
            if len(series):
                of_owner.setdefault(series.owner.key, {})[series.signal] = series
        for those in of_owner.values():
            for check in _CHECKS:
                found += [replace(each, source=source.name) for each in check(those)]
        found += _unlabelled(source, of_owner, num_devices)
        found += _dropped(source)
        found += _window(source)
    withheld = frozenset((each.source, each.signal, each.owner.key) for each in found if each.is_withheld)
    return Scope(tuple(found), withheld)


def without(telemetry: Iterable[Telemetry], scope: Scope) -> tuple[Telemetry, ...]:
    """The telemetry without the series that are withheld: what follows cannot see them."""
    return tuple(
        replace(
            source,
            series=tuple(
                each
                for each in source.series
                if (source.name, each.signal, each.owner.key) not in scope.withheld
            ),
        )
        for source in telemetry
    )


def cards(total: float, limit: float) -> tuple[int, int]:
    """(least, most) cards whose sum can be `total` where one has at most `limit`: the least at full, the
    most at idle, but no more than a usual node has unless the least is more."""
    least = max(1, math.ceil(total / (limit * 1.02)))
    most = int(total / (limit * IDLE_SHARE))
    return least, max(least, min(most, USUAL_NODE if least <= USUAL_NODE else MOST_IN_NODE))


def _of(owner: Owner) -> str:
    if owner.index is not None:
        return f"gpu {owner.index}"
    return owner.uuid or owner.pci_bus_id or "a device without a name"


def _suspect(code: str, series: Series, detail: str) -> Suspect:
    return Suspect(code, series.signal, series.owner, detail, "")


def _high(series: Series) -> float:
    """Its 95th percentile: a single spike is none of it."""
    return float(np.percentile(series.value, 95))


def _range(least: int, most: int) -> str:
    return f"{least} to {most}" if most > least else str(least)


def _power(of: dict[str, Series]) -> list[Suspect]:
    series = of.get("power_watts")
    if series is None:
        return []
    hardware = hardware_of(series.owner.model)
    # Rows that sources disagree on (B300 of 1,100 W, GB300 of 1,400 W) are no certain limit.
    rated = hardware.tdp_watts if hardware is not None and hardware.confidence != "low" else None
    stated = of.get("power_limit_watts") or of.get("power_limit_default_watts")
    found = []
    limit, whose = None, ""
    if stated is not None:
        limit, whose = float(stated.value.max()), "the limit stated beside it"
        if rated and limit > BEYOND_RATED * rated:
            least, most = cards(limit, rated)
            found.append(
                _suspect(
                    "sum_of_cards",
                    stated,
                    f"{stated.signal} of {_of(stated.owner)} is {limit:,.0f} W, and a card of this model has "
                    f"{rated:,.0f} W: it looks like the sum of {_range(least, most)} cards",
                )
            )
            limit = None
    if limit is None:
        limit, whose = rated, "the rated power of its model"
    is_known = limit is not None
    if limit is None:
        limit, whose = max(row.tdp_watts or 0.0 for row in TABLE), "the most that any card in our table has"
    high = _high(series)
    if high <= BEYOND * limit:
        return found
    rise = np.diff(series.value)
    if len(rise) >= LEAST_RISING and (rise >= 0).all() and (rise > 0).mean() >= 0.9:
        detail = (
            f"power_watts of {_of(series.owner)} only rises, from {series.value[0]:,.0f} to "
            f"{series.value[-1]:,.0f}: it looks like a counter of energy, not power"
        )
        return [*found, _suspect("energy_as_power", series, detail)]
    fits = ""
    if is_known:
        least, most = cards(high, limit)
        each = "" if most == least else f" ({high / most:,.0f} to {high / least:,.0f} W each)"
        fits = f": it looks like the sum of {_range(least, most)} cards{each}, or another unit"
    detail = (
        f"power_watts of {_of(series.owner)} is {high:,.0f} W, and {whose} is {limit:,.0f} W{fits}; as one "
        "card's it is not judged"
    )
    return [*found, _suspect("sum_of_cards", series, detail)]


def _memory(of: dict[str, Series]) -> list[Suspect]:
    found = []
    known = memory_bytes_of(next(iter(of.values())).owner.model)
    most = known if known is not None else MOST_GIGABYTES << 30
    whose = "one card of its model has at most" if known is not None else "no card in our table has more than"
    total = of.get("memory_total_bytes")
    for name in ("memory_used_bytes", "memory_free_bytes", "memory_total_bytes"):
        series = of.get(name)
        if series is None:
            continue
        value = _high(series)
        if value > BEYOND_MEMORY * most:
            detail = f"{name} of {_of(series.owner)} is {size(value)}, and {whose} {size(most)}"
            if known is not None:
                detail += f": it looks like the sum of at least {math.ceil(value / (most * 1.02))} cards"
            found.append(_suspect("sum_of_cards", series, detail))
        elif name == "memory_used_bytes" and total is not None and value > 1.01 * float(total.value.max()):
            detail = (
                f"{name} of {_of(series.owner)} is {size(value)}, more than the "
                f"{size(float(total.value.max()))} stated as present: the two are not of the same cards"
            )
            found.append(_suspect("sum_of_cards", series, detail))
    return found


def _ratios(of: dict[str, Series]) -> list[Suspect]:
    found = []
    for series in of.values():
        signal = SIGNALS.get(series.signal)
        if signal is None or signal.unit != "ratio":
            continue
        top = _high(series)
        most = signal.most or 1.02
        # Ratios of a MIG instance were seen above 1 (NVIDIA/DCGM#152): a fault of the counter, not a unit.
        if top <= (2.0 if series.owner.mig is not None else most):
            continue
        whose = f"{series.signal} of {_of(series.owner)} reaches {top:.4g} where 1 is the most"
        if top > 100.5:
            found.append(_suspect("percent_as_ratio", series, f"{whose}: neither a ratio nor percent"))
        elif top > MOST_IN_NODE:
            found.append(_suspect("percent_as_ratio", series, f"{whose}: it looks like percent"))
        else:
            detail = (
                f"{whose}: the sum of at least {math.ceil(top / 1.02)} cards, or percent of a device "
                "hardly used"
            )
            found.append(_suspect("sum_of_cards", series, detail))
    return found


def _links(of: dict[str, Series]) -> list[Suspect]:
    hardware = hardware_of(next(iter(of.values())).owner.model)
    if hardware is None:
        return []
    found = []
    for prefix, rate in (
        ("nvlink", hardware.link_bytes_per_second),
        ("pcie", hardware.pcie_bytes_per_second),
    ):
        if not rate:
            continue
        for way, most in (("_tx", rate), ("_rx", rate), ("", 2 * rate)):
            series = of.get(f"{prefix}{way}_bytes_per_second")
            if series is None or series.owner.kind != "device":
                continue
            high = _high(series)
            if high <= BEYOND_LINK * most:
                continue
            is_both = way != "" and high <= 2 * BEYOND_LINK * rate
            looks = (
                "both directions together"
                if is_both
                else f"the sum of at least {math.ceil(high / (BEYOND_LINK * 2 * rate))} cards"
            )
            detail = (
                f"{series.signal} of {_of(series.owner)} is {scaled(high, 'B/s')}, and the link carries "
                f"{scaled(most, 'B/s')}: it looks like {looks}"
            )
            found.append(_suspect("both_directions" if is_both else "sum_of_cards", series, detail))
    return found


def _capacity(of: dict[str, Series]) -> list[Suspect]:
    """Memory busy (time) that equals memory in use (space) in every reading is the latter."""
    series, used, total = (
        of.get(name) for name in ("memory_busy_ratio", "memory_used_bytes", "memory_total_bytes")
    )
    if series is None or used is None or total is None:
        return []
    _, mine, theirs = np.intersect1d(series.at_ns, used.at_ns, return_indices=True)
    if len(mine) < LEAST_SAME:
        return []
    share: F64 = used.value[theirs] / float(total.value.max())
    if float(np.abs(series.value[mine] - share).max()) > SAME or float(share.max()) < 0.05:
        return []
    detail = (
        f"memory_busy_ratio of {_of(series.owner)} equals memory in use ({percent(float(share.max()))}) in "
        f"all {len(mine)} readings: it is capacity, not the time that memory was busy"
    )
    return [_suspect("capacity_as_bandwidth", series, detail)]


def _is_nameless(owner: Owner) -> bool:
    return owner.kind == "device" and owner.uuid is None and owner.index is None and owner.pci_bus_id is None


def _unlabelled(
    source: Telemetry, of_owner: dict[Key, dict[str, Series]], num_devices: int | None
) -> list[Suspect]:
    """Series of a device that is not named, where there are several: a sum, a mean, or any one of them."""
    owners = {next(iter(those.values())).owner for those in of_owner.values()}
    named = [o for o in owners if o.kind == "device" and not _is_nameless(o)]
    several = max(len(named), num_devices or 0)
    if several < 2:
        return []
    return [
        Suspect(
            "device_unlabelled",
            series.signal,
            series.owner,
            f"{series.signal} names no device, and there are {several}: it may be their sum, their mean or "
            "any one of them",
            source.name,
        )
        for those in of_owner.values()
        for series in those.values()
        if _is_nameless(series.owner)
    ]


_TOO_LARGE = {
    "ratio": ("percent_as_ratio", "above 1: they look like percent, or the sum of several cards"),
    "W": ("sum_of_cards", "more than any card draws: they look like the sum of several cards, or energy"),
}
"""Unit -> code, and what values beyond the signal's range look like."""


def _dropped(source: Telemetry) -> list[Suspect]:
    """A ratio or a power of which the source itself left out most values: the rest is no better."""
    kept: dict[str, list[Series]] = {}
    for series in source.series:
        kept.setdefault(series.signal, []).append(series)
    lost: dict[str, int] = {}
    whose: dict[str, Owner] = {}
    for each in source.missing:
        signal = SIGNALS.get(each.signal or "")
        if each.reason != "out_of_range" or signal is None or signal.unit not in _TOO_LARGE:
            continue
        lost[signal.name] = lost.get(signal.name, 0) + each.count
        whose.setdefault(signal.name, each.owner or Owner())
    found = []
    for name, count in lost.items():
        remaining = sum(len(series) for series in kept.get(name, []))
        if count < max(3, remaining):
            continue
        code, looks = _TOO_LARGE[SIGNALS[name].unit]
        detail = f"{count} of {count + remaining} values of {name} are {looks}"
        owners = [series.owner for series in kept.get(name, [])] or [whose[name]]
        found += [Suspect(code, name, owner, detail, source.name) for owner in owners]
    return found


def _window(source: Telemetry) -> list[Suspect]:
    """Profiling counters over less than they can average over; where only the readings are close to each
    other, they may repeat one value: that is noted."""
    stated = [each for each in (source.window_ns, source.collect_ns) if each is not None and each > 0]
    found = []
    for series in source.series:
        if series.signal not in PROFILED or len(series) < 2:
            continue
        period = int(np.median(np.diff(series.at_ns)))
        window = min(stated, default=period)
        if window < FLOOR_NS:
            detail = (
                f"{series.signal} is read every {window / 1e6:.0f} ms; profiling counters average over "
                "100 ms or more, and shorter windows give zeros or blanks"
            )
            found.append(
                Suspect(
                    "window_too_short",
                    series.signal,
                    series.owner,
                    detail,
                    source.name,
                    is_withheld=bool(stated),
                )
            )
    return found


_CHECKS: tuple[Callable[[dict[str, Series]], list[Suspect]], ...] = (
    _power,
    _memory,
    _ratios,
    _links,
    _capacity,
)
"""Each is given one owner's series of one source, by signal."""
