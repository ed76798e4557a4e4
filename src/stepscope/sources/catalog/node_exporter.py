"""node-exporter: the host. Counters become rates over the interval between two scrapes, told at its end.

Processor time is counted by core and mode: a ratio is the mode's share of all time that passed, so a scrape
that came late tells no lie. Disks stacked on others (device mapper, RAID, partitions) and interfaces that
carry what others carry (bonds, bridges, virtual ones) would count twice: they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.model.sample import F64, Owner, Telemetry, TimeKind
from stepscope.sources.exporter import exact_times, last_ns, rate, same_times, scrape_interval_ns
from stepscope.sources.field import Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import host, job_labels, lowered
from stepscope.sources.source import MetricSource

FORMAT = "node-exporter"
CPU = "node_cpu_seconds_total"
MODES: dict[str, tuple[str, ...]] = {
    "cpu_user_ratio": ("user", "nice"),
    "cpu_system_ratio": ("system", "irq", "softirq"),
    "cpu_iowait_ratio": ("iowait",),
    "cpu_steal_ratio": ("steal",),
}
"""Guests' time is in `user` already, its own counter is another."""

_STACKED_DISK = re.compile(
    r"(dm-|md|loop|ram|zram|sr|fd)\d+|(sd|hd|vd|xvd)[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+)p\d+"
)
_STACKED_INTERFACE = re.compile(
    r"lo|veth.*|docker.*|br-.*|virbr.*|cni.*|cali.*|flannel.*|cilium.*|lxc.*|bond\d*|team\d*|tun.*|tap.*|.*\.\d+"
)
_NO_FILE_SYSTEM = re.compile(
    r"tmpfs|devtmpfs|overlay|squashfs|proc|sysfs|cgroup2?|nsfs|ramfs|rootfs|autofs|fuse\.lxcfs"
)


def _every(metric: Metric) -> bool:
    return True


def _is_disk(metric: Metric) -> bool:
    return not _STACKED_DISK.fullmatch(metric.labels.get("device", ""))


def _is_interface(metric: Metric) -> bool:
    return not _STACKED_INTERFACE.fullmatch(metric.labels.get("device", ""))


@dataclass(frozen=True, slots=True)
class Rate:
    """A counter whose rate is a signal: summed over the series that count, or the largest of them."""

    signal: str
    counts: Callable[[Metric], bool] = field(default=_every)
    is_largest: bool = False


RATES: dict[str, Rate] = {
    "node_vmstat_pgmajfault": Rate("major_page_faults_per_second"),
    "node_disk_read_bytes_total": Rate("disk_read_bytes_per_second", _is_disk),
    "node_disk_written_bytes_total": Rate("disk_write_bytes_per_second", _is_disk),
    "node_disk_reads_completed_total": Rate("disk_read_operations_per_second", _is_disk),
    "node_disk_writes_completed_total": Rate("disk_write_operations_per_second", _is_disk),
    "node_disk_io_time_seconds_total": Rate("disk_busy_ratio", _is_disk, is_largest=True),
    "node_network_receive_bytes_total": Rate("network_rx_bytes_per_second", _is_interface),
    "node_network_transmit_bytes_total": Rate("network_tx_bytes_per_second", _is_interface),
    "node_infiniband_port_data_received_bytes_total": Rate("rdma_rx_bytes_per_second"),
    "node_infiniband_port_data_transmitted_bytes_total": Rate("rdma_tx_bytes_per_second"),
}
"""InfiniBand's bytes are bytes: the exporter multiplies the port's words by four."""
RDMA_ERRORS = (
    "node_infiniband_port_errors_received_total",
    "node_infiniband_symbol_error_total",
    "node_infiniband_link_error_recovery_total",
    "node_infiniband_link_downed_total",
    "node_infiniband_port_constraint_errors_received_total",
    "node_infiniband_port_constraint_errors_transmitted_total",
)
GAUGES: dict[str, Field] = {
    "node_procs_running": Field("cpu_run_queue"),
    "node_load1": Field("cpu_run_queue", rank=1),
    "node_memory_MemAvailable_bytes": Field("memory_available_bytes"),
    "node_memory_MemTotal_bytes": Field("memory_present_bytes"),
}
FILE_SYSTEMS: dict[str, Field] = {
    "node_filesystem_avail_bytes": Field("filesystem_available_bytes"),
    "node_filesystem_size_bytes": Field("filesystem_size_bytes"),
}

_NAMES = frozenset((CPU, *RATES, *RDMA_ERRORS, *GAUGES, *FILE_SYSTEMS))


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    """Rates need times and two scrapes: without either, gauges are all that is told."""
    gathering = Gathering(FORMAT)
    gathering.num_samples = sum(map(len, metrics))
    hosts: dict[str | None, dict[str, list[Metric]]] = {}
    for metric in metrics:
        if len(metric):
            of_host = hosts.setdefault(host(lowered(metric.labels)), {})
            of_host.setdefault(metric.name, []).append(metric)
    for host_name, named in hosts.items():
        owner = Owner(kind="host", host=host_name)
        _gauges(gathering, owner, named)
        if time != "none":
            _processors(gathering, owner, named.get(CPU, ()))
            _rates(gathering, owner, named)
        _errors(gathering, owner, named)
    return gathering.telemetry(name, time, window_ns=scrape_interval_ns(metrics), end_ns=last_ns(metrics))


def _gauges(gathering: Gathering, owner: Owner, named: dict[str, list[Metric]]) -> None:
    for name, field_ in GAUGES.items():
        for metric in named.get(name, ()):
            gathering.add(owner, field_, name, metric.at_ns, metric.value)
            gathering.label(owner, job_labels(metric.labels))
    for name, field_ in FILE_SYSTEMS.items():
        for metric in named.get(name, ()):
            if not _NO_FILE_SYSTEM.fullmatch(metric.labels.get("fstype", "")):
                disk = Owner(kind="disk", host=owner.host, name=metric.labels.get("mountpoint") or None)
                gathering.add(disk, field_, name, metric.at_ns, metric.value)
    cores = {metric.labels.get("cpu") for metric in named.get(CPU, ())} - {None}
    if cores:
        at_ns = np.unique(np.concatenate([metric.at_ns for metric in named[CPU]]))
        gathering.add(owner, Field("cpu_cores"), CPU, at_ns, np.full(len(at_ns), float(len(cores))))


def _processors(gathering: Gathering, owner: Owner, metrics: Sequence[Metric]) -> None:
    """Δ of a mode over all cores / Δ of all modes over all cores; an interval in which a core's counters fell
    (it was taken away, or the host began anew) says nothing."""
    if not metrics:
        return
    metrics = _distinct(metrics, "cpu", "mode")
    columns = [exact_times(metric) for metric in metrics]
    common, values = same_times(columns)
    if len(common) < 2:
        return
    kept = np.ones(len(common) - 1, np.bool_)
    total = np.zeros(len(common) - 1)
    deltas: dict[str, F64] = {}
    for metric, value in zip(metrics, values, strict=True):
        delta = np.diff(value)
        # iowait alone may fall a little: the kernel does not keep it exactly.
        kept &= (delta >= 0) | (metric.labels.get("mode") == "iowait")
        delta = np.maximum(delta, 0.0)
        mode = metric.labels.get("mode", "")
        deltas[mode] = deltas.get(mode, np.zeros(len(delta))) + delta
        total += delta
    width = np.diff(common)
    kept &= (total > 0) & (width <= 5 * np.median(width))
    for signal, modes in MODES.items():
        there = [deltas[mode] for mode in modes if mode in deltas]
        if there and kept.any():
            share = sum(there, np.zeros(len(total)))[kept] / total[kept]
            gathering.add(owner, Field(signal), CPU, common[1:][kept], share)


def _distinct(metrics: Sequence[Metric], *names: str) -> list[Metric]:
    """The first series of each device: a host that two jobs scrape has all of them twice."""
    first: dict[tuple[str | None, ...], Metric] = {}
    for metric in metrics:
        first.setdefault(tuple(metric.labels.get(name) for name in names), metric)
    return list(first.values())


def _rates(gathering: Gathering, owner: Owner, named: dict[str, list[Metric]]) -> None:
    for name, row in RATES.items():
        parts = [
            rate(gathering, *exact_times(metric))
            for metric in _distinct(named.get(name, ()), "device", "port")
            if row.counts(metric)
        ]
        parts = [part for part in parts if len(part[0])]
        if not parts:
            continue
        at_ns = np.unique(np.concatenate([part[0] for part in parts]))
        together = np.zeros(len(at_ns))
        for times, value in parts:
            place = np.searchsorted(at_ns, times)
            if row.is_largest:
                together[place] = np.maximum(together[place], value)
            else:
                together[place] += value
        if row.is_largest:
            together = np.minimum(together, 1.0)  # the kernel counts in jiffies: a busy second may read 1.01
        gathering.add(owner, Field(row.signal), name, at_ns, together)


def _errors(gathering: Gathering, owner: Owner, named: dict[str, list[Metric]]) -> None:
    """Of each port the sum of its error counters, as a counter."""
    for name in RDMA_ERRORS:
        for metric in named.get(name, ()):
            port = f"{metric.labels.get('device', '')}:{metric.labels.get('port', '')}".strip(":")
            link = Owner(kind="link", host=owner.host, name=port or None)
            gathering.add(link, Field("rdma_error_total", part=name), name, metric.at_ns, metric.value)


SOURCE = MetricSource(
    format=FORMAT,
    title="node-exporter",
    claims=lambda name: name.startswith("node_"),
    wants=_NAMES.__contains__,
    read=read,
)
