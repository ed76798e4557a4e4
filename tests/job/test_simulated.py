"""Simulated jobs whose fault is known: who is named, why, since when, and what removing it would win."""

from __future__ import annotations

import json

import pytest

from stepscope import offline
from stepscope.model.report import decode, encode
from stepscope.simulate import Config, parse, write


def made(tmp_path, fault=None, **kw):
    """(report, truth) of a simulated job."""
    given = {"ranks": 4, "steps": 10, "layers": 4, "seed": 5, "model": "transformer", **kw}
    config = Config(**given, faults=() if fault is None else (parse(fault),))
    write(config, tmp_path / "run")
    report = offline.diagnose(tmp_path / "run")
    assert decode(encode(report)) == report
    return report, json.loads((tmp_path / "run.truth.json").read_text())


def rules(report):
    """Rules that nothing explains, costliest first."""
    return [f.rule for f in report.findings if f.explained_by is None]


def won(report, cause):
    """Predicted step over the true step without the fault is `predicted_ns / truth`."""
    return next(each.predicted_ns for each in report.replay.what_if if each.remove == cause)


@pytest.mark.parametrize("model", ["transformer", "moe", "resnet"])
def test_of_a_healthy_job_nobody_is_named(tmp_path, model):
    report, _ = made(tmp_path, model=model, clock_offset_ms=5.0, clock_drift_ppm=20.0)
    assert report.stragglers == ()
    assert report.lateness.status == "ok"
    assert not {"slow-rank", "slow-transfer", "waiting-for-peers"} & set(rules(report))
    assert report.imbalance.class_ == "none"


def test_a_rank_with_slower_kernels(tmp_path):
    report, truth = made(tmp_path, "straggler#2:medium", clock_offset_ms=5.0)
    (row,) = report.stragglers
    assert (row.rank, row.reason, row.persistence, row.is_confirmed) == (
        2,
        "slower_kernels",
        "persistent",
        True,
    )
    assert row.late_steps == tuple(range(10))
    assert report.imbalance.class_ == "bad_worker"
    assert rules(report)[0] == "slow-rank"
    assert won(report, "straggler") == pytest.approx(truth["step_ns_without"], rel=0.05)
    # What it costs is what the step lost.
    lost = truth["step_ns"] - truth["step_ns_without"]
    assert row.cost_ns / 10 == pytest.approx(lost, rel=0.2)


def test_a_rank_whose_python_sleeps_for_some_steps(tmp_path):
    report, truth = made(tmp_path, "straggler-python#1:medium@3:6")
    (row,) = report.stragglers
    assert (row.rank, row.reason, row.late_steps) == (1, "python", (3, 4, 5, 6))
    card = report.cards[0]
    assert card.onset_step == 3
    # What Python did is not recorded: it may be the host that is slow.
    assert (report.findings[0].rule, report.findings[0].confidence) == ("slow-rank", "low")
    assert "nothing recorded says why, and the counters of the ranks' hosts" in report.verdict.text
    assert won(report, "straggler") == pytest.approx(truth["step_ns_without"], rel=0.05)


def test_lateness_that_moves_over_all_ranks(tmp_path):
    report, truth = made(tmp_path, "moving-straggler", steps=12, layers=None)
    assert [row.rank for row in sorted(report.stragglers, key=lambda row: row.rank)] == [0, 1, 2, 3]
    assert {row.persistence for row in report.stragglers} == {"moving"}
    total = sum(row.cost_ns for row in report.stragglers)
    assert total / 12 == pytest.approx(truth["step_ns"] - truth["step_ns_without"], rel=0.15)
    assert won(report, "straggler") == pytest.approx(truth["step_ns_without"], rel=0.05)


def test_one_rank_that_waits_for_its_loader(tmp_path):
    report, truth = made(tmp_path, "loader-stall#3:severe")
    (row,) = report.stragglers
    assert (row.rank, row.reason) == (3, "input")
    assert rules(report)[0] == "input-starvation"
    assert report.findings[0].subject.ranks == (3,)
    assert won(report, "input") == pytest.approx(truth["step_ns_without"], rel=0.05)


def test_waiting_for_ranks_that_are_kept_in_turns_is_not_the_first_finding(tmp_path):
    """Nobody is named as late, for it is another in each step: what keeps them is found on them."""
    report, _ = made(tmp_path, "cpu-contention:severe", ranks=2)
    assert report.stragglers == ()
    assert rules(report)[0] == "launch-bound"
    waits = [each for each in report.findings if each.rule == "waiting-for-peers"]
    assert waits
    assert {each.explained_by.split(":")[0] for each in waits} == {"launch-bound"}


def test_a_late_rank_whose_reason_is_found_on_it_is_explained_by_it(tmp_path):
    """The host keeps it by launches for the larger half, and by Python that no rule of its own reaches."""
    report, _ = made(tmp_path, "cpu-contention:severe", model="moe", seed=6)
    assert [(row.rank, row.reason) for row in report.stragglers] == [(1, "launch")]
    assert rules(report)[0] == "launch-bound"
    late = next(each for each in report.findings if each.rule == "slow-rank")
    assert late.explained_by == "launch-bound:rank1:device1"


@pytest.mark.parametrize("fault", ["slow-link:severe", "wrong-transport:medium"])
def test_slow_transfers_are_nobodys_lateness(tmp_path, fault):
    report, _ = made(tmp_path, fault)
    assert report.stragglers == ()
    assert rules(report)[0] == "slow-transfer"


def test_sequences_of_different_length(tmp_path):
    report, _ = made(tmp_path, "sequence-imbalance:severe", ranks=8, steps=12)
    assert report.imbalance.class_ == "sequence_length"
    assert {row.reason for row in report.stragglers} == {"more_work"}
    assert rules(report)[0] == "sequence-imbalance"


def test_experts_with_different_load(tmp_path):
    report, truth = made(tmp_path, "expert-imbalance#2:severe", model="moe")
    assert [row.rank for row in report.stragglers] == [2]
    assert report.imbalance.class_ == "expert"
    assert rules(report)[0] == "expert-imbalance"
    # The hot expert's longer transfers stay in the replay, and tokens go back to the others in the real run.
    assert won(report, "straggler") == pytest.approx(truth["step_ns_without"], rel=0.15)


def test_a_heavy_stage(tmp_path):
    report, _ = made(tmp_path, "stage-imbalance:severe", ranks=4, pipeline_stages=2, micro_batches=4, steps=6)
    assert report.imbalance.class_ == "stage"
    assert report.imbalance.stage == 1
    assert {(row.rank, row.persistence) for row in report.stragglers} == {(2, "stage"), (3, "stage")}


def test_50_ppm_over_a_minute(tmp_path):
    """Five collectives a second for a minute."""
    report, truth = made(
        tmp_path, ranks=3, steps=300, layers=1, step_ms=200.0, buckets=1, clock_drift_ppm=50.0
    )
    clocks = {row.rank: row for row in report.clocks.ranks}
    base = {row["rank"]: row["drift_ppm"] for row in truth["ranks"]}
    reference = report.clocks.reference_rank
    for rank, row in clocks.items():
        assert (row.drift_ppm or 0.0) == pytest.approx(base[rank] - base[reference], abs=2)


@pytest.mark.parametrize(
    ("fault", "rank", "reason"),
    [
        ("straggler#1:severe", 1, "slower_kernels"),
        ("straggler-python#5:severe", 5, "python"),
        ("loader-stall#0:severe", 0, "input"),
    ],
)
def test_a_bad_worker_of_a_pipeline(tmp_path, fault, rank, reason):
    """Where everybody waits for everybody, it is the one that needs longer for itself than its replicas."""
    report, truth = made(tmp_path, fault, ranks=8, pipeline_stages=2, steps=8)
    assert [(row.rank, row.reason, row.stage) for row in report.stragglers] == [(rank, reason, rank // 4)]
    lost = 1 - truth["step_ns_without"] / truth["step_ns"]
    assert report.stragglers[0].share == pytest.approx(lost, abs=0.08)
    assert not [f for f in report.findings if f.rule == "stage-imbalance"]


def test_in_a_sound_pipeline_nobody_is_named(tmp_path):
    report, _ = made(tmp_path, ranks=8, pipeline_stages=2, steps=8)
    assert report.stragglers == ()


def test_what_is_won_is_not_spent_on_getting_ahead(tmp_path):
    """Hosts that were held up run ahead first: that takes a step, and no longer."""
    report, truth = made(tmp_path, "loader-stall#1:severe", ranks=8, layers=None, steps=12, seed=3)
    assert won(report, "input") == pytest.approx(truth["step_ns_without"], rel=0.02)
