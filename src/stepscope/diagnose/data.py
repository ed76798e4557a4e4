"""Which ranks were given, how sound the data are, and the time they cover."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepscope.diagnose import word
from stepscope.diagnose.job import Job, listed
from stepscope.model import report
from stepscope.model.analysis import COLLECTIVE_PARTS, RankAnalysis
from stepscope.rules import Catalog

MOST_NAMED = 1_000_000
"""A job that says it has more ranks is not gone through one by one."""


def missing_ranks(analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input] = ()) -> int:
    """How many ranks of the job are in no analysis, nor in an input that was left out on request."""
    world = max((a.world_size for a in analyses if a.world_size is not None), default=0)
    seen = {a.rank for a in analyses} | {
        i.rank for i in inputs if i.kind in ("trace", "steps") and i.rank is not None and i.error is None
    }
    return max(0, world - len(seen)) if analyses else 0


def has_all_ranks(analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input] = ()) -> bool:
    """Whether the size of the job is known and every rank of it was analysed, or given in `inputs`."""
    return any(a.world_size is not None for a in analyses) and missing_ranks(analyses, inputs) == 0


def is_whole_job(analyses: Sequence[RankAnalysis]) -> bool:
    """Whether these are all ranks of a job of several."""
    return len({a.rank for a in analyses}) > 1 and has_all_ranks(analyses)


def health(
    analyses: Sequence[RankAnalysis],
    inputs: Sequence[report.Input],
    catalog: Catalog,
    job: Job,
    others: Sequence[report.HealthIssue] = (),
    *,
    has_others: bool = False,
) -> report.Health:
    """What is wrong with the data of all ranks, what follows from it, and what is withheld.

    `others` are issues of telemetry and logs. `has_others`: a snapshot, telemetry or a log was read that can
    be used without any trace.
    """
    issues = [
        issue if issue.rank is not None else msgspec.structs.replace(issue, rank=analysis.rank)
        for analysis in analyses
        for issue in analysis.issues
    ]
    missing = missing_ranks(analyses, inputs)
    if missing and not any(issue.code == "rank_missing" for issue in issues):
        world = max(a.world_size or 0 for a in analyses)
        seen = {a.rank for a in analyses if a.rank is not None} | {
            i.rank for i in inputs if i.kind in ("trace", "steps") and i.rank is not None and i.error is None
        }
        lacking = [rank for rank in range(min(world, MOST_NAMED)) if rank not in seen]
        given = f"{world - missing} of {world} ranks were given"
        issues.append(
            report.HealthIssue(
                code="rank_missing",
                count=missing,
                effect="none",
                detail=f"{given}, without {listed(lacking)}: one of those may be the late one"
                if len(seen) > 1
                else f"{given}: who is late is unknown",
                affects=("communication", "straggler"),
            )
        )
    issues += [
        report.HealthIssue(code="rule_broken", count=1, effect="none", detail=f"{broken.name}: {broken.why}")
        for broken in catalog.broken
    ]
    issues += [*job.issues, *others]
    # With all ranks at hand it is no longer the data that lack something.
    is_whole = is_whole_job(analyses)
    unmatched = report.Withheld(what=COLLECTIVE_PARTS, why=word.NOT_JOINED.en)
    found = (
        unmatched if is_whole and w.what == COLLECTIVE_PARTS else w
        for analysis in analyses
        for w in analysis.withheld
    )
    withheld = (*dict.fromkeys(found), *job.withheld)
    judged = "ok" if has_others and not analyses else _health_verdict(analyses, issues)
    return report.Health(verdict=judged, issues=tuple(issues), withheld=withheld)


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


def window(
    analyses: Sequence[RankAnalysis],
    inputs: Sequence[report.Input],
    representative: report.Representative | None = None,
) -> report.Window | None:
    """The counted and marked steps of all ranks, else the extent of the inputs."""
    used = [step for a in analyses for step in a.steps if step.use in ("counted", "marked")]
    if used:
        return report.Window(
            start_ns=min(step.start_ns for step in used),
            end_ns=max(step.end_ns for step in used),
            steps=(min(step.step for step in used), max(step.step for step in used)),
            representative=representative,
        )
    traced = [i for i in inputs if i.kind in ("trace", "snapshot")] if analyses else inputs
    starts = [i.start_ns for i in traced if i.start_ns is not None]
    ends = [i.end_ns for i in traced if i.end_ns is not None]
    if not starts or not ends:
        return None
    return report.Window(start_ns=min(starts), end_ns=max(ends), representative=representative)
