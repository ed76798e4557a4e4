"""The report of any number of ranks: judge, claim, explain away, order, group, answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.analyse.account import told_steps as spaced_steps
from stepscope.analyse.features import has_device
from stepscope.analyse.gradient import with_peers
from stepscope.analyse.marked.rank import NOT_MARKED, Marked
from stepscope.analyse.memory.estimate import Training
from stepscope.analyse.replay.job import replay
from stepscope.analyse.stuck import stuck
from stepscope.diagnose import card, data, memory, verdict, word
from stepscope.diagnose.estimate import estimates
from stepscope.diagnose.finding import findings
from stepscope.diagnose.job import join_ranks
from stepscope.diagnose.look import look
from stepscope.diagnose.marked import beside_traces, without_traced
from stepscope.diagnose.note import notes
from stepscope.diagnose.picture import thinned, timelines
from stepscope.diagnose.question import next_command, undecided
from stepscope.diagnose.row import Row, judged, judged_rows, of_files
from stepscope.diagnose.stuck import NOT_HELD, Held, merged, settled, with_stuck
from stepscope.diagnose.stuck import notes as notes_of_stuck
from stepscope.diagnose.stuck import numbers as numbers_of_stuck
from stepscope.diagnose.telemetry import beside_ranks, with_telemetry
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.log import Log
from stepscope.model.sample import Telemetry
from stepscope.model.text import Lang
from stepscope.rules import Catalog
from stepscope.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller decides: the rules, the language of the sentences, and what it knows of itself."""

    catalog: Catalog
    lang: Lang = "en"
    job: str | None = None
    training: Training | None = None
    """What is trained, where the caller told; how it is divided is read from the collectives unless told."""
    native_loader: bool | None = None


def _ruled_out(rows: Sequence[Row], lang: Lang) -> tuple[report.RuledOut, ...]:
    """The causes that every row is clear of, in the order and with the reasons of the first."""
    clear = [{each.rule.id for each in row.clear} for row in rows]
    return tuple(
        report.RuledOut(rule=each.rule.id, because=word.because(each, lang))
        for each in (rows[0].clear if rows else ())
        if each.rule.verdict != "healthy" and all(each.rule.id in ids for ids in clear)
    )


def _hottest(row: Row | None, operators: Sequence[report.Operator]) -> tuple[report.Operator, ...]:
    """The hottest of the rank in question; of a file that is cut nobody knows them."""
    if row is None:
        return card.hottest(operators)
    return () if row.observed.rank.is_cut else card.hottest(row.observed.rank.operators)


MOST_ROWS, LEAST_ROWS = 200, 10
"""Rows of operators, of kernels, of shapes and of modules: in all, and of each rank at least."""


def _most_rows(num_analyses: int) -> int:
    """Rows of each table that one of so many ranks may have; an analysis has 50 at most."""
    return max(LEAST_ROWS, MOST_ROWS // max(num_analyses, 1))


MOST_STEPS = 2_000
"""Steps of a rank that are listed one by one: a run by its marks may have a hundred thousand."""


def told_steps(analysis: RankAnalysis) -> Sequence[report.Step]:
    """The steps of one rank, of very many the slowest and evenly spaced ones."""
    took = np.array([step.dur_ns for step in analysis.steps], dtype=np.int64)
    return [analysis.steps[n] for n in spaced_steps(took, MOST_STEPS).tolist()]


def _replay(analyses: Sequence[RankAnalysis]) -> report.Replay | None:
    """Of one device alone: several ranks wait for each other, and only the join knows for whom."""
    programs = [device.program for analysis in analyses for device in analysis.devices]
    return replay(programs) if len(programs) == 1 else None


def diagnose(
    analyses: Sequence[RankAnalysis],
    inputs: Sequence[report.Input],
    options: Options,
    snapshots: Sequence[report.Memory] = (),
    telemetry: Sequence[Telemetry] = (),
    logs: Sequence[Log] = (),
    marked: Marked = NOT_MARKED,
    held: Held = NOT_HELD,
) -> report.Report:
    """The report of `diagnosed`."""
    return diagnosed(analyses, inputs, options, snapshots, telemetry, logs, marked, held)[0]


def diagnosed(
    analyses: Sequence[RankAnalysis],
    inputs: Sequence[report.Input],
    options: Options,
    snapshots: Sequence[report.Memory] = (),
    telemetry: Sequence[Telemetry] = (),
    logs: Sequence[Log] = (),
    marked: Marked = NOT_MARKED,
    held: Held = NOT_HELD,
) -> tuple[report.Report, tuple[Row, ...]]:
    """The report of these ranks and of memory `snapshots`, which need not be of any of them; and every device
    with the facts that rules were judged on.

    `telemetry` and `logs` are joined to the ranks, or judged alone where there are none. `inputs` are named
    in the next command; one with an error is only listed. `marked` are the ranks by their own marks: they
    are the ranks where there are no traces. `held` is what was taken while the job stood still.
    """
    beside_marks, analyses = (marked.analyses, analyses) if analyses else ((), marked.analyses)
    analyses, alone = memory.with_snapshots(of_files(analyses, inputs), snapshots)
    job = join_ranks(analyses)
    if not beside_marks:
        job = replace(job, withheld=(*job.withheld, *marked.withheld))
    who = stuck(marked.stands, held.flights, held.stacks, logs, marked.ended)
    beside = beside_ranks(job.analyses, telemetry, logs, job.tables, numbers_of_stuck(who))
    analyses = beside.analyses
    accounting = tuple(row for analysis in analyses for row in analysis.accounting)
    rows = judged_rows(with_peers(analyses), options.catalog)
    bare = memory.bare_rows(alone, options.catalog)
    bare += [judged(each, None, list(options.catalog)) for each in beside.alone]
    # Traces of a host tell the same of their few steps as marks of all: how the whole run went stays told.
    is_host = not any(has_device(row.observed) for row in rows)
    of_run = beside_traces(beside_marks, rows, options.catalog, len(accounting) if is_host else None)
    accounting += tuple(row.account for row in of_run.rows if row.place is not None)
    late = job if job.joined is not None or of_run.job is None else of_run.job
    health = data.health(
        analyses, inputs, options.catalog, job, beside.issues, has_others=bool(bare) or beside.has_any
    )
    is_whole = data.is_whole_job(analyses)
    told = findings(
        [*rows, *bare, *of_run.rows],
        is_whole,
        options.job,
        options.lang,
        late.late_ranks,
        tuple(options.catalog),
    )
    told = with_stuck(without_traced(told, of_run, rows), marked.stands, who, options.lang)
    found = [each.finding for each in told]
    most = _most_rows(len(analyses))
    operators = tuple(operator for analysis in analyses for operator in analysis.operators[:most])
    open_ = undecided(rows or bare, inputs, told, data.has_all_ranks(analyses, inputs), options.lang)
    open_ = settled(open_, told, who, options.lang)
    answer, of_answer = verdict.verdict(
        health, rows, told, options.catalog, options.lang, inputs, alone, beside, of_run.rows
    )
    looked = look([*rows, *bare], told, options.lang)
    in_question = told[0].row if told else of_answer
    result = report.Report(
        tool=report.Tool(name="stepscope", version=VERSION, native_loader=options.native_loader),
        lang=options.lang,
        verdict=answer,
        inputs=tuple(inputs),
        health=health,
        window=data.window(analyses, inputs, beside.representative or of_run.representative),
        steps=tuple(step for analysis in analyses for step in told_steps(analysis)),
        accounting=thinned(accounting, None if in_question is None else in_question.place),
        timelines=timelines(rows, in_question),
        operators=operators,
        top_operators=_hottest(in_question, operators),
        operator_shapes=tuple(row for analysis in analyses for row in analysis.operator_shapes[:most]),
        modules=tuple(row for analysis in analyses for row in analysis.modules[:most]),
        efficiency=tuple(row for analysis in analyses for row in analysis.efficiency),
        kernels=tuple(kernel for analysis in analyses for kernel in analysis.kernels[:most]),
        collectives=tuple(c for analysis in analyses for c in analysis.collectives)
        if job.collectives is None or (not beside_marks and marked.analyses)
        else job.collectives,
        clocks=with_telemetry(job.clocks, beside.clocks),
        stragglers=late.stragglers,
        lateness=late.lateness,
        rank_map=late.rank_map,
        imbalance=late.imbalance,
        signals=beside.signals,
        events=beside.events,
        progress=beside.progress,
        own_cost=marked.costs,
        patterns=looked.patterns,
        walks=looked.walks,
        hints=looked.hints,
        memory=(*(row for analysis in analyses for row in analysis.memory), *alone),
        memory_estimates=estimates(options.training, [*rows, *bare], job.collectives, analyses),
        findings=tuple(found),
        cards=card.cards(
            found,
            {each.finding.id: each.rule for each in told},
            merged(notes([*rows, *bare], told, options.lang), notes_of_stuck(told, who, options.lang)),
            {each.finding.id: each.row.observed for each in told},
            accounting,
            options.lang,
        ),
        ruled_out=_ruled_out(rows, options.lang),
        undecided=open_,
        replay=_replay(analyses) if job.joined is None else job.replay,
        next=next_command(analyses, inputs, health, told, open_, options.catalog, options.lang),
    )
    return result, (*rows, *bare)
