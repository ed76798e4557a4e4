"""`stepscope diagnose --telemetry … --logs …`: files, folders and real servers, joined to traces or alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from stepscope.sources.formats.exposition import read_exposition
from tests.prometheus import PASSWORD, USER, Written, free_port, running

SCRIPT = ["--ranks", "2", "--layers", "3", "--seed", "5", "--telemetry", "--counters", "full"]


@pytest.fixture(scope="module")
def throttled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks of which one is too hot: traces of ten steps, a minute of counters, logs."""
    folder = tmp_path_factory.mktemp("throttled") / "run"
    assert main(["simulate", "--out", str(folder), *SCRIPT, "--fault", "thermal-throttle#1:severe"]) == 0
    return folder


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The report of a command that ends well."""
    capsys.readouterr()
    assert main(["diagnose", *words, "--format", "json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def traces(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.iterdir() if path.is_file())


def first(report: dict[str, Any]) -> str:
    rule: str = report["findings"][0]["rule"]
    return rule


def test_both_sides_name_what_neither_does_alone(throttled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beside = ["--telemetry", str(throttled / "telemetry"), "--logs", str(throttled / "logs")]
    alone = told(traces(throttled), capsys)
    joined = told([*traces(throttled), *beside], capsys)
    assert first(alone) == "slow-rank"
    assert "slow-rank" in [each["rule"] for each in alone["undecided"]]
    cause = joined["findings"][0]
    assert (cause["rule"], cause["confidence"], cause["subject"]["ranks"]) == (
        "thermal-throttle",
        "high",
        [1],
    )
    assert cause["cost"]["share"] == pytest.approx(alone["findings"][0]["cost"]["share"], rel=0.15)
    by_rule = {each["rule"]: each for each in joined["findings"]}
    assert by_rule["slow-rank"]["explained_by"] == cause["id"]
    assert [each["kind"] for each in joined["inputs"]].count("telemetry") == 3
    assert [each["kind"] for each in joined["inputs"]].count("log") >= 2


def test_counters_alone_say_what_a_trace_would_add(
    throttled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = told(["--telemetry", str(throttled / "telemetry")], capsys)
    assert first(report) == "thermal-throttle"
    assert "cost" not in report["findings"][0]
    assert report["next"].startswith("stepscope diagnose TRACE --telemetry ")
    assert report["accounting"] == []


def test_logs_alone_tell_how_the_job_went(throttled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told(["--logs", str(throttled / "logs")], capsys)
    assert report["verdict"]["class"] == "undecided"
    assert report["progress"][0]["last_step"] >= 100
    assert report["signals"] == []


def test_a_folder_of_a_run_is_read_as_before(throttled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told([str(throttled)], capsys)
    assert [each["kind"] for each in report["inputs"]] == ["trace", "trace"]


def test_without_any_input_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose"]) == 2
    assert "give a trace, --telemetry or --logs" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--telemetry", "--logs"])
def test_a_file_that_is_neither_is_named_and_the_rest_is_used(
    option: str, throttled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("milk, bread\n")
    report = told([*traces(throttled), option, str(other)], capsys)
    assert [each["name"] for each in report["inputs"] if "error" in each] == [str(other)]
    assert main(["diagnose", option, str(other)]) == 3
    line = capsys.readouterr().err
    assert line.startswith(f"stepscope: {other}")
    assert line.count("\n") == 1


def test_the_memory_that_training_needs_is_held_against_the_memory_in_use(
    throttled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*traces(throttled), "--telemetry", str(throttled / "telemetry"), "--parameters", "0.3B"]
    rows = told(words, capsys)["memory_estimates"]
    assert [row["rank"] for row in rows] in ([0, 1], [1, 0])
    assert rows[0]["states_bytes"] == 16 * 300_000_000
    assert rows[0]["unexplained_bytes"] == rows[0]["used_bytes"] - rows[0]["per_device_bytes"]
    assert main(["diagnose", *words[:-1], "many"]) == 2


# ── live servers ──


def series(folder: Path) -> list[Written]:
    """What a Prometheus would have of the run's exporters."""
    found = []
    for path in sorted((folder / "telemetry").glob("*.prom")):
        for metric in read_exposition(path.read_text()).metrics:
            if len(metric.at_ns):
                labels = {"__name__": metric.name, "instance": "10.0.0.1:9400", "job": "gpu", **metric.labels}
                found.append(Written(labels, (metric.at_ns // 1_000_000).tolist(), metric.value.tolist()))
    return found


@pytest.mark.service
@pytest.mark.parametrize("kind", ["prometheus", "victoria-metrics"])
@pytest.mark.parametrize("is_locked", [False, True], ids=["open", "locked"])
def test_a_server_that_has_the_counters_needs_nothing_else(
    kind: str, is_locked: bool, throttled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = ["--logs", str(throttled / "logs")]
    with running(kind, tmp_path / "server", is_locked=is_locked, more=retention(kind)) as server:
        server.write(series(throttled))
        url = server.url_as(USER, PASSWORD) if is_locked else server.url
        report = told([*traces(throttled), *logs, "--telemetry", url], capsys)
        assert (first(report), report["findings"][0]["subject"]["ranks"]) == ("thermal-throttle", [1])
        assert PASSWORD not in json.dumps(report)
        if is_locked:
            assert main(["diagnose", *traces(throttled), "--telemetry", server.url]) == 0
            refused = capsys.readouterr().out
            assert "401" in refused


def retention(kind: str) -> list[str]:
    """The run is of 2026: a server that keeps a fortnight would drop it."""
    return ["-retentionPeriod=100y"] if kind == "victoria-metrics" else ["--storage.tsdb.retention.time=100y"]


@pytest.mark.service
def test_a_server_that_is_not_there_is_said_and_the_traces_are_judged(
    throttled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"prometheus+http://127.0.0.1:{free_port()}"
    report = told([*traces(throttled), "--telemetry", url], capsys)
    (failed,) = [each for each in report["inputs"] if "error" in each]
    assert failed["name"] == url
    assert first(report) == "slow-rank"
    assert (
        main(["diagnose", "--telemetry", f"{url}?start=2026-09-21T14:00:00Z&end=2026-09-21T14:10:00Z"]) == 4
    )
    assert capsys.readouterr().err.count("\n") == 1
