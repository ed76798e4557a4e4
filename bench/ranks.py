"""Many ranks: 8, 64 and 256 traces of about 20 MB of JSON each, on one process and on the pool, beside the
peer.

    python -m bench.ranks [--ranks 8 64 256] [--steps 34] [--no-peer]

The traces are simulated (`stepscope simulate`, seeded), so that anybody can make the same. CPU seconds are
of the whole tree of processes; the peak is the largest sum of the resident sizes of all of them at one time,
sampled every 20 ms. The peer takes the sets that fit its time here; what it is asked for is its own overlap
and breakdown tables.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path

import psutil

from bench.process import Cost, Failed

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
MB = 1_000_000
BUDGET_BYTES = 4_000 * MB
DIAGNOSE = (
    "import sys; from stepscope.cli import main; "
    "sys.exit(main(['diagnose', sys.argv[1], '--format', 'json', '--jobs', sys.argv[2]]))"
)
PEER = (
    "import os, sys; os.environ.setdefault('OPENBLAS_NUM_THREADS', '1'); "
    "import logging; logging.disable(logging.CRITICAL); "
    "from hta.trace_analysis import TraceAnalysis; t = TraceAnalysis(trace_dir=sys.argv[1]); "
    "t.get_temporal_breakdown(visualize=False); t.get_comm_comp_overlap(visualize=False)"
)


def tree_cost(words: list[str], env: dict[str, str], timeout_s: float) -> Cost:
    """Run a command and say what it and all of its children cost."""
    with tempfile.TemporaryFile() as sink:
        begin = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=sink, env={**os.environ, **env})
        peak, done = [0], threading.Event()

        def sample() -> None:
            root = psutil.Process(process.pid)
            while not done.wait(0.02):
                total = 0
                try:
                    for each in (root, *root.children(recursive=True)):
                        total += each.memory_info().rss
                except psutil.Error:
                    continue
                peak[0] = max(peak[0], total)

        watcher = threading.Thread(target=sample, daemon=True)
        watcher.start()
        killer = threading.Timer(timeout_s, process.kill)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        killer.cancel()
        done.set()
        watcher.join()
        wall = time.perf_counter() - begin
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        if code != 0:
            sink.seek(0)
            raise Failed(
                f"ended with {code} after {wall:.0f} s: {sink.read()[-500:].decode(errors='replace')}"
            )
    return Cost(usage.ru_utime + usage.ru_stime, wall, max(peak[0], usage.ru_maxrss * 1024))


def made(ranks: int, steps: int) -> Path:
    """The simulated set, made on first use."""
    out = WORK / f"ranks{ranks}x{steps}"
    if not out.with_suffix(".done").exists():
        print(f"making {ranks} ranks of {steps} steps …", flush=True)
        words = ["simulate", "--out", str(out), "--seed", "4", "--ranks", str(ranks)]
        words += ["--model", "transformer", "--steps", str(steps), "--fault", "straggler#3:medium"]
        subprocess.run(
            [sys.executable, "-m", "stepscope", *words],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        out.with_suffix(".done").touch()
    return out


def main() -> int:
    """Measure every set and print its lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--steps", type=int, default=34)
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out")
    parser.add_argument("--peer-most", type=int, default=8, help="the largest set that the peer is given")
    given = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    peer = None
    if not given.no_peer:
        from bench.run import peer_python

        peer = peer_python()
    pool = str(os.cpu_count() or 2)
    results = {}
    print(f"\n{'ranks':>6} {'side':22} {'CPU s':>8} {'wall s':>8} {'peak MB':>8}")
    for ranks in given.ranks:
        folder = made(ranks, given.steps)
        sides = {
            "one process": (
                [sys.executable, "-c", DIAGNOSE, str(folder), "1"],
                {"PYTHONPATH": str(ROOT / "src")},
            ),
            f"pool of {pool}": (
                [sys.executable, "-c", DIAGNOSE, str(folder), pool],
                {"PYTHONPATH": str(ROOT / "src")},
            ),
        }
        if peer is not None and ranks <= given.peer_most:
            sides["peer (HTA 0.5.0)"] = ([peer, "-c", PEER, str(folder)], {})
        for side, (words, env) in sides.items():
            try:
                cost = tree_cost(words, env, 900)
            except Failed as error:
                print(f"{ranks:6} {side:22} {error}", flush=True)
                continue
            print(
                f"{ranks:6} {side:22} {cost.cpu_seconds:8.1f} {cost.wall_seconds:8.1f} {cost.peak_bytes / MB:8.0f}",
                flush=True,
            )
            results[f"{ranks} {side}"] = asdict(cost)
    (WORK / "ranks.json").write_text(json.dumps(results, indent=1))
    most = [
        cost["peak_bytes"] for name, cost in results.items() if name.startswith("256 ") and "peer" not in name
    ]
    if most:
        said = "met" if max(most) <= BUDGET_BYTES else "MISSED"
        print(f"\n256 ranks, peak of all processes: {max(most) / MB:,.0f} MB; budget 4,000 MB: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
