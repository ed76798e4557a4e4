"""Tables of a report: one row of this file a column, so that a new part of the report is a new entry here."""

from __future__ import annotations

from stepscope.model import report
from stepscope.model.text import Lang, Text, scaled
from stepscope.views.counter_word import moment, subject, value_of
from stepscope.views.detail import input_error
from stepscope.views.detail_marks import marks_text
from stepscope.views.html.column import (
    RANK,
    Column,
    Table,
    as_count,
    as_device,
    as_scaled,
    as_share,
    as_time,
    as_word,
    column,
)
from stepscope.views.html.markup import code
from stepscope.views.label_signal import EVENT_KIND, signal_name

_CALLS = column(Text(en="calls", zh="次数"), "count", as_count)


def _signal(head: Text, field: str) -> Column:
    """A value of a signal, in the signal's own unit."""

    def cell(row: report.SignalSummary, lang: Lang) -> str:
        value: float | None = getattr(row, field)
        return value_of(row, value, lang)

    return Column(head, cell)


def _bus(row: report.Collective, lang: Lang) -> str:
    """The bus bandwidth; from one rank, waiting included, a lower bound."""
    rate = row.bus_bytes_per_second
    if rate is None:
        return ""
    return scaled(rate, "B/s") if row.num_ranks is not None else f"≥ {scaled(rate, 'B/s')}"


COLLECTIVES = Table(
    "collectives",
    Text(en="Collectives", zh="集合通信"),
    lambda r: r.collectives,
    (
        column(Text(en="kind", zh="类型"), "kind", is_number=False),
        column(Text(en="group", zh="组"), "group", is_number=False),
        _CALLS,
        column(Text(en="message", zh="消息大小"), "bytes", as_scaled("B")),
        column(Text(en="transfer", zh="传输"), "transfer_ns", as_time),
        column(Text(en="waiting", zh="等待"), "wait_ns", as_time),
        column(Text(en="of it exposed", zh="其中未掩盖"), "wait_exposed_ns", as_time),
        column(Text(en="last rank", zh="最后到达"), "last_rank"),
        column(Text(en="last after first", zh="首末之差"), "skew_ns", as_time),
        column(Text(en="ranks", zh="rank 数"), "num_ranks", as_count),
        column(Text(en="without partner", zh="未对应"), "num_unmatched", as_count),
        Column(Text(en="bus bandwidth", zh="总线带宽"), _bus),
        column(Text(en="algorithm bandwidth", zh="算法带宽"), "algorithm_bytes_per_second", as_scaled("B/s")),
        column(Text(en="of the link", zh="占链路"), "link_share", as_share),
    ),
)
SIGNALS = Table(
    "signals",
    Text(en="Telemetry", zh="遥测"),
    lambda r: r.signals,
    (
        RANK,
        column(Text(en="device", zh="设备"), "device", as_device, is_number=False),
        column(Text(en="of it", zh="其中"), "name", is_number=False),
        column(Text(en="host", zh="主机"), "host", is_number=False),
        Column(
            Text(en="signal", zh="信号"),
            lambda row, lang: [signal_name(row.signal, lang), " ", code(row.signal)],
            is_number=False,
        ),
        _signal(Text(en="mean", zh="平均"), "mean"),
        _signal(Text(en="least", zh="最小"), "min"),
        _signal(Text(en="most", zh="最大"), "max"),
        column(Text(en="samples", zh="样本"), "samples", as_count),
        column(Text(en="coverage", zh="覆盖"), "coverage", as_share),
        column(Text(en="source", zh="来源"), "source", is_number=False),
    ),
    most=200,
)


def _by_step(report_: report.Report) -> list[tuple[report.SignalSummary, report.SignalStep]]:
    return [(each, step) for each in report_.signals for step in each.by_step]


SIGNAL_STEPS = Table(
    "signal-steps",
    Text(en="Telemetry by step", zh="各步的遥测"),
    _by_step,
    (
        Column(
            Text(en="device", zh="设备"),
            lambda row, lang: subject(row[0].device, row[0].rank, lang),
            is_number=False,
        ),
        Column(
            Text(en="signal", zh="信号"), lambda row, lang: signal_name(row[0].signal, lang), is_number=False
        ),
        Column(Text(en="step", zh="步"), lambda row, lang: str(row[1].step)),
        Column(Text(en="mean", zh="平均"), lambda row, lang: value_of(row[0], row[1].value, lang)),
        Column(Text(en="samples", zh="样本"), lambda row, lang: f"{row[1].samples:,}"),
    ),
)
EVENTS = Table(
    "events",
    Text(en="Events", zh="事件"),
    lambda r: r.events,
    (
        Column(Text(en="when", zh="时间"), lambda row, lang: moment(row.at_ns), is_number=False),
        Column(Text(en="kind", zh="类型"), lambda row, lang: EVENT_KIND[row.kind].in_(lang), is_number=False),
        column(Text(en="severity", zh="严重程度"), "severity", as_word, is_number=False),
        Column(Text(en="text", zh="内容"), lambda row, lang: marks_text(row.text, lang), is_number=False),
        column(Text(en="code", zh="编号"), "code"),
        column(Text(en="device", zh="设备"), "device", as_device, is_number=False),
        RANK,
    ),
)
INPUTS = Table(
    "inputs",
    Text(en="Inputs", zh="输入"),
    lambda r: r.inputs,
    (
        column(Text(en="name", zh="名称"), "name", lambda value, _: code(value), is_number=False),
        column(Text(en="format", zh="格式"), "format", is_number=False),
        RANK,
        column(Text(en="ranks of the job", zh="作业的 rank 数"), "world_size", as_count),
        column(Text(en="size", zh="大小"), "bytes", as_scaled("B")),
        column(Text(en="events", zh="事件"), "events", as_count),
        column(Text(en="secrets removed", zh="已移除机密"), "redacted", as_count),
        Column(
            Text(en="not used", zh="未使用"),
            lambda row, lang: None if row.error is None else input_error(row, lang),
            is_number=False,
        ),
        column(Text(en="SHA-256", zh="SHA-256"), "sha256", lambda v, _: v and code(v[:12]), is_number=False),
    ),
)
OTHERS = (COLLECTIVES, SIGNALS, SIGNAL_STEPS, EVENTS)
"""Tables behind the answer, in the order of the page. What a report does not have leaves no trace."""
