"""The picture of a cause: as SVG beside a page of the documentation, as text on a terminal.

Nothing is measured in a browser: every text is placed by the widest that its letters can be, so that none
is cut whatever font draws it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

from rich.cells import cell_len

from stepscope.model.text import Lang, Text
from stepscope.rules.signature import EMPTY, MARKS, STEP, Lane, Signature


@dataclass(frozen=True, slots=True)
class Block:
    """One letter from unit `begin` up to, not including, unit `end`."""

    letter: str
    begin: int
    end: int


def blocks(lane: Lane) -> list[Block]:
    """The blocks of a lane; what is empty is none, and a bar ends one."""
    found: list[Block] = []
    at, last = 0, EMPTY
    for letter in lane.blocks:
        if letter == STEP:
            last = EMPTY
            continue
        if letter == last != EMPTY:
            found[-1] = Block(letter, found[-1].begin, at + 1)
        elif letter != EMPTY:
            found.append(Block(letter, at, at + 1))
        at, last = at + 1, letter
    return found


def bars(lane: Lane) -> list[int]:
    """Where steps begin or end: how many units lie before each bar."""
    found, at = [], 0
    for letter in lane.blocks:
        if letter == STEP:
            found.append(at)
        else:
            at += 1
    return found


def num_units(signature: Signature) -> int:
    """Units of time in the picture."""
    return len(signature.lanes[0].blocks.replace(STEP, ""))


def legend(signature: Signature) -> dict[str, Text]:
    """The letters that occur, in order of appearance, and what they stand for."""
    used = dict.fromkeys(letter for lane in signature.lanes for letter in lane.blocks)
    return {letter: MARKS[letter] for letter in used if letter not in (EMPTY, STEP)}


# ── on a terminal ──────────────────────────────────────────────────────────────────────────────────


def as_text(signature: Signature, width: int, lang: Lang = "en") -> list[str]:
    """The lanes, one line each, in at most `width` cells; what is longer goes on in further lines below.

    A bar takes a column in every lane, so that equal times stand below each other.
    """
    names = [lane.name.in_(lang) for lane in signature.lanes]
    margin = max(map(cell_len, names)) + 2
    rows = list(zip(*_columns(signature), strict=True))
    room = max(8, width - margin)
    lines = []
    for begin in range(0, len(rows[0]), room):
        for name, row in zip(names, rows, strict=True):
            label = name if begin == 0 else ""
            line = label + " " * (margin - cell_len(label)) + "".join(row[begin : begin + room])
            lines.append(line.rstrip())
    return lines


def _columns(signature: Signature) -> Iterator[tuple[str, ...]]:
    """One letter of each lane for every column: units, and bars wherever any lane has one."""
    cut = [set(bars(lane)) for lane in signature.lanes]
    plain = [lane.blocks.replace(STEP, "") for lane in signature.lanes]
    for at in range(num_units(signature) + 1):
        if any(at in where for where in cut):
            # A block goes on through the bar of another lane.
            yield tuple(
                STEP if at in where else units[at] if units[at - 1 : at] == units[at : at + 1] else EMPTY
                for where, units in zip(cut, plain, strict=True)
            )
        if at < num_units(signature):
            yield tuple(units[at] for units in plain)


# ── as SVG ─────────────────────────────────────────────────────────────────────────────────────────

WIDTH, MARGIN = 720, 16
LANE, GAP = 26, 10
FONT = 13
WIDEST, WIDEST_CJK = 0.68, 1.05
"""An upper bound of the mean width of Latin and of Chinese letters in any common sans-serif font, in ems."""

# Letter -> (light, dark). What the rule is about stands out; what a step is made of is calm.
COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "c": ("#4c8eda", "#3a78c2"),
        "n": ("#8e6ccf", "#8560c9"),
        "m": ("#2f9e8f", "#2a8a7d"),
        "d": ("#c98a1b", "#b67c14"),
        "p": ("#b5762d", "#a56a25"),
        "l": ("#7d8da1", "#66768a"),
        "s": ("#c2569b", "#b04a8b"),
        "a": ("#a0812c", "#937522"),
        "k": ("#5f7f3a", "#5a7a35"),
        "g": ("#6b7280", "#7a8290"),
        "w": ("#9a6048", "#945a42"),
        "e": ("#3c8aa8", "#357e9b"),
        "o": ("#8a8f3c", "#7f8434"),
        "r": ("#5673c8", "#4d69bd"),
        "x": ("#d43d2f", "#e0503f"),
        "q": ("#777777", "#8a8a8a"),
        "b": ("#3f9c5a", "#37894f"),
        "y": ("#99853a", "#8d7a32"),
    }
)


def text_width(text: str) -> float:
    """No font of the picture draws a text wider than this, in pixels."""
    return sum(WIDEST_CJK if cell_len(each) > 1 else WIDEST for each in text) * FONT


def as_svg(signature: Signature, title: Text, lang: Lang = "en") -> str:
    """A picture of its own, ending in a newline: light or dark as its reader prefers, with a title and a
    description for those who do not see it."""
    left = MARGIN + max(text_width(lane.name.in_(lang)) for lane in signature.lanes) + 12
    unit = (WIDTH - MARGIN - left) / num_units(signature)
    body = []
    for place, lane in enumerate(signature.lanes):
        top = MARGIN + place * (LANE + GAP)
        body.append(_label(MARGIN, top + LANE / 2, lane.name.in_(lang)))
        body.append(_line("lane", left, top + LANE, WIDTH - MARGIN, top + LANE))
        for block in blocks(lane):
            begin, length = left + block.begin * unit, (block.end - block.begin) * unit
            body.append(
                f'<rect class="{block.letter}" x="{begin:.1f}" y="{top}" width="{max(length - 1, 1):.1f}" '
                f'height="{LANE}" rx="2"/>'
            )
        for at in bars(lane):
            x = left + at * unit
            body.append(_line("step", x, top - GAP / 2, x, top + LANE + GAP / 2))
    below = MARGIN + len(signature.lanes) * (LANE + GAP) + GAP
    keys, height = _legend(signature, below, lang)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title.in_(lang))}</title>',
            f'<desc id="desc">{escape(signature.caption.in_(lang))}</desc>',
            _style(signature),
            f'<rect class="page" width="{WIDTH}" height="{height}"/>',
            *body,
            *keys,
            "</svg>\n",
        )
    )


def _legend(signature: Signature, top: float, lang: Lang) -> tuple[list[str], int]:
    """The letters that occur, in as many lines as they need from `top` on, and the picture's height."""
    keys, x, y = [], float(MARGIN), top
    for letter, text in legend(signature).items():
        told = text.in_(lang)
        width = 18 + text_width(told) + 14
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y = float(MARGIN), y + 22
        keys.append(f'<rect class="{letter}" x="{x:.1f}" y="{y:.1f}" width="12" height="12" rx="2"/>')
        keys.append(_label(x + 18, y + 6, told))
        x += width
    return keys, round(y + 12 + MARGIN)


def _label(x: float, middle: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{middle + FONT * 0.35:.1f}">{escape(text)}</text>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _style(signature: Signature) -> str:
    """Colours for a light and for a dark page; only those of letters that occur."""

    def rules(place: int, page: str, ink: str, line: str) -> list[str]:
        fills = [f".{letter} {{ fill: {COLOURS[letter][place]} }}" for letter in legend(signature)]
        return [
            f".page {{ fill: {page} }}",
            f"text {{ fill: {ink} }}",
            f".lane {{ stroke: {line} }}",
            f".step {{ stroke: {ink} }}",
            *fills,
        ]

    light, dark = rules(0, "#ffffff", "#1f2328", "#d0d7de"), rules(1, "#0d1117", "#e6edf3", "#3d444d")
    return "\n".join(
        (
            "<style>",
            f"text {{ font: {FONT}px system-ui, sans-serif }}",
            ".step { stroke-dasharray: 3 2 }",
            *light,
            "@media (prefers-color-scheme: dark) {",
            *(f"  {each}" for each in dark),
            "}",
            "</style>",
        )
    )
