"""What a rank needs of its device's memory: parameters, gradients, moments, activations, the context."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stepscope.simulate.config import Config
from stepscope.simulate.group import groups_in

CONTEXT_BYTES, NCCL_BYTES = 540 << 20, 430 << 20
STATE_BYTES = {"AdamW": 8, "SGD": 4}
"""Of an optimizer, for each parameter."""
KEPT_SHARE = 0.30
"""Of what a forward pass's kernels move, what is kept for the backward pass."""
MOST_SHARE = 0.85
"""Of the device: beyond that people compute activations again."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on one device."""

    context_bytes: int
    state_bytes: int
    activation_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.context_bytes + self.state_bytes + self.activation_bytes

    @property
    def allocated_bytes(self) -> int:
        """What the framework says that it has allocated."""
        return self.state_bytes + self.activation_bytes


def footprint(config: Config, rank: int) -> Footprint:
    """Of a rank, on a healthy run."""
    groups = groups_in(config, rank)
    first, last = config.layers_of(groups.stage)
    work = config.work(config.sized[0])
    mates = len(groups.reduce.ranks) if groups.reduce is not None and config.shard else 1
    num = work.num_parameters(first, last)
    state = 4 * num + math.ceil(STATE_BYTES[work.optimizer] * num / mates)
    nodes = [node for layer in work.layers[first:last] for node in layer]
    moved = sum(kernel.num_bytes for node in nodes for op in node.forward for kernel in op.kernels)
    held = max(groups.num_stages - groups.stage, 1)
    context = CONTEXT_BYTES + (NCCL_BYTES if config.ranks > 1 else 0)
    most = int(MOST_SHARE * config.device.memory_bytes)
    activations = min(int(KEPT_SHARE * moved * held), max(most - context - state, 0))
    if config.telemetry is not None and config.telemetry.memory_gb is not None:
        given = int(1e9 * config.telemetry.memory_gb)
        activations = max(min(given, config.device.memory_bytes) - context - state, 0)
        state = max(min(state, given - context), 0)
    return Footprint(context, state, activations)
