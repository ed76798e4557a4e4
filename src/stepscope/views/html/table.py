"""Tables of a report: one row of this file a column, so that a new part of the report is a new entry here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.diagnose.word import whose
from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, number, percent, scaled
from stepscope.views.detail import input_error
from stepscope.views.html.markup import Child, Markup, code, tag
from stepscope.views.label import brackets, counted, word
from stepscope.views.phrase import cause_of, limit_of
from stepscope.views.shape import device_name, largest_idle, readable

MOST_ROWS = 60
_NAME_WIDTH = 120
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


def _time(value: int | None, lang: Lang) -> str:
    return "" if value is None else duration(value)


def _share(value: float | None, lang: Lang) -> str:
    return "" if value is None else percent(value)


def _count(value: int | None, lang: Lang) -> str:
    return "" if value is None else f"{value:,}"


def _of(unit: str) -> Callable[[float | None, Lang], str]:
    return lambda value, lang: "" if value is None else scaled(value, unit)


def _plain(value: Any, lang: Lang) -> Child:
    """A number, a word or a text; a word is not broken, however narrow its column."""
    text = "" if value is None else str(value)
    return tag("span", text, class_="whole") if 0 < len(text) <= _WHOLE_WIDTH and " " not in text else text


def _name(value: str | None, lang: Lang) -> Child:
    return None if value is None else code(readable(value, _NAME_WIDTH))


def _word(value: str | None, lang: Lang) -> str:
    return "" if value is None else word(value, lang)


def _yes(value: bool | None, lang: Lang) -> str:
    return "" if value is None else word("yes" if value else "no", lang)


def _device(value: report.Device | None, lang: Lang) -> str:
    return "" if value is None else device_name(value)


def _column(
    head: Text, field: str, show: Callable[[Any, Lang], Child] = _plain, *, is_number: bool = True
) -> Column:
    """A field of the row as it is shown."""
    return Column(head, lambda row, lang: show(getattr(row, field), lang), is_number)


def _signal(head: Text, field: str) -> Column:
    """A value of a signal, in the signal's own unit."""

    def cell(row: report.SignalSummary, lang: Lang) -> str:
        value: float | None = getattr(row, field)
        return "" if value is None else number(value, row.unit)

    return Column(head, cell)


_RANK = _column(Text(en="rank", zh="rank"), "rank")
_OPERATOR = Text(en="operator", zh="算子")
_CLASS = _column(Text(en="class", zh="类别"), "class_", is_number=False)
_CALLS = _column(Text(en="calls", zh="次数"), "count", _count)
_DEVICE_TIME = _column(Text(en="device time", zh="设备时间"), "device_ns", _time)
_SHARE = _column(Text(en="share", zh="占比"), "share", _share)
_NAME = Text(en="name", zh="名称")


def _bound(row: report.Operator, lang: Lang) -> str:
    return "" if row.bound in (None, "unknown") else word(f"bound_{row.bound}", lang)


HOTTEST = (
    _column(_OPERATOR, "name", _name, is_number=False),
    _CLASS,
    _CALLS,
    _DEVICE_TIME,
    _SHARE,
    Column(Text(en="of its limit", zh="达其上限"), limit_of),
)
OPERATORS = Table(
    "operators",
    Text(en="All operators", zh="全部算子"),
    lambda r: r.operators,
    (
        _RANK,
        _column(_OPERATOR, "name", _name, is_number=False),
        _CLASS,
        _CALLS,
        _DEVICE_TIME,
        _SHARE,
        _column(Text(en="tensor cores", zh="张量核"), "tensor_core", _yes),
        _column(Text(en="operations", zh="运算量"), "flops", _of("FLOP")),
        _column(Text(en="rate", zh="速率"), "achieved_flops_per_second", _of("FLOP/s")),
        _column(Text(en="of peak", zh="占峰值"), "peak_share", _share),
        _column(Text(en="least traffic", zh="最少访存"), "bytes", _of("B")),
        _column(Text(en="traffic rate", zh="访存速率"), "achieved_bytes_per_second", _of("B/s")),
        _column(Text(en="of memory peak", zh="占显存峰值"), "memory_peak_share", _share),
        Column(Text(en="nearer to", zh="更接近"), _bound),
    ),
    Text(
        en="Operations and traffic are what recorded shapes imply; empty where shapes or device do not tell.",
        zh="运算量与访存由录到的形状推出；空白表示形状或设备信息不足。",
    ),
)
KERNELS = Table(
    "kernels",
    Text(en="Kernels", zh="Kernel"),
    lambda r: r.kernels,
    (
        _RANK,
        _column(Text(en="kernel", zh="kernel"), "name", _name, is_number=False),
        _CLASS,
        _CALLS,
        _DEVICE_TIME,
        _SHARE,
        _column(Text(en="mean", zh="平均"), "mean_ns", _time),
        _column(Text(en="99th percentile", zh="第 99 百分位"), "p99_ns", _time),
    ),
)
COLLECTIVES = Table(
    "collectives",
    Text(en="Collectives", zh="集合通信"),
    lambda r: r.collectives,
    (
        _column(Text(en="kind", zh="类型"), "kind", is_number=False),
        _column(Text(en="group", zh="组"), "group", is_number=False),
        _CALLS,
        _column(Text(en="message", zh="消息大小"), "bytes", _of("B")),
        _column(Text(en="transfer", zh="传输"), "transfer_ns", _time),
        _column(Text(en="waiting", zh="等待"), "wait_ns", _time),
        _column(Text(en="last rank", zh="最后到达"), "last_rank"),
        _column(Text(en="bus bandwidth, at least", zh="总线带宽下限"), "bus_bytes_per_second", _of("B/s")),
        _column(Text(en="of the link", zh="占链路"), "link_share", _share),
    ),
)
STRAGGLERS = Table(
    "stragglers",
    Text(en="Late ranks", zh="落后的 rank"),
    lambda r: r.stragglers,
    (
        _RANK,
        _column(Text(en="late by", zh="落后"), "lateness_ns", _time),
        _column(Text(en="costs", zh="代价"), "cost_ns", _time),
        _SHARE,
        _column(Text(en="persistence", zh="持续性"), "persistence", is_number=False),
        _column(Text(en="reason", zh="原因"), "reason", is_number=False),
    ),
)
SIGNALS = Table(
    "signals",
    Text(en="Telemetry", zh="遥测"),
    lambda r: r.signals,
    (
        _column(Text(en="device", zh="设备"), "device", _device, is_number=False),
        _column(Text(en="signal", zh="信号"), "signal", _name, is_number=False),
        _signal(Text(en="mean", zh="平均"), "mean"),
        _signal(Text(en="least", zh="最小"), "min"),
        _signal(Text(en="most", zh="最大"), "max"),
        _column(Text(en="samples", zh="样本"), "samples", _count),
        _column(Text(en="coverage", zh="覆盖"), "coverage", _share),
    ),
)
EVENTS = Table(
    "events",
    Text(en="Events", zh="事件"),
    lambda r: r.events,
    (
        _column(Text(en="kind", zh="类型"), "kind", is_number=False),
        _column(Text(en="severity", zh="严重程度"), "severity", _word, is_number=False),
        _column(Text(en="text", zh="内容"), "text", is_number=False),
        _column(Text(en="code", zh="编号"), "code"),
        _column(Text(en="device", zh="设备"), "device", _device, is_number=False),
        _RANK,
    ),
)
INPUTS = Table(
    "inputs",
    Text(en="Inputs", zh="输入"),
    lambda r: r.inputs,
    (
        _column(_NAME, "name", lambda value, _: code(value), is_number=False),
        _column(Text(en="format", zh="格式"), "format", is_number=False),
        _RANK,
        _column(Text(en="ranks of the job", zh="作业的 rank 数"), "world_size", _count),
        _column(Text(en="size", zh="大小"), "bytes", _of("B")),
        _column(Text(en="events", zh="事件"), "events", _count),
        _column(Text(en="secrets removed", zh="已移除机密"), "redacted", _count),
        Column(
            Text(en="not used", zh="未使用"),
            lambda row, lang: None if row.error is None else input_error(row, lang),
            is_number=False,
        ),
        _column(Text(en="SHA-256", zh="SHA-256"), "sha256", lambda v, _: v and code(v[:12]), is_number=False),
    ),
)
DETAILS = (OPERATORS, KERNELS, COLLECTIVES, STRAGGLERS, SIGNALS, EVENTS)
"""Tables behind the answer, in the order of the page. What a report does not have leaves no trace."""


def step_table(row: report.Accounting, report_: report.Report, lang: Lang) -> Markup:
    """The steps that are drawn, in numbers."""
    slow = set(row.variation.slow_steps) if row.variation is not None else set()
    why = {
        each.step: each.why
        for each in report_.steps
        if each.why is not None and (each.rank, each.input) == (row.rank, row.input)
    }
    columns = (
        _column(Text(en="step", zh="步"), "step"),
        _column(Text(en="time", zh="时间"), "total_ns", _time),
        _column(Text(en="computing", zh="计算"), "compute_ns", _time),
        _column(Text(en="comm. exposed", zh="未掩盖通信"), "communication_exposed_ns", _time),
        _column(Text(en="copies", zh="拷贝"), "copy_exposed_ns", _time),
        _column(Text(en="idle", zh="空闲"), "idle_ns", _time),
        Column(
            Text(en="largest idle cause", zh="最大空闲原因"),
            lambda step, lang: _largest(step, row, lang),
            is_number=False,
        ),
        Column(
            Text(en="remark", zh="备注"),
            lambda step, lang: [word("slow", lang) if step.step in slow else "", why.get(step.step, "")],
            is_number=False,
        ),
    )
    return drawn(row.by_step, columns, lang, most=len(row.by_step))


def _largest(step: report.StepParts, row: report.Accounting, lang: Lang) -> str:
    found = largest_idle(step)
    return "" if found is None else f"{cause_of(row, found[0], lang)} {duration(found[1])}"


def uncounted_steps(report_: report.Report) -> list[report.Step]:
    """Steps that no row sums."""
    return [step for step in report_.steps if step.use not in ("counted", "marked")]


def step_line(step: report.Step, report_: report.Report, lang: Lang) -> str:
    """An uncounted step, whose it is, and why."""
    row = next((r for r in report_.accounting if (r.rank, r.input) == (step.rank, step.input)), None)
    owner = None if row is None or len(report_.inputs) < 2 else whose(row, report_.inputs)
    told = "" if owner is None else brackets(owner.in_(lang), lang)
    return f"{word('step', lang)} {step.step}{told} {duration(step.dur_ns)}"


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


def section(table: Table, report_: report.Report, lang: Lang) -> Markup | None:
    """A table behind its title, to be opened; nothing where the report has no such rows."""
    rows = table.rows(report_)
    if not rows:
        return None
    # Of one rank its number says nothing, but among the inputs, where it is what a file says of itself.
    is_told = table is INPUTS or len({getattr(row, "rank", None) for row in rows}) > 1
    columns = [column for column in table.columns if column is not _RANK or is_told]
    title = f"{table.title.in_(lang)}{brackets(f'{len(rows):,}', lang)}"
    return tag(
        "details",
        tag("summary", tag("h3", title)),
        tag("p", table.note.in_(lang), class_="note") if table.note is not None else None,
        drawn(rows, columns, lang, table.most),
        id=table.id,
    )
