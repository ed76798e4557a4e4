"""One card per incident: findings of one cause, on whichever ranks, with what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.model import report
from stepscope.model.feature import Observed
from stepscope.model.text import Lang, Text
from stepscope.rules.rule import Rule

_RANKS = Text(en="{title} (ranks {ranks})", zh="{title}（rank {ranks}）")
_FILES = Text(en="{title} ({count} files)", zh="{title}（{count} 个文件）")
_PAIR = {"en": ", ", "zh": "、"}
_HOTTEST = 5


def cards(
    findings: Sequence[report.Finding],
    judged: Mapping[str, Rule],
    notes: Mapping[str, tuple[str, ...]],
    about: Mapping[str, Observed],
    accounting: Sequence[report.Accounting],
    lang: Lang,
) -> tuple[report.Card, ...]:
    """The cards in the order of their first finding; consequences lie on the card of their cause.

    `judged` are the rules of the findings as they were judged, by the ids of these; `notes` are what a
    reader must know of the findings of a rule, by its id; `about` are the devices of the findings.
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
    return tuple(
        _card(rule_id, group, judged, notes, about, accounting, lang) for rule_id, group in groups.items()
    )


def _card(
    rule_id: str,
    group: Sequence[report.Finding],
    judged: Mapping[str, Rule],
    notes: Mapping[str, tuple[str, ...]],
    about: Mapping[str, Observed],
    accounting: Sequence[report.Accounting],
    lang: Lang,
) -> report.Card:
    first = group[0]
    rule = judged[first.id]
    own = [finding for finding in group if finding.rule == rule_id]
    ranks = sorted({rank for finding in own for rank in finding.subject.ranks})
    title = first.title
    if len(ranks) > 1:
        title = _RANKS.in_(lang).format(title=title, ranks=_PAIR[lang].join(runs(ranks)))
    files = {accounting[f.subject.row].input for f in own if f.subject.row is not None}
    if len(files) > 1 and not ranks:
        title = _FILES.in_(lang).format(title=title, count=len(files))
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
        onset_holds=earliest.onset_holds if earliest else None,
        checks=tuple(check.in_(lang) for check in rule.checks),
        top_operators=hottest(about[first.id].rank.operators),
        ruled_out=tuple(out for out in first.ruled_out if _out_everywhere(out.rule, own)),
        unknown=tuple(dict.fromkeys(line for finding in own for line in finding.unknown)),
        notes=tuple(dict.fromkeys(note for each in sorted(fired) for note in notes.get(each, ()))),
    )


def _out_everywhere(rule_id: str, own: Sequence[report.Finding]) -> bool:
    return all(any(out.rule == rule_id for out in finding.ruled_out) for finding in own)


def hottest(operators: Sequence[report.Operator]) -> tuple[report.Operator, ...]:
    """The five ops with the most device time."""
    own = [operator for operator in operators if operator.device_ns > 0]
    return tuple(sorted(own, key=lambda o: (-o.device_ns, o.name))[:_HOTTEST])


def runs(ranks: Sequence[int]) -> list[str]:
    """Sorted ranks, three and more in a row as `0–7`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    told = [[f"{run[0]}–{run[-1]}"] if len(run) > 2 else list(map(str, run)) for run in runs]
    return [each for run in told for each in run]
