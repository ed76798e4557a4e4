"""Telemetry and logs on a terminal: counters of devices and hosts, progress, events, patterns and walks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table

from stepscope.model import report
from stepscope.views.counter import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    MOST_OWNERS,
    MOST_WALKS,
    device_rows,
    host_rows,
)
from stepscope.views.counter_word import (
    counters_head,
    event_lines,
    hint_lines,
    lag_lines,
    more_line,
    own_cost_lines,
    owner_table,
    pattern_lines,
    pattern_table,
    progress_lines,
    reason_lines,
    representative_line,
    walk_head,
    walk_status,
    walk_steps,
)
from stepscope.views.label_signal import say
from stepscope.views.page import Page

_GAP, _INDENT = 2, 2
_COLOUR = {"critical": "bold red", "warning": "yellow", "info": ""}


def job_lines(page: Page, report_: report.Report) -> None:
    """Events and how the job went forward; nothing without logs."""
    lang = page.lang
    events, num_more = event_lines(report_, lang)
    if events:
        page.gap()
        page.line(say("events", lang), "bold")
        for severity, line in events:
            page.line(line, _COLOUR[severity], indent=_INDENT)
        _more(page, num_more)
    if progress := progress_lines(report_, lang):
        page.gap()
        page.line(say("progress", lang), "bold")
        for line in progress:
            page.line(line, indent=_INDENT)
    if costs := own_cost_lines(report_, lang):
        page.gap()
        page.line(say("own_cost", lang), "bold")
        for line in costs:
            page.line(line, indent=_INDENT)


def counters(page: Page, report_: report.Report) -> None:
    """Counters of devices and hosts, and what follows from them; nothing without telemetry."""
    lang = page.lang
    devices, hosts = device_rows(report_), host_rows(report_)
    lags, alike = lag_lines(report_, lang), representative_line(report_, lang)
    if devices or hosts or lags:
        page.gap()
        page.line(counters_head(report_, lang), "bold")
    for rows, columns in ((devices, DEVICE_COLUMNS), (hosts, HOST_COLUMNS)):
        if rows:
            _blocks(page, *owner_table(rows[:MOST_OWNERS], columns, lang))
            _more(page, len(rows) - MOST_OWNERS)
    for line in reason_lines(report_, lang):
        page.line(line, "yellow", indent=_INDENT)
    for line in (*lags, *([alike] if alike else [])):
        page.line(line, "dim", indent=_INDENT)
    _patterns(page, report_)
    _walks(page, report_)
    hints, num_more = hint_lines(report_, lang)
    if hints:
        page.gap()
        page.line(say("hints", lang), "bold")
        for line in hints:
            page.line(line, indent=_INDENT)
        _more(page, num_more)


def _patterns(page: Page, report_: report.Report) -> None:
    if not report_.patterns:
        return
    lang = page.lang
    page.gap()
    page.line(say("patterns", lang), "bold")
    heads, lines, num_more = pattern_table(report_, lang)
    _blocks(page, heads, lines)
    _more(page, num_more)
    for line in pattern_lines(report_, lang):
        page.line(line, indent=_INDENT)
    page.line(say("decides_nothing", lang), "dim", indent=_INDENT)


def _walks(page: Page, report_: report.Report) -> None:
    for walk in report_.walks[:MOST_WALKS]:
        page.gap()
        page.line(walk_head(walk, page.lang), "bold")
        for place, (status, line) in enumerate(walk_steps(walk, page.lang), 1):
            style = {"suspect": "yellow", "unknown": "dim"}.get(status, "")
            page.line(f"{place}. [{walk_status(status, page.lang)}] {line}", style, indent=_INDENT)
    _more(page, len(report_.walks) - MOST_WALKS)


def _more(page: Page, count: int) -> None:
    if count > 0:
        page.line(more_line(count, page.lang), "dim", indent=_INDENT)


def _blocks(page: Page, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A table in as many blocks as its columns need, each with its first column again."""
    wide = [
        max(cell_len(each) for each in (head, *(line[at] for line in lines))) for at, head in enumerate(heads)
    ]
    for columns in blocks(wide, page.width - _INDENT):
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        for column in columns:
            justify: Literal["left", "right"] = "left" if column == 0 else "right"
            table.add_column(page.text(heads[column]), justify=justify, no_wrap=column > 0, overflow="fold")
        for line in lines:
            table.add_row(*(page.text(line[column]) for column in columns))
        page.put(Padding(table, (0, 0, 0, _INDENT), expand=False))


def blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns by block: the first stands in each, the others in order, as many as there is room for."""
    made: list[list[int]] = []
    # A name as long as half the page is folded rather than given all of it.
    first = min(widths[0], room // 2)
    left = -1
    for column, width in enumerate(widths[1:], 1):
        if not made or width + _GAP > left:
            made.append([0])
            left = room - first
        made[-1].append(column)
        left -= width + _GAP
    return made or [[0]]
