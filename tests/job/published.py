"""A run from end to end, with the facts that its rules were judged on: what shows whether a change worked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscope import offline
from stepscope.diagnose.row import Row
from stepscope.model.report import Finding, Report, decode, encode
from stepscope.rules.rule import Remedy
from stepscope.simulate import Config, Recording, parse, write


@dataclass(frozen=True)
class Case:
    """A report, and every device as the rules saw it."""

    report: Report
    rows: tuple[Row, ...]

    @property
    def rules(self) -> list[str]:
        """Rules of the findings that nothing explains, the first first; each once."""
        return list(dict.fromkeys(f.rule for f in self.report.findings if f.explained_by is None))

    @property
    def first(self) -> Finding:
        """The first finding that nothing explains."""
        return next(f for f in self.report.findings if f.explained_by is None)

    def mean(self, signal: str, of: str = "mean") -> float:
        """Mean over the devices (or hosts) of a signal's mean, or of another of its summary's numbers."""
        found = [getattr(s, of) for s in self.report.signals if s.signal == signal]
        assert found, f"{signal} is not in the report"
        return float(np.mean(found))

    def number(self, feature: str) -> dict[int | None, float]:
        """A number by rank (`None`: no rank is known) as the rules have it, where it is known."""
        found: dict[int | None, float] = {}
        for row in self.rows:
            named = {known.name: value for known, value in row.facts.values.items()}
            value = named.get(feature, row.observed.device.numbers.get(feature))
            if value is not None:
                found[row.observed.rank.rank] = value
        return found

    def of(self, rank: int | None) -> Row:
        """The row of a rank."""
        return next(row for row in self.rows if row.observed.rank.rank == rank)

    def remedy(self, finding: Finding) -> tuple[Remedy, int | None]:
        """The first change that a finding offers, and the rank it is offered to."""
        rank = finding.subject.ranks[0] if finding.subject.ranks else None
        rows = [row for row in self.rows if row.observed.rank.rank == rank]
        fired = next(each for row in rows for each in row.found if each.rule.id == finding.rule)
        return next(r for r in fired.remedies if not r.is_step_towards), rank


def diagnosed(folder: Path, traces: Iterable[Path] = (), **kw: Any) -> Case:
    """The case of what lies in a folder: `telemetry/`, `logs/` and traces, each where it is there."""
    telemetry = [str(folder / "telemetry")] if (folder / "telemetry").is_dir() else []
    logs = [str(folder / "logs")] if (folder / "logs").is_dir() else []
    found = offline.diagnosed([str(path) for path in traces], telemetry=telemetry, logs=logs, **kw)
    assert decode(encode(found.report)) == found.report
    return Case(found.report, found.rows)


def simulated(
    folder: Path,
    *faults: str,
    recording: Mapping[str, Any] | None = None,
    is_traced: bool = True,
    restated: Mapping[str, Callable[[float], float]] | None = None,
    **given: Any,
) -> Case:
    """A simulated run, recorded with full counters, and diagnosed with its traces unless told.

    `restated` changes what the exporter reads, field by field: for a figure that was published and that the
    simulation does not reach.
    """
    told = Recording(**({"counters": "full", "lost": 0.0, "log_style": "plain"} | dict(recording or {})))
    config = Config(**given, faults=tuple(parse(fault) for fault in faults), telemetry=told)
    write(config, folder)
    for field, change in (restated or {}).items():
        for path in (folder / "telemetry").glob("*.dcgm.prom"):
            _restate(path, field, change)
    return diagnosed(folder, sorted(folder.glob("*.json.gz")) if is_traced else ())


def _restate(path: Path, field: str, change: Callable[[float], float]) -> None:
    lines = []
    for line in path.read_text().splitlines():
        if line.startswith(field + "{"):
            series, _, value = line.rpartition(" ")
            line = f"{series} {change(float(value)):g}"
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def is_cleared(before: Case, after: Case, finding: Finding | None = None) -> bool:
    """Whether the clause that shows that the first finding's first change worked fails before and holds
    after it, on the rank that it was found on."""
    remedy, rank = before.remedy(finding or before.first)
    assert remedy.clears.known(before.of(rank).facts) is False, "it did not fail before the change"
    return remedy.clears.known(after.of(rank).facts) is True
