"""The JSON Schema, and reports against it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stepscope.model import report
from stepscope.model.report import decode, encode
from stepscope.views.json import render, schema, schema_text
from tests.diagnose import build

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"
MADE = [build.input_starved, build.late_peer, build.unrecorded, build.healthy]


def validated(written: Any) -> None:
    jsonschema.Draft202012Validator(schema()).validate(written)


def test_the_committed_schema_is_current() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == schema_text(), "run `make docs`"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("make", MADE)
def test_reports_hold_to_the_schema(make: Callable[[], report.Report]) -> None:
    validated(json.loads(encode(make())))


def spoilt(change: Callable[[Any], None]) -> Any:
    written = copy.deepcopy(json.loads(encode(build.input_starved())))
    change(written)
    return written


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.pop("schema"),
        lambda w: w.pop("findings"),
        lambda w: w["accounting"][0].pop("idle_ns"),
        lambda w: w["accounting"][0].update(idle_ns=1.5),
        lambda w: w["verdict"].update({"class": "slow"}),
        lambda w: w.update(next=None),
        lambda w: w["findings"][0].update(severity="bad"),
    ],
)
def test_what_breaks_the_contract_does_not_hold(change: Callable[[Any], None]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validated(spoilt(change))


def test_further_fields_are_free() -> None:
    validated(spoilt(lambda w: w.update(later=1)))


def test_the_indented_form_is_the_same_report() -> None:
    answer = build.input_starved()
    assert decode(render(answer)) == answer
    assert render(answer).endswith("}\n")
