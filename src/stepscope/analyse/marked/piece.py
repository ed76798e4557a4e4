"""Where the time of a rank's steps went by its marks: disjoint pieces that cover every tile exactly.

Of nested phases the innermost counts, except that a checkpoint and an evaluation win over what runs inside
them. A phase that holds a whole step runs beside the loop, or around it, and says nothing of its steps.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.analyse.marked.tile import Tiles
from stepscope.model.interval import pairs
from stepscope.model.mark import PHASES, RankMarks
from stepscope.model.peer import SEGMENT_PARTS
from stepscope.model.trace import I32, I64

PART = {name: place for place, name in enumerate(SEGMENT_PARTS)}
PART_OF_PHASE = {
    "init": "python",
    "data": "input",
    "forward": "compute",
    "backward": "compute",
    "optimizer": "compute",
    "checkpoint": "checkpoint",
    "eval": "eval",
    "logging": "logging",
    "other": "python",
    "gc": "gc",
    "compile": "compile",
    "communication": "communication",
    "profiler": "profiler",
}
OVER = ("checkpoint", "eval")
WORK = ("forward", "backward")
"""Where both are marked, what no phase covers is other host work; elsewhere it may be one of these."""
PREPROCESS_SHARE = 0.05
"""Host work between the batch and the model is preprocessing from this share of the step on."""
TILES_NS = 100_000
"""A step that begins so soon after the last one leaves no gap."""
BETWEEN, BEFORE = "between steps", "before forward"
UNPLACED = "between the optimizer and the next forward"
"""Where nothing tells the end of the loop's body from the beginning of the next."""
UNTOLD = "in no phase"


@dataclass(frozen=True, slots=True)
class Pieces:
    """By start; `part` points into `SEGMENT_PARTS`, `label` into `labels`: the phase, or between which phases
    it lies. `is_named` tells pieces of a phase from those of none."""

    start: I64
    end: I64
    part: I32
    label: I32
    is_named: npt.NDArray[np.bool_]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start)

    def of_label(self, text: str) -> npt.NDArray[np.bool_]:
        """Which pieces have this label."""
        result: npt.NDArray[np.bool_] = self.label == (self.labels.index(text) if text in self.labels else -1)
        return result

    def within(
        self, start_ns: I64, end_ns: I64
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], I64, I64]:
        """(window, piece, start, end) of every overlap with any windows."""
        return pairs(start_ns, end_ns, self.start, self.end)

    def table(self, start_ns: I64, end_ns: I64) -> I64:
        """(windows, SEGMENT_PARTS): nanoseconds of each part in each window."""
        window, piece, low, high = self.within(start_ns, end_ns)
        found = np.zeros((len(start_ns), len(SEGMENT_PARTS)), dtype=np.int64)
        np.add.at(found, (window, self.part[piece]), high - low)
        return found

    def waiting(self, start_ns: I64, end_ns: I64) -> Pieces:
        """The same, where computing and communicating inside these sorted, disjoint intervals is waiting for
        other ranks."""
        if not len(start_ns):
            return self
        low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        bound = np.concatenate(([low], np.column_stack((start_ns, end_ns)).ravel(), [high]))
        piece, place, start, end = pairs(self.start, self.end, bound[:-1], bound[1:])
        part, label = self.part[piece], self.label[piece]
        is_work = (part == PART["compute"]) | (part == PART["communication"])
        is_wait = (place % 2 == 1) & is_work & (end > start)
        return Pieces(
            start,
            end,
            np.where(is_wait, PART["communication"], part).astype(np.int32),
            np.where(is_wait, len(self.labels), label).astype(np.int32),
            self.is_named[piece],
            (*self.labels, "waiting for peers"),
        )


class _Labels:
    """Texts in the order in which they were first asked for."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))


def tells_all(marks: RankMarks) -> bool:
    """Whether forward and backward passes are marked: then what no phase covers is neither."""
    return all((marks.phases.phase == PHASES.index(name)).any() for name in WORK)


def pieces(marks: RankMarks, tiles: Tiles, pausing: frozenset[int] = frozenset()) -> Pieces:
    """The pieces of one rank. In the steps `pausing` (places) nothing in front of the model counts as
    preprocessing: what comes at intervals is not what steps do."""
    labels = _Labels()
    phases = marks.phases
    kept = ~_around(phases.start_ns, phases.end_ns, tiles)
    rank_of = np.array([name in OVER for name in PHASES])[phases.phase] if len(phases) else kept
    which, start, end = _innermost(phases.start_ns, phases.end_ns, rank_of, np.flatnonzero(kept))
    name_of = [
        marks.names[name]
        if phase == PHASES.index("other") and 0 <= name < len(marks.names)
        else PHASES[phase]
        for phase, name in zip(phases.phase.tolist(), phases.name.tolist(), strict=True)
    ]
    label_of = np.array([labels.place(text) for text in name_of] or [0], dtype=np.int32)
    part_of = np.array([PART[PART_OF_PHASE[name]] for name in PHASES], dtype=np.int32)
    tile, at, low, high = pairs(tiles.start_ns, tiles.end_ns, start, end)
    part = part_of[phases.phase[which[at]]] if len(at) else np.empty(0, dtype=np.int32)
    is_whole = tells_all(marks)
    if not is_whole:  # a phase of one's own may be the model's work
        own = phases.phase[which[at]] == PHASES.index("other") if len(at) else part > 0
        part = np.where(own, PART["unknown"], part).astype(np.int32)
    label = label_of[which[at]] if len(at) else np.empty(0, dtype=np.int32)
    named = Pieces(low, high, part, label, np.ones(len(low), dtype=bool), ())
    rest = _rest(named, tile, tiles, labels, is_whole=is_whole, pausing=pausing)
    start, end, part, label, is_named = (
        np.concatenate([getattr(each, name) for each in (named, rest)])
        for name in ("start", "end", "part", "label", "is_named")
    )
    order = np.argsort(start, kind="stable")
    return Pieces(start[order], end[order], part[order], label[order], is_named[order], tuple(labels.places))


def _around(start: I64, end: I64, tiles: Tiles) -> npt.NDArray[np.bool_]:
    """Phases that hold a whole step."""
    first = np.searchsorted(tiles.begin_ns, start, side="left")
    ends = np.append(tiles.end_ns, np.iinfo(np.int64).max)
    result: npt.NDArray[np.bool_] = ends[first] <= end
    return result


def _innermost(
    start: I64, end: I64, is_over: npt.NDArray[np.bool_], chosen: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], I64, I64]:
    """(phase, start, end) of disjoint stretches by start, each of the phase that counts there. Phases are
    sorted by start: of those open the last begun is the innermost."""
    points = np.unique(np.concatenate([start[chosen], end[chosen]])).tolist()
    open_: list[tuple[bool, int, int]] = []
    found: list[tuple[int, int, int]] = []
    rows = iter([(int(start[n]), int(end[n]), bool(is_over[n]), n) for n in chosen.tolist()])
    waiting = next(rows, None)
    for low, high in pairwise(points):
        while waiting is not None and waiting[0] <= low:
            heapq.heappush(open_, (not waiting[2], -waiting[3], waiting[1]))
            waiting = next(rows, None)
        while open_ and open_[0][2] <= low:
            heapq.heappop(open_)
        if not open_:
            continue
        which = -open_[0][1]
        if found and found[-1][0] == which and found[-1][2] == low:
            found[-1] = (which, found[-1][1], high)
        else:
            found.append((which, low, high))
    table = np.array(found, dtype=np.int64).reshape(len(found), 3)
    return table[:, 0].astype(np.intp), table[:, 1].copy(), table[:, 2].copy()


def _rest(
    named: Pieces,
    tile: npt.NDArray[np.intp],
    tiles: Tiles,
    labels: _Labels,
    *,
    is_whole: bool,
    pausing: frozenset[int],
) -> Pieces:
    """What no phase covers, tile by tile; `tile` is that of each named piece."""
    bounds = np.searchsorted(tile, np.arange(len(tiles) + 1))
    texts = {place: text for text, place in labels.places.items()}
    rows: list[tuple[int, int, int, int]] = []
    unknown, python, preprocess = PART["unknown"], PART["python"], PART["preprocess"]
    compute, data = PART["compute"], PART["input"]
    every = [column.tolist() for column in (named.start, named.end, named.part, named.label)]
    for n, (begin, until, own, is_tiled) in enumerate(
        zip(
            *(of.tolist() for of in (tiles.start_ns, tiles.end_ns, tiles.begin_ns, tiles.is_tiled)),
            strict=True,
        )
    ):
        low, high = int(bounds[n]), int(bounds[n + 1])
        mine = list(zip(*(column[low:high] for column in every), strict=True))
        working = next((start for start, _, part, _ in mine if part == compute), None)
        fetching = next((start for start, _, part, _ in mine if part == data), None)
        # Steps that leave no gap begin where the last one ended: then the loader's call tells where the
        # loop's body begins.
        is_apart = own - begin > TILES_NS
        body = own if is_apart or fetching is None or fetching < own else fetching
        between = BETWEEN
        if is_tiled and working is not None:
            # The loader's call is in the next body; without one the optimizer's end tells of neither.
            is_fetched = fetching is not None and fetching < working
            body, between = (fetching, BETWEEN) if is_fetched else (working, UNPLACED)
        elif working is not None and body > working:
            body = min(own, working)
        before: list[tuple[int, int]] = []
        last, after = begin, ""
        for start, end, _, label in [*mine, (until, until, -1, -1)]:
            if start > last:
                if not is_whole:
                    rows.append((last, start, unknown, labels.place(UNTOLD)))
                elif working is None or last >= working:
                    rows.append((last, start, python, labels.place(f"after {after}" if after else UNTOLD)))
                else:
                    cut = min(max(body, last), start)
                    if cut > last:
                        rows.append((last, cut, python, labels.place(between)))
                    if start > cut:
                        before.append((cut, start))
            last, after = max(last, end), texts.get(label, "")
        is_long = sum(b - a for a, b in before) > PREPROCESS_SHARE * (until - begin) and n not in pausing
        rows += [(a, b, preprocess if is_long else python, labels.place(BEFORE)) for a, b in before]
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    return Pieces(
        table[:, 0].copy(),
        table[:, 1].copy(),
        table[:, 2].astype(np.int32),
        table[:, 3].astype(np.int32),
        np.zeros(len(rows), dtype=bool),
        (),
    )
