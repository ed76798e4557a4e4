"""NCCL's log at level INFO: how ranks are joined. All ranks' lines in one file, as a launcher collects
them."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.simulate.counter.place import Place
from stepscope.simulate.counter.timeline import Timeline

NUM_CHANNELS = 24
SHOWN_CHANNELS = 4
"""Of each pair: the rest says the same."""


def lines(timeline: Timeline, here: list[Place]) -> Iterator[str]:
    """The log, line by line; empty for a single rank, which does not call NCCL."""
    config = timeline.cluster.config
    if config.ranks == 1:
        return
    path = timeline.cluster.plans[0][0].path  # as it is set up, before the first step
    num_nodes = 1 + here[-1].node
    identity = f"0x{(config.seed * 2_654_435_761 + 0x9E3779B97F4A7C15) % 2**64:x}"
    for place in here:
        head = f"{place.host}:{place.pid}:{place.pid} [{place.local_rank}] NCCL INFO "
        said = [f"Bootstrap: Using eth0:{place.address}<0>"]
        if place.rank == 0:
            said += ["cudaDriverVersion 12080", "NCCL version 2.26.2+cuda12.8"]
        said += ["NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin."]
        said += _network(path, place, config.device.has_link)
        comm = f"comm 0x{0x55A0_0000_0000 + 0x1000 * (place.pid + 7 * place.rank):x}"
        init = (
            f"ncclCommInitRankConfig {comm} rank {place.rank} nranks {config.ranks} cudaDev "
            f"{place.local_rank} nvmlDev {place.index} busId {place.short_bus_id[5:7]}000 commId {identity}"
        )
        mates = sum(other.node == place.node for other in here)
        said += [
            f"{init} - Init START",
            f"{comm} rank {place.rank} nRanks {config.ranks} nNodes {num_nodes} localRanks {mates} localRank "
            f"{place.local_rank} MNNVL 0",
            "P2P Chunksize set to 524288" if not path else "P2P Chunksize set to 131072",
        ]
        if place.rank == 0:
            order = " ".join(str(other.rank) for other in here)
            said += [f"Channel {n:02d}/{NUM_CHANNELS} : {order}" for n in range(SHOWN_CHANNELS)]
        other = here[(place.rank + 1) % config.ranks]
        said += [_channel(n, place, other, path, config.device.has_link) for n in range(SHOWN_CHANNELS)]
        said += [
            "Connected all rings, use ring PXN 0 GDR 1" if path != "network" else "Connected all rings",
            "threadThresholds 8/8/64 | 32/8/64 | 512 | 512",
            f"{NUM_CHANNELS} coll channels, {NUM_CHANNELS} collnet channels, 0 nvls channels, 32 p2p "
            f"channels, 32 "
            "p2p channels per peer",
            f"{init} - Init COMPLETE",
        ]
        for text in said:
            yield f"{head}{text}\n"


def _network(path: str, place: Place, has_link: bool) -> list[str]:
    said = []
    if path:
        said += ["NCCL_P2P_DISABLE set by environment to 1"]
    if path == "network":
        return [
            *said,
            "NCCL_SHM_DISABLE set by environment to 1",
            "NCCL_IB_DISABLE set by environment to 1",
            f"NET/Socket : Using [0]eth0:{place.address}<0>",
            "Using network Socket",
        ]
    devices = " ".join(f"[{n}]mlx5_{n}:1/IB" for n in range(2))
    return [*said, f"NET/IB : Using {devices} [RO]; OOB eth0:{place.address}<0>", "Using network IB"]


def _channel(number: int, place: Place, other: Place, path: str, has_link: bool) -> str:
    pair = f"{place.rank}[{place.local_rank}] -> {other.rank}[{other.local_rank}]"
    if place.node != other.node or path == "network":
        kind = "NET/Socket/0" if path == "network" else "NET/IB/0/GDRDMA"
        return f"Channel {number:02d}/0 : {pair} [send] via {kind}"
    kind = "SHM/direct/direct" if path else "P2P/CUMEM" if has_link else "P2P/IPC"
    return f"Channel {number:02d}/0 : {pair} via {kind}"
