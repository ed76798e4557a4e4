"""What a report says of memory, in lines that every renderer for people can use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stepscope.model import report
from stepscope.model.text import Lang, Text, percent, size
from stepscope.views.label import brackets, colon, counted, joined, listed, word
from stepscope.views.shape import device_name, readable

MOST_ROWS = 3
"""Rows of memory that are shown; the others are in the JSON report."""
MOST_SITES = 5
MOST_FAILURES = 2
CERTAIN = 3.0
"""From so many standard deviations on, peaks are said to rise or fall: memory-creep's threshold."""
_NAME = 60

_T = Text
WORDS: Mapping[str, Text] = {
    "memory": _T(en="Memory", zh="显存"),
    "host_memory": _T(en="Host memory", zh="主机内存"),
    "snapshot": _T(en="snapshot", zh="快照"),
    "unverified": _T(
        en="read by the format's description, not yet compared with a real run's snapshot",
        zh="按格式说明读取，尚未与真实运行的快照核对",
    ),
    "changes": _T(
        en="the trace holds changes only: above the lowest level in it",
        zh="trace 只含变化量：相对其中最低水平",
    ),
    "peak": _T(en="peak", zh="峰值"),
    "estimate": _T(en="of it, by the phase that allocated it (an estimate)", zh="其中按分配阶段估计"),
    "growth": _T(en="growth of step peaks", zh="步峰值的增长"),
    "no_growth": _T(en="none beyond chance", zh="未超出偶然波动"),
    "reserve": _T(en="largest reserve", zh="reserved 最大值"),
    "driver": _T(en="driver calls in steps", zh="步内的驱动调用"),
    "history": _T(en="segments in the history", zh="历史中的段操作"),
    "held": _T(en="held now", zh="当前持有"),
    "failed": _T(en="failed request", zh="失败的申请"),
    "sites": _T(en="who holds the most", zh="占用最多者"),
    "about": _T(en="reckoned back", zh="按历史倒推"),
}
KIND: Mapping[report.MemoryKind, Text] = {
    "before": _T(en="there before (parameters, buffers)", zh="此前已有（参数、缓冲）"),
    "activations": _T(en="activations", zh="激活"),
    "gradients": _T(en="gradients", zh="梯度"),
    "optimizer_state": _T(en="optimizer state", zh="优化器状态"),
    "other": _T(en="other", zh="其他"),
}
REASON: Mapping[report.OomReason, Text] = {
    "fragmented": _T(en="enough in all, but in pieces", zh="总量足够，但都是碎片"),
    "other_pool": _T(
        en="enough in all, but in pools of other streams or of their own",
        zh="总量足够，但在其他流的池或私有池中",
    ),
    "too_big": _T(en="simply too big", zh="所需确实过大"),
    "outside": _T(
        en="the driver reported enough free and refused: the cause lies outside the allocator",
        zh="驱动报告空闲足够却拒绝：原因在分配器之外",
    ),
    "unknown": _T(en="why is not known", zh="原因未知"),
}


def shown_memory(rows: Sequence[report.Memory]) -> tuple[list[report.Memory], int]:
    """The rows to show and how many are left out: failures and snapshots first, then by their peak.

    A host's memory is shown only where there is nothing else.
    """
    devices = [row for row in rows if row.device.kind not in report.HOST_KINDS] or list(rows)

    def order(row: report.Memory) -> tuple[bool, bool, int]:
        peak = row.peak.allocated_bytes if row.peak is not None else 0
        return not row.out_of_memory, row.source != "snapshot", -peak

    ordered = sorted(devices, key=order)
    return ordered[:MOST_ROWS], len(ordered[MOST_ROWS:])


def memory_head(row: report.Memory, lang: Lang) -> str:
    """Whose memory it is."""
    is_host = row.device.kind in report.HOST_KINDS
    told = [
        "" if row.rank is None else f"{word('rank', lang)} {row.rank}",
        "" if is_host else f"{word('device', lang)} {device_name(row.device)}",
        _word("snapshot", lang) if row.source == "snapshot" else "",
    ]
    return _word("host_memory" if is_host else "memory", lang) + brackets(joined(told, lang), lang)


def memory_notes(row: report.Memory, lang: Lang) -> list[str]:
    """What a reader must know of the numbers."""
    keys = [
        key for key, is_so in (("unverified", row.unverified), ("changes", row.basis == "changes")) if is_so
    ]
    return [_word(key, lang) for key in keys]


def memory_lines(row: report.Memory, lang: Lang, name: Callable[[str], str] = str) -> list[str]:
    """What is known of it, one thing a line. `name` makes names of ops and places fit the page."""
    lines = [
        *(_failure(each, lang, name) for each in row.out_of_memory[:MOST_FAILURES]),
        _peak(row, lang, name),
        _categories(row.categories, lang),
        _growth(row.growth, lang),
        _reserve(row.reserve, lang),
        _driver(row, lang),
        _held(row.held, lang),
        *_sites(row.sites, lang, name),
    ]
    return [line for line in lines if line]


def _word(key: str, lang: Lang) -> str:
    return WORDS[key].in_(lang)


def _line(key: str, pieces: Iterable[str], lang: Lang) -> str:
    return f"{_word(key, lang)}{colon(lang)}{joined(pieces, lang)}"


def _peak(row: report.Memory, lang: Lang, name: Callable[[str], str]) -> str:
    peak = row.peak
    if peak is None:
        return ""
    level = size(peak.allocated_bytes)
    if peak.reserved_bytes is not None:
        held = size(peak.reserved_bytes)
        level = f"{level}（reserved {held}）" if lang == "zh" else f"{level} of {held} reserved"
    step = ""
    if peak.step is not None:
        step = f"第 {peak.step} 步" if lang == "zh" else f"step {peak.step}"
    who = "" if peak.op is None else name(readable(peak.op, _NAME))
    if peak.within is not None:
        outer = name(readable(peak.within, _NAME))
        who = f"{outer} 中的 {who}" if lang == "zh" else f"{who} in {outer}"
    return _line("peak", (level, step, who), lang)


def _categories(categories: Sequence[report.MemoryCategory], lang: Lang) -> str:
    told = [f"{KIND[each.kind].in_(lang)} {size(each.bytes)} ({percent(each.share)})" for each in categories]
    return _line("estimate", told, lang) if told else ""


def _growth(growth: report.MemoryGrowth | None, lang: Lang) -> str:
    if growth is None:
        return ""
    if abs(growth.certainty) < CERTAIN:
        each = _word("no_growth", lang)
    else:
        rate, error = size(growth.bytes_per_step), size(growth.error_bytes_per_step)
        each = f"每步 {rate} ± {error}" if lang == "zh" else f"{rate} ± {error} a step"
    return _line("growth", (each, _over(growth.num_steps, lang)), lang)


def _over(num_steps: int, lang: Lang) -> str:
    return f"共 {num_steps} 步" if lang == "zh" else f"over {num_steps} steps"


def _reserve(reserve: report.MemoryReserve | None, lang: Lang) -> str:
    if reserve is None:
        return ""
    most, used, unused = (
        size(reserve.reserved_bytes),
        size(reserve.allocated_bytes),
        percent(reserve.unused_share),
    )
    if lang == "zh":
        grew = "" if reserve.grew else "（录制前已如此）"
        return _line("reserve", (f"{most}{grew}", f"当时已分配 {used}", f"{unused} 未使用"), lang)
    grew = "" if reserve.grew else " (reached before the recording)"
    return _line("reserve", (f"{most}{grew}", f"{used} allocated then", f"{unused} unused"), lang)


def _driver(row: report.Memory, lang: Lang) -> str:
    driver = row.driver
    if driver is None or not driver.num_allocations + driver.num_frees:
        return ""
    told = (
        counted(driver.num_allocations, lang, "allocation", "allocations", "次申请"),
        counted(driver.num_frees, lang, "free", "frees", "次释放"),
        counted(driver.num_retries, lang, "retry", "retries", "次归还后又申请"),
    )
    return _line("history" if row.source == "snapshot" else "driver", told, lang)


def _held(held: report.HeldMemory | None, lang: Lang) -> str:
    if held is None:
        return ""
    used, whole = size(held.allocated_bytes), size(held.reserved_bytes)
    free, largest, pinned = (
        size(held.free_bytes),
        size(held.largest_free_bytes),
        size(held.inactive_split_bytes),
    )
    if lang == "zh":
        return _line(
            "held",
            (
                f"reserved {whole} 中已分配 {used}",
                f"空闲 {free}，分为 {held.num_free_blocks:,} 块，最大 {largest}",
                f"其中 {pinned} 因同段仍被占用而无法归还",
            ),
            lang,
        )
    pieces = counted(held.num_free_blocks, lang, "piece", "pieces", "")
    return _line(
        "held",
        (
            f"{used} of {whole} reserved",
            f"{free} free in {pieces}, the largest {largest}",
            f"{pinned} of it in segments still in use",
        ),
        lang,
    )


def _failure(failed: report.OutOfMemory, lang: Lang, name: Callable[[str], str]) -> str:
    """What a person needs of it: how much was asked for, what lay free, and which of both it is."""
    asked = size(failed.requested_bytes)
    told = [f"申请 {asked}" if lang == "zh" else f"{asked} asked for"]
    if failed.unallocated_bytes is not None:
        free, largest = size(failed.unallocated_bytes), size(failed.largest_free_bytes or 0)
        num = failed.num_free_blocks or 0
        pieces = counted(num, lang, "piece", "pieces", "块")
        told.append(
            f"reserved 中未分配 {free}，分为 {pieces}，最大 {largest}"
            if lang == "zh"
            else f"{free} reserved but unallocated in {pieces}, the largest {largest}"
        )
    if failed.device_free_bytes is not None:
        free = size(failed.device_free_bytes)
        told.append(f"驱动尚有 {free}" if lang == "zh" else f"{free} free in the driver")
    if failed.is_estimate:
        told.append(_word("about", lang))
    where = "" if failed.name is None else brackets(name(readable(failed.name, _NAME)), lang)
    return _line("failed", told, lang) + colon(lang) + REASON[failed.reason].in_(lang) + where


def _sites(sites: Sequence[report.MemorySite], lang: Lang, name: Callable[[str], str]) -> list[str]:
    told = [
        f"{size(each.bytes)} ({percent(each.share)}) {name(readable(each.name, _NAME))}"
        for each in sites[:MOST_SITES]
    ]
    return [f"{_word('sites', lang)}{colon(lang)}{listed(told, lang)}"] if told else []
