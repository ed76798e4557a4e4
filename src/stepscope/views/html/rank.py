"""The ranks of a job together: who is late, what each did when, how late each came, clocks, and waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, percent
from stepscope.views.html.chart import percentage
from stepscope.views.html.column import (
    RANK,
    Column,
    as_answer,
    as_count,
    as_name,
    as_share,
    as_time,
    column,
    drawn,
)
from stepscope.views.html.fill import fill, swatch
from stepscope.views.html.markup import Child, Markup, tag
from stepscope.views.job import (
    LEVELS,
    Heat,
    LateRow,
    Strip,
    heat,
    kinds_of_collectives,
    strips,
    used_parts,
)
from stepscope.views.job_word import (
    PERSISTENCE,
    REASON,
    clock_line,
    collective_head,
    collective_told,
    has_ranks,
    heat_scale,
    imbalance_line,
    lateness_lines,
    lateness_of,
    part_name,
    place_of,
    rank_name,
    say,
    signed,
    strip_name,
)
from stepscope.views.label import brackets, colon, joined

MOST_ROWS = 64
"""Ranks with a row of a drawing: of more the late ones and evenly spaced ones."""
_TITLE = Text(en="Ranks", zh="各 rank")
_IN_NUMBERS = Text(en="The same in numbers", zh="对应的数值")
_CLOCKS = Text(en="Clock of each rank", zh="各 rank 的时钟")
_LEFT_OUT = Text(en="{count} more ranks are not drawn.", zh="另有 {count} 个 rank 未绘出。")
_BLANK = Text(en="blank: nothing recorded", zh="空白：没有记录")
_STEPS = Text(en="steps {first} to {last}", zh="第 {first} 至 {last} 步")
_STEP = Text(en="step {first}", zh="第 {first} 步")
_WITHIN = Text(
    en="Ranks within {noise} in every step, which are not drawn: {count}.",
    zh="每一步都在 {noise} 以内的 rank，未绘出：{count} 个。",
)
_ALL_ROWS = 16
"""Of more ranks, those that are late in no step have no row in the map of lateness."""


def ranks(report_: report.Report, lang: Lang) -> tuple[Text, Child] | None:
    """The section of the ranks; nothing where no two were compared."""
    if not has_ranks(report_):
        return None
    lines = lateness_lines(report_, lang) if not report_.stragglers else []
    lines += [line] if (line := imbalance_line(report_, lang)) else []
    doubt = report_.lateness is not None and report_.lateness.why is not None
    if report_.stragglers and doubt:
        lines.append(lateness_lines(report_, lang)[-1])
    made: list[Child] = [
        drawn(report_.stragglers, _STRAGGLERS, lang) if report_.stragglers else None,
        [tag("p", line) for line in lines],
        _map(report_, lang),
        _heat(report_, lang),
        _collectives(report_, lang),
        _clocks(report_, lang),
    ]
    return _TITLE, made


def _map(report_: report.Report, lang: Lang) -> Child:
    whole, shown = report_.rank_map, strips(report_, MOST_ROWS)
    if whole is None or not shown:
        return None
    num_cells = max(len(strip.parts) for strip in shown)
    length = whole.cell_ns * num_cells
    used = used_parts(shown)
    legend = [tag("li", swatch(part), f" {part_name(part, report_, lang)}") for part in used]
    legend.append(tag("li", _BLANK.in_(lang)))
    ticks = [duration(length * half / 2) if half else "0" for half in (0, 1, 2)]
    return [
        tag("h3", say("map", lang)),
        tag(
            "figure",
            tag(
                "div",
                [_strip(strip, num_cells, report_, lang) for strip in shown],
                _axis(ticks),
                class_="ranks",
            ),
            tag(
                "figcaption",
                tag("ul", legend, class_="legend"),
                _left_out(len(whole.rows) - len(shown), lang),
            ),
        ),
    ]


def _strip(strip: Strip, num_cells: int, report_: report.Report, lang: Lang) -> Markup:
    """One rank's row: a shape a run of one part; a group of all runs of a part says how they look."""
    name = strip_name(strip.rank, report_, lang)
    groups: dict[str, list[Markup]] = {}
    for part, first, count in strip.runs:
        x, width = percentage(first, num_cells), percentage(count, num_cells)
        groups.setdefault(part, []).append(tag("rect", x=x, width=width, height=14))
    told = joined(
        (f"{part_name(part, report_, lang)} {percent(share)}" for part, share in strip.shares), lang
    )
    label = f"{name}{colon(lang)}{told}"
    return _labelled(
        name,
        tag(
            "svg",
            tag("title", label),
            [tag("g", shapes, fill=fill(part)) for part, shapes in groups.items()],
            class_="lane",
            role="img",
            aria_label=label,
        ),
        strip.is_late,
    )


def _labelled(name: Child, drawing: Markup, is_late: bool) -> Markup:
    return tag("div", tag("span", name, class_="label late" if is_late else "label"), drawing)


def _axis(ticks: Sequence[str]) -> Markup:
    return tag("div", tag("span"), tag("div", (tag("span", tick) for tick in ticks), class_="axis"))


def _left_out(number: int, lang: Lang) -> Markup | None:
    return tag("p", _LEFT_OUT.in_(lang).format(count=f"{number:,}")) if number > 0 else None


def _heat(report_: report.Report, lang: Lang) -> Child:
    found = heat(report_, MOST_ROWS)
    if found is None:
        return None
    numbers = tag("details", tag("summary", _IN_NUMBERS.in_(lang)), drawn(found.rows, _LATE, lang, MOST_ROWS))
    first, last = found.steps[0], found.steps[-1]
    which = (_STEP if first == last else _STEPS).in_(lang).format(first=first, last=last)
    head = say("heat", lang) + brackets(which, lang)
    is_drawn = found.is_any_late and len(found.rows) <= _ALL_ROWS
    shown = [row for row in found.rows if is_drawn or any(row.levels)]
    even = len(found.rows) - len(shown)
    return [
        tag("h3", head),
        tag(
            "figure",
            tag(
                "div",
                [_late_row(row, found, report_, lang) for row in shown],
                _axis([str(first), str(last)] if first != last else [str(first)]),
                class_="ranks",
            )
            if shown
            else None,
            tag(
                "figcaption",
                tag("p", heat_scale(found, lang)) if shown else None,
                tag("p", _WITHIN.in_(lang).format(count=even, noise=duration(found.noise_ns)))
                if even
                else None,
                _left_out(found.num_left_out, lang),
            ),
        ),
        numbers,
    ]


def _late_row(row: LateRow, found: Heat, report_: report.Report, lang: Lang) -> Markup:
    """One rank's row: a column a step, the higher the later; a line below where it has the step at all."""
    name = strip_name(row.rank, report_, lang)
    most = "" if row.most_ns is None else duration(row.most_ns)
    late = f"至多落后 {most}" if lang == "zh" else f"late by at most {most}"
    label = f"{name}{colon(lang)}{late}" if most else name
    drawing = tag(
        "svg",
        tag("title", label),
        tag("path", d=_runs(row.levels, is_line=True), class_="there"),
        tag("path", d=_runs(row.levels, is_line=False), class_="behind"),
        viewBox=f"0 0 {len(found.steps)} {LEVELS}",
        preserveAspectRatio="none",
        class_="lane",
        role="img",
        aria_label=label,
    )
    return _labelled([rank_name(row.rank, lang), tag("small", f" {most}")], drawing, row.is_late)


def _runs(levels: Sequence[int | None], *, is_line: bool) -> str:
    """Neighbours of one level as one shape; as a line all levels are one."""
    told, start = [], 0
    for at in range(1, len(levels) + 1):
        first = levels[start]
        same = at < len(levels) and (
            (levels[at] is None) == (first is None) if is_line else levels[at] == first
        )
        if same:
            continue
        if first is not None and (is_line or first):
            high = 0.6 if is_line else first
            told.append(f"M{start} {LEVELS}v-{high:g}h{at - start}v{high:g}z")
        start = at
    return "".join(told) or "M0 0"


def _collectives(report_: report.Report, lang: Lang) -> Child:
    rows = kinds_of_collectives(report_)
    if not rows:
        return None
    longest = rows[0].total_ns
    made, used = [], {}
    for row in rows:
        shapes, at = [], 0
        for part, time in row.pieces:
            used[part] = part_name(part, report_, lang)
            x, width = percentage(at, longest), percentage(time, longest)
            shapes.append(tag("rect", x=x, width=width, height=14, fill=fill(part)))
            at += time
        head, told = collective_head(row, lang), collective_told(row, lang)
        label = f"{head}{colon(lang)}{told}"
        drawing = tag("svg", shapes, class_="lane", role="img", aria_label=label)
        made.append(
            tag("div", tag("span", head, tag("small", f" {told}"), class_="label"), drawing, class_="row")
        )
    legend = (tag("li", swatch(part), f" {name}") for part, name in used.items())
    return [
        tag("h3", say("collectives", lang)),
        tag(
            "figure",
            tag("div", made, class_="lanes"),
            tag("figcaption", tag("ul", legend, class_="legend")),
        ),
    ]


def _clocks(report_: report.Report, lang: Lang) -> Child:
    line = clock_line(report_, lang)
    if not line or report_.clocks is None:
        return None
    table = drawn(report_.clocks.ranks, _OF_CLOCK, lang)
    return [tag("p", line), tag("details", tag("summary", _CLOCKS.in_(lang)), table)]


def _method(row: report.RankClock, lang: Lang) -> str:
    if row.method == "collectives":
        return "按集合通信" if lang == "zh" else "by collectives"
    return say("no_clocks" if row.method == "none" else "given", lang)


def _ppm(value: float | None, lang: Lang) -> str:
    return "" if value is None else f"{value:+.2f} ppm"


def _spread(value: float | None, lang: Lang) -> str:
    return "" if value is None else f"{value:.2f} ppm"


def _signed(value: int | None, lang: Lang) -> str:
    return "" if value is None else signed(value)


def _several(report_: Any, lang: Lang) -> str:
    return "" if report_.num_late is None else f"{report_.num_late:,} / {report_.num_steps:,}"


_STRAGGLERS = (
    column(RANK.head, "rank"),
    Column(Text(en="place", zh="位置"), place_of, is_number=False),
    Column(Text(en="late by", zh="落后"), lateness_of),
    Column(Text(en="in steps", zh="步数"), _several),
    column(Text(en="costs", zh="代价"), "cost_ns", as_time),
    column(Text(en="share", zh="占比"), "share", as_share),
    Column(
        Text(en="persistence", zh="持续性"),
        lambda row, lang: PERSISTENCE[row.persistence].in_(lang),
        is_number=False,
    ),
    Column(
        Text(en="reason", zh="原因"),
        lambda row, lang: REASON[row.reason].in_(lang) if row.reason in REASON else row.reason,
        is_number=False,
    ),
    column(Text(en="meanwhile", zh="其间"), "culprit", as_name, is_number=False),
    column(Text(en="so without clocks", zh="不看时钟也成立"), "is_confirmed", as_answer, is_number=False),
)
_LATE = (
    column(RANK.head, "rank"),
    column(Text(en="late by at most", zh="最大落后"), "most_ns", as_time),
    column(Text(en="in step", zh="所在步"), "latest_step"),
    column(Text(en="waited in all", zh="共等待"), "wait_ns", as_time),
)
_OF_CLOCK = (
    column(RANK.head, "rank"),
    Column(Text(en="aligned", zh="对齐"), _method, is_number=False),
    column(Text(en="set", zh="组"), "component", as_count),
    column(Text(en="ahead by", zh="超前"), "offset_ns", _signed),
    column(Text(en="error", zh="误差"), "offset_error_ns", as_time),
    column(Text(en="drift", zh="漂移"), "drift_ppm", _ppm),
    column(Text(en="standard error", zh="标准误差"), "drift_error_ppm", _spread),
    column(Text(en="residual", zh="残差"), "residual_ns", as_time),
)
