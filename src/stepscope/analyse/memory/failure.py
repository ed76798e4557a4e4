"""Requests for memory that failed, and what lay free at that moment.

A snapshot shows the present. What lay free when a request failed is reckoned back from it along the history:
what was allocated since is taken away, what was freed since is put back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from stepscope.analyse.memory.frame import MOST_FRAMES, site
from stepscope.model import report
from stepscope.model.snapshot import Action, Snapshot, State
from stepscope.model.trace import ABSENT_I64, I64

MOST_FAILURES = 20
"""Failed requests that a report tells of, the latest ones."""
GRAIN = 512
"""Blocks are multiples of this."""


Pool = tuple[int, bool]
"""A stream, ABSENT_I64 where not recorded, and whether the pool is one of its own. Memory of one serves no
request of another."""


@dataclass
class Reserve:
    """What the allocator holds at one moment: ranges of memory, and the blocks in use within them."""

    ranges: dict[int, int] = field(default_factory=dict)
    """Start -> end of what the driver gave; ranges that touch stay apart, no block spans them."""
    used: dict[int, int] = field(default_factory=dict)
    """Start -> end of a block in use."""
    growing: set[int] = field(default_factory=set)
    """Starts of ranges of expandable segments: those that touch are one."""
    pools: dict[int, Pool] = field(default_factory=dict)
    """Start of a range -> whose it is; one that is missing may serve anybody."""

    def take(self, start: int, end: int) -> None:
        """Take a range away; what lies around it stays."""
        for low, high in [(s, e) for s, e in self.ranges.items() if s < end and e > start]:
            del self.ranges[low]
            is_growing, pool = low in self.growing, self.pools.pop(low, None)
            self.growing.discard(low)
            for left, right in ((low, min(high, start)), (max(low, end), high)):
                if left < right:
                    self.ranges[left] = right
                    if is_growing:
                        self.growing.add(left)
                    if pool is not None:
                        self.pools[left] = pool

    def give(self, start: int, end: int, *, is_growing: bool, pool: Pool | None = None) -> None:
        """Put a range back; one of an expandable segment joins those of its kind that it touches."""
        if is_growing:
            for low in [s for s in self.growing if self.ranges[s] == start or s == end]:
                start, end = min(start, low), max(end, self.ranges.pop(low))
                self.growing.discard(low)
                pool = self.pools.pop(low, pool)
            self.growing.add(start)
        self.ranges[start] = end
        if pool is not None:
            self.pools[start] = pool

    def pieces(self) -> list[tuple[int, Pool | None]]:
        """Sizes of the free pieces, each within one range, and whose they are."""
        found: list[tuple[int, Pool | None]] = []
        used = sorted(self.used.items())
        place = 0
        for low, high in sorted(self.ranges.items()):
            at, pool = low, self.pools.get(low)
            while place < len(used) and used[place][0] < high:
                start, end = used[place]
                place += 1
                if start > at:
                    found.append((start - at, pool))
                at = max(at, end)
            if at < high:
                found.append((high - at, pool))
        return found


def reserve_of(snapshot: Snapshot, device: int) -> Reserve:
    """What a device's allocator holds when the snapshot is taken."""
    segments, blocks = snapshot.segments, snapshot.blocks
    made = Reserve()
    own = segments.device == device
    for start, size, grows, stream, is_private in zip(
        segments.address[own].tolist(),
        segments.bytes[own].tolist(),
        segments.is_expandable[own].tolist(),
        segments.stream[own].tolist(),
        segments.is_private[own].tolist(),
        strict=True,
    ):
        made.ranges[start] = start + size
        made.pools[start] = (stream, is_private)
        if grows:
            made.growing.add(start)
    held = own[blocks.segment] & (blocks.state != State.FREE) if len(blocks.segment) else np.zeros(0, bool)
    made.used = {
        start: start + size
        for start, size in zip(blocks.address[held].tolist(), blocks.bytes[held].tolist(), strict=True)
    }
    return made


def failures(snapshot: Snapshot, device: int) -> tuple[report.OutOfMemory, ...]:
    """The failed requests of a device, latest first, at most `MOST_FAILURES`."""
    history = snapshot.history
    own = np.flatnonzero(history.device == device)
    failed = own[history.action[own] == Action.OOM][-MOST_FAILURES:]
    if not len(failed):
        return ()
    state, is_estimate = reserve_of(snapshot, device), False
    found: list[report.OutOfMemory] = []
    later = own[own >= failed[0]][::-1]
    for row in later.tolist():
        action, start, size = int(history.action[row]), int(history.address[row]), int(history.bytes[row])
        if action == Action.OOM:
            found.append(_failure(snapshot, row, state, is_estimate))
            continue
        is_estimate = True
        _undo(state, action, start, size, int(history.stream[row]))
    return tuple(found)


def _undo(state: Reserve, action: int, start: int, size: int, stream: int) -> None:
    """Turn one entry of the history back."""
    end = start + size
    if action == Action.ALLOC:
        state.used.pop(start, None)
    elif action == Action.FREE:
        state.used[start] = start + -(-size // GRAIN) * GRAIN
    elif action in (Action.SEGMENT_ALLOC, Action.SEGMENT_MAP):
        state.take(start, end)
    elif action in (Action.SEGMENT_FREE, Action.SEGMENT_UNMAP):
        state.give(start, end, is_growing=action == Action.SEGMENT_UNMAP, pool=(stream, False))


def _failure(snapshot: Snapshot, row: int, state: Reserve, is_estimate: bool) -> report.OutOfMemory:
    history = snapshot.history
    requested = int(history.bytes[row])
    free = int(history.device_free_bytes[row])
    at = int(history.ts_ns[row])
    stack = snapshot.stacks[history.stack[row]] if history.stack[row] >= 0 else ()
    both = state.pieces()
    pieces = [piece for piece, _ in both]
    usable = [piece for piece, pool in both if _serves(pool, int(history.stream[row]))]
    reserved, unallocated = sum(end - start for start, end in state.ranges.items()), sum(pieces)
    known_free = None if free == ABSENT_I64 else free
    return report.OutOfMemory(
        requested_bytes=requested,
        reason=reason(requested, pieces, usable, known_free),
        at_ns=None if at == ABSENT_I64 else at,
        device_free_bytes=known_free,
        reserved_bytes=reserved,
        allocated_bytes=reserved - unallocated,
        unallocated_bytes=unallocated,
        num_free_blocks=len(pieces),
        largest_free_bytes=max(pieces, default=0),
        is_estimate=is_estimate,
        name=site(stack) if stack else None,
        stack=stack[:MOST_FRAMES],
    )


def _serves(pool: Pool | None, stream: int) -> bool:
    """Whether memory of a pool may serve a request of a stream; what was not recorded may."""
    if pool is None:
        return True
    return not pool[1] and (pool[0] == stream or ABSENT_I64 in (pool[0], stream))


def reason(
    requested: int, pieces: Sequence[int], usable: Sequence[int], device_free: int | None
) -> report.OomReason:
    """Why a request failed: what the driver had is looked at first, then what the allocator held unused.

    `pieces` are all that lay free, `usable` those of the request's own stream outside private pools. The
    allocator gives whole unused segments back before it gives up: what is left unallocated lies in
    segments that something else of is in use, or in other pools. A piece as large as the request was not one
    of many that are too small, whatever kept it from serving.
    """
    if device_free is not None and device_free >= driver_bytes(requested):
        return "outside"
    if max(usable, default=0) >= requested:
        return "unknown"
    if sum(usable) + (device_free or 0) >= requested:
        return "fragmented"
    if sum(pieces) + (device_free or 0) >= requested:
        return "other_pool"
    return "unknown" if device_free is None else "too_big"


DRIVER_SIZES: tuple[tuple[int, int], ...] = ((1 << 20, 2 << 20), (10 << 20, 20 << 20))
"""Up to 1 MiB a segment of 2 MiB is asked for, below 10 MiB one of 20 MiB."""
DRIVER_GRAIN = 2 << 20


def driver_bytes(requested: int) -> int:
    """What the allocator asks of the driver for a request: small ones share a segment, large ones are rounded
    up to 2 MiB (PyTorch's allocator, as its notes on CUDA describe it)."""
    small, large = DRIVER_SIZES
    if requested <= small[0]:
        return small[1]
    if requested < large[0]:
        return large[1]
    return -(-requested // DRIVER_GRAIN) * DRIVER_GRAIN


CLEARED = re.compile(r"(^|[ .:])(empty_?cache|emptyCache)\b")
"""In a stack: somebody gave the cache back of their own accord."""


def driver_calls(snapshot: Snapshot, rows: I64) -> tuple[int, int, int]:
    """Allocations and frees of segments in these rows of the history, and how often the driver had no more
    and the allocator gave segments back to be given others (`retries`)."""
    history = snapshot.history
    is_cleared = np.array([any(map(CLEARED.search, stack)) for stack in snapshot.stacks] + [False])
    return retries(
        history.action[rows].tolist(), history.bytes[rows].tolist(), is_cleared[history.stack[rows]].tolist()
    )


def retries(actions: Sequence[int], sizes: Sequence[int], is_cleared: Sequence[bool]) -> tuple[int, int, int]:
    """Allocations and frees of segments, and retries: frees followed at once by an allocation that, on top of
    what was held before them, is more than was ever held. What fitted at another time was not refused by the
    driver. Frees whose stack clears the cache are none.
    """
    change = {
        Action.SEGMENT_ALLOC: 1,
        Action.SEGMENT_MAP: 1,
        Action.SEGMENT_FREE: -1,
        Action.SEGMENT_UNMAP: -1,
    }
    signs = [change.get(Action(action), 0) for action in actions]
    # Relative to what was held when the history begins.
    level = [0, *accumulate(sign * size for sign, size in zip(signs, sizes, strict=True))]
    most = max(level)
    num_retries, before = 0, None
    for place, (sign, size, cleared) in enumerate(zip(signs, sizes, is_cleared, strict=True)):
        if sign < 0:
            before = None if cleared else level[place] if before is None else before
            continue
        if sign > 0 and before is not None and before + size > most:
            num_retries += 1
        before = None
    return signs.count(1), signs.count(-1), num_retries
