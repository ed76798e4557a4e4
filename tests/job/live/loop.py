"""A real PyTorch loop on the CPU that marks its steps until a file appears.

python loop.py STOP_FILE
"""

from __future__ import annotations

import os
import sys
import time

import torch

import stepscope_sdk

MOST_SECONDS = 120.0


def main(stop: str) -> None:
    """Multiply matrices until told to stop, or for two minutes."""
    torch.set_num_threads(1)
    monitor = stepscope_sdk.monitor()
    left = right = torch.rand(256, 256)
    ends = time.monotonic() + MOST_SECONDS
    while not os.path.exists(stop) and time.monotonic() < ends:
        with monitor.step():
            with monitor.phase("forward"):
                for _ in range(8):
                    left = torch.tanh(left @ right)
            time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
