"""What is wrong with a loop: its data, its reading back, its memory, its neighbour. Needs torch.

No fault here needs a privilege, and none changes a setting of the device.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset

from tools.gpu_check.case import Setup
from tools.gpu_check.model import batch_of

Batch = tuple[torch.Tensor, torch.Tensor]


class Batches(IterableDataset[Batch]):
    """Endless batches. Decoding one takes `decode_seconds` of a processor, by the work that decoding is."""

    def __init__(self, setup: Setup, device: str, decode_seconds: float) -> None:
        self.batch = batch_of(setup, device)
        self.decode_seconds = decode_seconds

    def __iter__(self) -> Iterator[Batch]:
        torch.set_num_threads(1)
        while True:
            if self.decode_seconds:
                decode(self.decode_seconds)
            yield self.batch


def decode(seconds: float) -> None:
    """Work on a picture for so long."""
    end = time.perf_counter() + seconds
    picture = torch.rand(1, 3, 48, 48)
    while time.perf_counter() < end:
        picture = torch.nn.functional.avg_pool2d(picture, 3, stride=1, padding=1)


def loader_of(setup: Setup, device: str, step_seconds: float) -> DataLoader[Batch]:
    """The loader of a setup; `step_seconds` is a healthy step, the unit of its decoding.

    Beside training on a CPU workers that have nothing to decode would only take its cores.
    """
    workers = setup.workers if device == "cuda" or setup.decode_steps else 0
    return DataLoader(
        Batches(setup, device, setup.decode_steps * step_seconds),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=2 if workers else None,
        pin_memory=device == "cuda" and setup.is_pinned,
    )


def read_back(model: torch.nn.Module, loss: torch.Tensor) -> float:
    """The loss and the norm of every gradient as Python numbers: each reads the device once."""
    norms = sum(float(p.grad.norm().item()) for p in model.parameters() if p.grad is not None)
    return float(loss.item()) + norms


class Fragments:
    """Blocks of random sizes, some given back and some taken each step, in an allocator that may hold little
    more than the model needs: free memory lies in pieces, and requests go to the driver."""

    HELD = 0.2
    """Of what the model needs."""
    SPARE = 1.25

    def __init__(self, need_bytes: int, seed: int) -> None:
        self.draw = random.Random(seed)
        self.most_bytes = int(need_bytes * self.HELD)
        self.blocks: list[torch.Tensor] = []
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(need_bytes * self.SPARE / total, 1.0))

    def step(self) -> None:
        """Give half back, and take others."""
        self.draw.shuffle(self.blocks)
        del self.blocks[len(self.blocks) // 2 :]
        held = sum(each.numel() for each in self.blocks)
        with contextlib.suppress(torch.cuda.OutOfMemoryError):
            while held < self.most_bytes:
                size = int(self.draw.uniform(0.02, 0.2) * self.most_bytes) | 1
                self.blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                held += size

    def end(self) -> None:
        """Give all back, and lift the limit."""
        self.blocks.clear()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0)


@contextlib.contextmanager
def neighbour(is_wanted: bool) -> Iterator[int | None]:
    """A second process that multiplies on the same device as long as this lasts: its pid, `None` where none
    is wanted. A process of its own, for a forked one cannot use a device that its parent uses."""
    if not is_wanted:
        yield None
        return
    words = [sys.executable, "-m", "tools.gpu_check.inject"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=dict(os.environ)) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()  # it is at work
            yield other.pid
        finally:
            other.kill()


def _be_the_neighbour() -> None:
    """Multiply until the one who started this is gone."""
    left = torch.rand(4096, 4096, device="cuda", dtype=torch.float16)
    parent = os.getppid()
    for turn in range(1 << 40):
        for _ in range(20):
            left @ left
        torch.cuda.synchronize()
        if turn == 0:
            print("at work", flush=True)
        if os.getppid() != parent:
            return


if __name__ == "__main__":
    _be_the_neighbour()
