"""A recorded run as files, and runs of published cases as they can be asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.model.error import UsageError
from stepscope.simulate import Config, Recording, parse, recorded_run, truth, write
from stepscope.simulate.counter.device import state_of
from tests.simulate.conftest import record

SMALL = {"ranks": 2, "layers": 2, "steps": 8}


def test_telemetry_and_logs_lie_beside_the_traces(tmp_path: Path) -> None:
    config = Config(**SMALL, telemetry=Recording(), trace_steps=(3, 4))
    write(config, tmp_path / "run")
    found = sorted(path.relative_to(tmp_path / "run").as_posix() for path in (tmp_path / "run").rglob("*.*"))
    assert found == [
        "logs/kernel.log",
        "logs/nccl.log",
        "logs/train.log",
        "rank0.json.gz",
        "rank1.json.gz",
        "telemetry/node0.apps.csv",
        "telemetry/node0.dcgm.prom",
        "telemetry/node0.node.prom",
    ]
    before = {name: (tmp_path / "run" / name).read_bytes() for name in found}
    write(config, tmp_path / "run")
    assert {name: (tmp_path / "run" / name).read_bytes() for name in found} == before
    with pytest.raises(UsageError, match=r"run: holds logs/kernel\.log, which is not of this run"):
        write(Config(**SMALL), tmp_path / "run")


def test_the_truth_says_which_device_a_rank_has_and_how_old_its_counters_are(tmp_path: Path) -> None:
    faults = (parse("clock-lock#1:0.7@4:7"),)
    config = Config(**SMALL, faults=faults, telemetry=Recording(skew_ms=40.0), trace_steps=(3, 4))
    found = json.loads(write(config, tmp_path / "run").read_text())
    assert found == json.loads(json.dumps(truth(config)))
    text = (tmp_path / "run/telemetry/node0.dcgm.prom").read_text()
    apps = (tmp_path / "run/telemetry/node0.apps.csv").read_text()
    for rank in found["ranks"]:
        assert f'gpu="{rank["device"]["index"]}",UUID="{rank["device"]["uuid"]}"' in text
        assert f"{rank['device']['uuid']}, {rank['pid']}, " in apps
    (fault,) = found["faults"]
    assert (fault["magnitude"], fault["severity"], fault["steps"]) == (0.7, None, [4, 7])
    assert fault["devices"] == [found["ranks"][1]["device"]["uuid"]]
    assert fault["nodes"] == [found["ranks"][1]["host"]]
    assert fault["onset_ns"] == max(rank["step_end_ns"][3] for rank in found["ranks"])
    (node,) = found["telemetry"]["nodes"]
    assert (found["telemetry"]["collect_ns"], node["skew_ns"]) == (1_000_000_000, 40_000_000)
    assert 0 < node["lag_range_ns"][0] <= node["lag_ns"] <= node["lag_range_ns"][1] < 1_100_000_000
    assert {row["step"] for row in found["collectives"]} == {3, 4}


def test_a_trace_has_no_uuid_and_its_pid_is_in_the_list_of_processes(tmp_path: Path) -> None:
    import gzip

    write(Config(**SMALL, telemetry=Recording(), trace_steps=(3, 4)), tmp_path / "run")
    apps = (tmp_path / "run/telemetry/node0.apps.csv").read_text()
    for rank in (0, 1):
        text = gzip.decompress((tmp_path / f"run/rank{rank}.json.gz").read_bytes()).decode()
        assert "uuid" not in text.lower()
        assert "GPU-" not in text
        pids = {event["pid"] for event in json.loads(text)["traceEvents"] if event.get("cat") == "cpu_op"}
        assert len(pids) == 1
        assert f", {pids.pop()}, " in apps


def test_a_recorded_run_lasts_a_minute_and_is_traced_in_its_middle() -> None:
    config = recorded_run(None, None, telemetry=Recording(), ranks=2)
    assert config.steps * config.step_ns == pytest.approx(60e9, rel=0.01)
    assert config.traced == range(100, 110)
    hangs = recorded_run(None, None, telemetry=Recording(), ranks=2, faults=(parse("hang"),))
    assert hangs.traced == range(hangs.num_played - 10, hangs.num_played)
    assert recorded_run(5, (1, 2), telemetry=Recording()).traced == range(1, 3)
    # A step that its fault makes short is taken more often.
    assert recorded_run(None, None, telemetry=Recording(), faults=(parse("launch-bound"),)).steps > 500


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"collect_ms": 50}, "collect-ms 50: must be between 100 and"),
        ({"counters": "some"}, "counters some: is not simulated; take one of default, full"),
        ({"log_style": "x"}, "log-style x: is not simulated"),
        ({"lost": 1.0}, "scrape-loss 1: must be between 0 and 0.9"),
    ],
)
def test_a_recording_that_cannot_be_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Recording(**given)  # type: ignore[arg-type]


# ── cases that people have published, as runs that can be asked for ──


@pytest.mark.parametrize(
    ("faults", "given"),
    [
        (("wrong-transport:5.5",), {"steps": 50, "exchange_scale": 4.0}),  # communication
        (("launch-bound:0.03",), {"steps": 300}),  # tiny kernels, and a host that keeps up
        (("unfused:60", "power-brake:0.8"), {"steps": 20}),  # streams of memory
    ],
)
def test_busy_beside_half_the_power_has_more_than_one_cause(
    faults: tuple[str, ...], given: dict[str, Any]
) -> None:
    run = record(*faults, recording=(("memory_gb", 62.0),), **given)
    of = state_of(run.timeline, 0).of
    at = slice(*np.searchsorted(run.timeline.middle_ns, run.cluster.step_end_ns[0][1 :: given["steps"] - 2]))
    assert of["busy"][at].mean() > 0.8
    assert 0.2 < of["power"][at].mean() / 700 < 0.65
    assert of["used_bytes"][at] == pytest.approx(62e9, rel=0.01)


def test_an_exchange_that_overlaps_nothing_leaves_links_and_multiprocessors_idle_in_turn() -> None:
    run = record(ranks=8, step_ms=60.0, layers=4, steps=120, overlap=False, exchange_scale=24.0)
    of = state_of(run.timeline, 0).of
    at = slice(*np.searchsorted(run.timeline.middle_ns, run.cluster.step_end_ns[0][5:115:109]))
    link = of["link_tx"][at] / run.cluster.config.device.link_rate
    assert link.max() > 0.9
    assert 0.45 < link.mean() < 0.7
    assert of["sm_active"][at][link > 0.9].mean() < 0.3


def test_a_stall_of_every_tenth_step_on_a_sharded_job() -> None:
    run = record("page-cache-miss:200", gpu="A100", ranks=8, shard=True, layers=4, steps=60)
    sm = run.dcgm().within(
        "DCGM_FI_PROF_SM_ACTIVE", run.device(0), run.cluster.step_end_ns[0][4], run.timeline.end_ns
    )
    assert sm.max() - sm.min() > 0.1
    kinds = {meeting.exchange.kind for meeting in run.cluster.meetings.by_key.values()}
    assert kinds == {"_reduce_scatter_base", "_allgather_base"}


def test_one_worker_that_is_busy_for_two_fifths() -> None:
    run = record("page-cache-thrash:0.5", recording=(("workers", 1), ("worker_busy", 0.4)), steps=60)
    text = run.host("mode")
    series = text.of["namedprocess_namegroup_cpu_seconds_total", "user"]
    ends = run.cluster.step_end_ns[0]
    pairs = [(at, v) for at, v in series if ends[30] <= at <= ends[-1]]
    per_worker = (pairs[-1][1] - pairs[0][1]) / ((pairs[-1][0] - pairs[0][0]) / 1e9) / 2
    assert 0.3 < per_worker <= 0.4
