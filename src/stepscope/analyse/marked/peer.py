"""One rank's marks as its peers see them: its meetings as synchronising calls, and what lay before each."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.marked.account import Accounted
from stepscope.analyse.marked.meeting import Met
from stepscope.model.analysis import DeviceAnalysis
from stepscope.model.peer import (
    MAP_PARTS,
    SEGMENT_PARTS,
    CollectiveTable,
    KernelTable,
    PeerTable,
    StepTable,
    Strip,
)
from stepscope.model.trace import ABSENT_I64, I64

GROUP = "marks"
MOST_CELLS, LEAST_STEPS = 16_000, 200
"""Ranks are held against each other over the last steps of each, so many in all, and at least so many of
each."""


def most_steps(num_ranks: int) -> int:
    """Over how many of their last steps so many ranks are held against each other."""
    return max(LEAST_STEPS, MOST_CELLS // max(num_ranks, 1))


STRIP_CELLS = 1_200


def peer_table(
    of: Accounted,
    met: Met,
    device: DeviceAnalysis,
    *,
    world_size: int,
    host: str | None,
    clock: str | None,
    least_step: int,
    beyond: str | None,
) -> PeerTable:
    """The table of one rank from step `least_step` on. `beyond` is the phase in which it computes longer
    than its peers."""
    tiles = of.tiles
    scope = tiles.mask("counted", "marked") & (tiles.number >= least_step)
    mine = np.isin(met.step, tiles.number[scope])
    start, end = met.start_ns[mine], met.end_ns[mine]
    num = len(start)
    texts = ("all_reduce", GROUP)
    none = np.full(num, -1, dtype=np.int32)
    absent = np.full(num, ABSENT_I64, dtype=np.int64)
    zero = np.zeros(num, dtype=np.int64)
    low = np.append(start[:1], np.minimum(end[:-1], start[1:]))
    empty = np.empty(0, dtype=np.int64)
    return PeerTable(
        rank=of.rank,
        world_size=world_size,
        device=None,
        host=host,
        clock=clock,
        anchor="wall",
        texts=texts,
        collectives=CollectiveTable(
            kind_id=np.zeros(num, dtype=np.int32),
            group_id=np.ones(num, dtype=np.int32),
            ranks_id=none,
            sequence=met.key[mine],
            bytes=zero,
            dtype_id=none,
            group_size=zero,
            src=absent,
            dst=absent,
            device=none,
            stream=zero,
            start_ns=start,
            end_ns=end,
            step=met.step[mine],
            # A meeting holds its rank up however much of it is computing.
            exposed_ns=end - start,
            segment=of.pieces.table(low, start),
            num_kernels=zero,
        ),
        steps=StepTable(
            tiles.number[scope],
            tiles.start_ns[scope],
            tiles.end_ns[scope],
            tiles.start_ns[scope],
            tiles.end_ns[scope],
            tiles.mask("counted")[scope],
        ),
        kernels=KernelTable(empty, np.empty(0, dtype=np.int32), empty, empty),
        culprits={
            **{cause: found[0].name for cause, found in device.culprits.items() if found},
            **({"compute": beyond} if beyond is not None else {}),
        },
        strip=_strip(of, tiles.start_ns[scope], tiles.end_ns[scope]),
    )


def _strip(of: Accounted, start_ns: I64, end_ns: I64) -> Strip | None:
    """What took most of each cell of the time of these steps."""
    if not len(start_ns) or end_ns[-1] <= start_ns[0]:
        return None
    begin, until = int(start_ns[0]), int(end_ns[-1])
    cell = max(1, -(-(until - begin) // STRIP_CELLS))
    edges = np.arange(begin, until + cell, cell, dtype=np.int64)
    table = of.pieces.table(edges[:-1], edges[1:])
    place = np.array([MAP_PARTS.index(part) for part in SEGMENT_PARTS], dtype=np.int8)
    cells = np.where(table.sum(axis=1) > 0, place[np.argmax(table, axis=1)], -1)
    return Strip(begin, cell, cells.astype(np.int8))
