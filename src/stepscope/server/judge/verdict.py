"""What a report says of the alarms that asked for it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from stepscope.diagnose.card import runs
from stepscope.model.alarm import Alarm, AlarmSeverity
from stepscope.model.report import Card, Confidence, Finding, Report
from stepscope.model.report import Verdict as Said
from stepscope.model.text import Lang, Text
from stepscope.rules import Catalog
from stepscope.server.judge.relation import SYMPTOMS, explains, family_of

Outcome = Literal["confirmed", "open", "dismissed"]
LEAST_SHARE = 0.05
"""Of the step: what a finding costs at least that an alarm is told for."""
LEAST_SLOWDOWN = 1.05
"""Steps that take so many times as long as before have slowed, whatever the report can name."""
_ORDER: Mapping[str, int] = {"info": 0, "warning": 1, "critical": 2}
_CONFIDENCE: Mapping[str, int] = {"low": 0, "medium": 1, "high": 2}
_RANKS = Text(en="{title} (ranks {ranks})", zh="{title}（rank {ranks}）")
_RANK = Text(en="{title} (rank {ranks})", zh="{title}（rank {ranks}）")
OPEN = Text(
    en="{alarm}; steps and counters confirm it, no known cause explains it",
    zh="{alarm}；训练步与计数器证实了该现象，但没有已知原因能够解释",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`confirmed`: `card` is what the alarms are about. `open`: they are true, and nothing known explains
    them. `dismissed`: the report shows a healthy job."""

    outcome: Outcome
    severity: AlarmSeverity
    title: Text
    why: str = ""
    card: Card | None = None
    rule: str | None = None
    cause: str | None = None
    confidence: Confidence = "low"
    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether nothing more need be recorded before somebody is told."""
        return self.outcome == "confirmed" and self.confidence == "high"


def judged(
    report: Report,
    alarms: Sequence[Alarm],
    catalog: Catalog,
    *,
    slowdown: float | None = None,
    known: Collection[str] = (),
) -> Verdict:
    """What the report says of these alarms. `slowdown` is how many times as long the steps take as before,
    `None` where that is not known; `known` are rules of other incidents of the job, which come last."""
    alarm = max(alarms, key=lambda each: (_ORDER[each.severity], -each.seen_ns))
    found = [(card, own) for card in report.cards if (own := _own(card, report, catalog)) is not None]
    about = [
        pair
        for pair in found
        if any(explains(pair[0].id, catalog[pair[0].id].verdict, a.condition, a.level) for a in alarms)
    ]
    if about:
        best = min(about, key=lambda pair: _rank_of(pair[0], report, alarms, known))
        return _confirmed(*best, alarms, catalog)
    title = Text(en=alarm.text or alarm.condition, zh=alarm.text_zh or alarm.text or alarm.condition)
    is_fact = any(each.level != "performance" for each in alarms)
    if is_fact or (slowdown is not None and slowdown >= LEAST_SLOWDOWN):
        if not is_fact:
            title = Text(en=OPEN.en.format(alarm=title.en), zh=OPEN.zh.format(alarm=title.zh))
        is_of_speed = any(family_of(a.condition, a.level).asks == "trace" for a in alarms)
        why = (
            ""
            if slowdown is None or not is_of_speed
            else f"steps take {slowdown:.2f} times as long as before; "
        )
        severity = alarm.severity if is_fact else _at_most(alarm.severity, "warning")
        return Verdict("open", severity, title, f"{why}no known cause explains it")
    told = "" if slowdown is None else f", steps take {slowdown:.2f} times as long as before"
    return Verdict(
        "dismissed", "info", title, f"not confirmed: the report says {report.verdict.class_}{told}"
    )


def alone(report: Report, verdict: Verdict, alarms: Sequence[Alarm], lang: Lang) -> Report:
    """The report as it is told with alarms of memory or of a device that no card explains: what else it found
    is of another trouble, and often of another time."""
    names = {family_of(each.condition, each.level).name for each in alarms}
    if verdict.outcome != "open" or not names <= {"memory", "device"}:
        return report
    text = verdict.title.in_(lang)
    return replace(report, verdict=Said(class_="undecided", text=text), cards=(), findings=())


def _own(card: Card, report: Report, catalog: Catalog) -> list[Finding] | None:
    """The findings of a card's own rule, `None` where it is nothing to tell: health, or too little."""
    if card.id not in {each.id for each in catalog} or catalog[card.id].verdict == "healthy":
        return None
    own = [each for each in report.findings if each.rule == card.id and each.explained_by is None]
    worth = [
        each
        for each in own
        if (each.cost is not None and max(each.cost.share, each.cost.steps_share or 0.0) >= LEAST_SHARE)
        or (each.cost is None and each.severity != "info")
    ]
    return own if worth else None


def _rank_of(
    card: Card, report: Report, alarms: Sequence[Alarm], known: Collection[str]
) -> tuple[bool, bool, int, int]:
    """Which card is told: one that another incident has not told, no mere symptom, one that the alarms' own
    family names, in the order of the report."""
    causes = [
        family.causes.index(card.id)
        for alarm in alarms
        if alarm.level != "performance"
        and card.id in (family := family_of(alarm.condition, alarm.level)).causes
    ]
    place = next(n for n, each in enumerate(report.cards) if each.id == card.id)
    return card.id in known, card.id in SYMPTOMS, min(causes, default=99), place


def _confirmed(card: Card, own: Sequence[Finding], alarms: Sequence[Alarm], catalog: Catalog) -> Verdict:
    rule = catalog[card.id]
    ranks = tuple(sorted({rank for each in own for rank in each.subject.ranks}))
    severity: AlarmSeverity = max((each.severity for each in own), key=lambda each: _ORDER[each])
    titles = {}
    for lang in ("en", "zh"):
        title = rule.title.en if lang == "en" else rule.title.zh
        text = _RANK if len(ranks) == 1 else _RANKS
        form = text.en if lang == "en" else text.zh
        named = (", " if lang == "en" else "、").join(runs(ranks))
        titles[lang] = form.format(title=title, ranks=named) if ranks else title
    hard = [each.severity for each in alarms if each.level != "performance"]
    return Verdict(
        "confirmed",
        max([severity, *hard], key=lambda each: _ORDER[each]),
        Text(en=titles["en"], zh=titles["zh"]),
        card=card,
        rule=rule.id,
        cause=rule.cause,
        confidence=max((each.confidence for each in own), key=lambda each: _CONFIDENCE[each]),
        ranks=ranks,
        devices=tuple(sorted({each for finding in own for each in finding.subject.devices})),
    )


def _at_most(severity: AlarmSeverity, most: AlarmSeverity) -> AlarmSeverity:
    return min(severity, most, key=lambda each: _ORDER[each])


def with_card(
    report: Report, card: str, onset_ns: int, onset_step: int | None, notes: Sequence[str]
) -> Report:
    """The report with the onset of the incident on its card, where the card's own is later (of a trace it is
    the first traced step) or not known, and with notes behind those that it has."""

    def told(each: Card) -> Card:
        if each.id != card:
            return each
        is_late = each.onset_ns is None or each.onset_ns > onset_ns
        if is_late:
            each = replace(each, onset_ns=onset_ns, onset_step=onset_step, onset_holds=None)
        return replace(each, notes=(*each.notes, *notes))

    return replace(report, cards=tuple(map(told, report.cards)))
