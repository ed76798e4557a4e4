"""The answer where only telemetry or logs were given: what they show, and that it is no cause. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.diagnose import word
from stepscope.diagnose.finding import Told
from stepscope.model import report
from stepscope.model.feature import Observed
from stepscope.model.text import Text, percent

_GRAVE: tuple[report.Severity, ...] = ("warning", "critical")


@dataclass(frozen=True, slots=True)
class _Part:
    number: str
    text: Text


_PARTS = (
    _Part(
        "compute_busy_mean",
        Text(
            en="compute busy {} (a kernel was resident; it is not efficiency)",
            zh="计算忙碌率 {}（仅表示有 kernel 驻留，并非效率）",
        ),
    ),
    _Part("sm_active_mean", Text(en="SM active {}", zh="SM 活跃率 {}")),
    _Part("tensor_active_mean", Text(en="tensor active {}", zh="张量核心活跃率 {}")),
    _Part("dram_active_mean", Text(en="DRAM active {}", zh="DRAM 活跃率 {}")),
    _Part("power_limit_share", Text(en="power {} of its limit", zh="功率为上限的 {}")),
    _Part("memory_used_share", Text(en="memory in use {}", zh="显存占用 {}")),
    _Part("host_cpu_busy", Text(en="host processors busy {}", zh="主机 CPU 忙碌率 {}")),
)
"""What is told of all devices together, in this order: means over them."""


def counters_alone(alone: Sequence[Observed], told: Sequence[Told]) -> tuple[report.VerdictClass, Text]:
    """Class and sentence: that of the gravest finding that counters and logs carry by themselves, or of a
    mere note that both agree on, else that nothing is decided, with the figures and what would decide."""
    carried = [each for each in told if each.rule.verdict not in ("healthy", "undecided")]
    grave = [each for each in carried if each.finding.severity in _GRAVE]
    agreed = [each for each in carried if each.finding.confidence == "high"]
    worst = next(iter(grave or agreed), None)
    figures = _figures(alone)
    if worst is not None:
        title = worst.finding.title
        return worst.rule.verdict, Text(
            en=f": {word.lowered(title)}; without a trace nobody knows what it costs a step",
            zh=f"：{title}；没有 trace，无法得知它在每步中的代价",
        )
    if figures is None:
        return "undecided", Text(
            en=": the logs and counters alone show no cause; give a trace of a few steps too",
            zh="：仅凭日志与计数器看不出原因；请同时给出几步的 trace",
        )
    return "undecided", Text(
        en=f": {figures.en}; counters alone name no cause: a trace of a few steps would",
        zh=f"：{figures.zh}；仅凭计数器无法确定原因，需要几步的 trace",
    )


def _figures(alone: Sequence[Observed]) -> Text | None:
    en, zh = [], []
    for part in _PARTS:
        known = [each.device.numbers[part.number] for each in alone if part.number in each.device.numbers]
        if known:
            value = percent(float(np.mean(known)))
            en.append(part.text.en.format(value))
            zh.append(part.text.zh.format(value))
    return Text(en=", ".join(en), zh="，".join(zh)) if en else None
