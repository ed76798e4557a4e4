"""What attach mode makes of real torch. Run by a Python that has it: prints one JSON line a scene."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from stepscope_sdk import attach
from stepscope_sdk.attach_mark import Marks


class Recorder:
    """A monitor that writes down what it is told."""

    is_on = True

    def __init__(self):
        self.said = []

    def begin_step(self, *args, **kwargs):
        self.said.append("step")

    def end_step(self, samples=None, tokens=None, seq_len=None):
        self.said.append(f"end {samples} {tokens}" if samples else "end")

    def begin_phase(self, name, sync=False):
        self.said.append(f"+{name}")

    def end_phase(self, name, sync=False):
        self.said.append(f"-{name}")

    def log(self, **values):
        self.said += [f"{name}={value:.3g}" for name, value in values.items()]


def scene(name, work):
    """Run it with marks of its own, and print them."""
    recorder = Recorder()
    marks = attach._marks
    before = marks.is_off
    marks.reset()
    marks._open = lambda: recorder
    work()
    print(json.dumps([name, recorder.said, before or marks.is_off]), flush=True)


def net():
    """A small model."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))


def scaler():
    """A step that the scaler leaves out, between two that are taken."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(2, 4)).mean() * factor).backward()
        scaler.step(optimizer)
        scaler.update()


def closure():
    """LBFGS runs forward and backward by itself."""
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, lr=0.1)

    def again():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(again)


def compiled():
    """A whole graph of the model, compiled after it was called as it is."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fast = torch.compile(model, backend="aot_eager", fullgraph=True)
    for place in range(8):
        (model if place < 5 else fast)(torch.ones(2, 4)).mean().backward()
        optimizer.step()
    assert torch.allclose(fast(torch.ones(2, 4)), model(torch.ones(2, 4)))


def stored():
    """A model that was trained goes through pickle, copy and torch.save without a trace of us."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save(model, file)
    for raw in (file.getvalue(), pickle.dumps(model), pickle.dumps(copy.deepcopy(model))):
        assert b"stepscope" not in raw


def epoch():
    """A loader, an augmentation that is a module, an evaluation and a checkpoint in it, a log line."""
    model, blur = net(), nn.AvgPool1d(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = DataLoader(TensorDataset(torch.rand(4, 4)), batch_size=2)
    for (inputs,) in data:
        nn.MSELoss()(model(blur(inputs)), torch.zeros(2, 1)).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for (inputs,) in data:
            model(inputs)
    torch.save(model.state_dict(), io.BytesIO())
    logging.getLogger("x").warning("said")
    model.train()


def tokens():
    """Whole numbers of two dimensions are tokens."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.zeros(3, 7, dtype=torch.long)).mean().backward()
        optimizer.step()


def frozen():
    """A model that is put into evaluation mode once and trained so evaluates nothing."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for place in range(4):
        if place == 2:
            model.eval()
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()


def fault():
    """A fault of ours ends attach mode and not the script."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    marks = attach._marks
    marks._next_step = None
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
    optimizer.step()
    del marks._next_step
    assert marks.is_off
    marks.is_off = False


if __name__ == "__main__":
    logging.getLogger().addHandler(logging.NullHandler())
    attach.start(torch)
    attach.start(torch)
    assert isinstance(attach._marks, Marks)
    for work in (epoch, scaler, closure, compiled, stored, tokens, frozen, fault):
        scene(work.__name__, work)
