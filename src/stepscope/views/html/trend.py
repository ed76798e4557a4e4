"""Signals over time as SVG: a line each on one axis, with steps, the traced window, gaps and doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model import report
from stepscope.model.signal import SIGNALS
from stepscope.model.text import Lang, Text, duration
from stepscope.views.counter import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    EventGroup,
    OwnerRow,
    figure,
    mask_bits,
    telemetry_clock,
)
from stepscope.views.counter_word import event_line, span, value_of
from stepscope.views.html.chart import percentage
from stepscope.views.html.markup import Child, Markup, tag
from stepscope.views.label import colon, counted, joined
from stepscope.views.label_signal import clock_reasons, say, signal_name
from stepscope.views.trend import Placed, bars, longest_step_ns, placed, reaches, slices

_WIDE, _TALL = 1000, 40
"""The drawing's own units: its width is stretched to the page's, its height is pixels."""
_SLICES = 16
"""Pieces of a drawing that say their figures when pointed at."""
_MOST_STEPS = 80
_MOST_EVENTS = 60
_MARK = 0.4
"""The width of an event's mark in per cent."""

_FIGURES = Text(en="mean {mean}, top {top}", zh="平均 {mean}，顶端 {top}")
_MOST = Text(en="most {most}, top {top}", zh="最大 {most}，顶端 {top}")
_TOP = Text(en="top {top}", zh="顶端 {top}")
_PIECE = Text(en="{value}, {samples}, from {start} to {end}", zh="{value}，{samples}，{start} 至 {end}")
_DOUBT = Text(
    en="The pale area is where a value may lie: the lag is known to {reach} only.",
    zh="浅色区域为值可能所在的范围：滞后只知道在 {reach} 之内。",
)
_RAW = Text(
    en="Dashed lines lie where they were read: nothing tells how far they lag behind.",
    zh="虚线按读取时刻绘制：无从得知滞后多少。",
)
_KEYS = {
    "traced": Text(en="the traced window", zh="trace 所覆盖的窗口"),
    "begins": Text(en="a step begins", zh="步的开始"),
    "gap": Text(en="blank: no sample", zh="空白：没有样本"),
}
_AT = Text(en="{what} at {time}", zh="{time}：{what}")
_OVER_STEP = Text(en="Counters over it, each sample as the time that it describes", zh="其间的计数器")
_TOO_COARSE = Text(
    en="{name}: its lag is known to {reach} only, which is longer than this step: not drawn",
    zh="{name}：滞后只知道在 {reach} 之内，比这一步还长，未绘出",
)
_UNPLACED = Text(
    en="{name}: nothing tells how far it lags behind: not drawn", zh="{name}：无从得知滞后多少，未绘出"
)


@dataclass(frozen=True, slots=True)
class Axis:
    """The time that all drawings of a section share."""

    start_ns: int
    end_ns: int

    @property
    def whole(self) -> int:
        """Its length."""
        return max(1, self.end_ns - self.start_ns)

    def x(self, at_ns: int) -> int:
        """A time in the drawing's own units."""
        return round(_WIDE * (at_ns - self.start_ns) / self.whole)

    def clipped(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """The part of a time that lies on the axis."""
        low, high = max(start_ns, self.start_ns), min(end_ns, self.end_ns)
        return (low, high) if low < high else None


def _charted() -> tuple[str, ...]:
    """The signals that are drawn: those of the tables, but for limits, which are set once."""
    names: dict[str, None] = {}
    for column in (*DEVICE_COLUMNS, *HOST_COLUMNS):
        for name in (column.signal, column.beside, column.else_):
            if name is not None and SIGNALS[name].aggregate in ("mean", "max"):
                names[name] = None
    return tuple(names)


CHARTED = _charted()
_LIMIT = {
    column.signal: column.beside
    for column in (*DEVICE_COLUMNS, *HOST_COLUMNS)
    if column.beside is not None and SIGNALS[column.beside].aggregate == "last"
}
"""What a signal's drawing ends at."""


def axis_of(rows: Sequence[OwnerRow], report_: report.Report) -> Axis | None:
    """From the first to the last sample of any row; `None` where there are no two."""
    ends = []
    for row in rows:
        for summary in row.signals.values():
            points = placed(summary, telemetry_clock(report_, summary.source)).points
            if points:
                ends += [points[0][0], points[-1][0]]
    return Axis(min(ends), max(ends)) if ends and min(ends) < max(ends) else None


def charts(row: OwnerRow, axis: Axis, report_: report.Report, lang: Lang) -> Markup | None:
    """Every signal of one device or host that is worth a line; nothing where none has two points."""
    names = [name for name in CHARTED if name in row.signals and len(row.signals[name].points) > 1]
    drawn = [_chart(row, row.signals[name], axis, report_, lang) for name in names]
    reasons = _reasons(row, axis, report_, lang)
    if not drawn and reasons is None:
        return None
    ticks = [span(axis.whole * quarter // 4) for quarter in (0, 2, 4)]
    ruler = tag("div", tag("span"), tag("div", (tag("span", tick) for tick in ticks), class_="axis"))
    return tag("div", drawn, reasons, ruler, class_="lanes")


def chart_notes(rows: Sequence[OwnerRow], report_: report.Report, axis: Axis, lang: Lang) -> Markup:
    """What the drawings' shades and dashes mean."""
    all_ = [
        placed(summary, telemetry_clock(report_, summary.source))
        for row in rows
        for name, summary in row.signals.items()
        if name in CHARTED and len(summary.points) > 1
    ]
    doubtful = [one.before_ns + one.after_ns for one in all_ if reaches(one, axis.start_ns, axis.end_ns)]
    keys = ["traced"] if _traced(axis, report_) is not None else []
    keys += ["begins"] if any(_begins(axis, report_, row.rank) for row in rows) else []
    keys += ["gap"] if any(len(one.runs()) > 1 for one in all_) else []
    return tag(
        "figcaption",
        tag("ul", (_key(key, _KEYS[key].in_(lang)) for key in keys), class_="legend") if keys else None,
        tag("p", _DOUBT.in_(lang).format(reach=duration(max(doubtful)))) if doubtful else None,
        tag("p", _RAW.in_(lang))
        if any(one.is_raw for one in all_) and _traced(axis, report_) is not None
        else None,
    )


def _key(look: str, told: str) -> Markup:
    shape = {
        "traced": tag("rect", width="100%", height="100%", class_="traced"),
        "begins": tag("line", x1="50%", x2="50%", y1="0", y2="100%", class_="begins"),
        "gap": None,
    }[look]
    mark = tag("svg", shape, class_="swatch", aria_hidden="true", focusable="false") if shape else None
    return tag("li", mark, f" {told}" if mark else told)


def _chart(
    row: OwnerRow, summary: report.SignalSummary, axis: Axis, report_: report.Report, lang: Lang
) -> Markup:
    one = placed(summary, telemetry_clock(report_, summary.source))
    top = _top(row, summary)
    floor = min(0.0, min(value for _, value in one.points))

    def y(value: float) -> str:
        return f"{_TALL - 2 - (value - floor) * (_TALL - 4) / ((top - floor) or 1):.1f}".removesuffix(".0")

    line = "".join(
        "M" + "L".join(f"{axis.x(at)} {y(value)}" for at, value in run) + ("h0" if len(run) == 1 else "")
        for run in one.runs()
    )
    reach = "".join(
        "M"
        + "L".join(f"{axis.x(each.at_ns)} {y(each.most)}" for each in run)
        + "L"
        + "L".join(f"{axis.x(each.at_ns)} {y(each.least)}" for each in reversed(run))
        + "Z"
        for run in reaches(one, axis.start_ns, axis.end_ns)
    )
    steps = _begins(axis, report_, row.rank)
    figures = _figures(summary, top, lang)
    name = signal_name(summary.signal, lang)
    return _lane(
        name,
        figures,
        [
            _shade(axis, report_),
            tag("path", d=reach, class_="reach") if reach else None,
            tag("path", d=steps, class_="grid") if steps else None,
            tag("path", d=line, class_="trend raw" if one.is_raw and report_.accounting else "trend"),
            _pointed(one, summary, axis, lang),
        ],
        f"{name}{colon(lang)}{figures}",
        "signal",
    )


def _lane(name: str, small: str, shapes: Child, label: str, look: str) -> Markup:
    """A drawing behind its name. A signal's own units are stretched to the page's width."""
    is_signal = look == "signal"
    drawing = tag(
        "svg",
        shapes,
        viewBox=f"0 0 {_WIDE} {_TALL}" if is_signal else None,
        preserveAspectRatio="none" if is_signal else None,
        class_=look,
        role="img",
        aria_label=label,
    )
    told = tag("span", name, tag("small", f" {small}") if small else None, class_="label")
    return tag("div", told, drawing, class_="row")


def _top(row: OwnerRow, summary: report.SignalSummary) -> float:
    """What the drawing ends at: all of a ratio, the limit of what has one, else the largest sample."""
    most = max(value for _, value in summary.points)
    if summary.unit == "ratio":
        return max(1.0, most)
    limit = row.signals.get(_LIMIT.get(summary.signal) or "")
    end = figure(limit, "mean") if limit is not None else None
    return max(most, end or 0.0) or 1.0


def _figures(summary: report.SignalSummary, top: float, lang: Lang) -> str:
    told = value_of(summary, top, lang)
    if summary.mean is not None:
        return _FIGURES.in_(lang).format(mean=value_of(summary, summary.mean, lang), top=told)
    if summary.max is not None:
        return _MOST.in_(lang).format(most=value_of(summary, summary.max, lang), top=told)
    return _TOP.in_(lang).format(top=told)


def _pointed(one: Placed, summary: report.SignalSummary, axis: Axis, lang: Lang) -> list[Markup]:
    """Pieces that nobody sees and that say their figures when pointed at."""
    made = []
    for each in slices(one, axis.start_ns, axis.end_ns, _SLICES):
        least, most = value_of(summary, each.least, lang), value_of(summary, each.most, lang)
        told = _PIECE.in_(lang).format(
            value=least if least == most else f"{least}–{most}",
            samples=counted(each.count, lang, "sample", "samples", "个样本"),
            start=span(each.start_ns - axis.start_ns),
            end=span(each.end_ns - axis.start_ns),
        )
        x, width = _place(axis, each.start_ns, each.end_ns)
        made.append(tag("rect", tag("title", told), x=x, width=width, height="100%", class_="pointed"))
    return made


def _place(axis: Axis, start_ns: int, end_ns: int) -> tuple[str, str]:
    return percentage(start_ns - axis.start_ns, axis.whole), percentage(end_ns - start_ns, axis.whole)


def _traced(axis: Axis, report_: report.Report) -> tuple[int, int] | None:
    """The report's window where any trace was given."""
    window = report_.window
    if window is None or window.start_ns is None or window.end_ns is None or not report_.accounting:
        return None
    return axis.clipped(window.start_ns, window.end_ns)


def _shade(axis: Axis, report_: report.Report) -> Markup | None:
    found = _traced(axis, report_)
    if found is None:
        return None
    x, width = _place(axis, *found)
    return tag("rect", x=x, width=width, height="100%", class_="traced")


def _begins(axis: Axis, report_: report.Report, rank: int | None) -> str:
    """A line where each step of the rank begins; nothing where they would be a hatching."""
    ranks = {step.rank for step in report_.steps}
    mine = rank if rank in ranks else next((step.rank for step in report_.steps), None)
    starts = {
        step.start_ns
        for step in report_.steps
        if step.rank == mine and axis.start_ns <= step.start_ns <= axis.end_ns
    }
    if len(starts) > _MOST_STEPS:
        return ""
    return "".join(f"M{axis.x(at)} 0V{_TALL}" for at in sorted(starts))


def _reasons(row: OwnerRow, axis: Axis, report_: report.Report, lang: Lang) -> Markup | None:
    """When clocks were held down, and why; nothing where they never were."""
    summary = row.signals.get("clock_event_reasons")
    if summary is None:
        return None
    one = placed(summary, telemetry_clock(report_, summary.source))
    longest = longest_step_ns([at for at, _ in one.points])
    shapes = []
    last: tuple[int, int, int] | None = None
    for (at, value), (after, _) in zip(one.points, [*one.points[1:], (None, 0.0)], strict=True):
        mask = int(value) & ~1
        end = at + round(longest / 2.5) if after is None or after - at > longest else after
        if last is not None and mask == last[2] and last[1] == at:
            last = (last[0], end, mask)
            continue
        shapes += _held(last, axis, lang)
        last = (at, end, mask)
    shapes += _held(last, axis, lang)
    if not shapes:
        return None
    name = signal_name(summary.signal, lang)
    told = joined(clock_reasons(mask_bits(summary) & ~1, lang), lang)
    return _lane(name, told, shapes, f"{name}{colon(lang)}{told}", "lane")


def _held(piece: tuple[int, int, int] | None, axis: Axis, lang: Lang) -> list[Markup]:
    found = axis.clipped(piece[0], piece[1]) if piece is not None and piece[2] else None
    if piece is None or found is None:
        return []
    x, width = _place(axis, *found)
    told = (
        joined(
            (joined(clock_reasons(piece[2], lang), lang), f"{duration(piece[1] - piece[0])}"),
            lang,
        )
        + f" @ {span(piece[0] - axis.start_ns)}"
    )
    return [tag("rect", tag("title", told), x=x, width=width, height="100%", class_="amber")]


def event_lane(groups: Sequence[EventGroup], axis: Axis, lang: Lang) -> Markup | None:
    """Marks of events on the axis, the most severe above the others; nothing where none lies on it."""
    marks = []
    for group in groups[:_MOST_EVENTS]:
        at = group.last.at_ns
        if axis.start_ns <= at <= axis.end_ns:
            x = min(100 - _MARK, 100 * (at - axis.start_ns) / axis.whole)
            told = event_line(group, lang)
            marks.append(
                tag(
                    "rect",
                    tag("title", told),
                    x=f"{x:.2f}%",
                    width=f"{_MARK}%",
                    height="100%",
                    class_={"critical": "red", "warning": "amber", "info": "grey"}[group.last.severity],
                )
            )
    if not marks:
        return None
    name = say("events", lang)
    label = f"{name}{colon(lang)}{len(marks)}"
    return tag("div", _lane(name, "", list(reversed(marks)), label, "lane"), class_="lanes")


def overlay(
    timeline: report.Timeline, rows: Sequence[OwnerRow], report_: report.Report, lang: Lang
) -> Markup | None:
    """The counters of a timeline's device over its time, on its axis; nothing where it has none."""
    place = timeline.row
    if place is None or place >= len(report_.accounting):
        return None
    account = report_.accounting[place]
    row = next((each for each in rows if _is_of(each, account)), None)
    if row is None:
        return None
    axis = Axis(timeline.start_ns, timeline.start_ns + timeline.dur_ns)
    lanes: list[Markup] = []
    notes: dict[str, None] = {}
    for name in CHARTED:
        summary = row.signals.get(name)
        if summary is None or len(summary.points) < 2:
            continue
        one = placed(summary, telemetry_clock(report_, summary.source))
        reach = one.before_ns + one.after_ns
        source = summary.source or signal_name(name, lang)
        if one.is_raw:
            notes[_UNPLACED.in_(lang).format(name=source)] = None
        elif reach > axis.whole:
            notes[_TOO_COARSE.in_(lang).format(name=source, reach=duration(reach))] = None
        elif lane := _bars(row, summary, one, axis, lang):
            lanes.append(lane)
    if not lanes and not notes:
        return None
    return tag(
        "figure",
        tag("h3", _OVER_STEP.in_(lang)),
        tag("div", lanes, class_="lanes") if lanes else None,
        tag("figcaption", (tag("p", note) for note in notes)) if notes else None,
    )


def _is_of(row: OwnerRow, account: report.Accounting) -> bool:
    if row.device.uuid is not None and row.device.uuid == account.device.uuid:
        return True
    return row.rank is not None and row.rank == account.rank


def _bars(row: OwnerRow, summary: report.SignalSummary, one: Placed, axis: Axis, lang: Lang) -> Markup | None:
    """Each sample as a bar over the time that it describes, and a pale one over where that may lie."""
    top = _top(row, summary)
    shapes = []
    for each in bars(one, axis.start_ns - one.after_ns, axis.end_ns + one.before_ns):
        height = max(1.0, (_TALL - 4) * max(0.0, each.value) / (top or 1))
        y, tall = f"{_TALL - height:.1f}", f"{height:.1f}"
        wide = axis.clipped(each.start_ns - one.before_ns, each.end_ns + one.after_ns)
        if wide is None:
            continue
        told = _AT.in_(lang).format(
            what=value_of(summary, each.value, lang),
            time=f"{span(each.start_ns - axis.start_ns)}–{span(each.end_ns - axis.start_ns)}",
        )
        title = tag("title", told)
        if one.before_ns + one.after_ns:
            x, width = _place(axis, *wide)
            shapes.append(tag("rect", title, x=x, width=width, y=y, height=tall, class_="reach"))
        if found := axis.clipped(each.start_ns, each.end_ns):
            x, width = _place(axis, *found)
            shapes.append(tag("rect", title, x=x, width=width, y=y, height=tall, class_="level"))
    if not shapes:
        return None
    name, figures = signal_name(summary.signal, lang), _figures(summary, top, lang)
    label = f"{name}{colon(lang)}{figures}"
    return _lane(name, figures, shapes, label, "signal")
