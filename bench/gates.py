"""10,000 GPUs × 20 signals at 1 Hz through the gates on one core, point by point.

    python -m bench.gates [--gpus 10000] [--signals 20] [--seconds 150]

200,000 rows, one push a simulated second. All begin at once, so that all learn their normal in the same
second: the worst there is. Of the GPUs 1 % become slow at the end. Printed: CPU seconds a simulated second
while learning, in that second, and while judging; memory of the state.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from stepscope.detect.kind import EITHER, FEWER, SHARE_DOWN, SLOWER
from stepscope.detect.stream import Gates

KINDS = (SLOWER, FEWER, SHARE_DOWN, EITHER)
LEARNED = 110
"""Seconds until the normal is known."""
FAULT_S = 20
SLOW = 0.01


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; 1 where a core does not keep up."""
    parser = argparse.ArgumentParser(prog="python -m bench.gates", description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--signals", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=170)
    options = parser.parse_args(words)
    num = options.gpus * options.signals
    gates = Gates()
    rows = gates.add([KINDS[n % len(KINDS)] for n in range(num)])
    draw = np.random.default_rng(20_000)
    level = draw.uniform(0.4, 0.9, num)
    noise = [1 + 0.02 * draw.standard_normal(num) for _ in range(16)]
    is_clean = np.ones(num, dtype=bool)
    slow = (np.arange(num) // options.signals) < SLOW * options.gpus
    worse = np.where(np.arange(num) % len(KINDS) == 0, 1.15, 0.85)
    took, found, false = [], 0, 0
    for second in range(options.seconds):
        values = level * np.roll(noise[second % len(noise)], 977 * second)
        if second >= options.seconds - FAULT_S:
            values = np.where(slow, values * worse, values)
        begin = time.process_time()
        told = gates.push(rows, values, is_clean, second * 10**9)
        took.append(time.process_time() - begin)
        found, false = int((told.severity[slow] > 0).sum()), false + int((told.severity[~slow] > 0).sum())
    judging = np.array(took[LEARNED:])
    print(f"{options.gpus:,} GPUs × {options.signals} signals = {num:,} series at 1 Hz")
    print(f"  learning           {np.mean(took[: LEARNED - 1]):8.4f} CPU s a second")
    print(f"  all normals at once {max(took[:LEARNED]):7.3f} CPU s, once")
    print(
        f"  judging            {judging.mean():8.4f} CPU s a second (median {np.median(judging):.4f}, ",
        end="",
    )
    print(f"most {judging.max():.4f})")
    print(f"  all seconds        {np.mean(took):8.4f} CPU s a second: {1 / np.mean(took):.0f}× real time")
    print(f"  state              {gates.num_bytes / 1e6:8.0f} MB, {gates.num_bytes / num:.0f} bytes a series")
    print(f"  slow series found  {found} of {int(slow.sum())}; points of others alarmed {false}")
    return 0 if np.mean(took) < 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
