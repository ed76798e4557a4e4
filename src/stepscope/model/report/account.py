"""Where the time of a device went."""

from __future__ import annotations

import msgspec
from msgspec import field

from stepscope.model.report.base import Part, RowStatus, Scope, WindowKind, written


class Device(Part, frozen=True, kw_only=True):
    """An accelerator, or `kind: cpu` for a run without one."""

    index: int | None = None
    """Its number within its process's node, as in the trace."""
    uuid: str | None = None
    """Absent where the trace does not say."""
    kind: str | None = None
    """`cpu` for a run without an accelerator, `marks` for a training loop that only its own marks tell of;
    absent for an accelerator."""
    name: str | None = None
    """What the driver calls it; absent where the trace does not say."""


HOST_KINDS = ("cpu", "marks")
"""Kinds of rows that are of the host."""


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Idle device time by cause, in nanoseconds. All causes are always written."""

    queued_ns: int = 0
    """Its next work had been issued before the device ran dry: no host cause."""
    input_ns: int = 0
    """The loader was fetching."""
    preprocess_ns: int = 0
    """Host work at the start of a step, before its first launch."""
    host_sync_ns: int = 0
    """The host waited, or had waited, for the device (stream, event and device synchronisation)."""
    copy_wait_ns: int = 0
    """The host was blocked in a copy."""
    allocator_ns: int = 0
    """Device memory was allocated or freed through the driver."""
    gc_ns: int = 0
    """Python's garbage collection."""
    compile_ns: int = 0
    """Compilation, autotuning or lazy loading of kernels."""
    checkpoint_ns: int = 0
    """An annotated checkpoint."""
    eval_ns: int = 0
    """An annotated evaluation."""
    logging_ns: int = 0
    """Logging and progress bars."""
    launch_ns: int = 0
    """The host was issuing ops and launches."""
    peer_ns: int = 0
    """The host waited for another rank (host collectives, barriers, stores)."""
    profiler_ns: int = 0
    """The profiler's own overhead."""
    python_ns: int = 0
    """Other Python code between ops."""
    unknown_ns: int = 0
    """No cause can be told; all idle time of a row whose `status` is `withheld`."""


class StepIdle(Idle, frozen=True, kw_only=True, omit_defaults=True):
    """Idle time of one step by cause, as in `Idle`; causes without time are left out."""


IDLE_CAUSES: tuple[str, ...] = tuple(name.removesuffix("_ns") for name in Idle.__struct_fields__)


class Compute(msgspec.Struct, frozen=True, kw_only=True):
    """Compute time of one device by kind, in nanoseconds; all kinds are always written and sum to
    `compute_ns`.

    Of kernels that run at once the one that began first counts.
    """

    recompute_ns: int = 0
    """Forward work done again in the backward pass (activation checkpointing), whatever it computes."""
    optimizer_ns: int = 0
    """Everything that the optimizer's step launched, and kernels named after an optimizer."""
    layout_ns: int = 0
    """Nothing but moving elements to another layout."""
    copy_ns: int = 0
    """Copies, fills and concatenations that kernels make."""
    gemm_ns: int = 0
    """Matrix products."""
    convolution_ns: int = 0
    """Convolutions."""
    attention_ns: int = 0
    """Fused attention."""
    normalization_ns: int = 0
    """Batch, layer, group and RMS normalisation."""
    softmax_ns: int = 0
    """Softmax."""
    elementwise_ns: int = 0
    """Elementwise kernels, casts among them."""
    reduction_ns: int = 0
    """Sums, scans and sorts."""
    embedding_ns: int = 0
    """Table look-ups."""
    triton_ns: int = 0
    """Kernels that a compiler or Triton generated: what they compute is not in their name."""
    other_ns: int = 0
    """Everything else."""


COMPUTE_KINDS: tuple[str, ...] = tuple(name.removesuffix("_ns") for name in Compute.__struct_fields__)


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Device time by the part of the step that launched it, in nanoseconds; all are always written."""

    forward_ns: int = 0
    """From the first to the last op that a backward pass is run for, before that pass."""
    backward_ns: int = 0
    """Inside autograd's rows, recomputation apart."""
    recompute_ns: int = 0
    """Forward work done again in the backward pass."""
    optimizer_ns: int = 0
    """Inside `Optimizer.step`."""
    other_ns: int = 0
    """In none of these: input, clearing and clipping of gradients, evaluation; the forward pass too where the
    trace has no sequence numbers."""


class Communication(Part, frozen=True, kw_only=True):
    """Collectives of one device; the parts that need other ranks are absent without them."""

    total_ns: int
    """Time in which any collective runs on the device."""
    hidden_ns: int
    """The part of it beside compute."""
    transfer_ns: int | None = None
    """The part in which every rank had arrived; absent without the other ranks."""
    wait_ns: int | None = None
    """The part spent waiting for a later rank; absent without the other ranks."""
    wait_exposed_ns: int | None = None
    """The part of `wait_ns` that no compute hides; absent without the other ranks."""


class HostShares(Part, frozen=True, kw_only=True):
    """Host time as a share of host step time: beside the idle causes, not part of them."""

    loader_share: float | None = None
    """Main thread fetching a batch; absent where only calls were recorded."""
    sync_share: float | None = None
    """Main or autograd threads in calls that wait for the device."""
    copy_call_share: float | None = None
    """Main or autograd threads in copies that block the host."""
    launch_share: float | None = None
    """Main or autograd threads in launch calls, blocking copies apart."""


class Variation(Part, frozen=True, kw_only=True):
    """How step times vary over the counted steps."""

    first_ns: int | None = None
    """The first counted step."""
    median_ns: int | None = None
    """The median counted step."""
    p95_ns: int | None = None
    """The 95th percentile of the counted steps; absent with fewer than two."""
    slow_steps: tuple[int, ...] = field(default_factory=written)
    """Numbers of the counted and marked steps longer than 1.2 times the median."""
    period_steps: int | None = None
    """The distance at which slow steps come; absent unless three or more come at equal distances above 1."""


class StepParts(Part, frozen=True, kw_only=True):
    """Where the time of one step of a row went: the same parts, that sum to `total_ns` exactly."""

    step: int
    """The step's number."""
    total_ns: int
    """The step's window."""
    compute_ns: int
    """Time in which any compute kernel runs."""
    communication_exposed_ns: int
    """Time in which a collective runs and no compute kernel."""
    copy_exposed_ns: int
    """Time in which a copy or set runs and neither of the two."""
    idle_ns: int
    """The rest."""
    idle: StepIdle
    """`idle_ns` by cause."""


class Accounting(Part, frozen=True, kw_only=True):
    """Where the time of one (rank, device) went: parts that sum to `total_ns` exactly."""

    device: Device
    """The device the row is of."""
    scope: Scope
    """`steps`: the counted and marked steps; `trace`: from the first to the last device activity (of a run
    without devices: the host's)."""
    window: WindowKind
    """Whether steps were cut by the host's step annotations or by the end of their device work."""
    num_steps: int
    """How many steps the row sums; 0 for `scope: trace`."""
    total_ns: int
    """All time of the row; the parts below sum to it."""
    compute_ns: int
    """Time in which any compute kernel runs."""
    communication_exposed_ns: int
    """Time in which a collective runs and no compute kernel."""
    copy_exposed_ns: int
    """Time in which a copy or set runs and neither of the two."""
    idle_ns: int
    """The rest."""
    idle: Idle
    """`idle_ns` by cause."""
    status: RowStatus
    """Whether the idle causes can be believed: with `withheld` all of them are `unknown_ns`."""
    rank: int | None = None
    """Absent where the trace names none."""
    compute: Compute | None = None
    """`compute_ns` by kind; absent for a run without an accelerator."""
    phases: Phases | None = None
    """Summed durations of the device activities that the row's steps launched, by phase (of parallel streams
    both count); only in the row that decides, and absent where the trace marks no phases."""
    communication: Communication | None = None
    """Absent where no collective ran."""
    host: HostShares | None = None
    """Absent where no thread of the host was recorded."""
    variation: Variation | None = None
    """Absent for `scope: trace` and without a counted step."""
    input: int | None = None
    """The place in `inputs` of its file, where there are several and the file names no rank."""
    by_step: tuple[StepParts, ...] = ()
    """The row step by step, in order; of many the slowest and evenly spaced ones. Absent without
    steps."""
    steps_left_out: int | None = None
    """How many steps of the row are not in `by_step`; absent where none."""
