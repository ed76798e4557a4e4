"""One device whose numbers are given by name, and values that just meet or miss clauses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stepscope.analyse.features import facts
from stepscope.model import report
from stepscope.model.feature import Clause, Facts, Feature, Observed
from tests.diagnose.build import rank, row

H100 = report.Device(index=0, name="NVIDIA H100 80GB HBM3")


def observed(numbers: Mapping[str, float], account: report.Accounting | None = None) -> Observed:
    """A device with these numbers and no others; of telemetry alone where no row is given."""
    account = account or row(total=0, device=H100)
    whole = rank(account)
    device = replace(whole.devices[0], numbers=dict(numbers))
    return Observed(replace(whole, devices=(device,)), device)


def facts_of(subject: Observed, features: Iterable[Feature]) -> Facts:
    """What is known of it."""
    return facts(subject, features)


def just_met(clause: Clause) -> float:
    """A value that barely meets the clause."""
    return clause.threshold + {">=": 0.0, "<=": 0.0, ">": 1e-9, "<": -1e-9}[clause.op]


def just_missed(clause: Clause) -> float:
    """A value that barely misses it."""
    return clause.threshold + {">=": -1e-9, "<=": 1e-9, ">": 0.0, "<": 0.0}[clause.op]
