"""The steps of a report: a picture of each row's, the same in numbers, and those that no row counts."""

from __future__ import annotations

from stepscope.diagnose.word import whose
from stepscope.model import report
from stepscope.model.text import Lang, Text, duration
from stepscope.views.html.chart import step_bars
from stepscope.views.html.column import Column, as_time, column, drawn
from stepscope.views.html.markup import Child, Markup, tag
from stepscope.views.label import brackets, colon, word
from stepscope.views.phrase import cause_of
from stepscope.views.shape import full_rows, is_told, largest_idle

_STEPS = Text(en="Step by step", zh="逐步")
_IN_NUMBERS = Text(en="The same in numbers", zh="对应的数值")
_NOT_COUNTED = Text(en="Steps that are not counted", zh="未计入的步")
_MOST_OTHERS = 40


def steps(report_: report.Report, lang: Lang) -> tuple[Text, Child] | None:
    """The section of the steps; nothing where no row has two and all are counted."""
    made: list[Child] = []
    for row in full_rows(report_):
        if len(row.by_step) < 2 or not is_told(row, report_):
            continue
        owner = whose(row, report_.inputs)
        head = tag("h3", owner.in_(lang)) if owner is not None and len(report_.accounting) > 2 else None
        numbers = tag("details", tag("summary", _IN_NUMBERS.in_(lang)), _table(row, report_, lang))
        made.append([head, step_bars(row, lang), numbers])
    others = [step for step in report_.steps if step.use not in ("counted", "marked")]
    if others:
        lines = [_line(step, report_, lang) for step in others[:_MOST_OTHERS]]
        if more := len(others) - len(lines):
            lines.append(tag("li", f"+ {more} {word('more_rows', lang)}"))
        made.append(tag("details", tag("summary", _NOT_COUNTED.in_(lang)), tag("ul", lines)))
    return (_STEPS, made) if made else None


def _table(row: report.Accounting, report_: report.Report, lang: Lang) -> Markup:
    """The steps that are drawn, in numbers."""
    slow = set(row.variation.slow_steps) if row.variation is not None else set()
    why = {
        each.step: each.why
        for each in report_.steps
        if each.why is not None and (each.rank, each.input) == (row.rank, row.input)
    }
    columns = (
        column(Text(en="step", zh="步"), "step"),
        column(Text(en="time", zh="时间"), "total_ns", as_time),
        column(Text(en="computing", zh="计算"), "compute_ns", as_time),
        column(Text(en="comm. exposed", zh="未掩盖通信"), "communication_exposed_ns", as_time),
        column(Text(en="copies", zh="拷贝"), "copy_exposed_ns", as_time),
        column(Text(en="idle", zh="空闲"), "idle_ns", as_time),
        Column(
            Text(en="largest idle cause", zh="最大空闲原因"),
            lambda step, lang: _largest(step, row, lang),
            is_number=False,
        ),
        Column(
            Text(en="remark", zh="备注"),
            lambda step, lang: [word("slow", lang) if step.step in slow else "", why.get(step.step, "")],
            is_number=False,
        ),
    )
    return drawn(row.by_step, columns, lang, most=len(row.by_step))


def _largest(step: report.StepParts, row: report.Accounting, lang: Lang) -> str:
    found = largest_idle(step)
    return "" if found is None else f"{cause_of(row, found[0], lang)} {duration(found[1])}"


def _line(step: report.Step, report_: report.Report, lang: Lang) -> Markup:
    """An uncounted step, whose it is, and why."""
    row = next((r for r in report_.accounting if (r.rank, r.input) == (step.rank, step.input)), None)
    owner = None if row is None or len(report_.inputs) < 2 else whose(row, report_.inputs)
    told = "" if owner is None else brackets(owner.in_(lang), lang)
    return tag(
        "li",
        f"{word('step', lang)} {step.step}{told} {duration(step.dur_ns)}",
        colon(lang),
        word(step.use, lang),
        brackets(step.why or "", lang),
    )
