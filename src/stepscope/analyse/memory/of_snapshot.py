"""A snapshot to the report's rows of memory, one a device."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.memory.failure import GRAIN, driver_calls, failures
from stepscope.analyse.memory.frame import MOST_FRAMES, NOBODY, site
from stepscope.analyse.memory.series import Series, points
from stepscope.model import report
from stepscope.model.snapshot import Action, Snapshot, State
from stepscope.model.trace import ABSENT_I64, I64

MOST_SITES = 20
_GROWS = (Action.ALLOC, Action.SEGMENT_ALLOC, Action.SEGMENT_MAP)
_SHRINKS = (Action.FREE, Action.SEGMENT_FREE, Action.SEGMENT_UNMAP)
_OF_BLOCKS = (Action.ALLOC, Action.FREE)


def memory_of_snapshot(
    snapshot: Snapshot, *, rank: int | None = None, place: int | None = None
) -> tuple[report.Memory, ...]:
    """One row a device that has a segment or a history; `place` is that of its file in the inputs."""
    devices = np.unique(np.concatenate([snapshot.segments.device, snapshot.history.device])).tolist()
    return tuple(_row(snapshot, device, rank, place) for device in devices)


def _row(snapshot: Snapshot, device: int, rank: int | None, place: int | None) -> report.Memory:
    history = snapshot.history
    own = np.flatnonzero(history.device == device)
    actions = history.action[own]
    changes = own[actions != Action.OOM]
    held = _held(snapshot, device)
    series = _series(snapshot, device, changes)
    peak = None
    if series is not None:
        at = int(series.allocated.argmax())
        stack = history.stack[changes[at]]
        peak = report.MemoryPeak(
            at_ns=int(series.ts_ns[at]),
            allocated_bytes=int(series.allocated[at]),
            reserved_bytes=None if series.reserved is None else int(series.reserved[at]),
            op=site(snapshot.stacks[stack]) if stack >= 0 else None,
        )
    num_allocations, num_frees, num_retries = driver_calls(snapshot, own)
    return report.Memory(
        source="snapshot",
        device=report.Device(index=device),
        basis="totals",
        num_events=int(np.isin(actions, _OF_BLOCKS).sum()),
        rank=rank,
        input=place,
        unverified=True,
        timeline=() if series is None else points(series),
        peak=peak,
        driver=report.DriverCalls(
            num_allocations=num_allocations, num_frees=num_frees, num_retries=num_retries
        )
        if len(own)
        else None,
        held=held,
        sites=_sites(snapshot, device),
        out_of_memory=failures(snapshot, device),
    )


def _held(snapshot: Snapshot, device: int) -> report.HeldMemory | None:
    """What is held, from the blocks; `None` without a segment of the device."""
    segments, blocks = snapshot.segments, snapshot.blocks
    own = segments.device == device
    if not own.any():
        return None
    mine = own[blocks.segment] if len(blocks.segment) else np.zeros(0, dtype=bool)
    is_free = mine & (blocks.state == State.FREE)
    is_active, is_pending = mine & (blocks.state == State.ACTIVE), mine & (blocks.state == State.PENDING)
    in_use = np.zeros(len(own), dtype=bool)
    in_use[blocks.segment[is_active | is_pending]] = True
    free = int(blocks.bytes[is_free].sum())
    largest = int(blocks.bytes[is_free].max(initial=0))
    return report.HeldMemory(
        reserved_bytes=int(segments.bytes[own].sum()),
        allocated_bytes=int(blocks.bytes[is_active].sum()),
        requested_bytes=int(blocks.requested_bytes[is_active].sum()),
        pending_bytes=int(blocks.bytes[is_pending].sum()),
        free_bytes=free,
        largest_free_bytes=largest,
        free_in_pieces_share=1 - largest / free if free else None,
        inactive_split_bytes=int(blocks.bytes[is_free & in_use[blocks.segment]].sum()) if len(mine) else 0,
        num_segments=int(own.sum()),
        num_blocks=int(mine.sum()),
        num_free_blocks=int(is_free.sum()),
        expandable_segments=_is_expandable(snapshot, device),
    )


def _is_expandable(snapshot: Snapshot, device: int) -> bool | None:
    said = snapshot.settings.get("expandable_segments")
    if said is not None:
        return said.strip().lower() in ("true", "1")
    own = snapshot.segments.device == device
    # A segment that cannot grow says nothing: pools of their own never do.
    return True if snapshot.segments.is_expandable[own].any() else None


def _series(snapshot: Snapshot, device: int, changes: I64) -> Series | None:
    """Levels along the history, reckoned back from what is held at its end.

    The history holds what was asked for: blocks are that, rounded up. `None` without an entry of a block,
    where times are missing, or where the levels would fall below nothing: then the two do not belong
    together.
    """
    history, blocks = snapshot.history, snapshot.blocks
    action = history.action[changes]
    ts = history.ts_ns[changes]
    if not np.isin(action, _OF_BLOCKS).any() or (ts == ABSENT_I64).any():
        return None
    sign = np.isin(action, _GROWS).astype(np.int64) - np.isin(action, _SHRINKS).astype(np.int64)
    is_block = np.isin(action, _OF_BLOCKS)
    size = history.bytes[changes]
    of_blocks = np.where(is_block, sign * (-(-size // GRAIN) * GRAIN), 0)
    of_segments = np.where(is_block, 0, sign * size)
    own = snapshot.segments.device == device
    is_held = (
        own[blocks.segment] & (blocks.state != State.FREE) if len(blocks.segment) else np.zeros(0, dtype=bool)
    )
    last = int((-(-blocks.requested_bytes[is_held] // GRAIN) * GRAIN).sum())
    allocated = last - (of_blocks.sum() - np.cumsum(of_blocks))
    reserved = int(snapshot.segments.bytes[own].sum()) - (of_segments.sum() - np.cumsum(of_segments))
    if int(allocated.min()) < 0:
        return None
    # Entries are in the order of what happened; their times come from several clocks' readings.
    return Series(
        ts_ns=np.maximum.accumulate(ts),
        allocated=allocated,
        reserved=reserved if int(reserved.min()) >= 0 else None,
        bytes=of_blocks,
        address=history.address[changes],
        track_id=np.zeros(len(changes), dtype=np.int32),
        basis="totals",
    )


def _sites(snapshot: Snapshot, device: int) -> tuple[report.MemorySite, ...]:
    """The stacks that hold the most, by the sum of their blocks."""
    blocks = snapshot.blocks
    if not len(blocks.segment):
        return ()
    is_held = (snapshot.segments.device == device)[blocks.segment] & (blocks.state != State.FREE)
    stack, size = blocks.stack[is_held], blocks.bytes[is_held]
    whole = int(size.sum())
    if not whole:
        return ()
    numbers, inverse, count = np.unique(stack, return_inverse=True, return_counts=True)
    total = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(total, inverse, size)
    told = []
    for i in np.argsort(-total, kind="stable")[:MOST_SITES].tolist():
        frames = snapshot.stacks[numbers[i]] if numbers[i] >= 0 else ()
        told.append(
            report.MemorySite(
                bytes=int(total[i]),
                count=int(count[i]),
                share=int(total[i]) / whole,
                name=site(frames) if frames else NOBODY,
                stack=frames[:MOST_FRAMES],
            )
        )
    return tuple(told)
