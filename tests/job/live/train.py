"""A small real training on the CPU that marks its steps; its loader is slow in a window of them.

    python train.py NUM_STEPS FIRST_SLOW LAST_SLOW FILE

In the slow steps the dataset reads FILE anew, past the page cache where the system allows, and sleeps.
"""

from __future__ import annotations

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import stepscope_sdk

BATCH = 16
SLOW_SECONDS = 0.004
"""Of one sample of the slow window: 64 ms a batch, beside steps of about 20 ms."""


class Samples(Dataset):
    """Samples in memory, but for a window of them."""

    def __init__(self, num_steps: int, first: int, last: int, path: str) -> None:
        self.num, self.path = num_steps * BATCH, path
        self.slow = range(first * BATCH, (last + 1) * BATCH)

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, at: int) -> torch.Tensor:
        if at in self.slow:
            with open(self.path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                file.read()
            time.sleep(SLOW_SECONDS)
        return torch.full((256,), float(at % 7))


def main(num_steps: int, first: int, last: int, path: str) -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    monitor = stepscope_sdk.monitor()
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = iter(monitor.data(DataLoader(Samples(num_steps, first, last, path), batch_size=BATCH)))
    for _ in range(num_steps):
        with monitor.step(samples=BATCH):
            batch = next(batches)
            with monitor.phase("forward"):
                loss = sum(model(batch).square().mean() for _ in range(4))
            with monitor.phase("backward"):
                loss.backward()
            with monitor.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            monitor.log(loss=loss.detach())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
