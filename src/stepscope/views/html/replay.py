"""What a change would win, as bars, and what the critical path passes through."""

from __future__ import annotations

from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, percent
from stepscope.views.html.chart import percentage, told_bar
from stepscope.views.html.column import RANK, Column, as_share, as_time, column, drawn
from stepscope.views.html.fill import fill
from stepscope.views.html.markup import Child, Markup, tag
from stepscope.views.job import part_key, path_parts
from stepscope.views.job_word import (
    WORDS,
    part_name,
    removed_name,
    replay_line,
    say,
    shown_what_ifs,
    what_if_lines,
)
from stepscope.views.label import COMPUTE_KIND, brackets, colon

_IN_NUMBERS = Text(en="The critical path in numbers", zh="关键路径的数值")
_FULL = Text(en="full width: the whole step", zh="满宽为整步")


def replay(report_: report.Report, lang: Lang) -> tuple[Text, Child] | None:
    """The section of what a change would win; nothing without a replay."""
    found = report_.replay
    if found is None:
        return None
    told = tag("p", replay_line(found, lang), class_="note")
    if found.status == "withheld":
        return WORDS["what_if"], told
    bars = [_bar(each, lang) for each in shown_what_ifs(found)]
    pieces = [(part, part_name(part, report_, lang), share) for part, share in path_parts(found)]
    made: list[Child] = [
        tag("figure", tag("div", bars, class_="lanes"), tag("figcaption", _FULL.in_(lang)))
        if bars
        else [tag("p", line) for line in what_if_lines(found, lang)],
        told_bar(say("path", lang), pieces, lang, level=3),
        _path(found, report_, lang),
        told,
    ]
    return WORDS["what_if"], made


def _bar(each: report.WhatIf, lang: Lang) -> Markup:
    """What one change wins of the step."""
    name, gain = removed_name(each, lang), f"−{percent(each.gain_share)}"
    told = f"{gain}{brackets(f'{duration(each.step_ns)} → {duration(each.predicted_ns)}', lang)}"
    width = percentage(max(0.0, min(1.0, each.gain_share)), 1)
    shape = tag("rect", width=width, height=14, fill=fill("compute"))
    label = f"{name}{colon(lang)}{told}"
    return tag(
        "div",
        tag("span", name, tag("small", f" {told}"), class_="label"),
        tag("svg", shape, class_="lane", role="img", aria_label=label),
        class_="row",
    )


def _path(found: report.Replay, report_: report.Report, lang: Lang) -> Markup | None:
    if not found.critical_path:
        return None

    def part(row: report.PathPart, lang: Lang) -> str:
        kind = row.part.removeprefix("compute.")
        if kind != row.part:
            return COMPUTE_KIND[kind].in_(lang) if kind in COMPUTE_KIND else kind
        return part_name(part_key(row.part), report_, lang)

    columns = (
        Column(Text(en="part", zh="部分"), part, is_number=False),
        RANK,
        column(Text(en="time", zh="时间"), "time_ns", as_time),
        column(Text(en="of the path", zh="占路径"), "share", as_share),
    )
    table = drawn(found.critical_path, columns, lang)
    return tag("details", tag("summary", _IN_NUMBERS.in_(lang)), table)
