"""A report on a terminal: the answer first, the evidence below it, the next command last.

Readable from 60 columns, without colour, and in ASCII where the terminal knows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Styled

from stepscope.model import report
from stepscope.model.text import Lang, duration, number, percent
from stepscope.views.detail import input_error, issue_detail, settling, withheld_why
from stepscope.views.explain import render_explain, render_rules
from stepscope.views.label import (
    MARK,
    ORIGIN,
    PART,
    brackets,
    colon,
    cost_of,
    counted,
    health_code,
    joined,
    undecided_lines,
    withheld_name,
    word,
)
from stepscope.views.page import Page
from stepscope.views.shape import bar, device_name, parts, per_step, readable, shown_rows

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
_MOST_ROWS = 8
_LEAST_SHARE = 0.001


def render_report(report_: report.Report, console: Console, lang: Lang = "en") -> None:
    """Print the report."""
    page = Page(console, lang)
    page.line(report_.verdict.text, _COLOUR[report_.verdict.class_])
    _health(page, report_)
    _rows(page, report_)
    by_id = {finding.id: finding for finding in report_.findings}
    for card in report_.cards:
        _card(page, card, by_id)
    _operators(page, report_.top_operators)
    _undecided(page, report_)
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
    withheld = {each.why for each in health.withheld}
    for issue in health.issues:
        if issue.effect == "withheld" and issue.detail in withheld:
            continue  # told below, with what is withheld for it
        who = "" if issue.rank is None or is_one else f"{word('rank', lang)} {issue.rank}"
        page.line(
            f"{word(issue.effect, lang)}{colon(lang)}{health_code(issue, lang)}{brackets(who, lang)}"
            f"{colon(lang)}{issue_detail(issue, lang)}",
            "dim" if issue.effect == "none" else "yellow",
            indent=2,
        )
    for each in health.withheld:
        settle = settling(each.would_settle or "", lang)
        page.line(
            f"{word('withheld', lang)}{colon(lang)}{withheld_name(each, lang)}{colon(lang)}"
            f"{withheld_why(each, health.issues, lang)}"
            + brackets(f"{word('settles', lang)}{colon(lang)}{settle}" if settle else "", lang),
            "yellow",
            indent=2,
        )
    for failed in (i for i in report_.inputs if i.error is not None):
        page.line(f"{word('not_used', lang)}{colon(lang)}{input_error(failed, lang)}", "red", indent=2)


def _rows(page: Page, report_: report.Report) -> None:
    rows = shown_rows(report_.accounting)
    for row in rows[:_MOST_ROWS]:
        _row(page, row)
    if len(rows) > _MOST_ROWS:
        page.line(f"+ {len(rows) - _MOST_ROWS} {word('more_rows', page.lang)}", "dim", indent=2)


def _row(page: Page, row: report.Accounting) -> None:
    lang = page.lang
    page.gap()
    each = duration(per_step(row, row.total_ns))
    told = [
        "" if row.rank is None else f"{word('rank', lang)} {row.rank}",
        f"{word('device', lang)} {device_name(row.device)}",
        counted(row.num_steps, lang, "step", "steps", "步")
        if row.scope == "steps"
        else word("whole_trace", lang),
        (f"每步 {each}" if lang == "zh" else f"{each} a step") if row.scope == "steps" else each,
        "" if row.status == "ok" else word(row.status, lang),
    ]
    page.line(joined(told, lang), "bold")
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
                page.text(PART[name].in_(lang)),
                page.text(percent(time / row.total_ns)),
                page.text(duration(per_step(row, time))),
            )
    page.put(Padding(table, (0, 0, 0, 2), expand=False))


def _card(page: Page, card: report.Card, by_id: Mapping[str, report.Finding]) -> None:
    lang = page.lang
    findings = [by_id[each] for each in card.findings if each in by_id]
    own = [finding for finding in findings if finding.rule == card.id]
    worst = own[0] if own else findings[0]
    page.gap()
    page.line(f"[{word(worst.severity, lang)}] {card.title}", _COLOUR[worst.severity])
    page.line(joined(_facts(worst, card, lang), lang), indent=2)
    if card.explanation is not None:
        page.line(card.explanation, "dim", indent=2)
    _heading(page, "evidence")
    for finding in own:
        for evidence in finding.evidence:
            # Of the other ranks of one card only what decided: the rest is in the JSON report.
            if finding is worst or evidence.threshold is not None:
                has_place = finding is worst and not worst.culprits
                _evidence(page, evidence, finding if len(own) > 1 else None, has_place=has_place)
    _meanwhile(page, worst)
    for finding in findings:
        if finding.explained_by is not None:
            page.line(f"{word('consequence', lang)}{colon(lang)}{finding.title}", "dim", indent=4)
    _list(page, "checks", card.checks, numbered=True)
    if worst.remedies:
        _heading(page, "remedies")
        for remedy in worst.remedies:
            _remedy(page, remedy)
    if card.ruled_out:
        out = ", ".join(each.rule for each in card.ruled_out)
        page.line(f"{word('ruled_out', lang)}{colon(lang)}{out}", "dim", indent=2)
    _list(page, "unknown", card.unknown)
    for note in card.notes:
        page.line(note, "yellow", indent=2)


def _facts(finding: report.Finding, card: report.Card, lang: Lang) -> list[str]:
    told = []
    if finding.cost is not None:
        told.append(cost_of(finding.cost, lang))
        if finding.cost.overlaps_with:
            told.append(f"{word('overlaps', lang)} {', '.join(finding.cost.overlaps_with)}")
    told.append(f"{word('confidence', lang)} {word(finding.confidence, lang)}")
    if card.onset_step is not None:
        tail = "" if lang == "en" else " 步"
        told.append(f"{word('since', lang)} {card.onset_step}{tail}")
    told.append(finding.rule)
    return told


def _evidence(
    page: Page, evidence: report.Evidence, whose: report.Finding | None, *, has_place: bool
) -> None:
    lang = page.lang
    told = f"{evidence.feature} {number(evidence.value, evidence.unit)}"
    if evidence.op is not None and evidence.threshold is not None:
        told += f" ({evidence.op} {number(evidence.threshold, evidence.unit)})"
    told = joined((told, ORIGIN[evidence.from_].in_(lang)), lang)
    if whose is not None and whose.subject.ranks:
        told = f"{word('rank', lang)} {whose.subject.ranks[0]}{colon(lang)}{told}"
    page.line(told, indent=4)
    where = evidence.where
    if has_place and where is not None and where.name is not None:
        label = word("largest", lang)
        page.line(f"{label} {_placed(page, where.name, where.span, 7 + len(label))}", "dim", indent=6)


def _placed(page: Page, name: str, span: int | None, taken: int) -> str:
    """A name of the trace and the event to look at, on one line of which so much is `taken`."""
    event = "" if span is None else f"{word('span', page.lang)} {span}"
    return joined((readable(name, max(20, page.width - taken - cell_len(event) - 2)), event), page.lang)


def _meanwhile(page: Page, finding: report.Finding) -> None:
    if not finding.culprits:
        return
    lang, cost = page.lang, finding.cost
    steps = cost.num_steps if cost is not None and cost.num_steps is not None else 1
    note = f" ({word('nested', lang)})" if len(finding.culprits) > 1 else ""
    page.line(f"{word('meanwhile', lang)}{note}", "bold", indent=2)
    times = [duration(each.time_ns / steps) for each in finding.culprits]
    wide = max(len(time) for time in times)
    for place, (each, time) in enumerate(zip(finding.culprits, times, strict=True)):
        # One event to begin with; the others are in the JSON report.
        who = _placed(page, each.name, each.span if place == 0 else None, 6 + wide)
        page.line(f"{time:>{wide}}  {who}", indent=4)


def _remedy(page: Page, remedy: report.Remedy) -> None:
    lang = page.lang
    page.line(f"- {remedy.text}", indent=4)
    if remedy.gain_share is not None:
        least, most = remedy.gain_share
        page.line(f"{word('gain', lang)}{colon(lang)}{percent(least)} - {percent(most)}", "dim", indent=6)
    if remedy.patch is not None:
        for mark, code, colour in (("-", remedy.patch.before, "red"), ("+", remedy.patch.after, "green")):
            for line in (code or "").splitlines():
                page.verbatim(f"{mark} {line}", colour, indent=6)
    if remedy.verify is not None:
        page.line(f"{word('verify', lang)}{colon(lang)}{remedy.verify}", "dim", indent=6)


def _operators(page: Page, operators: tuple[report.Operator, ...]) -> None:
    if not operators:
        return
    lang = page.lang
    page.gap()
    page.line(word("top_operators", lang), "bold")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(page.text(word("operator", lang)), overflow="fold")
    table.add_column(page.text(word("class", lang)), overflow="fold")
    for key in ("count", "device_time", "share"):
        table.add_column(page.text(word(key, lang)), justify="right", no_wrap=True)
    for operator in operators:
        table.add_row(
            page.text(readable(operator.name, max(20, page.width - 44))),
            page.text(operator.class_ or ""),
            page.text(f"{operator.count:,}"),
            page.text(duration(operator.device_ns)),
            page.text("" if operator.share is None else percent(operator.share)),
        )
    page.put(Padding(table, (0, 0, 0, 2), expand=False))


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


def _list(page: Page, key: str, lines: tuple[str, ...], *, numbered: bool = False) -> None:
    if lines:
        _heading(page, key)
    for place, line in enumerate(lines, 1):
        page.line(f"{place}. {line}" if numbered else f"- {line}", indent=4)
