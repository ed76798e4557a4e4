"""Low use of a device from end to end: twelve minutes of counters each second, and a log. Dead, saving,
evaluating, starting, one bad card and rare bursts look alike to a mean; each is told, and as nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.job import stated
from tests.job.published import Case, diagnosed

SECONDS = 720
WORKED = 240
"""Seconds of work before the device rests."""
FAMILY = {
    "dead-job",
    "idle-device",
    "idle-in-checkpoint",
    "idle-in-evaluation",
    "initialising",
    "no-progress",
    "sparse-bursts",
}
Column = np.ndarray[tuple[int], np.dtype[np.float64]]


def then(*parts: tuple[int, float]) -> Column:
    """(seconds, value) one after another."""
    return np.concatenate([np.full(seconds, value, dtype=float) for seconds, value in parts])


def device(busy: stated.Values, used_mib: stated.Values = 62_000.0) -> stated.Device:
    """An H100 that is busy for so many percent, with the power that goes with it."""
    seconds = len(busy) if isinstance(busy, np.ndarray) else SECONDS
    percent = np.broadcast_to(np.asarray(busy, dtype=float), (seconds,))
    used = np.broadcast_to(np.asarray(used_mib, dtype=float), (seconds,))
    return {
        stated.BUSY: percent,
        stated.POWER: 75 + 5.5 * percent,
        stated.LIMIT: 700.0,
        stated.USED: used,
        stated.FREE: 81_559 - used,
    }


def case(
    folder: Path,
    devices: list[stated.Device],
    lines: list[tuple[float, str]] | None,
    written: stated.Values | None = None,
    processes: list[tuple[int, int, str, int]] | None = None,
) -> Case:
    """What telemetry and log of twelve minutes say, or of as many as the devices were read for."""
    stated.dcgm(folder, devices, len(np.atleast_1d(devices[0][stated.BUSY])))
    if lines is not None:
        stated.log(folder, lines)
    if written is not None:
        stated.host(folder, written, SECONDS)
    if processes is not None:
        stated.processes(folder, processes, SECONDS)
    return diagnosed(folder)


RESTS = then((WORKED, 92.0), (SECONDS - WORKED, 0.0))
STEPS = stated.steps(2, WORKED)
SAVES = (WORKED + 1.0, "Saving model checkpoint to checkpoints/step-120")
EVALUATES = (WORKED + 1.0, "***** Running Evaluation *****")
BEGINS = [
    (2.0, "Initializing distributed environment"),
    (3.0, "Downloading shards"),
    (61.0, "building train, validation datasets"),
]
BURSTS = np.where(np.arange(SECONDS) % 22 == 0, 90.0, 0.0)


@pytest.mark.parametrize(
    ("devices", "lines", "more", "rule"),
    [
        pytest.param([device(RESTS)] * 2, STEPS, {}, "dead-job", id="steps stopped, and nothing works"),
        pytest.param(
            [device(RESTS)] * 2,
            [*STEPS, SAVES],
            {"written": then((WORKED, 1e6), (SECONDS - WORKED, 2.5e9))},
            "idle-in-checkpoint",
            id="a checkpoint that is not over",
        ),
        pytest.param(
            [device(then((WORKED, 92.0), (400, 0.0), (80, 92.0)))] * 2,
            [
                *STEPS,
                SAVES,
                (WORKED + 400.0, "Saved checkpoint at step 120 in 399.00 s"),
                *stated.steps(WORKED + 402, SECONDS - 2, number=121),
            ],
            {"written": then((WORKED, 1e6), (400, 2.5e9), (80, 1e6))},
            "idle-in-checkpoint",
            id="a checkpoint that is over",
        ),
        pytest.param(
            [device(RESTS)] * 2, [*STEPS, EVALUATES], {}, "idle-in-evaluation", id="an evaluation on the host"
        ),
        pytest.param(
            [device(0.0, 600.0)] * 2, BEGINS, {}, "initialising", id="no step yet, and a log of the start"
        ),
        pytest.param(
            [device(90.0)] * 7 + [device(0.0, 500.0)],
            stated.steps(2, SECONDS - 2),
            {},
            "idle-device",
            id="one bad card of eight",
        ),
        pytest.param(
            [device(then((40, 92.0), (SECONDS - 40, 4.0)))] * 2,
            stated.steps(2, 40),
            {"processes": [(0, 4100, "python3.11", 61_700), (0, 77, "monitor", 300)]},
            "dead-job",
            id="a constant 4 % by a foreign process, without steps",
        ),
        pytest.param(
            [device(BURSTS)] * 2,
            stated.steps(2, SECONDS - 2, every=22),
            {},
            "sparse-bursts",
            id="bursts of 90 %, with steps, and a mean of 4 %",
        ),
    ],
)
def test_low_use_has_one_explanation(
    tmp_path: Path, devices: list[Any], lines: list[tuple[float, str]], more: dict[str, Any], rule: str
) -> None:
    found = case(tmp_path, devices, lines, **more)
    assert found.rules == [rule]
    assert found.report.verdict.class_ == "other-stall"
    told = {f.rule for f in found.report.findings}
    # The standstill is the dead job's; nothing else of the family speaks at all.
    assert told & FAMILY == ({rule, "no-progress"} if rule == "dead-job" else {rule})


OVER = [(300.0, "Saved checkpoint at step 30 in 239.00 s"), *stated.steps(302, 358, number=31)]
EVALUATED = [(300.0, "Evaluation done in 239.0 s"), *stated.steps(302, 358, number=31)]


@pytest.mark.parametrize(
    ("busy", "lines", "rule", "mean"),
    [
        pytest.param(
            then((60, 92.0), (240, 0.0)),
            [*stated.steps(2, 60), (61.0, SAVES[1])],
            "idle-in-checkpoint",
            0.184,
            id="a minute of steps, and four of a checkpoint that is not over",
        ),
        pytest.param(
            then((60, 92.0), (240, 0.0), (60, 92.0)),
            [*stated.steps(2, 60), (61.0, SAVES[1]), *OVER],
            "idle-in-checkpoint",
            0.184,
            id="a checkpoint of four minutes that is over",
        ),
        pytest.param(
            then((60, 92.0), (240, 0.0)),
            [*stated.steps(2, 60), (61.0, EVALUATES[1])],
            "idle-in-evaluation",
            0.184,
            id="a minute of steps, and four of an evaluation that is not over",
        ),
        pytest.param(
            then((60, 92.0), (240, 0.0), (60, 92.0)),
            [*stated.steps(2, 60), (61.0, EVALUATES[1]), *EVALUATED],
            "idle-in-evaluation",
            0.184,
            id="an evaluation of four minutes that is over",
        ),
        pytest.param(
            then((240, 0.0), (60, 92.0)),
            [*BEGINS, *stated.steps(242, 298)],
            "initialising",
            0.92,
            id="four minutes until the first step, and a minute of steps",
        ),
        pytest.param(
            then((420, 0.0), (300, 92.0)),
            [*BEGINS, *stated.steps(422, 718)],
            "initialising",
            0.92,
            id="a start of seven minutes of twelve",
        ),
        pytest.param(
            then((300, 0.0), (60, 92.0), (240, 0.0)),
            [*BEGINS, *stated.steps(302, 360), (361.0, SAVES[1])],
            "idle-in-checkpoint",
            0.184,
            id="a start, and a checkpoint after it: the later rest is asked for",
        ),
    ],
)
def test_five_minutes_with_a_minute_of_work_in_them_have_one_explanation(
    tmp_path: Path, busy: Column, lines: list[tuple[float, str]], rule: str, mean: float
) -> None:
    found = case(tmp_path, [device(busy)] * 2, lines)
    assert found.number("compute_busy_five_minutes")[None] == pytest.approx(mean, abs=0.005)
    assert found.rules == [rule]
    assert {f.rule for f in found.report.findings} & FAMILY == {rule}
    assert found.report.verdict.class_ == "other-stall"


def test_a_start_that_is_over_is_a_note_in_the_past_tense(tmp_path: Path) -> None:
    lines = [*BEGINS, *stated.steps(242, 298)]
    first = case(tmp_path, [device(then((240, 0.0), (60, 92.0)))], lines).first
    assert first.severity == "info"
    assert first.title == "The device was hardly busy until the job made its first step"


def test_two_five_minute_means_of_4_percent_are_told_apart_by_steps(tmp_path: Path) -> None:
    """A foreign process without steps, and bursts of 90 % with them: a mean cannot tell the two."""
    means = {}
    for name, busy, lines in (
        ("foreign", then((40, 92.0), (SECONDS - 40, 4.0)), stated.steps(2, 40)),
        ("bursts", BURSTS, stated.steps(2, SECONDS - 2, every=22)),
    ):
        found = case(tmp_path / name, [device(busy)], lines)
        means[name] = (found.number("compute_busy_five_minutes")[None], found.first.rule)
    assert means["foreign"] == (pytest.approx(0.04, abs=0.001), "dead-job")
    assert means["bursts"] == (pytest.approx(0.04, abs=0.002), "sparse-bursts")


@pytest.mark.parametrize(
    ("devices", "lines"),
    [
        pytest.param([device(92.0)] * 2, stated.steps(2, SECONDS - 2), id="busy, with steps"),
        pytest.param([device(92.0)] * 2, None, id="busy, without a log"),
        pytest.param([device(4.0)] * 2, None, id="hardly busy, and no log says why"),
        pytest.param(
            [device(then((240, 0.0), (1260, 92.0)))] * 2,
            [*BEGINS, *stated.steps(242, 1498)],
            id="a start that is over, a sixth of the time",
        ),
        pytest.param(
            [device(then((600, 92.0), (120, 0.0)))] * 2,
            [*stated.steps(2, 600, total=300), (602.0, "Training completed after 300 steps")],
            id="a job that is done",
        ),
        pytest.param(
            [device(then((300, 92.0), (60, 0.0), (360, 92.0)))] * 2,
            [
                *stated.steps(2, 300),
                (301.0, "Saving model checkpoint to checkpoints/step-150"),
                (360.0, "Saved checkpoint at step 150 in 59.00 s"),
                *stated.steps(362, SECONDS - 2, number=151),
            ],
            id="a checkpoint of a minute",
        ),
    ],
)
def test_a_sound_job_or_one_of_which_nobody_knows_is_not_called_dead(
    tmp_path: Path, devices: list[Any], lines: list[tuple[float, str]] | None
) -> None:
    found = case(tmp_path, devices, lines)
    assert {f.rule for f in found.report.findings} & FAMILY == set()


def test_a_log_whose_steps_cannot_be_read_does_not_say_that_none_was_made(tmp_path: Path) -> None:
    """It tells of a start, and of a checkpoint after it: so there were steps."""
    lines = [*BEGINS, (400.0, "Saved checkpoint in 12.00 s")]
    found = case(tmp_path, [device(0.0)] * 2, lines)
    assert "initialising" not in {f.rule for f in found.report.findings}


def test_a_hang_after_a_checkpoint_that_is_over_is_a_standstill(tmp_path: Path) -> None:
    """All of the device's rest is the checkpoint's; what follows spins in a collective and is no pause."""
    lines = [*STEPS, SAVES, (WORKED + 310.0, "Saved checkpoint at step 120 in 309.00 s")]
    lines += stated.steps(WORKED + 312, WORKED + 320, number=121)
    busy = then((WORKED, 92.0), (310, 0.0), (SECONDS - WORKED - 310, 100.0))
    spins = dict(device(busy))
    spins[stated.POWER] = then((WORKED, 580.0), (310, 75.0), (SECONDS - WORKED - 310, 150.0))
    found = case(tmp_path, [spins] * 2, lines)
    assert found.number("quiet_in_checkpoint")[None] == pytest.approx(1.0)
    assert found.number("silent_in_checkpoint")[None] == 0.0
    assert found.rules[0] == "no-progress"


def test_a_job_with_pauses_that_dies_makes_no_steps_any_more(tmp_path: Path) -> None:
    """Its steps had pauses as long as its silence: what counts is the five minutes of the least use."""
    busy = np.where(np.arange(SECONDS) % 20 < 10, 92.0, 0.0)
    busy[360:] = 0.0
    found = case(tmp_path, [device(busy)] * 2, stated.steps(20, 360, every=20))
    assert found.number("quiet_while_stepping")[None] == pytest.approx(0.0, abs=0.05)
    assert found.rules == ["dead-job"]
