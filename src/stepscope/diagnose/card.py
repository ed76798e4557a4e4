"""One card per incident: findings of one cause, on whichever ranks, with what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.rules import Catalog

_RANKS = Text(en="{title} (ranks {ranks})", zh="{title}（rank {ranks}）")
_PAIR = {"en": ", ", "zh": "、"}


def cards(
    findings: Sequence[report.Finding],
    catalog: Catalog,
    notes: Mapping[str, tuple[str, ...]],
    operators: Sequence[report.Operator],
    lang: Lang,
) -> tuple[report.Card, ...]:
    """The cards in the order of their first finding; consequences lie on the card of their cause.

    `notes` are what a reader must know of the findings of a rule, by its id.
    """
    groups: dict[str, list[report.Finding]] = {}
    for finding in findings:
        if finding.explained_by is None:
            groups.setdefault(finding.rule, []).append(finding)
    owner = {finding.id: rule for rule, group in groups.items() for finding in group}
    for finding in findings:
        # A consequence of a consequence follows its chain; a chain always ends, causes cost more.
        cause = finding.explained_by
        while cause is not None and cause not in owner:
            cause = next(f.explained_by for f in findings if f.id == cause)
        if cause is not None:
            groups[owner[cause]].append(finding)
    return tuple(_card(rule_id, group, catalog, notes, operators, lang) for rule_id, group in groups.items())


def _card(
    rule_id: str,
    group: Sequence[report.Finding],
    catalog: Catalog,
    notes: Mapping[str, tuple[str, ...]],
    operators: Sequence[report.Operator],
    lang: Lang,
) -> report.Card:
    rule, first = catalog[rule_id], group[0]
    own = [finding for finding in group if finding.rule == rule_id]
    ranks = sorted({rank for finding in own for rank in finding.subject.ranks})
    title = first.title
    if len(ranks) > 1:
        title = _RANKS.in_(lang).format(title=title, ranks=_PAIR[lang].join(map(str, ranks)))
    earliest = min(
        (f for f in own if f.onset_step is not None), key=lambda f: (f.onset_step or 0, f.id), default=None
    )
    fired = {finding.rule for finding in group}
    return report.Card(
        id=rule_id,
        title=title,
        explanation=rule.explanation.in_(lang),
        findings=tuple(finding.id for finding in group),
        onset_ns=earliest.onset_ns if earliest else None,
        onset_step=earliest.onset_step if earliest else None,
        checks=tuple(check.in_(lang) for check in rule.checks),
        top_operators=_hottest(operators, first.subject.ranks),
        ruled_out=tuple(out for out in first.ruled_out if _out_everywhere(out.rule, own)),
        unknown=tuple(dict.fromkeys(line for finding in own for line in finding.unknown)),
        notes=tuple(dict.fromkeys(note for each in sorted(fired) for note in notes.get(each, ()))),
    )


def _out_everywhere(rule_id: str, own: Sequence[report.Finding]) -> bool:
    return all(any(out.rule == rule_id for out in finding.ruled_out) for finding in own)


def _hottest(operators: Sequence[report.Operator], ranks: Sequence[int]) -> tuple[report.Operator, ...]:
    own = [o for o in operators if (o.rank in ranks or not ranks) and o.device_ns > 0]
    return tuple(sorted(own, key=lambda o: (-o.device_ns, o.name))[:5])
