"""Operators, kernels and collectives."""

from __future__ import annotations

from msgspec import field

from stepscope.model.report.account import Device, Phases
from stepscope.model.report.base import Bound, Part


class Operator(Part, frozen=True, kw_only=True):
    """One op by name, with the device time of the kernels it launched."""

    name: str
    """The op's name; of work that no op issued, its kernel's."""
    count: int
    """How often the op was called and issued device work."""
    device_ns: int
    """Sum of the durations of the device activities (kernels, copies, sets) it issued; of parallel streams
    both count."""
    rank: int | None = None
    """Absent where the trace names none."""
    class_: str | None = field(name="class", default=None)
    """What it computes: by its own name, else the class of most of its device time."""
    share: float | None = None
    """`device_ns` of the summed durations of all device activities of the rank's counted and marked steps (of
    the whole trace where there are none); absent where that sum is 0."""
    tensor_core: bool | None = None
    """Whether a kernel of it ran on tensor cores; absent where their names do not tell."""
    flops: int | None = None
    """Floating-point operations that the recorded shapes of all its calls imply, a multiply-add as two;
    absent where shapes do not tell."""
    bytes: int | None = None
    """The least traffic to memory that they imply: every operand read once, every result written once."""
    achieved_flops_per_second: float | None = None
    """`flops` over `device_ns`."""
    achieved_bytes_per_second: float | None = None
    """`bytes` over `device_ns`."""
    peak_share: float | None = None
    """Of a matrix product, a convolution or attention: the time its arithmetic takes at the device's peak for
    that type, of `device_ns`; absent where the peak is unknown."""
    memory_peak_share: float | None = None
    """The time its traffic takes at the memory's peak rate, of `device_ns`; absent where that is unknown or
    above 1, the data then came out of a cache."""
    bound: Bound | None = None
    """Which limit of the roofline it is nearer to."""
    total_ns: int | None = None
    """`device_ns` and that of the ops called inside it; absent of work that no op issued."""
    host_ns: int | None = None
    """Time of the host in it, in all threads, over the whole trace; absent of work that no op issued."""
    mean_ns: int | None = None
    """Device time of a call, the mean."""
    p99_ns: int | None = None
    """Device time of a call, the 99th percentile."""
    launch_latency_ns: int | None = None
    """Median time from the start of a launching call to the start of its work: time in the queue is part of
    it; absent without a recorded launch."""
    phases: Phases | None = None
    """`device_ns` by phase of the step; absent where the trace marks none."""
    called_from: str | None = None
    """The line of Python that most of its device time was launched from, frameworks left out; absent without
    Python stacks."""


class OperatorShape(Part, frozen=True, kw_only=True):
    """The calls of one op with the same shapes and types."""

    name: str
    """The op's name."""
    shapes: str
    """Shapes of its arguments, as the profiler wrote them."""
    count: int
    """How often it was called so and issued device work."""
    device_ns: int
    """Sum of the durations of the device activities it issued."""
    rank: int | None = None
    """Absent where the trace names none."""
    types: str | None = None
    """Types of its arguments, as the profiler wrote them; absent where they were not recorded."""
    share: float | None = None
    """`device_ns`, as `Operator.share`."""
    mean_ns: int | None = None
    """Device time of a call, the mean."""
    p99_ns: int | None = None
    """Device time of a call, the 99th percentile."""
    tensor_core: bool | None = None
    """As `Operator.tensor_core`."""
    flops: int | None = None
    """As `Operator.flops`."""
    bytes: int | None = None
    """As `Operator.bytes`."""
    peak_share: float | None = None
    """As `Operator.peak_share`."""
    memory_peak_share: float | None = None
    """As `Operator.memory_peak_share`."""
    bound: Bound | None = None
    """As `Operator.bound`."""
    is_aligned: bool | None = None
    """Of a matrix product on tensor cores: whether every dimension fills whole 16-byte pieces, as fast
    kernels need; absent of other ops."""


class Module(Part, frozen=True, kw_only=True):
    """One module of the model by its place, with the device time that its calls launched."""

    path: str
    """Names of the modules from the outermost to this one, joined by `/`."""
    device_ns: int
    """Launched in it and in no module inside it."""
    total_ns: int
    """Launched in it and in all modules inside it."""
    rank: int | None = None
    """Absent where the trace names none."""
    share: float | None = None
    """`total_ns` of the summed durations of all device activities in scope."""
    forward_ns: int | None = None
    """The part of `total_ns` in the forward pass; absent where the trace marks no phases."""
    backward_ns: int | None = None
    """The part of `total_ns` in the backward pass, recomputation included: linked to the module by autograd's
    sequence numbers; absent where the trace marks no phases."""


class Efficiency(Part, frozen=True, kw_only=True):
    """Arithmetic of one device against what it can do, over the row of the accounting that decides.

    HFU counts all matrix arithmetic that ran, MFU only what the model needs: without recomputation.
    """

    device: Device
    """Whose arithmetic."""
    total_ns: int
    """The time it is measured against: all time of the row."""
    rank: int | None = None
    """Absent where the trace names none."""
    flops: int | None = None
    """Of matrix products, convolutions and attention of known shape."""
    recomputed_flops: int | None = None
    """The part of `flops` that repeats forward work in the backward pass (checkpointed regions, scores of
    fused attention); absent where phases are unknown."""
    known_share: float | None = None
    """Device time of matrix work whose arithmetic is known, of the device time of all matrix work."""
    model_flops: int | None = None
    """Arithmetic that the model needs: as given, else `flops` without `recomputed_flops`; absent where the
    arithmetic of over a tenth of the matrix work, by its device time, is unknown."""
    is_given: bool | None = None
    """True where `model_flops` were given and not derived."""
    hfu: float | None = None
    """Time that `flops` take at the peak of each op's precision, of `total_ns`."""
    mfu: float | None = None
    """Time that `model_flops` take at the peak, of `total_ns`."""
    precision: str | None = None
    """The precision of most of the arithmetic: its peak is the one to compare with."""
    peak_flops_per_second: float | None = None
    """The dense peak of the device in that precision; absent where it is unknown."""


class Kernel(Part, frozen=True, kw_only=True):
    """One kernel by name."""

    name: str
    """The kernel's name, as in the trace."""
    count: int
    """How often it ran."""
    device_ns: int
    """Sum of its durations."""
    rank: int | None = None
    """Absent where the trace names none."""
    class_: str | None = field(name="class", default=None)
    """What it computes, by its name."""
    share: float | None = None
    """`device_ns` of the summed durations of all kernels (no copies or sets) of the rank's counted and marked
    steps, of the whole trace where there are none; absent where that sum is 0."""
    mean_ns: int | None = None
    """Its mean duration."""
    p99_ns: int | None = None
    """The 99th percentile of its durations."""
    launch_latency_ns: int | None = None
    """Median time from the start of a launching call to its start: time in the queue is part of it; absent
    without a recorded launch."""
    after_idle_count: int | None = None
    """How often it began within a millisecond of an idle time of a millisecond or more; absent under 3."""
    after_idle_ratio: float | None = None
    """Its duration then over the median of its runs with the same grid: the median; above 1 where clocks have
    to rise again."""


class Collective(Part, frozen=True, kw_only=True):
    """One kind of collective on one group."""

    kind: str
    """`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `reduce`, `send`, `recv`,
    `send_recv`, `barrier` or `other`."""
    count: int
    """How often it ran with this message size, over the whole trace."""
    group: str | None = None
    """The process group's name; absent where it was not recorded."""
    bytes: int | None = None
    """Size of one message: the larger of what goes in and out of this rank, not the sum; absent where it was
    not recorded."""
    transfer_ns: int | None = None
    """The part in which every rank had arrived, summed over calls and ranks; absent without the other
    ranks."""
    wait_ns: int | None = None
    """The part spent waiting for a later rank, summed over calls and ranks; absent without the other
    ranks."""
    wait_exposed_ns: int | None = None
    """The part of `wait_ns` that no computation of the waiting rank hides."""
    last_rank: int | None = None
    """The rank that arrives last most often, absent without the other ranks and where no arrival is later
    than the clocks can tell."""
    skew_ns: int | None = None
    """Last start less first start, the median over calls; absent without the other ranks."""
    num_ranks: int | None = None
    """How many ranks were matched; absent where a row is of one rank alone."""
    num_unmatched: int | None = None
    """Calls of any rank without partner: cut off by a window, or dropped by the profiler."""
    algorithm_bytes_per_second: float | None = None
    """Median of `bytes` over the transfer, waiting excluded; absent without the other ranks, or where it is
    more than the link carries."""
    bus_bytes_per_second: float | None = None
    """Median bus bandwidth as nccl-tests defines it: of the transfer where the other ranks are known, else
    waiting included, a lower bound of what the link did; absent where kind, size or group do not allow one,
    or where it is more than the link carries."""
    link_share: float | None = None
    """`bus_bytes_per_second` of one direction of the device's link; absent where the device is not in our
    table."""
