"""Attach mode with real torch: scenes of `attached.py`, all of them in one process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.job.test_ddp import ROOT, python_with_torch


@pytest.fixture(scope="module")
def scenes():
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    done = subprocess.run(
        [python, "-W", "ignore", Path(__file__).with_name("attached.py")], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [name for name, _, has_failed in told if has_failed]
    return {name: said for name, said, _ in told}


def test_a_step_that_the_scaler_leaves_out_is_a_step(scenes):
    assert scenes["scaler"].count("end 2 None") == 3
    assert scenes["scaler"].count("+optimizer") == 3


def test_passes_inside_an_optimizer_are_marked_inside_of_it(scenes):
    said = [each for each in scenes["closure"] if "=" not in each]
    assert said[0] == "+optimizer"
    assert said.count("+forward") == said.count("+backward") == 2
    assert said[-3:] == ["-optimizer", "end 4 None", "step"]


def test_a_model_that_is_compiled_later_keeps_its_whole_graph_and_its_marks(scenes):
    assert sum(each.startswith("end") for each in scenes["compiled"]) == 8
    # Its first call is not seen: that is reason to look again.
    assert scenes["compiled"].count("end 2 None") == 7
    assert scenes["compiled"].count("+forward") == 7 + 2  # two that compare
    assert "+compile" in scenes["compiled"]


def test_nothing_of_it_gets_into_what_is_stored(scenes):
    assert scenes["stored"].count("end 2 None") == 5


def test_an_epoch_reads_as_it_was_written(scenes):
    step = ["+data", "-data", "+forward", "-forward", "+forward", "-forward", "+backward", "-backward",
            "+optimizer", "-optimizer", "end 2 None", "step"]  # fmt: skip
    said = [each for each in scenes["epoch"] if "=" not in each]
    first = said.index("step")
    assert said[:first] == ["+data", "-data"] * 2  # the loader's iterator, its first batch
    after = [sign + phase for phase in ("data", "eval", "checkpoint", "logging") for sign in "+-"]
    assert said[first + 1 :] == [*step[2:], *step, *after]


def test_whole_numbers_of_two_dimensions_are_counted_as_tokens(scenes):
    assert scenes["tokens"].count("end 3 21") == 2


def test_training_in_evaluation_mode_is_no_evaluation(scenes):
    after = scenes["frozen"][scenes["frozen"].index("+eval") :]
    assert scenes["frozen"].count("+eval") == 1
    assert after[1] == "-eval"  # at the next backward pass at the latest
    assert scenes["frozen"].count("end 2 None") >= 3
