"""Small traces of steps, and what is said of them: for rules from end to end."""

from __future__ import annotations

from pathlib import Path

import stepscope
from stepscope.model import report
from tests.analyse.build import Build


def said(build: Build, folder: Path) -> report.Report:
    """The report of a trace made by hand."""
    file = folder / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)


def costs(answer: report.Report) -> dict[str, float]:
    """Rule -> its share of the time, for what costs any."""
    return {f.rule: f.cost.share for f in answer.findings if f.cost is not None}


def finding(answer: report.Report, rule: str) -> report.Finding:
    (found,) = (each for each in answer.findings if each.rule == rule)
    return found


def values(found: report.Finding) -> dict[str, float]:
    """Feature -> value, of all evidence."""
    return {each.feature: each.value for each in found.evidence}
