"""A comparison as tables of words, for every renderer: what is worth a line, and how numbers are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.diagnose.compare_word import (
    BASIS,
    MEASURE,
    noise_of,
    part_name,
    signed,
    signed_duration,
)
from stepscope.model.comparison import Comparison, FindingStatus, OpChange, OpStatus, StepTime
from stepscope.model.text import Lang, Text, duration, number, percent, size
from stepscope.views.label import COMPUTE_KIND, word

MOST_LINES = 8
LEAST_PART_SHARE = 0.005
LEAST_SIGNAL_SHARE, LEAST_SIGNAL_POINTS = 0.05, 0.02
LEAST_COLLECTIVE_SHARE = 0.10

_T = Text
WORDS: Mapping[str, Text] = {
    "base": _T(en="base", zh="基准"),
    "new": _T(en="new", zh="新"),
    "change": _T(en="change", zh="变化"),
    "noise": _T(en="noise", zh="噪声"),
    "within": _T(en="within noise", zh="在噪声内"),
    "time": _T(en="Time", zh="时间"),
    "parts": _T(en="Where the time of a step changed", zh="每步时间的变化"),
    "of_step": _T(en="of the step", zh="占每步"),
    "operators": _T(en="Ops that changed, a step", zh="变化的算子（每步）"),
    "shapes": _T(en="The same by shapes", zh="按形状细分"),
    "what": _T(en="what", zh="如何"),
    "calls": _T(en="calls", zh="次数"),
    "explains": _T(en="explains", zh="可解释"),
    "collectives": _T(en="Collectives that changed, a call", zh="变化的集合通信（每次）"),
    "transfer": _T(en="transfer", zh="传输"),
    "waiting": _T(en="waiting", zh="等待"),
    "signals": _T(en="Signals that changed", zh="变化的信号"),
    "memory": _T(en="Highest memory peak", zh="显存最高峰值"),
    "config": _T(en="Settings that differ", zh="不同的设置"),
    "findings": _T(en="Findings", zh="发现"),
    "unknown": _T(en="not stated", zh="未写明"),
    "more": _T(en="more in the JSON", zh="项见 JSON"),
}
STATUS: Mapping[OpStatus | FindingStatus, Text] = {
    "new": _T(en="new", zh="新增"),
    "gone": _T(en="gone", zh="消失"),
    "slower": _T(en="slower", zh="变慢"),
    "faster": _T(en="faster", zh="变快"),
    "more_calls": _T(en="more calls", zh="次数增多"),
    "fewer_calls": _T(en="fewer calls", zh="次数减少"),
    "appeared": _T(en="appeared", zh="新出现"),
    "kept": _T(en="on both sides", zh="两边都有"),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One table: a title, heads, and rows of as many cells. The first column is text, `names` are columns
    with names from an input."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: frozenset[int] = frozenset()
    texts: frozenset[int] = frozenset({0})
    num_more: int = 0


def tables(told: Comparison, lang: Lang) -> list[Shown]:
    """Every table that has rows."""
    made = (
        _times(told, lang), _parts(told, lang), _ops(told, told.operators, "operators", MOST_LINES, lang),
        _ops(told, told.operator_shapes, "shapes", 4, lang), _collectives(told, lang), _signals(told, lang),
        _memory(told, lang), _config(told, lang), _findings(told, lang),
    )  # fmt: skip
    return [each for each in made if each.rows]


def _words(keys: Sequence[str], lang: Lang) -> tuple[str, ...]:
    return tuple(WORDS[key].in_(lang) if key else "" for key in keys)


def _times(told: Comparison, lang: Lang) -> Shown:
    rows = [
        (
            f"{MEASURE[each.measure].in_(lang)}{'' if lang == 'zh' else ', '}{BASIS[each.basis].in_(lang)}",
            duration(each.base_ns),
            duration(each.new_ns),
            signed(each.share),
            _noise(each, lang),
        )
        for each in told.step_time
    ]
    return Shown(WORDS["time"].in_(lang), _words(("", "base", "new", "change", "noise"), lang), tuple(rows))


def _noise(each: StepTime, lang: Lang) -> str:
    noise = noise_of(each)
    return WORDS["unknown"].in_(lang) if noise is None else noise


def _parts(told: Comparison, lang: Lang) -> Shown:
    worth = [each for each in told.parts if abs(each.share) >= LEAST_PART_SHARE]
    rows = [
        (
            _part(each.part, lang),
            duration(each.base_ns),
            duration(each.new_ns),
            signed_duration(each.difference_ns),
            signed(each.share),
            "" if each.is_beyond in (True, None) else WORDS["within"].in_(lang),
        )
        for each in worth[:MOST_LINES]
    ]
    return Shown(
        WORDS["parts"].in_(lang),
        _words(("", "base", "new", "change", "of_step", ""), lang),
        tuple(rows),
        texts=frozenset({0, 5}),
        num_more=max(0, len(worth) - MOST_LINES),
    )


def _part(part: str, lang: Lang) -> str:
    kind = part.removeprefix("compute.")
    if kind != part and kind in COMPUTE_KIND:
        return f"· {COMPUTE_KIND[kind].in_(lang)}"
    return part_name(part).in_(lang)


def _ops(told: Comparison, ops: Sequence[OpChange], key: str, most: int, lang: Lang) -> Shown:
    rows = [
        (
            each.name if each.shapes is None else f"{each.name} {each.shapes}",
            STATUS[each.status].in_(lang),
            duration(each.base_ns),
            duration(each.new_ns),
            signed_duration(each.difference_ns),
            f"{each.base_calls:.4g} → {each.new_calls:.4g}"
            if each.base_calls != each.new_calls
            else f"{each.new_calls:.4g}",
            "" if each.explains is None else signed(each.explains),
        )
        for each in ops[:most]
    ]
    heads = [word("operator", lang), *_words(("what", "base", "new", "change", "calls", "explains"), lang)]
    return Shown(
        WORDS[key].in_(lang), tuple(heads), tuple(rows), frozenset({0}), frozenset({0, 1}),
        max(0, len(ops) - most),
    )  # fmt: skip


def _collectives(told: Comparison, lang: Lang) -> Shown:
    rows = []
    for each in told.collectives:
        cells = [each.kind if each.bytes is None else f"{each.kind} {size(each.bytes)}"]
        cells.append(_moved(f"{each.base_calls:.4g}", f"{each.new_calls:.4g}"))
        is_other = each.base_calls != each.new_calls
        for before, after in (
            (each.base_transfer_ns, each.new_transfer_ns),
            (each.base_wait_ns, each.new_wait_ns),
        ):
            known = before is not None and after is not None
            is_other |= known and abs((after or 0) - (before or 0)) > LEAST_COLLECTIVE_SHARE * (before or 0)
            cells.append(_moved(*("" if ns is None else duration(ns) for ns in (before, after))))
        if is_other:
            rows.append(tuple(cells))
    heads = ("", *_words(("calls", "transfer", "waiting"), lang))
    return Shown(
        WORDS["collectives"].in_(lang), heads, tuple(rows[:MOST_LINES]), frozenset({0}),
        num_more=max(0, len(rows) - MOST_LINES),
    )  # fmt: skip


def _moved(before: str, after: str) -> str:
    return after if before == after else f"{before or '–'} → {after or '–'}"


def _signals(told: Comparison, lang: Lang) -> Shown:
    rows = [
        (each.signal, number(each.base, each.unit), number(each.new, each.unit),
         signed(each.difference / each.base) if each.base > 0 else "")
        for each in told.signals
        if abs(each.difference)
        >= (LEAST_SIGNAL_POINTS if each.unit == "ratio" else LEAST_SIGNAL_SHARE * abs(each.base))
        and each.difference
    ]  # fmt: skip
    return Shown(
        WORDS["signals"].in_(lang), _words(("", "base", "new", "change"), lang), tuple(rows[:MOST_LINES]),
        num_more=max(0, len(rows) - MOST_LINES),
    )  # fmt: skip


def _memory(told: Comparison, lang: Lang) -> Shown:
    each = told.memory
    rows = () if each is None else (("", size(each.base_bytes), size(each.new_bytes), signed(each.share)),)
    return Shown(WORDS["memory"].in_(lang), _words(("", "base", "new", "change"), lang), rows)


def _config(told: Comparison, lang: Lang) -> Shown:
    none = WORDS["unknown"].in_(lang)
    rows = tuple((each.key, each.base or none, each.new or none) for each in told.config)
    return Shown(
        WORDS["config"].in_(lang), _words(("", "base", "new"), lang), rows[:MOST_LINES], frozenset({0, 1, 2}),
        frozenset({0, 1, 2}), max(0, len(rows) - MOST_LINES),
    )  # fmt: skip


def _findings(told: Comparison, lang: Lang) -> Shown:
    rows = [
        (
            STATUS[each.status].in_(lang),
            each.title,
            "" if each.base_share is None else percent(each.base_share),
            "" if each.new_share is None else percent(each.new_share),
        )
        for each in told.findings
    ]
    return Shown(
        WORDS["findings"].in_(lang), _words(("", "", "base", "new"), lang), tuple(rows[:MOST_LINES]),
        frozenset(), frozenset({0, 1}), max(0, len(rows) - MOST_LINES),
    )  # fmt: skip
