"""Where each rank runs: host, device, process. Ranks of a node are neighbours; devices are not in their
order.

`CUDA_VISIBLE_DEVICES` renumbers: the driver's number of a rank's device is not its local rank. What tells
them apart is the process: its pid is in the trace, in the list of processes and in NCCL's log.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np

from stepscope.simulate.config import Config
from stepscope.simulate.counter.meter import RANKS_PER_NODE
from stepscope.simulate.kineto import pid_of

DRIVER = "570.124.06"
BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
"""Of a common board with eight modules."""


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's place. `index` is the driver's number of its device, `local_rank` the job's."""

    rank: int
    local_rank: int
    node: int
    host: str
    address: str
    index: int
    uuid: str
    pci_bus_id: str
    """As the driver prints it: eight digits of domain."""
    pid: int

    @property
    def short_bus_id(self) -> str:
        """As the kernel prints it: `0000:1b:00`."""
        return self.pci_bus_id[4:].lower().rpartition(".")[0]


def places(config: Config) -> list[Place]:
    """Every rank's place, by seed."""
    found = []
    for node in range(num_nodes(config)):
        ranks = ranks_of(config, node)
        order = np.random.default_rng([config.seed, 20, node]).permutation(len(ranks)).tolist()
        for local, rank in enumerate(ranks):
            index = order[local]
            made = np.random.default_rng([config.seed, 21, node, index]).bytes(16)
            found.append(
                Place(
                    rank=rank,
                    local_rank=local,
                    node=node,
                    host=host_of(config, node),
                    address=f"10.12.{node // 200}.{20 + node % 200}",
                    index=index,
                    uuid=f"GPU-{uuid.UUID(bytes=made, version=4)}",
                    pci_bus_id=f"00000000:{BUSES[index]:02X}:00.0",
                    pid=pid_of(rank),
                )
            )
    return found


def num_nodes(config: Config) -> int:
    """Hosts of the job."""
    return -(-config.ranks // RANKS_PER_NODE)


def ranks_of(config: Config, node: int) -> range:
    """The ranks of a host."""
    return range(node * RANKS_PER_NODE, min((node + 1) * RANKS_PER_NODE, config.ranks))


def host_of(config: Config, node: int) -> str:
    """A host's name."""
    return f"train-{config.seed % 50:02d}-{node + 1:03d}"
