"""Memory over time as SVG: what was handed out, what was held, the peak, and where steps begin."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, size
from stepscope.views.html.chart import percentage
from stepscope.views.html.markup import Markup, tag
from stepscope.views.label import joined as in_words
from stepscope.views.memory import WORDS

_WIDE, _TALL, _HEADROOM = 2000, 160, 8
"""The drawing's own units: its width is stretched to the page's, its height is pixels, and the mark of the
peak needs room above."""
_MOST_STEPS = 80
_ALLOCATED = Text(en="allocated", zh="已分配")
_RESERVED = Text(en="reserved", zh="reserved")
_BEGINS = Text(en="a step begins ({first} to {last})", zh="步的开始（第 {first} 至 {last} 步）")
_AT = Text(en="{what} {level} at {time}", zh="{what} {level}，位于 {time}")
_TOP = Text(en="top of the drawing: {level}", zh="图的顶端：{level}")


def levels(row: report.Memory, report_: report.Report, lang: Lang) -> Markup | None:
    """Allocated and reserved bytes over time; nothing where fewer than two moments are known."""
    points = row.timeline
    if len(points) < 2 or points[-1].at_ns <= points[0].at_ns:
        return None
    start, whole = points[0].at_ns, points[-1].at_ns - points[0].at_ns
    top = max(max(each.allocated_bytes, each.reserved_bytes or 0) for each in points) or 1

    def y(level: int) -> str:
        return f"{_TALL - max(0, level) * (_TALL - _HEADROOM) / top:.1f}".removesuffix(".0")

    steps = _beginnings(row, report_)
    shapes = [
        tag(
            "svg",
            tag(
                "path",
                d=f"M0 {_TALL}{_path(row, lambda each: y(each.allocated_bytes))}V{_TALL}Z",
                class_="allocated",
            ),
            _held(row, lambda each: y(each.reserved_bytes or 0)),
            viewBox=f"0 0 {_WIDE} {_TALL}",
            preserveAspectRatio="none",
            width="100%",
            height=_TALL,
        ),
        *(
            tag(
                "line",
                x1=(x := percentage(step.start_ns - start, whole)),
                x2=x,
                y1=0,
                y2=_TALL,
                class_="begins",
            )
            for step in steps
        ),
    ]
    lines = [_key("allocated", _ALLOCATED.in_(lang))]
    if _has_reserve(row):
        lines.append(_key("reserved", _RESERVED.in_(lang)))
    peak = row.peak
    if peak is not None and 0 <= peak.at_ns - start <= whole:
        at = peak.at_ns - start
        shapes.append(tag("circle", cx=percentage(at, whole), cy=y(peak.allocated_bytes), r=4, class_="peak"))
        told = _AT.in_(lang).format(
            what=WORDS["peak"].in_(lang), level=size(peak.allocated_bytes), time=duration(at) if at else "0"
        )
        lines.append(_key("peak", told))
    if steps:
        told = _BEGINS.in_(lang).format(first=steps[0].step, last=steps[-1].step)
        lines.append(_key("begins", told))
    highest = _TOP.in_(lang).format(level=size(top))
    ticks = [duration(whole * quarter / 4) if quarter else "0" for quarter in (0, 2, 4)]
    return tag(
        "figure",
        tag("svg", shapes, class_="levels", role="img", aria_label=in_words(_told(row, highest, lang), lang)),
        tag("div", (tag("span", tick) for tick in ticks), class_="axis"),
        tag("figcaption", tag("ul", lines, class_="legend"), tag("p", highest)),
    )


def _told(row: report.Memory, highest: str, lang: Lang) -> list[str]:
    names = [_ALLOCATED.in_(lang), _RESERVED.in_(lang)] if _has_reserve(row) else [_ALLOCATED.in_(lang)]
    return [*names, highest]


def _has_reserve(row: report.Memory) -> bool:
    return any(each.reserved_bytes is not None for each in row.timeline)


def _path(row: report.Memory, y: Callable[[report.MemoryPoint], str]) -> str:
    """Levels that hold until the next: across, then up or down."""
    start, whole = row.timeline[0].at_ns, row.timeline[-1].at_ns - row.timeline[0].at_ns
    return "".join(f"H{(each.at_ns - start) * _WIDE / whole:.0f}V{y(each)}" for each in row.timeline)


def _held(row: report.Memory, y: Callable[[report.MemoryPoint], str]) -> Markup | None:
    if not _has_reserve(row):
        return None
    return tag("path", d=f"M0 {y(row.timeline[0])}{_path(row, y)}", class_="reserved")


def _beginnings(row: report.Memory, report_: report.Report) -> list[report.Step]:
    """The steps that begin within the drawing; none where they would be a hatching."""
    first, last = row.timeline[0].at_ns, row.timeline[-1].at_ns
    steps = [
        step
        for step in report_.steps
        if row.source == "trace"
        and (step.rank, step.input) == (row.rank, row.input)
        and first <= step.start_ns <= last
    ]
    return steps if len(steps) <= _MOST_STEPS else []


def _key(look: str, told: str) -> Markup:
    """A line of the legend, with what it looks like."""
    shape = {
        "allocated": tag("rect", width="100%", height="100%", class_=look),
        "peak": tag("circle", cx="50%", cy="50%", r=4, class_=look),
        "reserved": tag("line", x1="0", x2="100%", y1="50%", y2="50%", class_=look),
        "begins": tag("line", x1="50%", x2="50%", y1="0", y2="100%", class_=look),
    }[look]
    return tag(
        "li", tag("svg", shape, class_="swatch bare", aria_hidden="true", focusable="false"), f" {told}"
    )
