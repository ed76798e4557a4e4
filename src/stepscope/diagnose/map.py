"""Ranks against time on the corrected clock: what each did."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.joined import Joined
from stepscope.model import report
from stepscope.model.interval import overlap_ns, union
from stepscope.model.peer import MAP_PARTS

CELLS = 120
"""Columns of the map: a page has room for as many."""
MOST_RANKS = 64
"""Rows of the map; of more ranks evenly spaced ones, and those that are late."""


def rank_map(whole: Joined, keep: tuple[int, ...] = ()) -> report.RankMap | None:
    """The map, `None` where no rank's time is known. `keep` are ranks that must not be left out."""
    placed = [
        (place, table.strip)
        for place, table in enumerate(whole.tables)
        if table.strip is not None and len(table.strip.cells)
    ]
    if not placed:
        return None
    at = np.array([place for place, _ in placed])
    begin = whole.clocks.corrected(at, np.array([strip.start_ns for _, strip in placed]))
    length = np.array([strip.cell_ns * len(strip.cells) for _, strip in placed])
    start, end = int(begin.min()), int((begin + length).max())
    cell = max(1, -(-(end - start) // CELLS))
    middles = start + cell * np.arange(CELLS, dtype=np.int64) + cell // 2
    chosen = list(range(len(placed)))
    if len(placed) > MOST_RANKS:
        spaced = np.linspace(0, len(placed) - 1, MOST_RANKS).astype(int).tolist()
        late = [n for n, (place, _) in enumerate(placed) if whole.tables[place].rank in keep]
        chosen = sorted({*spaced, *late})
    rows = []
    wait, talking = MAP_PARTS.index("wait"), MAP_PARTS.index("communication")
    for n in chosen:
        place, strip = placed[n]
        own = (middles - begin[n]) // strip.cell_ns
        is_there = (own >= 0) & (own < len(strip.cells))
        cells = np.where(is_there, strip.cells[np.clip(own, 0, len(strip.cells) - 1)], -1).astype(np.int64)
        mine = whole.calls.of_rank(place)
        mine = mine[whole.wait_ns[mine] > 0]
        waits = union(whole.start_ns[mine], whole.start_ns[mine] + whole.wait_ns[mine])
        waited = overlap_ns(middles - cell // 2, middles + (cell + 1) // 2, waits)
        cells[(cells == talking) & (2 * waited >= cell)] = wait
        rank = whole.tables[place].rank
        assert rank is not None
        rows.append(report.RankCells(rank=rank, cells=tuple(cells.tolist())))
    return report.RankMap(start_ns=start, cell_ns=cell, parts=MAP_PARTS, rows=tuple(rows))
