"""One device beside its peers, its processes and the log: numbers that need more than its own counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stepscope.align.device import is_on
from stepscope.analyse.slowdown import CLOCK_BOUND
from stepscope.analyse.telemetry.check import correlation
from stepscope.analyse.telemetry.device import QUIET, busy
from stepscope.analyse.telemetry.table import Samples
from stepscope.model import report
from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.sample import Telemetry, Topology
from stepscope.model.trace import I64


def clock_numbers(numbers: Mapping[str, float], account: report.Accounting) -> dict[str, float]:
    """`clock_bound_share`: what a lower clock costs in the kernels that it bounds. The loss is that under a
    reason, where there is one, else that against the highest clock."""
    compute = account.compute
    if compute is None or account.total_ns <= 0 or account.device.kind in report.HOST_KINDS:
        return {}
    matrix = sum(int(getattr(compute, f"{kind}_ns")) for kind in CLOCK_BOUND)
    loss = numbers.get("clock_loss_share", numbers.get("clock_drop_share"))
    if loss is None:
        return {}
    return {"clock_bound_share": matrix / account.total_ns * min(loss, 1.0)}


def contention(numbers: Mapping[str, float], account: report.Accounting) -> dict[str, float]:
    """`contended_share`: whatever others on the device take, by the counters or by the kernels that take
    longer, both those that the clock bounds and those that memory does."""
    if account.total_ns <= 0 or account.device.kind in report.HOST_KINDS:
        return {}
    taken = []
    beyond = numbers.get("busy_beyond_trace")
    if beyond is not None:
        taken.append(max(beyond, 0.0))
    slower = [numbers[name] for name in ("matrix_slowdown", "other_slowdown") if name in numbers]
    if slower:
        least = min(slower)
        taken.append(account.compute_ns / account.total_ns * max(0.0, 1.0 - 1.0 / least) if least > 0 else 0)
    return {"contended_share": max(taken)} if taken else {}


def processes(
    telemetry: Sequence[Telemetry], samples: Samples, own: frozenset[int], present: float | None
) -> dict[str, float]:
    """Processes on the device that are none of the job's; empty where no source lists processes, or none of
    those listed anywhere is the job's (then its numbers are of another namespace)."""
    listed = [s for source in telemetry for s in source.series if s.owner.kind == "process" and len(s)]
    everywhere = {series.owner.pid for series in listed}
    if not listed or not own & everywhere:
        return {}
    mine = [series for series in listed if is_on(series.owner, samples.owner)]
    if not mine:
        return {}
    foreign = [series for series in mine if series.owner.pid not in own]
    found = {"num_foreign_processes": float(len({series.owner.pid for series in foreign}))}
    memory = sum(float(s.value.max()) for s in foreign if s.signal == "process_memory_bytes")
    if present:
        found["foreign_memory_share"] = memory / present
    shares = [float(s.value.mean()) for s in foreign if s.signal == "process_sm_ratio"]
    if shares:
        found["foreign_sm_share"] = sum(shares)
    return found


def quiet(
    samples: Samples,
    steps: Intervals | None,
    checkpoints: Intervals | None,
    evaluations: Intervals | None,
    first_step_ns: int | None,
) -> dict[str, float]:
    """Of the readings in which the device is hardly busy: in what share steps went on, a checkpoint was
    written, an evaluation ran, no step had been yet. Each is absent where logs and traces say nothing of
    it."""
    value = busy(samples)
    with np.errstate(invalid="ignore"):
        rows = value < QUIET
    at = samples.middle_ns[rows]
    if not len(at):
        return {}
    found: dict[str, float] = {}
    for name, when in (
        ("quiet_while_stepping", steps),
        ("quiet_in_checkpoint", checkpoints),
        ("quiet_in_eval", evaluations),
    ):
        if when is not None:
            place = np.searchsorted(when.start, at, side="right") - 1
            inside = (place >= 0) & (at < when.end[np.maximum(place, 0)]) if len(when) else np.zeros(len(at))
            found[name] = float(np.mean(inside))
    if first_step_ns is not None:
        found["quiet_before_steps"] = float((at < first_step_ns).mean())
    return found


def silence(
    last_step_ns: int | None,
    end_ns: int | None,
    checkpoints: Intervals | None,
    evaluations: Intervals | None,
) -> dict[str, float]:
    """`silent_in_checkpoint` and `silent_in_eval`: of the time since the last step, what lies in one. Each is
    absent where logs say nothing of it."""
    if last_step_ns is None or end_ns is None or end_ns <= last_step_ns:
        return {}
    start, end = np.array([last_step_ns]), np.array([end_ns])
    return {
        name: float(overlap_ns(start, end, when)[0]) / (end_ns - last_step_ns)
        for name, when in (("silent_in_checkpoint", checkpoints), ("silent_in_eval", evaluations))
        if when is not None
    }


LEAST_STILL = 3
"""Readings since the last step, and as many before it, without which power and use tell nothing of a stop."""


def standstill(samples: Samples, first_step_ns: int | None, last_step_ns: int | None) -> dict[str, float]:
    """`standstill_busy_mean` and `standstill_power_ratio`: how the device goes on since the last step. A
    kernel that waits for a peer keeps it busy at a fraction of the power that steps took."""
    if first_step_ns is None or last_step_ns is None:
        return {}
    at, half = samples.middle_ns, (samples.window_ns or samples.period_ns) // 2
    since = at - half >= last_step_ns
    during = (at + half <= last_step_ns) & (at - half >= first_step_ns)
    found: dict[str, float] = {}
    value = busy(samples)[since]
    value = value[~np.isnan(value)]
    if len(value) >= LEAST_STILL:
        found["standstill_busy_mean"] = float(value.mean())
    power = samples.column("power_watts")
    now, before = (power[rows & ~np.isnan(power)] for rows in (since, during))
    if len(now) >= LEAST_STILL and len(before) >= LEAST_STILL and before.mean() > 0:
        found["standstill_power_ratio"] = float(now.mean() / before.mean())
    return found


def below_peers(busy_means: Mapping[int, float]) -> dict[int, dict[str, float]]:
    """Place -> `busy_below_peers`: the median of the others less its own; empty of fewer than two devices."""
    found = {}
    for place, own in busy_means.items():
        others = [value for at, value in busy_means.items() if at != place]
        if others:
            found[place] = {"busy_below_peers": float(np.median(others)) - own}
    return found


def faults_with_loader(host: Samples, waits_at: Samples, waits: np.ndarray) -> dict[str, float]:
    """Correlation of the host's major faults with a device's waiting for input, reading by reading."""
    faults = host.column("major_page_faults_per_second")
    if np.isnan(faults).all() or np.isnan(waits).all():
        return {}
    place = np.clip(np.searchsorted(host.at_ns, waits_at.at_ns), 0, len(host) - 1)
    near = np.abs(host.at_ns[place] - waits_at.at_ns) <= max(host.period_ns, 1_000_000_000)
    value = correlation(np.where(near, faults[place], np.nan), waits)
    return {} if value is None else {"major_faults_with_loader": value}


def way(numbers: Mapping[str, float], link_bytes_per_second: float | None) -> dict[str, float]:
    """`wrong_way`: 1 where NCCL says that it takes another way than the devices have; absent without its log.

    Shared memory between devices that no link joins is the best way there is, and so are sockets between
    hosts that have no faster port.
    """
    signs: list[bool] = []
    has_link = bool(link_bytes_per_second)
    if "nccl_socket_share" in numbers:
        within = numbers.get("nccl_nodes", 1.0) <= 1 and has_link
        has_port = numbers.get("nccl_fast_ports", 0.0) > 0 or "host_rdma_bytes_per_second" in numbers
        signs.append(numbers["nccl_socket_share"] > 0 and (within or has_port))
    for name in ("nccl_p2p_disabled", "nccl_host_memory_share"):
        if name in numbers and has_link:
            signs.append(numbers[name] > 0)
    return {"wrong_way": 1.0 if any(signs) else 0.0} if signs else {}


WROTE_BYTES_PER_SECOND = 10e6
"""A host that writes less, writes its logs."""
WROTE_TIMES = 3.0


def written_in(host: Samples, start_ns: I64, end_ns: I64) -> dict[str, float]:
    """`disk_written_share`: of these (slow) steps, those in which the host wrote to disk: a reading of the
    step with 10 MB/s or more, and three times what it usually writes."""
    column = host.column("disk_write_bytes_per_second")
    if np.isnan(column).all() or not len(start_ns):
        return {}
    least = max(WROTE_BYTES_PER_SECOND, WROTE_TIMES * float(np.nanmedian(column)))
    with np.errstate(invalid="ignore"):
        at = host.middle_ns[column >= least]
    half = host.window_ns // 2 or host.period_ns // 2
    first = np.searchsorted(at, start_ns - half)
    last = np.searchsorted(at, end_ns + half)
    return {"disk_written_share": float((last > first).mean())}


def across_sockets(topology: Topology) -> dict[str, float]:
    """`numa_distance_share`: of the pairs of devices, those that meet across sockets (`SYS`) or only in the
    host bridges of one (`NODE`)."""
    devices = [name for name in topology.names if name.upper().startswith("GPU")]
    pairs = [
        topology.links[(a, b)]
        for number, a in enumerate(devices)
        for b in devices[number + 1 :]
        if (a, b) in topology.links
    ]
    if not pairs:
        return {}
    return {"numa_distance_share": sum(link in ("SYS", "NODE") for link in pairs) / len(pairs)}
