"""Callbacks: those that need no framework with engines of our own making, the others with the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope_sdk.callbacks import accelerate, deepspeed
from tests.job.test_ddp import ROOT, python_with_torch
from tests.sdk.test_attach_mark import Recorder, steps


class Engine:
    """As an engine that adds up two batches for a step."""

    world_size, global_rank, local_rank, global_steps = 2, 1, 1, 0

    def __init__(self):
        self.micro = 0

    def forward(self, inputs):
        return inputs

    def backward(self, loss):
        return loss

    def is_gradient_accumulation_boundary(self):
        return self.micro % 2 == 1

    def step(self):
        if self.is_gradient_accumulation_boundary():
            self.global_steps += 1
        self.micro += 1

    def save_checkpoint(self, folder):
        raise OSError(folder)

    def get_global_grad_norm(self):
        return 2.0

    def get_lr(self):
        return [0.1]


def test_deepspeed_ends_a_step_at_the_boundary_of_accumulation_alone():
    monitor, engine = Recorder(), Engine()
    deepspeed.mark(engine, monitor)
    for _ in range(4):
        engine.backward(engine.forward(1))
        engine.step()
    assert steps(monitor.said) == 2
    assert monitor.said[:2] == ["world 2 1 1", "begin_step 0"]
    assert monitor.said.count("begin_phase backward sync=True") == 2
    assert monitor.said.count("begin_phase backward") == 2
    assert "log grad_norm=2.0 learning_rate=0.1" in monitor.said


def test_what_raises_in_an_engine_raises_as_before_and_its_phase_ends():
    monitor, engine = Recorder(), Engine()
    deepspeed.mark(engine, monitor)
    with pytest.raises(OSError, match="/x"):
        engine.save_checkpoint("/x")
    assert monitor.said[-2:] == ["begin_phase checkpoint", "end_phase checkpoint"]


class Stepper:
    """A prepared optimizer."""

    def step(self):
        """It may or may not step."""


class Accelerator:
    """As one whose gradients are added up over two batches."""

    num_processes, process_index, local_process_index, sync_gradients = 1, 0, 0, False

    def __init__(self):
        self._optimizers = [Stepper(), Stepper()]

    def backward(self, loss):
        """Nothing."""

    def clip_grad_norm_(self, parameters, most):
        return 3.0


def test_accelerate_ends_a_step_where_gradients_are_synchronised():
    monitor, accelerator = Recorder(), Accelerator()
    accelerate.mark(accelerator, monitor)
    for micro in range(4):
        accelerator.sync_gradients = micro % 2 == 1
        accelerator.backward(1)
        accelerator.clip_grad_norm_([], 1.0)
        for each in accelerator._optimizers:
            each.step()
    assert steps(monitor.said) == 2
    assert "log grad_norm=3.0" in monitor.said


def test_the_sdk_imports_no_framework():
    names = [f"callbacks.{each}" for each in ("lightning", "huggingface", "accelerate", "deepspeed")]
    script = (
        f"import sys, {', '.join(f'stepscope_sdk.{each}' for each in ('attach', *names))}\n"
        "print(sorted({'torch', 'numpy', 'lightning', 'transformers'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def with_framework(name):
    """A Python that has it."""
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    if subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode:
        pytest.skip(f"no {name} beside torch: pip install {name} into that Python")
    return python


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lightning", "transformers"])
def test_a_framework_tells_of_every_phase_and_one_step_for_two_batches(name, tmp_path):
    python = with_framework(name)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_")}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "STEPSCOPE_RUN_DIR": str(tmp_path / "rings")}
    script = Path(__file__).with_name(f"with_{name}.py")
    done = subprocess.run([python, "-W", "ignore", script, tmp_path / "out"], capture_output=True, text=True,
                          env=environment, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert steps(said) == 10
    assert sum(line.startswith("end_step samples=16") for line in said) == 10
    begun = {line.split()[1] for line in said if line.startswith("begin_phase")}
    assert begun == {"data", "forward", "backward", "optimizer", "eval", "checkpoint"}
    assert sum(line == "begin_phase eval" for line in said) == 2
    assert any(line.startswith("log") and "learning_rate" in line for line in said)
