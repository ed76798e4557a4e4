"""Published tables with a known answer: step times of two jobs, timelines of two pipelines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stepscope.analyse.pipeline.whatif import Played, played, without_stage
from stepscope.model.report import Report, decode, encode
from stepscope.model.table import Timeline
from stepscope.offline import diagnose
from stepscope.sources.catalog import timeline_table


@pytest.fixture(scope="module")
def labelled(shared_data: Path) -> Path:
    return shared_data / "labelled"


def step_times(labelled: Path, job: int) -> Report:
    return diagnose(labelled / "alibaba-step-times" / f"job_{job}_norm.csv")


def test_of_job_1_worker_6_is_slow_for_a_while_and_nobody_else(labelled: Path) -> None:
    report = step_times(labelled, 1)
    (slow,) = report.stragglers
    assert (slow.rank, slow.num_steps, slow.num_late, slow.persistence) == (6, 300, 12, "persistent")
    # Steps 181 to 193 of 300; one in ten was recorded.
    assert (slow.late_steps[0], slow.late_steps[-1]) == (1811, 1941)
    assert slow.lateness_share == pytest.approx(0.53, abs=0.02)
    assert slow.lateness_ns is None  # the table has no unit
    assert report.lateness is not None
    assert report.lateness.noise_share == pytest.approx(0.046, abs=0.002)
    assert report.lateness.why is not None
    assert report.lateness.why.startswith("workers 0, 1, 2 are always a little slower")
    assert report.verdict.text == (
        "Other stall: worker 6 takes 53.2 % longer than its peers in 12 of 300 steps (1811 to 1941); "
        "noise 4.6 %."
    )


def test_of_job_3_workers_6_to_9_become_slow(labelled: Path) -> None:
    report = step_times(labelled, 3)
    assert sorted(each.rank for each in report.stragglers) == [6, 7, 8, 9]
    assert all(each.late_steps[0] > 2100 for each in report.stragglers)
    assert report.health.verdict == "ok"
    assert decode(encode(report)) == report


class Case:
    """A timeline, its replay, and the figures that its publishers computed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.table: Timeline = timeline_table.read(str(folder / f"trace-{name}.parquet"))
        self.play: Played = played(self.table)
        self.result = json.loads((folder / f"result-{name}.json").read_text())
        self.stage = json.loads((folder / f"ms-{name}.json").read_text())

    def published(self, key: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([self.result[key][str(step)] for step in self.play.steps.tolist()])


@pytest.fixture(scope="module")
def cases(labelled: Path) -> dict[str, Case]:
    return {name: Case(labelled / "bytedance-straggler", name) for name in ("AR", "SE")}


@pytest.mark.parametrize(("name", "slowdown"), [("AR", 1.961), ("SE", 1.540)])
def test_the_replay_agrees_with_the_published_slowdown(
    cases: dict[str, Case], name: str, slowdown: float
) -> None:
    case = cases[name]
    play = case.play
    assert play.slowdown == pytest.approx(slowdown, abs=0.001)
    assert play.slowdown == pytest.approx(case.result["blocking_slowdown"], rel=0.007)
    # The untouched replay is the record, to the resolution of its 32-bit seconds.
    assert play.error_share < 2e-5
    np.testing.assert_allclose(play.replayed_ns / 1e9, case.published("step_t_base"), rtol=2e-5)
    # Without pauses, even, and the slowdown of each step.
    np.testing.assert_allclose(play.tight_ns / 1e9, case.published("step_t_nodelay"), rtol=0.008)
    np.testing.assert_allclose(play.even_ns / 1e9, case.published("step_t_noblk"), rtol=0.009)
    np.testing.assert_allclose(
        play.tight_ns / play.even_ns, case.published("blocking_step_slowdown"), rtol=0.007
    )
    assert (play.dependencies.num_contradicted, play.dependencies.num_alone) == (0, 0)


@pytest.mark.parametrize("name", ["AR", "SE"])
def test_what_an_even_last_stage_wins_agrees_with_the_published_share(
    cases: dict[str, Case], name: str
) -> None:
    case = cases[name]
    won = case.play.tight_ns - without_stage(case.table, case.play, int(case.table.stage.max()))
    share = won.sum() / (case.play.tight_ns - case.play.even_ns).sum()
    assert share == pytest.approx(case.stage["Ms"], abs=0.005)


def test_one_bad_worker_is_named_with_its_place_and_gain(labelled: Path) -> None:
    report = diagnose(labelled / "bytedance-straggler" / "trace-AR.parquet")
    (slow,) = report.stragglers
    assert (slow.rank, slow.data_parallel_rank, slow.stage, slow.persistence) == (0, 0, 0, "persistent")
    assert (slow.num_late, slow.num_steps, slow.reason) == (44, 44, "slower_kernels")
    assert report.imbalance is not None
    assert (report.imbalance.class_, report.imbalance.ranks) == ("bad_worker", (0,))
    assert report.replay is not None
    first = report.replay.what_if[0]
    assert (first.remove, first.ranks) == ("straggler", (0,))
    # Published: 46.34 s become 23.45 s without it.
    assert first.predicted_ns / 1e9 == pytest.approx(23.45, rel=0.02)
    assert report.verdict.class_ == "computing-slowly"
    assert "rank 0 (replica 0, stage 0) takes 2.36 times as long" in report.verdict.text


def test_uneven_sequences_name_nobody(labelled: Path) -> None:
    report = diagnose(labelled / "bytedance-straggler" / "trace-SE.parquet")
    assert report.stragglers == ()
    assert report.imbalance is not None
    assert (report.imbalance.class_, report.imbalance.ranks) == ("sequence_length", ())
    assert report.imbalance.forward_backward_correlation == pytest.approx(0.993, abs=0.001)
    assert report.imbalance.micro_batch_variation == pytest.approx(0.179, abs=0.002)
    assert report.replay is not None
    assert report.replay.what_if[0].remove == "imbalance"
    assert report.verdict.class_ == "waiting-for-communication"
    assert decode(encode(report)) == report
