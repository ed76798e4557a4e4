"""What the analysis of one rank yields: numbers only, no words for people, no rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stepscope.model import report
from stepscope.model.activity import Activity
from stepscope.model.peer import PeerTable
from stepscope.model.trace import I32, I64

ALL_ACCOUNTING = "device accounting"
ALL_CAUSES = "idle causes"
COLLECTIVE_PARTS = "transfer and wait of collectives"
"""What may be withheld, as `report.Withheld.what` calls it."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """Who was running on the host while the device idled for one cause.

    `name` is the Python function, annotation, op or call; `time_ns` its share of that idle time;
    `span` the event's index in its file, `start_ns`/`end_ns` the longest single piece.
    """

    name: str
    time_ns: int
    span: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class IdleSpans:
    """When a device idled and why: disjoint pieces in order of time, neighbours of one cause joined.

    `cause` indexes `report.IDLE_CAUSES`; `device` is the device as a reader knows it (`device 0`, `host`).
    """

    device: str
    start_ns: I64
    end_ns: I64
    cause: I32


@dataclass(frozen=True, slots=True)
class DeviceAnalysis:
    """One (rank, device): its accounting row that decides (scope `steps` where there are counted
    steps, else `trace`), and what rules need beside it."""

    accounting: report.Accounting
    culprits: Mapping[str, tuple[Culprit, ...]] = field(default_factory=dict)
    """Idle cause without `_ns` (or `copy_exposed`, `communication_exposed`) -> largest first."""
    by_step: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Number of each counted or marked step -> the same integer parts as the accounting row, for that step
    alone: `total_ns`, `compute_ns`, `communication_exposed_ns`, `copy_exposed_ns`, `idle_ns`, and
    `idle.<cause>_ns`."""
    timeline: report.Timeline | None = None
    """Its longest step, or the whole trace; `row` is not known yet. `None` where nobody could believe it."""
    largest_gap_ns: Mapping[str, int] = field(default_factory=dict)
    """Idle cause -> its time in the one gap that holds most of it; absent where it has none."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Further named numbers, absent where not measured: `bus_bandwidth_link_share` (of exposed synchronising
    collectives, time-weighted, against one direction of the device's link), `bus_bytes_per_second`,
    `collective_bytes`, `collective_group_size`, `unlaunched_device_share`,
    `queued_or_unlaunched_idle_share`, `periodic_stall_share`, `periodic_stall_steps`, `kernel_median_ns`,
    `launches_per_step`, `unclassified_share`, `pageable_copy_share`, `to_device_copy_share`,
    `from_device_copy_share`, `within_device_copy_share`, `pageable_upload_share`, `pageable_upload_bytes`
    (see `analyse.copies.ways`), `graph_coverage`, `unrecorded_graph_share` (its rest; 0 where no graph is
    launched), `late_start_ns` (idle time long after a launch, see `analyse.idle.late_starts`),
    `python_stall_ns`, `long_pause_ns`, `irregular_pause_ns` (see `analyse.stretch`), `recompiling_steps`
    (steps that compile after one that did not, see `analyse.window`), `small_of_communication_share`,
    `small_collectives_per_step`, `small_collective_median_ns`, `gradient_syncs_per_update`,
    `repeated_sync_part` (see `analyse.gradient`), `short_kernel_share` and
    `kernel_gap_ns` (pauses between queued kernels, see `analyse.device`), and what better kernels would save
    (`analyse.recoverable`): `recompute_ns`,
    `optimizer_ns`, `attention_scores_ns`, `off_tensor_cores_ns`, `off_tensor_cores_saving_ns`, `tf32_off_ns`,
    `tf32_off_saving_ns` (devices with TF32), `elementwise_kernel_share`, `normalization_kernel_share`,
    `convolution_kernel_share`, `num_ops` (activities with a recorded op), `optimizer_idle_ns`,
    `misaligned_ns`, `misaligned_saving_ns`, `fusion_handed_ns`, `fusion_bound_ns`,
    `optimizer_kernels_per_step`, `optimizer_loop_ns`, `optimizer_loop_share`, `optimizer_has_fused`,
    `math_attention`, `batched_launch_share`."""
    idle: IdleSpans | None = None
    """Every piece of idle time over the trace; `None` once it was dropped with the columns."""
    activity: Activity | None = None
    """What it did in equal cells, for the join with telemetry; `None` without wall time."""
    program: object | None = None
    """What `stepscope.analyse.replay` plays of it; `None` without steps or device work."""
    tells: frozenset[str] | None = None
    """Of a row of marks the parts that they tell of (`idle.input`); `None` of a recording of everything."""
    within: Callable[[int, int], DeviceAnalysis] | None = None
    """The same of the steps from one number to another alone, both included; of a row of marks only."""


CUT_CODES = ("truncated", "mixed_writers", "malformed_events")
"""Health codes that, where they withhold, say that a file is cut inside its events."""


@dataclass(frozen=True, slots=True)
class RankAnalysis:
    """Everything computed from one rank's trace."""

    rank: int | None
    world_size: int | None
    issues: tuple[report.HealthIssue, ...]
    withheld: tuple[report.Withheld, ...]
    steps: tuple[report.Step, ...]
    accounting: tuple[report.Accounting, ...]
    """Every row of the report, also those that do not decide."""
    devices: tuple[DeviceAnalysis, ...]
    operators: tuple[report.Operator, ...]
    kernels: tuple[report.Kernel, ...]
    collectives: tuple[report.Collective, ...]
    memory: tuple[report.Memory, ...] = ()
    """Every device's memory, the host's among them, by every recording of it."""
    accelerator: str = "cuda"
    """`cuda`, `hip`, `mtia`, … or `cpu` where no device work is expected."""
    operator_shapes: tuple[report.OperatorShape, ...] = ()
    modules: tuple[report.Module, ...] = ()
    efficiency: tuple[report.Efficiency, ...] = ()
    peers: tuple[PeerTable, ...] = ()
    """Each device as the other ranks see it; empty of a job of one."""
    pids: tuple[int, ...] = ()
    """Process ids of the host processes that launched its work, as in the trace."""
    uuids: tuple[str, ...] = ()
    """UUIDs of devices, where the trace names any."""
    host: str | None = None
    """The machine that it ran on, where its marks say so."""
    is_cut: bool = False
    """Events of the file are missing, nobody knows of which steps: no number of the accounting is judged."""
