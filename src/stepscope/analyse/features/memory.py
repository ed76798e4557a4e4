"""Named numbers of a device's memory that rules are written in.

A device may have two recordings of its memory, a trace's and a snapshot's. Growth needs steps and is the
trace's; of the rest the snapshot's number is taken where there is one, for it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepscope.analyse.features import has_device
from stepscope.model import report
from stepscope.model.feature import Feature, Observed

STEPS_OF_GROWTH = 50
"""Growth is told for as many steps: TraceML's."""


def recordings(observed: Observed) -> list[report.Memory]:
    """The recordings of this device's memory, a snapshot's first; none of a run without a device."""
    if not has_device(observed):
        return []
    index = observed.device.accounting.device.index
    own = [each for each in observed.rank.memory if each.device.kind != "cpu" and each.device.index == index]
    return sorted(own, key=lambda each: each.source != "snapshot")


def _first(of: Callable[[report.Memory], float | None]) -> Callable[[Observed], float | None]:
    """The number of the first recording that has it."""

    def value(observed: Observed) -> float | None:
        return next((found for each in recordings(observed) if (found := of(each)) is not None), None)

    return value


def _feature(name: str, unit: str, help: str, of: Callable[[report.Memory], float | None]) -> Feature:
    return Feature(name, unit, help, _first(of), origin="memory")


# ── growth ───────────────────────────────────────────────────────────────────────────────────────────────


def _growth(of: Callable[[report.MemoryGrowth], float]) -> Callable[[report.Memory], float | None]:
    return lambda memory: None if memory.growth is None else of(memory.growth)


memory_growth_50_steps = _feature(
    "memory_growth_50_steps",
    "B",
    "How much the peak of allocated memory of a step rises in 50 steps, by the median slope between steps.",
    _growth(lambda growth: growth.bytes_per_step * STEPS_OF_GROWTH),
)
memory_growth_certainty = _feature(
    "memory_growth_certainty",
    "σ",
    "Mann-Kendall's statistic of step peaks: how far beyond chance later ones are the higher ones.",
    _growth(lambda growth: growth.certainty),
)
memory_growth_steady_share = _feature(
    "memory_growth_steady_share",
    "ratio",
    "The smaller growth of the two halves of the steps, of the whole growth: 0 for a single jump.",
    _growth(lambda growth: growth.steady_share),
)

# ── fragmentation ────────────────────────────────────────────────────────────────────────────────────────


def _in_pieces(memory: report.Memory) -> float | None:
    """At the latest failure, else as it is held; of a trace, where the reserve grew."""
    failed = next(iter(memory.out_of_memory), None)
    # Pieces of other pools serve nobody here, however large they are.
    if failed is not None and failed.reason == "other_pool":
        return None
    if failed is not None and failed.unallocated_bytes is not None and failed.reserved_bytes:
        largest = failed.largest_free_bytes or 0
        return (failed.unallocated_bytes - largest) / failed.reserved_bytes
    if memory.held is not None and memory.held.reserved_bytes:
        # Segments of which nothing is in use are whole, however many: they can be given back.
        held = memory.held
        return min(held.inactive_split_bytes, held.free_bytes - held.largest_free_bytes) / held.reserved_bytes
    # A reserve that did not grow served every request: what lay unused then says nothing.
    return memory.reserve.unused_share if memory.reserve is not None and memory.reserve.grew else None


memory_in_pieces_share = _feature(
    "memory_in_pieces_share",
    "ratio",
    "Reserved memory that lay free in pieces beside blocks in use, of all reserved. Of a trace: what lay "
    "unused when the reserve grew to its largest; an upper limit.",
    _in_pieces,
)
memory_retries = _feature(
    "memory_retries",
    "",
    "How often the allocator gave memory back to the driver and then asked for more: in steps, or in a "
    "snapshot's history where the driver had no more (empty_cache() does not count).",
    lambda memory: None if memory.driver is None else memory.driver.num_retries,
)
expandable_segments_share = _feature(
    "expandable_segments_share",
    "ratio",
    "1 where the allocator's segments can grow (expandable_segments:True), 0 where they cannot.",
    lambda memory: (
        None
        if memory.held is None or memory.held.expandable_segments is None
        else float(memory.held.expandable_segments)
    ),
)
memory_peak_bytes = _feature(
    "memory_peak_bytes",
    "B",
    "The most memory handed out to tensors in the recording.",
    lambda memory: None if memory.peak is None else memory.peak.allocated_bytes,
)
memory_reserved_bytes = _feature(
    "memory_reserved_bytes",
    "B",
    "The most memory that the allocator held in the recording, or what it holds in a snapshot.",
    lambda memory: (
        memory.held.reserved_bytes
        if memory.held is not None
        else None
        if memory.reserve is None
        else memory.reserve.reserved_bytes
    ),
)

# ── failed requests ──────────────────────────────────────────────────────────────────────────────────────


def _failures(memory: report.Memory) -> float | None:
    """Only a snapshot's history tells; without one, none is not measured."""
    return len(memory.out_of_memory) if memory.source == "snapshot" and memory.driver is not None else None


oom_count = _feature(
    "oom_count",
    "",
    "Requests for device memory that failed, in a snapshot's history (20 at most).",
    _failures,
)


def _of_reason(reason: report.OomReason) -> Callable[[report.Memory], float | None]:
    def share(memory: report.Memory) -> float | None:
        failed = memory.out_of_memory
        return sum(each.reason == reason for each in failed) / len(failed) if failed else None

    return share


oom_fragmented_share = _feature(
    "oom_fragmented_share",
    "ratio",
    "Failed requests for which enough lay free in all, but not in one piece, of all failed ones.",
    _of_reason("fragmented"),
)
oom_other_pool_share = _feature(
    "oom_other_pool_share",
    "ratio",
    "Failed requests for which enough lay free only with the pools of other streams or private pools, of all "
    "failed ones.",
    _of_reason("other_pool"),
)
oom_too_big_share = _feature(
    "oom_too_big_share",
    "ratio",
    "Failed requests that were larger than all that lay free, of all failed ones.",
    _of_reason("too_big"),
)
oom_outside_share = _feature(
    "oom_outside_share",
    "ratio",
    "Failed requests that the driver refused although it reported enough free, of all failed ones.",
    _of_reason("outside"),
)


def _latest(name: str, help: str, of: Callable[[report.OutOfMemory], int | None]) -> Feature:
    def value(memory: report.Memory) -> float | None:
        failed: Iterable[report.OutOfMemory] = memory.out_of_memory
        return next((of(each) for each in failed), None)

    return _feature(name, "B", help, value)


oom_requested_bytes = _latest(
    "oom_requested_bytes", "What the latest failed request asked for.", lambda each: each.requested_bytes
)
oom_unallocated_bytes = _latest(
    "oom_unallocated_bytes",
    "What was reserved and unallocated when the latest request failed.",
    lambda each: each.unallocated_bytes,
)
oom_largest_free_bytes = _latest(
    "oom_largest_free_bytes",
    "The largest free piece of that.",
    lambda each: each.largest_free_bytes,
)
oom_device_free_bytes = _latest(
    "oom_device_free_bytes",
    "What the driver reported free when the latest request failed.",
    lambda each: each.device_free_bytes,
)
