"""What the states of training need of device memory, reckoned from the number of parameters.

Mixed precision with Adam keeps 2 bytes of weights, 2 of gradients and 12 of optimizer states (fp32 copy of
the weights, momentum and variance) a parameter: 16 in all. What sharding divides among n ranks: stage 1 the
optimizer's states, stage 2 gradients too, stage 3 (FSDP's full shard) weights too (Rajbhandari et al., ZeRO,
2020, section 3 and figure 1). Tensor and pipeline parallelism divide all three.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stepscope.model import report

Stage = Literal[0, 1, 2, 3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained and how it is divided. Bytes are a parameter; `num_shards` is what ZeRO or FSDP divides
    by, `num_slices` tensor times pipeline parallel. `stage` is `None` where nobody told: nothing is divided
    then."""

    num_parameters: int
    weight_bytes: float = 2.0
    gradient_bytes: float = 2.0
    optimizer_bytes: float = 12.0
    stage: Stage | None = 0
    num_shards: int = 1
    num_slices: int = 1

    def __post_init__(self) -> None:
        if self.num_parameters < 1 or self.num_shards < 1 or self.num_slices < 1:
            raise ValueError("parameters, shards and slices are whole numbers from 1")
        if min(self.weight_bytes, self.gradient_bytes, self.optimizer_bytes) < 0:
            raise ValueError("bytes a parameter are not negative")


def estimate(
    training: Training,
    device: report.Device | None = None,
    rank: int | None = None,
    used_bytes: int | None = None,
    present_bytes: int | None = None,
) -> report.MemoryEstimate:
    """The states of training, in all and a card, and what of `used_bytes` they leave unexplained."""
    of = training
    stage = of.stage or 0
    parts = [
        (of.weight_bytes, of.num_shards if stage >= 3 else 1),
        (of.gradient_bytes, of.num_shards if stage >= 2 else 1),
        (of.optimizer_bytes, of.num_shards if stage >= 1 else 1),
    ]
    whole = [round(of.num_parameters * each) for each, _ in parts]
    mine = sum(
        math.ceil(num_bytes / (among * of.num_slices))
        for num_bytes, (_, among) in zip(whole, parts, strict=True)
    )
    left = None if used_bytes is None else used_bytes - mine
    return report.MemoryEstimate(
        device=device,
        rank=rank,
        num_parameters=of.num_parameters,
        weights_bytes=whole[0],
        gradients_bytes=whole[1],
        optimizer_bytes=whole[2],
        states_bytes=sum(whole),
        stage=stage,
        num_shards=of.num_shards,
        num_slices=of.num_slices,
        per_device_bytes=mine,
        used_bytes=used_bytes,
        present_bytes=present_bytes,
        unexplained_bytes=left if left is not None and left >= 0 else None,
        least_division=None
        if used_bytes is None or left is None or left >= 0
        else math.ceil(sum(whole) / max(used_bytes, 1)),
    )


_COUNT = re.compile(r"(?P<count>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<scale>[kKmMbBgGtT]?)")
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


def parameters_of(text: str) -> Training:
    """`8e9`, `8B` or `8e9:2,2,12` (bytes of weights, gradients and optimizer states) as a training that is
    not divided yet. `ValueError` says what is wrong."""
    count, colon, told = text.strip().partition(":")
    match = _COUNT.fullmatch(count.strip())
    if match is None:
        raise ValueError(f"{text!r} is no number of parameters: 8e9, 8B or 8e9:2,2,12 are")
    number = round(float(match["count"]) * _SCALES[match["scale"].lower()])
    if number < 1:
        raise ValueError(f"{text!r} is no number of parameters: it is less than one")
    if not colon:
        return Training(num_parameters=number)
    try:
        weights, gradients, optimizer = (float(each) for each in told.split(","))
    except ValueError:
        raise ValueError(
            f"{told!r} are no bytes a parameter: three numbers are wanted, of weights, gradients and "
            "optimizer states, as 2,2,12"
        ) from None
    return Training(
        num_parameters=number, weight_bytes=weights, gradient_bytes=gradients, optimizer_bytes=optimizer
    )


GATHERED_TWICE = 1.5
"""Full sharding gathers the weights before forward and again before backward: twice the bytes that it
reduces; stages 1 and 2 gather once after the optimizer's step."""
LEAST_GATHERED = 0.5


def stage_of(collectives: Sequence[report.Collective]) -> Stage | None:
    """How the states are sharded, guessed from what is gathered and reduced; `None` where collectives do not
    tell. Stages 1 and 2 look alike: 1 is said, which divides less.

    Sequence parallelism gathers and reduces activations and looks like sharding: the caller knows better.
    """
    moved = {"all_gather": 0, "reduce_scatter": 0, "all_reduce": 0}
    for row in collectives:
        if row.kind in moved and row.bytes is not None:
            moved[row.kind] += row.bytes * row.count
    if not any(moved.values()):
        return None
    if moved["reduce_scatter"] == 0:
        return 0 if moved["all_gather"] == 0 else None
    ratio = moved["all_gather"] / moved["reduce_scatter"]
    if ratio >= GATHERED_TWICE:
        return 3
    return 1 if ratio >= LEAST_GATHERED else None
