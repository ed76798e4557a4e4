"""What lies beside the traces of a recorded run: a file each, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from stepscope.simulate.clock import clock_of
from stepscope.simulate.cluster import Cluster
from stepscope.simulate.config import START_NS, Config
from stepscope.simulate.counter import dcgm, node, process
from stepscope.simulate.counter.device import state_of
from stepscope.simulate.counter.host import host_of
from stepscope.simulate.counter.place import num_nodes, places, ranks_of
from stepscope.simulate.counter.timeline import Timeline
from stepscope.simulate.logs import kernel, nccl, train

LASTS_S, RECORDED_STEP_MS, TRACED_STEPS, MOST_STEPS = 60.0, 300.0, 10, 2000
"""Of a recorded run, unless it is told: enough seconds for counters of one a second, and a trace of few of
its
steps."""
PROBED_STEPS = 2


def recorded_run(steps: int | None, trace_steps: tuple[int, int] | None, **given: Any) -> Config:
    """A run that is recorded: as many steps as a minute has, and the middle ones traced, where not told."""
    if given.get("step_ms") is None:
        given["step_ms"] = RECORDED_STEP_MS
    if steps is None:
        steps = math.ceil(1e9 * LASTS_S / _step_ns(given))
    whole = Config(**given, steps=steps)
    if trace_steps is None:
        # Before a run hangs, the steps that came last.
        first = whole.num_played // 2 if whole.hang_step is None else whole.num_played - TRACED_STEPS
        first = max(min(first, whole.num_played - TRACED_STEPS), 0)
        trace_steps = (first, min(first + TRACED_STEPS, whole.num_played) - 1)
    return replace(whole, trace_steps=trace_steps)


def _step_ns(given: dict[str, Any]) -> float:
    """About how long a step takes: as planned, or as short as its faults make it."""
    probe = replace(Config(**{**given, "faults": (), "telemetry": None}, steps=1), steps=PROBED_STEPS)
    faults = tuple(replace(each, first=None, last=None) for each in given.get("faults", ()))
    ends = Cluster(probe, faults).step_end_ns[0]
    return max(min(probe.step_ns, (ends[-1] - START_NS) / PROBED_STEPS), 1e9 * LASTS_S / MOST_STEPS)


def names(num_hosts: int, is_alone: bool) -> list[str]:
    """Paths in a run's folder, of a job on so many hosts; one rank alone has no log of NCCL."""
    made = ["logs/train.log"] if is_alone else ["logs/train.log", "logs/nccl.log"]
    for number in range(num_hosts):
        made.append(kernel_path(number))
        made += [f"telemetry/node{number}.{kind}" for kind in ("dcgm.prom", "node.prom", "apps.csv")]
    return made


def kernel_path(number: int) -> str:
    """Where a host's kernel log lies."""
    return f"logs/kernel{number or ''}.log"


def recorded(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Each file's path in the run's folder, and its text. The run must have been metered."""
    config, recording = cluster.config, cluster.config.telemetry
    if recording is None:
        return
    timeline, everyone = Timeline(cluster), places(config)
    yield "logs/train.log", "".join(train.lines(timeline, everyone))
    if config.ranks > 1:
        yield "logs/nccl.log", "".join(nccl.lines(timeline, everyone))
    for number in range(num_nodes(config)):
        ranks = ranks_of(config, number)
        here = [everyone[rank] for rank in ranks]
        states = [state_of(timeline, rank) for rank in ranks]
        yield kernel_path(number), "".join(kernel.lines(timeline, states, here))
        stem = f"telemetry/node{number}"
        yield f"{stem}.dcgm.prom", "".join(dcgm.text(timeline, states, here, recording))
        host = host_of(timeline, number, recording)
        yield f"{stem}.node.prom", "".join(node.text(timeline, host, here, recording))
        offset = clock_of(config, ranks.start).offset_ns
        yield f"{stem}.apps.csv", "".join(process.text(timeline, states, here, offset))
