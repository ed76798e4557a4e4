"""Real processes that mark real sleeps, and what their rings tell."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import offline
from stepscope.model.error import UsageError
from tests.job import mark_loop

SOURCE = Path(offline.__file__).resolve().parents[2]
MS = 1_000_000
NUM_STEPS = 25


def start(folder, sections, end="exit", num_steps=NUM_STEPS, **more):
    """One process a rank; `sections` are those of each rank."""
    world = len(sections)
    pairs = {(a, b): socket.socketpair() for a in range(world) for b in range(a + 1, world)}
    processes = []
    for rank in range(world):
        mine = [pair[0] if a == rank else pair[1] for (a, b), pair in pairs.items() if rank in (a, b)]
        environment = {
            **os.environ, "STEPSCOPE_RUN_DIR": str(folder), "RANK": str(rank), "WORLD_SIZE": str(world),
            "LOCAL_RANK": str(rank), "NUM_STEPS": str(num_steps), "PYTHONPATH": str(SOURCE), **more,
        }  # fmt: skip
        processes.append(
            subprocess.Popen(
                [
                    sys.executable, mark_loop.__file__, str(world), json.dumps(sections[rank]),
                    end, *(str(each.fileno()) for each in mine),
                ],
                env=environment, pass_fds=[each.fileno() for each in mine],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    for pair in pairs.values():
        for each in pair:
            each.close()
    return processes


def run(folder, sections, **more):
    processes = start(folder, sections, **more)
    try:
        for each in processes:
            _, errors = each.communicate(timeout=120)
            assert each.returncode == 0, errors.decode()[-2000:]
    finally:
        for each in processes:
            each.kill()
    return offline.diagnose([folder])


@pytest.mark.parametrize(
    ("place", "reason", "where"),
    [
        ("before", "python", "between steps"),
        ("start", "preprocess", "before forward"),
        ("after", "python", "after forward"),
        ("loader", "input", "data"),
    ],
)
def test_50_ms_of_sleep_on_rank_1_have_one_cost_and_their_own_phase(tmp_path, place, reason, where):
    told = run(tmp_path, [[], [[0, NUM_STEPS, 1, place, 50]]])
    late = told.stragglers[0]
    assert (late.rank, late.reason, late.culprit) == (1, reason, where)
    # However busy the machine: less than the sleep nobody waited, and not by a multiple more.
    assert 0.8 * 50 * MS < late.cost_ns / late.num_steps < 3 * 50 * MS


def test_a_loader_slowed_for_a_while_is_found_with_those_steps(tmp_path):
    told = run(tmp_path, [[[60, 89, 1, "loader", 40]]], num_steps=150)
    (found,) = [each for each in told.findings if each.rule == "input-starvation"]
    first, last = found.subject.steps
    # A step near it may be slow by accident.
    assert 54 <= first <= 61
    assert 88 <= last <= 95
    assert found.cost.steps_share > 0.4


def test_a_rank_and_a_range_of_steps_can_be_asked_for(tmp_path):
    run(tmp_path, [[], []], num_steps=12)
    told = offline.diagnose([tmp_path], rank=1, steps=(3, 6))
    assert {(step.rank, step.step) for step in told.steps} == {(1, 3), (1, 4), (1, 5), (1, 6)}
    with pytest.raises(UsageError, match="rank 7"):
        offline.diagnose([tmp_path], rank=7)
    with pytest.raises(UsageError, match="steps 0 to 11 are recorded"):
        offline.diagnose([tmp_path], steps=(50, 60))


def test_a_job_that_hangs_stands_in_its_phase_and_a_killed_one_says_so(tmp_path):
    (process,) = start(tmp_path / "a", [[]], end="hang", num_steps=12)
    try:
        assert process.stdout.readline().strip() == b"ready"
        told = offline.diagnose([tmp_path / "a"])
    finally:
        process.kill()
        process.communicate()
    (alive,) = [each for each in told.events if "lives" in each.text]
    assert alive.text.endswith("in backward of step 11")
    (killed,) = [each for each in offline.diagnose([tmp_path / "a"]).events if each.kind == "exit"]
    assert killed.severity == "critical"
    assert "in backward of step 11: it was killed" in killed.text


def test_the_latest_of_two_runs_is_judged_and_the_other_named(tmp_path):
    run(tmp_path, [[]], num_steps=8)
    told = run(tmp_path, [[]], num_steps=14)
    assert max(step.step for step in told.steps) == 13
    assert sorted(each.error is None for each in told.inputs) == [False, True]
    assert "earlier run" in next(each.error for each in told.inputs if each.error)


def test_what_is_no_ring_is_said_in_one_line(tmp_path):
    run(tmp_path, [[]], num_steps=8)
    (tmp_path / "other.ring").write_bytes(b"no ring at all")
    told = offline.diagnose([tmp_path])
    (error,) = [each.error for each in told.inputs if each.error]
    assert "no step ring" in error
    assert "\n" not in error
    assert told.steps
