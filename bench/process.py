"""One measured process: CPU seconds (user and system) and peak resident size, as the kernel counted them."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Cost:
    """What one whole process cost, imports included."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int


class Failed(RuntimeError):
    """The measured process did not end well."""


def measure(words: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and say what it cost; its children count only once they were waited for."""
    # As on a machine where nobody set anything: no choice of kernels, and compiled Python kept on every side.
    unset = ("STEPSCOPE_", "OPENBLAS_", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
    environment |= env or {}
    with tempfile.TemporaryFile() as sink:
        begin = time.perf_counter()
        process = subprocess.Popen(
            list(words), stdout=subprocess.DEVNULL, stderr=sink, stdin=subprocess.DEVNULL, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sink.seek(0)
            said = sink.read()[-2000:].decode(errors="replace")
            raise Failed(f"{' '.join(words)[:200]} ended with {process.returncode}: {said}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024)


def alternate(
    sides: Mapping[str, Sequence[str]], repetitions: Mapping[str, int], env: Mapping[str, Mapping[str, str]]
) -> dict[str, list[Cost]]:
    """Measure every side in turn, round after round, so that a busy moment of the machine hits all."""
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    failed: set[str] = set()
    for turn in range(max(repetitions.values())):
        for name, words in sides.items():
            if turn < repetitions[name] and name not in failed:
                try:
                    costs[name].append(measure(words, env.get(name)))
                except Failed as error:  # the other sides are worth measuring all the same
                    print(f"  {name}: {error}", flush=True)
                    failed.add(name)
    return {name: runs for name, runs in costs.items() if runs}


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        median(cost.cpu_seconds for cost in costs),
        median(cost.wall_seconds for cost in costs),
        int(median(cost.peak_bytes for cost in costs)),
    )
