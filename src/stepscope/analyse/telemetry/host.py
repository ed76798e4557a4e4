"""Numbers of one host, from its counters alone."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.telemetry.table import Rows, Samples

_MEANS = {
    "host_iowait_share": "cpu_iowait_ratio",
    "host_major_faults_per_second": "major_page_faults_per_second",
    "host_disk_busy_share": "disk_busy_ratio",
    "host_disk_read_bytes_per_second": "disk_read_bytes_per_second",
    "host_disk_written_bytes_per_second": "disk_write_bytes_per_second",
    "host_network_bytes_per_second": "network_tx_bytes_per_second",
    "host_rdma_bytes_per_second": "rdma_tx_bytes_per_second",
    "host_cgroup_throttled_share": "cgroup_throttled_ratio",
}


def numbers(samples: Samples, rows: Rows) -> dict[str, float]:
    """Everything that the readings `rows` of one host say, by feature's name."""
    chosen = samples.take(rows)
    found: dict[str, float] = {}
    for name, signal in _MEANS.items():
        column = chosen.column(signal)
        known = column[~np.isnan(column)]
        if len(known):
            found[name] = float(known.mean())
    user, system = chosen.column("cpu_user_ratio"), chosen.column("cpu_system_ratio")
    both = ~np.isnan(user) & ~np.isnan(system)
    if both.any():
        found["host_cpu_busy"] = float((user + system)[both].mean())
    queue, cores = chosen.column("cpu_run_queue"), chosen.column("cpu_cores")
    if not np.isnan(queue).all() and not np.isnan(cores).all():
        found["host_run_queue_per_core"] = float(np.nanmean(queue) / np.nanmedian(cores))
    present, available = chosen.column("memory_present_bytes"), chosen.column("memory_available_bytes")
    if not np.isnan(present).all() and not np.isnan(available).all():
        found["host_memory_used_share"] = 1.0 - float(np.nanmin(available) / np.nanmedian(present))
    return {name: value for name, value in found.items() if np.isfinite(value)}
