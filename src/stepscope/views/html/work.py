"""Tables of what the device worked on: operators, their shapes, kernels, and arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stepscope.diagnose.word import whose
from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.views.html.column import (
    RANK,
    Column,
    Table,
    as_answer,
    as_count,
    as_device,
    as_name,
    as_place,
    as_scaled,
    as_share,
    as_time,
    column,
)
from stepscope.views.html.markup import Child, tag
from stepscope.views.html.module import MODULES
from stepscope.views.label import COMPUTE_KIND, WORD, word
from stepscope.views.phrase import PHASES, limit_of
from stepscope.views.shape import rest_rows, shown_rows

_OPERATOR = column(WORD["operator"], "name", as_name, is_number=False)
_CLASS = column(WORD["class"], "class_", is_number=False)
_CALLS = column(WORD["count"], "count", as_count)
_DEVICE_TIME = column(WORD["device_time"], "device_ns", as_time)
_SHARE = column(WORD["share"], "share", as_share)
_MEAN = column(Text(en="mean", zh="平均"), "mean_ns", as_time)
_P99 = column(Text(en="99th percentile", zh="第 99 百分位"), "p99_ns", as_time)
_LATENCY = column(Text(en="launch latency", zh="下发延迟"), "launch_latency_ns", as_time)
_TENSOR = column(Text(en="tensor cores", zh="张量核"), "tensor_core", as_answer)
_FLOPS = column(Text(en="operations", zh="运算量"), "flops", as_scaled("FLOP"))
_TRAFFIC = column(Text(en="least traffic", zh="最少访存"), "bytes", as_scaled("B"))
_OF_PEAK = column(Text(en="of peak", zh="占峰值"), "peak_share", as_share)
_OF_MEMORY_PEAK = column(Text(en="of memory peak", zh="占显存峰值"), "memory_peak_share", as_share)


def _bound(row: report.Operator | report.OperatorShape, lang: Lang) -> str:
    return "" if row.bound in (None, "unknown") else word(f"bound_{row.bound}", lang)


_NEARER = Column(Text(en="nearer to", zh="更接近"), _bound)


def _with_place(row: report.Operator, lang: Lang) -> Child:
    """An op, and below it the line of Python that called it."""
    if row.called_from is None:
        return as_name(row.name, lang)
    return [as_name(row.name, lang), tag("small", as_place(row.called_from, lang), class_="below")]


def _with_shapes(row: report.OperatorShape, lang: Lang) -> Child:
    """An op, and below it the shapes and the types of its arguments."""
    return [
        as_name(row.name, lang),
        tag("small", row.shapes, class_="below shapes"),
        tag("small", row.types, class_="below") if row.types is not None else None,
    ]


HOTTEST = (
    Column(WORD["operator"], _with_place, is_number=False),
    _CLASS,
    _CALLS,
    _DEVICE_TIME,
    _SHARE,
    Column(WORD["limit"], limit_of),
)
OPERATORS = Table(
    "operators",
    Text(en="All operators", zh="全部算子"),
    lambda r: r.operators,
    (
        RANK,
        Column(WORD["operator"], _with_place, is_number=False),
        _CLASS,
        _CALLS,
        _DEVICE_TIME,
        _SHARE,
        column(Text(en="with inner ops", zh="含内部算子"), "total_ns", as_time),
        column(Text(en="host time", zh="主机时间"), "host_ns", as_time),
        _MEAN,
        _P99,
        _LATENCY,
    ),
    Text(
        en="Device time is that of the kernels which the op itself launched; mean and percentile are of one "
        "call. Host time is over the whole trace. Launch latency is the median from the start of the "
        "launching call to the start of its work, the queue included. Below a name stands its caller.",
        zh="设备时间只计算子自身下发的 kernel；平均值与百分位以一次调用计。主机时间以整个 trace 计。"
        "下发延迟为下发调用开始到其任务开始的中位数，含排队。名称下方为调用位置。",
    ),
)
WORK = Table(
    "work",
    Text(en="Arithmetic and memory traffic of operators", zh="算子的运算量与访存"),
    lambda r: [each for each in r.operators if _has_work(each)],
    (
        RANK,
        _OPERATOR,
        _DEVICE_TIME,
        _TENSOR,
        _FLOPS,
        column(Text(en="rate", zh="速率"), "achieved_flops_per_second", as_scaled("FLOP/s")),
        _OF_PEAK,
        _TRAFFIC,
        column(Text(en="traffic rate", zh="访存速率"), "achieved_bytes_per_second", as_scaled("B/s")),
        _OF_MEMORY_PEAK,
        _NEARER,
    ),
    Text(
        en="Operations and traffic are what recorded shapes imply; empty where shapes or device do not tell.",
        zh="运算量与访存由录到的形状推出；空白表示形状或设备信息不足。",
    ),
)


def _has_work(each: report.Operator) -> bool:
    told = (each.tensor_core, each.flops, each.bytes, each.peak_share, each.memory_peak_share)
    return any(value is not None for value in told)


PHASE_TIMES = Table(
    "phases",
    Text(en="Operators by phase of the step", zh="算子在各阶段的设备时间"),
    lambda r: [each for each in r.operators if each.phases is not None],
    (
        RANK,
        _OPERATOR,
        *(column(WORD[phase], f"phases.{phase}_ns", as_time) for phase in PHASES),
    ),
)
SHAPES = Table(
    "shapes",
    Text(en="Operators by shape", zh="按形状的算子"),
    lambda r: r.operator_shapes,
    (
        RANK,
        Column(
            Text(en="operator, shapes and types of its arguments", zh="算子及其参数的形状与类型"),
            _with_shapes,
            is_number=False,
        ),
        _CALLS,
        _DEVICE_TIME,
        _SHARE,
        _MEAN,
        _P99,
        _TENSOR,
        _FLOPS,
        _OF_PEAK,
        _TRAFFIC,
        _OF_MEMORY_PEAK,
        _NEARER,
        column(Text(en="aligned", zh="对齐"), "is_aligned", as_answer),
    ),
    Text(
        en="Aligned: every dimension of a matrix product on tensor cores fills whole 16-byte pieces, as fast "
        "kernels need.",
        zh="对齐：张量核上矩阵乘的各维均为 16 字节的整数倍，快速 kernel 需要如此。",
    ),
)


def _ratio(value: float | None, lang: Lang) -> str:
    return "" if value is None else f"{value:.2f}"


KERNELS = Table(
    "kernels",
    Text(en="Kernels", zh="Kernel"),
    lambda r: r.kernels,
    (
        RANK,
        column(Text(en="kernel", zh="kernel"), "name", as_name, is_number=False),
        _CLASS,
        _CALLS,
        _DEVICE_TIME,
        _SHARE,
        _MEAN,
        _P99,
        _LATENCY,
        column(Text(en="runs after idle", zh="空闲后运行次数"), "after_idle_count", as_count),
        column(Text(en="time after idle", zh="空闲后用时比"), "after_idle_ratio", _ratio),
    ),
    Text(
        en="Launch latency is the median from the start of the launching call to the kernel's start, the "
        "queue included. Runs after idle began within a millisecond of an idle time of a millisecond or "
        "more; time after idle is their duration over that of the median run with the same grid: above 1 "
        "where clocks have to rise again.",
        zh="下发延迟为下发调用开始到 kernel 开始的中位数，含排队。"
        "空闲后运行：在不短于 1 ms 的空闲之后 1 ms 内开始的运行；"
        "空闲后用时比：其时长与相同 grid 运行的中位数之比，频率需要重新爬升时大于 1。",
    ),
)


EFFICIENCY = Table(
    "efficiency",
    Text(en="Arithmetic against the peak", zh="运算量与峰值"),
    lambda r: r.efficiency,
    (
        RANK,
        column(WORD["device"], "device", as_device, is_number=False),
        column(WORD["time"], "total_ns", as_time),
        _FLOPS,
        column(WORD["recompute"], "recomputed_flops", as_scaled("FLOP")),
        column(Text(en="the model needs", zh="模型所需"), "model_flops", as_scaled("FLOP")),
        column(Text(en="given", zh="由用户给出"), "is_given", as_answer),
        column(Text(en="MFU", zh="MFU"), "mfu", as_share),
        column(Text(en="HFU", zh="HFU"), "hfu", as_share),
        column(Text(en="precision", zh="精度"), "precision", is_number=False),
        column(Text(en="peak", zh="峰值"), "peak_flops_per_second", as_scaled("FLOP/s")),
        column(Text(en="known share", zh="可知占比"), "known_share", as_share),
    ),
    Text(
        en="Of matrix products, convolutions and attention of known shape. HFU counts what ran, MFU only "
        "what the model needs, without recomputation; the known share is of their device time.",
        zh="只计形状已知的矩阵乘、卷积与注意力。HFU 计实际执行的运算，MFU 只计模型所需（不含重计算）；"
        "可知占比以其设备时间计。",
    ),
)


def _spent(value: int, lang: Lang) -> str:
    """A time of one of many kinds, most of which a run does not have."""
    return as_time(value, lang) if value else ""


class Owned(NamedTuple):
    """A row of the accounting, with whose it is."""

    row: report.Accounting
    owner: Text | None


def _beside(part: str) -> Callable[[report.Report], list[Owned]]:
    """The rows that hold a part, where some are not drawn in full."""

    def rows(report_: report.Report) -> list[Owned]:
        rest, _ = rest_rows(report_)
        shown = shown_rows(report_.accounting) if rest else []
        return [Owned(row, whose(row, report_.inputs)) for row in shown if getattr(row, part) is not None]

    return rows


def _of_rows(part: str, title: Text, names: Mapping[str, Text]) -> Table:
    return Table(
        f"rows-{part}",
        title,
        _beside(part),
        (
            Column(
                Text(en="whose", zh="所属"),
                lambda each, lang: each.owner and each.owner.in_(lang),
                is_number=False,
            ),
            column(WORD["device"], "row.device", as_device, is_number=False),
            *(column(name, f"row.{part}.{key}_ns", _spent) for key, name in names.items()),
        ),
        Text(en="Over the whole row; empty where there was none.", zh="为整行合计；空白表示没有。"),
    )


ROW_PHASES = _of_rows(
    "phases",
    Text(en="Every device by phase of the step", zh="各设备各阶段的设备时间"),
    {key: WORD[key] for key in PHASES},
)
ROW_KINDS = _of_rows(
    "compute", Text(en="Every device by kind of compute", zh="各设备各类计算的时间"), COMPUTE_KIND
)
WORKED_ON: Sequence[Table] = (
    OPERATORS,
    WORK,
    SHAPES,
    PHASE_TIMES,
    MODULES,
    KERNELS,
    EFFICIENCY,
    ROW_PHASES,
    ROW_KINDS,
)
"""In the order of the page."""
