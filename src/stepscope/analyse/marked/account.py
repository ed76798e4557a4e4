"""The accounting of a rank's steps by its marks, for all of them or for some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.account import WindowSums, idle_struct, step_parts
from stepscope.analyse.activity import CELL_NS, MOST_CELLS
from stepscope.analyse.marked.piece import PART, UNPLACED, Pieces
from stepscope.analyse.marked.tile import Tiles
from stepscope.analyse.variation import Periodic, periodic_excess_ns, periodic_steps, variation
from stepscope.model import report
from stepscope.model.activity import Activity
from stepscope.model.analysis import Culprit, DeviceAnalysis
from stepscope.model.peer import SEGMENT_PARTS
from stepscope.model.trace import I64

LONG_NS = 1_000_000
"""A stretch of host work in no phase from which on it stalls the loop, as in a trace (`analyse.stretch`)."""
MOST_CULPRITS = 6
Flags = npt.NDArray[np.bool_]


class StepSums(Mapping[int, Mapping[str, int]]):
    """Step number -> its parts, made when they are asked for: a run may have a hundred thousand steps."""

    def __init__(self, number: I64, table: I64, total_ns: I64) -> None:
        self.number, self.table, self.total_ns = number, table, total_ns

    def __getitem__(self, step: int) -> Mapping[str, int]:
        at = int(np.searchsorted(self.number, step))
        if at == len(self.number) or int(self.number[at]) != step:
            raise KeyError(step)
        row = self.table[at].tolist()
        found = dict(zip(KEYS, row, strict=True))
        return {"total_ns": int(self.total_ns[at]), "idle_ns": sum(row[IDLE]), **found}

    def __iter__(self) -> Iterator[int]:
        return iter(self.number.tolist())

    def __len__(self) -> int:
        return len(self.number)

    def column(self, cause: str) -> I64:
        """Time of an idle cause in each step, in nanoseconds."""
        found: I64 = self.table[:, PART[cause]]
        return found

    def share(self, cause: str) -> npt.NDArray[np.float64]:
        """Time of an idle cause in each step, of the median step."""
        usual = max(float(np.median(self.total_ns)), 1.0) if len(self.total_ns) else 1.0
        result: npt.NDArray[np.float64] = self.column(cause) / usual
        return result


LEAST_PERIOD = 5
"""What comes in every other step, or in every third, is what steps do."""


_WORK = ("compute", "communication", "copy")
KEYS = tuple(
    {"compute": "compute_ns", "communication": "communication_exposed_ns", "copy": "copy_exposed_ns"}.get(
        name, f"idle.{name}_ns"
    )
    for name in SEGMENT_PARTS
)
IDLE = slice(len(_WORK), None)


@dataclass(frozen=True, slots=True)
class Accounted:
    """One rank's steps with their parts: `table` (tiles, SEGMENT_PARTS) in nanoseconds."""

    rank: int | None
    tiles: Tiles
    pieces: Pieces
    table: I64
    tells: frozenset[str]
    """Parts of the accounting that these marks tell of."""

    def computed(self) -> dict[str, int]:
        """Time of each computing phase in the counted and marked steps, by name."""
        places = np.flatnonzero(self.tiles.mask("counted", "marked"))
        _, piece, low, high = self.pieces.within(self.tiles.start_ns[places], self.tiles.end_ns[places])
        mine = self.pieces.part[piece] == PART["compute"]
        label, took = self.pieces.label[piece][mine], (high - low)[mine]
        return {self.pieces.labels[n]: int(took[label == n].sum()) for n in np.unique(label).tolist()}

    def device(self, chosen: Flags) -> DeviceAnalysis:
        """The device row of the chosen tiles, of which those of use `counted` and `marked` count."""
        scope = chosen & self.tiles.mask("counted", "marked")
        counted = scope & self.tiles.mask("counted")
        tiles, table = self.tiles, self.table
        sums = WindowSums(
            total=tiles.end_ns - tiles.start_ns,
            compute=table[:, 0],
            communication=table[:, 1],
            communication_exposed=table[:, 1],
            copy_exposed=table[:, 2],
            idle=table[:, IDLE],
        )
        named = sums.summed(scope)
        number, took = tiles.number[scope], sums.total[scope]
        varied = variation(number, took, counted[scope])
        told = step_parts(tiles.number, sums, scope)
        talk = named["communication_ns"]
        row = report.Accounting(
            rank=self.rank,
            device=report.Device(kind="marks"),
            scope="steps",
            window="host",
            num_steps=int(scope.sum()),
            total_ns=named["total_ns"],
            compute_ns=named["compute_ns"],
            communication_exposed_ns=talk,
            copy_exposed_ns=named["copy_exposed_ns"],
            idle_ns=named["idle_ns"],
            idle=idle_struct(named),
            # Ranks that meet have it even where they never wait.
            communication=report.Communication(total_ns=talk, hidden_ns=0)
            if talk or "communication_exposed" in self.tells
            else None,
            host=self._host(named),
            variation=varied,
            status="ok",
            by_step=told,
            steps_left_out=int(scope.sum()) - len(told) or None,
        )
        periodic = periodic_steps(number, took, counted[scope])
        blame, numbers = self._culprits(scope, periodic)
        if counted.sum() > 1 and took.sum() > 0:
            # What a rank computes or waits for others beyond the usual is no stall of its own.
            other = (table[:, 0] + table[:, 1])[scope]
            excess = periodic_excess_ns(number, took, counted[scope], other)
            numbers["periodic_stall_share"] = excess / int(took.sum())
        if varied is not None and varied.period_steps is not None:
            numbers["periodic_stall_steps"] = float(varied.period_steps)
        return DeviceAnalysis(
            accounting=row,
            culprits=blame,
            by_step=StepSums(number, table[scope], took),
            numbers=numbers,
            tells=self.tells,
            within=self._within,
            activity=self._activity(scope),
        )

    def _within(self, first: int, last: int) -> DeviceAnalysis:
        return self.device((self.tiles.number >= first) & (self.tiles.number <= last))

    def _activity(self, scope: Flags) -> Activity | None:
        """When it waited for input, in equal cells, for the join with counters of its host and device."""
        places = np.flatnonzero(scope)
        if not len(places) or "idle.input" not in self.tells:
            return None
        start, end = int(self.tiles.start_ns[places[0]]), int(self.tiles.end_ns[places[-1]])
        if end <= start:
            return None
        cell = CELL_NS * max(1, -(-(end - start) // (CELL_NS * MOST_CELLS)))
        edges = start + cell * np.arange(-(-(end - start) // cell) + 1, dtype=np.int64)
        waits = self.pieces.table(edges[:-1], edges[1:])[:, PART["input"]]
        tiles = self.tiles
        return Activity(
            start_ns=start,
            cell_ns=cell,
            parts={"idle_input": waits.astype(np.float64)},
            step_start_ns=tiles.start_ns[scope],
            step_end_ns=tiles.end_ns[scope],
            step_number=tiles.number[scope],
        )

    def _host(self, named: Mapping[str, int]) -> report.HostShares | None:
        if "idle.input" not in self.tells or not named["total_ns"]:
            return None
        return report.HostShares(loader_share=named["idle.input_ns"] / named["total_ns"])

    def _culprits(
        self, scope: Flags, periodic: Periodic | None
    ) -> tuple[dict[str, tuple[Culprit, ...]], dict[str, float]]:
        """What ran in each cause, by its label; and numbers of host work that no phase covers."""
        places = np.flatnonzero(scope)
        window, piece, low, high = self.pieces.within(self.tiles.start_ns[places], self.tiles.end_ns[places])
        part, label, took = self.pieces.part[piece], self.pieces.label[piece], high - low
        found: dict[str, tuple[Culprit, ...]] = {}
        for n, cause in enumerate(SEGMENT_PARTS):
            mine = np.flatnonzero(part == n)
            if cause in ("compute", "unknown") or not len(mine):
                continue
            named = []
            for which in np.unique(label[mine]).tolist():
                rows = mine[label[mine] == which]
                longest = rows[np.argmax(took[rows])]
                named.append(
                    Culprit(
                        self.pieces.labels[which],
                        int(took[rows].sum()),
                        None,
                        int(low[longest]),
                        int(high[longest]),
                    )
                )
            named.sort(key=lambda each: (-each.time_ns, each.name))
            key = "communication_exposed" if cause == "communication" else cause
            found[key] = tuple(named[:MOST_CULPRITS])
        numbers: dict[str, float] = {}
        if "idle.python" in self.tells:
            is_python = part == PART["python"]
            is_long = is_python & (took >= LONG_NS)
            is_unplaced = self.pieces.of_label(UNPLACED)[piece]
            if periodic is not None and periodic.period >= LEAST_PERIOD:
                # What comes at intervals is a rule of its own, as long as nothing names it.
                slow = np.isin(self.tiles.number[places[window]], periodic.steps)
                is_long &= ~slow | self.pieces.is_named[piece]
            numbers["python_stall_ns"] = float(took[is_long & ~is_unplaced].sum())
            numbers["between_steps_ns"] = float(took[is_long & is_unplaced].sum())
            whole = int(took[is_python].sum())
            own = is_python & self.pieces.is_named[piece]
            best = max(
                (int(took[own & (label == n)].sum()) for n in np.unique(label[own]).tolist()), default=0
            )
            if whole:
                numbers["python_named_share"] = best / whole
        return found, numbers
