"""Host metrics as the node exporter prints them: counters of the kernel, read when it is scraped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.simulate.config import Recording
from stepscope.simulate.counter.host import HostState
from stepscope.simulate.counter.meter import BIN_NS, F64
from stepscope.simulate.counter.place import Place
from stepscope.simulate.counter.scrape import scraped_ns
from stepscope.simulate.counter.timeline import Timeline

MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
READ_SIZE, WRITE_SIZE = 128 << 10, 512 << 10
"""Of one request."""
LOADS_S = (60.0, 300.0, 900.0)
BIN_S = BIN_NS / 1e9
_TYPES = {
    "node_load1": "gauge", "node_load5": "gauge", "node_load15": "gauge", "node_procs_running": "gauge",
    "node_procs_blocked": "gauge", "node_time_seconds": "gauge", "node_boot_time_seconds": "gauge",
    "node_uname_info": "gauge", "namedprocess_namegroup_num_procs": "gauge",
}  # fmt: skip


def text(timeline: Timeline, host: HostState, here: list[Place], recording: Recording) -> Iterator[str]:
    """What was scraped of a host, a body at a time."""
    summed = _summed(host)
    loads = [_load(host.of["running"], seconds) for seconds in LOADS_S]
    draw = np.random.default_rng([timeline.cluster.config.seed, 26, host.node])
    uptime = float(draw.integers(200_000, 6_000_000))
    skew = round(1e6 * recording.skew_ms)
    for true_ns in scraped_ns(timeline, host.node, recording, 27):
        at = min((true_ns - timeline.start_ns) // BIN_NS, timeline.num_bins - 1)
        part = (true_ns - timeline.start_ns) / BIN_NS - at
        now = {name: _at(values, at, part) for name, values in summed.items()}
        since = uptime + (true_ns - timeline.start_ns) / 1e9
        rows = rows_of(host, now, uptime, since, at, loads, here[0].host, true_ns / 1e9)
        yield body(true_ns + skew, rows)


def body(at_ns: int | None, rows: list[tuple[str, str, str]]) -> str:
    """As text; `None` where nobody writes down when it was scraped."""
    lines = [] if at_ns is None else [f"# scraped_at_ns {at_ns}"]
    last = ""
    for name, label, value in rows:
        if name != last:
            lines.append(f"# TYPE {name} {_TYPES.get(name, 'gauge' if 'memory' in name else 'counter')}")
            last = name
        lines.append(f"{name}{{{label}}} {value}" if label else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _summed(host: HostState) -> dict[str, F64]:
    """Each rate, summed up to the end of each bin."""
    return {name: np.concatenate(([0.0], np.cumsum(values))) * BIN_S for name, values in host.of.items()}


def _at(summed: F64, at: int, part: float) -> float:
    return float(summed[at] + (summed[at + 1] - summed[at]) * part)


def _load(running: F64, seconds: float) -> F64:
    """The kernel's load average: runnable threads, damped over so many seconds."""
    keep = float(np.exp(-BIN_S / seconds))
    now, found = float(running[0]), []
    for value in running.tolist():
        now = now * keep + value * (1 - keep)
        found.append(now)
    return np.array(found)


def rows_of(
    host: HostState,
    now: dict[str, float],
    before: float,
    since: float,
    at: int,
    loads: list[F64],
    name: str,
    time_s: float,
) -> list[tuple[str, str, str]]:
    """(name, labels, value) of one scrape, those of a name together."""
    cores = host.num_cores
    # Before the recording: a host that was mostly idle.
    seconds = {"user": 0.06 * before, "system": 0.012 * before, "iowait": 0.0008 * before}
    spent = {mode: seconds[mode] + now[mode] / cores for mode in seconds}
    spent |= {"irq": 0.0, "nice": 0.0, "softirq": 0.0006 * before, "steal": 0.0}
    spent["idle"] = since - sum(spent.values())
    rows: list[tuple[str, str, str]] = [("node_boot_time_seconds", "", f"{time_s - since:.0f}")]
    rows.append(("node_context_switches_total", "", f"{9e8 + now['context_switches']:.0f}"))
    for core in range(cores):
        rows += [
            ("node_cpu_seconds_total", f'cpu="{core}",mode="{mode}"', f"{spent[mode]:.2f}") for mode in MODES
        ]
    disk = 'device="nvme0n1"'
    rows += [
        ("node_disk_io_time_seconds_total", disk, f"{0.004 * before + now['disk_busy']:.3f}"),
        ("node_disk_read_bytes_total", disk, f"{4e12 + now['read_bytes']:.0f}"),
        ("node_disk_reads_completed_total", disk, f"{3e7 + now['read_bytes'] / READ_SIZE:.0f}"),
        ("node_disk_writes_completed_total", disk, f"{2e7 + now['write_bytes'] / WRITE_SIZE:.0f}"),
        ("node_disk_written_bytes_total", disk, f"{6e12 + now['write_bytes']:.0f}"),
    ]
    for port, (tx, rx) in {"mlx5_0": (now["rdma_tx"], now["rdma_rx"])}.items():
        label = f'device="{port}",port="1"'
        rows.append(("node_infiniband_port_data_received_bytes_total", label, f"{9e12 + rx:.0f}"))
        rows.append(("node_infiniband_port_data_transmitted_bytes_total", label, f"{9e12 + tx:.0f}"))
    rows += [
        (f"node_load{int(s // 60)}", "", f"{load[at]:.2f}") for s, load in zip(LOADS_S, loads, strict=True)
    ]
    used = 18e9 + 9e9 * host.num_ranks
    rows += [
        ("node_memory_MemAvailable_bytes", "", f"{host.memory_bytes - used:.0f}"),
        ("node_memory_MemTotal_bytes", "", f"{host.memory_bytes}"),
    ]
    network = {"eth0": (now["ethernet_rx"], now["ethernet_tx"]), "lo": (now["lo_bytes"], now["lo_bytes"])}
    for way, column in (("receive", 0), ("transmit", 1)):
        rows += [
            (f"node_network_{way}_bytes_total", f'device="{device}"', f"{5e11 + both[column]:.0f}")
            for device, both in network.items()
        ]
    rows += [
        ("node_procs_blocked", "", f"{host.of['blocked'][at]:.0f}"),
        ("node_procs_running", "", f"{host.of['running'][at]:.0f}"),
        ("node_time_seconds", "", f"{time_s:.6f}"),
        (
            "node_uname_info",
            f'machine="x86_64",nodename="{name}",release="5.15.0-122-generic",sysname="Linux"',
            "1",
        ),
        ("node_vmstat_pgmajfault", "", f"{2e6 + now['major_faults']:.0f}"),
        ("node_vmstat_pgpgin", "", f"{(4e12 + now['read_bytes']) / 1024:.0f}"),
        ("node_vmstat_pgpgout", "", f"{(6e12 + now['write_bytes']) / 1024:.0f}"),
    ]
    group = 'groupname="pt_data_worker"'
    rows += [
        ("namedprocess_namegroup_cpu_seconds_total", f'{group},mode="user"', f"{now['worker_cores']:.2f}"),
        ("namedprocess_namegroup_major_page_faults_total", group, f"{now['worker_faults']:.0f}"),
        ("namedprocess_namegroup_num_procs", group, f"{host.num_workers}"),
    ]
    return rows
