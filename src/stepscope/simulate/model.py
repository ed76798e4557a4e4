"""What a model does in a step: nodes of ops and kernels, made from shapes. Nothing here knows of time's
order.

A `Workload` is made for one GPU and one size of batch. Its kernels' durations are what they take alone on a
healthy device, its shapes and grids are those of the sizes: a longer sequence makes more work, not slower
kernels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BF16, FLOAT, LONG, BYTE = "c10::BFloat16", "float", "long int", "unsigned char"


@dataclass(frozen=True, slots=True)
class Variation:
    """How a model is written: `num_passes` more elementwise kernels than a fused one would need, the share
    of products that run without tensor cores, and the factor that sizes off the grid cost them."""

    num_passes: int = 0
    plain_share: float = 0.0
    misaligned: float = 1.0


PLAIN = Variation()


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel: its duration on a healthy device in nanoseconds, and its launch as the profiler writes it
    (registers, shared memory, grid, block, occupancy), JSON without braces.

    What it does to the device meanwhile: `sm_active` and `occupancy` on average (0..1, occupancy over all
    multiprocessors), `tensor_flops` and `num_bytes` in all, `fp32` and `integer` of their pipes' peak.
    `clock_share` is how much of its duration follows the inverse of the clock: 0 where memory decides.
    """

    name: str
    dur_ns: float
    launch: str
    sm_active: float = 1.0
    occupancy: float = 0.5
    tensor_flops: float = 0.0
    num_bytes: float = 0.0
    fp32: float = 0.0
    integer: float = 0.0
    clock_share: float = 1.0

    def slowed(self, clock: float) -> float:
        """Factor on its duration at this share of the highest clock."""
        return max(self.clock_share / clock, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An op with what was recorded of its arguments (JSON without braces), the kernels that it launches, and
    the op that called it."""

    name: str
    arguments: str
    kernels: tuple[Kernel, ...]
    parent: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One differentiable call: what runs forward, and what its node of the graph runs backward.

    `exchange_bytes` is an all-to-all before the forward ops, and again in the backward pass.
    """

    forward: tuple[Op, ...]
    backward_name: str
    backward: tuple[Op, ...]
    num_parameters: int = 0
    exchange_bytes: int = 0
    is_local: bool = False
    """Whether its parameters lie on one rank alone (experts): their gradients are not reduced."""


Layer = tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A model at one size: its layers in order, the batch it is fed, and its optimizer.

    `optimizer_bytes` is moved for each parameter in an update.
    """

    layers: tuple[Layer, ...]
    batch: tuple[Op, int]
    """The op that copies it and its bytes."""
    optimizer: str

    def compute_ns(self, first: int = 0, last: int | None = None) -> float:
        """Sum of kernel durations of these layers, forward and backward."""
        nodes = [node for layer in self.layers[first:last] for node in layer]
        ops = [op for node in nodes for op in (*node.forward, *node.backward)]
        return sum(kernel.dur_ns for op in ops for kernel in op.kernels)

    def num_parameters(self, first: int = 0, last: int | None = None) -> int:
        """Parameters of these layers."""
        return sum(node.num_parameters for layer in self.layers[first:last] for node in layer)


def tensor(*shape: int, of: str = BF16) -> tuple[list[int], str, str]:
    """A tensor argument: shape, type, value."""
    return list(shape), of, ""


def value(it: Any) -> tuple[list[int], str, str]:
    """A plain argument."""
    return [], "ScalarList" if isinstance(it, (list, tuple)) else "Scalar", str(it)


NOTHING: tuple[list[int], str, str] = ([], "", "")
Argument = tuple[list[int], str, str]


def arguments(given: Sequence[Argument]) -> str:
    """As the profiler writes them with record_shapes."""
    values, types, dims = [a[2] for a in given], [a[1] for a in given], [a[0] for a in given]
    strides = [_strides(shape) for shape in dims]
    return (
        f'"Concrete Inputs": {json.dumps(values)}, "Input type": {json.dumps(types)}, '
        f'"Input Strides": {json.dumps(strides)}, "Input Dims": {json.dumps(dims)}'
    )


def _strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
