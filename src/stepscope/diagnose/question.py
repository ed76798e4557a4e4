"""What stays open, what would settle it, and the one command to run next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from stepscope.analyse.features import Absence, absence
from stepscope.diagnose import command, word
from stepscope.diagnose.data import has_all_ranks, missing_ranks
from stepscope.diagnose.finding import Told
from stepscope.diagnose.row import Row
from stepscope.model import report
from stepscope.model.analysis import ALL_CAUSES, DeviceAnalysis, RankAnalysis
from stepscope.model.feature import Observed
from stepscope.model.text import Lang, Text
from stepscope.rules import Catalog
from stepscope.rules import rule as rules
from stepscope.rules.capture import ALL_RANKS, BESIDE_TIME, DEVICE, SNAPSHOT, WHOLE


def undecided(
    rows: Sequence[Row],
    inputs: Sequence[report.Input],
    findings: Sequence[Told],
    has_all: bool,
    lang: Lang,
) -> tuple[report.Undecided, ...]:
    """Causes that stay open although a rule fired, in the order of the findings, then rules that could not be
    judged, those for want of steps last; each once."""
    result: dict[tuple[str, tuple[str, ...]], tuple[int, report.Undecided]] = {}
    told = [finding.rule.id for finding in findings]
    unexplained = {
        (each.rule.id, id(each.row.observed.rank))
        for each in findings
        if any(question.where_unexplained for question in each.open)
    }
    is_job = len({row.observed.rank.rank for row in rows}) > 1

    def add(place: int, open_: report.Undecided) -> None:
        result.setdefault((open_.rule, open_.missing), (place, open_))

    for row in rows:
        rank = row.observed.rank.rank
        for found in row.found:
            for question in found.open:
                if question.where_unexplained and (found.rule.id, id(row.observed.rank)) not in unexplained:
                    continue
                unknown = [c.feature.name for c in question.settled_by if c.known(row.facts) is None]
                capture = _capture(question, has_all)
                open_ = report.Undecided(
                    rule=found.rule.id,
                    missing=(*question.missing, *unknown),
                    would_settle=capture.brief.in_(lang),
                    command=command.filled(capture.command, inputs, rank),
                )
                add(told.index(found.rule.id) - len(told), open_)
        for each in row.undecided:
            if _is_beside(each, row):
                continue
            # Only a run that failed has a reason to take one.
            if each.rule.needs is SNAPSHOT and not any(i.kind == "snapshot" for i in inputs):
                continue
            # With every rank at hand it is their join that failed: `health.withheld` says why.
            if each.rule.needs is ALL_RANKS and has_all and is_job:
                continue
            add(*_unjudged(each, row.observed, inputs, lang))
    return tuple(open_ for _, open_ in sorted(result.values(), key=lambda pair: pair[0]))


_BESIDE = frozenset({"telemetry", "host", "log", "job"})


def _is_beside(each: rules.Undecided, row: Row) -> bool:
    """Whether only the other layer lacks, and nothing in this one points to the cause: then it is no open
    question. Without telemetry every hardware fault would be one, without a trace every cause of a step."""
    hints = any(clause.known(row.facts) is True for clause in each.rule.when)
    if row.account.total_ns <= 0:
        return not hints or each.rule.about is rules.Subject.MEMORY
    # Findings name what would corroborate them: without any counters a list of all that these would tell says
    # nothing more.
    lacking = [feature.origin in _BESIDE for feature in each.missing]
    if "telemetry_samples" not in row.observed.device.numbers:
        return any(lacking)
    return all(lacking) and not hints


_PHASED = frozenset(f"idle.{name}" for name in ("input", "checkpoint", "eval", "logging", "gc", "compile"))
"""Idle causes that marks tell of where the loop marks their phase."""
UNNAMED_SHARE = 0.15
"""From this share of the time on, Python code that nothing names is worth a recording with stacks."""
_PLACES = get_args(Absence)


def _unjudged(
    each: rules.Undecided, observed: Observed, inputs: Sequence[report.Input], lang: Lang
) -> tuple[int, report.Undecided]:
    """A rule that could not be judged, and its place among them."""
    why = min((absence(observed, feature) for feature in each.missing), key=_PLACES.index)
    capture = {"cut": WHOLE, "no_device": DEVICE}.get(why, each.rule.needs)
    would_settle = capture.brief.in_(lang)
    if why == "withheld":
        # The same recording would give it that would give the causes.
        settling = (w.would_settle for w in observed.rank.withheld if w.what == ALL_CAUSES)
        would_settle = next((text for text in settling if text), would_settle)
    if why == "marks" and all(_PHASED.issuperset(feature.of) and feature.of for feature in each.missing):
        return _PLACES.index(why), report.Undecided(
            rule=each.rule.id,
            why=word.MARKS_ALONE.in_(lang),
            missing=tuple(feature.name for feature in each.missing),
            would_settle=word.MARK_PHASE.in_(lang),
        )
    is_host = why == "no_device" and observed.rank.accelerator == "cpu"
    if is_host or why == "unknown_device":
        # No recording would help: the run has no device, or nobody knows what the device can do.
        return _PLACES.index(why), report.Undecided(
            rule=each.rule.id,
            why=(word.HOST_ONLY if is_host else word.UNKNOWN_DEVICE).in_(lang),
            missing=tuple(feature.name for feature in each.missing),
        )
    reason = word.absent(why, observed.device.accounting.num_steps)
    # What fills memory is another question than where the time goes: it comes last.
    is_beside = why == "unmeasured" and each.rule.about is rules.Subject.MEMORY
    return len(_PLACES) if is_beside else _PLACES.index(why), report.Undecided(
        rule=each.rule.id,
        why=reason.in_(lang) if reason else None,
        missing=tuple(feature.name for feature in each.missing),
        would_settle=would_settle,
        command=command.filled(capture.command, inputs, observed.rank.rank),
    )


def _capture(question: rules.Question, has_all: bool) -> rules.Capture:
    """The recording that would settle a question, whether or not every rank was given already."""
    return (question.with_all_ranks if has_all else None) or question.capture


def _recorded(of: str, before: Text, lang: Lang) -> str:
    """A command with what must be done before it, as a comment that a shell passes over."""
    return f"{of}  # {before.in_(lang)}"


def next_command(
    analyses: Sequence[RankAnalysis],
    inputs: Sequence[report.Input],
    health: report.Health,
    told: Sequence[Told],
    open_: Sequence[report.Undecided],
    catalog: Catalog,
    lang: Lang,
) -> str:
    """One command: what would settle the most, or else what would prove the largest finding's remedy."""
    if health.verdict == "unusable":
        return "stepscope doctor"
    if not analyses and any(i.kind in ("telemetry", "log") and i.error is None for i in inputs):
        return _recorded(command.with_trace(inputs), word.WITH_TRACE, lang)
    if not analyses:
        # Only snapshots were given.
        return _recorded(command.filled("stepscope diagnose {input} TRACE", inputs), word.WITH_TRACE, lang)
    world = max((a.world_size for a in analyses if a.world_size is not None), default=None)
    folder = command.filled(ALL_RANKS.command, inputs)
    is_missing = missing_ranks(analyses, inputs) > 0
    if is_missing or world is None:
        # The same inputs again would say the same again.
        all_ranks = _recorded(folder, word.record_all(world), lang)
    else:
        all_ranks = folder
    if told:
        first = told[0].finding
        if told[0].open:
            capture = _capture(told[0].open[0], has_all_ranks(analyses, inputs))
            if capture is ALL_RANKS:
                return all_ranks
            run = command.filled(capture.command, inputs, told[0].row.observed.rank.rank)
            return _after(run, capture.brief.in_(lang), lang)
        if any(remedy.verify is not None for remedy in first.remedies):
            return _recorded("stepscope diagnose NEW_TRACE", word.RECORD_AGAIN, lang)
        return f"stepscope explain {first.rule}"
    wanted = next((u for u in open_ if catalog[u.rule].needs not in BESIDE_TIME and u.command), None)
    if wanted is not None and wanted.command is not None:
        return _after(wanted.command, wanted.would_settle, lang)
    if is_missing:
        return all_ranks
    if any(_is_unnamed_python(device) for analysis in analyses for device in analysis.devices):
        return _recorded("stepscope diagnose NEW_TRACE", word.WITH_STACKS, lang)
    return "stepscope rules"


def _is_unnamed_python(device: DeviceAnalysis) -> bool:
    """Whether the device waits for Python code that no recorded function names."""
    account = device.accounting
    is_large = account.idle.python_ns > UNNAMED_SHARE * account.total_ns
    return is_large and not device.culprits.get("python")


def _after(run: str, what: str | None, lang: Lang) -> str:
    """A command on traces that must be recorded first: on those at hand it would say the same again."""
    is_ours = run.startswith("stepscope diagnose ") and what is not None
    return f"{run}  # {word.after_recording(what or '', lang)}" if is_ours else run
