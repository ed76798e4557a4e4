"""Faults that come and go while a job runs: in its rings within two steps, in its counters at once."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from stepscope.model.error import UsageError
from stepscope_sdk import ring_abi as abi
from tests.simulate.live import KIND, Job

# Fault, then what its steps become (times; 1 for as before), and which signals of rank 1 go where.
SIGNS = [
    ("loader-stall#1:severe", 2.5,
     {"DEV_GPU_UTIL": "down", "DEV_POWER_USAGE": "down", "PROF_SM_ACTIVE": "down"}),
    ("thermal-throttle#1:severe", 1.7,
     {"DEV_SM_CLOCK": "down", "DEV_CLOCK_THROTTLE_REASONS": "up", "DEV_GPU_TEMP": "up"}),
    ("straggler#1:severe", 2.0, {"PROF_PIPE_TENSOR_ACTIVE": "down"}),
    ("slow-link:severe", 1.02, {"PROF_NVLINK_TX_BYTES": "down", "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "up"}),
    ("foreign-process#1:severe", 2.0, {"DEV_FB_USED": "up"}),
    ("power-cap#1:severe", 1.35,
     {"DEV_POWER_MGMT_LIMIT": "down", "DEV_SM_CLOCK": "down", "DEV_POWER_USAGE": "down"}),
    ("host-sync:severe", 1.0, {}),
    ("memory-leak#1:severe", 1.0, {"DEV_FB_USED": "up"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "times", "signs"), SIGNS, ids=[fault.partition("#")[0] for fault, *_ in SIGNS]
)
def test_a_switched_fault_shows_within_two_steps_and_is_gone_as_fast(
    tmp_path: Path, fault: str, times: float, signs: dict[str, str]
) -> None:
    job = Job(tmp_path / "run", layers=1)
    before = job.scrape(6.0)
    job.service.switch(f"{fault} on")
    step = job.service.live.step
    after = job.scrape(11.0)
    for name, way in signs.items():
        was, now = before[name][1], after[name][1]
        assert now > was if way == "up" else now < 0.97 * was, (name, was, now)
    job.service.switch(f"{fault.partition(':')[0]} off")
    back = job.service.live.step
    job.until(14.0)
    steps = job.step_seconds(0)
    healthy = median(took for number, took in steps.items() if 2 < number < step - 1)
    slow = [steps[number] for number in range(step + 1, back - 1)]
    assert median(slow) == pytest.approx(times * healthy, rel=0.06)
    assert slow[0] == pytest.approx(times * healthy, rel=0.1)
    assert steps[back + 1] == pytest.approx(healthy, rel=0.03)
    numbers = sorted(steps)
    assert numbers == list(range(len(numbers)))  # and no step was lost or told twice


@pytest.mark.parametrize(
    ("fault", "phase", "seconds", "every"),
    [
        ("loader-stall:severe", "data", 0.45, 1),
        ("page-cache-miss:severe", "data", 0.6, 10),
        ("checkpoint:2", "checkpoint", 0.6, 5),
        ("eval:2", "eval", 0.35, 5),
        ("gc:severe", "gc", 0.5, 8),
        ("host-sync:severe", "forward", 0.06, 1),
    ],
)
def test_a_fault_is_in_the_phase_that_it_holds_up(
    tmp_path: Path, fault: str, phase: str, seconds: float, every: int
) -> None:
    job = Job(tmp_path / "run", f"{fault}@10:40", layers=2)
    job.until(13.0, every=0.5)
    took = job.phase_seconds(0, phase)
    last = min(max(job.step_seconds(0)), 40)
    inside = {step: found for step, found in took.items() if 10 <= step <= last and found > 0.5 * seconds}
    assert sorted(inside) == [step for step in range(10, last + 1) if step % every == min(inside) % every]
    assert median(inside.values()) == pytest.approx(seconds, rel=0.25)
    assert not [step for step, found in took.items() if step < 10 and found > 0.5 * seconds]


def test_a_hang_spins_on_all_but_its_culprit_and_goes_on_when_it_is_switched_off(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", layers=1)
    job.until(5.0)
    job.service.switch("hang#1")
    step = job.service.live.step
    found = job.scrape(9.0)
    assert (found["DEV_GPU_UTIL"][0], found["DEV_GPU_UTIL"][1]) == (100, 0)
    assert found["DEV_POWER_USAGE"][0] < 0.3 * 700
    assert found["PROF_SM_ACTIVE"][0] == pytest.approx(24 / 132, rel=0.05)
    assert json.loads((tmp_path / "run.truth.json").read_text())["hangs_in_step"] == step
    for rank, phase in ((0, "optimizer"), (1, "forward")):
        last = job.records(rank)[-1]
        assert (KIND[int(last["kind"])], int(last["step"])) == ("phase_begin", step)
        assert abi.PHASES[int(last["a"])] == phase
    assert job.service.faults()["hangs_in_step"] == step
    job.service.switch("hang off")
    job.until(12.0)
    steps = job.step_seconds(1)
    assert steps[step] == pytest.approx(9.0 - 5.0, abs=0.5)
    assert steps[step + 1] == pytest.approx(steps[step - 1], rel=0.05)
    assert job.scrape()["DEV_GPU_UTIL"][1] > 90


def test_the_watchdog_ends_a_job_that_hangs_for_too_long(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", "hang#0:4@10:10", layers=1)
    job.until(12.0, every=0.5)
    assert job.service.faults()["is_dead"]
    assert job.said(0, "exit") + job.said(1, "exit") == []  # nobody had the time for a last word
    assert int(job.said(1, "step_begin")[-1]["step"]) == 10
    found = job.scrape()
    assert (found["DEV_GPU_UTIL"], found["DEV_SM_CLOCK"][1]) == ({0: 0, 1: 0}, 345)
    assert found["DEV_FB_USED"][1] < 1000
    assert "Watchdog caught collective operation timeout" in (tmp_path / "run/logs/train.log").read_text()
    assert "exited on signal 6" in (tmp_path / "run/logs/kernel.log").read_text()


def test_a_healthy_job_with_events_evaluates_saves_and_lowers_its_rate(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", has_events=True, layers=1, step_ms=20.0, buckets=1)
    job.until(11.0, every=0.5)
    last = max(job.step_seconds(0))
    assert last > 410
    assert [n for n in sorted(job.phase_seconds(0, "eval")) if n <= last] == list(range(59, last + 1, 60))
    assert [n for n in sorted(job.phase_seconds(0, "checkpoint")) if n <= last] == list(
        range(149, last + 1, 150)
    )
    rates = [float(each["b"]) for each in job.said(0, "value") if int(each["a"]) == 2]
    assert [rates[399], rates[401]] == pytest.approx([3e-4, 0.9e-4])
    assert job.service.faults()["on"][0]["is_event"] is True
    with pytest.raises(UsageError, match="fault eval: is not on; on are: none"):
        job.service.switch("eval off")


def test_what_cannot_be_switched_is_refused_in_one_line(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", layers=1)
    for text, says in (
        ("", "is not understood; give NAME"),
        ("hang on off", "is not understood; give NAME"),
        ("nothing on", "no such fault; take one of"),
        ("straggler#7", "the last rank is 1"),
        ("loader-stall@3:4", r"begins with the next step; leave out @3:…"),
        ("expert-imbalance", "transformer cannot have it; take --model moe"),
        ("gc off", "is not on; on are: none"),
    ):
        with pytest.raises(UsageError, match=says):
            job.service.switch(text)
    for text in ("vanish", "vanish#2", "explode#1", "exporter-restart#1"):
        with pytest.raises(UsageError, match="is not known; give exporter-restart"):
            job.service.event(text)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes\.txt, which is of no live job"):
        Job(tmp_path / "other")


def test_a_fault_switched_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", layers=1)
    job.service.switch("gc:mild")
    job.service.switch("gc#1:severe")
    assert [each["fault"] for each in job.service.faults()["on"]] == ["gc#1:severe"]
    job.service.switch("straggler#0")
    job.service.switch("straggler#1")  # another rank's is another fault
    assert [each["fault"] for each in job.service.faults()["on"]][1:] == [
        "straggler#0:medium",
        "straggler#1:medium",
    ]
    assert job.service.switch("all off").startswith("3 off")
