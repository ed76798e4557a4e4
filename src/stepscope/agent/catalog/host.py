"""The host: processors, memory, disks, network, InfiniBand, pressure; and of each job its processes, its
quota and where its data lies.

All of it from `/proc` and `/sys`. Counters become rates over the time between two looks, told at its end: the
first look gives gauges alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from stepscope.agent import cgroup, host, process, storage
from stepscope.agent.context import Context
from stepscope.agent.job import LiveRank
from stepscope.agent.meter import Meter
from stepscope.agent.possible import is_possible
from stepscope.agent.source import Kind, NotHere, Reading, Sample, Source
from stepscope.model.sample import Owner

MOUNTS_NS = 30_000_000_000
"""How often a job's open files are looked at."""
MOST_PROCESSES = 64
"""Of one rank whose files are looked at."""


class HostSource:
    """One host and the jobs on it."""

    name = "host"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._proc, self._sys = f"{context.root}/proc", f"{context.root}/sys"
        self._owner = Owner(kind="host", host=context.host)
        self._meter = Meter()
        self._before_mono_ns: int | None = None
        self._mounts: dict[str, tuple[int, list[storage.Mount]]] = {}
        self._now = 0

    def read(self) -> Sequence[Reading]:
        clock = self._context.clock
        now = self._now = clock.mono_ns()
        before, self._before_mono_ns = self._before_mono_ns, now
        window_ns = now - before if before is not None else None
        gauges = Reading(clock.real_ns(), lag_ns=0)
        rates = Reading(gauges.at_ns, window_ns=window_ns, lag_ns=0)
        for signal, value, is_rate, owner, labels in self._all():
            if is_possible(signal, value):
                kept = rates if is_rate else gauges
                kept.samples.append(Sample(owner or self._owner, signal, value, labels))
        self._meter.forget_unseen()
        if not gauges.samples:
            raise NotHere(f"{self._proc} cannot be read")
        return [gauges, rates]

    def close(self) -> None:
        """Nothing is held."""

    def _all(self) -> Iterator[_Found]:
        disks = host.disks(self._text("diskstats"))
        yield from self._processors()
        yield from self._memory()
        yield from self._disks(disks)
        yield from self._network()
        yield from self._ports()
        yield from self._pressure()
        ranks = self._context.jobs.living()
        known: dict[str, storage.Mount] = {}
        throttled: list[tuple[float, float | None]] = []
        for rank in ranks:
            yield from self._rank(rank, throttled)
            known.update((each.point, each) for each in self._mounts_of(rank))
        self._mounts = {
            ring: each for ring, each in self._mounts.items() if any(r.ring == ring for r in ranks)
        }
        if throttled:
            quota, share = max(throttled, key=lambda each: (each[1] is not None, each[1] or 0.0))
            yield "cgroup_cpu_quota_cores", quota, False, None, ()
            if share is not None:
                yield "cgroup_throttled_ratio", share, True, None, ()
        for mount in known.values():
            yield from self._mount(mount, disks)

    def _processors(self) -> Iterator[_Found]:
        said = host.processors(self._text("stat"))
        if said is None:
            return
        yield "cpu_cores", float(said.num_cores), False, None, ()
        if said.num_running is not None:  # our own look is one of them
            yield "cpu_run_queue", float(max(said.num_running - 1, 0)), False, None, ()
        deltas = {mode: self._meter.delta(("cpu", mode), n, self._now) for mode, n in said.ticks.items()}
        # iowait alone may fall a little: the kernel does not keep it exactly
        if any(each is None for mode, each in deltas.items() if mode != "iowait"):
            return
        passed = {mode: each[0] if each is not None else 0.0 for mode, each in deltas.items()}
        total = sum(passed.values())
        if total > 0:
            for signal, modes in host.CPU_RATIOS.items():
                yield signal, sum(passed.get(mode, 0.0) for mode in modes) / total, True, None, ()

    def _memory(self) -> Iterator[_Found]:
        for signal, value in host.memory(self._text("meminfo")).items():
            yield signal, value, False, None, ()
        faults = host.major_faults(self._text("vmstat"))
        if faults is not None:
            yield from self._rate("major_page_faults_per_second", "faults", faults)

    def _disks(self, disks: dict[str, host.Disk]) -> Iterator[_Found]:
        names = {
            "disk_read_operations_per_second": 0, "disk_read_bytes_per_second": 1,
            "disk_write_operations_per_second": 2, "disk_write_bytes_per_second": 3,
        }  # fmt: skip
        sums: dict[str, float] = {}
        busiest: float | None = None
        for disk, said in disks.items():
            for signal, place in names.items():
                rate = self._meter.rate((disk, signal), said[place], self._now)
                if rate is not None:
                    sums[signal] = sums.get(signal, 0.0) + rate
            busy = self._meter.rate((disk, "busy"), said.busy_ns, self._now)
            if busy is not None:  # the kernel counts in jiffies: a busy second may read 1.01
                busiest = max(busiest or 0.0, min(busy / 1e9, 1.0))
        for signal, value in sums.items():
            yield signal, value, True, None, ()
        if busiest is not None:
            yield "disk_busy_ratio", busiest, True, None, ()

    def _network(self) -> Iterator[_Found]:
        said = host.interfaces(self._text("net/dev"))
        for signal, place in (("network_rx_bytes_per_second", 0), ("network_tx_bytes_per_second", 1)):
            yield from self._sum(signal, {name: each[place] for name, each in said.items()})

    def _ports(self) -> Iterator[_Found]:
        """InfiniBand and RoCE ports, by sysfs."""
        base = f"{self._sys}/class/infiniband"
        sums: dict[str, dict[str, float]] = {}
        for device in _names(base):
            for port in _names(f"{base}/{device}/ports"):
                place, name = f"{base}/{device}/ports/{port}/counters", f"{device}:{port}"
                for counter, signal in host.PORT_BYTES.items():
                    number = cgroup.read(f"{place}/{counter}").strip()
                    if number.isdigit():
                        sums.setdefault(signal, {})[name] = float(int(number) * host.WORD_BYTES)
                errors = [cgroup.read(f"{place}/{each}").strip() for each in host.PORT_ERRORS]
                counted = [int(each) for each in errors if each.isdigit()]
                if counted:
                    link = Owner(kind="link", host=self._context.host, name=name)
                    yield "rdma_error_total", float(sum(counted)), False, link, ()
        for signal, values in sums.items():
            yield from self._sum(signal, values)

    def _pressure(self) -> Iterator[_Found]:
        for of in ("cpu", "io", "memory"):
            waited_ns = host.pressure_ns(self._text(f"pressure/{of}"))
            if waited_ns is not None:
                rate = self._meter.rate(("pressure", of), waited_ns, self._now)
                if rate is not None:
                    yield f"{of}_pressure_ratio", min(rate / 1e9, 1.0), True, None, ()

    def _rank(self, rank: LiveRank, throttled: list[tuple[float, float | None]]) -> Iterator[_Found]:
        """The rank's processes one by one, and the quota that holds them."""
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        for pid in sorted(rank.pids)[:MOST_PROCESSES]:
            said = process.usage(self._proc, pid, page)
            if said is None:
                continue
            owner = Owner(kind="process", host=self._context.host, pid=pid)
            yield "process_resident_bytes", float(said.resident_bytes), False, owner, ()
            yield "process_threads", float(said.num_threads), False, owner, ()
            rate = self._meter.rate((pid, "cpu"), said.cpu_ticks, self._now)
            if rate is not None:
                yield "process_cpu_cores", rate / ticks, True, owner, ()
            rate = self._meter.rate((pid, "faults"), said.major_faults, self._now)
            if rate is not None:
                yield "process_major_faults_per_second", rate, True, owner, ()
        if rank.pid is None:
            return
        text = cgroup.read(f"{self._proc}/{rank.pid}/cgroup")
        quota, periods = cgroup.cpu(text, f"{self._sys}/fs/cgroup")
        if quota is None:
            return
        share = None
        if periods is not None:
            passed = self._meter.delta((rank.pid, "periods"), periods[0], self._now)
            stopped = self._meter.delta((rank.pid, "throttled"), periods[1], self._now)
            if passed is not None and stopped is not None and passed[0] > 0:
                share = min(stopped[0] / passed[0], 1.0)
        throttled.append((quota, share))

    def _mounts_of(self, rank: LiveRank) -> list[storage.Mount]:
        """Where the files lie that the rank has open, looked at now and then."""
        known = self._mounts.get(rank.ring)
        if known is not None and self._now - known[0] < MOUNTS_NS:
            return known[1]
        found: set[storage.Mount] = set()
        for pid in sorted(rank.pids)[:MOST_PROCESSES]:
            there = storage.mounts(cgroup.read(f"{self._proc}/{pid}/mountinfo"))
            found |= storage.mounts_of(process.open_files(self._proc, pid), there)
        placed = [storage.placed(each, self._sys) for each in sorted(found, key=lambda each: each.point)]
        self._mounts[rank.ring] = (self._now, placed)
        return placed

    def _mount(self, mount: storage.Mount, disks: dict[str, host.Disk]) -> Iterator[_Found]:
        """A mount on which a job's files lie, and the disk below it."""
        owner = Owner(kind="disk", host=self._context.host, name=mount.point)
        said = {"file_system": mount.file_system, "device": mount.device, "medium": mount.medium}
        labels = tuple(sorted((name, value) for name, value in said.items() if value))
        if mount.medium is not None:
            yield "storage_medium", float(storage.MEDIA[mount.medium]), False, owner, labels
        disk = disks.get(mount.device or "")
        if disk is None:
            return
        read = self._meter.rate((mount.point, "read"), disk.read_bytes, self._now)
        busy = self._meter.rate((mount.point, "busy"), disk.busy_ns, self._now)
        if read is not None:
            yield "disk_read_bytes_per_second", read, True, owner, labels
        if busy is not None:
            yield "disk_busy_ratio", min(busy / 1e9, 1.0), True, owner, labels

    def _rate(self, signal: str, key: str, value: float) -> Iterator[_Found]:
        rate = self._meter.rate(key, value, self._now)
        if rate is not None:
            yield signal, rate, True, None, ()

    def _sum(self, signal: str, values: dict[str, float]) -> Iterator[_Found]:
        rates = [self._meter.rate((signal, name), value, self._now) for name, value in values.items()]
        known = [each for each in rates if each is not None]
        if known:
            yield signal, sum(known), True, None, ()

    def _text(self, name: str) -> str:
        return cgroup.read(f"{self._proc}/{name}")


_Found = tuple[str, float, bool, Owner | None, tuple[tuple[str, str], ...]]
"""(signal, value, whether over the window, whose or None for the host, labels)"""


def _names(place: str) -> list[str]:
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


def _make(context: Context) -> Sequence[Source]:
    return [HostSource(context)]


SOURCE = Kind(
    name="host",
    title="The host",
    gives="CPU, memory, page faults, disks, network, InfiniBand and pressure; of each job its processes, CPU "
    "quota and the mounts of its open files",
    make=_make,
)
