"""What fills the memory of a device: over time, at its peak, who holds it, and which requests failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.views.html.chart import told_bar
from stepscope.views.html.column import (
    RANK,
    Column,
    as_answer,
    as_count,
    as_device,
    as_name,
    as_share,
    as_size,
    column,
    drawn,
)
from stepscope.views.html.level import levels
from stepscope.views.html.markup import Child, Markup, code, tag
from stepscope.views.label import ORIGIN, WORD, brackets, listed, word
from stepscope.views.memory import (
    KIND,
    REASON,
    WORDS,
    memory_head,
    memory_lines,
    memory_notes,
    shown_memory,
)
from stepscope.views.shape import harmless, readable

_FRAME_WIDTH = 120
_MOST_CALLED = 8
_AT_THE_PEAK = Text(en="memory at the peak, an estimate", zh="峰值时的显存（估计）")
_ALL_FAILED = Text(en="All failed requests", zh="全部失败的申请")
_ALL_SITES = Text(en="All sites, with their stacks", zh="全部位置及其调用栈")
_ALL_PEAKS = Text(en="Peaks of the steps", zh="各步的峰值")
_ALL_HELD = Text(en="What is held, in numbers", zh="当前持有的数值")
_ALL_ROWS = Text(en="All recordings of memory", zh="全部显存记录")


def memory(report_: report.Report, lang: Lang) -> tuple[Text, Child] | None:
    """The section of memory; nothing where none was recorded."""
    rows, _ = shown_memory(report_.memory)
    made: list[Child] = [_row(row, report_, lang) for row in rows]
    return (WORDS["memory"], [*made, _behind(_ALL_ROWS, report_.memory, _ROWS, lang)]) if made else None


def _row(row: report.Memory, report_: report.Report, lang: Lang) -> Markup:
    pieces = [(f"memory.{each.kind}", KIND[each.kind].in_(lang), each.share) for each in row.categories]
    return tag(
        "div",
        tag("h3", memory_head(row, lang)),
        tag("ul", (tag("li", each) for each in _lines(row, lang))),
        [tag("p", note, class_="note") for note in memory_notes(row, lang)],
        levels(row, report_, lang),
        told_bar(_AT_THE_PEAK.in_(lang), pieces, lang),
        _behind(_ALL_FAILED, row.out_of_memory, _FAILURES, lang),
        _behind(_ALL_SITES, row.sites, _SITES, lang),
        _behind(_ALL_HELD, [] if row.held is None else [row.held], _HELD, lang),
        _behind(_ALL_PEAKS, row.steps, _STEPS, lang),
    )


_MARKED = re.compile("\x02([^\x03]*)\x03")


def _lines(row: report.Memory, lang: Lang) -> list[list[Child]]:
    """The lines of `views/memory.py`, the names in them as code."""
    # A harmless name holds neither mark, so every odd piece is a name and nothing else.
    told = memory_lines(row, lang, lambda name: f"\x02{harmless(name)}\x03")
    return [
        [code(piece) if place % 2 else piece for place, piece in enumerate(_MARKED.split(line))]
        for line in told
    ]


def _behind(title: Text, rows: Sequence[Any], columns: Sequence[Column], lang: Lang) -> Markup | None:
    """A table behind its title; nothing without rows."""
    if not rows:
        return None
    head = f"{title.in_(lang)}{brackets(f'{len(rows):,}', lang)}"
    return tag("details", tag("summary", head), drawn(rows, columns, lang))


def _stacked(row: report.MemorySite | report.OutOfMemory, lang: Lang) -> Child:
    """Who asked for the memory, and behind it the calls."""
    if not row.stack:
        return as_name(row.name, lang)
    frames = (tag("li", code(readable(frame, _FRAME_WIDTH))) for frame in row.stack)
    name = as_name(row.name, lang) or word("unknown", lang)
    return tag("details", tag("summary", name), tag("ol", frames), class_="stack")


def _called(driver: report.DriverCalls | None, lang: Lang) -> str:
    """The steps in which the driver was called."""
    if driver is None:
        return ""
    more = ["…"] if len(driver.steps) > _MOST_CALLED else []
    return listed([*map(str, driver.steps[:_MOST_CALLED]), *more], lang)


_SITES = (
    column(Text(en="held", zh="持有"), "bytes", as_size),
    column(WORD["share"], "share", as_share),
    column(Text(en="blocks", zh="块"), "count", as_count),
    Column(Text(en="who", zh="位置"), _stacked, is_number=False),
)
_FAILURES = (
    column(Text(en="asked for", zh="申请"), "requested_bytes", as_size),
    Column(Text(en="why", zh="原因"), lambda row, lang: REASON[row.reason].in_(lang), is_number=False),
    column(Text(en="free in the driver", zh="驱动空闲"), "device_free_bytes", as_size),
    column(Text(en="reserved", zh="reserved"), "reserved_bytes", as_size),
    column(Text(en="allocated", zh="已分配"), "allocated_bytes", as_size),
    column(Text(en="unallocated", zh="未分配"), "unallocated_bytes", as_size),
    column(Text(en="in pieces", zh="块数"), "num_free_blocks", as_count),
    column(Text(en="largest piece", zh="最大块"), "largest_free_bytes", as_size),
    column(WORDS["about"], "is_estimate", as_answer),
    Column(Text(en="who", zh="位置"), _stacked, is_number=False),
)
_HELD = (
    column(Text(en="reserved", zh="reserved"), "reserved_bytes", as_size),
    column(Text(en="allocated", zh="已分配"), "allocated_bytes", as_size),
    column(Text(en="asked for", zh="申请"), "requested_bytes", as_size),
    column(Text(en="waiting for a stream", zh="等待其他流"), "pending_bytes", as_size),
    column(Text(en="free", zh="空闲"), "free_bytes", as_size),
    column(Text(en="largest piece", zh="最大块"), "largest_free_bytes", as_size),
    column(Text(en="free in pieces", zh="碎片占比"), "free_in_pieces_share", as_share),
    column(Text(en="free in used segments", zh="在用段中的空闲"), "inactive_split_bytes", as_size),
    column(Text(en="segments", zh="段"), "num_segments", as_count),
    column(Text(en="blocks", zh="块"), "num_blocks", as_count),
    column(Text(en="free blocks", zh="空闲块"), "num_free_blocks", as_count),
    column(Text(en="expandable", zh="可扩展段"), "expandable_segments", as_answer),
)
_STEPS = (
    column(Text(en="step", zh="步"), "step"),
    column(WORDS["peak"], "peak_bytes", as_size),
)
_ROWS = (
    RANK,
    column(Text(en="device", zh="设备"), "device", as_device, is_number=False),
    Column(
        Text(en="recording", zh="记录"),
        lambda row, lang: (
            WORDS["snapshot"].in_(lang) if row.source == "snapshot" else ORIGIN["trace"].in_(lang)
        ),
        is_number=False,
    ),
    column(Text(en="events", zh="事件"), "num_events", as_count),
    column(WORDS["peak"], "peak.allocated_bytes", as_size),
    column(Text(en="reserved then", zh="当时 reserved"), "peak.reserved_bytes", as_size),
    column(Text(en="in step", zh="所在步"), "peak.step"),
    column(WORDS["reserve"], "reserve.reserved_bytes", as_size),
    column(Text(en="allocated then", zh="当时已分配"), "reserve.allocated_bytes", as_size),
    column(Text(en="unused", zh="未使用"), "reserve.unused_share", as_share),
    Column(WORDS["driver"], lambda row, lang: _called(row.driver, lang)),
    Column(
        Text(en="remarks", zh="备注"),
        lambda row, lang: [tag("span", note) for note in memory_notes(row, lang)],
        is_number=False,
    ),
)
