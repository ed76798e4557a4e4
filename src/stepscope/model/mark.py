"""Marks: what a training process says of itself while it runs, in columns. One `RankMarks` a rank and run.

Times are wall time: a record's monotonic time plus one offset for the whole run, so that a step of the host's
clock moves nothing against anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepscope.model.sample import F64
from stepscope.model.trace import I32, I64

PHASES = (
    "init", "data", "forward", "backward", "optimizer", "checkpoint", "eval", "logging", "other", "gc",
    "compile", "communication", "profiler",
)  # fmt: skip
"""Names of phases; `Phases.phase` points here. As in `stepscope_sdk.ring_abi` (a test compares)."""

RECORD_KINDS = {
    "start": 1, "step_begin": 2, "step_end": 3, "phase_begin": 4, "phase_end": 5, "value": 6,
    "capture_begin": 10, "capture_end": 11, "world": 12, "exit": 13,
}  # fmt: skip
"""Kinds of records by which marks are followed, as in `stepscope_sdk.ring_abi` (a test compares)."""
ASIDE = 32
"""Flag of a phase in another thread than the one that marks the steps: no step waits for it."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who marks. `None` or empty where it is not known; `host` and `pid` are as the process itself sees them
    (in a container neither is the node's)."""

    job: str | None = None
    run: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    restart: int | None = None
    host: str | None = None
    pid: int | None = None
    boot_id: str | None = None
    pod_uid: str | None = None
    pod: str | None = None
    namespace: str | None = None
    container: str | None = None
    container_id: str | None = None
    scheduler_job: str | None = None
    task: str | None = None
    framework: str | None = None
    script: str | None = None
    device_uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """Whole steps, by start. Counts are NaN where not told. `is_shadow`: its phases were left out to measure
    what marks cost; `is_captured`, `is_stalled`: the profiler ran in it, or our capture held it up."""

    step: I64
    start_ns: I64
    end_ns: I64
    tokens: F64
    samples: F64
    sequence_length: F64
    is_shadow: Flags
    is_captured: Flags
    is_stalled: Flags
    is_tiled: Flags | None = None
    """The step was found by the end of an optimizer's step, not marked by the loop: where its body begins is
    not known. `None`: no step was."""

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class Phases:
    """Stretches of phases, by start; they nest. `phase` points into `PHASES`, `name` into `RankMarks.names`
    (-1: none), `step` is -1 outside of steps. `is_sync`: all ranks meet in it."""

    phase: I32
    name: I32
    step: I64
    start_ns: I64
    end_ns: I64
    is_sync: Flags

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class Value:
    """One logged number over time: columns of equal length."""

    step: I64
    at_ns: I64
    value: F64


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture in this rank: `stall_ns` what it held up, `None` while it lasts."""

    capture: int
    start_ns: int
    first_step: int
    end_ns: int | None = None
    last_step: int | None = None
    mode: str = "full"
    stall_ns: int | None = None
    num_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RankMarks:
    """One rank of one run.

    `open_*` is what it was in at the last record: the phase of a hang. `num_lost` records were overwritten
    before they were read. `is_alive`: its writer still holds the ring; `None` where that is not known.
    `exit_ns` is when it said that it ends, `None` where it did not; `gone_ns` when somebody beside it saw
    that its writer was gone, `None` where nobody did, or nobody looked.
    """

    identity: Identity
    steps: Steps
    phases: Phases
    names: tuple[str, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    captures: tuple[Capture, ...] = ()
    start_ns: int | None = None
    last_ns: int | None = None
    exit_ns: int | None = None
    has_failed: bool = False
    was_interrupted: bool = False
    """By Ctrl-C: somebody wanted it to end."""
    open_step: int | None = None
    open_phase: str | None = None
    open_since_ns: int | None = None
    is_alive: bool | None = None
    gone_ns: int | None = None
    num_lost: int = 0
    num_damaged: int = 0
    """Records of the ring that are not whole."""
    num_missing: int = 0
    """Records that an agent read and whose batches are not here."""
    gaps_ns: tuple[tuple[int, int], ...] = ()
    """Between which records others are missing, whyever: no step and no phase goes on over these."""
    clock_steps_ns: tuple[int, ...] = ()
    """Jumps of the wall clock against the monotonic one."""
    offset_ns: int | None = None
    """Wall time less monotonic time, as taken for all times here: rings of one boot share a monotonic clock,
    and so this tells their times apart from one another exactly."""
    num_unmatched: int = 0
    """Ends without a beginning, and beginnings that never ended."""
