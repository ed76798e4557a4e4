"""What fills a device's memory: over time, at its peak, step by step, and when a request failed."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from stepscope.model.report.account import Device
from stepscope.model.report.base import Part, written

MemorySource = Literal["trace", "snapshot"]
MemoryBasis = Literal["totals", "changes"]
MemoryKind = Literal["before", "activations", "gradients", "optimizer_state", "other"]
MEMORY_KINDS: tuple[MemoryKind, ...] = ("before", "activations", "gradients", "optimizer_state", "other")
OomReason = Literal["fragmented", "other_pool", "too_big", "outside", "unknown"]


class MemoryPoint(Part, frozen=True, kw_only=True):
    """One point of the timeline; what it says holds until the next one."""

    at_ns: int
    """When."""
    allocated_bytes: int
    """Handed out to tensors."""
    reserved_bytes: int | None = None
    """Held by the caching allocator, handed out or not; absent where not recorded and for host memory."""


class MemoryPeak(Part, frozen=True, kw_only=True):
    """The moment with the most memory handed out."""

    at_ns: int
    """When it was first reached."""
    allocated_bytes: int
    """Handed out then."""
    reserved_bytes: int | None = None
    """Held by the allocator then."""
    step: int | None = None
    """The step in which it was; absent outside every marked step."""
    op: str | None = None
    """The innermost op of the thread that allocated, else its innermost annotation; absent without either.
    Of a snapshot: the innermost frame of the stack that is not the framework's."""
    within: str | None = None
    """The outermost op or annotation around it on the thread, step marks apart; absent where that is it."""


class MemoryReserve(Part, frozen=True, kw_only=True):
    """The moment with the most memory held by the allocator."""

    at_ns: int
    """When it was reached; where it is reached often, with the most handed out."""
    reserved_bytes: int
    """Held by the allocator."""
    allocated_bytes: int
    """Handed out at that moment."""
    unused_share: float
    """`reserved_bytes` less `allocated_bytes`, of `reserved_bytes`. The allocator asks the driver for more
    only when nothing it holds fits: this much did not. It includes what other streams and pools hold, so it
    is an upper limit of fragmentation."""
    grew: bool
    """Whether this level was reached within the recording; otherwise it was there when the recording began,
    and nothing is known of how full it was when it was reached."""


class MemoryStep(Part, frozen=True, kw_only=True):
    """The most memory handed out in one step."""

    step: int
    """The step's number."""
    peak_bytes: int
    """The most handed out between its start and its end."""


class MemoryGrowth(Part, frozen=True, kw_only=True):
    """How the peaks of the counted steps rise."""

    bytes_per_step: float
    """Theil-Sen slope: the median of the slopes between all pairs of steps. Negative where they fall."""
    error_bytes_per_step: float
    """Standard error of a slope under noise as large as the residuals' (1.4826 times their median absolute
    deviation, at least one allocation unit of 512 bytes)."""
    certainty: float
    """Mann-Kendall's statistic: by how many standard deviations of chance later steps have higher peaks than
    earlier ones, whatever the noise is like. Negative where they have lower ones."""
    steady_share: float
    """The smaller slope of the two halves of the steps, of `bytes_per_step`, within 0..1: near 1 for what
    grows all the time, 0 for a single jump."""
    num_steps: int
    """How many counted steps it is of."""


class MemoryCategory(Part, frozen=True, kw_only=True):
    """An estimate of what memory alive at the peak is for, by the phase in which it was allocated."""

    kind: MemoryKind
    """`before`: it was there before the first step or before the recording (parameters, buffers, and in a
    run under way optimizer state too); `activations`: allocated in a forward pass; `gradients`: in a backward
    pass; `optimizer_state`: in an optimizer's step; `other`: between steps, or on other threads."""
    bytes: int
    """How much of the peak."""
    share: float
    """`bytes` of the peak."""


class DriverCalls(Part, frozen=True, kw_only=True):
    """Calls of the driver that allocate and free device memory, within the counted and marked steps."""

    num_allocations: int
    """Calls such as `cudaMalloc`, or segments allocated by a snapshot's history."""
    num_frees: int
    """Calls such as `cudaFree`, or segments freed by a snapshot's history."""
    num_retries: int
    """How often frees were followed by an allocation in the same step: memory was given back to be asked for
    again. Of a snapshot: at once, by one for which there had been no room."""
    steps: tuple[int, ...] = field(default_factory=written)
    """The steps with such calls; empty for a snapshot, whose history knows no steps."""


class HeldMemory(Part, frozen=True, kw_only=True):
    """What the allocator held when a snapshot was taken, exactly, from its blocks."""

    reserved_bytes: int
    """Sum of all segments."""
    allocated_bytes: int
    """Sum of the blocks that tensors hold."""
    requested_bytes: int
    """What was asked for in them; the rest is rounding."""
    pending_bytes: int
    """Sum of the freed blocks that wait for another stream."""
    free_bytes: int
    """Sum of the free blocks, all that is reserved and not in use."""
    largest_free_bytes: int
    """The largest free block: a larger request needs more from the driver."""
    free_in_pieces_share: float | None = None
    """1 - `largest_free_bytes` / `free_bytes`; absent without free bytes."""
    inactive_split_bytes: int
    """Free bytes of segments that something else of is in use: they cannot be given back to the driver."""
    num_segments: int
    """How many segments."""
    num_blocks: int
    """How many blocks, free ones included."""
    num_free_blocks: int
    """How many free blocks."""
    expandable_segments: bool | None = None
    """Whether segments can grow (`expandable_segments:True`), by the settings, else by the segments; absent
    where neither says."""


class MemorySite(Part, frozen=True, kw_only=True):
    """Who holds memory in a snapshot: one stack of calls."""

    bytes: int
    """Sum of the blocks it allocated that are still held."""
    count: int
    """How many blocks."""
    share: float
    """`bytes` of all held bytes of the device."""
    name: str
    """The innermost frame outside the framework; `no stack` where none was recorded."""
    stack: tuple[str, ...] = field(default_factory=written)
    """Frames, innermost first, at most 24."""


class OutOfMemory(Part, frozen=True, kw_only=True):
    """A request that failed."""

    requested_bytes: int
    """What was asked for."""
    reason: OomReason
    """`fragmented`: as much was reserved and free, but not in one piece; `other_pool`: only together with
    what lay free in the pools of other streams or in private ones; `too_big`: reserved and free bytes
    together were less than asked for; `outside`: the driver reported enough free memory and refused all the
    same; `unknown`: the data do not tell."""
    at_ns: int | None = None
    """When; absent where not recorded."""
    device_free_bytes: int | None = None
    """What the driver reported free; absent where not recorded."""
    reserved_bytes: int | None = None
    """What the allocator held."""
    allocated_bytes: int | None = None
    """What was in use of it, blocks that wait for another stream included."""
    unallocated_bytes: int | None = None
    """Reserved but unallocated: free within what the allocator held."""
    num_free_blocks: int | None = None
    """In how many pieces that lay."""
    largest_free_bytes: int | None = None
    """The largest of them."""
    is_estimate: bool
    """Whether memory changed after the failure, so that the numbers were reckoned back along the history."""
    name: str | None = None
    """The innermost frame outside the framework; absent where no stack was recorded."""
    stack: tuple[str, ...] = field(default_factory=written)
    """Frames, innermost first, at most 24."""


class Memory(Part, frozen=True, kw_only=True):
    """The memory of one (rank, device), by one recording."""

    source: MemorySource
    """`trace`: allocator events of a profiler's trace; `snapshot`: PyTorch's memory snapshot."""
    device: Device
    """The device, or `kind: cpu` for the host's memory."""
    basis: MemoryBasis
    """`totals`: bytes are the allocator's own totals; `changes`: the recording holds only changes, so bytes
    are above the lowest level in it: a lower limit."""
    num_events: int
    """Allocations and frees that were recorded."""
    rank: int | None = None
    """Absent where the recording names none."""
    input: int | None = None
    """The place in `inputs` of its file, where the file names no rank or is a snapshot."""
    unverified: bool | None = None
    """True where the format was read by its description and never compared with a real recording."""
    timeline: tuple[MemoryPoint, ...] = field(default_factory=written)
    """At most 200 points; the highest and the lowest of every stretch are kept."""
    peak: MemoryPeak | None = None
    """Absent where no history was recorded."""
    reserve: MemoryReserve | None = None
    """Absent where the allocator's reserve was not recorded, and for host memory."""
    steps: tuple[MemoryStep, ...] = field(default_factory=written)
    """Peaks of the counted and marked steps."""
    growth: MemoryGrowth | None = None
    """Absent with fewer than 10 counted steps."""
    categories: tuple[MemoryCategory, ...] = field(default_factory=written)
    """An estimate, largest first; empty where addresses, steps, or the passes of a training step were not
    recorded."""
    driver: DriverCalls | None = None
    """Absent where no calls, or no history of segments, were recorded."""
    held: HeldMemory | None = None
    """Only of a snapshot."""
    sites: tuple[MemorySite, ...] = field(default_factory=written)
    """Only of a snapshot: the 20 stacks that hold the most, largest first."""
    out_of_memory: tuple[OutOfMemory, ...] = field(default_factory=written)
    """Only of a snapshot: requests that failed, latest first, at most 20."""


class MemoryEstimate(Part, frozen=True, kw_only=True):
    """What the states of training need, reckoned from the number of parameters, beside what is used.

    What they leave of the memory in use is activations, the framework's cache and its fragments, buffers of
    collectives, and contexts.
    """

    num_parameters: int
    """As given."""
    weights_bytes: int
    """Of all parameters, undivided."""
    gradients_bytes: int
    """Of all parameters, undivided."""
    optimizer_bytes: int
    """Of all parameters, undivided: with mixed precision the copy in full precision is among them."""
    states_bytes: int
    """The sum of the three."""
    stage: int
    """What is sharded: 0 nothing, 1 the optimizer's states, 2 gradients too, 3 weights too."""
    num_shards: int
    """Ranks that it is sharded over."""
    num_slices: int
    """Tensor times pipeline parallel: each holds a part of all three."""
    per_device_bytes: int
    """What of it one device holds."""
    device: Device | None = None
    """Whose memory it is held against."""
    rank: int | None = None
    """Absent where it is not known."""
    used_bytes: int | None = None
    """The most memory in use; absent where it was not measured."""
    present_bytes: int | None = None
    """The device's memory; absent where it is not known."""
    unexplained_bytes: int | None = None
    """`used_bytes` less `per_device_bytes`; absent where that is negative: then it is divided further than
    given."""
    least_division: int | None = None
    """Where more was reckoned than is used: by how much the states must be divided at least."""
