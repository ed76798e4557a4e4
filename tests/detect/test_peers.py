"""Ranks and GPUs against their peers, over a stream."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from stepscope.detect.peers import Peers, PeerVerdicts, PeerWatch, peer_scores
from stepscope.model.sample import F64

SECOND = 10**9
REAL = Path(__file__).resolve().parents[2].parent / "shared/data/labelled/alibaba-step-times"


def matrix(num_ranks: int, num_steps: int) -> F64:
    draw = np.random.default_rng(7)
    together = 1 + 0.05 * draw.standard_normal(num_steps)
    return together * (1 + 0.02 * draw.standard_normal((num_ranks, num_steps)))


def told_of(x: F64) -> tuple[Peers, list[PeerVerdicts]]:
    peers, clean = Peers(len(x)), np.ones(len(x), dtype=bool)
    return peers, [peers.push(x[:, n], clean, n * SECOND) for n in range(x.shape[1])]


def test_the_rank_that_becomes_12_percent_slower_is_the_only_one_named() -> None:
    x = matrix(8, 300)
    x[5, 200:] *= 1.15
    _, told = told_of(x)
    assert not any(each.is_straggler.any() for each in told[:200])
    assert np.flatnonzero(told[230].is_straggler).tolist() == [5]
    assert told[230].excess[5] == pytest.approx(0.15, abs=0.03)
    assert 198 <= told[230].onset[5] <= 203


def test_a_stage_that_is_always_20_percent_longer_is_no_straggler_and_said_to_be_so_always() -> None:
    x = matrix(8, 300)
    x[7] *= 1.2
    _, told = told_of(x)
    assert not any(each.is_straggler.any() for each in told)
    assert np.flatnonzero(told[-1].is_always).tolist() == [7]


def test_steps_that_are_slow_for_all_are_no_news() -> None:
    x = matrix(8, 300)
    x[:, 200:] *= 1.5
    assert not any(each.is_straggler.any() for each in told_of(x)[1])


def test_where_most_ranks_leave_at_once_none_is_named_and_all_learn_anew() -> None:
    x = matrix(5, 300)
    x[3:, 150:] *= 0.5  # to the two, three others are slow; to the three, two
    _, told = told_of(x)
    assert [n for n, each in enumerate(told) if each.is_vetoed] == [155]
    assert not any(each.is_straggler.any() for each in told)
    assert np.isfinite(told[-1].normal).all()


@pytest.mark.skipif(not REAL.is_dir(), reason="the public step times are not here")
@pytest.mark.parametrize(("job", "workers"), [(1, [6]), (3, [6, 7, 8, 9])])
def test_the_stragglers_that_the_public_study_names_are_named_and_nobody_else(
    job: int, workers: list[int]
) -> None:
    times: dict[int, list[float]] = {}
    with (REAL / f"job_{job}_norm.csv").open() as file:
        for row in csv.DictReader(file):
            times.setdefault(int(float(row["worker"])), []).append(float(row["batch_time_norm"]))
    num = min(len(each) for each in times.values())
    _, told = told_of(np.array([times[worker][:num] for worker in sorted(times)]))
    named = np.any([each.is_straggler for each in told], axis=0)
    assert np.flatnonzero(named).tolist() == workers


def test_scores_are_among_devices_of_one_group_and_need_four() -> None:
    values = np.array([0.90, 0.91, 0.89, 0.90, 0.60, 0.50, 0.52])
    score, effect = peer_scores(values, np.array([0, 0, 0, 0, 0, 1, 1]), is_ratio=True)
    assert effect[4] == pytest.approx(-0.30)
    assert score[4] == pytest.approx(-0.30 / 0.014826, rel=0.01)
    assert np.isnan(score[5:]).all()
    assert np.abs(score[:4]).max() < 2


def test_a_gpu_unlike_its_peers_is_told_after_30_seconds_and_not_before() -> None:
    watch = PeerWatch(np.zeros(8, dtype=np.int64), is_ratio=False)
    values = np.array([400.0, 402.0, 398.0, 401.0, 399.0, 400.0, 403.0, 250.0])
    told = {}
    for second in range(60):
        now = values.copy()
        if second == 15:
            now[7] = np.nan  # a missing point breaks nothing
        if second == 40:
            now[7] = 400.0  # it was back once
        told[second] = watch.push(now, second * SECOND)
    assert [second for second in told if told[second][0].any()] == list(range(30, 40))
    assert np.flatnonzero(told[35][0]).tolist() == [7]
    assert told[35][2][7] == 0
