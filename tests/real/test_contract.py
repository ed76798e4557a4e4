"""Reports of real traces against the contract as it was written down by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.views.json import render
from tests.real.test_answers import TRACES, diagnosed
from tests.views.contract import broken


@pytest.mark.parametrize("name", sorted(TRACES))
def test_every_report_holds_the_contract(shared_data: Path, name: str) -> None:
    assert broken(json.loads(render(diagnosed(shared_data / "traces" / TRACES[name])))) == []


@pytest.mark.parametrize("name", sorted(TRACES))
def test_what_was_not_recorded_is_absent_and_not_zero(shared_data: Path, name: str) -> None:
    written = json.loads(render(diagnosed(shared_data / "traces" / TRACES[name])))
    codes = {issue["code"] for issue in written["health"]["issues"]}
    if "no_host_rows" in codes:
        ruled_out = {out["rule"] for finding in written["findings"] for out in finding["ruled_out"]}
        assert not {"input-starvation", "host-preprocessing"} & ruled_out
        assert {"input-starvation", "host-preprocessing"} <= {each["rule"] for each in written["undecided"]}
    for each in written["collectives"]:
        # One rank's trace cannot tell a transfer from a wait.
        assert not {"transfer_ns", "wait_ns", "last_rank"} & set(each)
    if not any(step["use"] == "counted" for step in written["steps"]):
        assert "steps" not in written.get("window", {})
