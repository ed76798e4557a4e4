"""The report as JSON: measured zeros are written, unknown things are absent."""

from __future__ import annotations

import json

import msgspec
import pytest

from stepscope.model import report


def row(**changed: object) -> report.Accounting:
    given: dict[str, object] = {
        "rank": 0,
        "device": report.Device(index=0),
        "scope": "steps",
        "window": "host",
        "num_steps": 1,
        "total_ns": 10,
        "compute_ns": 10,
        "communication_exposed_ns": 0,
        "copy_exposed_ns": 0,
        "idle_ns": 0,
        "idle": report.Idle(),
        "status": "ok",
    }
    return report.Accounting(**{**given, **changed})  # type: ignore[arg-type]


def whole(**changed: object) -> report.Report:
    given: dict[str, object] = {
        "tool": report.Tool(name="stepscope", version="0"),
        "verdict": report.Verdict(class_="healthy", text="Healthy."),
        "health": report.Health(verdict="ok"),
        "accounting": (row(),),
    }
    return report.Report(**{**given, **changed})  # type: ignore[arg-type]


def test_a_measured_zero_is_written_and_what_is_unknown_is_absent() -> None:
    written = json.loads(report.encode(whole()))["accounting"][0]
    assert written["idle_ns"] == written["communication_exposed_ns"] == written["copy_exposed_ns"] == 0
    assert list(written["idle"]) == [f"{cause}_ns" for cause in report.IDLE_CAUSES]
    assert "communication" not in written
    assert "uuid" not in written["device"]


def test_a_report_names_its_schema_first_and_writes_its_empty_lists() -> None:
    written = json.loads(report.encode(whole()))
    assert next(iter(written.items())) == ("schema", "stepscope.report/1")
    for name in ("inputs", "steps", "findings", "cards", "undecided", "signals", "events"):
        assert written[name] == []
    assert "next" not in written


def test_names_that_python_reserves_are_plain_in_json() -> None:
    evidence = report.Evidence(from_="trace", feature="f", value=0.0, unit="ratio")
    assert msgspec.to_builtins(evidence) == {"from": "trace", "feature": "f", "value": 0.0, "unit": "ratio"}
    assert (
        msgspec.to_builtins(report.Operator(name="a", count=1, device_ns=0, class_="gemm"))["class"] == "gemm"
    )


def test_a_report_reads_back_as_it_was_and_further_fields_do_not_hurt() -> None:
    assert report.decode(report.encode(whole())) == whole()
    later = json.loads(report.encode(whole())) | {"a_later_field": 1}
    assert report.decode(json.dumps(later)) == whole()


def test_a_report_of_another_schema_is_refused() -> None:
    other = json.loads(report.encode(whole())) | {"schema": "stepscope.report/2"}
    with pytest.raises(msgspec.ValidationError, match="schema"):
        report.decode(json.dumps(other))
