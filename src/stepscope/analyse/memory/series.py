"""One device's memory over time: its levels, the shape of them in few points, and their peaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model import report
from stepscope.model.trace import ABSENT_I64, I32, I64, Memory

MOST_POINTS = 200
BUCKETS = 64
"""Three points a stretch, both ends and the least reserve: at most 196 points."""


@dataclass(frozen=True, slots=True)
class Series:
    """Allocator events of one device in order of time, equally long columns.

    `allocated` and `reserved` are levels behind each event; `reserved` is `None` where it was not recorded.
    `bytes` is the event's change, positive for an allocation. `address` is `ABSENT_I64` where not recorded.
    With the basis `changes` the levels are sums of changes above the lowest of them.
    """

    ts_ns: I64
    allocated: I64
    reserved: I64 | None
    bytes: I64
    address: I64
    track_id: I32
    basis: report.MemoryBasis

    def __len__(self) -> int:
        return len(self.ts_ns)

    @property
    def before(self) -> int:
        """The level before the first event."""
        return int(self.allocated[0] - self.bytes[0])


def series_of(memory: Memory, chosen: npt.NDArray[np.bool_], *, is_host: bool) -> Series:
    """The chosen events (one device's, at least one) in order of time, ties as they stand in the file.

    A host has no caching allocator: its `reserved` is not read.
    """
    row = np.flatnonzero(chosen)
    row = row[np.lexsort((memory.index[row], memory.ts_ns[row]))]
    change, total, held = memory.bytes[row], memory.total_allocated[row], memory.total_reserved[row]
    has_totals = not (total == ABSENT_I64).any()
    if has_totals:
        allocated = total
    else:
        allocated = np.cumsum(change)
        # Before the first event lies the level 0; none may be below 0.
        allocated = allocated - min(0, int(allocated.min()))
    has_reserve = has_totals and not is_host and not (held == ABSENT_I64).any()
    return Series(
        ts_ns=memory.ts_ns[row],
        allocated=allocated,
        reserved=held if has_reserve else None,
        bytes=change,
        address=memory.address[row],
        track_id=memory.track_id[row],
        basis="totals" if has_totals else "changes",
    )


def points(series: Series) -> tuple[report.MemoryPoint, ...]:
    """The timeline in at most `MOST_POINTS` points.

    Kept are the first, the last, the highest and lowest of both levels, and of each of `BUCKETS` equal
    stretches of time the highest and lowest level and the highest reserve.
    """
    if len(series) <= MOST_POINTS:
        place = np.arange(len(series))
    else:
        place = np.unique([0, len(series) - 1, *_extremes(series)])
    reserved = series.reserved
    return tuple(
        report.MemoryPoint(
            at_ns=int(series.ts_ns[i]),
            allocated_bytes=int(series.allocated[i]),
            reserved_bytes=None if reserved is None else int(reserved[i]),
        )
        for i in place.tolist()
    )


def _extremes(series: Series) -> list[int]:
    begin, end = int(series.ts_ns[0]), int(series.ts_ns[-1])
    edges = begin + (end - begin) * np.arange(BUCKETS + 1, dtype=object) // BUCKETS
    cuts = np.searchsorted(series.ts_ns, edges[1:-1].astype(np.int64))
    found: list[int] = []
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(series)], strict=True):
        if low == high:
            continue
        level = series.allocated[low:high]
        found += [low + int(level.argmax()), low + int(level.argmin())]
        if series.reserved is not None:
            found.append(low + int(series.reserved[low:high].argmax()))
    if series.reserved is not None:
        found.append(int(series.reserved.argmin()))
    return found


def reserve(series: Series) -> report.MemoryReserve | None:
    """The moment with the largest reserve, `None` where none was recorded.

    Where the reserve grew to it within the recording, that moment; else, of all moments with as much, the
    one with the most handed out: it says the least of what lay unused.
    """
    held = series.reserved
    if held is None or int(held.max()) <= 0:
        return None
    most = int(held.max())
    grew = int(held[0]) < most
    at = int(held.argmax())
    if not grew:
        same = np.flatnonzero(held == most)
        at = int(same[series.allocated[same].argmax()])
    allocated = int(series.allocated[at])
    return report.MemoryReserve(
        at_ns=int(series.ts_ns[at]),
        reserved_bytes=most,
        allocated_bytes=allocated,
        unused_share=max(0.0, (most - allocated) / most),
        grew=grew,
    )


def peaks_of(series: Series, start_ns: I64, end_ns: I64) -> list[int | None]:
    """The highest level within each [start, end), the level it began with included.

    `None` for a stretch that ends before the first event: nothing is known of it.
    """
    found: list[int | None] = []
    first = np.searchsorted(series.ts_ns, start_ns, side="left").tolist()
    last = np.searchsorted(series.ts_ns, end_ns, side="left").tolist()
    for low, high in zip(first, last, strict=True):
        if high == 0:
            found.append(None)
            continue
        carried = int(series.allocated[low - 1]) if low else series.before
        found.append(max(carried, int(series.allocated[low:high].max())) if high > low else carried)
    return found
