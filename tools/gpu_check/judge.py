"""Verdict against truth: what `diagnose` says of a recording, beside what was done and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tools.gpu_check.case import LEAST_COST, Case

Outcome = Literal["right", "top 3", "abstained", "wrong", "failed"]
"""`failed`: there is no recording."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One case. `cost` is the share of a step that the fault was measured to take, `None` where no step was
    measured. `told` are the findings above a note, first first; `passed` is what counts."""

    case: str
    outcome: Outcome
    passed: bool
    cost: float | None
    told: tuple[str, ...] = ()
    verdict: str = ""
    why: str = ""


def cost_of(measured: dict[str, Any]) -> float:
    """Share of the time a sample takes that is the fault's; below 0 where it was faster with it."""
    healthy = measured["healthy_seconds"] / measured["healthy_samples"]
    faulty = measured["faulty_seconds"] / measured["faulty_samples"]
    return float(1.0 - healthy / faulty)


def outcome_of(
    case: Case, device: str, told: Sequence[str], cost: float, *, is_seen: bool = True
) -> tuple[Outcome, bool, str]:
    """(outcome, whether it counts as passed, why it does not).

    A fault that costs less than `LEAST_COST` here, or that no rule for this device stands for, is due
    silence; so is a healthy run, and one whose processes the driver lists under numbers of another namespace
    (`is_seen`). Tolerated findings are left out before.
    """
    rules = case.right(device)
    own = [rule for rule in told if rule in rules or rule not in case.tolerated]
    is_due = is_seen and bool(rules) and cost >= LEAST_COST
    if own and own[0] in rules:
        return "right", True, ""
    if set(own[:3]) & set(rules):
        return "top 3", True, ""
    if own:
        return "wrong", False, f"{own[0]} is not the cause"
    if is_due:
        return "abstained", False, f"the fault takes {cost:.0%} of the step"
    return ("right" if case.faulty == case.healthy else "abstained"), True, ""


def judged(case: Case, device: str, measured: dict[str, Any], telemetry: Sequence[Path]) -> Judged:
    """Diagnose a case's recording in this process, and hold it against the case."""
    from stepscope import offline
    from stepscope.model.error import StepscopeError

    if "error" in measured:
        return Judged(case.name, "failed", False, None, why=str(measured["error"]))
    cost = cost_of(measured)
    try:
        report = offline.diagnose([measured["trace"]], telemetry=[str(each) for each in telemetry])
    except StepscopeError as error:
        return Judged(case.name, "failed", False, cost, why=str(error))
    own = [f for f in report.findings if f.explained_by is None and f.severity != "info"]
    told = tuple(f.rule for f in own)
    outcome, passed, why = outcome_of(case, device, told, cost, is_seen=not measured.get("unseen"))
    return Judged(case.name, outcome, passed, cost, told[:3], report.verdict.class_, why)


def lag_line(trace: str, telemetry: Sequence[Path]) -> str:
    """How far the counters lag behind a recording of bursts, as `diagnose` finds it; one line a source."""
    from stepscope import offline

    report = offline.diagnose([trace], telemetry=[str(each) for each in telemetry])
    lines = []
    for each in report.clocks.telemetry if report.clocks else ():
        low, high = (f"{edge / 1e6:.0f}" for edge in each.lag_range_ns) if each.lag_range_ns else ("?", "?")
        lag = "" if each.lag_ns is None else f"{each.lag_ns / 1e6:.0f} ms, "
        window = "" if each.window_ns is None else f", window {each.window_ns / 1e6:.0f} ms"
        lines.append(f"{Path(each.source).name}: {each.status}, {lag}{low} to {high} ms fit{window}")
    return "\n".join(lines) or "no source of counters to compare"


def table(rows: Sequence[Judged], device: str) -> str:
    """Verdicts against truth, and one line that sums them up."""
    head = f"{'case':20}{'cost':>7}  {'outcome':11}{'verdict':22}findings"
    lines = [head, "-" * len(head)]
    for each in rows:
        cost = "" if each.cost is None else f"{each.cost:.0%}"
        mark = "" if each.passed else "  ✗ " + each.why
        findings = ", ".join(each.told) or "none above a note"
        if each.outcome == "failed":
            findings = ""
        lines.append(f"{each.case:20}{cost:>7}  {each.outcome:11}{each.verdict:22}{findings}{mark}")
    num_passed = sum(each.passed for each in rows)
    lines.append(f"{num_passed} of {len(rows)} as they should be, on {device}")
    return "\n".join(lines)
