"""Who is late where hosts are noisy: one rank in a part of the run, ranks by turns, and nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stepscope.analyse.joined import join
from stepscope.analyse.marked import analyse_marks
from tests.analyse.marked.made import MS, job, judged, named


def noisy(seed, num=400, late=range(0), late_ms=20.0, tail_ms=3.0):
    """Two ranks of 4.6 ms a step; in a quarter of its steps each pauses for an exponential time, and rank 1
    prepares its batch in the steps `late`."""
    random = np.random.default_rng(seed)
    ranks = []
    for rank in range(2):
        pause = random.exponential(0.08, num) + random.exponential(tail_ms, num) * (random.random(num) < 0.25)
        own = late_ms + np.abs(random.normal(0, 1, num))
        ranks.append(
            [
                f"d0.1 {f'_{own[n]:.3f} ' if rank and n in late else ''}f{1 + pause[n]:.3f} b3 o0.5"
                for n in range(num)
            ]
        )
    return ranks


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("num", "late"), [(400, range(100, 300)), (200, range(50, 150))])
def test_a_rank_that_is_late_in_half_of_the_steps_is_that_rank_and_noise_is_nobody(seed, num, late):
    told = judged(job(noisy(seed, num, late), jitter_ns=MS))
    (row,) = told.stragglers
    assert (row.rank, row.persistence, row.reason) == (1, "persistent", "preprocess")
    assert row.num_late == pytest.approx(len(late), rel=0.1)
    assert told.imbalance.class_ == "bad_worker"
    # Half of the steps are quiet: their pauses are the noise, not the 20 ms of the others.
    assert told.lateness.noise_ns < 10 * MS


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tail_ms", [1.0, 3.0, 10.0])
def test_pauses_of_a_busy_host_name_no_rank(seed, tail_ms):
    told = judged(job(noisy(seed, tail_ms=tail_ms), jitter_ns=MS))
    assert told.stragglers == ()
    assert [rule for rule, _ in named(told) if rule == "slow-rank"] == []


def test_ranks_that_are_late_by_turns_for_the_same_time_are_both_named():
    ranks = [[f"d0.1 f1 {'_20 ' if n % 2 == rank else ''}b3 o0.5" for n in range(200)] for rank in range(2)]
    told = judged(job(ranks, jitter_ns=MS))
    assert [(row.rank, row.persistence) for row in told.stragglers] == [(1, "moving"), (0, "moving")] or [
        (row.rank, row.persistence) for row in told.stragglers
    ] == [(0, "moving"), (1, "moving")]


def tables(ranks):
    return [peer for each in analyse_marks(ranks).analyses for peer in each.peers]


def drifting_ends():
    """Rank 1 leaves each meeting up to 3 ms after rank 0, ever later: to a fit a clock that was set."""
    ranks = job([["d1 f1 b3 o0.5"] * 100] * 2)
    of = ranks[1].phases
    late = of.is_sync * (of.step * 30_000)
    return [ranks[0], replace(ranks[1], phases=replace(of, end_ns=of.end_ns + late))]


def test_ranks_of_one_boot_have_one_clock_whatever_their_ends_say():
    clocks = join(tables(drifting_ends())).clocks
    assert clocks.offset_ns.tolist() == [0, 0]
    assert clocks.drift.tolist() == [0, 0]
    assert clocks.violation_ns <= clocks.allowed_violation_ns
    assert clocks.error_ns.tolist() == [0, 0]


def test_without_a_boot_the_same_ends_contradict_one_clock():
    unknown = [replace(each, identity=replace(each.identity, boot_id=None)) for each in drifting_ends()]
    clocks = join(tables(unknown)).clocks
    assert clocks.violation_ns > clocks.allowed_violation_ns


def test_clocks_of_one_boot_are_told_as_given_and_their_meetings_contradict_nothing():
    told = judged(drifting_ends())
    assert {(row.method, row.offset_ns) for row in told.clocks.ranks} == {("given", 0)}
    assert told.lateness.status == "ok"
    assert "clock_conflict" not in {issue.code for issue in told.health.issues}


def test_a_meeting_that_one_rank_left_early_is_none_and_the_others_stay():
    ranks = job([["d1 f1 b3 o0.5"] * 100] * 2)
    of = ranks[0].phases
    # In step 7 rank 1 comes 50 ms after rank 0 has left: an exception, or a rank that joins.
    early = of.is_sync & (of.step == 7)
    cut = replace(of, end_ns=np.where(early, of.start_ns - 50 * MS, of.end_ns))
    cut = replace(cut, start_ns=np.where(early, cut.end_ns, cut.start_ns))
    joined = join(tables([replace(ranks[0], phases=cut), ranks[1]]))
    assert joined.clocks.violation_ns == 0
    assert len(joined.heads) == 99


def test_ranks_of_two_hosts_have_one_offset_a_host():
    ahead = [0, 0, 7_000_000, 7_000_000]
    ranks = job([["d1 f1 b3 o0.5"] * 50] * 4, apart_ns=ahead, hosts=["a", "a", "b", "b"])
    clocks = join(tables(ranks)).clocks
    assert np.diff(clocks.offset_ns).tolist() == [0, 7_000_000, 0]
    assert clocks.is_shared.tolist() == [True, True, False, False]
