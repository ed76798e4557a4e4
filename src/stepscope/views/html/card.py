"""One incident: what it is, what shows it, what to check and to change, and what would prove the change."""

from __future__ import annotations

from typing import TypeAlias

from stepscope.model import report
from stepscope.model.text import Lang, Text, duration
from stepscope.views.html.column import Column, drawn
from stepscope.views.html.markup import Child, Markup, code, tag
from stepscope.views.html.work import HOTTEST
from stepscope.views.label import LAYER, ORIGIN, brackets, colon, listed, word
from stepscope.views.label import joined as in_words
from stepscope.views.phrase import amount, cost_of, culprit_name, gain_of, patch_lines, since, subject_of
from stepscope.views.shape import CardParts, card_parts, is_change, readable

_NAME_WIDTH = 120
_MEASURED = Text(en="measured", zh="测量")
_VALUE = Text(en="value", zh="数值")
_THRESHOLD = Text(en="threshold", zh="阈值")
_FROM = Text(en="from", zh="来源")
_EXPLAIN = Text(en="All of this rule", zh="规则全文")
_WHOSE = Text(en="of", zh="所属")


def card(card_: report.Card, report_: report.Report, lang: Lang) -> Markup:
    """A card in full."""
    shown = card_parts(card_, report_)
    worst = shown.worst
    return tag(
        "article",
        tag(
            "header",
            tag("span", word(worst.severity, lang), class_=f"badge {worst.severity}"),
            tag("h3", card_.title),
            tag("p", _facts(card_, worst, report_, lang), class_="facts"),
        ),
        tag("p", card_.explanation) if card_.explanation is not None else None,
        _evidence(shown, report_, lang),
        tag("p", f"+ {shown.num_more} {word('more_rows', lang)}", class_="note") if shown.num_more else None,
        _meanwhile(worst, lang),
        [
            tag("p", f"{word('consequence', lang)}{colon(lang)}{finding.title}", class_="note")
            for finding in shown.consequences
        ],
        _checks(card_, lang),
        _remedies(worst, lang),
        _listed(word("unknown", lang), card_.unknown),
        _ruled_out(card_.ruled_out, lang),
        _hottest(card_, report_, lang),
        [tag("p", note, class_="note") for note in card_.notes],
        tag("p", _EXPLAIN.in_(lang), colon(lang), code(f"stepscope explain {worst.rule}"), class_="note"),
        class_=f"card {worst.severity}",
        id=f"card-{card_.id}",
    )


def _facts(card_: report.Card, worst: report.Finding, report_: report.Report, lang: Lang) -> Child:
    told = [
        "" if worst.cost is None else cost_of(worst.cost, lang),
        subject_of(worst, report_, lang),
        f"{word('confidence', lang)} {word(worst.confidence, lang)}",
        since(card_, report_, lang),
        f"{word('layer', lang).lower()} {LAYER[worst.layer].in_(lang)}",
    ]
    overlaps = worst.cost.overlaps_with if worst.cost is not None else ()
    if overlaps:
        told.append(f"{word('overlaps', lang)} {listed(overlaps, lang)}")
    return [in_words(told, lang), " ", code(worst.rule)]


_Measured: TypeAlias = tuple[report.Finding, report.Evidence]


def _evidence(shown: CardParts, report_: report.Report, lang: Lang) -> list[Child]:
    """The numbers against their thresholds, and behind them where both come from."""
    layers = {evidence.from_ for _, evidence in shown.evidence}
    only = ORIGIN[next(iter(layers))].in_(lang) if len(layers) == 1 else ""

    def threshold(each: _Measured, lang: Lang) -> str:
        evidence = each[1]
        if evidence.op is None or evidence.threshold is None:
            return ""
        return f"{evidence.op} {amount(evidence.threshold, evidence.unit, lang)}"

    columns = [
        Column(_MEASURED, lambda each, lang: code(each[1].feature), is_number=False),
        Column(_VALUE, lambda each, lang: amount(each[1].value, each[1].unit, lang)),
        Column(_THRESHOLD, threshold),
    ]
    if shown.is_of_several:
        columns.insert(0, Column(_WHOSE, lambda each, lang: subject_of(each[0], report_, lang), False))
    if not only:
        columns.append(Column(_FROM, lambda each, lang: ORIGIN[each[1].from_].in_(lang), False))
    notes = {evidence.feature: _source(evidence, lang) for _, evidence in reversed(shown.evidence)}
    lines = [tag("li", code(name), colon(lang), told) for name, told in reversed(notes.items()) if told]
    return [
        tag("h4", word("evidence", lang) + brackets(only, lang)),
        drawn(shown.evidence, columns, lang, most=len(shown.evidence)),
        tag("details", tag("summary", word("references", lang)), tag("ul", lines)) if lines else None,
    ]


def _source(evidence: report.Evidence, lang: Lang) -> str:
    """Where a threshold comes from, and in which event the number is seen best."""
    where = evidence.where
    place = (
        (where.name or "", f"{word('span', lang)} {where.span}") if where and where.span is not None else ()
    )
    return ("；" if lang == "zh" else "; ").join(
        each for each in (evidence.reference or "", in_words(place, lang)) if each
    )


def _meanwhile(finding: report.Finding, lang: Lang) -> Child:
    if not finding.culprits:
        return None
    steps = (finding.cost.num_steps if finding.cost is not None else None) or 1
    note = brackets(word("nested", lang), lang) if len(finding.culprits) > 1 else ""
    lines = [
        tag(
            "li",
            code(readable(culprit_name(each, finding, lang), _NAME_WIDTH)),
            f" {duration(each.time_ns / steps)}",
            tag("small", f" {word('span', lang)} {each.span}") if each.span is not None else None,
        )
        for each in finding.culprits
    ]
    return [tag("h4", f"{word('meanwhile', lang)}{note}"), tag("ul", lines)]


def _checks(card_: report.Card, lang: Lang) -> Child:
    if not card_.checks:
        return None
    return [tag("h4", word("checks", lang)), tag("ol", (tag("li", check) for check in card_.checks))]


def _remedies(finding: report.Finding, lang: Lang) -> Child:
    if not finding.remedies:
        return None
    lines: list[Child] = []
    for place, remedy in enumerate(finding.remedies):
        gain = gain_of(remedy, finding.cost, lang)
        # One proof for several changes is told once, below the last of them.
        is_last = all(remedy.verify != later.verify for later in finding.remedies[place + 1 :])
        lines.append(
            tag(
                "li",
                remedy.text,
                tag("p", gain, class_="gain") if gain else None,
                _patch(remedy.patch, lang) if remedy.patch is not None else None,
                tag("p", f"{word('verify', lang)}{colon(lang)}{remedy.verify}", class_="note")
                if remedy.verify and is_last
                else None,
            )
        )
    head = word("remedies" if is_change(finding) else "looks", lang)
    return [tag("h4", head), tag("ul", lines, class_="remedies")]


def _patch(patch: report.Patch, lang: Lang) -> Markup:
    """A patch as a diff: the marks tell lines apart, colour only helps."""
    lines = [
        tag("del" if mark == "-" else "ins", f"{mark} {line}\n") for mark, line in patch_lines(patch, lang)
    ]
    return tag("pre", lines, class_="patch", tabindex=0)


def _listed(head: str, lines: tuple[str, ...]) -> Child:
    return [tag("h4", head), tag("ul", (tag("li", line) for line in lines))] if lines else None


def _ruled_out(ruled_out: tuple[report.RuledOut, ...], lang: Lang) -> Child:
    if not ruled_out:
        return None
    lines = (tag("li", code(out.rule), colon(lang), out.because) for out in ruled_out)
    return tag("details", tag("summary", word("ruled_out", lang)), tag("ul", lines))


def _hottest(card_: report.Card, report_: report.Report, lang: Lang) -> Child:
    """Its operators, unless those are the report's own, which have a section."""
    if not card_.top_operators or card_.top_operators == report_.top_operators:
        return None
    table = drawn(card_.top_operators, HOTTEST, lang)
    return tag("details", tag("summary", word("top_operators", lang)), table)
