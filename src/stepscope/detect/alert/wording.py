"""The one line of an alarm, in both languages."""

from __future__ import annotations

from stepscope.detect.alert.condition import Condition
from stepscope.model.alarm import About, Measured
from stepscope.model.text import LANGS, Text, duration, number

LOST = Text("; no samples of it any more", "；此后再无样本")
MOST_NAMED = 3
UUID_CHARACTERS = 12
"""Of a device's UUID, as many as tell devices apart on a line."""


def line_of(
    condition: Condition, about: About, measured: Measured | None, detail: Text | None, *, is_lost: bool
) -> tuple[str, str]:
    """(English, Chinese). `detail` stands for the number where there is none."""
    lines = []
    for lang in LANGS:
        filled = condition.text.in_(lang).format_map(
            {
                "who": _who(about, lang),
                "value": detail.in_(lang)
                if detail
                else _number(measured.value if measured else None, condition.unit),
                "threshold": _number(measured.threshold if measured else condition.threshold, condition.unit),
                "normal": _number(measured.normal if measured else None, condition.unit),
                "effect": _effect(measured, lang),
                "held": _held(condition.for_ns, lang),
            }
        )
        lines.append(filled + ((LOST.en if lang == "en" else LOST.zh) if is_lost else ""))
    return lines[0], lines[1]


def _who(about: About, lang: str) -> str:
    is_zh = lang == "zh"
    comma, of = ("、", "，") if is_zh else (", ", " on ")
    parts = []
    if about.ranks:
        word = "rank " if is_zh or len(about.ranks) == 1 else "ranks "
        parts.append(word + _few([str(each) for each in about.ranks], comma, is_zh))
    if about.devices:
        short = [each[:UUID_CHARACTERS] if each.startswith("GPU-") else each for each in about.devices]
        parts.append(_few(short, comma, is_zh))
    made = comma.join(parts)
    if about.hosts and (about.devices or not about.ranks):
        where = _few(list(about.hosts), comma, is_zh)
        made = f"{made}{of}{where}" if made else where
    if made:
        return made
    return (f"作业 {about.job}" if is_zh else f"job {about.job}") if about.job else ("设备" if is_zh else "?")


def _few(names: list[str], comma: str, is_zh: bool) -> str:
    more = len(names) - MOST_NAMED
    shown = comma.join(names[:MOST_NAMED])
    if more <= 0:
        return shown
    return f"{shown} 等 {len(names)} 个" if is_zh else f"{shown} and {more} more"


def _number(value: float | None, unit: str) -> str:
    return "?" if value is None else number(value, unit)


def _effect(measured: Measured | None, lang: str) -> str:
    if measured is None or measured.effect is None:
        return "?"
    if measured.unit == "ratio":
        return f"{100 * abs(measured.effect):.1f} {'个百分点' if lang == 'zh' else 'points'}"
    return f"{100 * abs(measured.effect):.0f} %"


def _held(for_ns: int, lang: str) -> str:
    minutes, rest = divmod(for_ns, 60_000_000_000)
    if minutes and not rest:
        return f"{minutes} 分钟" if lang == "zh" else f"{minutes} min"
    return duration(for_ns)
