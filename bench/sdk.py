"""What marks cost: time a mark, system calls, and the steps of a real loop with and without them.

    python -m bench.sdk [--pairs 400] [--agent-pairs 12] [--torch PYTHON]

* Cost: each mark alone by the clock, less what reading the clock costs, median and p99, both held against the
  budget; and the mean of many in a row. A whole `with step()` or `with phase()` is two marks. On a machine
  with other load the p99 has whatever took the processor away meanwhile: it is told, and not excused.
* System calls: the kernel's own count under `strace -c` of processes that make no, some and twice as many
  marks; the difference is what marks make. And marks in a process that has told the kernel to end it at
  any call but write (seccomp): it gets through them, or it is ended.
* Upper bound: cost × marks a step / step time.
* Steps: a small real torch loop on the CPU, with and without marks, and with and without marks and an agent
  beside it, in turn: `bench.step`.

Prints Markdown and writes `.bench/sdk.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.step import told

ROOT = Path(__file__).resolve().parent.parent
BUDGET_NS = 2000.0

COST = """
import gc, json, os, statistics, sys, time, timeit
import stepscope_sdk
from stepscope_sdk.ring import Ring
now = time.perf_counter_ns
def alone(call, num=20000):
    took = []
    for _ in range(num):
        a = now(); call(); b = now()
        took.append(b - a)
    return sorted(took)
def figures(call, marks, clock):
    call(); took = alone(call)
    row = min(timeit.repeat(call, number=500, repeat=60)) / 500 * 1e9
    median, p99 = took[len(took) // 2] - clock, took[int(len(took) * .99)] - clock
    return {"marks": marks, "median_ns": median, "p99_ns": p99, "in_a_row_ns": row}
found = {}
gc.disable()
monitor = stepscope_sdk.monitor()  # as in a job: with its control file looked at
clock = statistics.median(alone(lambda: None))
for name, crc in (("plain", False), ("with CRC", True)):
    ring = Ring(os.path.join(sys.argv[1], f"{crc}.ring"), {}, has_crc=crc)
    def step():
        with monitor.step(): pass
    def phase():
        with monitor.phase("forward"): pass
    write = ring.write
    found[f"one mark, {name}"] = figures(lambda: write(4, 0, 1, 2), 1, clock)
    if crc:
        found["with monitor.step()"] = figures(step, 2, clock)
        found["with monitor.phase()"] = figures(phase, 2, clock)
        found["monitor.log(loss=…)"] = figures(lambda: monitor.log(loss=1.0), 1, clock)
print(json.dumps(found))
"""

CALLS = """
import sys, stepscope_sdk
monitor = stepscope_sdk.monitor()
for n in range(int(sys.argv[1])):
    with monitor.step(tokens=4096):
        with monitor.phase("forward"): pass
        monitor.log(loss=1.0)
"""

STRICT = """
import ctypes, gc, os, struct, sys, stepscope_sdk
monitor = stepscope_sdk.monitor()
def some():
    for n in range(300):
        with monitor.step(tokens=4096):
            with monitor.phase("forward"): pass
            monitor.log(loss=1.0)
some()
gc.disable()
# A filter: load the number of the call; where it is that of write, allow, else end the process.
write = {"x86_64": 1, "aarch64": 64}[os.uname().machine]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, write), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x80000000)]
rules = b"".join(struct.pack("HBBI", *rule) for rule in rules)
kept = ctypes.create_string_buffer(rules)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(kept)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) != 0:
    os.write(1, b"refused"); os._exit(0)
if sys.argv[1] == "call": os.getppid()
if sys.argv[1] == "mark": some()
os.write(1, b"got through")
os._exit(0)  # is a call too: whoever got so far is ended here
"""


def environment(folder: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_")}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "STEPSCOPE_RUN_DIR": folder}


def answer(python: str, script: str, folder: str, *words: str) -> dict[str, object]:
    done = subprocess.run(
        [python, "-c", script, *words], env=environment(folder), check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def calls(folder: str, num_steps: int) -> int:
    """System calls of a whole process that makes so many steps of five marks."""
    folder = tempfile.mkdtemp(dir=folder)  # old rings are looked at when a process starts
    counts = Path(folder) / "strace"
    words = ["strace", "-f", "-c", "-o", str(counts), sys.executable, "-c", CALLS, str(num_steps)]
    subprocess.run(words, env=environment(folder), check=True, capture_output=True)
    total = re.search(
        r"^\s*100\.00\s+\S+\s+(?:\S+\s+)?(\d+)(?:\s+\d+)?\s+total$", counts.read_text(), re.MULTILINE
    )
    assert total is not None, counts.read_text()
    return int(total[1])


def strictly(folder: str, what: str) -> str:
    """What a process says that may make no system call and does `nothing`, a `call` or a `mark`."""
    done = subprocess.run(
        [sys.executable, "-c", STRICT, what],
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--agent-pairs", type=int, default=12)
    parser.add_argument("--torch", default=os.environ.get("STEPSCOPE_TORCH_PYTHON", ".venv-torch/bin/python"))
    asked = parser.parse_args()
    if min(asked.pairs, asked.agent_pairs) < 10:
        parser.error("at least ten pairs")
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        cost = result["cost"] = answer(sys.executable, COST, folder, folder)
        limit = f"budget {BUDGET_NS:.0f} ns"
        print(f"| what | marks | median, a mark | {limit} | p99, a mark | {limit} | in a row, a mark |")
        print("|---|---|---|---|---|---|---|")
        worst = 0.0
        for name, row in cost.items():
            assert isinstance(row, dict)
            each = row["in_a_row_ns"] / row["marks"]
            worst = max(worst, each)
            median, p99 = (row[key] / row["marks"] for key in ("median_ns", "p99_ns"))
            met, met_p99 = ("met" if value < BUDGET_NS else "missed" for value in (median, p99))
            print(
                f"| {name} | {row['marks']} | {median:.0f} ns | {met} | {p99:.0f} ns | {met_p99}"
                f" | {each:.0f} ns |"
            )
        clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        named = clock.read_text().strip() if clock.exists() else "unknown"
        if shutil.which("strace"):
            none, some, twice = (calls(folder, num) for num in (0, 1000, 2000))
            result["calls"] = {"clock": named, "none": none, "some": some, "twice": twice}
            print(
                f"\nSystem calls of a process with 0, 5,000 and 10,000 marks: {none}, {some}, {twice}"
                f" (clock {named})."
            )
        else:
            print(f"\nSystem calls were not counted: no strace here (clock {named}).")
        strict = result["strict"] = {what: strictly(folder, what) for what in ("nothing", "call", "mark")}
        print(f"In a process that may make none: 1,500 marks {strict['mark'] or 'ended it'}.")
        python = shutil.which(asked.torch)
        if python is None:
            print("Steps were not measured: no Python with torch (--torch).")
        else:
            where = environment(folder)
            result["steps"] = told(python, where, folder, asked.pairs, asked.agent_pairs, worst)
    (ROOT / ".bench").mkdir(exist_ok=True)
    (ROOT / ".bench/sdk.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
