"""Each fault changes what it says, and nothing before it begins."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from stepscope.model.error import UsageError
from stepscope.simulate import FAULTS, Chosen, Cluster, Config, parse, truth
from stepscope.simulate.config import START_NS
from stepscope.simulate.fault import SEVERITIES, WITH_TELEMETRY
from stepscope.simulate.row import ROW_EXCHANGE, ROW_GC, ROW_KERNEL, ROW_MARK, Row


def run(*faults: str, **given: Any) -> Config:
    """A small run of four ranks."""
    given = {"ranks": 4, "steps": 6, "layers": 3, "buckets": 3} | given
    return Config(faults=tuple(parse(fault) for fault in faults), **given)


def kernel_ns(rows: list[Row]) -> int:
    return sum(row.end_ns - row.start_ns for row in rows if row.kind == ROW_KERNEL)


def last_ranks(found: dict[str, Any], **wanted: Any) -> Counter[int]:
    rows = [row for row in found["collectives"] if all(row[key] == value for key, value in wanted.items())]
    return Counter(row["last_rank"] for row in rows)


def test_a_straggler_takes_its_factor_longer_and_the_others_wait_for_it() -> None:
    healthy, slow = Cluster(run()), Cluster(run("straggler#2:medium"))
    ratio = [kernel_ns(slow.rows(rank)) / kernel_ns(healthy.rows(rank)) for rank in range(4)]
    assert ratio == pytest.approx([1, 1, 1.3, 1], abs=1e-3)
    found = truth(run("straggler#2:medium"))
    assert last_ranks(found) == {2: len(found["collectives"])}
    for row in found["collectives"]:
        assert row["wait_ns"][2] == 0
        assert min(wait for rank, wait in enumerate(row["wait_ns"]) if rank != 2) > 0
    assert found["faults"][0]["ranks"] == [2]
    assert found["faults"][0]["reason"] == "slower_kernels"
    assert found["step_ns"] / found["step_ns_without"] == pytest.approx(1.3, abs=0.03)


@pytest.mark.parametrize("name", ["straggler-python", "moving-straggler"])
def test_a_rank_that_sleeps_is_late_by_as_much(name: str) -> None:
    config = run(f"{name}:medium")
    found = truth(config)
    late = found["faults"][0]["ranks"] if name == "straggler-python" else [0, 1, 2, 3]
    lateness = 50e6 if name == "moving-straggler" else 0.3 * config.step_ns
    for step in range(config.steps):
        who = step % 4 if name == "moving-straggler" else late[0]
        assert set(last_ranks(found, step=step)) == {who}
        first = next(row for row in found["collectives"] if row["step"] == step)
        waits = [wait for rank, wait in enumerate(first["wait_ns"]) if rank != who]
        assert min(waits) == pytest.approx(lateness, rel=0.05)
    assert found["step_ns"] - found["step_ns_without"] == pytest.approx(lateness, rel=0.1)


@pytest.mark.parametrize(("severity", "times"), [("mild", 2), ("medium", 4), ("severe", 10)])
def test_a_slow_link_takes_its_factor_longer(severity: str, times: float) -> None:
    healthy, slow = truth(run(jitter=0.0)), truth(run(f"slow-link:{severity}", jitter=0.0))
    pairs = zip(healthy["collectives"], slow["collectives"], strict=True)
    assert [b["transfer_ns"] / a["transfer_ns"] for a, b in pairs] == pytest.approx(
        [times] * len(slow["collectives"]), rel=1e-6
    )


def test_a_wrong_transport_has_the_bandwidth_that_it_says() -> None:
    for row in truth(run("wrong-transport:medium", jitter=0.0))["collectives"]:
        seconds = 1.5 * row["bytes"] / 6e9  # 2 · (4 − 1) / 4 of the message
        assert row["transfer_ns"] == pytest.approx(1e9 * seconds + 8000, abs=2)


def test_the_device_idles_for_the_share_that_a_late_loader_says() -> None:
    for severity, share in zip(SEVERITIES, FAULTS["loader-stall"].magnitudes, strict=True):
        found = truth(run(f"loader-stall:{severity}", ranks=1, steps=12, layers=12))
        steady = found["steps"][4:]
        without = sum(row["dur_ns_without"] for row in steady)
        assert 1 - without / sum(row["dur_ns"] for row in steady) == pytest.approx(share, abs=0.04)


def test_lengths_change_the_work_and_not_the_kernels() -> None:
    config = run("sequence-imbalance:severe", micro_batches=2, steps=3)
    rows = Cluster(config).rows(0)
    kernels = [row.what for row in rows if row.kind == ROW_KERNEL and "flash_fwd" in row.what.name]
    assert len({kernel.name for kernel in kernels}) == 1
    grids = {kernel.launch for kernel in kernels}
    assert len(grids) > 2
    per_block = [kernel.dur_ns / blocks(kernel.launch) for kernel in kernels]
    # Attention grows with the square of the length, and its grid with the length.
    assert max(per_block) / min(per_block) > 1.3
    healthy = Cluster(run(micro_batches=2, steps=3)).rows(0)
    assert Counter(type(r.what) for r in rows) == Counter(type(r.what) for r in healthy)


def blocks(launch: str) -> int:
    return int(launch.partition('"grid": [')[2].partition(",")[0])


def test_an_imbalanced_stage_is_the_last() -> None:
    config = run("stage-imbalance", pipeline_stages=2)
    healthy, slow = Cluster(run(pipeline_stages=2)), Cluster(config)
    ratio = [kernel_ns(slow.rows(rank)) / kernel_ns(healthy.rows(rank)) for rank in range(4)]
    assert ratio == pytest.approx([1, 1, 1.4, 1.4], abs=1e-3)
    assert truth(config)["faults"][0]["ranks"] == [2, 3]


def test_experts_with_more_tokens_do_more_work() -> None:
    config = run("expert-imbalance#1:severe", model="moe")
    healthy, uneven = Cluster(run(model="moe")), Cluster(config)
    ratio = [kernel_ns(uneven.rows(rank)) / kernel_ns(healthy.rows(rank)) for rank in range(4)]
    assert ratio[1] > 1.2
    assert max(ratio[0], ratio[2], ratio[3]) < 1
    found = truth(config)
    counted = last_ranks(found, kind="all_to_allv")
    # Every second exchange brings back what the experts made.
    assert counted[1] >= sum(counted.values()) / 2


def test_garbage_is_collected_in_the_forward_pass_of_different_steps() -> None:
    cluster = Cluster(run("gc", steps=8))
    steps: dict[int, list[int]] = defaultdict(list)
    for rank, rows in cluster.each():
        begun = [row for row in rows if row.kind == ROW_MARK and str(row.what).startswith("ProfilerStep#")]
        for row in rows:
            if row.kind == ROW_GC:
                assert row.track == 0
                assert row.end_ns - row.start_ns >= 100_000_000
                steps[rank] += [
                    n for n, mark in enumerate(begun) if mark.start_ns < row.start_ns < mark.end_ns
                ]
    assert {rank: len(found) for rank, found in steps.items()} == {0: 1, 1: 1, 2: 1, 3: 1}
    assert len({found[0] for found in steps.values()}) == 4


@pytest.mark.parametrize(("name", "mark"), [("checkpoint", "save_checkpoint"), ("eval", "evaluate")])
def test_a_phase_is_marked_in_every_fifth_step(name: str, mark: str) -> None:
    rows = Cluster(run(name, ranks=1, steps=11)).rows(0)
    marks = [row for row in rows if row.kind == ROW_MARK and row.what == mark]
    steps = [row for row in rows if row.kind == ROW_MARK and str(row.what).startswith("ProfilerStep#")]
    inside = [
        n
        for n, step in enumerate(steps)
        if any(step.start_ns < row.start_ns and row.end_ns < step.end_ns for row in marks)
    ]
    assert inside == [4, 9]


WAY_FOR: dict[str, dict[str, Any]] = {
    "stage-imbalance": {"pipeline_stages": 2},
    "expert-imbalance": {"model": "moe"},
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_changes_nothing_before_its_first_step(name: str) -> None:
    found = truth(run(f"{name}:severe@3:9", steps=10, **WAY_FOR.get(name, {})))
    before = found["steps"][:3]
    assert [row["dur_ns"] for row in before] == [row["dur_ns_without"] for row in before]
    longer = [row["dur_ns"] - row["dur_ns_without"] for row in found["steps"][3:]]
    # Kernels of a few microseconds make a short step: what grows is the time between them.
    assert (max(longer) > 0) == (name != "launch-bound")
    assert found["faults"][0]["steps"] == [3, 9]


@pytest.mark.parametrize("name", sorted(set(FAULTS) - {"launch-bound"}))
def test_a_severer_fault_costs_more(name: str) -> None:
    taken = [
        truth(run(f"{name}:{severity}", steps=9, **WAY_FOR.get(name, {})))["step_ns"]
        for severity in SEVERITIES
    ]
    assert taken == sorted(taken)
    assert taken[2] > taken[0]


def test_a_fault_stops_with_its_last_step() -> None:
    found = truth(run("straggler-python#1:severe@2:3", steps=7))
    longer = [row["dur_ns"] / row["dur_ns_without"] for row in found["steps"]]
    assert [ratio > 1.5 for ratio in longer] == [False, False, True, True, False, False, False]


def test_a_pipeline_runs_one_forward_one_backward_and_meets_in_several_groups() -> None:
    cluster = Cluster(run(pipeline_stages=2, ranks=4, steps=1, micro_batches=4))
    names = {m.exchange.group.name: m.exchange.group.ranks for m in cluster.meetings.by_key.values()}
    assert names == {"1": (0, 1), "2": (2, 3), "3": (0, 2), "4": (1, 3)}
    sends = [m for m in cluster.meetings.by_key.values() if m.exchange.source is not None]
    assert len(sends) == 2 * 4 * 2  # replicas · micro-batches · directions
    rows = cluster.rows(0)
    order = [row.what[0].kind for row in rows if row.kind == ROW_EXCHANGE and row.what[0].source is not None]
    assert order == ["send", "send", "recv", "send", "recv", "send", "recv", "recv"]


def test_a_pipeline_has_the_bubble_that_its_schedule_leaves() -> None:
    config = run(pipeline_stages=2, ranks=2, steps=1, layers=12, micro_batches=4, jitter=0.0)
    mine = [
        [row for row in rows if row.kind == ROW_KERNEL and "Adam" not in row.what.name]
        for _, rows in Cluster(config).each()
    ]
    span = max(row.end_ns for rows in mine for row in rows) - START_NS
    for rows in mine:
        # (stages − 1) of (micro-batches + stages − 1) are empty: a fifth.
        assert 1 - kernel_ns(rows) / span == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("gc", Chosen("gc")),
        ("gc:mild", Chosen("gc", "mild")),
        ("loader-stall#2", Chosen("loader-stall", rank=2)),
        ("straggler#3:severe@4:9", Chosen("straggler", "severe", 3, 4, 9)),
        ("host-sync@0:0", Chosen("host-sync", first=0, last=0)),
    ],
)
def test_a_fault_is_read_as_it_is_written(text: str, chosen: Chosen) -> None:
    assert parse(text) == chosen
    assert parse(str(chosen)) == chosen


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not understood; give NAME"),
        ("gc:", "is not understood"),
        ("gc@3", "is not understood"),
        ("gc@5:3", "give @A:B with A no larger than B"),
        ("gc:bad", "take mild, medium or severe"),
        ("lightning", "no such fault; take one of straggler, "),
        ("unfused", "is not simulated yet; take one of"),
        *((name, "comes with simulated telemetry") for name in WITH_TELEMETRY),
    ],
)
def test_what_is_no_fault_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(text)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ranks": 0}, "ranks 0: must be between 1 and 4096"),
        ({"gpu": "abacus"}, "gpu abacus: is not simulated; take one of A100, "),
        ({"model": "mlp"}, "model mlp: is not simulated; take one of transformer, moe, resnet"),
        ({"pipeline_stages": 3}, "4 ranks cannot be shared out evenly"),
        ({"pipeline_stages": 4, "layers": 2}, "the model has 2 layers"),
        ({"pipeline_stages": 2, "model": "resnet"}, "resnet is not cut into stages"),
        ({"step_ms": 1.0, "layers": 12}, r"a batch of one takes \d+ ms"),
        ({"faults": (Chosen("stage-imbalance"),)}, "add --pipeline-stages 2 or more"),
        ({"faults": (Chosen("expert-imbalance"),)}, "take --model moe"),
        ({"faults": (Chosen("straggler"),), "ranks": 1}, "ask for --ranks 2 or more"),
        ({"faults": (Chosen("straggler", rank=4),)}, "the last rank is 3"),
        ({"faults": (Chosen("slow-link", rank=1),)}, "is on no single rank; leave out #1"),
        ({"faults": (Chosen("gc", first=6, last=7),)}, "the last step is 5"),
        ({"jitter": -0.1}, "jitter -0.1: must be between 0 and 0.3"),
    ],
)
def test_a_run_that_cannot_be_is_refused_when_it_is_made(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Config(**({"ranks": 4, "steps": 6, "layers": 3} | given))
