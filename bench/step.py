"""Steps of a real loop with and without marks, and with and without marks and an agent beside them.

One process does both sides in turn, in blocks of a few steps whose order within a pair is by chance, so that
the machine's drift and other people's load fall on both. A pair's difference is the logarithm of the ratio of
its two blocks: the mean of plain ratios of noisy times lies above one even where nothing differs. Told is the
Hodges-Lehmann estimate of all pairs (half of the noise of a median, and no outlier moves it) with its 95 %
interval by signed ranks; wider than 0.5 % is *not resolvable here*.

* Marks: the median step of each block, by the clock on the wall and by the processor time of the process.
  Marks neither wait nor make a system call, so the processor's time has all of them and less of the others.
* With an agent: blocks of seconds, in which a stopped agent does nothing (SIGSTOP) and one that is let go on
  reads the ring and the host every second; the mean step, since its looks fall into a few steps.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WIDEST = 0.005
MARKS_A_STEP = 12
"""Of a loop with a step, data, forward, backward, optimizer and two logged numbers."""

LOOP = """
import json, os, random, signal, statistics, sys, time
import torch
import stepscope_sdk
torch.manual_seed(0); torch.set_num_threads(1); random.seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, 256)
class Nothing:
    def __enter__(self): pass
    def __exit__(self, *error): pass
class Off:
    def step(self, **_): return nothing
    def phase(self, name): return nothing
    def log(self, **_): pass
    def data(self, loader): return loader
nothing = Nothing()
def block(monitor, num, seconds):
    wall, cpu = [], []
    until = time.perf_counter() + seconds
    begun, begun_cpu = time.perf_counter(), time.process_time()
    for batch in monitor.data(range(num)):
        with monitor.step(tokens=64):
            with monitor.phase("forward"): loss = model(x).square().mean()
            with monitor.phase("backward"): loss.backward()
            with monitor.phase("optimizer"): optimizer.step(); optimizer.zero_grad()
            monitor.log(loss=loss.detach())
        ended, ended_cpu = time.perf_counter(), time.process_time()
        wall.append(ended - begun); cpu.append(ended_cpu - begun_cpu)
        begun, begun_cpu = ended, ended_cpu
        if seconds and ended > until: break
    wall, cpu = wall[1:], cpu[1:]  # the first one after a change finds the other side's caches
    middle = statistics.mean if seconds else statistics.median
    return middle(wall), middle(cpu)
sides = {"off": Off(), "on": stepscope_sdk.monitor()}
pairs, num, seconds, agent = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
def turn(name):
    if agent: os.kill(agent, signal.SIGCONT if name == "on" else signal.SIGSTOP)
    return block(sides[name], num, seconds)
for side in sides.values(): block(side, 50, 0.0)
if agent: time.sleep(3.0)  # it finds the ring, and is done with its start
found = []
try:
    for n in range(pairs):
        order = list(sides)
        random.shuffle(order)
        took = {name: turn(name) for name in order}
        found.append((*took["off"], *took["on"]))
finally:
    if agent: os.kill(agent, signal.SIGCONT)
print(json.dumps({"pairs": found, "is_on": sides["on"].is_on}))
"""


@dataclass(frozen=True)
class Effect:
    """How much longer a step is, with the 95 % interval; ratios less one."""

    estimate: float
    low: float
    high: float

    def told(self) -> str:
        """With the interval; what cannot be resolved is said first."""
        text = f"{self.estimate:+.2%} (95 %: {self.low:+.2%} to {self.high:+.2%})"
        return text if self.high - self.low <= WIDEST else f"not resolvable here: {text}"


def effect(off: Sequence[float], on: Sequence[float]) -> Effect:
    """Of pairs: the Hodges-Lehmann estimate of log(on / off), its interval by Wilcoxon's signed ranks."""
    logs = np.log(np.asarray(on) / np.asarray(off))
    n = len(logs)
    rows, columns = np.triu_indices(n)
    means = np.sort((logs[rows] + logs[columns]) / 2)
    out = n * (n + 1) / 4 - 1.96 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    left = max(int(out), 0)
    low, high = means[left], means[len(means) - 1 - left]
    return Effect(*(math.expm1(float(each)) for each in (np.median(means), low, high)))


def measured(
    python: str, environment: Mapping[str, str], pairs: int, steps: int, seconds: float = 0.0, agent: int = 0
) -> list[tuple[float, float, float, float]]:
    """Of each pair the step's seconds without (wall, processor) and with."""
    words = [python, "-c", LOOP, str(pairs), str(steps), str(seconds), str(agent)]
    done = subprocess.run(words, env=dict(environment), check=True, stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout)
    assert said["is_on"]
    found: list[tuple[float, float, float, float]] = said["pairs"]
    return found


def told(
    python: str, environment: Mapping[str, str], folder: str, pairs: int, agent_pairs: int, mark_ns: float
) -> dict[str, object]:
    """Measure and print both."""
    rows = measured(python, environment, pairs, steps=7)
    columns = list(zip(*rows, strict=True))
    step_s = float(np.median(columns[0]))
    bound = mark_ns * MARKS_A_STEP * 1e-9
    print(
        f"Upper bound by that, with warm caches: {mark_ns:.0f} ns × {MARKS_A_STEP} marks a step"
        f" = {bound / step_s:.2%} of a step of {step_s * 1e3:.2f} ms; {bound / 0.1:.4%} of one of 100 ms."
    )
    wall, cpu = effect(columns[0], columns[2]), effect(columns[1], columns[3])
    print(f"Step with marks against without, {len(rows)} pairs of blocks of 6 steps, by the clock:")
    print(f"  {wall.told()}\n  by processor time: {cpu.told()}")
    extra_s = float(np.median(columns[1])) * cpu.estimate
    print(
        f"  that is {extra_s * 1e6:.0f} µs a step, {extra_s / MARKS_A_STEP * 1e9:.0f} ns a mark between"
        f" real work (cold caches); {extra_s / 0.1:.3%} of a step of 100 ms"
    )
    beside, share = with_agent(python, environment, folder, agent_pairs)
    columns = list(zip(*beside, strict=True))
    both = effect(columns[0], columns[2])
    print(f"Step with marks and agent against neither, {len(beside)} pairs of blocks of 2 s, by the clock:")
    print(f"  {both.told()}\n  the agent took {share:.2%} of a core meanwhile, its start included")
    return {
        "bound": bound / step_s,
        "marks": vars(wall),
        "marks_cpu": vars(cpu),
        "marks_and_agent": vars(both),
        "marks_extra_s": extra_s,
        "agent_core_share": share,
        "pairs": rows,
        "agent_pairs": beside,
    }


def with_agent(
    python: str, environment: Mapping[str, str], folder: str, pairs: int
) -> tuple[list[tuple[float, float, float, float]], float]:
    """The pairs, and the share of a core that the agent took while it was let go on."""
    words = ["agent", "--spool", str(Path(folder) / "spool"), "--run-dir", environment["STEPSCOPE_RUN_DIR"]]
    agent = subprocess.Popen(
        [sys.executable, "-m", "stepscope", *words, "--host", "bench"],
        env=dict(environment), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert agent.stderr is not None
        agent.stderr.readline()  # its sources are at work
        time.sleep(3.0)
        before, seconds = _cpu_seconds(agent.pid), 2.0
        rows = measured(python, environment, pairs, 1 << 30, seconds, agent.pid)
        took = _cpu_seconds(agent.pid) - before
    finally:
        agent.send_signal(signal.SIGCONT)
        agent.send_signal(signal.SIGTERM)
        try:
            agent.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.communicate()
    return rows, took / (pairs * seconds + 6.0)  # and the start of torch and of the loop


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
