"""What a report says of the ranks of a job together, shaped for every renderer: rows, cells and their sizes.

Words for it are in `views/job_word.py`. Nothing here is shown where fewer than two ranks were joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.model import report
from stepscope.model.report import IDLE_CAUSES
from stepscope.views.label import MARK

NOTHING = ""
"""The part of a cell in which nothing was recorded."""
LEVELS = 8
"""Steps of the scale of lateness: as many as there are blocks of a character's height."""
WAIT, WAIT_HIDDEN = "map.wait", "map.wait_hidden"
"""Parts that only a job of many ranks has, as `PART` and `FILL` have the others."""
MAP_MARK: Mapping[str, tuple[str, str]] = {
    **MARK,
    WAIT: ("~", "bold magenta"),
    NOTHING: (".", "bright_black"),
}
"""The letter and the colour of every part of the map."""
_PARTS = {
    "compute": "compute",
    "communication": "communication_exposed",
    "copy": "copy_exposed",
    "wait": WAIT,
    **{cause: f"idle.{cause}" for cause in IDLE_CAUSES},
}


def is_joined(report_: report.Report) -> bool:
    """Whether two ranks or more were compared with each other."""
    return report_.lateness is not None


def part_key(name: str) -> str:
    """A part of the map or of the critical path as the looks and names of parts call it.

    Compute is one part, whatever its class; what a later version names is an unknown cause.
    """
    return "compute" if name.startswith("compute.") else _PARTS.get(name, "idle.unknown")


def late_ranks(report_: report.Report) -> set[int]:
    """Who is late."""
    return {row.rank for row in report_.stragglers}


def chosen(ranks: Sequence[int], late: set[int], most: int) -> list[int]:
    """Places of at most `most` of these ranks, in their order: the late ones, then evenly spaced ones."""
    if len(ranks) <= most:
        return list(range(len(ranks)))
    kept = [place for place, rank in enumerate(ranks) if rank in late][:most]
    others = [place for place in range(len(ranks)) if place not in set(kept)]
    room = most - len(kept)
    spaced = [others[n * len(others) // room] for n in range(room)]
    return sorted({*kept, *spaced})


@dataclass(frozen=True, slots=True)
class Strip:
    """One rank's row of the map: the part of each cell, `NOTHING` where nothing was recorded."""

    rank: int
    is_late: bool
    parts: tuple[str, ...]

    @property
    def runs(self) -> list[tuple[str, int, int]]:
        """Neighbours of one part joined: (part, first cell, number of cells), holes left out."""
        found: list[tuple[str, int, int]] = []
        for at, part in enumerate(self.parts):
            if found and found[-1][0] == part and found[-1][1] + found[-1][2] == at:
                found[-1] = (part, found[-1][1], found[-1][2] + 1)
            elif part != NOTHING:
                found.append((part, at, 1))
        return found

    @property
    def shares(self) -> list[tuple[str, float]]:
        """What of the recorded cells each part took, most first."""
        counted = Counter(part for part in self.parts if part != NOTHING)
        whole = sum(counted.values())
        return [(part, count / whole) for part, count in counted.most_common()]


def strips(report_: report.Report, most_rows: int, num_cells: int | None = None) -> list[Strip]:
    """Rows of the map, in at most `num_cells` cells each: of the cells that become one the commonest part
    stays, and of equally common ones a recorded and earlier one."""
    whole = report_.rank_map
    if whole is None:
        return []
    late = late_ranks(report_)
    keys = [part_key(name) for name in whole.parts]
    made = []
    for place in chosen([row.rank for row in whole.rows], late, most_rows):
        row = whole.rows[place]
        parts = [keys[cell] if 0 <= cell < len(keys) else NOTHING for cell in row.cells]
        if num_cells is not None and len(parts) > num_cells:
            parts = [_commonest(parts[a:b]) for a, b in _bins(len(parts), num_cells)]
        made.append(Strip(row.rank, row.rank in late, tuple(parts)))
    return made


def _bins(number: int, wanted: int) -> list[tuple[int, int]]:
    return [(n * number // wanted, (n + 1) * number // wanted) for n in range(wanted)]


def _commonest(parts: Sequence[str]) -> str:
    counted = Counter(parts)
    return max(counted, key=lambda part: (counted[part], part != NOTHING))


def used_parts(shown: Sequence[Strip]) -> list[str]:
    """The parts that occur, the commonest first: the legend."""
    counted = Counter(part for strip in shown for part in strip.parts if part != NOTHING)
    return [part for part, _ in counted.most_common()]


@dataclass(frozen=True, slots=True)
class LateRow:
    """One rank's row of lateness.

    `levels` has a cell a step, or one for several neighbouring steps, of which the latest counts: 0 within
    the noise, 1..`LEVELS` in equal parts up to `Heat.most_ns`, `None` where the rank has no such step.
    `latest_step` is the step of `most_ns`; both are `None` where no step is known.
    """

    rank: int
    is_late: bool
    levels: tuple[int | None, ...]
    most_ns: int | None
    latest_step: int | None
    wait_ns: int


@dataclass(frozen=True, slots=True)
class Heat:
    """Ranks against steps: who came how late. `most_ns` is the top of the scale."""

    steps: tuple[int, ...]
    rows: tuple[LateRow, ...]
    most_ns: int
    noise_ns: int
    num_left_out: int

    @property
    def is_any_late(self) -> bool:
        """Whether any step of any row is beyond the noise: else there is nothing to draw."""
        return any(any(row.levels) for row in self.rows)


def heat(report_: report.Report, most_rows: int, num_cells: int | None = None) -> Heat | None:
    """The map of lateness; `None` where no step of any rank is known. Its top is that of all ranks."""
    whole = report_.lateness
    if whole is None or not whole.rows or not whole.steps:
        return None
    late = late_ranks(report_)
    known = [each for row in whole.rows for each in row.lateness_ns if each is not None]
    top, noise = max((0, *known)), max(0, whole.noise_ns or 0)
    rows = []
    for place in chosen([row.rank for row in whole.rows], late, most_rows):
        row = whole.rows[place]
        cells = list(row.lateness_ns)
        mine = [(each, step) for each, step in zip(cells, whole.steps, strict=False) if each is not None]
        most = max(mine, key=lambda each: each[0], default=None)
        if num_cells is not None and len(cells) > num_cells:
            cells = [_latest(cells[a:b]) for a, b in _bins(len(cells), num_cells)]
        rows.append(
            LateRow(
                rank=row.rank,
                is_late=row.rank in late,
                levels=tuple(None if each is None else _level(each, top, noise) for each in cells),
                most_ns=None if most is None else most[0],
                latest_step=None if most is None else most[1],
                wait_ns=sum(each for each in row.wait_ns if each is not None),
            )
        )
    return Heat(whole.steps, tuple(rows), top, noise, len(whole.rows) - len(rows))


def _latest(cells: Sequence[int | None]) -> int | None:
    return max((each for each in cells if each is not None), default=None)


def _level(lateness_ns: int, top_ns: int, noise_ns: int) -> int:
    """In integers, so that the top of the scale is its own level and nothing within the noise has one."""
    if lateness_ns <= noise_ns or top_ns <= 0:
        return 0
    return max(1, min(LEVELS, -(-LEVELS * lateness_ns // top_ns)))


@dataclass(frozen=True, slots=True)
class KindOfCollective:
    """All collectives of one kind: what transferred, and what waited for a later rank. Sums over ranks."""

    kind: str
    count: int
    transfer_ns: int
    wait_exposed_ns: int
    wait_hidden_ns: int
    last_rank: int | None

    @property
    def total_ns(self) -> int:
        """All of it."""
        return self.transfer_ns + self.wait_exposed_ns + self.wait_hidden_ns

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """Its parts with time in them, as looks and names call them."""
        told = (
            (WAIT, self.wait_exposed_ns),
            (WAIT_HIDDEN, self.wait_hidden_ns),
            ("communication_exposed", self.transfer_ns),
        )
        return [(part, time) for part, time in told if time > 0]


def kinds_of_collectives(report_: report.Report) -> list[KindOfCollective]:
    """Waiting against transfer, a row a kind, by time; `last_rank` is that of its largest wait.

    Where it is not known what is hidden, waiting counts as exposed.
    """
    rows: dict[str, list[report.Collective]] = {}
    for row in report_.collectives:
        if row.transfer_ns is not None and row.wait_ns is not None:
            rows.setdefault(row.kind, []).append(row)
    made = []
    for kind, same in rows.items():
        wait = sum(row.wait_ns or 0 for row in same)
        exposed = sum(
            (row.wait_ns if row.wait_exposed_ns is None else row.wait_exposed_ns) or 0 for row in same
        )
        worst = max(same, key=lambda row: row.wait_ns or 0)
        made.append(
            KindOfCollective(
                kind=kind,
                count=sum(row.count for row in same),
                transfer_ns=sum(row.transfer_ns or 0 for row in same),
                wait_exposed_ns=min(exposed, wait),
                wait_hidden_ns=max(0, wait - exposed),
                last_rank=worst.last_rank,
            )
        )
    return sorted((row for row in made if row.total_ns > 0), key=lambda row: -row.total_ns)


def path_parts(replay: report.Replay) -> list[tuple[str, float]]:
    """What the critical path passes through, over all ranks, most first; all compute is one part."""
    shares: dict[str, float] = {}
    for each in replay.critical_path:
        key = part_key(each.part)
        shares[key] = shares.get(key, 0.0) + each.share
    ordered = sorted(shares.items(), key=lambda each: -each[1])
    return [(part, min(1.0, share)) for part, share in ordered if share > 0]
