"""Rules of communication, from a trace to a finding, each beside what looks like its cause and is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.model import report
from stepscope.model.feature import Facts
from stepscope.rules import load_catalog
from stepscope.rules.rule import Finding, judge
from tests.analyse.build import Build
from tests.diagnose.made import costs, finding, said, values

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
"""Its link carries 450 GB/s in one direction."""
RULES = {
    "communication-bound",
    "exposed-communication",
    "tiny-collectives",
    "sync-every-micro-step",
    "waiting-for-peers",
}


def reduced(build: Build, start: float, end: float, launch: float, nelems: int | None) -> Build:
    """An all-reduce of so many 4-byte numbers over 8 ranks, on a stream of its own."""
    sizes = {} if nelems is None else {"In msg nelems": nelems, "Out msg nelems": nelems}
    return build.kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        start,
        end,
        launched=(launch, launch + 0.5),
        stream=20,
        **{"Collective name": "allreduce", "dtype": "Float", "Group size": 8, **sizes},
    )


def stepping(collectives: list[tuple[float, float, int | None]], *, length: int = 100) -> Build:
    """Four steps: a kernel up to the first collective, then those, (start, end, numbers) in µs of the
    step."""
    build = Build(world_size=8, deviceProperties=H100)
    for number in range(4):
        at = length * number
        build = build.step(number, at, at + length).op("aten::mm", at, at + 4)
        build = build.kernel("gemm", at + 2, at + collectives[0][0], launched=(at + 1, at + 2))
        for place, (start, end, nelems) in enumerate(collectives):
            build = reduced(build, at + start, at + end, at + 4 + place * 0.5, nelems)
    return build


def told(build: Build, folder: Path) -> set[str]:
    return RULES & set(costs(said(build, folder)))


def test_transfers_near_the_link_are_bound_by_volume(tmp_path: Path) -> None:
    """4.63 MB over 8 ranks in 30 µs: 1.75 · 4.63 MB / 30 µs = 270 GB/s, six tenths of the link."""
    answer = said(stepping([(70, 100, 1_157_143)]), tmp_path)
    found = finding(answer, "communication-bound")
    assert costs(answer)["communication-bound"] == pytest.approx(0.30, abs=0.005)
    assert values(found)["bus_bandwidth_link_share"] == pytest.approx(0.60, abs=0.001)
    assert answer.verdict.class_ == "waiting-for-communication"
    assert RULES & set(costs(answer)) == {"communication-bound"}


@pytest.mark.parametrize("nelems", [300_000, None])
def test_far_below_the_link_or_at_an_unknown_rate_nothing_is_said_of_volume(
    nelems: int | None, tmp_path: Path
) -> None:
    """1.2 MB in the same time are 70 GB/s, 16 % of the link: a peer may be late."""
    assert told(stepping([(70, 100, nelems)]), tmp_path) == {"exposed-communication"}


@pytest.mark.parametrize(("transfer", "fires"), [(0.06, False), (0.11, True), (None, True)])
def test_volume_is_the_limit_by_transfers_and_not_by_those_who_come_late(
    transfer: float | None, fires: bool
) -> None:
    """12 % in collectives at six tenths of the link, 6 % once all have come: half was waiting."""
    rule = load_catalog()["communication-bound"]
    known = {"exposed_communication_share": 0.12, "bus_bandwidth_link_share": 0.6}
    if transfer is not None:
        known["transfer_exposed_share"] = transfer
    of = {feature.name: feature for feature in rule.features()}
    judged = judge(rule, Facts({of[name]: value for name, value in known.items()}))
    assert isinstance(judged, Finding) == fires
    if isinstance(judged, Finding):
        asked = "transfer_exposed_share" in {clause.feature.name for clause in judged.unknown}
        assert asked == (transfer is None)


def test_a_row_of_small_collectives_is_latency(tmp_path: Path) -> None:
    """Twenty of 4 kB, each of 1.5 µs, from 60 to 100 of a step of 100 µs: 30 % in which only they run."""
    small = [(60 + 2 * n, 61.5 + 2 * n, 1_000) for n in range(20)]
    answer = said(stepping(small), tmp_path)
    found = finding(answer, "tiny-collectives")
    assert costs(answer)["tiny-collectives"] == pytest.approx(0.30, abs=0.005)
    assert values(found)["small_collectives_per_step"] == 20
    assert RULES & set(costs(answer)) == {"tiny-collectives"}


def test_a_small_collective_that_takes_long_waits_for_a_peer(tmp_path: Path) -> None:
    """4 kB in 300 µs: no latency takes that long."""
    answer = said(stepping([(700, 1000, 1_000)], length=1_000), tmp_path)
    assert RULES & set(costs(answer)) == {"exposed-communication"}


def reducing(rank: int, computes: float, ends: float) -> Build:
    """One of two ranks. Four steps of ten times 300 µs: so much computing, then 4 kB up to an instant of the
    300."""
    build = Build(world_size=2, rank=rank, pid=100 + rank, deviceProperties=H100)
    build = build.kernel("gemm", -10, 0, launched=(-20, -19))
    for number in range(4):
        build = build.step(number, 3000 * number, 3000 * number + 3000)
        for place in range(10):
            at = 3000 * number + 300 * place
            build = build.op("aten::mm", at + 1, at + 3)
            build = build.kernel("gemm", at + 5, at + 5 + computes, launched=(at + 1.2, at + 2))
            build = reduced(build, at + 5 + computes, at + ends, at + 3.6, 1_000)
    return build


@pytest.mark.parametrize(
    ("computes", "ends", "told"),
    [
        # 165 µs beside 10: the one waits for the other.
        ((100, 255), (270, 270), {0: {"waiting-for-peers"}, 1: set()}),
        # 40 µs each: latency.
        ((200, 205), (245, 250), {0: {"tiny-collectives"}, 1: {"tiny-collectives"}}),
    ],
)
def test_small_collectives_of_several_ranks_are_held_against_each_other(
    computes: tuple[float, float], ends: tuple[float, float], told: dict[int, set[str]], tmp_path: Path
) -> None:
    files = []
    for rank in (0, 1):
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(reducing(rank, computes[rank], ends[rank]).write())
    answer = stepscope.diagnose(files)
    found = {rank: {f.rule for f in answer.findings if f.subject.ranks == (rank,)} & RULES for rank in (0, 1)}
    assert found == told


@pytest.mark.parametrize(("computes", "is_latency"), [(100, False), (230, True)])
def test_from_one_rank_long_small_collectives_may_be_a_late_peer(
    computes: float, is_latency: bool, tmp_path: Path
) -> None:
    """165 µs for 4 kB may be either, 35 µs is the latency: only then a gain is promised."""
    answer = said(reducing(0, computes, 270), tmp_path)
    found = finding(answer, "tiny-collectives")
    assert values(found)["small_collective_median_ns"] == pytest.approx((265 - computes) * 1000)
    assert found.confidence == ("medium" if is_latency else "low")
    assert any(remedy.gain_share for remedy in found.remedies) is is_latency
    assert any(open_.rule == "tiny-collectives" for open_ in answer.undecided) is not is_latency


def test_small_collectives_that_computing_hides_cost_nothing(tmp_path: Path) -> None:
    build = stepping([(98 + 0.1 * n, 98.05 + 0.1 * n, 1_000) for n in range(20)])
    assert told(build, tmp_path) == set()


def accumulating(synced: tuple[int, ...], *, sizes: bool = True) -> Build:
    """Three updates of four micro-steps of 100 µs: forward, backward of 30 µs each, then 20 µs in which
    those in `synced` reduce 4 MB, and the optimizer after the last."""
    build = Build(world_size=8, deviceProperties=H100)
    for update in range(3):
        begin = 400 * update
        build = build.step(update, begin, begin + 400)
        for micro in range(4):
            at = begin + 100 * micro
            build = build.note("DistributedDataParallel.forward", at, at + 6).op("aten::mm", at + 1, at + 4)
            build = build.kernel("gemm", at + 3, at + 80, launched=(at + 2, at + 3))
            if micro in synced:
                build = reduced(build, at + 80, at + 100, at + 8, 1_000_000 if sizes else None)
        build = build.note("Optimizer.step#AdamW.step", begin + 320, begin + 325)
    return build


def test_a_reduction_after_every_micro_step_is_three_too_many(tmp_path: Path) -> None:
    """Four of 20 µs in each 400: three of them, 15 %, are for nothing."""
    answer = said(accumulating((0, 1, 2, 3)), tmp_path)
    found = finding(answer, "sync-every-micro-step")
    assert costs(answer)["sync-every-micro-step"] == pytest.approx(0.15, abs=0.005)
    assert values(found)["gradient_syncs_per_update"] == 4
    assert any(remedy.patch and "no_sync" in remedy.patch.after for remedy in found.remedies)
    # What is left of the communication is the fourth reduction, and a consequence.
    rest = next(f for f in answer.findings if f.rule in ("communication-bound", "exposed-communication"))
    assert rest.cost is not None
    assert rest.cost.share == pytest.approx(0.05, abs=0.005)
    assert rest.explained_by == found.id
    assert rest.cost.overlaps_with == (found.id,)


def test_one_reduction_for_an_update_is_what_there_must_be(tmp_path: Path) -> None:
    answer = said(accumulating((3,)), tmp_path)
    assert "sync-every-micro-step" not in costs(answer)


def test_a_forward_pass_that_exchanges_is_no_gradient(tmp_path: Path) -> None:
    """80 MB within every forward pass, as of a model that is split, beside 4 MB of gradients for an
    update."""
    build = accumulating((3,))
    for at in range(0, 1200, 100):
        build = reduced(build, at + 82, at + 98, at + 5, 20_000_000)
    assert "sync-every-micro-step" not in costs(said(build, tmp_path))


def test_a_metric_of_every_micro_step_is_no_gradient(tmp_path: Path) -> None:
    """4 kB after every forward pass, that waits 18 µs for a peer, beside 4 MB of gradients for an update."""
    build = accumulating((3,))
    for at in range(0, 1200, 100):
        build = reduced(build, at + 81, at + 99, at + 9, 1_000)
    answer = said(build, tmp_path)
    assert RULES & set(costs(answer)) == {"tiny-collectives"}


def is_open(answer: report.Report) -> bool:
    return any(open_.rule == "sync-every-micro-step" for open_ in answer.undecided)


def test_what_another_wrapper_reduces_is_not_known(tmp_path: Path) -> None:
    """No row of DistributedDataParallel: FSDP reduces after every micro-step or not, nobody knows."""
    answer = said(stepping([(70, 100, 300_000)]), tmp_path)
    assert "sync-every-micro-step" not in costs(answer)
    assert is_open(answer)


def test_a_run_that_reduces_nothing_is_clear(tmp_path: Path) -> None:
    build = Build(deviceProperties=H100)
    for number in range(4):
        at = 100 * number
        build = build.step(number, at, at + 100).op("aten::mm", at, at + 4)
        build = build.kernel("gemm", at + 2, at + 80, launched=(at + 1, at + 2))
    assert not is_open(said(build, tmp_path))


@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize("synced", [(3,), (0, 1, 2, 3)])
def test_statistics_of_batch_normalisation_are_no_gradients(
    synced: tuple[int, ...], sizes: bool, tmp_path: Path
) -> None:
    """Ten of 2 kB in every micro-step, 10 µs in all, beside 4 MB of gradients of 20 µs: with sizes only the
    20 µs count; without, nobody knows which is which."""
    build = accumulating(synced, sizes=sizes)
    for at in range(0, 1200, 100):
        build = build.op("SyncBatchNormBackward", at + 6.5, at + 9.9)
        for number in range(10):
            build = reduced(build, at + 70 + number, at + 71 + number, at + 7, 512 if sizes else None)
    answer = said(build, tmp_path)
    told = costs(answer).get("sync-every-micro-step")
    if sizes and synced != (3,):
        assert told == pytest.approx(0.15, abs=0.005)
    else:
        assert told is None
    assert is_open(answer) is not sizes


@pytest.mark.parametrize("synced", [(3,), (0, 1, 2, 3)])
def test_without_sizes_the_reducers_own_rows_tell(synced: tuple[int, ...], tmp_path: Path) -> None:
    build = accumulating(synced, sizes=False)
    for update in range(3):
        for micro in synced:
            at = 400 * update + 100 * micro
            build = build.op("torch::distributed::reducer::mul_out", at + 7, at + 7.5)
    told = costs(said(build, tmp_path)).get("sync-every-micro-step")
    assert told == (None if synced == (3,) else pytest.approx(0.15, abs=0.005))
