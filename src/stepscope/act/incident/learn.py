"""What earlier incidents of a site say of a remedy: how often it worked, and how much of its promise it kept.

Few incidents are no proof: counts begin with two that were never seen, of which one worked (a uniform prior),
and ratios with two that kept their promise exactly. A remedy is never hidden: it may only stand further down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean

import msgspec

from stepscope.model.incident import Gain, Incident
from stepscope.model.report import Finding, Remedy, RemedyHistory, Report

PRIOR_WORKED, PRIOR_FAILED = 1.0, 1.0
PRIOR_RATIOS, PRIOR_RATIO = 2.0, 1.0
LEAST_RATIO, MOST_RATIO = -1.0, 3.0
"""One incident in which something else changed too must not rule over all others."""
LEAST_PREDICTED = 0.005


@dataclass(frozen=True, slots=True)
class Lesson:
    """What came of one remedy (`rule#number`). `success_share` is the mean of the posterior (a Beta);
    `gain_ratio` realised over predicted, drawn towards 1; `realised_share` the mean where it worked, `None`
    where it never did."""

    remedy: str
    num_tried: int
    num_worked: int
    success_share: float
    gain_ratio: float
    realised_share: float | None


Lessons = Mapping[str, Lesson]


def lessons(incidents: Iterable[Incident]) -> dict[str, Lesson]:
    """Remedy -> what came of it, of all incidents in which it was followed and judged.

    What was judged of an incident counts from then on, closed or not; one that was opened again does not.
    """
    judged: dict[str, list[Gain]] = defaultdict(list)
    for each in incidents:
        gain, change = each.gain, each.change
        if gain is None or change is None or change.remedy is None or gain.verdict == "unknown":
            continue
        if each.state in ("verified", "not_verified", "closed"):
            judged[change.remedy].append(gain)
    return {remedy: _lesson(remedy, of) for remedy, of in sorted(judged.items())}


def _lesson(remedy: str, of: list[Gain]) -> Lesson:
    worked = [gain for gain in of if gain.verdict == "better"]
    ratios = [ratio for gain in of if (ratio := ratio_of(gain)) is not None]
    won = [gain.realised for gain in worked if gain.realised is not None]
    prior = PRIOR_WORKED + PRIOR_FAILED
    return Lesson(
        remedy=remedy,
        num_tried=len(of),
        num_worked=len(worked),
        success_share=(PRIOR_WORKED + len(worked)) / (prior + len(of)),
        gain_ratio=(PRIOR_RATIOS * PRIOR_RATIO + sum(ratios)) / (PRIOR_RATIOS + len(ratios)),
        realised_share=mean(won) if won else None,
    )


def ratio_of(gain: Gain) -> float | None:
    """Realised over the middle of what was predicted; `None` where either is not known, or nothing was
    promised."""
    if gain.predicted is None or gain.realised is None:
        return None
    middle = (gain.predicted[0] + gain.predicted[1]) / 2
    if middle < LEAST_PREDICTED:
        return None
    return min(max(gain.realised / middle, LEAST_RATIO), MOST_RATIO)


def with_history(report: Report, known: Lessons) -> Report:
    """The report with what came of its remedies here: `history` filled in, gains corrected, and the changes
    of each finding in the order of what they may be expected to bring. Looks stay where they are."""
    if not known:
        return report
    found = tuple(_with_history(finding, known) for finding in report.findings)
    return report if found == report.findings else msgspec.structs.replace(report, findings=found)


def _with_history(finding: Finding, known: Lessons) -> Finding:
    if not any(remedy.id in known for remedy in finding.remedies):
        return finding
    told = [_corrected(remedy, known) for remedy in finding.remedies]
    places = [n for n, remedy in enumerate(told) if remedy.verify is not None]
    ordered = sorted((told[n] for n in places), key=lambda remedy: -expected(remedy, known))
    for n, remedy in zip(places, ordered, strict=True):
        told[n] = remedy
    return msgspec.structs.replace(finding, remedies=tuple(told))


def _corrected(remedy: Remedy, known: Lessons) -> Remedy:
    lesson = known.get(remedy.id or "")
    if lesson is None:
        return remedy
    gain, ratio = remedy.gain_share, max(lesson.gain_ratio, 0.0)
    if gain is not None:
        # More than there is to win cannot be promised, however much was won elsewhere.
        most = min(gain[1], gain[1] * ratio)
        gain = (round(min(gain[0] * ratio, most), 6), round(most, 6))
    history = RemedyHistory(
        num_tried=lesson.num_tried,
        num_worked=lesson.num_worked,
        success_share=lesson.success_share,
        realised_share=lesson.realised_share,
        gain_ratio=lesson.gain_ratio,
        gain_share_before=remedy.gain_share,
    )
    return msgspec.structs.replace(remedy, gain_share=gain, history=history)


def expected(remedy: Remedy, known: Lessons) -> float:
    """How much better a remedy may be than one that was never tried: how often it works here, times how much
    of its promise it keeps. Never tried is 0.5 times 1."""
    lesson = known.get(remedy.id or "")
    if lesson is None:
        return PRIOR_WORKED / (PRIOR_WORKED + PRIOR_FAILED) * PRIOR_RATIO
    return lesson.success_share * max(lesson.gain_ratio, 0.0)
