"""With a real torch: numbers are taken without waiting, activations in sampled steps only."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from tests.job.test_ddp import python_with_torch
from tests.sdk import writer

TRAIN = """
import torch, stepscope_sdk
from torch import nn
torch.manual_seed(0)
monitor = stepscope_sdk.monitor()
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
with torch.no_grad():
    model[0].weight.copy_(torch.eye(4)); model[0].bias.zero_()
monitor.activations(model, every=3)
x = torch.tensor([[1.0, -2.0, 0.0, 4.0]])
hooks = []
for n in range(5):
    given = x if n != 3 else torch.tensor([[float("nan"), float("inf"), 1.0, -3.0]])
    with monitor.step(n, tokens=torch.tensor(7), samples=torch.ones(())):
        loss = model(given).sum()
        monitor.log(loss=loss, whole=torch.tensor(3), many=x, meta=torch.empty((), device="meta"))
        hooks.append(len(model[0]._forward_hooks))
class Mine(torch.Tensor):
    pass
monitor.log(mine=torch.ones(()).as_subclass(Mine))
print(hooks)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, RingReader]:
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch")
    folder: Path = tmp_path_factory.mktemp("run")
    done = subprocess.run(
        [python, "-W", "error", "-c", TRAIN], env=writer.environment(folder), capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = writer.rings(folder)
    return done.stdout, RingReader(str(path))


def test_numbers_and_activations_of_a_real_model(trained: tuple[str, RingReader]) -> None:
    said, reader = trained
    assert said == "[1, 0, 0, 1, 0]\n"  # a hook in steps 0 and 3 only
    records, names = reader.poll().records, reader.names()
    kind = abi.kind_number
    values = records[records["kind"] == kind("value")]
    assert [(names[row["a"]], row["b"]) for row in values[values["step"] == 0]] == [
        ("loss", 5.0),
        ("whole", 3.0),
    ]
    assert -1 not in values["step"]  # a tensor of another class was not read
    begins = records[records["kind"] == kind("step_begin")]
    assert (begins["a"] == 7).all()
    assert (begins["b"] == 1.0).all()
    rows = records[records["kind"] == kind("activation")]
    shares = records[records["kind"] == kind("activation_share")]
    told = {
        (int(one["step"]), names[one["a"]]): (one["b"], one["c"], two["b"], two["c"])
        for one, two in zip(rows, shares, strict=True)
    }
    # mean, largest absolute value, share of zeros, share not finite; "0" is the linear layer, "1" the ReLU.
    assert told == {
        (0, "0"): (0.75, 4.0, 0.25, 0.0),
        (0, "1"): (1.25, 4.0, 0.5, 0.0),
        (3, "0"): (0.0, 0.0, 0.0, 1.0),  # NaN and infinity spread over the row
        (3, "1"): (0.0, 0.0, 0.0, 1.0),
    }
    ends = records[records["kind"] == kind("step_end")]
    assert (ends["flags"] == abi.FLAGS["stalled"]).tolist() == [True, False, False, True, False]
    assert str(reader.identity().framework).startswith("torch 2")


def test_the_loop_of_the_how_to_page_runs_and_is_marked(tmp_path: Path, root: Path) -> None:
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch")
    page = (root / "docs/how-to/mark-a-training-loop.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run(
        [python, "-c", script], env=writer.environment(tmp_path), capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (path,) = writer.rings(tmp_path)
    with RingReader(str(path)) as reader:
        records, names = reader.poll().records, reader.names()
    assert names == ("loss",)
    assert (records["kind"] == abi.kind_number("step_end")).sum() == 16
    assert (records["kind"] == abi.kind_number("value")).sum() == 16


def test_every_setting_is_documented(root: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (root / "docs").rglob("*.md"))
    read = {
        name
        for core in ("start", "folder", "identity")
        for name in re.findall(
            r'"(STEPSCOPE(?:_[A-Z]+)*)"', (root / f"src/stepscope_sdk/{core}.py").read_text()
        )
    }
    assert {"STEPSCOPE_RUN_DIR", "STEPSCOPE", "STEPSCOPE_RUN_GROUP", "STEPSCOPE_TASK_ENV"} <= read
    assert {name for name in read if f"{name}`" not in pages and f"{name}=" not in pages} == set()
