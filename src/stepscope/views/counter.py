"""What of telemetry to show: rows of devices and hosts, the signals of each column, and what comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.model import report
from stepscope.model.signal import SIGNALS, Scope
from stepscope.model.text import Text

MOST_OWNERS = 16
"""Devices with a row; the others are in the JSON report."""
MOST_EVENTS = 8
MOST_PATTERNS = 8
MOST_WALKS = 3
MOST_HINTS = 8

_T = Text


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a signal beside another (its limit, or the other direction), or `else_` without both.

    `field` is the figure of the first that is shown: its mean, or its largest sample.
    """

    head: Text
    signal: str
    beside: str | None = None
    else_: str | None = None
    field: str = "mean"


DEVICE_COLUMNS = (
    Column(_T(en="compute busy", zh="计算忙碌"), "compute_busy_ratio"),
    Column(_T(en="SM active", zh="SM 活跃"), "sm_active_ratio"),
    Column(_T(en="tensor", zh="Tensor"), "tensor_active_ratio"),
    Column(_T(en="DRAM", zh="DRAM"), "dram_active_ratio"),
    Column(_T(en="power / limit", zh="功耗 / 上限"), "power_watts", "power_limit_watts"),
    Column(_T(en="clock / max", zh="频率 / 最高"), "sm_clock_hertz", "sm_clock_max_hertz"),
    Column(
        _T(en="most memory / total", zh="显存最多 / 总量"),
        "memory_used_bytes",
        "memory_total_bytes",
        "memory_used_ratio",
        "max",
    ),
    Column(
        _T(en="hottest / slowdown", zh="最高温 / 降频温度"),
        "temperature_celsius",
        "slowdown_temperature_celsius",
        field="max",
    ),
    Column(
        _T(en="PCIe in / out", zh="PCIe 入 / 出"),
        "pcie_rx_bytes_per_second",
        "pcie_tx_bytes_per_second",
        "pcie_bytes_per_second",
    ),
    Column(
        _T(en="NVLink in / out", zh="NVLink 入 / 出"),
        "nvlink_rx_bytes_per_second",
        "nvlink_tx_bytes_per_second",
        "nvlink_bytes_per_second",
    ),
)
HOST_COLUMNS = (
    Column(_T(en="CPU user", zh="CPU 用户"), "cpu_user_ratio"),
    Column(_T(en="system", zh="内核"), "cpu_system_ratio"),
    Column(_T(en="iowait", zh="等待磁盘"), "cpu_iowait_ratio"),
    Column(_T(en="steal", zh="被虚拟机占用"), "cpu_steal_ratio"),
    Column(_T(en="run queue / cores", zh="运行队列 / 核"), "cpu_run_queue", "cpu_cores"),
    Column(_T(en="major faults", zh="主缺页"), "major_page_faults_per_second"),
    Column(
        _T(en="disk read / written", zh="磁盘 读 / 写"),
        "disk_read_bytes_per_second",
        "disk_write_bytes_per_second",
    ),
    Column(_T(en="disk busy", zh="磁盘忙碌"), "disk_busy_ratio"),
    Column(
        _T(en="network in / out", zh="网络 入 / 出"),
        "network_rx_bytes_per_second",
        "network_tx_bytes_per_second",
    ),
    Column(_T(en="RDMA in / out", zh="RDMA 入 / 出"), "rdma_rx_bytes_per_second", "rdma_tx_bytes_per_second"),
    Column(
        _T(en="memory available / present", zh="内存 可用 / 总量"),
        "memory_available_bytes",
        "memory_present_bytes",
    ),
    Column(_T(en="stopped for quota", zh="因配额暂停"), "cgroup_throttled_ratio"),
)


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """One device or host with its signals; where two sources say the same, the first of the report counts."""

    device: report.Device
    rank: int | None
    host: str | None
    signals: Mapping[str, report.SignalSummary]

    def shown(self, columns: Sequence[Column]) -> list[report.SignalSummary]:
        """What was measured over the window of these columns; what is set once (a limit) is not in it."""
        names = [name for column in columns for name in (column.signal, column.else_) if name]
        return [self.signals[name] for name in names if name in self.signals]


def scope_of(summary: report.SignalSummary) -> Scope:
    """Of what kind of thing a signal is; one of no catalogue is its device's."""
    if summary.signal in SIGNALS:
        return SIGNALS[summary.signal].of
    return "host" if is_host(summary.device) else "device"


def is_host(device: report.Device) -> bool:
    """Whether a device of the report is a host: of telemetry, or of a run without an accelerator."""
    return device.kind in ("host", "cpu")


def figure(summary: report.SignalSummary, field: str) -> float | None:
    """A figure of a signal; of one that has no mean, as a limit has none, its largest sample."""
    value: float | None = getattr(summary, field)
    return summary.max if value is None else value


def mask_bits(summary: report.SignalSummary) -> int:
    """The bits that any sample of a mask had; a mask has no mean and no largest sample."""
    bits = 0
    for _, value in summary.points:
        bits |= int(value)
    return bits


def device_rows(report_: report.Report) -> list[OwnerRow]:
    """Every device with telemetry, in the order of the report."""
    return _rows(report_, "device")


def host_rows(report_: report.Report) -> list[OwnerRow]:
    """Every host with telemetry, in the order of the report. What one of several disks or interfaces says is
    in the table of all signals."""
    return _rows(report_, "host")


def _rows(report_: report.Report, scope: Scope) -> list[OwnerRow]:
    found: dict[tuple[object, ...], tuple[report.SignalSummary, dict[str, report.SignalSummary]]] = {}
    for each in report_.signals:
        if each.name is None and scope_of(each) == scope:
            _, signals = found.setdefault(owner_key(each, scope), (each, {}))
            signals.setdefault(each.signal, each)
    return [OwnerRow(one.device, one.rank, one.host, signals) for one, signals in found.values()]


def owner_key(summary: report.SignalSummary, scope: Scope) -> tuple[object, ...]:
    """What tells owners apart: devices by UUID, else by number on their host; hosts by name."""
    if scope == "host":
        return (summary.host,)
    device = summary.device
    return (device.uuid,) if device.uuid is not None else (summary.host, device.index, device.kind)


def used(columns: Sequence[Column], rows: Sequence[OwnerRow]) -> list[Column]:
    """The columns in which any row says something."""
    return [
        column
        for column in columns
        if any(
            name in row.signals
            for row in rows
            for name in (column.signal, column.beside, column.else_)
            if name
        )
    ]


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events of one kind, code, owner and text; `last` is the newest of them."""

    first: report.Event
    last: report.Event
    count: int


_SEVERITY = {"critical": 0, "warning": 1, "info": 2}


def event_groups(report_: report.Report) -> list[EventGroup]:
    """Events, the most severe first and of those the newest; what repeats is one."""
    groups: dict[tuple[object, ...], list[report.Event]] = {}
    for each in report_.events:
        device = each.device
        owner = None if device is None else (device.uuid, device.index)
        groups.setdefault((each.kind, each.severity, each.code, each.text, owner, each.rank), []).append(each)
    made = [
        EventGroup(min(same, key=lambda e: e.at_ns), max(same, key=lambda e: e.at_ns), len(same))
        for same in groups.values()
    ]
    return sorted(made, key=lambda group: (_SEVERITY[group.last.severity], -group.last.at_ns))


_HOLDS = {True: 0, None: 1, False: 2}


def pattern_rows(report_: report.Report) -> list[report.Pattern]:
    """Patterns, those that hold first: by the side that decides, then as written."""
    return sorted(
        report_.patterns, key=lambda each: (_HOLDS[each.effective.holds], _HOLDS[each.as_written.holds])
    )


def is_worth_numbers(pattern: report.Pattern) -> bool:
    """Whether its numbers are shown where there is little room: either side holds."""
    return bool(pattern.effective.holds or pattern.as_written.holds)


def telemetry_clock(report_: report.Report, source: str | None) -> report.TelemetryClock | None:
    """What is known of the lag of a source."""
    clocks = report_.clocks.telemetry if report_.clocks is not None else ()
    return next((each for each in clocks if each.source == source), None)


def has_telemetry(report_: report.Report) -> bool:
    """Whether anything of telemetry or logs is there to show."""
    parts = (
        report_.signals,
        report_.events,
        report_.progress,
        report_.own_cost,
        report_.patterns,
        report_.walks,
        report_.hints,
    )
    return any(parts) or bool(report_.clocks is not None and report_.clocks.telemetry)
