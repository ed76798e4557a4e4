"""A report for a pull request or a job's summary: the answer, where the time went and the first change; the
rest is folded.

GitHub refuses a comment beyond 65,536 characters, and links what looks like a name or a number of an issue:
neither may come from a name in a trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepscope.diagnose.word import whose
from stepscope.model import report
from stepscope.model.text import Lang, duration, percent
from stepscope.views import markdown_counter, markdown_job
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
    culprit_name,
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


MAX_LENGTH = 65_000
"""Of GitHub's 65,536 for a comment, as JavaScript counts: a caller may put a line of its own before it."""
_MAX_TEXT, _MAX_COMMAND, _MAX_LINES = 2_000, 4_000, 20
"""Characters of one text and of the next command, and lines of a list in front: names may be megabytes."""


def render(report_: report.Report, lang: Lang = "en") -> str:
    """The report as Markdown (GitHub's) in at most `MAX_LENGTH` characters, ending in a newline.

    What does not fit is left out from the end, section by section, and a line says how many.
    """
    head = [f"**{escaped(report_.verdict.text)}**", "", *_health(report_, lang)]
    for row in full_rows(report_):
        head += ["", *_row(row, report_, lang)]
    rest, num_more = rest_rows(report_)
    if rest:
        head += ["", "| " + " | ".join(compact_head(lang)) + " |", "|---|--:|--:|--:|--:|--:|---|"]
        cells = [map(escaped, compact(row, report_, lang)) for row in rest]
        head += ["| " + " | ".join(line) + " |" for line in cells]
    if num_more:
        head += ["", f"+ {num_more} {word('more_rows', lang)}"]
    head += _first_change(report_, lang)
    sections = [_card(card, report_, lang) for card in report_.cards]
    sections += markdown_job.sections(report_, lang, escaped, code, _fold)
    sections += markdown_counter.sections(report_, lang, escaped, code, _html, _fold)
    if report_.top_operators:
        sections.append(_operators(report_, lang))
    sections += _memory(report_, lang)
    sections += _open_questions(report_, lang)
    tail = [*_heading("next", lang), *_fenced(report_.next, "sh")] if report_.next is not None else []
    return "\n".join(_fitted(head, sections, tail, lang)) + "\n"


def _fitted(head: list[str], sections: list[list[str]], tail: list[str], lang: Lang) -> list[str]:
    """Head, as many sections as fit, a line for those that do not, and the tail, which is always there."""
    room = MAX_LENGTH - _length(tail) - 200
    while _length(head) > room:
        head = head[:-1]
    kept = list(head)
    for place, section in enumerate(sections):
        if _length(kept) + _length(section) > room:
            left = len(sections) - place
            return [*kept, "", f"+ {left} {word('sections_left_out', lang)}", *tail]
        kept += section
    return [*kept, *tail]


def _length(lines: list[str]) -> int:
    """How long lines are in UTF-16, with their ends."""
    return sum(len(line.encode("utf-16-le", "replace")) // 2 + 1 for line in lines)


# What a list or a quote begins with; a heading's # is taken care of.
_BLOCK = re.compile(r"^(\d{0,9})(?=[-+>=]|(?<=\d)[.)](?:\s|$))")


def escaped(text: str) -> str:
    """A string as plain text in Markdown, also inside a table: no markup, no formula, no HTML, no link to a
    person, an issue or a page, no line break."""
    plain = _clipped(" ".join(harmless(text).split()), _MAX_TEXT)
    plain = re.sub(r"([\\`*_\[\]|~])", r"\\\1", _html(plain))
    return _BLOCK.sub(r"\1\\", plain)


def _html(text: str) -> str:
    """A string as text in HTML that GitHub makes no link of: a space without width stands in the way."""
    plain = text.replace("@", "@\u200b").replace("#", "#\u200b").replace("://", ":\u200b//")
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    return _NUMBERED.sub("\\g<0>\u200b", plain)


_NUMBERED = re.compile(r"\b(?:GH(?=-\d)|www(?=\.))", re.IGNORECASE)


def code(text: str) -> str:
    """A string as inline code, whatever backticks it holds."""
    plain = _clipped(" ".join(harmless(text).split()), _MAX_TEXT)
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{plain}{pad}{fence}" if plain else ""


def _cell(text: str) -> str:
    """Inline code in a table, where a bar would end the cell even so."""
    return code(text).replace("|", "\\|")


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _fold(summary: str, lines: list[str]) -> list[str]:
    """A section that opens when it is asked for. `summary` is HTML."""
    return ["", "<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"]


def _heading(key: str, lang: Lang) -> list[str]:
    return ["", f"{word(key, lang)}{colon(lang)}".rstrip(), ""]


def _fenced(text: str, language: str) -> list[str]:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *harmless(_clipped(text, _MAX_COMMAND)).splitlines(), fence]


def _health(report_: report.Report, lang: Lang) -> list[str]:
    health = report_.health
    used = sum(i.error is None for i in report_.inputs)
    told = joined((word(health.verdict, lang), counted(used, lang, "input", "inputs", "个输入")), lang)
    lines = [f"{word('data', lang)}{colon(lang)}{told}"]
    issues = told_issues(health)
    lines += [""] if issues or health.withheld or used < len(report_.inputs) else []
    has_ranks = len({row.rank for row in report_.accounting}) > 1
    lines += _listed(line for _, line in issue_lines(issues, lang, has_ranks=has_ranks, text=escaped))
    lines += _listed(
        f"{word('withheld', lang)}{colon(lang)}{escaped(withheld_name(each, lang))}{colon(lang)}"
        f"{escaped(withheld_why(each, lang) + brackets(needing(each.would_settle or '', lang), lang))}"
        for each in health.withheld
    )
    lines += _listed(
        f"{word('not_used', lang)}{colon(lang)}{escaped(input_error(i, lang))}"
        for i in report_.inputs
        if i.error is not None
    )
    return lines


def _listed(lines: Iterable[str]) -> list[str]:
    """A list, of which the first lines are shown."""
    items = [f"- {line}" for line in lines]
    return items if len(items) <= _MAX_LINES else [*items[:_MAX_LINES], f"- + {len(items) - _MAX_LINES}"]


def _first_change(report_: report.Report, lang: Lang) -> list[str]:
    """What to change first, and what it may bring."""
    if not report_.cards:
        return []
    worst = card_parts(report_.cards[0], report_).worst
    if not worst.remedies:
        return []
    key = "first_change" if is_change(worst) else "looks"
    gain = gain_of(worst.remedies[0], worst.cost, lang)
    told = [f"**{word(key, lang)}**{colon(lang)}{escaped(worst.remedies[0].text)}", *([gain] if gain else [])]
    return ["", "  \n".join(told)]


def _open_questions(report_: report.Report, lang: Lang) -> list[list[str]]:
    lines: list[str] = []
    if report_.undecided:
        lines += [f"- {line}" for line in undecided_lines(report_.undecided, lang, code, escaped)]
    if out := ruled_out(report_):
        lines += [""] if lines else []
        lines.append(f"{word('ruled_out', lang)}{colon(lang)}{listed(map(code, out), lang)}")
    if not lines:
        return []
    title = word("undecided" if report_.undecided else "ruled_out", lang)
    return [_fold(_html(title), lines)]


def _row(row: report.Accounting, report_: report.Report, lang: Lang) -> list[str]:
    has_steps = row.scope == "steps"
    told = [
        "" if (owner := whose(row, report_.inputs)) is None else escaped(owner.in_(lang)),
        word("host", lang)
        if row.device.kind in report.HOST_KINDS
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
    told += [escaped(subject_of(worst, report_, lang)), since(card, report_, lang)]
    summary = f"{word(worst.severity, lang)}{colon(lang)}{_html(_clipped(harmless(card.title), _MAX_TEXT))}"
    if worst.cost is not None:
        summary = joined((summary, _html(cost_of(worst.cost, lang))), lang)
    lines = [joined(told, lang) + "  "]
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
    return _fold(f"<b>{' '.join(summary.split())}</b>", lines)


def _meanwhile(finding: report.Finding, lang: Lang) -> list[str]:
    if not finding.culprits:
        return []
    steps = (finding.cost.num_steps if finding.cost is not None else None) or 1
    note = brackets(word("nested", lang), lang) if len(finding.culprits) > 1 else ""
    lines = [
        f"- {code(readable(culprit_name(each, finding, lang), _NAME_WIDTH))} {duration(each.time_ns / steps)}"
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


def _memory(report_: report.Report, lang: Lang) -> list[list[str]]:
    rows, num_more = shown_memory(report_.memory)
    sections = []
    for row in rows:
        # Names within are code already; what stands around them is ours and sizes.
        lines = [f"- {line}" for line in (*memory_lines(row, lang, code), *memory_notes(row, lang))]
        sections.append(_fold(_html(memory_head(row, lang)), lines))
    return [*sections, *([["", f"+ {num_more} {word('more_rows', lang)}"]] if num_more else [])]


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
            f"| {_cell(readable(operator.name, _NAME_WIDTH))} | {escaped(operator.class_ or '')} | "
            f"{operator.count:,} | {duration(operator.device_ns)} | {share} |"
            + (f" {limit} |" if any(limits) else "")
        )
    work = [f"- {escaped(line)}" for line in work_lines(report_, lang)]
    lines += ["", *work] if work else []
    return _fold(_html(operators_head(report_, lang)), lines)
