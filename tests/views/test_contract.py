"""Reports against the contract as it was written down by hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.views.json import render, schema
from tests.diagnose import build
from tests.views import many
from tests.views.contract import SHAPE, broken
from tests.views.measured import measured, telemetry_alone

MADE = [
    build.input_starved,
    build.late_peer,
    build.unrecorded,
    build.healthy,
    many.job,
    many.nobody_late,
    many.not_comparable,
    measured,
    telemetry_alone,
]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("make", MADE)
def test_made_reports_hold_the_contract(make: Callable[[Lang], report.Report], lang: Lang) -> None:
    assert broken(json.loads(render(make(lang)))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w["accounting"][0].update(idle_ns=w["accounting"][0]["idle_ns"] + 1), "do not sum"),
        (lambda w: w["accounting"][0]["idle"].pop("gc_ns"), "idle.gc_ns: is absent"),
        (lambda w: w["accounting"][0].update(idle=dict.fromkeys(w["accounting"][0]["idle"], 0)), "causes"),
        (lambda w: w["findings"][0]["cost"].update(share=33.0), "no share"),
        (lambda w: w["findings"][0]["cost"].update(time_ns=0.033), "an integer"),
        (lambda w: w["findings"][0].update(explained_by=None), "a string"),
        (lambda w: w["findings"][0].update(colour="red"), "in no specification"),
        (lambda w: w["findings"][0]["evidence"][0].pop("reference"), "come together"),
        (lambda w: w["findings"][0]["remedies"][0].update(gain_share=[0.1, 0.9]), "beyond the cost"),
        (lambda w: w["cards"].clear(), "one card"),
        (lambda w: w["verdict"].update({"class": "slow"}), "none of"),
        (lambda w: w["steps"][0].update(dur_ns=1), "dur_ns"),
        (lambda w: w["window"].update(steps=[5]), "a pair"),
        (lambda w: w.pop("next") and w.pop("undecided"), "undecided: is absent"),
    ],
)
def test_a_broken_report_is_told_apart(change: Callable[[Any], None], said: str) -> None:
    written = json.loads(render(build.input_starved()))
    spoilt = copy.deepcopy(written)
    change(spoilt)
    assert any(said in each for each in broken(spoilt)), broken(spoilt)
    assert broken(written) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w["signals"][0].update(mean=7.0), "not in order"),
        (lambda w: w["signals"][0]["points"].reverse(), "order of time"),
        (lambda w: w["signals"][0].update(points=[[n, 0.5] for n in range(241)]), "more than 240"),
        (lambda w: w["signals"][0].update(samples=0), "without a sample"),
        (lambda w: w["clocks"]["telemetry"][1].update(lag_ns=5), "found or declared"),
        (lambda w: w["clocks"]["telemetry"][0].update(lag_range_ns=[0, 1]), "not in its range"),
        (lambda w: w["patterns"][0].update(advice="do"), "advice without"),
        (lambda w: w["patterns"][1]["as_written"].update(missing=["x"]), "though a number is missing"),
        (lambda w: w["progress"][0].update(first_step=10**9), "ends before"),
        (lambda w: w["walks"][0]["steps"][0].update(status="healthy"), "none of"),
        (lambda w: w["hints"][0].pop("evidence"), "is absent"),
    ],
)
def test_broken_telemetry_is_told_apart(change: Callable[[Any], None], said: str) -> None:
    spoilt = json.loads(render(measured()))
    change(spoilt)
    assert any(said in each for each in broken(spoilt)), broken(spoilt)


def test_the_structs_have_the_contracts_names_and_no_others() -> None:
    made = schema()

    def compare(node: Any, example: Any, at: str) -> list[str]:
        node = made["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        if isinstance(example, dict):
            wanted = {key.removesuffix("!"): each for key, each in example.items()}
            names = set(node.get("properties", {}))
            told = [f"{at}: {name}" for name in names ^ set(wanted)]
            return told + [
                each
                for name in names & set(wanted)
                for each in compare(node["properties"][name], wanted[name], f"{at}.{name}")
            ]
        if isinstance(example, list) and len(example) == 1:
            return compare(node["items"], example[0], at) if isinstance(node.get("items"), dict) else [at]
        return []

    assert compare(made, SHAPE, "report") == []
