"""Drawings as SVG: bars in per cent of the page's width, and words beside them as text: both fit any page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from stepscope.diagnose.word import part_of
from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, percent
from stepscope.views.html.fill import OF_CLASS, fill, swatch
from stepscope.views.html.markup import Markup, tag
from stepscope.views.label import PART, brackets, colon, word
from stepscope.views.label import joined as in_words
from stepscope.views.phrase import owner_of, without_idle
from stepscope.views.shape import parts, readable

_LANE, _STEPS, _CAP = 14, 168, 5
"""Heights in pixels: a lane of the timeline, the bars of steps, and the mark of a slow one."""
_NAME_WIDTH = 90
_LEAST_WIDTH = 0.1

_LEGEND = Text(
    en="Each line is one class of kernels on a stream, one cause on a thread, or one cause of idle time. "
    "Pieces nearer than {resolution} are drawn as one; the lower a piece, the more small holes it has.",
    zh="每一行是某个流上的一类 kernel、某个线程上的一种原因或一种空闲原因。"
    "间隔小于 {resolution} 的片段合并绘制；"
    "片段越矮，其中的小空隙越多。",
)
_SLOW = Text(en="a dark cap marks a slow step", zh="顶部深色标记表示慢步")
_LEFT_OUT = Text(
    en="{count} more steps are in the row and not drawn: the slowest and evenly spaced ones are.",
    zh="另有 {count} 步未绘出：图中为最慢的步与均匀抽取的步。",
)
_LANES_LEFT_OUT = Text(
    en="{count} more streams and threads with less in them are not drawn.",
    zh="另有 {count} 个活动较少的流或线程未绘出。",
)
_HIGHEST = Text(en="highest bar: {time}, step {step}", zh="最高的柱：第 {step} 步，{time}")
_OF_STEP = Text(en="step {step}, {time}", zh="第 {step} 步，{time}")
_MERGED = Text(en="longest of {count}", zh="{count} 个中最长者")


def percentage(part: float, whole: float) -> str:
    """A length in per cent of the drawing, as short as a pixel allows."""
    return f"{100 * part / whole:.2f}".rstrip("0").rstrip(".") + "%"


Piece: TypeAlias = tuple[str, str, float]
"""A piece of a bar: its look's name, its own, and its share of the whole."""


def bar(pieces: Sequence[Piece], lang: Lang) -> Markup:
    """One bar that divides a whole; words beside it say the same."""
    shapes, at = [], 0.0
    for look, name, share in pieces:
        shapes.append(
            tag(
                "rect",
                tag("title", f"{name} {percent(share)}"),
                x=percentage(at, 1),
                width=percentage(share, 1),
                height="100%",
                fill=fill(look),
                class_="part",
            )
        )
        at += share
    told = in_words((f"{name} {percent(share)}" for _, name, share in pieces), lang)
    return tag("svg", shapes, class_="bar", role="img", aria_label=told)


def told_bar(head: str, pieces: Sequence[Piece], lang: Lang, level: int = 4) -> Markup | None:
    """A bar of less weight under its heading, and its pieces in words; nothing without pieces."""
    if not pieces:
        return None
    lines = (tag("li", swatch(look), f" {name} {percent(share)}") for look, name, share in pieces)
    return tag(
        "figure",
        tag(f"h{level}", head[:1].upper() + head[1:]),
        bar(pieces, lang),
        tag("figcaption", tag("ul", lines, class_="legend")),
        class_="told",
    )


def part_bar(row: report.Accounting, lang: Lang) -> Markup:
    """The bar of a row's time; the table below it says the same in words."""
    return bar([(name, part_of(row, name).in_(lang), time / row.total_ns) for name, time in parts(row)], lang)


def step_bars(row: report.Accounting, lang: Lang) -> Markup:
    """A bar a step, stacked by part, with what is not drawn."""
    steps = row.by_step
    slow = set(row.variation.slow_steps) if row.variation is not None else set()
    longest = max(steps, key=lambda each: each.total_ns)
    wide = 100 / len(steps)
    shapes: list[Markup] = []
    used: dict[str, None] = {}
    for place, step in enumerate(steps):
        x, width = f"{place * wide:.3f}%", f"{wide * 0.86:.3f}%"
        told = [f"{word('step', lang)} {step.step}{colon(lang)}{duration(step.total_ns)}"]
        stack, bottom = [], float(_STEPS)
        for name, time in parts(step):
            height = time * (_STEPS - _CAP) / (longest.total_ns or 1)
            bottom -= height
            used[name] = None
            told.append(f"{part_of(row, name).in_(lang)} {duration(time)}")
            y, tall = f"{bottom:.1f}", f"{height:.1f}"
            stack.append(tag("rect", x=x, width=width, y=y, height=tall, fill=fill(name)))
        if step.step in slow:
            stack.append(tag("rect", x=x, width=width, y=f"{bottom - _CAP:.1f}", height=3, class_="cap"))
        shapes.append(tag("g", tag("title", in_words(told, lang)), stack))
    top = _HIGHEST.in_(lang).format(time=duration(longest.total_ns), step=longest.step)
    notes = [top, *([_SLOW.in_(lang)] if any(step.step in slow for step in steps) else [])]
    left = row.steps_left_out
    return tag(
        "figure",
        tag("svg", shapes, class_="steps", role="img", aria_label=top),
        tag(
            "div",
            tag("span", f"{word('step', lang)} {steps[0].step}"),
            tag("span", f"{steps[-1].step}"),
            class_="axis",
        ),
        tag(
            "figcaption",
            legend(used, row, lang),
            tag("p", ("；" if lang == "zh" else "; ").join(notes)),
            tag("p", _LEFT_OUT.in_(lang).format(count=f"{left:,}")) if left else None,
        ),
    )


def legend(names: Iterable[str], row: report.Accounting, lang: Lang) -> Markup:
    """What the looks of these parts mean."""
    return tag(
        "ul",
        (tag("li", swatch(name), f" {part_of(row, name).in_(lang)}") for name in names),
        class_="legend",
    )


def timeline_head(timeline: report.Timeline, report_: report.Report, lang: Lang) -> str:
    """Which step of whom, and how long it is."""
    time = duration(timeline.dur_ns)
    which = (
        f"{word('whole_trace', lang)}, {time}"
        if timeline.step is None
        else _OF_STEP.in_(lang).format(step=timeline.step, time=time)
    )
    owner = ""
    if timeline.row is not None and timeline.row < len(report_.accounting):
        owner = owner_of(report_.accounting[timeline.row], report_, lang)
    return in_words((owner, which), lang)


def timeline_lanes(timeline: report.Timeline, lang: Lang) -> Markup:
    """The lanes of a timeline, each with its words before it."""
    lanes = [_lane(lane, timeline, lang) for lane in timeline.lanes]
    ticks = [duration(timeline.dur_ns * quarter / 4) if quarter else "0" for quarter in (0, 2, 4)]
    axis = tag("div", tag("span"), tag("div", (tag("span", tick) for tick in ticks), class_="axis"))
    notes = [tag("p", _LEGEND.in_(lang).format(resolution=duration(timeline.resolution_ns)))]
    if timeline.num_left_out:
        notes.append(tag("p", _LANES_LEFT_OUT.in_(lang).format(count=timeline.num_left_out)))
    return tag("figure", tag("div", lanes, axis, class_="lanes"), tag("figcaption", notes))


def lane_name(lane: report.Lane, lang: Lang) -> str:
    """Whose lane it is and what its pieces are."""
    if lane.kind == "idle":
        return PART[f"idle.{lane.what}"].in_(lang) if f"idle.{lane.what}" in PART else lane.what
    if lane.kind == "stream":
        return f"{word('stream', lang)} {lane.stream}{colon(lang)}{lane.what}"
    cause = without_idle(PART[f"idle.{lane.what}"].in_(lang)) if f"idle.{lane.what}" in PART else lane.what
    # Profilers call a thread `thread 4242 (python)`.
    thread = readable((lane.thread or "").removeprefix("thread "), 40)
    return f"{word('thread', lang)} {thread}{colon(lang)}{cause}"


def _lane(lane: report.Lane, timeline: report.Timeline, lang: Lang) -> Markup:
    look = OF_CLASS.get(lane.what, "compute") if lane.kind == "stream" else f"idle.{lane.what}"
    whole = timeline.dur_ns or 1
    least = whole * _LEAST_WIDTH / 100
    shapes = []
    for at, (start, length, busy) in enumerate(zip(lane.start_ns, lane.dur_ns, lane.busy_ns, strict=True)):
        height = max(3, round(_LANE * busy / (length or 1)))
        shapes.append(
            tag(
                "rect",
                tag("title", _piece(lane, timeline, at, lang)),
                x=percentage(start, whole),
                width=percentage(max(length, least), whole),
                y=_LANE - height,
                height=height,
            )
        )
    busy_ns = sum(lane.busy_ns)
    label = lane_name(lane, lang)
    return tag(
        "div",
        tag("span", label, tag("small", f" {duration(busy_ns)}"), class_="label"),
        tag(
            "svg",
            tag("g", shapes, fill=fill(look)),
            class_="lane",
            role="img",
            aria_label=f"{label} {percent(busy_ns / whole)}",
        ),
        class_=f"row {lane.kind}",
    )


def _piece(lane: report.Lane, timeline: report.Timeline, at: int, lang: Lang) -> str:
    """What a piece is: its event, how long, from when on."""
    name = readable(timeline.names[lane.name[at]], _NAME_WIDTH) if lane.name else lane_name(lane, lang)
    count = lane.count[at]
    told = (
        f"{duration(lane.busy_ns[at])} @ {duration(lane.start_ns[at])}",
        f"{word('span', lang)} {lane.span[at]}" if lane.span else "",
    )
    of = brackets(_MERGED.in_(lang).format(count=f"{count:,}"), lang) if count > 1 and lane.name else ""
    return f"{name}{of}{colon(lang)}{in_words(told, lang)}"
