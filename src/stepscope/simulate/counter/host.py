"""A host on the grid: processor time, page faults, disks, network, memory, from what its ranks do on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.simulate.config import START_NS, Recording
from stepscope.simulate.counter.meter import BIN_NS, F64, share_across
from stepscope.simulate.counter.place import ranks_of
from stepscope.simulate.counter.timeline import LOADED_NS, STARTED_NS, Timeline

CORES_PER_DEVICE, LEAST_CORES = 12, 16
MEMORY_PER_DEVICE = 128 << 30
OWN_CORES = 1.1
"""That a rank keeps busy: Python, or a wait that spins."""
SYSTEM_CORES = 0.15
"""In the kernel, for each rank."""
WORKER_CORES = 0.06
"""Of a loader's worker whose batches lie in memory, on average."""
READING_CORES = 0.12
"""Of a worker that waits for a disk."""
DISK_RATE, DISK_OF_RANK = 3.2e9, 1.1e9
"""Bytes per second of the host's disk, and of them what one rank's workers ask for when pages are not
there."""
FAULT_BYTES = 64 << 10
"""Read around a major fault: the kernel reads ahead of it."""
WRITE_RATE = 2.4e9
SOCKET_BYTES_PER_CORE = 1.5e9
"""What the kernel moves over a socket with one core."""
CHECKPOINT_BYTES = 14
"""Of each parameter: weights, their copy in single precision and both moments."""
LOAD_RATE = 0.9e9
"""Bytes per second from disk while the model is loaded."""


@dataclass(frozen=True, slots=True)
class HostState:
    """One host, an array a quantity, on the timeline's grid: cores in user, system and iowait; per second
    the rest, but for `running`, `blocked` (threads), `worker_cores` and `cached_bytes`."""

    node: int
    num_cores: int
    memory_bytes: int
    num_ranks: int
    num_workers: int
    """Loader processes of all its ranks."""
    of: dict[str, F64]


QUANTITIES = (
    "user", "system", "iowait", "major_faults", "read_bytes", "write_bytes", "running", "blocked",
    "worker_cores", "context_switches", "lo_bytes", "ethernet_tx", "ethernet_rx", "rdma_tx", "rdma_rx",
    "worker_faults",
)  # fmt: skip


def host_of(timeline: Timeline, node: int, recording: Recording) -> HostState:
    """A node of the run."""
    config = timeline.cluster.config
    ranks = ranks_of(config, node)
    num_cores = max(CORES_PER_DEVICE * len(ranks), LEAST_CORES)
    of = {name: np.zeros(timeline.num_bins) for name in QUANTITIES}
    for rank in ranks:
        _add_rank(of, timeline, rank, recording)
    draw = timeline.draw(25, node)
    noise = 1 + 0.03 * draw.standard_normal(timeline.num_bins)
    # Others who want the cores take what is left of them.
    queue = np.max([timeline.planned(rank, "run_queue", 0.0) for rank in ranks], axis=0)
    left = np.maximum(num_cores * 0.985 - of["user"] - of["system"], 0.0)
    of["user"] += np.where(queue > 0, left, 0.0)
    of["running"] += queue * num_cores
    of["context_switches"] += 2_500 * len(ranks) + 1_800 * queue * num_cores
    of["user"] = np.clip(of["user"] * noise + 0.2, 0.0, num_cores * 0.985)
    of["system"] = np.clip(of["system"] * noise + 0.1, 0.0, num_cores - of["user"])
    # An idle core with a request outstanding counts as iowait; a core that has other work does not.
    of["iowait"] = np.clip(of["iowait"], 0.0, num_cores - of["user"] - of["system"])
    busy = np.minimum(1.0, DISK_RATE / np.maximum(of["read_bytes"], 1.0))
    for name in ("read_bytes", "major_faults", "worker_faults"):
        of[name] = of[name] * busy
    of["running"] = np.maximum(np.rint(of["running"] + of["user"] + of["system"]), 1.0)
    of["disk_busy"] = np.clip(of["read_bytes"] / DISK_RATE + of["write_bytes"] / WRITE_RATE, 0.0, 1.0)
    of["write_bytes"] += 60_000.0
    of["ethernet_tx"] += 40_000.0
    of["ethernet_rx"] += 60_000.0
    return HostState(
        node, num_cores, MEMORY_PER_DEVICE * len(ranks), len(ranks), recording.workers * len(ranks), of
    )


def _add_rank(of: dict[str, F64], timeline: Timeline, rank: int, recording: Recording) -> None:
    cluster, at = timeline.cluster, timeline.middle_ns
    is_on = ((at >= START_NS - STARTED_NS) & (at < timeline.stop_ns)).astype(np.float64)
    of["user"] += OWN_CORES * is_on
    of["system"] += SYSTEM_CORES * is_on
    is_loading = (at >= START_NS - STARTED_NS) & (at < START_NS - LOADED_NS)
    of["read_bytes"] += np.where(is_loading, LOAD_RATE, 0.0)
    of["iowait"] += np.where(is_loading, 0.3, 0.0)
    is_running = ((at >= START_NS) & (at < timeline.end_ns)).astype(np.float64)
    full = 1.0 if recording.worker_busy is None else recording.worker_busy
    each = np.where(timeline.planned(rank, "is_decoding", 0.0) > 0, full, WORKER_CORES) * is_running
    if recording.workers:
        of["worker_cores"] += each * recording.workers
    of["user"] += each * recording.workers
    for kind, start, end, step in cluster.happenings[rank]:
        first, inside = timeline.covered(start, end)
        where = slice(first, first + len(inside))
        if kind == "load" and timeline.plan_at(rank, step).is_reading:
            _add_reading(of, where, inside, recording)
        elif kind == "save_checkpoint" and rank == 0:
            work = cluster.config.work(cluster.config.sized[0])
            rate = min(CHECKPOINT_BYTES * work.num_parameters() / max((end - start) / 1e9, 1e-3), WRITE_RATE)
            of["write_bytes"][where] += rate * inside
            of["system"][where] += 1.2 * inside
            of["iowait"][where] += 0.5 * inside
        elif kind == "allocate":
            of["system"][where] += 0.6 * inside
    activity = timeline.activity(rank).of
    across = share_across(tuple(range(cluster.config.ranks)))
    per_second = 1e9 / BIN_NS
    for way in ("tx", "rx"):
        socket = activity[f"socket_{way}"] * per_second
        of[f"ethernet_{way}"] += socket * across
        of["lo_bytes"] += socket * (1 - across) / 2
        of[f"rdma_{way}"] += activity[f"rdma_{way}"] * per_second
        of["system"] += socket / SOCKET_BYTES_PER_CORE


def _add_reading(of: dict[str, F64], where: slice, inside: F64, recording: Recording) -> None:
    """The loader's workers wait for pages that must come from disk."""
    workers = max(recording.workers, 1)
    own = READING_CORES if recording.worker_busy is None else recording.worker_busy
    of["user"][where] += (own - WORKER_CORES) * workers * inside
    of["worker_cores"][where] += (own - WORKER_CORES) * workers * inside
    of["iowait"][where] += 0.85 * (1 - own) * workers * inside
    of["blocked"][where] += (1 - own) * workers * inside
    of["read_bytes"][where] += DISK_OF_RANK * inside
    for name in ("major_faults", "worker_faults"):
        of[name][where] += DISK_OF_RANK / FAULT_BYTES * inside
