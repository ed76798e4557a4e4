"""Operators, kernels, collectives and stragglers."""

from __future__ import annotations

from msgspec import field

from stepscope.model.report.base import Bound, Part, Persistence


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
    """The part in which every rank had arrived; absent without the other ranks."""
    wait_ns: int | None = None
    """The part spent waiting for a later rank; absent without the other ranks."""
    last_rank: int | None = None
    """The rank that arrives last; absent without the other ranks."""
    bus_bytes_per_second: float | None = None
    """Median bus bandwidth as nccl-tests defines it, waiting included: a lower bound of what the link did;
    absent where kind, size or group do not allow one, or where it is more than the link carries."""
    link_share: float | None = None
    """`bus_bytes_per_second` of one direction of the device's link; absent where the device is not in our
    table."""


class Straggler(Part, frozen=True, kw_only=True):
    """A rank that others wait for."""

    rank: int
    """Who is late."""
    lateness_ns: int
    """The median lateness against the median rank, over the steps in which it is late."""
    cost_ns: int
    """What the others wait for it, over the window: the last start less the second-last."""
    persistence: Persistence
    """Whether it is the same rank always, a different one each step, or a pipeline stage."""
    reason: str
    """A cause of `idle` without `_ns`, `slower_kernels`, `more_work` or `unknown`."""
    share: float | None = None
    """`cost_ns` of the window."""
