"""Findings in report form: who is named, what is claimed, what a remedy can gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec

from stepscope.analyse.features import culprits, has_device, is_marked, part_ns
from stepscope.diagnose import word
from stepscope.diagnose.claim import PEERS, Claim, claims
from stepscope.diagnose.job import LateRanks
from stepscope.diagnose.kept import kept_by
from stepscope.diagnose.onset import onset
from stepscope.diagnose.row import Once, Row
from stepscope.diagnose.spell import Held, held
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.feature import Clause, Facts, Observed
from stepscope.model.text import Lang
from stepscope.rules import rule as rules

MOST_NAMES = 6
"""Names a finding gives of who was running meanwhile."""
MIN_SHARE = 0.05
"""A name that covers less of the finding's time is not worth its line, unless it is the largest."""


@dataclass(frozen=True, slots=True)
class Told:
    """A finding in report form, the row it is of, and what of its cause is open."""

    finding: report.Finding
    row: Row
    open: tuple[rules.Question, ...]
    rule: rules.Rule
    """As it was judged: for a run without a device it speaks of none."""
    weighs: float | None = None
    """Of a finding of some steps in a row, the share that decides how grave it is; `None`: that of its
    cost."""

    @property
    def once(self) -> Once | None:
        """The one step or gap that holds most of it, `None` where it is spread."""
        cost = self.finding.cost
        return None if cost is None else self.row.once(self.rule, cost.time_ns)


def findings(
    rows: Sequence[Row],
    is_whole: bool,
    job: str | None,
    lang: Lang,
    late_ranks: Mapping[str, LateRanks] = MappingProxyType({}),
    catalog: Sequence[rules.Rule] = (),
) -> list[Told]:
    """What fired, in report form and in the report's order. `is_whole`: every rank of the job was given;
    `late_ranks`: the number that a rule asks for -> who is late for its reason; the rules of `catalog` are
    judged on parts of a row's steps, where it has any in which a cause holds."""
    rows = [_without_praise(row) for row in rows]
    result: list[Told] = []
    used: Counter[str] = Counter()
    for whole in rows:
        row, parts = held(whole, catalog)
        claimed = claims(row.found, row.observed.device)
        ids = {}
        for found in row.found:
            base = _identity(found.rule.id, row.observed)
            used[base] += 1
            ids[found.rule.id] = base if used[base] == 1 else f"{base}#{used[base]}"
        turns = row.observed.device.numbers.get("num_late_ranks", 1.0)
        why_late = {name: late.reasons.get(row.observed.rank.rank) for name, late in late_ranks.items()}
        reasons = _explained(row.found, claimed, turns, why_late)
        for found in row.found:
            found = _doubted(_of_one_step(found, row))
            cause = reasons.get(found.rule.id)
            found_ = _with_all_ranks(found) if is_whole else found
            finding = _finding(row, found_, claimed, ids, ids[cause] if cause else None, job, lang)
            if found.rule.cost is not None and found.rule.cost.name in late_ranks:
                finding = _of_late(finding, late_ranks[found.rule.cost.name])
            result.append(Told(finding, row, found.open, found.rule))
        for part in parts:
            base = _identity(part.found.rule.id, row.observed)
            used[base] += 1
            id_ = base if used[base] == 1 else f"{base}#{used[base]}"
            result.append(_told_of_part(part, whole, id_, is_whole, job, lang))
        result = _explained_by_parts(result, row)
    return sorted((_asked(each) for each in _explained_by_peers(result)), key=_order)


def _asked(told: Told) -> Told:
    """The finding with what is open now that all causes are known: what has one asks for none; what has none,
    and is in doubt without, has low confidence and is at most a warning."""
    is_explained = told.finding.explained_by is not None
    told = replace(told, open=tuple(q for q in told.open if not (q.where_unexplained and is_explained)))
    if not any(each.where_unexplained and each.doubt is not None for each in told.open):
        return told
    severity = told.finding.severity
    finding = msgspec.structs.replace(
        told.finding, confidence="low", severity="warning" if severity == "critical" else severity
    )
    return replace(told, finding=finding)


def _explained_by_parts(told: list[Told], row: Row) -> list[Told]:
    """The findings, with what peers wait for a rank under what keeps it for some steps in a row."""

    def cause_of(each: Told) -> Told | None:
        own = each.finding.cost
        if each.row is not row or own is None or own.of != PEERS or each.finding.explained_by is not None:
            return None
        return next(
            (
                cause
                for cause in told
                if cause.weighs is not None
                and cause.row.observed.rank is row.observed.rank
                and each.rule.id in cause.rule.explains
                and cause.finding.cost is not None
                and cause.finding.cost.time_ns >= ABOUT_AS_LONG * own.time_ns
            ),
            None,
        )

    result = []
    for each in told:
        cause = cause_of(each)
        if cause is not None:
            finding = msgspec.structs.replace(each.finding, explained_by=cause.finding.id, remedies=())
            each = replace(each, finding=finding)
        result.append(each)
    return result


ONGOING_LEAST = 0.01
"""What has stopped weighs as it did while it held from this share of the whole run on."""


def _told_of_part(part: Held, whole: Row, id_: str, is_whole: bool, job: str | None, lang: Lang) -> Told:
    """The finding of some steps in a row, with what it costs there and in the whole run."""
    found = _with_all_ranks(_doubted(part.found)) if is_whole else _doubted(part.found)
    row, rule = part.row, found.rule
    claimed = claims((found,), row.observed.device)
    finding = _finding(row, found, claimed, {rule.id: id_}, None, job, lang)
    cost, total = finding.cost, whole.account.total_ns
    assert cost is not None
    share = cost.time_ns / total if total else 0.0
    weighs = cost.share if part.is_last or share >= ONGOING_LEAST else share
    starts = {step.step: step.start_ns for step in row.observed.rank.steps}
    return Told(
        msgspec.structs.replace(
            finding,
            severity="info" if weighs < 0.05 else "warning" if share < 0.20 else finding.severity,
            onset_step=part.steps[0],
            onset_ns=starts.get(part.steps[0]),
            onset_holds=part.is_last,
            subject=msgspec.structs.replace(finding.subject, steps=part.steps),
            cost=msgspec.structs.replace(cost, share=share, steps_share=cost.share),
            # What is over by itself gives no gain to promise.
            remedies=tuple(msgspec.structs.replace(each, gain_share=None) for each in finding.remedies),
        ),
        row,
        found.open,
        rule,
        weighs,
    )


def _without_praise(row: Row) -> Row:
    """The row of a rank that others wait for is not called healthy."""
    if not any(f.rule.cost is not None and f.rule.cost.is_of_peers for f in row.found):
        return row
    return replace(row, found=tuple(f for f in row.found if f.rule.verdict != "healthy"))


def _of_late(finding: report.Finding, late: LateRanks) -> report.Finding:
    """The finding of all ranks that are late for its reason, since the first of them is."""
    subject = msgspec.structs.replace(
        finding.subject, ranks=late.ranks, steps=late.steps or finding.subject.steps
    )
    return msgspec.structs.replace(
        finding,
        subject=subject,
        onset_step=late.steps[0] if late.steps else finding.onset_step,
        onset_ns=late.onset_ns if late.onset_ns is not None else finding.onset_ns,
    )


PEER_EXPLAINS = 0.5
"""A late rank that costs less than this part of what another rank waits does not explain it."""


def _explained_by_peers(told: Sequence[Told]) -> list[Told]:
    """The findings, with those that follow from a finding on another rank under it."""
    causes = [each for each in told if each.rule.explains_peers]
    result = []
    for each in told:
        mine = [
            cause
            for cause in causes
            if each.rule.id in cause.rule.explains_peers
            # A rank that takes turns in being late waits for the others in between.
            and (each.row is not cause.row or len(cause.finding.subject.ranks) > 1)
        ]
        known = sum(cause.finding.cost.share for cause in mine if cause.finding.cost is not None)
        own = each.finding.cost.share if each.finding.cost is not None else 0.0
        if mine and each.finding.explained_by is None and known >= PEER_EXPLAINS * own:
            largest = max(mine, key=lambda cause: cause.finding.cost.share if cause.finding.cost else 0.0)
            finding = msgspec.structs.replace(each.finding, explained_by=largest.finding.id, remedies=())
            each = replace(each, finding=finding)
        elif each.finding.explained_by is None and (keeper := kept_by(each, told, PEER_EXPLAINS)) is not None:
            finding = msgspec.structs.replace(each.finding, explained_by=keeper.finding.id, remedies=())
            each = replace(each, finding=finding)
        result.append(each)
    return result


def _of_one_step(found: rules.Finding, row: Row) -> rules.Finding:
    """The finding with no more confidence than one step can give."""
    return replace(found, confidence="medium") if found.confidence == "high" and row.is_one_step else found


def _is_in_doubt(found: rules.Finding) -> bool:
    """Whether nobody knows that the rule's own cause is the cause."""
    return any(each.doubt is not None and not each.where_unexplained for each in found.open)


def _doubted(found: rules.Finding) -> rules.Finding:
    """The finding with low confidence where its own cause is in doubt."""
    return replace(found, confidence="low") if _is_in_doubt(found) else found


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


def _explained(
    found: Sequence[rules.Finding],
    claimed: dict[str, Claim],
    num_late: float = 1.0,
    why_late: Mapping[str, str | None] = MappingProxyType({}),
) -> dict[str, str]:
    """Rule id -> id of the rule it is a consequence of, on the same device.

    `num_late` ranks take turns in what costs their peers time: the cost of that is of all of them, what keeps
    this one is its own part. `why_late`: the number that a rule asks for -> the idle cause that the
    join of all ranks named as what makes this one late.
    A cause must cost at least as much as what it explains: a small one cannot explain a large one away.
    """

    def cost(finding: rules.Finding) -> int:
        return claimed[finding.rule.id].time_ns if finding.rule.id in claimed else 0

    reasons: dict[str, str] = {}
    by_cost = sorted(found, key=cost, reverse=True)
    for cause in by_cost:
        for effect in by_cost:
            if effect.rule.id in cause.rule.explains and cost(cause) >= cost(effect):
                reasons.setdefault(effect.rule.id, cause.rule.id)
    # What others wait for a rank is about as long as what keeps it, and may be measured a little longer.
    for effect in by_cost:
        if effect.rule.cost is None or not effect.rule.cost.is_of_peers or effect.rule.id in reasons:
            continue
        enough = [
            cause
            for cause in by_cost
            if effect.rule.id in cause.rule.explains
            and cost(cause) * max(num_late, 1.0)
            >= (PEER_EXPLAINS if _is_named(cause, effect, why_late) else ABOUT_AS_LONG) * cost(effect)
        ]
        if enough:
            reasons[effect.rule.id] = enough[0].rule.id
    return reasons


def _is_named(cause: rules.Finding, effect: rules.Finding, why_late: Mapping[str, str | None]) -> bool:
    """Whether a cause is of the part that makes the rank late: then the larger half of the lateness will do,
    for it was held against the same part of the others."""
    if cause.rule.cost is None or effect.rule.cost is None:
        return False
    return f"idle.{why_late.get(effect.rule.cost.name)}" in cause.rule.cost.of


ABOUT_AS_LONG = 0.8


def _finding(
    row: Row,
    found: rules.Finding,
    claimed: dict[str, Claim],
    ids: dict[str, str],
    explained_by: str | None,
    job: str | None,
    lang: Lang,
) -> report.Finding:
    rule, observed = found.rule, row.observed
    account = observed.device.accounting
    claim = claimed.get(rule.id)
    share = claim.time_ns / account.total_ns if claim and account.total_ns else None
    if claim is not None and claim.of == PEERS:
        share = found.cost_share
    since = onset(rule, observed)
    is_once = claim is not None and row.once(rule, claim.time_ns) is not None
    return report.Finding(
        id=ids[rule.id],
        rule=rule.id,
        cause=rule.cause,
        layer=rule.layer.value,
        severity=rule.severity
        if rule.severity is not None and share is None
        else _severity(
            share,
            # A bound is no loss: nobody knows how much of it a change wins.
            is_known=rule.verdict != "undecided"
            and not is_once
            and not rule.is_bound
            and not _is_in_doubt(found),
        ),
        confidence=found.confidence,
        title=found.title.in_(lang),
        onset_ns=since.at_ns if since else None,
        onset_step=since.step if since else None,
        onset_holds=since.holds if since else None,
        subject=report.Subject(
            job=job,
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
            is_bound=True if rule.is_bound else None,
            num_steps=account.num_steps if account.scope == "steps" and account.num_steps else None,
        ),
        culprits=_named(rule, observed),
        evidence=tuple(
            _referenced(_from_marks(evidence) if is_marked(observed) else evidence, rule, lang)
            for evidence in found.evidence
        ),
        unknown=tuple(
            word.unmeasured(clause, lang, is_marked=is_marked(observed))
            for clause in _unknown(found, row.facts)
        ),
        ruled_out=tuple(
            report.RuledOut(rule=clear.rule.id, because=word.because(clear, lang))
            for clear in row.clear
            if clear.rule.verdict != "healthy"
        ),
        # A consequence goes when its cause goes: advice on it would buy nothing.
        remedies=()
        if explained_by
        else tuple(_remedy(r, row, None if is_once else share, lang, rule) for r in found.remedies),
        explained_by=explained_by,
    )


def _named(rule: rules.Rule, observed: Observed) -> tuple[report.Named, ...]:
    """Who was running in the parts that the rule's cost is of."""
    if rule.cost is None:
        return ()
    known = culprits(observed, rule.cost)
    whole = sum(part_ns(observed.device.accounting, part) for part in rule.cost.of)
    if rule.cost.blame:
        whole = min(whole, sum(each.time_ns for each in known))
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
        for each in known[:MOST_NAMES]
        if whole > 0
    ]
    return tuple(each for place, each in enumerate(named) if place == 0 or each.share >= MIN_SHARE)


def _from_marks(evidence: report.Evidence) -> report.Evidence:
    """Evidence as of the job itself: what a trace would say, its own marks said."""
    return msgspec.structs.replace(evidence, from_="job") if evidence.from_ == "trace" else evidence


def _referenced(evidence: report.Evidence, rule: rules.Rule, lang: Lang) -> report.Evidence:
    """The evidence with where its threshold comes from."""
    if evidence.threshold is None:
        return evidence
    named = {feature.name: text for feature, text in rule.references.items()}
    return msgspec.structs.replace(evidence, reference=named[evidence.feature].in_(lang))


def _severity(share: float | None, *, is_known: bool) -> report.Severity:
    """By cost: under 5 % of the step info, under 20 % warning, from there critical.

    Where the cause cannot be told, may be start-up, or only a bound is known, it is at most a warning:
    `--fail-on critical` stands for a cause that is known, and a trace that lacks something must not stop a
    pipeline.
    """
    if share is None or share < 0.05:
        return "info"
    return "warning" if share < 0.20 or not is_known else "critical"


def _unknown(found: rules.Finding, known: Facts) -> list[Clause]:
    """Clauses that could not be checked, one a feature: excuses, what corroborates, gates of remedies."""
    gates = [c for r in found.rule.remedies for c in (*r.only_if, *r.unless)]
    open_clauses = [*found.unknown, *(c for c in gates if c.known(known) is None)]
    return list({clause.feature: clause for clause in reversed(open_clauses)}.values())[::-1]


def _remedy(
    remedy: rules.Remedy, row: Row, share: float | None, lang: Lang, rule: rules.Rule
) -> report.Remedy:
    is_bound, cost = rule.is_bound, rule.cost
    clause = remedy.clears
    now = row.facts.get(clause.feature)
    gain = None
    # From what the proof asks for to all that the finding claims: more than that does not exist.
    is_whole = not (remedy.is_step_towards or remedy.is_partial)
    if share is not None and now is not None and is_whole and clause.op in ("<=", "<"):
        is_on_cost = cost is not None and clause.feature is cost
        least = min(share, max(0.0, now - clause.threshold)) if is_on_cost and not is_bound else 0.0
        # Work that runs beside the rest of the step makes it no shorter than either.
        most = min(share, 1 - share) if remedy.is_overlap else share
        gain = (round(min(least, most), 6), round(most, 6))
    return report.Remedy(
        id=_remedy_id(rule, remedy),
        text=remedy.text.in_(lang),
        patch=remedy.patch,
        gain_share=gain,
        verify=None if remedy.is_step_towards else word.proof(clause, now, lang),
    )


def _remedy_id(rule: rules.Rule, remedy: rules.Remedy) -> str | None:
    """`rule#number` by the place among all remedies of the rule, those of runs on the host behind the others.
    Its words may be those for all ranks."""
    every = (*rule.remedies, *(rule.on_host.remedies if rule.on_host else ()))
    for number, each in enumerate(every, 1):
        if remedy.text in (each.text, each.with_all_ranks):
            return f"{rule.id}#{number}"
    return None


def _device_name(observed: Observed) -> str:
    device = observed.device.accounting.device
    if device.uuid:
        return device.uuid
    if not has_device(observed):
        return device.kind or "cpu"
    return (
        observed.rank.accelerator if device.index is None else f"{observed.rank.accelerator}:{device.index}"
    )


def _counted(analysis: RankAnalysis) -> tuple[int, int] | None:
    steps = [step.step for step in analysis.steps if step.use in ("counted", "marked")]
    return (min(steps), max(steps)) if steps else None


def _order(told: Told) -> tuple[bool, float, str]:
    """Consequences after causes, then by the time that could be won, then by id so that runs agree."""
    finding = told.finding
    weight = finding.cost.share if finding.cost else _COSTLESS[finding.severity]
    if told.rule.is_bound:
        weight *= BOUND_WEIGHT
    return finding.explained_by is not None, -weight, finding.id


BOUND_WEIGHT = 0.5
"""A finding of which only the most that it can win is known stands where half of it would."""
_COSTLESS: Mapping[report.Severity, float] = {"critical": 1.0, "warning": 0.05, "info": 0.0}
"""What costs no time, or nobody knows how much, stands where a cost of this severity begins; a fault that
ends the job comes first."""
