"""Which device of the telemetry a traced device is.

A process sees its devices renumbered (`CUDA_VISIBLE_DEVICES`), an exporter numbers them as the driver does:
equal numbers say nothing. Identities are tried first, then who uses the device, then what it did. Where none
decides, the device is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepscope.align.collect import scrape_interval
from stepscope.align.forward import LINKS
from stepscope.align.lag import RELATED
from stepscope.align.misfit import curve
from stepscope.model.activity import Activity
from stepscope.model.sample import Owner, Series
from stepscope.model.trace import I64

Method = Literal["uuid", "pci_bus_id", "process", "nccl", "label", "only", "activity", "none"]

LEAST_EXPLAINED = 0.5
"""Of an owner's variance, for it to be the device of a trace."""
MARGIN = 0.3
"""And so much more than of any other's. Ranks of one job work alike: a better fit alone is less noise, a
device that works otherwise is explained by a third or less."""
MATCH_STEP_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class TraceDevice:
    """A device as traces and logs of its rank know it; what they do not say is `None`.

    `index` is the number within the process and names nothing outside of it. `nccl_pci_bus_id` and
    `nccl_index` are those of the rank's NCCL log: `busId` (its own writing, such as `3b000`, will do) and the
    driver's `nvmlDev`.
    """

    rank: int | None = None
    index: int | None = None
    host: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    model: str | None = None
    pid: int | None = None
    nccl_pci_bus_id: str | None = None
    nccl_index: int | None = None
    activity: Activity | None = None


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """A device of the telemetry, the processes that it lists, the job's labels, and its series."""

    owner: Owner
    pids: frozenset[int] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    series: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class Assigned:
    """The owner of one traced device; `None` with the reason in `why`."""

    owner: Owner | None
    method: Method
    why: str


def assign(sides: Sequence[TraceDevice], owners: Sequence[OwnerFacts]) -> list[Assigned]:
    """Which owner each traced device is, in the order of `sides`.

    A method decides where exactly one owner that is left fits; an identity that no owner has decides too: the
    device is not in the telemetry. Two devices that would be one owner are neither, for one of them is wrong.
    """
    is_one_host = all(
        len({_host(name) for name in names if name}) <= 1
        for names in ([side.host for side in sides], [each.owner.host for each in owners])
    )
    told = [_by_facts(side, owners, len(sides), is_one_host) for side in sides]
    taken = {each.owner.key for each in told if each is not None and each.owner is not None}
    free = [each for each in owners if each.owner.key not in taken]
    undecided = [side for side, each in zip(sides, told, strict=True) if each is None]
    return _once(
        [
            each if each is not None else _by_activity(side, undecided, free, is_one_host)
            for side, each in zip(sides, told, strict=True)
        ]
    )


def is_on(process: Owner, device: Owner) -> bool:
    """Whether a process' row is of this device."""
    if process.uuid and device.uuid:
        return process.uuid == device.uuid and process.mig in (None, device.mig)
    if process.host and device.host and process.host != device.host:
        return False
    if process.pci_bus_id and device.pci_bus_id:
        return process.pci_bus_id == device.pci_bus_id
    return process.index is not None and process.index == device.index


def pci_bus_id(text: str | None) -> str | None:
    """A PCI bus id as `0000:3b:00.0`, from `00000000:3B:00.0`, `3b:00.0` or NCCL's `3b000`; `None` of
    neither."""
    if text is None:
        return None
    found = _BUS.fullmatch(text.strip().lower())
    if found:
        domain, bus, device, function = (int(part or "0", 16) for part in found.groups())
    elif _NCCL_BUS.fullmatch(text.strip().lower()):
        # NCCL prints domain << 20 | bus << 12 | device << 4 | function.
        whole = int(text.strip(), 16)
        domain, bus, device, function = whole >> 20, whole >> 12 & 0xFF, whole >> 4 & 0xFF, whole & 0xF
    else:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


_BUS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-9a-f]))?")
_NCCL_BUS = re.compile(r"[0-9a-f]{3,13}")


def _uuid(text: str | None) -> str | None:
    """A UUID without case and prefix: drivers write `GPU-…` and `MIG-…`, traces leave it out."""
    if not text:
        return None
    return re.sub(r"^(gpu|mig)-", "", text.strip().lower())


def _model(text: str | None) -> str | None:
    """A model's name without vendor, case and separators (`NVIDIA-H100-NVL`, `NVIDIA H100 NVL`)."""
    return re.sub(r"^nvidia|[ _-]", "", text.lower()) if text else None


def _host(text: str | None) -> str | None:
    return text.split(".")[0].lower() if text else None


def _possible(side: TraceDevice, owners: Sequence[OwnerFacts]) -> list[OwnerFacts]:
    """Owners of the trace's model, or of none."""
    return [
        each
        for each in owners
        if not side.model or not each.owner.model or _model(side.model) == _model(each.owner.model)
    ]


def _near(side: TraceDevice, owners: Sequence[OwnerFacts], is_one_host: bool) -> list[OwnerFacts]:
    """Owners that may be on the trace's host: those that say so, else those that do not say otherwise.

    An exporter may call its host `localhost` or after its pod: of one host on either side names need not
    agree.
    """
    if not side.host:
        return list(owners)
    same = [each for each in owners if _host(each.owner.host) == _host(side.host)]
    if same:
        return same
    return [each for each in owners if is_one_host or not each.owner.host]


def _has_label(side: TraceDevice, facts: OwnerFacts) -> bool:
    rank = facts.labels.get("rank")
    return side.rank is not None and rank is not None and rank.isdecimal() and int(rank) == side.rank


# (method, what the trace has for it, whether an owner fits, what makes it an identity: with it on both sides
# and nowhere equal, the device is not there)
_Row = tuple[
    Method,
    Callable[[TraceDevice], object],
    Callable[[TraceDevice, OwnerFacts], bool],
    Callable[[OwnerFacts], object] | None,
]
_METHODS: tuple[_Row, ...] = (
    (
        "uuid",
        lambda side: side.uuid,
        lambda side, facts: _uuid(side.uuid) == _uuid(facts.owner.uuid),
        lambda facts: facts.owner.uuid,
    ),
    (
        "pci_bus_id",
        lambda side: pci_bus_id(side.pci_bus_id),
        lambda side, facts: pci_bus_id(side.pci_bus_id) == pci_bus_id(facts.owner.pci_bus_id),
        lambda facts: pci_bus_id(facts.owner.pci_bus_id),
    ),
    (
        # A pid of a container is no pid of the node: where none is equal, nothing follows.
        "process",
        lambda side: side.pid,
        lambda side, facts: side.pid in facts.pids,
        None,
    ),
    (
        "nccl",
        lambda side: pci_bus_id(side.nccl_pci_bus_id),
        lambda side, facts: pci_bus_id(side.nccl_pci_bus_id) == pci_bus_id(facts.owner.pci_bus_id),
        lambda facts: pci_bus_id(facts.owner.pci_bus_id),
    ),
    (
        # nvmlDev is the driver's own number: that of an exporter on the same host, never of another.
        "nccl",
        lambda side: side.nccl_index if side.host else None,
        lambda side, facts: (
            side.nccl_index == facts.owner.index and _host(side.host) == _host(facts.owner.host)
        ),
        None,
    ),
    ("label", lambda side: side.rank, _has_label, None),
)


def _by_facts(
    side: TraceDevice, owners: Sequence[OwnerFacts], num_sides: int, is_one_host: bool
) -> Assigned | None:
    """By the first method that decides; `None` where none does."""
    left = _possible(side, owners)
    if not left:
        return Assigned(None, "none", "Every device of the telemetry is of another model.")
    for method, own, fits, identity in _METHODS:
        mine = own(side)
        if mine is None:
            continue
        if method not in _ANYWHERE:
            left = _near(side, left, is_one_host)
        fitting = [each for each in left if fits(side, each)]
        if len(fitting) == 1:
            return Assigned(fitting[0].owner, method, _WHY[method].format(mine=mine))
        if fitting:
            # Instances of one device, or a process on several: a later method may tell them apart.
            left = fitting
        elif identity is not None and left and all(identity(each) for each in left):
            return Assigned(None, "none", f"The telemetry has no device of {_NAMES[method]} {mine}.")
    if num_sides == 1 and len(left) == 1 and len(owners) == 1:
        return Assigned(left[0].owner, "only", "The trace and the telemetry have one device each.")
    return None


_ANYWHERE = ("uuid", "label")
"""Methods whose names are one in the whole job; the others are of a host."""
_NAMES = {"uuid": "UUID", "pci_bus_id": "PCI bus id", "nccl": "PCI bus id"}
_WHY: dict[str, str] = {
    "uuid": "Its UUID is {mine}.",
    "pci_bus_id": "Its PCI bus id is {mine}.",
    "process": "Process {mine} runs on it and on no other device.",
    "nccl": "The NCCL log of the rank names it: {mine}.",
    "label": "The telemetry labels it with rank {mine}.",
}


def _by_activity(
    side: TraceDevice,
    undecided: Sequence[TraceDevice],
    free: Sequence[OwnerFacts],
    is_one_host: bool,
) -> Assigned:
    """By what the device did: the one owner whose counters follow this trace, and better than any other's."""
    left = [each for each in _near(side, _possible(side, free), is_one_host) if each.series]
    if side.activity is None or not left:
        return Assigned(None, "none", "Neither side has an identity in common, nor both a time line.")
    scores = sorted(((_explained(side.activity, each), each) for each in left), key=lambda row: -row[0])
    best = scores[0]
    if best[0] < LEAST_EXPLAINED:
        return Assigned(None, "none", "No device of the telemetry follows the trace.")
    if len(scores) > 1 and best[0] - scores[1][0] < MARGIN:
        return Assigned(None, "none", "Several devices of the telemetry follow the trace as well.")
    others = (each.activity for each in undecided if each is not side and each.activity is not None)
    if any(best[0] - _explained(other, best[1]) < MARGIN for other in others):
        return Assigned(None, "none", "Several traces look like the same device of the telemetry.")
    return Assigned(best[1].owner, "activity", "Its counters follow the trace, those of no other device do.")


def _explained(activity: Activity, facts: OwnerFacts) -> float:
    """The share of an owner's variance that a trace explains at the best lag; 0 where chance would do as
    well."""
    best = 0.0
    for each in facts.series:
        link = LINKS.get(each.signal)
        if link is None or link.tier > 0:
            continue
        window = scrape_interval(each.at_ns)
        if window is None:
            continue
        told = curve(activity, each, link, _search(window), window)
        if told is not None and told.gain >= RELATED:
            best = max(best, told.explained)
    return best


def _search(window_ns: int) -> I64:
    wide = max(10_000_000_000, 2 * window_ns)
    return np.arange(-wide, wide + 1, max(MATCH_STEP_NS, wide // 300), dtype=np.int64)


def _once(told: Sequence[Assigned]) -> list[Assigned]:
    """No owner twice: where two devices claim one, the claims are withdrawn."""
    keys = [each.owner.key if each.owner is not None else None for each in told]
    twice = {key for key in keys if key is not None and keys.count(key) > 1}
    return [
        Assigned(None, "none", f"Several traced devices would be this one (by {each.method}).")
        if key in twice
        else each
        for key, each in zip(keys, told, strict=True)
    ]
