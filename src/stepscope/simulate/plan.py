"""What one step of one rank is like. Faults change it; as made, nothing is wrong.

Both sides of a run are made from the same plan: what the trace shows (how long things take) and what it does
not (clocks, power, memory, disks), so that they agree unless a fault makes them disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.simulate.model import PLAIN, Variation


@dataclass(slots=True)
class Plan:
    """`compute` and `host` multiply the durations of kernels and of host work; `transfer` those of
    exchanges, `bandwidth` caps their bytes per second. `lengths` is each micro-batch's sequence length.
    """

    loader_ns: int
    lengths: tuple[int, ...]
    compute: float = 1.0
    host: float = 1.0
    transfer: float = 1.0
    bandwidth: float | None = None
    copy: float = 1.0
    """Factor on what copies from the host take."""
    load: float = 1.0
    """Tokens of this rank's experts against an equal share."""
    is_tiny: bool = False
    """Whether the model is cut down to kernels of a few microseconds."""
    sync_ns: int | None = None
    """Host work after an `.item()` in every layer, `None` without one."""
    pageable_ns: int = 0
    """How long a copy of the batch from pageable memory takes, 0 where it is pinned."""
    sleep_ns: int = 0
    """Between forward and backward, Python launches nothing until the device has been idle for so long."""
    gc_ns: int = 0
    checkpoint_ns: int = 0
    eval_batches: int = 0
    variation: Variation = PLAIN
    """How the model is written: it changes kernels, not their order."""
    clock: float = 1.0
    """Of the multiprocessors, against the highest: kernels that compute take the inverse longer."""
    preempted_ns: int = 0
    """How much of a step the host's threads wait for a core that others have."""
    allocator_ns: int = 0
    """How long the framework's allocator frees and allocates device memory while the device waits."""

    # What a trace does not show.
    reasons: int = 0
    """Bits that the driver gives for its clock."""
    power_limit: float = 1.0
    """Against the limit as shipped."""
    celsius: float | None = None
    """Where the device's temperature is driven to, `None` where its power decides."""
    foreign: float = 0.0
    """Share of the device's time that another process takes."""
    path: str = ""
    """What exchanges go over: "" the devices' own link, "host" the host's memory, "network" a socket."""
    leaked: float = 0.0
    """Device memory that is never given back, as a share of what a healthy run leaves free."""
    unused: float = 0.0
    """Device memory that the allocator holds in pieces nobody can use, as a share of the same."""
    link_errors_per_second: float = 0.0
    ecc_errors_per_second: float = 0.0
    num_remapped: int = 0
    pcie: tuple[int, int] | None = None
    """Generation and lanes, `None` for the best."""
    is_reading: bool = False
    """Whether the loader's wait is for disks: pages that were not in memory."""
    is_decoding: bool = False
    """Whether the loader's workers have no core time left."""
    run_queue: float = 0.0
    """Runnable threads of others for each core of the host."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault is applied. `culprit` is the rank that the fault is on, `step_ns` a healthy step,
    `host_ns` the host's part of it; `first` and `last` are the fault's steps; `draw(n)` are n standard
    normal numbers of this fault, rank and step."""

    rank: int
    step: int
    culprit: int
    num_ranks: int
    stage: int
    num_stages: int
    step_ns: int
    host_ns: int
    length: int
    seed: int
    number: int
    first: int
    last: int
    period: int
    """Steps from one checkpoint or evaluation to the next."""
    run_ahead: int = 1
    """Steps that the host may be ahead of the device."""

    def draw(self, num: int) -> list[float]:
        """Standard normal numbers."""
        made = np.random.default_rng([self.seed, 7, self.number, self.rank, self.step])
        return [float(z) for z in made.standard_normal(num)]

    @property
    def progress(self) -> float:
        """How much of the fault is over with this step, above 0 and up to 1: there it stays."""
        return min((self.step - self.first + 1) / (self.last - self.first + 1), 1.0)
