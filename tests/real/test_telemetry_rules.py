"""Rules on real counters of other people: a single look at a sound device is no fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepscope.analyse.telemetry import device, host
from stepscope.analyse.telemetry.table import samples_of
from stepscope.model.error import StepscopeError
from stepscope.model.feature import Facts
from stepscope.rules import judge, load_catalog
from stepscope.rules.rule import Finding, Undecided
from stepscope.sources.telemetry import read_parts

CATALOG = load_catalog(others=())
NAMED = {feature.name: feature for rule in CATALOG for feature in rule.features()}


def known(folder: Path) -> list[tuple[str, dict[str, float]]]:
    """(file and owner, numbers) of every device and host in the files of a folder that can be read."""
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            parts = read_parts(str(path))
        except StepscopeError:
            continue
        for kind, of in (("device", device), ("host", host)):
            for samples in samples_of(parts, (kind,)):
                rows = np.ones(len(samples), dtype=bool)
                found.append((f"{path.name}: {samples.owner}", of.numbers(samples, rows)))
    return found


def fired(numbers: dict[str, float]) -> list[str]:
    facts = Facts({NAMED[name]: value for name, value in numbers.items() if name in NAMED})
    return [rule.id for rule in CATALOG if isinstance(judge(rule, facts), Finding)]


def test_no_rule_calls_a_sound_device_faulty(shared_data: Path) -> None:
    owners = known(shared_data / "telemetry")
    assert len(owners) >= 60
    assert {name: rules for name, numbers in owners if (rules := fired(numbers))} == {}


def test_a_fault_among_the_same_numbers_is_told(shared_data: Path) -> None:
    """The loaded H100 of nvidia-smi: at 631 to 636 W and its highest clock."""
    owners = known(shared_data / "telemetry" / "nvidia-smi")
    loaded = next(
        n for name, n in owners if "h100-80gb" in name and "load_dmon" in name and "temperature" in str(n)
    )
    assert loaded["power_watts_mean"] == pytest.approx(633.6)
    assert fired(loaded) == []
    assert fired(loaded | {"temperature_celsius_max": 90.0, "thermal_throttled_share": 0.0}) == ["hot-device"]
    assert fired(loaded | {"ecc_uncorrected_grown": 1.0}) == ["uncorrected-memory-errors"]
    assert fired(loaded | {"thermal_throttled_share": 0.5, "clock_drop_share": 0.3}) == ["thermal-throttle"]


def test_low_use_of_an_idle_device_without_a_log_stays_open(shared_data: Path) -> None:
    owners = known(shared_data / "telemetry" / "nvidia-smi")
    idle = next(n for name, n in owners if "h100-80gb" in name and "idle_dmon" in name)
    assert idle["compute_busy_five_minutes"] <= 0.05
    facts = Facts({NAMED[name]: value for name, value in idle.items() if name in NAMED})
    assert isinstance(judge(CATALOG["dead-job"], facts), Undecided)
