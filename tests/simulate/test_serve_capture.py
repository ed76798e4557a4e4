"""A live job answers its control files as a training process does, and its traces are those of the steps
that were agreed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stepscope.offline import diagnose
from tests.simulate.live import CLOCKS, Job


def _begun(job: Job) -> int:
    return int(job.said(0, "step_begin")[-1]["step"])


def _captured(job: Job, capture: int, num: int = 4, mode: str = "full") -> int:
    """Agree on steps and wait for their traces: the first of them."""
    first = _begun(job) + 6
    job.ask("propose", capture, first, num, mode)
    job.until(job.seconds + 0.8)
    assert [job.answers(rank)[-1] for rank in (0, 1)] == [("armed", capture)] * 2
    job.ask("commit", capture, first, num, mode)
    job.until(job.seconds + 9.0)
    assert [job.answers(rank)[-1] for rank in (0, 1)] == [("done", capture)] * 2
    return first


@pytest.mark.parametrize(
    ("fault", "finding"), [("loader-stall#1:severe", "input-starvation"), ("straggler#1:severe", "slow-rank")]
)
def test_traces_of_the_agreed_steps_on_both_ranks_show_the_fault(
    tmp_path: Path, fault: str, finding: str
) -> None:
    job = Job(tmp_path / "run", fault, layers=4)
    job.until(4.0)
    first = _captured(job, 7)
    report = diagnose([tmp_path / "run/run/traces"])
    steps = {(row.rank, row.step) for row in report.steps}
    assert steps == {(rank, step) for rank in (0, 1) for step in range(first, first + 4)}
    assert report.findings[0].id.startswith(f"{finding}:rank1:")
    # By the ring and by the trace, a step begins at the same moment.
    begun = {int(each["step"]): int(each["real_ns"]) for each in job.said(1, "step_begin")}
    for row in report.steps:
        if row.rank == 1:
            assert row.start_ns == pytest.approx(begun[row.step], abs=1_000_000)
    ends = job.said(1, "capture_end")
    assert [int(each["step"]) for each in ends] == [first + 3, first + 3]
    (path,) = (tmp_path / "run/run/traces/capture-7").glob("rank1-*.json.gz")
    assert ends[1]["c"] == path.stat().st_size
    about = json.loads(gzip.decompress(path.read_bytes()))["stepscope"]
    assert about == {"capture": 7, "first_step": first, "num_steps": 4, "mode": "full", "dropped_step": first}
    flags = {int(each["step"]): int(each["flags"]) for each in job.said(1, "step_begin") if each["flags"]}
    assert {step for step, bits in flags.items() if bits & 2} == set(range(first, first + 4))
    assert {first - 1, first, first + 4} <= {step for step, bits in flags.items() if bits & 4}
    took = job.phase_seconds(1, "profiler")
    assert took[-1] == pytest.approx(float(ends[1]["b"]) / 1e9)


def test_what_was_scraped_beside_a_capture_names_the_hot_device(tmp_path: Path) -> None:
    """The clocks of traces, logs and scrapes are one: together they say why rank 1 is slow."""
    job = Job(tmp_path / "run", "thermal-throttle#1:severe", layers=2)
    scrapes, first = [], 0
    for second in range(22):
        job.until(float(second))
        scrapes.append(f"# scraped_at_ns {CLOCKS.real(job.service.now_ns)}\n{job.service.devices(0)}")
        if second == 6:
            first = _begun(job) + 8
            job.ask("propose", 1, first, 20)
        elif second == 8:
            job.ask("commit", 1, first, 20)
    assert job.answers(1) == [("armed", 1), ("done", 1)]
    (tmp_path / "node0.dcgm.prom").write_text("".join(scrapes))
    report = diagnose(
        [tmp_path / "run/run/traces"],
        telemetry=[tmp_path / "node0.dcgm.prom", tmp_path / "run/telemetry/node0.apps.csv"],
        logs=[tmp_path / "run/logs"],
    )
    assert report.findings[0].id.startswith("thermal-throttle:rank1:")
    assert {each.kind for each in report.inputs} >= {"trace", "telemetry", "log"}


def test_rings_and_logs_alone_are_diagnosed(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", "loader-stall#1:severe@20:60", layers=1)
    job.until(25.0, every=0.5)
    job.service.end(is_complete=True)
    report = diagnose([tmp_path / "run/run"], logs=[tmp_path / "run/logs"])
    assert report.findings[0].id.startswith("input-starvation:rank1:")


def test_a_light_trace_has_the_last_activities_of_the_device_alone(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", layers=4)
    job.until(3.0)
    first = _captured(job, 1, 3, "light")
    (path,) = (tmp_path / "run/run/traces").rglob("rank0-*.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kinds = {event.get("cat") for event in events}
    assert "cpu_op" not in kinds
    assert sum(event.get("cat") in ("kernel", "gpu_memcpy") for event in events) == 200
    steps = {row.step for row in diagnose([tmp_path / "run/run/traces"]).steps}
    assert max(steps) == first + 2


def test_why_a_device_idled_is_told_by_marks_and_not_by_a_light_trace(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", "loader-stall#1:severe", layers=1)
    job.until(6.0, every=0.5)
    _captured(job, 1, 3, "light")
    alone = diagnose([tmp_path / "run/run/traces"])
    (of_one,) = [row for row in alone.accounting if row.rank == 1 and row.scope == "steps"]
    assert of_one.status == "withheld"
    assert of_one.idle.unknown_ns == of_one.idle_ns > 0.2 * of_one.total_ns
    (code,) = {each.code for each in alone.health.issues if each.effect == "withheld"}
    assert code == "light_capture"
    assert any("step rings" in (each.would_settle or "") for each in alone.health.withheld)
    assert not [each for each in alone.findings if each.rule == "input-starvation"]
    assert alone.verdict.class_ == "undecided"
    both = diagnose([tmp_path / "run/run"])
    found = {each.rule: each.subject.ranks for each in both.findings if each.explained_by is None}
    assert found["input-starvation"] == (1,)
    assert both.verdict.class_ == "waiting-for-data"


def test_who_is_asked_too_late_says_so_and_nothing_is_captured(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", layers=1)
    job.until(3.0)
    job.ask("propose", 1, _begun(job) + 1)
    job.until(4.0)
    assert [job.answers(rank) for rank in (0, 1)] == [[("too_late", 1)]] * 2
    first = _begun(job) + 8
    job.ask("propose", 2, first)
    job.until(5.0)
    job.ask("cancel", 2, first)
    job.until(6.0)
    job.ask("commit", 2, first)  # after a cancel a commit is nothing
    job.until(9.0)
    assert job.answers(0)[1:] == [("armed", 2), ("cancelled", 2)]
    first = _begun(job) + 5
    job.ask("propose", 3, first)  # and what nobody commits is not captured
    job.until(12.0)
    assert job.answers(1)[3:] == [("armed", 3), ("cancelled", 3)]
    job.ask("propose", 4, _begun(job) + 4, num=0)
    job.until(13.0)
    assert job.answers(1)[5:] == [("refused", 4)]
    assert job.said(0, "capture_begin") == []
    assert not (tmp_path / "run/run/traces").exists()


def test_a_second_capture_waits_for_the_first_and_a_hang_breaks_one_off(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", layers=1)
    job.until(3.0)
    first = _begun(job) + 4
    job.ask("propose", 1, first, 6)
    job.until(3.4)
    job.ask("commit", 1, first, 6)
    job.until(4.6)
    job.ask("propose", 2, first + 30)
    job.until(5.0)
    assert job.answers(0) == [("armed", 1), ("busy", 2)]
    job.service.switch("hang#0")
    job.until(8.0)
    job.service.switch("hang off")
    job.until(9.5)
    assert job.answers(0)[-1] == job.answers(1)[-1] == ("failed", 1)
    assert not list((tmp_path / "run/run").rglob("*.json.gz"))
