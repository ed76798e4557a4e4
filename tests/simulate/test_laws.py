"""What holds in every simulated run, whatever is asked for."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.simulate import Cluster, Config, parse, simulate, truth
from stepscope.simulate.clock import Clock, clock_of
from stepscope.simulate.config import START_NS
from stepscope.simulate.group import COMPUTE_STREAM
from stepscope.simulate.player import QUEUE_DEPTH
from stepscope.simulate.row import ROW_CALL, ROW_COPY, ROW_EXCHANGE, ROW_KERNEL, Row

DEVICE = (ROW_KERNEL, ROW_COPY, ROW_EXCHANGE)
FAULTS = (
    "straggler", "straggler-python:mild", "moving-straggler", "loader-stall", "loader-stall#0", "host-sync",
    "pageable-copy", "launch-bound", "slow-link", "wrong-transport", "gc", "checkpoint:mild@0:4", "eval@0:4",
)  # fmt: skip


@st.composite
def configs(draw: st.DrawFn) -> Config:
    model = draw(st.sampled_from(["transformer", "resnet", "moe"]))
    ranks, stages = draw(st.sampled_from([(2, 1), (3, 1), (2, 2), (4, 2), (6, 3)]))
    if model == "resnet":
        stages = 1
    names = draw(st.lists(st.sampled_from(FAULTS), max_size=2, unique=True))
    names += ["sequence-imbalance"] if model != "resnet" and draw(st.booleans()) else []
    names += ["expert-imbalance"] if model == "moe" and draw(st.booleans()) else []
    names += ["stage-imbalance"] if stages > 1 and draw(st.booleans()) else []
    return Config(
        seed=draw(st.integers(0, 5)),
        ranks=ranks,
        model=model,
        steps=draw(st.sampled_from([1, 2, 5])),
        layers=draw(st.integers(max(stages, 1), 3)),
        buckets=draw(st.integers(1, 4)),
        pipeline_stages=stages,
        micro_batches=draw(st.sampled_from([None, 1, 2, 5])),
        jitter=draw(st.sampled_from([0.0, 0.01, 0.1])),
        tail=draw(st.sampled_from([0.0, 0.05])),
        run_ahead=draw(st.integers(0, 2)),
        faults=tuple(parse(name) for name in names),
    )


laws = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


@laws
@given(config=configs())
def test_causes_come_before_effects(config: Config) -> None:
    cluster = Cluster(config)
    everyone = {rank: list(rows) for rank, rows in cluster.each()}
    for rows in everyone.values():
        no_work_starts_before_its_launch(rows)
        a_stream_does_one_thing_after_another(rows)
        rows_of_a_thread_nest(rows)
        a_wait_for_the_device_ends_after_its_work(rows)
    nobody_leaves_an_exchange_before_all_have_come(everyone)


def no_work_starts_before_its_launch(rows: list[Row]) -> None:
    calls = {row.correlation: row for row in rows if row.kind == ROW_CALL}
    assert len(calls) == sum(row.kind == ROW_CALL for row in rows)
    work = [row for row in rows if row.kind in DEVICE]
    assert len({row.correlation for row in work}) == len(work)
    for row in work:
        launch = calls[row.correlation]
        assert launch.start_ns < row.start_ns
        assert launch.external == row.external
        assert row.end_ns > row.start_ns


def a_stream_does_one_thing_after_another(rows: list[Row]) -> None:
    last: dict[int, int] = {}
    for row in rows:
        if row.kind in DEVICE:
            assert row.start_ns >= last.get(row.track, 0)
            last[row.track] = row.end_ns


def rows_of_a_thread_nest(rows: list[Row]) -> None:
    for thread in (0, 1):
        open_: list[int] = []
        mine = [row for row in rows if row.kind not in DEVICE and row.track == thread]
        for row in sorted(mine, key=lambda row: (row.start_ns, -row.end_ns)):
            while open_ and open_[-1] <= row.start_ns:
                open_.pop()
            assert not open_ or row.end_ns <= open_[-1]
            open_.append(row.end_ns)


def a_wait_for_the_device_ends_after_its_work(rows: list[Row]) -> None:
    ended = 0
    for row in rows:
        if row.kind in DEVICE:
            ended = max(ended, row.end_ns)
        elif row.kind == ROW_CALL and row.what == "cudaDeviceSynchronize":
            assert row.end_ns >= ended


def nobody_leaves_an_exchange_before_all_have_come(everyone: dict[int, list[Row]]) -> None:
    exchanges: dict[tuple[str, int], list[Row]] = defaultdict(list)
    members: dict[tuple[str, int], tuple[int, ...]] = {}
    for rows in everyone.values():
        count: dict[str, int] = defaultdict(int)
        for row in rows:
            if row.kind == ROW_EXCHANGE:
                exchange = row.what[0]
                key = (exchange.lane, count[exchange.lane])
                count[exchange.lane] += 1
                exchanges[key].append(row)
                members[key] = exchange.members
    for key, met in exchanges.items():
        assert len(met) == len(members[key])
        ends = [row.end_ns for row in met]
        assert min(ends) > max(row.start_ns for row in met)
        assert max(ends) - min(ends) <= 6_000


@laws
@given(
    offset=st.floats(0, 1000), drift=st.floats(0, 200), base=st.integers(0, 100_000), seed=st.integers(0, 9)
)
def test_a_file_shows_each_true_time_on_its_ranks_clock(
    offset: float, drift: float, base: int, seed: int
) -> None:
    config = Config(
        seed=seed,
        ranks=2,
        steps=1,
        layers=1,
        clock_offset_ms=offset,
        clock_drift_ppm=drift,
        base_spread_s=base,
    )
    cluster = Cluster(config)
    for rank, text in simulate(config):
        read = json.loads(text, parse_float=str)
        clock = clock_of(config, rank)
        assert abs(clock.offset_ns) <= 1e6 * offset + 1
        assert abs(clock.drift_ppm) <= drift + 1e-6
        assert read["baseTimeNanoseconds"] == clock.base_ns
        shown = {
            event["args"]["correlation"]: (_ns(event["ts"]), _ns(event["dur"]))
            for event in read["traceEvents"]
            if event.get("cat") in ("kernel", "gpu_memcpy")
        }
        rows = [row for row in cluster.rows(rank) if row.kind in DEVICE]
        assert len(shown) == len(rows)
        for row in rows:
            start, end = (_shown(clock, true_ns) for true_ns in (row.start_ns, row.end_ns))
            assert shown[row.correlation] == (start - clock.base_ns, end - start)


def _ns(microseconds: str) -> int:
    whole, _, rest = microseconds.partition(".")
    return 1000 * int(whole) + int(rest.ljust(3, "0"))


def _shown(clock: Clock, true_ns: int) -> int:
    drift = round((true_ns - START_NS) * (clock.drift_ppm / 1e6))
    return true_ns + clock.offset_ns + drift


def test_a_clock_ahead_by_a_millisecond_that_gains_100_ppm() -> None:
    clock = Clock(offset_ns=1_000_000, drift_ppm=100.0, base_ns=0)
    shown = clock.local_ns(np.array([START_NS, START_NS + 60_000_000_000]))
    assert (shown - START_NS).tolist() == [1_000_000, 60_007_000_000]


def test_the_same_config_gives_the_same_bytes_and_another_seed_others() -> None:
    config = Config(ranks=2, steps=2, layers=1, faults=(parse("sequence-imbalance"),))
    first, again = dict(simulate(config)), dict(simulate(config))
    assert first == again
    assert truth(config) == truth(config)
    assert dict(simulate(replace(config, seed=1))) != first


def test_without_jitter_every_step_takes_as_long() -> None:
    steps = truth(Config(ranks=2, steps=5, layers=2, jitter=0.0))["steps"]
    # The first one waits for the host to begin.
    assert len({row["dur_ns"] for row in steps[2:]}) == 1


def test_the_update_begins_when_the_last_gradients_have_come() -> None:
    config = Config(ranks=3, steps=1, layers=2, faults=(parse("wrong-transport:severe"),))
    for _, rows in Cluster(config).each():
        arrived = max(row.end_ns for row in rows if row.kind == ROW_EXCHANGE)
        update = [row for row in rows if row.kind == ROW_KERNEL and "FusedAdam" in row.what.name]
        assert update
        assert all(0 < row.start_ns - arrived < 2_000_000_000 for row in update)
        assert min(row.start_ns for row in update) - arrived < 5_000


def test_gradients_are_reduced_while_the_backward_pass_goes_on() -> None:
    (rows,) = (rows for rank, rows in Cluster(Config(ranks=2, steps=1, buckets=8)).each() if rank == 0)
    compute_ends = max(r.end_ns for r in rows if r.track == COMPUTE_STREAM and "Adam" not in str(r.what))
    exchanges = [row for row in rows if row.kind == ROW_EXCHANGE]
    assert len(exchanges) >= 6
    assert sum(row.end_ns < compute_ends for row in exchanges) >= len(exchanges) - 2


@pytest.mark.parametrize(("run_ahead", "most"), [(0, 1), (1, 2), (2, 3)])
def test_the_host_is_no_more_steps_ahead_than_it_may(run_ahead: int, most: int) -> None:
    config = Config(steps=6, layers=4, run_ahead=run_ahead, jitter=0.0)
    cluster = Cluster(config)
    ends = cluster.step_end_ns[0]
    marks = [r for r in cluster.rows(0) if str(r.what).startswith("ProfilerStep#")]
    ahead = [sum(end > mark.start_ns for end in ends[:number]) for number, mark in enumerate(marks)]
    assert max(ahead) == most - 1


def test_a_call_blocks_while_the_devices_queue_is_full() -> None:
    rows = Cluster(Config(steps=6, run_ahead=100)).rows(0)
    returns = {row.correlation: row.end_ns for row in rows if row.kind == ROW_CALL}
    begun = [(row.correlation, row.start_ns) for row in rows if row.kind in DEVICE]
    assert len(begun) > 2 * QUEUE_DEPTH
    for (_, start), (correlation, _) in zip(begun, begun[QUEUE_DEPTH:], strict=False):
        assert returns[correlation] >= start
    longest = max(r.end_ns - r.start_ns for r in rows if r.kind == ROW_CALL and r.what == "cudaLaunchKernel")
    assert longest > 100_000
