"""A comparison on a terminal, in Markdown and as JSON: the answer first, then what changed, the next command
last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from stepscope.model.comparison import SCHEMA, ComparedClass, ComparedSide, Comparison, encode
from stepscope.model.text import Lang
from stepscope.views import json
from stepscope.views.compare_table import WORDS, Shown, tables
from stepscope.views.label import brackets, colon, counted, joined, word
from stepscope.views.markdown import code, escaped
from stepscope.views.page import Page
from stepscope.views.shape import readable

_COLOUR: Mapping[ComparedClass, str] = {
    "better": "bold green", "worse": "bold red", "same": "bold", "unknown": "bold cyan",
}  # fmt: skip
_NAME, _WORD = 48, 16


def render(told: Comparison, console: Console, lang: Lang = "en") -> None:
    """Print the comparison."""
    page = Page(console, lang)
    page.line(told.verdict.text, _COLOUR[told.verdict.class_])
    for line in _reasons(told):
        page.line(line, "dim", indent=2)
    page.gap()
    for key, side in (("base", told.base), ("new", told.new)):
        page.line(f"{WORDS[key].in_(lang)}{colon(lang)}{_side(side, lang)}")
    for table in tables(told, lang):
        page.gap()
        page.line(table.title, "bold")
        _table(page, table)
    page.gap()
    page.command(f"{word('next', lang)}{colon(lang)}", told.next)


def _reasons(told: Comparison) -> list[str]:
    """Why it is so: the second line of the answer."""
    others = [each.text for each in told.obstacles[1:]]
    return [*others, told.verdict.why]


def _side(side: ComparedSide, lang: Lang) -> str:
    span = "" if side.steps is None else brackets("–".join(map(str, dict.fromkeys(side.steps))), lang)
    steps = counted(side.num_steps, lang, "step", "steps", "步") + span
    return joined((side.name, steps, side.text.rstrip(".。")), lang)


def _table(page: Page, shown: Shown) -> None:
    room = max(20, min(_NAME, page.width - 52))
    rows = [
        [readable(cell, room) if n in shown.names else cell for n, cell in enumerate(row)]
        for row in shown.rows
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=any(shown.heads))
    for column, head in enumerate(shown.heads):
        is_text = column in shown.texts
        justify: Literal["left", "right"] = "left" if is_text else "right"
        # A column of words is as wide as its longest: no word is cut in two.
        cells = [row[column].replace("· ", "··") for row in rows] if is_text else []
        words = [word for cell in cells for word in cell.split()]
        least = min(max(map(cell_len, words), default=0), _WORD)
        table.add_column(
            page.text(head), justify=justify, overflow="fold", no_wrap=not is_text, min_width=least
        )
    for row in rows:
        table.add_row(*map(page.text, row))
    page.put(Padding(table, (0, 0, 0, 2), expand=False))
    if shown.num_more:
        page.line(f"+ {shown.num_more} {WORDS['more'].in_(page.lang)}", "dim", indent=2)


def as_markdown(told: Comparison, lang: Lang = "en") -> str:
    """The comparison for a pull request: the answer and the times stand first, the rest is folded."""
    lines = [f"**{escaped(told.verdict.text)}**", ""]
    lines += [f"- {escaped(line)}" for line in _reasons(told)]
    lines += [
        f"- {WORDS[key].in_(lang)}{colon(lang)}{escaped(_side(side, lang))}"
        for key, side in (("base", told.base), ("new", told.new))
    ]
    for place, table in enumerate(tables(told, lang)):
        body = _markdown_table(table, lang)
        is_open = place == 0 and bool(told.step_time)
        lines += ["", *body] if is_open else _fold(table.title, body)
    lines += ["", f"{word('next', lang)}{colon(lang)}".rstrip(), "", "```sh", told.next, "```"]
    return "\n".join(lines) + "\n"


def _markdown_table(shown: Shown, lang: Lang) -> list[str]:
    rule = "|".join("---" if column in shown.texts else "--:" for column in range(len(shown.heads)))
    lines = ["| " + " | ".join(map(escaped, shown.heads)) + " |", f"|{rule}|"]
    for row in shown.rows:
        cells = [
            code(readable(cell, _NAME)).replace("|", "\\|") if n in shown.names else escaped(cell)
            for n, cell in enumerate(row)
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, *(["", f"+ {shown.num_more} {WORDS['more'].in_(lang)}"] if shown.num_more else [])]


def _fold(title: str, body: list[str]) -> list[str]:
    return ["", "<details>", f"<summary>{escaped(title)}</summary>", "", *body, "", "</details>"]


def as_json(told: Comparison) -> str:
    """The comparison as indented JSON, ending in a newline; what could steer a terminal is escaped."""
    return json.indented(encode(told))


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `stepscope.compare/1`: no null, further fields allowed."""
    return json.schema_of(Comparison, SCHEMA)


def schema_text() -> str:
    """The schema as the committed file holds it."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
