"""Which device of the traces each owner of counters is.

A process sees its devices renumbered (`CUDA_VISIBLE_DEVICES`), and a driver renumbers them too: a number
alone is no identity across the two. What tells, in this order: a UUID in the trace; a process of the trace
that the driver lists on the device; NCCL's log, which prints a rank's bus id; a rank among the exporter's
labels; one device on either side; and the course of activity, where it fits one device far better than any
other. Else nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.model.activity import Activity
from stepscope.model.log import Log
from stepscope.model.sample import Owner, Series, Telemetry

Place = tuple[int, int]
LEAST_READINGS = 20
"""Fewer readings in the trace match by chance."""
LEAST_LIKENESS, LEAST_MARGIN = 0.6, 0.2
"""Correlation with its own device, and by how much less with any other."""
_BUSY = ("compute_busy_ratio", "graphics_engine_active_ratio", "sm_active_ratio", "power_watts")


@dataclass(frozen=True, slots=True)
class TraceDevice:
    """One device of one rank, as its trace knows it: `place` is (analysis, device)."""

    place: Place
    rank: int | None = None
    index: int | None = None
    name: str | None = None
    uuids: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    activity: Activity | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """Whose counters these are, and what tells."""

    place: Place
    how: str


def assign(
    sides: Sequence[TraceDevice],
    owners: Sequence[Owner],
    telemetry: Sequence[Telemetry] = (),
    logs: Sequence[Log] = (),
) -> list[Assigned | None]:
    """The device of each owner, `None` where nothing tells. No device is given to two owners, nor the other
    way round: where a way names two, it tells nothing."""
    found: dict[int, Assigned] = {}
    by_rank = {side.rank: side for side in sides if side.rank is not None}
    alone = {side.place[0] for side in sides}
    single = [side for side in sides if sum(s.place[0] == side.place[0] for s in sides) == 1]

    ways: tuple[tuple[str, Callable[[], Mapping[int, Place]]], ...] = (
        ("uuid", lambda: _pairs(owners, sides, _same_uuid)),
        ("process", lambda: _by_process(owners, single, telemetry)),
        ("nccl", lambda: _by_nccl(owners, by_rank, logs)),
        ("label", lambda: _by_label(owners, by_rank, telemetry)),
        ("only", lambda: {0: sides[0].place} if len(sides) == len(owners) == len(alone) == 1 else {}),
    )
    for how, way in ways:
        taken = {each.place for each in found.values()}
        told = {n: place for n, place in way().items() if n not in found and place not in taken}
        places = list(told.values())
        found |= {n: Assigned(place, how) for n, place in told.items() if places.count(place) == 1}
    left = [n for n in range(len(owners)) if n not in found]
    free = [side for side in sides if side.place not in {each.place for each in found.values()}]
    if left and free:
        found |= _by_activity(left, owners, free, telemetry)
    return [found.get(n) for n in range(len(owners))]


def _same_uuid(owner: Owner, side: TraceDevice) -> bool:
    return owner.uuid is not None and side.uuids == (owner.uuid,)


def _pairs(
    owners: Sequence[Owner], sides: Sequence[TraceDevice], is_same: Callable[[Owner, TraceDevice], bool]
) -> dict[int, Place]:
    found = {}
    for n, owner in enumerate(owners):
        mine = [side.place for side in sides if is_same(owner, side)]
        if len(mine) == 1:
            found[n] = mine[0]
    return found


def _by_process(
    owners: Sequence[Owner], sides: Sequence[TraceDevice], telemetry: Sequence[Telemetry]
) -> dict[int, Place]:
    """By the processes that the driver lists on a device. A number that two ranks or two devices share tells
    nothing: ranks of several nodes, or of several containers, may have the same."""
    on: dict[int, set[int]] = {}
    for source in telemetry:
        for series in source.series:
            pid = series.owner.pid
            if series.owner.kind == "process" and pid is not None:
                mine = {n for n, owner in enumerate(owners) if is_on(series.owner, owner)}
                on[pid] = on.get(pid, set()) | mine
    found: dict[int, Place] = {}
    for side in sides:
        others = {pid for other in sides if other is not side for pid in other.pids}
        devices = {n for pid in side.pids if pid not in others and len(on.get(pid, ())) == 1 for n in on[pid]}
        if len(devices) == 1:
            found[devices.pop()] = side.place
    return found


def is_on(process: Owner, device: Owner) -> bool:
    """Whether a process' row is of this device."""
    if process.uuid and device.uuid:
        return process.uuid == device.uuid and process.mig in (None, device.mig)
    if process.host and device.host and process.host != device.host:
        return False
    if process.pci_bus_id and device.pci_bus_id:
        return process.pci_bus_id == device.pci_bus_id
    return process.index is not None and process.index == device.index


def _by_nccl(
    owners: Sequence[Owner], by_rank: Mapping[int, TraceDevice], logs: Sequence[Log]
) -> dict[int, Place]:
    """By bus ids that NCCL prints for ranks. On several hosts the same id stands for several devices."""
    found: dict[int, Place] = {}
    for log in logs:
        for rank, bus in log.nccl.devices.items() if log.nccl is not None else ():
            mine = [n for n, owner in enumerate(owners) if _is_bus(owner.pci_bus_id, bus)]
            if rank in by_rank and len(mine) == 1:
                found[mine[0]] = by_rank[rank].place
    return found


def _is_bus(known: str | None, told: str) -> bool:
    """Whether two spellings are of one bus id: `0000:3b:00.0` and NCCL's `3b000`."""
    if known is None:
        return False
    plain = known.lower().replace(":", "").replace(".", "").lstrip("0")
    return bool(plain) and plain == told.lower().replace(":", "").replace(".", "").lstrip("0")


def _by_label(
    owners: Sequence[Owner], by_rank: Mapping[int, TraceDevice], telemetry: Sequence[Telemetry]
) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for source in telemetry:
        for owner, labels in source.labels.items():
            rank = labels.get("rank", "")
            place = [n for n, each in enumerate(owners) if each.key == owner.key]
            if rank.isdigit() and int(rank) in by_rank and len(place) == 1:
                found[place[0]] = by_rank[int(rank)].place
    return found


def _by_activity(
    left: Sequence[int],
    owners: Sequence[Owner],
    free: Sequence[TraceDevice],
    telemetry: Sequence[Telemetry],
) -> dict[int, Assigned]:
    """By likeness: each of a pair must be the other's best by a clear margin."""
    table = np.full((len(left), len(free)), -1.0)
    for row, n in enumerate(left):
        series = _busiest(owners[n], telemetry)
        for column, side in enumerate(free):
            if series is not None and side.activity is not None:
                table[row, column] = likeness(series, side.activity)
    found = {}
    for row, n in enumerate(left):
        column = int(np.argmax(table[row]))
        best = table[row, column]
        others = np.concatenate((np.delete(table[row], column), np.delete(table[:, column], row)))
        if best >= LEAST_LIKENESS and (not len(others) or best - others.max() >= LEAST_MARGIN):
            found[n] = Assigned(free[column].place, "activity")
    return found


def _busiest(owner: Owner, telemetry: Sequence[Telemetry]) -> Series | None:
    for signal in _BUSY:
        for source in telemetry:
            for series in source.series:
                if series.signal == signal and series.owner.key == owner.key:
                    return series
    return None


def likeness(series: Series, activity: Activity) -> float:
    """The best correlation of a series with the trace's busy time over lags within ten seconds, −1 where too
    few readings lie in the trace or either hardly varies."""
    busy = activity.parts.get("busy")
    if busy is None or len(series) < LEAST_READINGS:
        return -1.0
    edges = activity.start_ns + activity.cell_ns * np.arange(len(busy) + 1, dtype=np.float64)
    summed = np.concatenate(([0.0], np.cumsum(busy)))
    period = float(np.median(np.diff(series.at_ns)))
    best = -1.0
    for lag in np.arange(-10e9, 10e9 + 1, 0.25e9):
        end = series.at_ns - lag
        inside = (end - period >= activity.start_ns) & (end <= activity.end_ns)
        if inside.sum() < LEAST_READINGS:
            continue
        told = (np.interp(end, edges, summed) - np.interp(end - period, edges, summed))[inside] / period
        seen = series.value[inside]
        if told.std() > 0.02 and seen.std() > 1e-3 * max(abs(float(seen.mean())), 1e-9):
            best = max(best, float(np.corrcoef(told, seen)[0, 1]))
    return best
