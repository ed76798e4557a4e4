"""Records a small real training loop on the CPU with torch.profiler, and diagnoses the trace.

The second half of `make demo`. Where no Python here has torch it says so in one line and ends well.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


def python_with_torch() -> str | None:
    """The first Python that has torch: ours, the one ours was made from, the one on the path."""
    candidates = [
        sys.executable,
        shutil.which("python3", path=f"{sys.base_prefix}/bin"),
        shutil.which("python3"),
    ]
    for python in candidates:
        if (
            python
            and subprocess.run([python, "-c", HAS_TORCH], capture_output=True, check=False).returncode == 0
        ):
            return python
    return None


def torch_hint() -> str:
    """The line that brings torch into the Python that was looked at, as typed from here."""
    pip = Path(sys.executable).parent / "pip"
    if sys.prefix == sys.base_prefix or not pip.exists():
        return f"{sys.executable} -m pip install torch"
    here = Path.cwd()
    return f"{pip.relative_to(here) if pip.is_relative_to(here) else pip} install torch"


def record(path: str) -> None:
    """Six profiled steps of a small model whose loader works in the main process."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, schedule
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Pictures(Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 10 * 32

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            noise = torch.rand(3, 48, 48)
            for _ in range(4):  # what decoding and augmenting cost
                noise = torch.nn.functional.avg_pool2d(noise[None], 3, stride=1, padding=1)[0]
            return noise, index % 10

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 23 * 23, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=6, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
        record_shapes=True,
    ) as recorded:
        for pictures, labels in DataLoader(Pictures(), batch_size=32, num_workers=0):
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recorded.step()


def main() -> int:
    python = python_with_torch()
    if python is None:
        print(f"\ntorch is not installed here, so no real loop is recorded: {torch_hint()}, then make demo")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "cpu-loop.pt.trace.json"
        made = subprocess.run(
            [python, __file__, "--record", str(trace)], capture_output=True, text=True, check=False
        )
        if made.returncode != 0 or not trace.exists():
            print(
                f"\nno trace could be recorded: {made.stderr.strip().splitlines()[-1:] or 'no reason given'}"
            )
            return 1
        print(
            f"\n$ stepscope diagnose {trace.name}   # a real loop on this CPU, recorded just now\n",
            flush=True,
        )
        return subprocess.run(
            [sys.executable, "-m", "stepscope", "diagnose", str(trace)], check=False
        ).returncode


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2])
    else:
        sys.exit(main())
