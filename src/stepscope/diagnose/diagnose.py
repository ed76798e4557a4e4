"""The report of any number of ranks: judge, claim, explain away, order, group, answer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import msgspec

from stepscope.analyse.features import Absence, absence, culprits, facts, has_device, part_ns
from stepscope.diagnose import card, command, verdict, word
from stepscope.diagnose.claim import Claim, claims
from stepscope.diagnose.onset import onset
from stepscope.model import report
from stepscope.model.analysis import DeviceAnalysis, RankAnalysis
from stepscope.model.feature import Clause, Facts, Observed
from stepscope.model.text import Lang, Text
from stepscope.rules import Catalog, judge
from stepscope.rules import rule as rules
from stepscope.rules.capture import ALL_RANKS, DEVICE, MANY_STEPS
from stepscope.version import VERSION

MOST_NAMES = 6
"""Names a finding gives of who was running meanwhile."""
MIN_SHARE = 0.05
"""A name that covers less of the finding's time is not worth its line, unless it is the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller decides: the rules, the language of the sentences, and what it knows of itself."""

    catalog: Catalog
    lang: Lang = "en"
    job: str | None = None
    native_loader: bool | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """One device of one rank, judged by every rule."""

    observed: Observed
    place: int | None
    """The place of its row in the report's accounting."""
    facts: Facts
    found: tuple[rules.Finding, ...]
    clear: tuple[rules.Clear, ...]
    undecided: tuple[rules.Undecided, ...]


def diagnose(
    analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input], options: Options
) -> report.Report:
    """The report of these ranks. `inputs` are named in the next command; one with an error is only listed."""
    analyses = _of_files(analyses, inputs)
    accounting = tuple(row for analysis in analyses for row in analysis.accounting)
    rows = [
        _judged(Observed(analysis, device), place, options.catalog)
        for analysis, device, place in _placed(analyses)
    ]
    health = _health(analyses, inputs, options.catalog)
    is_whole = _is_whole_job(analyses)
    told = sorted(_told(rows, is_whole, options), key=_order)
    findings = [each.finding for each in told]
    operators = tuple(operator for analysis in analyses for operator in analysis.operators)
    worst = next(iter(findings), None)
    undecided = _undecided(rows, inputs, findings, _has_all_ranks(analyses), options.lang)
    about = {each.finding.id: each.observed for each in told}
    answer = verdict.verdict(
        health,
        [row.observed for row in rows],
        findings,
        about,
        options.catalog,
        options.lang,
        inputs,
        {id(row.observed): row.place for row in rows if row.place is not None},
    )
    of_answer = next((row.observed for row in rows if row.place == answer.row), None)
    in_question = about[worst.id] if worst else of_answer
    return report.Report(
        tool=report.Tool(name="stepscope", version=VERSION, native_loader=options.native_loader),
        verdict=answer,
        inputs=tuple(inputs),
        health=health,
        window=_window(analyses, inputs),
        steps=tuple(step for analysis in analyses for step in analysis.steps),
        accounting=accounting,
        operators=operators,
        top_operators=card.hottest(in_question.rank.operators if in_question else operators),
        kernels=tuple(kernel for analysis in analyses for kernel in analysis.kernels),
        collectives=tuple(c for analysis in analyses for c in analysis.collectives),
        findings=tuple(findings),
        cards=card.cards(
            findings,
            {each.finding.id: each.rule for each in told},
            _notes(rows, options.lang),
            about,
            accounting,
            options.lang,
        ),
        undecided=undecided,
        next=_next(analyses, inputs, health, told, undecided, options),
    )


def _of_files(analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input]) -> Sequence[RankAnalysis]:
    """The analyses with the places of their files, where files are all that tells rows without rank apart."""
    files = [place for place, i in enumerate(inputs) if i.kind == "trace" and i.error is None]
    nameless = [analysis for analysis in analyses if analysis.rank is None]
    if len(files) < 2 or not nameless:
        return analyses
    without_rank = [place for place in files if inputs[place].rank is None]
    # A file of several processes has several analyses: then only the time of its steps tells.
    in_order = iter(without_rank) if len(without_rank) == len(nameless) else None

    def of_file(analysis: RankAnalysis) -> RankAnalysis:
        if analysis.rank is not None:
            return analysis
        place = next(in_order) if in_order is not None else _file_at(analysis, without_rank, inputs)

        def placed(row: report.Accounting) -> report.Accounting:
            return msgspec.structs.replace(row, input=place)

        return replace(
            analysis,
            steps=tuple(msgspec.structs.replace(step, input=place) for step in analysis.steps),
            accounting=tuple(placed(row) for row in analysis.accounting),
            devices=tuple(replace(d, accounting=placed(d.accounting)) for d in analysis.devices),
        )

    return [of_file(analysis) for analysis in analyses]


def _file_at(analysis: RankAnalysis, places: Sequence[int], inputs: Sequence[report.Input]) -> int | None:
    """The only file whose time holds the first step, `None` where none or several do."""
    if not analysis.steps:
        return None
    start = analysis.steps[0].start_ns
    extents = [(place, inputs[place].start_ns, inputs[place].end_ns) for place in places]
    known = [(place, begin, end) for place, begin, end in extents if begin is not None and end is not None]
    holding = [place for place, begin, end in known if begin <= start <= end]
    return holding[0] if len(holding) == 1 else None


def _placed(
    analyses: Sequence[RankAnalysis],
) -> Iterator[tuple[RankAnalysis, DeviceAnalysis, int | None]]:
    """Every device of every rank, with the place of its row in the report's accounting."""
    begin = 0
    for analysis in analyses:
        for device in analysis.devices:
            own = (n for n, row in enumerate(analysis.accounting) if row == device.accounting)
            place = next(own, None)
            yield analysis, device, None if place is None else begin + place
        begin += len(analysis.accounting)


def _judged(observed: Observed, place: int | None, catalog: Catalog) -> _Row:
    known = facts(observed, dict.fromkeys(f for rule in catalog for f in rule.features()))
    outcomes = [judge(rule if has_device(observed) else rule.for_host(), known) for rule in catalog]
    return _Row(
        observed,
        place,
        known,
        tuple(o for o in outcomes if isinstance(o, rules.Finding)),
        tuple(o for o in outcomes if isinstance(o, rules.Clear)),
        tuple(o for o in outcomes if isinstance(o, rules.Undecided)),
    )


# ── findings ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Told:
    """A finding in report form, whom it is about, and whether its cause is settled."""

    finding: report.Finding
    observed: Observed
    is_settled: bool
    rule: rules.Rule
    """As it was judged: for a run without a device it speaks of none."""


def _told(rows: Sequence[_Row], is_whole: bool, options: Options) -> list[_Told]:
    result: list[_Told] = []
    used: Counter[str] = Counter()
    for row in rows:
        claimed = claims(row.found, row.observed.device)
        ids = {}
        for found in row.found:
            base = _identity(found.rule.id, row.observed)
            used[base] += 1
            ids[found.rule.id] = base if used[base] == 1 else f"{base}#{used[base]}"
        reasons = _explained(row.found, claimed)
        for found in row.found:
            found = _of_one_step(found, row)
            cause = reasons.get(found.rule.id)
            found_ = _with_all_ranks(found) if is_whole else found
            finding = _finding(row, found_, claimed, ids, ids[cause] if cause else None, options)
            result.append(_Told(finding, row.observed, found.is_settled, found.rule))
    return result


def _of_one_step(found: rules.Finding, row: _Row) -> rules.Finding:
    """The finding with no more confidence than one step can give."""
    return replace(found, confidence="medium") if found.confidence == "high" and _is_one_step(row) else found


def _is_one_step(row: _Row) -> bool:
    account = row.observed.device.accounting
    return account.scope == "steps" and account.num_steps == 1


def _with_all_ranks(found: rules.Finding) -> rules.Finding:
    """The finding in the words for a job of which every rank was given."""
    return replace(
        found,
        title=found.title_with_all_ranks or found.title,
        remedies=tuple(replace(r, text=r.with_all_ranks or r.text) for r in found.remedies),
    )


def _identity(rule_id: str, observed: Observed) -> str:
    """Stable over runs on the same inputs: rule, rank, device."""
    rank = observed.rank.rank
    device = observed.device.accounting.device
    where = device.kind or "device" if device.index is None else f"device{device.index}"
    return f"{rule_id}:{'rank' if rank is None else f'rank{rank}'}:{where}"


def _explained(found: Sequence[rules.Finding], claimed: dict[str, Claim]) -> dict[str, str]:
    """Rule id -> id of the rule it is a consequence of, on the same device.

    A cause must cost at least as much as what it explains: a small one cannot explain a large one away.
    """

    def cost(finding: rules.Finding) -> int:
        return claimed[finding.rule.id].time_ns if finding.rule.id in claimed else 0

    reasons: dict[str, str] = {}
    by_cost = sorted(found, key=cost, reverse=True)
    for index, cause in enumerate(by_cost):
        for effect in by_cost[index + 1 :]:
            if effect.rule.id in cause.rule.explains:
                reasons.setdefault(effect.rule.id, cause.rule.id)
    return reasons


def _finding(
    row: _Row,
    found: rules.Finding,
    claimed: dict[str, Claim],
    ids: dict[str, str],
    explained_by: str | None,
    options: Options,
) -> report.Finding:
    rule, lang, observed = found.rule, options.lang, row.observed
    account = observed.device.accounting
    claim = claimed.get(rule.id)
    share = claim.time_ns / account.total_ns if claim and account.total_ns else None
    since = onset(rule, observed)
    return report.Finding(
        id=ids[rule.id],
        rule=rule.id,
        cause=rule.cause,
        layer=rule.layer.value,
        severity=_severity(share, rule.verdict),
        confidence=found.confidence,
        title=found.title.in_(lang),
        onset_ns=since.at_ns if since else None,
        onset_step=since.step if since else None,
        subject=report.Subject(
            job=options.job,
            ranks=() if observed.rank.rank is None else (observed.rank.rank,),
            devices=(_device_name(observed),),
            steps=(since.step, since.last_step) if since else _counted(observed.rank),
            row=row.place,
        ),
        cost=None
        if claim is None or share is None
        else report.Cost(
            time_ns=claim.time_ns,
            share=share,
            of=claim.of,
            overlaps_with=tuple(ids[other] for other in claim.overlaps_with),
            num_steps=account.num_steps if account.scope == "steps" and account.num_steps else None,
        ),
        culprits=_named(rule, observed),
        evidence=tuple(_referenced(evidence, rule, lang) for evidence in found.evidence),
        unknown=tuple(word.unmeasured(clause, lang) for clause in _unknown(found, row.facts)),
        ruled_out=tuple(
            report.RuledOut(rule=clear.rule.id, because=word.because(clear, lang))
            for clear in row.clear
            if clear.rule.verdict != "healthy"
        ),
        # A consequence goes when its cause goes: advice on it would buy nothing.
        remedies=() if explained_by else tuple(_remedy(r, row, share, lang) for r in found.remedies),
        explained_by=explained_by,
    )


def _named(rule: rules.Rule, observed: Observed) -> tuple[report.Named, ...]:
    """Who was running in the parts that the rule's cost is of."""
    if rule.cost is None:
        return ()
    whole = sum(part_ns(observed.device.accounting, part) for part in rule.cost.of)
    # Device activities of several streams may sum to more than the time they cover.
    named = [
        report.Named(
            name=each.name,
            time_ns=min(each.time_ns, whole),
            share=min(each.time_ns, whole) / whole,
            span=each.span,
            start_ns=each.start_ns,
            end_ns=each.end_ns,
        )
        for each in culprits(observed, rule.cost)[:MOST_NAMES]
        if whole > 0
    ]
    return tuple(each for place, each in enumerate(named) if place == 0 or each.share >= MIN_SHARE)


def _referenced(evidence: report.Evidence, rule: rules.Rule, lang: Lang) -> report.Evidence:
    """The evidence with where its threshold comes from."""
    if evidence.threshold is None:
        return evidence
    named = {feature.name: text for feature, text in rule.references.items()}
    return msgspec.structs.replace(evidence, reference=named[evidence.feature].in_(lang))


def _severity(share: float | None, class_: report.VerdictClass) -> report.Severity:
    """By cost: under 5 % of the step info, under 20 % warning, from there critical.

    A rule that says that the cause cannot be told is at most a warning: `--fail-on critical` stands for a
    cause that is known, and a trace that lacks something must not stop a pipeline.
    """
    if share is None or share < 0.05:
        return "info"
    return "warning" if share < 0.20 or class_ == "undecided" else "critical"


def _unknown(found: rules.Finding, known: Facts) -> list[Clause]:
    """Clauses that could not be checked, one a feature: excuses, what corroborates, gates of remedies."""
    gates = [c for r in found.rule.remedies for c in (*r.only_if, *r.unless)]
    open_clauses = [*found.unknown, *(c for c in gates if c.known(known) is None)]
    return list({clause.feature: clause for clause in reversed(open_clauses)}.values())[::-1]


def _remedy(remedy: rules.Remedy, row: _Row, share: float | None, lang: Lang) -> report.Remedy:
    clause = remedy.clears
    now = row.facts.get(clause.feature)
    gain = None
    # From what the proof asks for to all that the finding claims: more than that does not exist.
    is_whole = not (remedy.is_step_towards or remedy.is_partial)
    if share is not None and now is not None and is_whole and clause.op in ("<=", "<"):
        least = min(share, max(0.0, now - clause.threshold))
        # Work that runs beside the rest of the step makes it no shorter than either.
        most = min(share, 1 - share) if remedy.is_overlap else share
        gain = (round(min(least, most), 6), round(most, 6))
    return report.Remedy(
        text=remedy.text.in_(lang),
        patch=remedy.patch,
        gain_share=gain,
        verify=None if remedy.is_step_towards else word.proof(clause, now, lang),
    )


def _device_name(observed: Observed) -> str:
    device = observed.device.accounting.device
    if device.uuid:
        return device.uuid
    if not has_device(observed):
        return "cpu"
    return (
        observed.rank.accelerator if device.index is None else f"{observed.rank.accelerator}:{device.index}"
    )


def _counted(analysis: RankAnalysis) -> tuple[int, int] | None:
    steps = [step.step for step in analysis.steps if step.use in ("counted", "marked")]
    return (min(steps), max(steps)) if steps else None


def _order(told: _Told) -> tuple[bool, float, str]:
    """Consequences after causes, then by the time that could be won, then by id so that runs agree."""
    finding = told.finding
    return finding.explained_by is not None, -(finding.cost.share if finding.cost else 0.0), finding.id


def _notes(rows: Sequence[_Row], lang: Lang) -> dict[str, tuple[str, ...]]:
    """Rule id -> the site's own thresholds among its clauses, and why a confidence is low."""
    notes: dict[str, dict[str, None]] = {}
    for row in rows:
        for found in row.found:
            rule = found.rule
            told = notes.setdefault(rule.id, {})
            for clause in (*rule.when, *rule.unless, *rule.corroborated_by):
                if clause.overridden:
                    told[word.overridden(clause, lang)] = None
            if found.confidence == "low":
                scope = row.observed.device.accounting.scope
                told[(word.NO_STEPS if scope == "trace" else word.DEGRADED).in_(lang)] = None
            if _is_one_step(row) and rule.cost is not None:
                told[word.ONE_STEP.in_(lang)] = None
            of = rule.cost.of if rule.cost is not None else ()
            between = _extremes(rows) if "communication_exposed" in of else None
            if between is not None:
                told[between.in_(lang)] = None
    return {rule_id: tuple(told) for rule_id, told in notes.items()}


def _extremes(rows: Sequence[_Row]) -> Text | None:
    """The ranks with the least and the most time in collectives, `None` where there are not several."""
    accounts = [row.observed.device.accounting for row in rows]
    times = [
        (account.rank, account.communication.total_ns / (account.num_steps or 1))
        for account in accounts
        if account.rank is not None and account.communication is not None
    ]
    known = [(rank, time) for rank, time in times if rank is not None]
    if len({rank for rank, _ in known}) < 2:
        return None
    is_step = all(account.scope == "steps" for account in accounts)
    by_time = sorted(known, key=lambda each: each[1])
    return word.extremes(by_time[0], by_time[-1], is_step)


# ── what stays open ────────────────────────────────────────────────────────────────────────────────


def _undecided(
    rows: Sequence[_Row],
    inputs: Sequence[report.Input],
    findings: Sequence[report.Finding],
    has_all_ranks: bool,
    lang: Lang,
) -> tuple[report.Undecided, ...]:
    """Causes that stay open although a rule fired, in the order of the findings, then rules that could not be
    judged, those for want of steps last; each once."""
    result: dict[tuple[str, tuple[str, ...]], tuple[int, report.Undecided]] = {}
    told = [finding.rule for finding in findings]

    def add(place: int, undecided: report.Undecided) -> None:
        result.setdefault((undecided.rule, undecided.missing), (place, undecided))

    for row in rows:
        rank = row.observed.rank.rank
        for found in row.found:
            if found.rule.question is not None and not found.is_settled:
                question = found.rule.question
                unknown = [c.feature.name for c in question.settled_by if c.known(row.facts) is None]
                capture = (question.with_all_ranks if has_all_ranks else None) or question.capture
                undecided = report.Undecided(
                    rule=found.rule.id,
                    missing=(*question.missing, *unknown),
                    would_settle=capture.brief.in_(lang),
                    command=command.filled(capture.command, inputs, rank),
                )
                add(told.index(found.rule.id) - len(told), undecided)
        for each in row.undecided:
            add(*_unjudged(each, row.observed, inputs, lang))
    return tuple(undecided for _, undecided in sorted(result.values(), key=lambda pair: pair[0]))


_PLACES = get_args(Absence)
_WITHHELD_CAUSES = "idle causes"


def _unjudged(
    each: rules.Undecided, observed: Observed, inputs: Sequence[report.Input], lang: Lang
) -> tuple[int, report.Undecided]:
    """A rule that could not be judged, and its place among them."""
    why = min((absence(observed, feature) for feature in each.missing), key=_PLACES.index)
    capture = DEVICE if why == "no_device" else each.rule.needs
    would_settle = capture.brief.in_(lang)
    if why == "withheld":
        # The same recording would give it that would give the causes.
        settling = (w.would_settle for w in observed.rank.withheld if w.what == _WITHHELD_CAUSES)
        would_settle = next((text for text in settling if text), would_settle)
    if why == "no_device" and observed.rank.accelerator == "cpu":
        # Nothing is missing: this run has no device.
        return _PLACES.index(why), report.Undecided(
            rule=each.rule.id,
            why=word.HOST_ONLY.in_(lang),
            missing=tuple(feature.name for feature in each.missing),
        )
    reason = word.absent(why, observed.device.accounting.num_steps)
    return _PLACES.index(why), report.Undecided(
        rule=each.rule.id,
        why=reason.in_(lang) if reason else None,
        missing=tuple(feature.name for feature in each.missing),
        would_settle=would_settle,
        command=command.filled(capture.command, inputs, observed.rank.rank),
    )


def _recorded(of: str, before: Text, lang: Lang) -> str:
    """A command with what must be done before it, as a comment that a shell passes over."""
    return f"{of}  # {before.in_(lang)}"


def _next(
    analyses: Sequence[RankAnalysis],
    inputs: Sequence[report.Input],
    health: report.Health,
    told: Sequence[_Told],
    undecided: Sequence[report.Undecided],
    options: Options,
) -> str:
    """One command: what would settle the most, or else what would prove the largest finding's remedy."""
    if health.verdict == "unusable":
        return "stepscope doctor"
    catalog, lang = options.catalog, options.lang
    world = max((a.world_size for a in analyses if a.world_size is not None), default=None)
    folder = command.filled(ALL_RANKS.command, inputs)
    is_missing = not _has_all_ranks(analyses) and _missing_ranks(analyses, inputs) > 0
    if is_missing or world is None:
        # The same inputs again would say the same again.
        all_ranks = _recorded(folder, word.record_all(world), lang)
    else:
        all_ranks = folder
    if told:
        first = told[0].finding
        if not told[0].is_settled:
            question = next((u for u in undecided if u.rule == first.rule and u.command), None)
            if question is not None and question.command is not None:
                return all_ranks if question.would_settle == ALL_RANKS.brief.in_(lang) else question.command
        if any(remedy.verify is not None for remedy in first.remedies):
            return _recorded("stepscope diagnose NEW_TRACE", word.RECORD_AGAIN, lang)
        return f"stepscope explain {first.rule}"
    # More steps would only show what comes at intervals: no answer to why every step is as it is.
    open_ = next((u for u in undecided if catalog[u.rule].needs is not MANY_STEPS and u.command), None)
    if open_ is not None and open_.command is not None:
        return open_.command
    if is_missing:
        return all_ranks
    return "stepscope rules"


# ── the data ───────────────────────────────────────────────────────────────────────────────────────


def _missing_ranks(analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input] = ()) -> int:
    """How many ranks of the job are in no analysis, nor in an input that was left out on request."""
    world = max((a.world_size for a in analyses if a.world_size is not None), default=0)
    seen = {a.rank for a in analyses} | {
        i.rank for i in inputs if i.kind == "trace" and i.rank is not None and i.error is None
    }
    return max(0, world - len(seen)) if analyses else 0


def _has_all_ranks(analyses: Sequence[RankAnalysis]) -> bool:
    """Whether the size of the job is known and every rank of it was analysed."""
    return any(a.world_size is not None for a in analyses) and _missing_ranks(analyses) == 0


def _is_whole_job(analyses: Sequence[RankAnalysis]) -> bool:
    """Whether these are all ranks of a job of several."""
    return len({a.rank for a in analyses}) > 1 and _has_all_ranks(analyses)


def _health(
    analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input], catalog: Catalog
) -> report.Health:
    issues = [
        issue if issue.rank is not None else msgspec.structs.replace(issue, rank=analysis.rank)
        for analysis in analyses
        for issue in analysis.issues
    ]
    missing = _missing_ranks(analyses, inputs)
    if missing and not any(issue.code == "rank_missing" for issue in issues):
        world = max(a.world_size or 0 for a in analyses)
        issues.append(
            report.HealthIssue(
                code="rank_missing",
                count=missing,
                effect="none",
                detail=f"{world - missing} of {world} ranks were given: who is late is unknown",
                affects=("communication", "straggler"),
            )
        )
    issues += [
        report.HealthIssue(code="rule_broken", count=1, effect="none", detail=f"{broken.name}: {broken.why}")
        for broken in catalog.broken
    ]
    # With all ranks at hand it is no longer the data that lack something.
    is_whole = _is_whole_job(analyses)
    alone = report.Withheld(what=word.COLLECTIVE_PARTS, why=word.RANKS_ALONE.en)
    withheld = tuple(
        dict.fromkeys(
            alone if is_whole and w.what == word.COLLECTIVE_PARTS else w
            for analysis in analyses
            for w in analysis.withheld
        )
    )
    return report.Health(verdict=_health_verdict(analyses, issues), issues=tuple(issues), withheld=withheld)


def _health_verdict(
    analyses: Sequence[RankAnalysis], issues: Sequence[report.HealthIssue]
) -> report.HealthVerdict:
    """Unusable where nothing was timed; degraded where any number is degraded or withheld."""
    if not any(device.accounting.total_ns > 0 for a in analyses for device in a.devices):
        return "unusable"
    rows = [device.accounting for a in analyses for device in a.devices]
    if any(issue.effect != "none" for issue in issues) or any(row.status != "ok" for row in rows):
        return "degraded"
    return "ok"


def _window(analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input]) -> report.Window | None:
    """The counted and marked steps of all ranks, else the extent of the inputs."""
    used = [step for a in analyses for step in a.steps if step.use in ("counted", "marked")]
    if used:
        return report.Window(
            start_ns=min(step.start_ns for step in used),
            end_ns=max(step.end_ns for step in used),
            steps=(min(step.step for step in used), max(step.step for step in used)),
        )
    starts = [i.start_ns for i in inputs if i.start_ns is not None]
    ends = [i.end_ns for i in inputs if i.end_ns is not None]
    return report.Window(start_ns=min(starts), end_ns=max(ends)) if starts and ends else None
