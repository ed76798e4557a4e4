"""The worked cases of many ranks, with their exact answers (microseconds in the comments)."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope import offline
from stepscope.analyse.joined import duration_split
from tests.analyse.build import BASE_NS, Build
from tests.job.made import collective, diagnose, ranks, write


def straggler_of(report):
    return [(row.rank, row.lateness_ns, row.reason) for row in report.stragglers]


def offsets(report):
    return {row.rank: row.offset_ns for row in report.clocks.ranks}


def waits(report):
    return {
        row.rank: (row.communication.transfer_ns, row.communication.wait_ns)
        for row in report.accounting
        if row.communication is not None
    }


def test_6_waiting_is_not_transfer(tmp_path):
    a, b = ranks(2)
    for each, start in ((a, 500), (b, 800)):
        each.kernel("gemm", 0, start - 10, launched=(-20, -15))
        collective(each, start, 1000)
    report = diagnose(tmp_path, [a, b])
    assert waits(report) == {0: (200_000, 300_000), 1: (200_000, 0)}
    assert [row.rank for row in report.stragglers] == [1]
    (row,) = report.collectives
    assert (row.transfer_ns, row.wait_ns, row.last_rank, row.count) == (400_000, 300_000, 1, 1)
    assert offsets(report) == {0: 0, 1: 0}


def three_all_reduces(shift_us, base_shift_ns=0, shift_written=True):
    a, b = ranks(2)
    if base_shift_ns:
        b = Build(rank=1, world_size=2, base_ns=BASE_NS + base_shift_ns)
    for n in range(3):
        at = 2000 * n
        for each, start, moved in ((a, 500, shift_us), (b, 800, -base_shift_ns // 1000)):
            each.kernel(
                "gemm", at + moved, at + start - 10 + moved, launched=(at + moved - 20, at + moved - 15)
            )
            collective(each, at + start + moved, at + 1000 + moved)
    return [a, b]


def test_7_an_offset_of_the_clock_is_found_and_changes_no_answer(tmp_path):
    report = diagnose(tmp_path, three_all_reduces(400))
    clocks = {row.rank: row for row in report.clocks.ranks}
    assert clocks[0].offset_ns - clocks[1].offset_ns == pytest.approx(400_000, abs=1_000)
    assert report.clocks.reference_rank == 1
    assert clocks[0].drift_ppm is None
    assert waits(report) == {0: (600_000, 900_000), 1: (600_000, 0)}
    assert [row.rank for row in report.stragglers] == [1]


def test_7_one_operation_that_does_not_synchronise_tells_no_offset(tmp_path):
    a, b = ranks(2)
    for each, start in ((a, 500), (b, 800)):
        each.kernel("gemm", 0, start - 10, launched=(-20, -15))
        collective(each, start, 1000, "ncclDevKernel_Broadcast_RING_LL")
    report = diagnose(tmp_path, [a, b])
    assert [(row.method, row.offset_ns) for row in report.clocks.ranks] == [("none", None), ("none", None)]
    assert report.stragglers == ()
    assert report.lateness.status == "withheld"
    assert any(w.what == "straggler" for w in report.health.withheld)


def test_8_base_times_may_differ(tmp_path):
    report = diagnose(tmp_path, three_all_reduces(0, base_shift_ns=5_000_000_000))
    assert offsets(report) == {0: 0, 1: 0}
    assert waits(report) == {0: (600_000, 900_000), 1: (600_000, 0)}
    assert [row.rank for row in report.stragglers] == [1]


def test_9_an_extra_collective_at_the_edge_stays_alone(tmp_path):
    a, b = ranks(2)
    for end in (110, 1000, 2000, 3000):
        collective(a, end - 500 if end > 200 else 60, end)
    for end in (1000, 2000, 3000):
        collective(b, end - 200, end)
    report = diagnose(tmp_path, [a, b])
    (row,) = report.collectives
    assert (row.count, row.num_unmatched, row.skew_ns) == (3, 1, 300_000)
    assert offsets(report) == {0: 0, 1: 0}


@pytest.mark.parametrize("number", [2, 64])
def test_10_nobody_is_late(tmp_path, number):
    rng = np.random.default_rng(number)
    made = ranks(number)
    for each in made:
        for n in range(4):
            jitter = float(rng.integers(0, 1001)) / 1000
            collective(each, 1000 * n + 500 + jitter, 1000 * n + 700)
    report = diagnose(tmp_path, made)
    assert report.stragglers == ()
    assert report.lateness.status == "ok"
    assert report.lateness.noise_ns >= 10_000


def test_11_without_clocks_the_shortest_is_the_transfer():
    ms = 1_000_000
    durations = np.array([[3, 1, 2, 4, 1.5], [1, 3, 2.5, 2, 4]]) * ms
    durations = durations.astype(np.int64)
    before = durations.copy()
    transfer, wait = duration_split(durations)
    assert transfer.sum() == 7.5 * ms
    assert wait.sum(axis=1).tolist() == [4 * ms, 5 * ms]
    assert np.array_equal(durations, before)


def training(late, steps=4, where="after forward", number=2, period_us=5_000):
    """Steps of forward 1 ms, backward 3 ms and an all-reduce; `late(rank, step)` is a pause in milliseconds.

    The pause lies `before` the step, at its `start` or `after forward`; everybody waits for the latest.
    """
    made = ranks(number)
    clock = 0.0
    for step in range(steps):
        pauses = [1000.0 * late(rank, step) for rank in range(number)]
        gone = clock + 4_200 + max(pauses) + 100
        for rank, (b, pause) in enumerate(zip(made, pauses, strict=True)):
            at = clock
            begin = at + pause if where == "before" else at
            if where == "before" and pause:
                b.frame("train.py(10): wait_for_something", at, begin)
            if where == "start" and pause:
                b.frame("train.py(12): prepare_something", begin, begin + pause)
            forward = begin + (pause if where == "start" else 0)
            b.op("aten::linear", forward + 10, forward + 60)
            b.kernel("gemm_forward", forward + 50, forward + 1050, launched=(forward + 30, forward + 40))
            after = forward + 1060
            if where == "after forward" and pause:
                b.frame("train.py(20): sleep", after, after + pause)
                after += pause
            b.op("autograd::engine::evaluate_function: MmBackward0", after + 10, after + 60)
            b.kernel("gemm_backward", after + 50, after + 3050, launched=(after + 30, after + 40))
            b.op("c10d::allreduce_", after + 70, after + 100)
            came = after + 3060
            collective(b, came, gone, launched=(after + 80, after + 90))
            b.call("cudaDeviceSynchronize", after + 110, gone + 10)
            b.step(step, begin, gone + 20)
            del rank
        clock = gone + 20
    return made


@pytest.mark.parametrize(
    ("where", "reasons"),
    [("after forward", {"python"}), ("start", {"preprocess", "python"}), ("before", {"python"})],
)
def test_31_32_the_same_lateness_in_three_places_names_the_same_rank(tmp_path, where, reasons):
    report = diagnose(tmp_path, training(lambda rank, step: 50 * (rank == 1), where=where))
    (row,) = report.stragglers
    assert row.rank == 1
    assert row.reason in reasons
    assert row.persistence == "persistent"
    assert row.lateness_ns == pytest.approx(50_000_000, rel=0.02)
    assert row.cost_ns == pytest.approx(4 * 50_000_000, rel=0.02)
    periods = np.diff([s.start_ns for s in report.steps if s.rank == 0])
    assert (np.abs(periods - 54_300_000) < 1_000_000).all()
    wait = {r.rank: r.communication.wait_ns for r in report.accounting if r.scope == "steps"}
    assert wait[0] == pytest.approx(4 * 50_000_000, rel=0.02)
    assert wait[1] == 0
    assert not [f for f in report.findings if f.rule == "recomputation"]


def test_31_the_function_that_slept_is_named(tmp_path):
    report = diagnose(tmp_path, training(lambda rank, step: 50 * (rank == 1)))
    assert "sleep" in report.stragglers[0].culprit


def test_33_a_lateness_that_moves_names_both(tmp_path):
    report = diagnose(tmp_path, training(lambda rank, step: 50 * (step % 2 == rank), steps=12))
    assert sorted(row.rank for row in report.stragglers) == [0, 1]
    assert {row.persistence for row in report.stragglers} == {"moving"}
    assert sum(row.cost_ns for row in report.stragglers) == pytest.approx(12 * 50_000_000, rel=0.02)


def test_34_the_victim_stays_longest(tmp_path):
    made = ranks(4)
    for each, took in zip(made, (10, 10, 10, 2), strict=True):
        collective(each, 12_000 - 1000 * took, 12_000)
    report = diagnose(tmp_path, made)
    assert [row.rank for row in report.stragglers] == [3]
    assert {r: w for r, (_, w) in waits(report).items()} == {0: 8_000_000, 1: 8_000_000, 2: 8_000_000, 3: 0}
    assert report.collectives[0].last_rank == 3


def test_one_step_tells_no_persistence(tmp_path):
    report = diagnose(tmp_path, training(lambda rank, step: 50 * (rank == 1), steps=1))
    assert [(row.rank, row.persistence) for row in report.stragglers] == [(1, "unknown")]


def test_20_what_is_claimed_of_communication_is_never_more_than_was_exposed(tmp_path):
    """1,149.68 ms exposed, all of it in collectives of which 1,117.28 ms are waiting: one budget."""
    made = ranks(2)
    for each, start in zip(made, (1_000, 1_118_280), strict=True):
        each.step(0, 0, 1_150_700)
        each.op("aten::mm", 1, 5)
        each.kernel("gemm", 10, start, launched=(2, 4))
        collective(each, start, 1_150_680, launched=(6, 8))
    report = diagnose(tmp_path, made)
    row = next(r for r in report.accounting if r.rank == 0 and r.scope == "steps")
    assert row.communication_exposed_ns == 1_149_680_000
    assert row.communication.wait_ns == 1_117_280_000
    for rank in (0, 1):
        exposed = next(
            r.communication_exposed_ns for r in report.accounting if r.rank == rank and r.scope == "steps"
        )
        claimed = [
            finding.cost.time_ns
            for finding in report.findings
            if finding.cost is not None
            and finding.cost.of == "communication_exposed"
            and finding.subject.ranks == (rank,)
        ]
        assert sum(claimed) <= exposed


def test_35_a_file_that_two_ranks_wrote_does_not_stop_the_others(tmp_path):
    made = training(lambda rank, step: 50 * (rank == 1), number=4)
    folder = write(tmp_path, made[:3])
    first, second = made[3].write(), made[2].write()
    cut = int(len(first) * 0.4)
    (folder / "rank3.json").write_text(first[:cut] + second)
    report = offline.diagnose(folder)
    assert [row.rank for row in report.stragglers] == [1]
    (issue,) = [i for i in report.health.issues if i.code == "mixed_writers"]
    assert "byte" in issue.detail


@pytest.mark.parametrize(
    ("number", "steps", "late", "persistence"),
    [
        (2, 10, (7,), "unknown"),
        (4, 10, (3, 5), "unknown"),
        (2, 10, (3, 5, 8), "persistent"),
        (4, 20, (3, 9, 15), "persistent"),
        (2, 12, (4, 5, 6, 7, 8, 9), "persistent"),
        (2, 20, tuple(range(0, 20, 2)), "persistent"),
        (8, 6, (2, 3, 4), "persistent"),
    ],
)
def test_a_rank_late_by_whole_steps_is_named_in_exactly_those(tmp_path, number, steps, late, persistence):
    """However few: one step in ten, or every second one."""
    report = diagnose(
        tmp_path, training(lambda r, s: 50 * (r == 1 and s in late), steps=steps, number=number)
    )
    (row,) = report.stragglers
    assert (row.rank, row.late_steps, row.reason, row.persistence) == (1, late, "python", persistence)
    assert row.cost_ns == pytest.approx(len(late) * 50_000_000, rel=0.02)


def test_lateness_that_goes_round_three_ranks_names_all(tmp_path):
    report = diagnose(tmp_path, training(lambda r, s: 50 * (s % 3 == r), steps=10, number=3))
    assert sorted(row.rank for row in report.stragglers) == [0, 1, 2]
    assert {row.persistence for row in report.stragglers} == {"moving"}


def test_two_ranks_that_are_late_side_by_side_are_both_named(tmp_path):
    report = diagnose(tmp_path, training(lambda r, s: 20 * (r in (1, 2)), steps=10, number=6))
    assert sorted(row.rank for row in report.stragglers) == [1, 2]
    slow = [f for f in report.findings if f.rule == "slow-rank"]
    assert slow[0].subject.ranks == (1, 2)
    assert slow[0].cost.time_ns == pytest.approx(10 * 20_000_000, rel=0.05)


def test_steps_that_were_not_asked_for_are_nobodys_lateness(tmp_path):
    made = training(lambda r, s: 50 * (r == 1 and s >= 6), steps=12)
    whole = diagnose(tmp_path / "a", made)
    assert whole.stragglers[0].late_steps == (6, 7, 8, 9, 10, 11)
    early = diagnose(tmp_path / "b", made, steps=(0, 5))
    assert early.stragglers == ()
    late = diagnose(tmp_path / "c", made, steps=(6, 11))
    assert late.stragglers[0].late_steps == (6, 7, 8, 9, 10, 11)
    assert late.stragglers[0].share <= 1


def test_a_late_rank_that_was_not_given_is_no_slow_transfer(tmp_path):
    made = training(lambda r, s: 50 * (r == 2), steps=6, number=4)
    folder = write(tmp_path / "run", made)
    (folder / "rank2.json").unlink()
    report = offline.diagnose(folder)
    fired = {finding.rule for finding in report.findings}
    assert not fired & {"slow-transfer", "waiting-for-peers", "slow-rank"}
    assert report.stragglers == ()
    assert report.lateness.status == "degraded"
    assert not {out.rule for out in report.ruled_out} & {"slow-rank", "slow-transfer"}
    (issue,) = [i for i in report.health.issues if i.code == "rank_missing"]
    assert "without rank 2" in issue.detail
    row = next(r for r in report.accounting if r.scope == "steps")
    assert row.communication.wait_ns is None
