"""A report as answers of a few hundred tokens: what matters first, ids to ask by, and the next call.

Answers are plain JSON values. What did not fit is counted under `left_out`, never silently gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stepscope.mcp.desk import Asked
from stepscope.mcp.query import short
from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, number, percent
from stepscope.rules.rule import Rule
from stepscope.views.counter_word import (
    event_lines,
    hint_lines,
    lag_lines,
    pattern_lines,
    progress_lines,
    reason_lines,
    representative_line,
    short_lines,
)
from stepscope.views.detail import input_error, issue_detail, withheld_why
from stepscope.views.explain import clauses, facts, gates
from stepscope.views.job_word import lateness_lines
from stepscope.views.label import part_of, withheld_name
from stepscope.views.phrase import cost_of, gain_of
from stepscope.views.shape import (
    card_parts,
    device_name,
    full_rows,
    harmless,
    is_told,
    parts,
    per_step,
    readable,
    told_issues,
)

MAX_TOKENS = 1_500
"""Of one answer: a page that an agent reads beside its own work."""
STRAY = Text(
    en="{}: a link that leads out of the folders that may be read, or to nothing; left out",
    zh="{}：此链接指向可读目录之外，或指向不存在的文件；已略去",
)
_MOST_EVENTS = 4
_ASCII_A_TOKEN = 3.0
_NAME = 90
_SENTENCE = 300


def num_tokens(answer: Any) -> int:
    """How many tokens an answer takes at most: three ASCII characters or one other make one (our choice;
    common tokenizers need fewer for prose, and about so many for names of kernels)."""
    text = msgspec.json.encode(answer).decode()
    num_ascii = sum(char.isascii() for char in text)
    return int(num_ascii / _ASCII_A_TOKEN + len(text) - num_ascii) + 1


def call(tool: str, why: str, **arguments: Any) -> dict[str, Any]:
    """A next call, filled in."""
    return {"tool": tool, "arguments": arguments, "why": why}


def diagnosis(asked: Asked) -> dict[str, Any]:
    """The verdict, where the time went, a line a card, what is withheld, and what to ask next."""
    whole, lang = asked.report, asked.lang
    health = whole.health
    answer: dict[str, Any] = {
        "report": asked.handle,
        "verdict": {"class": whole.verdict.class_, "text": text(whole.verdict.text)},
        "data": health.verdict,
        "time": [_time(row, whole, lang) for row in full_rows(whole)],
        "cards": [_card(card, whole, lang) for card in whole.cards],
        "ranks": [text(line) for line in lateness_lines(whole, lang, name)],
        "events": [text(line) for _, line in event_lines(whole, lang, most=_MOST_EVENTS)[0]],
        "progress": [text(line) for line in progress_lines(whole, lang)],
        "counters": [text(line) for line in short_lines(whole, lang)],
        "telemetry": [text(line) for line in _telemetry(whole, lang)],
        "withheld": [_withheld(each, lang) for each in health.withheld],
        "issues": [text(issue_detail(each, lang)) for each in told_issues(health) if each.effect != "none"],
        "unused_inputs": [
            *(text(STRAY.in_(lang).format(each)) for each in asked.strays),
            *(text(input_error(each, lang)) for each in whole.inputs if each.error is not None),
        ],
        "undecided": [_undecided(each) for each in whole.undecided],
        "next": _next(asked),
    }
    order = (
        "unused_inputs", "issues", "undecided", "telemetry", "counters", "progress", "time", "events",
        "withheld", "ranks", "cards",
    )  # fmt: skip
    return fitted(answer, order)


def findings(asked: Asked, *, severity: str | None, offset: int) -> dict[str, Any]:
    """Every finding on a line, in the order of the report."""
    of = [each for each in asked.report.findings if severity in (None, each.severity)]
    shown = of[offset:]
    answer: dict[str, Any] = {
        "report": asked.handle,
        "count": len(of),
        "findings": [_finding(each, asked.lang) for each in shown],
        "next": [call("evidence", "the numbers behind it", report=asked.handle, finding=shown[0].id)]
        if shown
        else [call("query", "where the time went", report=asked.handle, table="accounting")],
    }
    whole = fitted(answer, ("findings",))
    if "left_out" not in whole:
        return whole
    # The call for the rest takes room too, the most where the offset is the largest.
    more = {"severity": severity} if severity is not None else {}
    rest = call("findings", "the rest", report=asked.handle, offset=len(of), **more)
    cut = fitted({**answer, "next": [*answer["next"], rest]}, ("findings",))
    rest["arguments"]["offset"] = offset + len(cut.get("findings", ()))
    return cut


def evidence(asked: Asked, finding: report.Finding) -> dict[str, Any]:
    """One finding: its numbers against their thresholds, who was running, what to change, what proves it."""
    lang = asked.lang
    answer: dict[str, Any] = {
        "report": asked.handle,
        **_finding(finding, lang),
        "evidence": [_measured(each) for each in finding.evidence],
        "meanwhile": [
            {"name": name(each.name), "time": duration(each.time_ns), "event": each.span}
            for each in finding.culprits
        ],
        "remedies": [_remedy(each, finding, lang) for each in finding.remedies],
        "unknown": [text(each) for each in finding.unknown],
        "ruled_out": [f"{each.rule}: {text(each.because)}" for each in finding.ruled_out],
        "next": [call("explain", "thresholds and from where they are", rule=finding.rule, lang=lang)],
    }
    return fitted(answer, ("ruled_out", "unknown", "meanwhile", "evidence", "remedies"))


def explanation(rule: Rule, lang: Lang) -> dict[str, Any]:
    """One rule of the catalogue."""
    answer: dict[str, Any] = {
        "rule": rule.id,
        "title": rule.title.in_(lang),
        "explanation": rule.explanation.in_(lang),
        "facts": dict(facts(rule, lang)),
        "thresholds": {feature.name: reference.in_(lang) for feature, reference in rule.references.items()},
        "checks": [check.in_(lang) for check in rule.checks],
        "remedies": [{"text": each.text.in_(lang), **dict(gates(each, lang))} for each in rule.remedies],
        "next": [call("doctor", "what this machine can record")],
    }
    if rule.questions:
        answer["open"] = clauses([c for each in rule.questions for c in each.settled_by], lang)
    return fitted(answer, ("checks", "remedies"))


def text(value: str) -> str:
    """A sentence that may quote an input, on one line and not endless."""
    plain = " ".join(harmless(value).split())
    return plain if len(plain) <= _SENTENCE else plain[: _SENTENCE - 1] + "…"


def name(value: str) -> str:
    """A name from a trace, as people write it."""
    return harmless(readable(value, _NAME))


def fitted(answer: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """The answer within `MAX_TOKENS`: lists give up their last entries, those named first in `order` first,
    each down to its first entry; then texts are cut. Empty lists are left out."""
    answer = {key: value for key, value in answer.items() if value not in ([], {}, None)}
    left: dict[str, int] = {}
    for least in (1, 0):
        for key in order:
            while len(answer.get(key, ())) > least and num_tokens({**answer, "left_out": left}) > MAX_TOKENS:
                answer[key] = answer[key][:-1]
                left[key] = left.get(key, 0) + 1
    return {**answer, "left_out": left} if left else answer


def _time(row: report.Accounting, whole: report.Report, lang: Lang) -> dict[str, Any]:
    place = next(i for i, each in enumerate(whole.accounting) if each is row)
    told: dict[str, Any] = {"row": place, "device": name(device_name(row.device)), "scope": row.scope}
    if row.rank is not None:
        told["rank"] = row.rank
    if row.num_steps:
        told["steps"] = row.num_steps
    if row.status != "ok":
        told["status"] = row.status
    if not is_told(row, whole) or not row.total_ns:
        return told
    unit = "per step" if row.scope == "steps" else "in all"
    told[unit] = duration(per_step(row, row.total_ns))
    told["parts"] = {
        part_of(row, part).in_(lang): percent(spent / row.total_ns) for part, spent in parts(row)[:6]
    }
    return told


def _card(card: report.Card, whole: report.Report, lang: Lang) -> dict[str, Any]:
    worst = card_parts(card, whole).worst
    told: dict[str, Any] = {
        "id": card.id,
        "title": text(card.title),
        "severity": worst.severity,
        "confidence": worst.confidence,
        "findings": list(card.findings[:4]),
    }
    if len(card.findings) > 4:
        told["more_findings"] = len(card.findings) - 4
    if worst.cost is not None:
        told["cost"] = cost_of(worst.cost, lang)
    if worst.subject.steps is not None:
        told["steps"] = list(worst.subject.steps)
    if card.checks:
        told["check_first"] = text(card.checks[0])
    if worst.remedies:
        told["change"] = text(worst.remedies[0].text)
        if gain := gain_of(worst.remedies[0], worst.cost, lang):
            told["gain"] = gain
    return told


def _telemetry(whole: report.Report, lang: Lang) -> list[str]:
    """What is known of the sources' lag, and what follows from the counters; the patterns that hold first."""
    alike = representative_line(whole, lang)
    return [
        *([alike] if alike else []),
        *reason_lines(whole, lang),
        *pattern_lines(whole, lang, name),
        *lag_lines(whole, lang, name),
        *hint_lines(whole, lang, name)[0],
    ]


def _withheld(each: report.Withheld, lang: Lang) -> dict[str, Any]:
    told = {"what": withheld_name(each, lang), "why": text(withheld_why(each, lang))}
    return {**told, "would_settle": text(each.would_settle)} if each.would_settle else told


def _undecided(each: report.Undecided) -> dict[str, Any]:
    told: dict[str, Any] = {"rule": each.rule}
    if each.why:
        told["why"] = text(each.why)
    if each.missing:
        told["missing"] = list(each.missing[:4])
    if each.would_settle:
        told["would_settle"] = text(each.would_settle)
    return told


def _finding(each: report.Finding, lang: Lang) -> dict[str, Any]:
    told: dict[str, Any] = {
        "finding": each.id,
        "rule": each.rule,
        "title": text(each.title),
        "severity": each.severity,
        "confidence": each.confidence,
    }
    if each.cost is not None:
        told["cost"] = cost_of(each.cost, lang)
    if each.subject.ranks:
        told["ranks"] = list(each.subject.ranks[:16])
    if each.subject.steps is not None:
        told["steps"] = list(each.subject.steps)
    if each.explained_by is not None:
        told["consequence_of"] = each.explained_by
    return told


def _measured(each: report.Evidence) -> dict[str, Any]:
    told: dict[str, Any] = {
        "from": each.from_,
        "feature": each.feature,
        "value": short(each.value),
        "shown": number(each.value, each.unit),
    }
    if each.threshold is not None:
        told["threshold"] = f"{each.op} {number(each.threshold, each.unit)}"
    if each.where is not None:
        where = msgspec.to_builtins(each.where)
        if each.where.name is not None:
            where["name"] = name(each.where.name)
        told["where"] = where
    return told


def _remedy(each: report.Remedy, finding: report.Finding, lang: Lang) -> dict[str, Any]:
    told: dict[str, Any] = {"text": text(each.text)}
    if gain := gain_of(each, finding.cost, lang):
        told["gain"] = gain
    if each.patch is not None:
        told["patch"] = {key: value for key, value in msgspec.to_builtins(each.patch).items() if value}
    if each.verify:
        told["proof"] = text(each.verify)
    return told


def _next(asked: Asked) -> list[dict[str, Any]]:
    whole, handle = asked.report, asked.handle
    calls: Iterable[dict[str, Any]] = (
        [
            call("evidence", "the numbers behind it", report=handle, finding=whole.findings[0].id),
            call("findings", "all findings with their ids", report=handle),
        ]
        if whole.findings
        else [call("explain", "what is still open", rule=whole.undecided[0].rule, lang=asked.lang)]
        if whole.undecided
        else [call("doctor", "what this machine can record")]
    )
    hottest = call(
        "query", "the hottest operators", report=handle, table="operators", order_by="device_ns",
        descending=True, limit=5,
    )  # fmt: skip
    accounting = call("query", "where the time went", report=handle, table="accounting")
    more = (
        [call("query", "every signal over the window", report=handle, table="signals")]
        if whole.signals
        else []
    )
    return [*calls, *more, hottest if whole.operators else accounting]
