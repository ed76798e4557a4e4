"""What a table of the page is made of: columns, how a field is shown in one, and the table itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, percent, scaled, size
from stepscope.views.html.markup import Child, Markup, code, tag
from stepscope.views.label import brackets, counted, word
from stepscope.views.shape import device_name, readable

MOST_ROWS = 60
NAME_WIDTH = 120
_PLACE_WIDTH = 90
_WHOLE_WIDTH = 20
_WIDE = 8
"""A table with more columns is set smaller on paper."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, and what a row says in it; nothing where it is not known."""

    head: Text
    cell: Callable[[Any, Lang], Child]
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of one list of the report. It is left out where that is empty."""

    id: str
    title: Text
    rows: Callable[[report.Report], Sequence[Any]]
    columns: tuple[Column, ...]
    note: Text | None = None
    most: int = MOST_ROWS


def as_time(value: int | None, lang: Lang) -> str:
    """Nanoseconds."""
    return "" if value is None else duration(value)


def as_share(value: float | None, lang: Lang) -> str:
    """A ratio as per cent."""
    return "" if value is None else percent(value)


def as_count(value: int | None, lang: Lang) -> str:
    """A number of things."""
    return "" if value is None else f"{value:,}"


def as_size(value: int | None, lang: Lang) -> str:
    """Bytes of memory."""
    return "" if value is None else size(value)


def as_scaled(unit: str) -> Callable[[float | None, Lang], str]:
    """A number of a unit that takes prefixes."""
    return lambda value, lang: "" if value is None else scaled(value, unit)


def as_plain(value: Any, lang: Lang) -> Child:
    """A number, a word or a text; a word is not broken, however narrow its column."""
    text = "" if value is None else str(value)
    return tag("span", text, class_="whole") if 0 < len(text) <= _WHOLE_WIDTH and " " not in text else text


def as_name(value: str | None, lang: Lang) -> Child:
    """A name from a trace."""
    return None if value is None else code(readable(value, NAME_WIDTH))


def as_place(value: str | None, lang: Lang) -> Child:
    """A line of somebody's code."""
    return None if value is None else code(readable(value, _PLACE_WIDTH))


def as_word(value: str | None, lang: Lang) -> str:
    """A word that we have in both languages."""
    return "" if value is None else word(value, lang)


def as_answer(value: bool | None, lang: Lang) -> str:
    """Yes or no."""
    return "" if value is None else word("yes" if value else "no", lang)


def as_device(value: report.Device | None, lang: Lang) -> str:
    """A device by its number and name."""
    return "" if value is None else device_name(value)


def column(
    head: Text, field: str, show: Callable[[Any, Lang], Child] = as_plain, *, is_number: bool = True
) -> Column:
    """A field of the row as it is shown; `part.field` is a field of a part that may be absent."""
    path = field.split(".")

    def cell(row: Any, lang: Lang) -> Child:
        for name in path:
            row = None if row is None else getattr(row, name)
        return show(row, lang)

    return Column(head, cell, is_number)


RANK = column(Text(en="rank", zh="rank"), "rank")
"""Left out of a table of one rank, of which it says nothing."""


def drawn(rows: Sequence[Any], columns: Sequence[Column], lang: Lang, most: int = MOST_ROWS) -> Markup:
    """A table of the first rows; columns in which no row says anything are left out."""
    shown = rows[:most]
    cells = [[column.cell(row, lang) for row in shown] for column in columns]
    kept = [(column, told) for column, told in zip(columns, cells, strict=True) if any(map(_says, told))]
    head = tag("tr", (tag("th", c.head.in_(lang), scope="col", class_=_kind(c)) for c, _ in kept))
    body = (
        tag("tr", (tag("td", told[at], class_=_kind(column)) for column, told in kept))
        for at in range(len(shown))
    )
    more = len(rows) - len(shown)
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", body), class_="wide" if len(kept) > _WIDE else None),
        tag("p", f"+ {more:,} {word('more_rows', lang)}", class_="note") if more else None,
        class_="scroll",
        tabindex=0,
        role="group",
        aria_label=counted(len(shown), lang, "row", "rows", "行"),
    )


def _says(cell: Child) -> bool:
    return any(map(_says, cell)) if isinstance(cell, list) else bool(cell)


def _kind(column: Column) -> str:
    return "number" if column.is_number else "words"


def folded(table: Table, report_: report.Report, lang: Lang, *, has_rank: bool = False) -> Markup | None:
    """A table behind its title, to be opened; nothing where the report has no such rows.

    The rank is a column where there are several, and where `has_rank` asks for it.
    """
    rows = table.rows(report_)
    if not rows:
        return None
    is_told = has_rank or len({getattr(row, "rank", None) for row in rows}) > 1
    columns = [column for column in table.columns if column is not RANK or is_told]
    title = f"{table.title.in_(lang)}{brackets(f'{len(rows):,}', lang)}"
    return tag(
        "details",
        tag("summary", tag("h3", title)),
        tag("p", table.note.in_(lang), class_="note") if table.note is not None else None,
        drawn(rows, columns, lang, table.most),
        id=table.id,
    )
