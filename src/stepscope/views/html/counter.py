"""Telemetry and logs on the page: counters of devices and hosts, their drawings, events, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.views.counter import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    MOST_OWNERS,
    MOST_WALKS,
    OwnerRow,
    device_rows,
    event_groups,
    host_rows,
    is_host,
    pattern_rows,
)
from stepscope.views.counter_word import (
    counters_head,
    event_lines,
    hint_lines,
    holds,
    lag_lines,
    more_line,
    own_cost_lines,
    owner_name,
    owner_table,
    pattern_name,
    progress_lines,
    reason_lines,
    representative_line,
    side_numbers,
    subject,
    walk_head,
    walk_status,
    walk_steps,
)
from stepscope.views.detail_signal import signal_text
from stepscope.views.html.column import Column, drawn
from stepscope.views.html.markup import Child, Markup, tag
from stepscope.views.html.trend import axis_of, chart_notes, charts, event_lane
from stepscope.views.label import colon
from stepscope.views.label_signal import say

MOST_DRAWN = 8
"""Devices with drawings; of more the numbers tell."""
_SHOWN_EVENTS = 12
_JOB = Text(en="Events and progress", zh="事件与进度")
_FOLLOWS = Text(en="What follows from the counters", zh="由计数器得出")
_LEFT_OUT = Text(en="{count} more devices are not drawn.", zh="另有 {count} 个设备未绘出。")
_NUMBERS = Text(en="in numbers", zh="数值")


def job(report_: report.Report, lang: Lang) -> tuple[Text, Child] | None:
    """The section of events and of how the job went forward; nothing without either."""
    made: list[Child] = []
    events, num_more = event_lines(report_, lang, most=_SHOWN_EVENTS)
    if events:
        lines = (tag("li", line, class_=_LOOK[severity]) for severity, line in events)
        made += [tag("h3", say("events", lang)), tag("ul", lines, class_="health"), _more(num_more, lang)]
    if progress := progress_lines(report_, lang):
        made += [tag("h3", say("progress", lang)), tag("ul", (tag("li", line) for line in progress))]
    if costs := own_cost_lines(report_, lang):
        made += [tag("h3", say("own_cost", lang)), tag("ul", (tag("li", line) for line in costs))]
    return (_JOB, made) if made else None


_LOOK = {"critical": "withheld", "warning": "degraded", "info": "none"}
"""The look of a line of the health list that fits a severity."""


def counters(report_: report.Report, lang: Lang) -> tuple[str, Child] | None:
    """The section of counters; nothing without telemetry."""
    devices, hosts = device_rows(report_), host_rows(report_)
    told = [*reason_lines(report_, lang), *lag_lines(report_, lang)]
    if alike := representative_line(report_, lang):
        told.append(alike)
    if not devices and not hosts and not told:
        return None
    made: list[Child] = [
        _table(rows, columns, lang)
        for rows, columns in ((devices, DEVICE_COLUMNS), (hosts, HOST_COLUMNS))
        if rows
    ]
    made.append(tag("ul", (tag("li", line) for line in told)) if told else None)
    made.append(_drawings(devices, hosts, report_, lang))
    return counters_head(report_, lang), made


def _table(rows: Sequence[OwnerRow], columns: Sequence[Any], lang: Lang) -> Markup:
    heads, lines = owner_table(rows, columns, lang)
    shown = [Column(Text(en=head, zh=head), _cell(at), is_number=at > 0) for at, head in enumerate(heads)]
    return drawn(lines, shown, lang, most=max(MOST_OWNERS, len(lines)) if len(lines) <= 64 else MOST_OWNERS)


def _cell(at: int) -> Callable[[list[str], Lang], str]:
    return lambda row, lang: row[at]


def _drawings(
    devices: Sequence[OwnerRow], hosts: Sequence[OwnerRow], report_: report.Report, lang: Lang
) -> Child:
    shown = [*devices[:MOST_DRAWN], *hosts[:MOST_DRAWN]]
    axis = axis_of(shown, report_)
    if axis is None:
        return None
    figures = []
    for row in shown:
        of = hosts if is_host(row.device) else devices
        if (lanes := charts(row, axis, report_, lang)) is not None:
            figures.append(tag("figure", tag("h4", owner_name(row, of, lang)), lanes))
    if not figures:
        return None
    more = len(devices) - MOST_DRAWN
    return [
        tag("h3", say("over_time", lang)),
        event_lane(event_groups(report_), axis, lang),
        figures,
        tag("figure", chart_notes(shown, report_, axis, lang)),
        tag("p", _LEFT_OUT.in_(lang).format(count=more), class_="note") if more > 0 else None,
    ]


def follows(report_: report.Report, lang: Lang) -> tuple[Text, Child] | None:
    """The section of patterns, ordered walks and hints; nothing where there are none."""
    made: list[Child] = []
    if report_.patterns:
        made += [
            tag("h3", say("patterns", lang)),
            drawn(pattern_rows(report_), _PATTERNS, lang),
            tag("p", say("decides_nothing", lang), class_="note"),
        ]
    for place, walk in enumerate(report_.walks):
        stations = (
            tag("li", tag("strong", walk_status(status, lang)), colon(lang), line)
            for status, line in walk_steps(walk, lang)
        )
        head = walk_head(walk, lang)
        if place < MOST_WALKS:
            made += [tag("h3", head), tag("ol", stations)]
        else:
            made.append(tag("details", tag("summary", head), tag("ol", stations)))
    hints, num_more = hint_lines(report_, lang)
    if hints:
        made += [tag("h3", say("hints", lang)), tag("ul", map(_hint, hints, report_.hints))]
        made.append(_more(num_more, lang))
    return (_FOLLOWS, made) if made else None


def _hint(line: str, hint: report.Hint) -> Markup:
    """A hint, and where its thresholds come from."""
    return tag("li", line, *_sources(hint.evidence))


def _sources(evidence: Sequence[report.Evidence]) -> list[Markup]:
    sources = dict.fromkeys(each.reference for each in evidence if each.reference)
    return [tag("small", source, class_="below") for source in sources]


def _more(count: int, lang: Lang) -> Markup | None:
    return tag("p", more_line(count, lang), class_="note") if count > 0 else None


def _side(field: str) -> Callable[[report.Pattern, Lang], Child]:
    def told(row: report.Pattern, lang: Lang) -> Child:
        side: report.PatternSide = getattr(row, field)
        numbers = (tag("span", line, class_="below") for line in side_numbers(side, lang))
        return [tag("span", holds(side, lang), class_="whole"), *numbers, *_sources(side.evidence)]

    return told


_PATTERNS = (
    Column(Text(en="pattern", zh="模式"), pattern_name, is_number=False),
    Column(
        Text(en="device", zh="设备"), lambda row, lang: subject(row.device, row.rank, lang), is_number=False
    ),
    Column(Text(en="as written", zh="原文阈值"), _side("as_written"), is_number=False),
    Column(Text(en="effective", zh="生效阈值"), _side("effective"), is_number=False),
    Column(
        Text(en="begin with", zh="从此入手"),
        lambda row, lang: "" if row.advice is None else signal_text(row.advice, lang),
        is_number=False,
    ),
)
