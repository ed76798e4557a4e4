"""What nvidia-smi, dcgmi and amd-smi print: rows under a header, as text. What the columns mean is the
sources'.

Cells stay as written: a blank, a unit or a word in the place of a number is the source's to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stepscope.sources.formats.line import plain_lines, without_cut_line

_HEADER_CELL = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*(?:\[([^\]]*)\])?\s*")
_AMOUNT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([%A-Za-zµ/°]*)\s*")
_HEX = re.compile(r"\s*0[xX]([0-9a-fA-F]{1,16})\s*")


@dataclass(frozen=True, slots=True)
class Table:
    """`names` and `units` of the columns (`""` where the header gives no unit); `rows` of as many cells.

    `num_bad` counts lines that fit no row, the first of them is `first_bad` (from 1); `is_cut` is whether the
    last line had no end and was left out.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    rows: list[list[str]]
    num_bad: int = 0
    first_bad: int = 0
    is_cut: bool = False

    def faults(self) -> Iterator[tuple[str, int, str]]:
        """(code, count, detail) of what was left out."""
        if self.num_bad:
            yield "malformed_lines", self.num_bad, f"no row: the first at line {self.first_bad}"
        if self.is_cut:
            yield "truncated", 1, "the last line has no end: its number may be cut, it is left out"


def csv_header(line: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """(names, units) of `timestamp, utilization.gpu [%], …`; `None` where a cell is no name."""
    cells = [_HEADER_CELL.fullmatch(cell) for cell in line.split(",")]
    if not all(cells):
        return None
    return tuple(cell[1] for cell in cells if cell), tuple(cell[2] or "" for cell in cells if cell)


def read_csv(text: str, required: frozenset[str], free: Sequence[str] = ()) -> Table | None:
    """The rows under the header that has one of the `required` names; `None` where the first line that is no
    comment is no such header.

    Commas within a cell are not escaped by nvidia-smi: a row of too many cells gives what is too much to the
    column of `free`, such as a process's name. A header that stands again (a run appended to a file) counts
    from there on; where it differs, its columns are matched by name.
    """
    text, is_cut = without_cut_line(text)
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    here: tuple[str, ...] = ()
    rows: list[list[str]] = []
    num_bad = first_bad = 0
    for number, line in enumerate(plain_lines(text), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if required & {cell.strip().split(" ")[0] for cell in line.split(",")} and (
            header := csv_header(line)
        ):
            if not names:
                names, units = header
            here = header[0]
            continue
        if not names:
            return None
        cells = _joined([cell.strip() for cell in line.split(",")], here, free)
        if len(cells) != len(here):
            num_bad += 1
            first_bad = first_bad or number
            continue
        if here != names:
            by_name = dict(zip(here, cells, strict=True))
            cells = [by_name.get(name, "") for name in names]
        rows.append(cells)
    return Table(names, units, rows, num_bad, first_bad, is_cut) if names else None


def _joined(cells: list[str], names: Sequence[str], free: Sequence[str]) -> list[str]:
    surplus = len(cells) - len(names)
    place = next((names.index(name) for name in free if name in names), None)
    if surplus <= 0 or place is None:
        return cells
    return [*cells[:place], ", ".join(cells[place : place + surplus + 1]), *cells[place + surplus + 1 :]]


def read_monitor(text: str, last_is_text: bool = False) -> Table | None:
    """The rows of `nvidia-smi dmon` and `pmon`: `# gpu pwr …`, `# Idx W …`, then rows of as many words.

    With `last_is_text` the last column takes what is left of the line (a command with blanks). Rows under a
    later header of other columns (two runs in one file) are no rows of this table.
    """
    text, is_cut = without_cut_line(text)
    is_other = False
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    rows: list[list[str]] = []
    num_bad = first_bad = 0
    for number, line in enumerate(plain_lines(text), 1):
        words = line.replace("#", " ", 1).split() if line.lstrip().startswith("#") else line.split()
        if not words:
            continue
        if line.lstrip().startswith("#"):
            lower = [word.lower() for word in words]
            before = lower[: lower.index("gpu")] if "gpu" in lower else ["?"]
            if len(lower) > 1 and set(before) <= {"date", "time"}:
                names = tuple(lower) if not rows else names
                is_other = tuple(lower) != names
            elif names and "idx" in lower[:3] and len(words) == len(names):
                units = tuple(words)
            continue
        if not names:
            continue
        if last_is_text and len(words) > len(names):
            words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
        if len(words) != len(names) or is_other:
            num_bad += 1
            first_bad = first_bad or number
            continue
        rows.append(words)
    if not names:
        return None
    return Table(names, units or ("",) * len(names), rows, num_bad, first_bad, is_cut)


def read_entities(text: str) -> Table | None:
    """The rows of `dcgmi dmon`: a header of short names, then `GPU 0 …`, `GPU-I 3 …`. The first two
    columns of the table are `entity` and `id`."""
    text, is_cut = without_cut_line(text)
    names: tuple[str, ...] = ()
    rows: list[list[str]] = []
    num_bad = first_bad = 0
    for number, line in enumerate(plain_lines(text), 1):
        words = line.replace("#", " ", 1).split()
        if not words or words[0].lower() == "id":
            continue
        if words[0].lower() == "entity":
            short = words[2:] if len(words) > 1 and words[1].lower() == "id" else words[1:]
            if not names or tuple(short) == names[2:]:
                names = ("entity", "id", *short)
            continue
        if line.startswith("#") or not names:
            continue
        if len(words) != len(names) or not words[0].upper().startswith("GPU") or not words[1].isdigit():
            num_bad += 1
            first_bad = first_bad or number
            continue
        rows.append(words)
    if not names:
        return None
    return Table(names, ("",) * len(names), rows, num_bad, first_bad, is_cut)


def amount(cell: str) -> tuple[float, str] | None:
    """(number, unit as written) of `631.95 W`, `0x1FF`, `98 %`; `None` where it is no number."""
    found = _AMOUNT.fullmatch(cell)
    if found:
        return float(found[1]), found[2]
    mask = _HEX.fullmatch(cell)
    return (float(int(mask[1], 16)), "") if mask else None


UNITS: dict[str, tuple[str, float]] = {
    "%": ("ratio", 0.01),
    "mib": ("B", float(1 << 20)),
    "gib": ("B", float(1 << 30)),
    "kib": ("B", 1024.0),
    "mb": ("B", float(1 << 20)),
    "gb": ("B", float(1 << 30)),
    "b": ("B", 1.0),
    "w": ("W", 1.0),
    "mw": ("W", 1e-3),
    "mhz": ("Hz", 1e6),
    "ghz": ("Hz", 1e9),
    "c": ("celsius", 1.0),
    "°c": ("celsius", 1.0),
    "us": ("s", 1e-6),
    "µs": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "ms": ("s", 1e-3),
    "s": ("s", 1.0),
    "j": ("J", 1.0),
    "mj": ("J", 1e-3),
    "mb/s": ("B/s", 1e6),
    "mib/s": ("B/s", float(1 << 20)),
    "gb/s": ("B/s", 1e9),
    "kb/s": ("B/s", 1e3),
}
"""What a written unit is in ours, in lower case. `MB` of memory is MiB in all these tools."""
