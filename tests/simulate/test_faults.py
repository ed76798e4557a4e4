"""Each fault changes what it says, and nothing before it begins."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from stepscope.model.error import UsageError
from stepscope.simulate import FAULTS, Chosen, Cluster, Config, parse, truth
from stepscope.simulate.config import START_NS
from stepscope.simulate.fault import SEVERITIES
from stepscope.simulate.row import ROW_CALL, ROW_EXCHANGE, ROW_GC, ROW_KERNEL, ROW_MARK, Row


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
    assert (max(longer, default=0) > 0) == (FAULTS[name].is_costly and name != "launch-bound")
    assert found["faults"][0]["steps"] == ([3, 9] if name != "hang" else [3, 3])


@pytest.mark.parametrize(
    "name", [row.name for row in FAULTS.values() if row.is_costly and row.name != "launch-bound"]
)
def test_a_severer_fault_costs_more(name: str) -> None:
    taken = [
        truth(run(f"{name}:{severity}", steps=9, **WAY_FOR.get(name, {})))["step_ns"]
        for severity in SEVERITIES
    ]
    assert taken == sorted(taken)
    assert taken[2] > taken[0]


def test_a_lower_clock_slows_what_computes_and_not_what_moves_memory() -> None:
    healthy = Cluster(run(jitter=0.0, ranks=1))
    for fault in ("thermal-throttle#0:0.75", "clock-lock:0.75", "power-brake:0.75"):
        slow = Cluster(run(fault, jitter=0.0, ranks=1))
        pairs = [
            (a, (b.end_ns - b.start_ns) / (a.end_ns - a.start_ns))
            for a, b in zip(healthy.rows(0), slow.rows(0), strict=True)
            if a.kind == ROW_KERNEL
        ]
        products = [ratio for row, ratio in pairs if "nvjet" in row.what.name]
        moving = [ratio for row, ratio in pairs if "elementwise" in row.what.name]
        assert products == pytest.approx([1 / 0.75] * len(products), abs=1e-3)
        assert moving == pytest.approx([1.0] * len(moving), abs=1e-3)


def test_a_device_that_may_draw_less_has_the_clock_that_its_power_allows() -> None:
    # (0.6 - 0.11) / (0.92 - 0.11) of the dynamic power, which grows with the 2.4th power of the clock.
    healthy, slow = Cluster(run(ranks=1)), Cluster(run("power-cap:0.6", ranks=1))
    product = [next(r for r in c.rows(0) if "nvjet" in str(r.what)) for c in (healthy, slow)]
    first, other = (row.end_ns - row.start_ns for row in product)
    assert first / other == pytest.approx((0.49 / 0.81) ** (1 / 2.4), abs=1e-3)


def test_every_tenth_batch_is_late_by_as_much_as_it_says() -> None:
    found = truth(run("page-cache-miss:200", steps=30, layers=12))
    longer = [(row["dur_ns"] - row["dur_ns_without"]) / 1e6 for row in found["steps"]]
    assert [n for n, ms in enumerate(longer) if ms > 100] == [4, 14, 24]
    assert [longer[n] for n in (4, 14, 24)] == pytest.approx([200] * 3, rel=0.15)


def test_a_cache_that_is_too_small_costs_ever_more() -> None:
    found = truth(run("page-cache-thrash:0.38", steps=40, layers=12))
    idle = [1 - row["dur_ns_without"] / row["dur_ns"] for row in found["steps"]]
    assert idle[-1] == pytest.approx(0.38, abs=0.04)
    assert idle[20] == pytest.approx(0.2, abs=0.04)
    assert idle[3] < 0.08


def test_a_run_that_hangs_ends_with_the_step_before() -> None:
    found = truth(run("hang#2@3:5"))
    assert [row["step"] for row in found["steps"]] == [0, 1, 2]
    assert found["faults"][0]["ranks"] == [2]
    assert [len(rank["step_end_ns"]) for rank in found["ranks"]] == [3] * 4
    assert Cluster(run("hang")).config.num_played == 3  # of six


def test_kernels_of_another_way_to_write_the_model() -> None:
    names = {
        fault: Counter(
            row.what.name for row in Cluster(run(fault, ranks=1, steps=1)).rows(0) if row.kind == ROW_KERNEL
        )
        for fault in ("gc", "unfused:8", "no-tensor-core:1", "no-tensor-core:0.1", "misaligned")
    }
    share = {
        fault: sum(n for name, n in found.items() if "elementwise" in name) / found.total()
        for fault, found in names.items()
    }
    assert share["gc"] < 0.2 < 0.6 < share["unfused:8"]
    tensor = {fault: [n for n in found if "nvjet" in n or "flash" in n] for fault, found in names.items()}
    assert (tensor["no-tensor-core:1"], bool(tensor["no-tensor-core:0.1"])) == ([], True)
    plain = sum(n for name, n in names["no-tensor-core:0.1"].items() if "sgemm" in name)
    products = sum(n for name, n in names["gc"].items() if "nvjet" in name)
    assert (plain, products) == (2 * 3, 13 * 3)  # of thirteen linear layers, with two products backward
    assert any("ldg1" in name for name in names["misaligned"])
    assert not any("nvjet" in name for name in names["misaligned"])


def test_an_allocator_that_finds_nothing_frees_while_the_device_waits() -> None:
    rows = Cluster(run("fragmentation", ranks=1)).rows(0)
    calls = [row for row in rows if row.kind == ROW_CALL and row.what in ("cudaFree", "cudaMalloc")]
    assert Counter(row.what for row in calls) == {"cudaFree": 6 * 3 * 6, "cudaMalloc": 3 * 6}
    work = [row for row in rows if row.kind == ROW_KERNEL]
    for call in calls[::7]:
        assert not any(row.start_ns < call.end_ns and call.start_ns < row.end_ns for row in work)


def test_only_the_steps_asked_for_are_traced_and_the_device_is_idle_before_them() -> None:
    rows = Cluster(run(ranks=2, trace_steps=(2, 3))).rows(0)
    marks = [row.what for row in rows if str(row.what).startswith("ProfilerStep#")]
    assert marks == ["ProfilerStep#2", "ProfilerStep#3"]
    calls = {row.correlation for row in rows if row.kind == ROW_CALL}
    assert all(row.correlation in calls for row in rows if row.kind in (ROW_KERNEL, ROW_EXCHANGE))


def test_gradients_that_do_not_overlap_go_out_after_the_backward_pass() -> None:
    rows = Cluster(run(ranks=2, steps=1, overlap=False, exchange_scale=2.0)).rows(0)
    last = max(row.end_ns for row in rows if row.kind == ROW_KERNEL and "Adam" not in row.what.name)
    exchanges = [row for row in rows if row.kind == ROW_EXCHANGE]
    assert min(row.start_ns for row in exchanges) >= last
    whole = Cluster(run(ranks=2, steps=1)).rows(0)
    moved = [sum(r.what[0].moved_bytes for r in got if r.kind == ROW_EXCHANGE) for got in (rows, whole)]
    assert moved[0] == pytest.approx(2 * moved[1], rel=1e-6)


def test_a_sharded_update_scatters_gradients_and_gathers_parameters() -> None:
    rows = Cluster(run(ranks=4, steps=1, shard=True)).rows(0)
    kinds = [row.what[0].kind for row in rows if row.kind == ROW_EXCHANGE]
    assert Counter(kinds) == {"_reduce_scatter_base": 3, "_allgather_base": 1}
    updates = [
        sum(row.end_ns - row.start_ns for row in got if "Adam" in str(row.what))
        for got in (rows, Cluster(run(ranks=4, steps=1)).rows(0))
    ]
    assert updates[0] == pytest.approx(updates[1] / 4, rel=0.05)


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
        ("loader-stall#1:0.38@2:4", Chosen("loader-stall", "medium", 1, 2, 4, 0.38)),
        ("page-cache-miss:200", Chosen("page-cache-miss", magnitude=200.0)),
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
        ("gc:-1", "is not understood"),
        ("gc:1.", "is not understood"),
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
        ({"faults": (Chosen("loader-stall", magnitude=1.5),)}, "must be above 0 and below 0.97 of a step"),
        ({"trace_steps": (2, 6)}, "trace-steps 2:6: the run has steps 0 to 5"),
        ({"jitter": -0.1}, "jitter -0.1: must be between 0 and 0.3"),
    ],
)
def test_a_run_that_cannot_be_is_refused_when_it_is_made(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Config(**({"ranks": 4, "steps": 6, "layers": 3} | given))
