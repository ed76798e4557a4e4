"""What counters show beside the findings: patterns, walks and hints of each device. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.analyse.features import facts
from stepscope.analyse.features.telemetry import telemetry_samples
from stepscope.diagnose.finding import Told
from stepscope.diagnose.row import Row
from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.rules import hint, pattern, walk

MOST_DEVICES = 16
"""Devices that are looked at: those with the largest findings first."""
LEAST_SHARE = 0.05
"""A finding from this share of the step on makes it slow."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Of every device with counters, as the report has it."""

    patterns: tuple[report.Pattern, ...] = ()
    walks: tuple[report.Walk, ...] = ()
    hints: tuple[report.Hint, ...] = ()


def look(rows: Sequence[Row], told: Sequence[Told], lang: Lang) -> Looked:
    """Patterns, walks and hints of the devices with counters; empty without any."""
    measured = [row for row in rows if row.observed.device.numbers.get(telemetry_samples.name)]
    weight = {id(each.row): _share(each) for each in reversed(told)}
    measured = sorted(measured, key=lambda row: -weight.get(id(row), 0.0))[:MOST_DEVICES]
    features = dict.fromkeys([*pattern.features(), *walk.features(), *hint.features()])
    known = [(row, facts(row.observed, features)) for row in measured]
    slow = {id(each.row) for each in told if _share(each) >= LEAST_SHARE}
    return Looked(
        patterns=tuple(p for row, fact in known for p in pattern.patterns(row.observed, fact, lang)),
        walks=tuple(
            w for row, fact in known for w in walk.walks(row.observed, fact, lang, is_slow=id(row) in slow)
        ),
        hints=tuple(h for row, fact in known for h in hint.hints(row.observed, fact, lang)),
    )


def _share(told: Told) -> float:
    return told.finding.cost.share if told.finding.cost is not None else 0.0
