"""Timelines of pipelines: the replay reproduces them, predicts them without a cause, and names the class."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse.pipeline.imbalance import Passes, imbalance
from stepscope.analyse.pipeline.operation import operation
from stepscope.analyse.pipeline.whatif import played, without_ranks
from stepscope.model.table import Timeline
from tests.analyse.pipeline_made import MS, Times, timeline


def slow_worker(replica: int, stage: int, ratio: float) -> object:
    def fault(factor: Times) -> None:
        factor[:, replica, stage] *= ratio

    return fault


def slow_stage(stage: int, ratio: float) -> object:
    def fault(factor: Times) -> None:
        factor[:, :, stage] *= ratio

    return fault


@given(
    seed=st.integers(0, 1000),
    stages=st.integers(1, 4),
    replicas=st.integers(1, 4),
    micro_batches=st.integers(1, 9),
    lengths=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=25, deadline=None)
def test_the_untouched_replay_is_the_record(
    seed: int, stages: int, replicas: int, micro_batches: int, lengths: float
) -> None:
    made = timeline(
        seed, stages=stages, replicas=replicas, micro_batches=micro_batches, steps=2, lengths=lengths
    )
    play = played(made)
    assert play.replayed_ns.tolist() == play.recorded_ns.tolist()
    assert play.tight_ns.tolist() == play.recorded_ns.tolist()  # a made schedule has no pauses
    assert (play.error_share, play.dependencies.num_contradicted, play.dependencies.num_alone) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_a_bad_worker_anywhere_is_found_and_its_gain_is_what_the_run_without_it_takes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    replica, stage = int(draw.integers(4)), int(draw.integers(4))
    bad = played(timeline(seed, fault=slow_worker(replica, stage, 1.8)))
    good = played(timeline(seed))
    rank = replica + 4 * stage
    assert (bad.uneven.class_, bad.uneven.ranks, bad.uneven.stage) == ("bad_worker", (rank,), stage)
    assert bad.uneven.worker_ratio == pytest.approx(1.8, rel=0.02)
    gain = next(each for each in bad.gains if each.remove == "straggler")
    assert gain.ranks == (rank,)
    assert gain.without_ns.mean() == pytest.approx(good.recorded_ns.mean(), rel=0.01)
    other = (rank + 1) % 16
    (none,) = without_ranks(timeline(seed, fault=slow_worker(replica, stage, 1.8)), bad, [other])
    assert bad.won_ns(none) < 0.02 * bad.won_ns(gain)


@pytest.mark.parametrize("seed", range(6))
def test_uneven_sequences_are_not_a_bad_worker(seed: int) -> None:
    play = played(timeline(seed, stages=2, replicas=8, lengths=0.3))
    assert (play.uneven.class_, play.uneven.ranks) == ("sequence_length", ())
    assert play.uneven.correlation is not None
    assert play.uneven.correlation > 0.97
    assert play.slowdown > 1.1


@pytest.mark.parametrize(("stage", "slowdown"), [(0, 1.21), (3, 1.35)])
def test_a_heavy_stage_is_found_with_all_its_replicas(stage: int, slowdown: float) -> None:
    play = played(timeline(3, fault=slow_stage(stage, 2.0)))
    assert (play.uneven.class_, play.uneven.stage, play.uneven.ranks) == ("stage", stage, ())
    assert play.uneven.stage_ratio == pytest.approx(2.0, rel=0.02)
    # Stages of 60 ms, one of 120: the even job has 75 on each. The first stage's work fills its own bubble.
    assert play.slowdown == pytest.approx(slowdown, abs=0.03)


@pytest.mark.parametrize("seed", range(4))
def test_an_even_job_has_no_class_and_no_slowdown(seed: int) -> None:
    play = played(timeline(seed))
    assert (play.uneven.class_, play.uneven.ranks) == ("none", ())
    assert play.slowdown == pytest.approx(1.0, abs=0.03)


def test_a_random_worker_slow_in_each_step_is_no_bad_worker() -> None:
    def fault(factor: Times) -> None:
        draw = np.random.default_rng(9)
        for step in range(len(factor)):
            factor[step, draw.integers(4), draw.integers(4)] *= 1.8

    play = played(timeline(5, steps=12, fault=fault))
    assert play.uneven.ranks == ()
    assert play.uneven.class_ == "unknown"
    assert play.slowdown > 1.2


def test_the_bubble_of_an_even_pipeline_is_what_its_schedule_says() -> None:
    # (stages - 1) / (micro-batches + stages - 1) = 3 / 11 of the passes, less than 3 % of them talk.
    play = played(timeline(0, jitter=0.0))
    assert play.bubble_share == pytest.approx(3 / 11, abs=0.04)


def test_the_critical_path_lies_on_the_bad_worker() -> None:
    play = played(timeline(1, fault=slow_worker(2, 1, 3.0)))
    assert {rank for _, rank, _ in play.path[:2]} == {2 + 4 * 1}
    assert {part for part, _, _ in play.path[:2]} == {"compute.backward", "compute.forward"}
    assert sum(time for _, _, time in play.path) == int(play.tight_ns.sum())


def test_pauses_are_replayed_and_left_out_of_the_even_job() -> None:
    made = timeline(0, stages=1, replicas=1, steps=1, jitter=0.0)
    later = np.arange(len(made)) * 3 * MS
    play = played(dataclasses.replace(made, start_ns=made.start_ns + later))
    assert play.replayed_ns.tolist() == play.recorded_ns.tolist()
    assert int(play.recorded_ns[0] - play.tight_ns[0]) == (len(made) - 1) * 3 * MS
    assert play.slowdown == 1.0


def test_a_clock_that_is_wrong_is_counted_and_the_replay_goes_on() -> None:
    made = timeline(0, steps=1)
    early = np.where(made.rank == 4, made.start_ns - 300 * MS, made.start_ns)
    play = played(dataclasses.replace(made, start_ns=early))
    assert play.dependencies.num_contradicted > 0


def test_a_timeline_without_the_other_side_still_plays() -> None:
    made = timeline(0, steps=1)
    keep = np.flatnonzero(made.stage != 1)
    columns = [f.name for f in dataclasses.fields(Timeline) if f.name not in ("name", "kinds", "num_odd")]
    play = played(dataclasses.replace(made, **{name: getattr(made, name)[keep] for name in columns}))
    assert play.dependencies.num_alone > 0
    assert play.error_share == 0


def passes(forward: list[float], backward: list[float], rank: list[int], stage: list[int]) -> Passes:
    num = len(forward)
    zeros = np.zeros(num, dtype=np.int64)
    return Passes(
        rank=np.array(rank, dtype=np.int64),
        stage=np.array(stage, dtype=np.int64),
        data_parallel_rank=zeros,
        step=zeros,
        micro_batch=np.arange(num, dtype=np.int64),
        forward_ns=np.array(forward, dtype=np.int64),
        backward_ns=np.array(backward, dtype=np.int64),
    )


def test_nothing_to_compare_is_unknown_and_not_even() -> None:
    assert imbalance(passes([], [], [], [])).class_ == "unknown"


def test_one_worker_alone_has_no_ratio() -> None:
    figures = imbalance(passes([10, 10, 10], [20, 20, 20], [0, 0, 0], [0, 0, 0]))
    assert (figures.class_, figures.worker_ratio, figures.stage_ratio) == ("none", None, None)
    assert figures.variation == 0


def test_variation_that_backward_does_not_share_is_not_the_sequences() -> None:
    figures = imbalance(passes([10, 20, 10, 20], [40, 40, 41, 40], [0] * 4, [0] * 4))
    assert (figures.class_, figures.variation) == ("unknown", pytest.approx(1 / 3))


def test_an_unknown_operation_computes_alone() -> None:
    assert (operation("my-kernel").part, operation("my-kernel").peers) == ("compute.other", "none")
    assert operation("experts-all-gather").peers == "replicas"
