"""Xids: what a code of NVIDIA's driver means for a training job, and which codes are one incident.

Severity and advice are for the codes that matter to training; sources are NVIDIA's Xid catalogue of
2025-10-29, gpud's event table and reports of users, which disagree on some codes: `is_disputed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stepscope.model.log import LogEvent
from stepscope.model.sample import Mark
from stepscope.model.text import Text
from stepscope.model.xid_table import ENGINES, MEANINGS, NAMES, UNKNOWN, UNUSED

NS = 1_000_000_000
Effect = Literal["fatal", "degrade", "app", "info"]
"""`fatal`: the job must stop. `degrade`: slow or at risk. `app`: most often a fault of the program."""
Severity = Literal["info", "warning", "critical"]
_SEVERITY: dict[Effect, Severity] = {
    "fatal": "critical",
    "degrade": "warning",
    "app": "warning",
    "info": "info",
}


@dataclass(frozen=True, slots=True)
class Xid:
    """One code. `effect` and `advice` are `None` of codes that training does not meet."""

    code: int
    mnemonic: str | None
    meaning: Text
    effect: Effect | None = None
    advice: Text | None = None
    is_disputed: bool = False
    is_consequence: bool = False
    """It follows another fault and is never the cause."""
    is_severity_in_text: bool = False

    @property
    def severity(self) -> Severity:
        """Of a code whose effect is not known: a warning."""
        return _SEVERITY[self.effect] if self.effect is not None else "warning"


_FATAL_RESET = Text("Drain the host and reset the GPU.", "排空主机并复位该 GPU。")
_NVLINK5 = Text(
    "A link had an error: whether it is fatal stands in the message. Look at link counters; collectives "
    "may have been slow before.",
    "链路出错：是否致命见消息正文。查看链路计数器；此前集合通信可能已变慢。",
)
_RETIRE = Text("Noted; look for the memory error that it follows.", "记录即可；查找其所跟随的显存错误。")

# (code, effect, advice, sources disagree)
_ADVICE: tuple[tuple[int, Effect, Text, bool], ...] = (
    (13, "app", Text(
        "Most often a bad access or an assertion in a kernel. If it comes back on one GPU only, test that "
        "GPU.",
        "多为核函数越界访问或断言失败。若只在同一块 GPU 上重复出现，检测该 GPU。"), False),
    (31, "app", Text(
        "An access out of bounds. Profiling counters of this GPU may stand still afterwards: do not trust "
        "zeros.",
        "越界访问。此后该 GPU 的 profiling 计数器可能停滞：不要相信其零值。"), False),
    (32, "app", Text("The program or the hardware: if it comes back on one GPU, test that GPU.",
                     "程序或硬件问题：若在同一块 GPU 上重复，检测该 GPU。"), True),
    (38, "app", Text("Firmware: if it comes back, update the driver and test the GPU.",
                     "固件问题：若重复出现，更新驱动并检测 GPU。"), True),
    (43, "app", Text("Follows a fault of the program: look for the code before it.",
                     "由程序错误引起：查找其之前的代码。"), False),
    (44, "app", Text("The program or the hardware: if it comes back on one GPU, test that GPU.",
                     "程序或硬件问题：若在同一块 GPU 上重复，检测该 GPU。"), True),
    (45, "info", Text("Never the cause: every rank shows it when one dies. Look for the code before it.",
                      "从来不是根因：一个 rank 退出时所有 rank 都会出现。查找其之前的代码。"), False),
    (46, "fatal", _FATAL_RESET, False),
    (48, "fatal", Text("Drain the host and reset the GPU; codes 63, 64, 94, 95, 171 and 172 beside it say "
                       "more.",
                       "排空主机并复位 GPU；伴随的 63、64、94、95、171、172 给出更多细节。"), False),
    (54, "degrade", Text("Check the power cable: clocks stay low until it is plugged in.",
                         "检查供电线缆：插好前频率一直偏低。"), False),
    (61, "fatal", Text("Reboot the host; if it comes back, have the GPU inspected.",
                       "重启主机；若重复出现，送检该 GPU。"), False),
    (62, "fatal", _FATAL_RESET, False),
    (63, "info", Text("The row is replaced at the next reset: plan one, and watch rows that are pending.",
                      "下次复位时替换该行：安排复位，并关注待处理的行。"), True),
    (64, "fatal", Text("Reset the GPU; if it comes back, ask for a replacement.",
        "复位 GPU；若重复出现，申请更换。"), False),
    (65, "info", _RETIRE, True),
    (68, "app", Text("Video decoding failed: check the loader's input.",
        "视频解码失败：检查数据加载的输入。"), False),
    (69, "app", Text("Restart the program; if it comes back on one GPU, test that GPU.",
                     "重启程序；若在同一块 GPU 上重复，检测该 GPU。"), False),
    (74, "fatal", Text("Look at link error counters; collectives may have been slow or hung before it.",
                       "查看链路错误计数器；此前集合通信可能已变慢或挂起。"), False),
    (78, "degrade", Text("Driver of host and guest do not fit: update them.",
        "宿主与客户机驱动不匹配：请更新。"), False),
    (79, "fatal", Text("Reboot the host. Series of this GPU end here: that they are missing is the sign.",
                       "重启主机。该 GPU 的指标序列到此为止：缺失本身即信号。"), False),
    (92, "info", Text("Repaired by itself; watch whether memory rows are replaced.",
        "已自动纠正；关注是否有显存行被替换。"), False),
    (94, "app", Text("The program that used the memory is ended; the GPU can be used on.",
                     "使用该显存的程序被终止；GPU 可继续使用。"), False),
    (95, "fatal", _FATAL_RESET, False),
    (109, "fatal", _FATAL_RESET, False),
    (110, "fatal", _FATAL_RESET, False),
    (119, "fatal", Text("Reset the GPU. nvidia-smi and DCGM hang on it: expect a gap in telemetry around "
                        "this time.",
                        "复位 GPU。nvidia-smi 与 DCGM 会在其上挂起：此时段前后遥测会有缺口。"), False),
    (120, "fatal", Text("Reset the GPU. nvidia-smi and DCGM hang on it: expect a gap in telemetry around "
                        "this time.",
                        "复位 GPU。nvidia-smi 与 DCGM 会在其上挂起：此时段前后遥测会有缺口。"), False),
    (121, "degrade", Text("The link to the processor of a Grace module: watch whether copies are slow.",
                          "Grace 模组与 CPU 的链路：关注拷贝是否变慢。"), True),
    (136, "fatal", _FATAL_RESET, False),
    (137, "app", Text("Peer access that is not allowed: check the program and peer mappings.",
                      "不被允许的对端访问：检查程序与对端映射。"), False),
    (140, "fatal", _FATAL_RESET, False),
    (143, "fatal", _FATAL_RESET, False),
    *((code, "degrade", _NVLINK5, False) for code in range(144, 151)),
    (151, "fatal", Text("Restart the virtual machine (confidential computing).",
        "重启虚拟机（机密计算）。"), False),
    (154, "info", Text("Do what the message asks for: nothing, a reset, a reboot or a drain.",
                       "按消息要求处理：无需操作、复位、重启或排空。"), False),
    (155, "fatal", _FATAL_RESET, False),
    (156, "fatal", _FATAL_RESET, False),
    (157, "info", _RETIRE, True),
    (158, "fatal", _FATAL_RESET, False),
    (159, "degrade", Text("Look at the coherent bus of the module and at the driver of unified memory.",
                          "检查模组的一致性总线与统一内存驱动。"), False),
    (160, "info", _RETIRE, True),
    (161, "info", _RETIRE, True),
    (162, "info", Text("The power curve may change from here on.", "此后功率曲线可能变化。"), False),
    (163, "info", Text("The power curve may change from here on.", "此后功率曲线可能变化。"), False),
    (167, "fatal", Text("Reboot the host; look at PCIe errors in the kernel log.",
        "重启主机；查看内核日志中的 PCIe 错误。"), False),
    (169, "fatal", _FATAL_RESET, False),
    (171, "fatal", Text("A detail of 48: treat them as one.", "48 的细节：视为同一事件。"), False),
    (172, "fatal", Text("A detail of 48: treat them as one.", "48 的细节：视为同一事件。"), False),
)  # fmt: skip

CONSEQUENCES = frozenset({43, 45})
"""Codes that follow another: 45 on every GPU of a job that is ended, 43 after a fault of the program."""
MEMORY = frozenset({48, 63, 64, 65, 94, 95, 171, 172})
"""Codes of one memory error."""
_SEVERITY_IN_TEXT = frozenset(range(144, 151))

CONSEQUENCE_NS = 10 * NS
MEMORY_NS = 60 * NS
REPEAT_NS = 600 * NS
"""The driver prints one of 30 timeouts of 6 s each (119): 180 s between two lines of one incident."""


def _table() -> dict[int, Xid]:
    meanings = dict(MEANINGS)
    for codes, first, en, zh in ENGINES:
        for number, code in enumerate(codes, first):
            meanings[code] = Text(en.format(n=number), zh.format(n=number))
    advice = {code: (effect, text, disputed) for code, effect, text, disputed in _ADVICE}
    table = {}
    for line in NAMES.split("\n"):
        number_text, _, name = line.partition(" ")
        if not number_text:
            continue
        code = int(number_text)
        effect, text, is_disputed = advice.get(code, (None, None, False))
        table[code] = Xid(
            code=code,
            mnemonic=None if name == "-" else name.replace("*", "ROBUST_CHANNEL_"),
            meaning=meanings.get(code, UNUSED),
            effect=effect,
            advice=text,
            is_disputed=is_disputed,
            is_consequence=code in CONSEQUENCES,
            is_severity_in_text=code in _SEVERITY_IN_TEXT,
        )
    return table


XIDS: dict[int, Xid] = _table()
"""Every code of the catalogue."""


def xid(code: int) -> Xid:
    """What is known of a code; of one that is not listed, that."""
    return XIDS.get(code) or Xid(code, None, UNKNOWN)


def severity_of(code: int) -> Severity:
    """How bad a code is for a training job; of an unknown one, a warning."""
    return xid(code).severity


# ── incidents ──


@dataclass(frozen=True, slots=True)
class Incident:
    """Xids that are one thing. `code` is the one that says most of the cause; `codes` are all, in order of
    appearance; `count` how often any was seen. Times are `None` where none of them has one. `devices` are
    PCI bus ids or UUIDs, the first that was hit first. `is_new` is false where all that is known is a gauge
    that stood at the code when it was first read: it may be of long ago.
    """

    code: int
    codes: tuple[int, ...]
    count: int
    start_ns: int | None
    end_ns: int | None
    devices: tuple[str, ...]
    host: str | None
    severity: Severity
    text: str
    is_new: bool = True


@dataclass(slots=True)
class _Seen:
    code: int
    time: float | None
    """Nanoseconds of the wall clock, or since the host's start; `None` where there is neither."""
    at_ns: int | None
    device: str | None
    host: str | None
    severity: Severity
    text: str
    is_new: bool
    pid: int | None


def incidents(seen: Iterable[LogEvent | Mark]) -> list[Incident]:
    """Xids of logs and gauges, grouped; others are passed over. In order of time, those without one last.

    One are: the same code on the same device within 10 minutes; codes of one memory error (48, 63, 64, 65,
    94, 95, 171, 172) on one device within a minute; 43 and 45 on any device that follow another within 10
    seconds. A first value of a gauge that stays joins a code that a log states of the same device, whenever
    that was, and else is told as what may be old.
    """
    all_seen = [each for item in seen if (each := _of(item)) is not None]
    new = sorted((each for each in all_seen if each.is_new), key=_order)
    groups: list[list[_Seen]] = []
    for each in new:
        home = next((group for group in reversed(groups) if _belongs(group, each)), None)
        if home is None:
            groups.append([each])
        else:
            home.append(each)
    for each in all_seen:
        if each.is_new:
            continue
        known = any(one.code == each.code and _same_device(one, each) for group in groups for one in group)
        if not known:
            groups.append([each])
    return [_incident(group) for group in sorted(groups, key=lambda group: _order(group[0]))]


def _of(item: LogEvent | Mark) -> _Seen | None:
    if item.kind != "xid" or item.code is None or item.code <= 0:
        return None
    if isinstance(item, Mark):
        owner = item.owner
        device = (owner.pci_bus_id or owner.uuid) if owner is not None else None
        if device is None and owner is not None and owner.index is not None:
            device = f"gpu{owner.index}"
        host = owner.host if owner is not None else None
        return _Seen(
            item.code,
            float(item.at_ns),
            item.at_ns,
            device,
            host,
            severity_of(item.code),
            item.text,
            item.is_new,
            None,
        )
    boot = item.numbers.get("boot_seconds")
    time = float(item.at_ns) if item.at_ns is not None else (boot * NS if boot is not None else None)
    severity: Severity = (
        "critical" if item.severity == "critical" else ("info" if item.severity == "info" else "warning")
    )
    return _Seen(item.code, time, item.at_ns, item.pci_bus_id, item.host, severity, item.text, True, item.pid)


def _order(each: _Seen) -> tuple[bool, float]:
    return each.time is None, each.time or 0.0


def _same_device(one: _Seen, other: _Seen) -> bool:
    """Unknown is not another: a log of one host names no host."""
    hosts = one.host is None or other.host is None or one.host == other.host
    return hosts and (one.device is None or other.device is None or one.device == other.device)


def _within(one: _Seen, other: _Seen, span_ns: float) -> bool:
    """Whether two lie close; of times that cannot be compared the order of the log counts."""
    return one.time is None or other.time is None or abs(other.time - one.time) <= span_ns


def _belongs(group: list[_Seen], each: _Seen) -> bool:
    last = group[-1]
    if each.code in CONSEQUENCES and _within(last, each, CONSEQUENCE_NS):
        return True
    for one in reversed(group):
        if not _same_device(one, each):
            continue
        if one.code == each.code and _within(one, each, REPEAT_NS):
            return True
        if one.code in MEMORY and each.code in MEMORY and _within(one, each, MEMORY_NS):
            return True
    return False


_RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}


def _incident(group: list[_Seen]) -> Incident:
    # The worst says most of the cause; a consequence only where nothing else is there.
    lead = min(group, key=lambda each: (each.code in CONSEQUENCES, _RANK[each.severity]))
    times = [each.at_ns for each in group if each.at_ns is not None]
    return Incident(
        code=lead.code,
        codes=tuple(dict.fromkeys(each.code for each in group)),
        count=len(group),
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        devices=tuple(dict.fromkeys(each.device for each in group if each.device is not None)),
        host=next((each.host for each in group if each.host is not None), None),
        severity=lead.severity if lead.is_new else "info",
        text=lead.text,
        is_new=lead.is_new,
    )


__all__ = ["CONSEQUENCES", "MEMORY", "XIDS", "Incident", "Xid", "incidents", "severity_of", "xid"]
