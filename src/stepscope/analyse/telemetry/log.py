"""Numbers of logs: how steps went on, and what was said of errors and transports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analyse.telemetry.trend import growth
from stepscope.model.log import ABSENT_NS, Log, Nccl, Progress
from stepscope.model.sample import F64
from stepscope.model.trace import I64

_ETHERNET = ("eth", "en", "bond", "lo", "docker", "ib")
"""Names of interfaces of the host's network (IP over InfiniBand among them); RDMA ports are called after
their driver (`mlx5_0`, `rocep`, `rdmap`)."""
SOCKETS = ("Socket",)
"""Networks that move bytes through the host's TCP stack (NCCL's `NET/Socket`)."""


def step_times(progress: Progress) -> tuple[I64, F64]:
    """(steps, seconds a step), as lines state it, else by the lines' times; empty where neither tells."""
    _, steps, stated = progress.column("step_seconds")
    if len(steps):
        return steps, stated
    _, steps, rate = progress.column("steps_per_second")
    if len(steps) and (rate > 0).all():
        return steps, 1.0 / rate
    timed = progress.at_ns != ABSENT_NS
    at, number = progress.at_ns[timed], progress.step[timed]
    if len(at) < 2:
        return number[:0], np.empty(0)
    step, time = np.diff(number), np.diff(at)
    forward = (step > 0) & (time > 0)
    return number[1:][forward], time[forward] / step[forward] / 1e9


def numbers(logs: Sequence[Log], end_ns: int | None) -> dict[str, float]:
    """What the logs of a job say of all its ranks, by feature's name. `end_ns` is the end of the telemetry: a
    log that fell silent before it tells how long."""
    found: dict[str, float] = {}
    longest = max((log.progress for log in logs if log.progress is not None), key=len, default=None)
    if longest is not None and len(longest):
        _, seconds = step_times(longest)
        rise = growth(seconds)
        if rise is not None:
            found["step_growth_ratio"] = rise
        found |= _silence(logs, longest, seconds, end_ns)
    for log in logs:
        if log.nccl is not None:
            found |= _transport(log.nccl)
    failed = [e for log in logs for e in log.events if e.what == "cuda_out_of_memory"]
    told = [log for log in logs if log.format != "marks"]  # marks say nothing of errors
    if failed or any(log.progress is not None for log in told):
        found["log_out_of_memory"] = float(len(failed))
        shares = [share for e in failed if (share := _unallocated(e.numbers)) is not None]
        if shares:
            found["log_oom_unallocated_share"] = max(shares)
    if told:
        found["log_collective_timeouts"] = float(
            sum(e.what == "nccl_watchdog" for log in told for e in log.events)
        )
    if len(told) < len(logs):
        found["killed_ranks"] = float(sum(e.what == "killed" for log in logs for e in log.events))
    return found


def has_ended_in_order(logs: Sequence[Log]) -> bool:
    """Whether every rank that marks said that it ends, and none by an error."""
    marked = [log for log in logs if log.format == "marks"]
    return bool(marked) and all(
        any(e.what == "exit" and e.severity == "info" for e in log.events) for log in marked
    )


def _silence(logs: Sequence[Log], progress: Progress, seconds: F64, end_ns: int | None) -> dict[str, float]:
    """`steps_logged`, and how long after the last step the telemetry or the log itself went on."""
    found = {"steps_logged": float(int(progress.step.max()) - int(progress.step.min()) + 1)}
    timed = progress.at_ns[progress.at_ns != ABSENT_NS]
    if not len(timed):
        return found
    last = int(timed.max())
    others = [e.at_ns for log in logs for e in log.events if e.at_ns is not None]
    end = max([last, *others, *([end_ns] if end_ns is not None else [])])
    if has_ended_in_order(logs):
        end = last  # what a job does after its last step owes nobody another one
    found["seconds_without_step"] = (end - last) / 1e9
    between = np.diff(np.sort(timed))
    # Stamps of whole seconds repeat where lines come faster.
    usual = max(float(np.median(between)), float(between.mean())) / 1e9 if len(between) else 0.0
    if usual > 0:
        found["missed_log_lines"] = found["seconds_without_step"] / usual
    return found


def _transport(nccl: Nccl) -> dict[str, float]:
    found: dict[str, float] = {}
    by_socket = sum(n for kind, n in nccl.transports.items() if any(s in kind for s in SOCKETS))
    by_host = sum(n for kind, n in nccl.transports.items() if kind.startswith("SHM"))
    total = sum(nccl.transports.values())
    if total:
        found["nccl_socket_share"] = by_socket / total
        found["nccl_host_memory_share"] = by_host / total
    elif nccl.network is not None:
        found["nccl_socket_share"] = 1.0 if nccl.network in SOCKETS else 0.0
    if nccl.num_nodes is not None:
        found["nccl_nodes"] = float(nccl.num_nodes)
    if nccl.nics:
        found["nccl_fast_ports"] = float(sum(not nic.lower().startswith(_ETHERNET) for nic in nccl.nics))
    if nccl.is_p2p_disabled is not None:
        found["nccl_p2p_disabled"] = 1.0 if nccl.is_p2p_disabled else 0.0
    return found


def _unallocated(numbers: object) -> float | None:
    """Reserved by the framework and not handed out, against the request that failed; `None`: not stated."""
    if not hasattr(numbers, "get"):
        return None
    reserved, allocated = numbers.get("reserved_bytes"), numbers.get("allocated_bytes")
    unallocated = numbers.get("unallocated_bytes")
    if unallocated is None and reserved is not None and allocated is not None:
        unallocated = reserved - allocated
    asked = numbers.get("requested_bytes")
    return unallocated / asked if unallocated is not None and asked else None
