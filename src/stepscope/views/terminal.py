"""A report on a terminal: the answer first, the evidence below it, the next command last.

Readable from 60 columns, without colour, and in ASCII where the terminal knows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Styled

from stepscope.diagnose.estimate import estimated
from stepscope.diagnose.word import whose
from stepscope.model import report
from stepscope.model.text import Lang, duration, percent
from stepscope.views.detail import input_error, withheld_why
from stepscope.views.explain import render_explain, render_rules
from stepscope.views.label import (
    MARK,
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
from stepscope.views.page import Page
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
    bar,
    card_parts,
    device_name,
    full_rows,
    is_change,
    is_told,
    parts,
    per_step,
    readable,
    rest_rows,
    told_issues,
)
from stepscope.views.terminal_counter import counters, job_lines
from stepscope.views.terminal_job import ranks, what_if

__all__ = ["render_explain", "render_report", "render_rules"]

_COLOUR: Mapping[str, str] = {
    "waiting-for-data": "bold red",
    "waiting-for-communication": "bold magenta",
    "computing-slowly": "bold yellow",
    "other-stall": "bold yellow",
    "healthy": "bold green",
    "undecided": "bold cyan",
    "info": "cyan",
    "warning": "yellow",
    "critical": "bold red",
}
_LEAST_SHARE = 0.001
_NARROW = 72
_WIDE = 96
_COPIES = 4
"""The column of the compact table that goes first where there is little room."""


def render_report(report_: report.Report, console: Console, lang: Lang = "en") -> None:
    """Print the report."""
    page = Page(console, lang)
    page.line(report_.verdict.text, _COLOUR[report_.verdict.class_])
    _health(page, report_)
    _rows(page, report_)
    for card in report_.cards:
        _card(page, report_, card)
    job_lines(page, report_)
    ranks(page, report_)
    what_if(page, report_)
    counters(page, report_)
    for row in report_.memory_estimates[:1]:
        page.gap()
        page.line(estimated(row, lang))
    _operators(page, report_)
    _memory(page, report_)
    _undecided(page, report_)
    if out := ruled_out(report_):
        page.gap()
        page.line(f"{word('ruled_out', lang)}{colon(lang)}{listed(out, lang)}", "dim")
    if report_.next is not None:
        page.gap()
        page.command(f"{word('next', lang)}{colon(lang)}", report_.next)


def _health(page: Page, report_: report.Report) -> None:
    lang, health = page.lang, report_.health
    used = [i for i in report_.inputs if i.error is None]
    summary = [
        word(health.verdict, lang),
        counted(len(used), lang, "input", "inputs", "个输入"),
        counted(sum(i.events or 0 for i in used), lang, "event", "events", "个事件"),
    ]
    page.line(
        f"{word('data', lang)}{colon(lang)}{joined(summary, lang)}",
        "green" if health.verdict == "ok" else "yellow",
    )
    is_one = len({a.rank for a in report_.accounting}) <= 1
    for effect, line in issue_lines(told_issues(health), lang, has_ranks=not is_one):
        page.line(line, "dim" if effect == "none" else "yellow", indent=2)
    for each in health.withheld:
        settle = each.would_settle or ""
        page.line(
            f"{word('withheld', lang)}{colon(lang)}{withheld_name(each, lang)}{colon(lang)}"
            f"{withheld_why(each, lang)}" + brackets(needing(settle, lang), lang),
            "yellow",
            indent=2,
        )
    for failed in (i for i in report_.inputs if i.error is not None):
        page.line(f"{word('not_used', lang)}{colon(lang)}{input_error(failed, lang)}", "red", indent=2)


def _rows(page: Page, report_: report.Report) -> None:
    for row in full_rows(report_):
        _row(page, row, report_)
    rest, num_more = rest_rows(report_)
    if rest:
        _compact(page, rest, report_)
    if num_more:
        page.line(f"+ {num_more} {word('more_rows', page.lang)}", "dim", indent=2)


def _compact(page: Page, rows: Sequence[report.Accounting], report_: report.Report) -> None:
    """The rows that nothing else speaks of, one a line."""
    heads = compact_head(page.lang)
    lines = [compact(row, report_, page.lang) for row in rows]
    shown = list(range(len(heads)))
    if page.width < _WIDE:
        shown = [column for column in shown if column != _COPIES]
    if page.width < _NARROW:
        shown = shown[:-1]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in shown:
        is_text = column in (0, len(heads) - 1)
        justify: Literal["left", "right"] = "left" if is_text else "right"
        table.add_column(page.text(heads[column]), justify=justify, no_wrap=not is_text, overflow="fold")
    for line in lines:
        table.add_row(*(page.text(line[column]) for column in shown))
    page.gap()
    page.put(Padding(table, (0, 0, 0, 2), expand=False))


def _row(page: Page, row: report.Accounting, report_: report.Report) -> None:
    lang, steps = page.lang, report_.steps
    page.gap()
    each = duration(per_step(row, row.total_ns))
    told = [
        "" if (owner := whose(row, report_.inputs)) is None else owner.in_(lang),
        word("host", lang)
        if row.device.kind in report.HOST_KINDS
        else f"{word('device', lang)} {device_name(row.device)}",
        counted(row.num_steps, lang, "step", "steps", "步")
        if row.scope == "steps"
        else word("whole_trace", lang),
        ""
        if not is_told(row, report_)
        else (f"每步 {each}" if lang == "zh" else f"{each} a step")
        if row.scope == "steps"
        else each,
        window_of(row, lang) if is_told(row, report_) else "",
        "" if row.status == "ok" else word(row.status, lang),
    ]
    page.line(joined(told, lang), "bold")
    if not is_told(row, report_):
        return
    width = min(page.width - 4, 100)
    strip = Styled(no_wrap=True)
    for name, cells in bar(row, width):
        mark, colour = MARK[name]
        strip.append(mark * cells, colour)
    page.put(Padding(strip, (0, 0, 0, 2), expand=False))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, time in parts(row):
        if time / row.total_ns >= _LEAST_SHARE:
            mark, colour = MARK[name]
            table.add_row(
                Styled(mark, colour),
                page.text(part_of(row, name).in_(lang)),
                page.text(percent(time / row.total_ns)),
                page.text(duration(per_step(row, time))),
            )
    page.put(Padding(table, (0, 0, 0, 2), expand=False))
    if slow := slow_steps(row, steps, lang):
        page.line(slow, indent=2)


def _card(page: Page, report_: report.Report, card: report.Card) -> None:
    lang, shown = page.lang, card_parts(card, report_)
    worst = shown.worst
    page.gap()
    page.line(f"[{word(worst.severity, lang)}] {card.title}", _COLOUR[worst.severity])
    page.line(joined((*_facts(worst, report_, lang), since(card, report_, lang), worst.rule), lang), indent=2)
    if card.explanation is not None:
        page.line(card.explanation, "dim", indent=2)
    page.line(evidence_head(worst, lang), "bold", indent=2)
    for line in evidence_lines(shown, report_, lang):
        page.line(line, indent=4)
    if shown.num_more:
        page.line(f"+ {shown.num_more} {word('more_rows', lang)}", "dim", indent=4)
    _meanwhile(page, worst)
    for finding in shown.consequences:
        page.line(f"{word('consequence', lang)}{colon(lang)}{finding.title}", "dim", indent=4)
    if card.checks:
        _heading(page, "checks")
    for place, line in enumerate(card.checks, 1):
        page.line(f"{place}. {line}", indent=4)
    _remedies(page, worst)
    if card.unknown:
        unknown = ("；" if lang == "zh" else "; ").join(card.unknown)
        page.line(f"{word('unknown', lang)}{colon(lang)}{unknown}", "dim", indent=2)
    for note in card.notes:
        page.line(note, "yellow", indent=2)


def _facts(finding: report.Finding, report_: report.Report, lang: Lang) -> list[str]:
    told = []
    if finding.cost is not None:
        told.append(cost_of(finding.cost, lang))
        if finding.cost.overlaps_with:
            told.append(f"{word('overlaps', lang)} {listed(finding.cost.overlaps_with, lang)}")
    told.append(subject_of(finding, report_, lang))
    told.append(f"{word('confidence', lang)} {word(finding.confidence, lang)}")
    return told


def _placed(page: Page, name: str, span: int | None, taken: int) -> str:
    """A name of the trace and the event to look at, on one line of which so much is `taken`."""
    event = "" if span is None else f"{word('span', page.lang)} {span}"
    return joined((readable(name, max(20, page.width - taken - cell_len(event) - 2)), event), page.lang)


def _meanwhile(page: Page, finding: report.Finding) -> None:
    if not finding.culprits:
        return
    lang, cost = page.lang, finding.cost
    steps = cost.num_steps if cost is not None and cost.num_steps is not None else 1
    note = brackets(word("nested", lang), lang) if len(finding.culprits) > 1 else ""
    page.line(f"{word('meanwhile', lang)}{note}", "bold", indent=2)
    times = [duration(each.time_ns / steps) for each in finding.culprits]
    wide = max(len(time) for time in times)
    for place, (each, time) in enumerate(zip(finding.culprits, times, strict=True)):
        # One event to begin with; the others are in the JSON report.
        who = _placed(page, culprit_name(each, finding, lang), each.span if place == 0 else None, 6 + wide)
        page.line(f"{time:>{wide}}  {who}", indent=4)


def _remedies(page: Page, finding: report.Finding) -> None:
    if not finding.remedies:
        return
    lang = page.lang
    _heading(page, "remedies" if is_change(finding) else "looks")
    for place, remedy in enumerate(finding.remedies):
        page.line(f"- {remedy.text}", indent=4)
        if gain := gain_of(remedy, finding.cost, lang):
            page.line(gain, "dim", indent=6)
        if remedy.patch is not None:
            for mark, line in patch_lines(remedy.patch, lang):
                page.verbatim(f"{mark} {line}", "red" if mark == "-" else "green", indent=6)
        # One proof for several changes is told once, below the last of them.
        if remedy.verify and all(remedy.verify != later.verify for later in finding.remedies[place + 1 :]):
            page.line(f"{word('verify', lang)}{colon(lang)}{remedy.verify}", "dim", indent=4)


def _memory(page: Page, report_: report.Report) -> None:
    lang = page.lang
    rows, num_more = shown_memory(report_.memory)
    for row in rows:
        page.gap()
        page.line(memory_head(row, lang), "bold")
        for line in memory_lines(row, lang):
            page.line(line, indent=2)
        for note in memory_notes(row, lang):
            page.line(note, "dim", indent=2)
    if num_more:
        page.line(f"+ {num_more} {word('more_rows', lang)}", "dim", indent=2)


def _operators(page: Page, report_: report.Report) -> None:
    operators = report_.top_operators
    if not operators:
        return
    lang = page.lang
    page.gap()
    page.line(operators_head(report_, lang), "bold")
    columns = {
        "class": [operator.class_ or "" for operator in operators],
        "count": [f"{operator.count:,}" for operator in operators],
        "device_time": [duration(operator.device_ns) for operator in operators],
        "share": ["" if operator.share is None else percent(operator.share) for operator in operators],
        "limit": [limit_of(operator, lang) for operator in operators],
    }
    if not any(columns["limit"]):
        del columns["limit"]
    if page.width < _NARROW:
        del columns["class"]
    taken = sum(2 + max(map(cell_len, (word(key, lang), *cells))) for key, cells in columns.items())
    names = [readable(operator.name, max(16, page.width - 2 - taken)) for operator in operators]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(page.text(word("operator", lang)), overflow="fold")
    for key in columns:
        justify: Literal["left", "right"] = "left" if key == "class" else "right"
        table.add_column(page.text(word(key, lang)), justify=justify, no_wrap=True)
    for line in zip(names, *columns.values(), strict=True):
        table.add_row(*map(page.text, line))
    page.put(Padding(table, (0, 0, 0, 2), expand=False))
    if any(operator.called_from is not None for operator in operators):
        page.line(word("called_from", lang), "dim", indent=2)
    for operator, name in zip(operators, names, strict=True):
        if operator.called_from is not None:
            head = f"{name}{colon(lang)}"
            place = readable(operator.called_from, max(24, page.width - 2 - cell_len(head)))
            page.line(head + place, "dim", indent=4)
    for told in work_lines(report_, lang):
        page.line(told, indent=2)


def _undecided(page: Page, report_: report.Report) -> None:
    if not report_.undecided:
        return
    lang = page.lang
    page.gap()
    page.line(word("undecided", lang), "bold")
    for line in undecided_lines(report_.undecided, lang):
        page.line(line, indent=2)


def _heading(page: Page, key: str) -> None:
    page.line(word(key, page.lang), "bold", indent=2)
