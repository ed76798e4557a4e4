"""A report for a pull request: the answer, a table of where the time went, one section a card."""

from __future__ import annotations

import re

from stepscope.diagnose.word import whose
from stepscope.model import report
from stepscope.model.text import Lang, duration, percent
from stepscope.views.detail import input_error, withheld_why
from stepscope.views.label import (
    brackets,
    colon,
    counted,
    joined,
    listed,
    part_of,
    withheld_name,
    word,
)
from stepscope.views.memory import memory_head, memory_lines, memory_notes, shown_memory
from stepscope.views.phrase import (
    compact,
    compact_head,
    cost_of,
    evidence_head,
    evidence_lines,
    gain_of,
    issue_lines,
    limit_of,
    needing,
    operators_head,
    patch_lines,
    ruled_out,
    since,
    slow_steps,
    subject_of,
    undecided_lines,
    window_of,
    work_lines,
)
from stepscope.views.shape import (
    card_parts,
    device_name,
    full_rows,
    harmless,
    is_change,
    is_told,
    parts,
    per_step,
    readable,
    rest_rows,
    told_issues,
)

_NAME_WIDTH = 80


def render(report_: report.Report, lang: Lang = "en") -> str:
    """The report as Markdown (GitHub's), ending in a newline."""
    lines = [f"**{escaped(report_.verdict.text)}**", "", *_health(report_, lang)]
    for row in full_rows(report_):
        lines += ["", *_row(row, report_, lang)]
    rest, num_more = rest_rows(report_)
    if rest:
        lines += ["", "| " + " | ".join(compact_head(lang)) + " |", "|---|--:|--:|--:|--:|--:|---|"]
        cells = [map(escaped, compact(row, report_, lang)) for row in rest]
        lines += ["| " + " | ".join(line) + " |" for line in cells]
    if num_more:
        lines += ["", f"+ {num_more} {word('more_rows', lang)}"]
    for card in report_.cards:
        lines += ["", *_card(card, report_, lang)]
    if report_.top_operators:
        lines += ["", *_operators(report_, lang)]
    lines += _memory(report_, lang)
    if report_.undecided:
        lines += ["", f"### {word('undecided', lang)}", ""]
        lines += [f"- {line}" for line in undecided_lines(report_.undecided, lang, code, escaped)]
    if out := ruled_out(report_):
        lines += ["", f"{word('ruled_out', lang)}{colon(lang)}{listed(map(code, out), lang)}"]
    if report_.next is not None:
        lines += [*_heading("next", lang), *_fenced(report_.next, "sh")]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A string as plain text in Markdown, also inside a table: no markup, no HTML, no link, no line break."""
    plain = " ".join(harmless(text).split())
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # @ would notify a stranger, # would link an issue, :// would make a link.
    plain = re.sub(r"([\\`*_\[\]|~])", r"\\\1", plain)
    return plain.replace("@", "@\u200b").replace("://", ":\u200b//")


def code(text: str) -> str:
    """A string as inline code, whatever backticks it holds."""
    plain = " ".join(harmless(text).split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _heading(key: str, lang: Lang) -> list[str]:
    return ["", f"{word(key, lang)}{colon(lang)}".rstrip(), ""]


def _fenced(text: str, language: str) -> list[str]:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *harmless(text).splitlines(), fence]


def _health(report_: report.Report, lang: Lang) -> list[str]:
    health = report_.health
    used = sum(i.error is None for i in report_.inputs)
    told = joined((word(health.verdict, lang), counted(used, lang, "input", "inputs", "个输入")), lang)
    lines = [f"{word('data', lang)}{colon(lang)}{told}"]
    issues = told_issues(health)
    lines += [""] if issues or health.withheld or used < len(report_.inputs) else []
    has_ranks = len({row.rank for row in report_.accounting}) > 1
    lines += [f"- {line}" for _, line in issue_lines(issues, lang, has_ranks=has_ranks, text=escaped)]
    for each in health.withheld:
        lines.append(
            f"- {word('withheld', lang)}{colon(lang)}{escaped(withheld_name(each, lang))}{colon(lang)}"
            f"{escaped(withheld_why(each, lang) + brackets(needing(each.would_settle or '', lang), lang))}"
        )
    lines += [
        f"- {word('not_used', lang)}{colon(lang)}{escaped(input_error(i, lang))}"
        for i in report_.inputs
        if i.error is not None
    ]
    return lines


def _row(row: report.Accounting, report_: report.Report, lang: Lang) -> list[str]:
    has_steps = row.scope == "steps"
    told = [
        "" if (owner := whose(row, report_.inputs)) is None else escaped(owner.in_(lang)),
        word("host", lang)
        if row.device.kind == "cpu"
        else f"{word('device', lang)} {escaped(device_name(row.device))}",
        counted(row.num_steps, lang, "step", "steps", "步") if has_steps else word("whole_trace", lang),
        window_of(row, lang) if is_told(row, report_) else "",
        "" if row.status == "ok" else word(row.status, lang),
    ]
    time = word("per_step" if has_steps else "time", lang)
    if not is_told(row, report_):
        return [joined(told, lang)]
    head = f"| {joined(told, lang)} | {word('share', lang)} | {time} |"
    body = [
        f"| {part_of(row, name).in_(lang)} | {percent(spent / row.total_ns)} | "
        f"{duration(per_step(row, spent))} |"
        for name, spent in parts(row)
    ]
    slow = slow_steps(row, report_.steps, lang)
    return [head, "|---|--:|--:|", *body, *(["", slow] if slow else [])]


def _card(card: report.Card, report_: report.Report, lang: Lang) -> list[str]:
    shown = card_parts(card, report_)
    worst = shown.worst
    told = [code(worst.rule), f"{word('confidence', lang)} {word(worst.confidence, lang)}"]
    if worst.cost is not None:
        told.insert(0, cost_of(worst.cost, lang))
    told += [escaped(subject_of(worst, report_, lang)), since(card, report_, lang)]
    lines = [
        f"### {word(worst.severity, lang)}{colon(lang)}{escaped(card.title)}",
        "",
        joined(told, lang) + "  ",
    ]
    lines += [escaped(card.explanation)] if card.explanation is not None else []
    lines += ["", f"{evidence_head(worst, lang)}{colon(lang)}".rstrip(), ""]
    lines += [f"- {line}" for line in evidence_lines(shown, report_, lang, code, escaped)]
    if shown.num_more:
        lines.append(f"- + {shown.num_more} {word('more_rows', lang)}")
    lines += _meanwhile(worst, lang)
    lines += [f"- {word('consequence', lang)}{colon(lang)}{escaped(f.title)}" for f in shown.consequences]
    lines += _heading("checks", lang) if card.checks else []
    lines += [f"{place}. {escaped(check)}" for place, check in enumerate(card.checks, 1)]
    lines += _remedies(worst, lang)
    if card.unknown:
        unknown = ("；" if lang == "zh" else "; ").join(map(escaped, card.unknown))
        lines += ["", f"{word('unknown', lang)}{colon(lang)}{unknown}"]
    lines += ["", *(f"- {escaped(note)}" for note in card.notes)] if card.notes else []
    return lines


def _meanwhile(finding: report.Finding, lang: Lang) -> list[str]:
    if not finding.culprits:
        return []
    steps = (finding.cost.num_steps if finding.cost is not None else None) or 1
    note = brackets(word("nested", lang), lang) if len(finding.culprits) > 1 else ""
    lines = [
        f"- {code(readable(each.name, _NAME_WIDTH))} {duration(each.time_ns / steps)}"
        for each in finding.culprits
    ]
    return ["", f"{word('meanwhile', lang)}{note}{colon(lang)}".rstrip(), "", *lines]


def _remedies(finding: report.Finding, lang: Lang) -> list[str]:
    if not finding.remedies:
        return []
    lines = _heading("remedies" if is_change(finding) else "looks", lang)
    for remedy in finding.remedies:
        gain = gain_of(remedy, finding.cost, lang)
        lines += [f"- {escaped(remedy.text)}" + ("  " if gain else ""), *([f"  {gain}"] if gain else [])]
        if remedy.patch is not None:
            patch = "\n".join(map("".join, patch_lines(remedy.patch, lang)))
            lines += ["", *(f"  {line}" for line in _fenced(patch, "diff")), ""]
    for proof in dict.fromkeys(remedy.verify for remedy in finding.remedies if remedy.verify):
        lines += ["", f"{word('verify', lang)}{colon(lang)}{escaped(proof)}"]
    return lines


def _memory(report_: report.Report, lang: Lang) -> list[str]:
    rows, num_more = shown_memory(report_.memory)
    lines = []
    for row in rows:
        # Names within are code already; what stands around them is ours and sizes.
        lines += ["", f"### {escaped(memory_head(row, lang))}", ""]
        lines += [f"- {line}" for line in memory_lines(row, lang, code)]
        lines += [f"- {note}" for note in memory_notes(row, lang)]
    return [*lines, *(["", f"+ {num_more} {word('more_rows', lang)}"] if num_more else [])]


def _operators(report_: report.Report, lang: Lang) -> list[str]:
    limits = [limit_of(operator, lang) for operator in report_.top_operators]
    keys = ["operator", "class", "count", "device_time", "share", *(["limit"] if any(limits) else [])]
    lines = [
        "| " + " | ".join(word(key, lang) for key in keys) + " |",
        "|---|---|" + "--:|" * (len(keys) - 2),
    ]
    for operator, limit in zip(report_.top_operators, limits, strict=True):
        share = "" if operator.share is None else percent(operator.share)
        lines.append(
            f"| {code(readable(operator.name, _NAME_WIDTH))} | {escaped(operator.class_ or '')} | "
            f"{operator.count:,} | {duration(operator.device_ns)} | {share} |"
            + (f" {limit} |" if any(limits) else "")
        )
    work = [f"- {escaped(line)}" for line in work_lines(report_, lang)]
    if work:
        lines += ["", *work]
    return [f"### {escaped(operators_head(report_, lang))}", "", *lines]
