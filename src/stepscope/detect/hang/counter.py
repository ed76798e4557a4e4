"""What counters say of ranks that are silent: whether the device works, spins or rests. Absent counters say
nothing: a value that is not there is not zero."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from stepscope.model.batch import BatchOwner, Samples

BUSY, POWER, WRITTEN = "compute_busy_ratio", "power_watts", "disk_write_bytes_per_second"
WANTED = frozenset({BUSY, POWER, WRITTEN})
RECENT_NS = 15_000_000_000
"""A reading that is older says nothing of now."""
LEAST_READINGS = 3
BUSY_LEAST, SPINS_LEAST = 0.5, 0.9
POWER_SHARE = 0.60
"""Of the power that steps took: a kernel that waits for a peer takes less, work hardly does."""
WROTE_BYTES_PER_SECOND = 10e6
"""A host that writes less, writes its logs."""
Who = tuple[str | None, str | None, int | None]
"""(job, run, rank)"""
_Reading = tuple[int, float]


@dataclass(slots=True)
class Device:
    """One rank's device, as the agent's labels join them: the last readings, and its power while steps went
    on."""

    name: str
    busy: deque[_Reading] = field(default_factory=lambda: deque(maxlen=64))
    power: deque[_Reading] = field(default_factory=lambda: deque(maxlen=64))
    at_work: deque[float] = field(default_factory=lambda: deque(maxlen=128))

    def since(self, since_ns: int, now_ns: int) -> tuple[float, float] | None:
        """(mean of busy, power as a share of that of steps) of the recent readings since then; `None` where
        there are too few of either."""
        first = max(since_ns, now_ns - RECENT_NS)
        busy = [value for at, value in self.busy if at > first]
        power = [value for at, value in self.power if at > first]
        if min(len(busy), len(power), len(self.at_work)) < LEAST_READINGS:
            return None
        usual = median(self.at_work)
        return (sum(busy) / len(busy), sum(power) / len(power) / usual) if usual > 0 else None


@dataclass(slots=True)
class Counters:
    """The counters of every rank's device and of every host."""

    devices: dict[Who, Device] = field(default_factory=dict)
    written: dict[str, deque[_Reading]] = field(default_factory=dict)

    def take(self, batch: Samples, is_stepping: Callable[[Who], bool]) -> None:
        """Readings; `is_stepping`: whether a rank's steps go on: then its power is that of work."""
        for each in batch.series:
            if each.signal not in WANTED or not each.at_ns:
                continue
            rows = list(zip(each.at_ns, each.value, strict=False))
            if each.signal == WRITTEN:
                self.written.setdefault(batch.host, deque(maxlen=64)).extend(rows)
                continue
            who = _who(each.labels)
            if who is None or each.owner.kind != "device":
                continue
            device = self.devices.get(who)
            if device is None:
                device = self.devices[who] = Device(_device(each.owner, batch.host))
            if each.signal == BUSY:
                device.busy.extend(rows)
            else:
                device.power.extend(rows)
                if is_stepping(who):
                    device.at_work.extend(value for _, value in rows)

    def works(self, who: Who, since_ns: int, now_ns: int) -> bool | None:
        """Whether its device computes: busy, at about the power of steps. `None`: nobody knows."""
        seen = self._since(who, since_ns, now_ns)
        return None if seen is None else seen[0] >= BUSY_LEAST and seen[1] >= POWER_SHARE

    def spins(self, who: Who, since_ns: int, now_ns: int) -> float | None:
        """The share of the usual power at which its device is busy all the time without working; `None` where
        it is not so, or nobody knows."""
        seen = self._since(who, since_ns, now_ns)
        return seen[1] if seen is not None and seen[0] >= SPINS_LEAST and seen[1] < POWER_SHARE else None

    def writes(self, host: str, since_ns: int, now_ns: int) -> bool | None:
        """Whether the host writes to a disk; `None`: nobody knows."""
        first = max(since_ns, now_ns - RECENT_NS)
        rows = [value for at, value in self.written.get(host, ()) if at > first]
        return max(rows) >= WROTE_BYTES_PER_SECOND if rows else None

    def _since(self, who: Who, since_ns: int, now_ns: int) -> tuple[float, float] | None:
        device = self.devices.get(who)
        return None if device is None else device.since(since_ns, now_ns)


def _who(labels: dict[str, str]) -> Who | None:
    rank = labels.get("rank")
    if rank is None or not rank.isdecimal():
        return None
    return labels.get("job"), labels.get("run"), int(rank)


def _device(owner: BatchOwner, host: str) -> str:
    """As in `model.alarm.About.devices`."""
    if owner.uuid:
        return f"{owner.uuid}/{owner.mig}" if owner.mig else owner.uuid
    return f"{owner.host or host}:{owner.index}"
