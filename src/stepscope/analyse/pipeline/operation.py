"""What operations of a pipeline's timeline are: computing, or talking, and with whom. A table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Peers = Literal["none", "next", "previous", "replicas", "ends", "all"]
"""Whom it waits for: nobody that is recorded; the next or previous stage; the workers of its stage; the first
and the last stage of its replica, which share the embedding; every worker."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of operation: the first row whose pattern is found in its name counts."""

    pattern: re.Pattern[str]
    part: str
    """Its place on a path: `compute.<class>`, `communication`, or `gc`."""
    peers: Peers = "none"
    partner: str | None = None
    """What the other side of a transfer between stages is called."""


def _row(pattern: str, part: str, peers: Peers = "none", partner: str | None = None) -> Operation:
    return Operation(re.compile(pattern), part, peers, partner)


OPERATIONS: tuple[Operation, ...] = (
    _row(r"^forward-compute$", "compute.forward"),
    _row(r"^backward-compute$", "compute.backward"),
    _row(r"^forward-send$", "communication", "next", "forward-recv"),
    _row(r"^forward-recv$", "communication", "previous", "forward-send"),
    _row(r"^backward-send$", "communication", "previous", "backward-recv"),
    _row(r"^backward-recv$", "communication", "next", "backward-send"),
    _row(r"^embedding-grads-all-reduce$", "communication", "ends"),
    # Between ranks that split tensors, of which one is recorded.
    _row(r"^layernorm-grads-all-reduce$", "communication"),
    # It holds the all-reduce of the norm over the whole job.
    _row(r"^optimizer-clip-main-grad$", "compute.optimizer", "all"),
    _row(r"^optimizer", "compute.optimizer"),
    _row(r"^gc$", "gc"),
    _row(r"all-gather|reduce-scatter|all-reduce", "communication", "replicas"),
)
_OTHER = _row(r"", "compute.other")
FORWARD, BACKWARD = "forward-compute", "backward-compute"


def operation(name: str) -> Operation:
    """What is known of this kind; what is not known computes alone."""
    return next((row for row in OPERATIONS if row.pattern.search(name)), _OTHER)
