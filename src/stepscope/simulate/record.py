"""What lies beside the traces of a recorded run: a file each, as text."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.simulate.clock import clock_of
from stepscope.simulate.cluster import Cluster
from stepscope.simulate.counter import dcgm, node, process
from stepscope.simulate.counter.device import state_of
from stepscope.simulate.counter.host import host_of
from stepscope.simulate.counter.place import num_nodes, places, ranks_of
from stepscope.simulate.counter.timeline import Timeline
from stepscope.simulate.logs import kernel, nccl, train


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
