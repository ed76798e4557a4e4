"""Tables about all ranks in a report: the wiring, and what is wrong with the tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepscope.diagnose import word
from stepscope.diagnose.pipeline import of_timeline
from stepscope.diagnose.step_time import of_steps
from stepscope.model import report
from stepscope.model.table import StepTimes, Table
from stepscope.model.text import Lang, Text


def with_tables(told: report.Report, tables: Sequence[Table], lang: Lang) -> report.Report:
    """The report with what the first table says of the job, where nothing else said it.

    Without any rank's trace the table gives the verdict too.
    """
    if not tables:
        return told
    table = tables[0]
    is_alone = not told.accounting and not told.memory
    issues = (*told.health.issues, *_issues(tables))
    judged: report.HealthVerdict = "degraded" if any(i.effect != "none" for i in issues) else "ok"
    health = msgspec.structs.replace(
        told.health, verdict=judged if is_alone else told.health.verdict, issues=issues
    )
    told = msgspec.structs.replace(told, health=health)
    if told.lateness is not None or told.imbalance is not None:
        return msgspec.structs.replace(told, inputs=tuple(map(_left_out, told.inputs)))
    if isinstance(table, StepTimes):
        filled, (class_, text) = of_steps(told, table, lang)
    else:
        filled, (class_, text) = of_timeline(told, table, lang)
    if not is_alone:
        return filled
    label = word.VERDICT[class_]
    sentence = Text(en=f"{label.en}{text.en}.", zh=f"{label.zh}{text.zh}。").in_(lang)
    return msgspec.structs.replace(filled, verdict=report.Verdict(class_=class_, text=sentence))


def _left_out(each: report.Input) -> report.Input:
    """The input, and that it was not judged where it is a table: traces of the ranks say more."""
    if each.kind != "steps" or each.error is not None:
        return each
    why = f"{each.name}: not judged beside the traces of the ranks; give the table alone"
    return msgspec.structs.replace(each, error=why)


def _issues(tables: Sequence[Table]) -> list[report.HealthIssue]:
    issues = [
        report.HealthIssue(
            code="malformed_events",
            count=table.num_odd,
            effect="none",
            detail=f"{table.name}: {table.num_odd:,} cells or rows hold no usable number and are left out",
            affects=("straggler",),
        )
        for table in tables
        if table.num_odd
    ]
    issues += [
        report.HealthIssue(
            code="malformed_events",
            count=table.num_repeated,
            effect="degraded",
            detail=f"{table.name}: {table.num_repeated:,} rows repeat a worker and step; the first counts",
            affects=("straggler",),
        )
        for table in tables
        if isinstance(table, StepTimes) and table.num_repeated
    ]
    if len(tables) > 1:
        issues.append(
            report.HealthIssue(
                code="rank_conflict",
                count=len(tables) - 1,
                effect="none",
                detail=f"one table is judged at a time: {tables[0].name} was, the others were not",
                affects=("straggler",),
            )
        )
    return issues
