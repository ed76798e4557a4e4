"""`make bench`: whole processes side by side in one run, imports included on every side.

    python -m bench.run [--quick] [--no-peer]

Sides: the native loader, the fallback, and HolisticTraceAnalysis 0.5.0 in an environment of its own. Inputs: a trace of
about 540 MB and one of about 1.5 GB made by repeating real events with shifted times and ids, and the three largest
real files as they are. Prints a table against the budgets and writes `.bench/result.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.process import Cost, Failed, alternate, measure, middle

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
PEER = ("HolisticTraceAnalysis==0.5.0", "pandas<3")
MB = 1_000_000

LARGE_BYTES = 540 * MB
HUGE_BYTES = 1_500 * MB
REAL = {
    "mtia_rank_0": "traces/holistictraceanalysis/mtia_trace_single_rank/mtia_rank_0.json.gz",
    "df_index_resolver": "traces/holistictraceanalysis/df_index_resolver/df_index_resolver.json.gz",
    "resnet50_num_workers_0": "traces/kineto/*/resnet50_num_workers_0/*.pt.trace.json.gz",
}

# One thread for linear algebra that is not used, as the command line sets it: on both sides.
ONE_THREAD = "import os, sys; os.environ.setdefault('OPENBLAS_NUM_THREADS', '1'); "
LOAD = ONE_THREAD + "from stepscope.trace.load import load; load(sys.argv[1], native={})"
LOAD_PEER = (
    ONE_THREAD + "import logging; logging.disable(logging.CRITICAL); "
    "from hta.common.trace import parse_trace_file; parse_trace_file(sys.argv[1])"
)
DIAGNOSE = "import sys; from stepscope.cli import main; sys.exit(main(['diagnose', sys.argv[1], '--format', 'json']))"
OURS = {"PYTHONPATH": str(ROOT / "src")}


def shared_data() -> Path:
    given = os.environ.get("STEPSCOPE_SHARED_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


def peer_python() -> str:
    """The Python of the peer's environment, made on first use."""
    home = WORK / "peer"
    python = home / "bin" / "python"
    if not (home / ".done").exists():
        print(f"setting up {PEER[0]} …", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEER], check=True
        )
        (home / ".done").touch()
    return str(python)


def made(name: str, num_bytes: int) -> Path:
    """A large trace, made on first use."""
    from bench.replicate import replicate

    path = WORK / name
    if not path.exists():
        print(f"making {name} …", flush=True)
        replicate(shared_data(), path, num_bytes)
    return path


def sides_of(
    path: Path, peer: str | None, with_diagnose: bool
) -> tuple[dict[str, list[str]], dict[str, Mapping[str, str]]]:
    ours = sys.executable
    sides = {
        "native": [ours, "-c", LOAD.format(True), str(path)],
        "fallback": [ours, "-c", LOAD.format(False), str(path)],
    }
    env: dict[str, Mapping[str, str]] = {"native": OURS, "fallback": OURS, "diagnose": OURS}
    if with_diagnose:
        sides["diagnose"] = [ours, "-c", DIAGNOSE, str(path)]
    if peer:
        sides["peer"] = [peer, "-c", LOAD_PEER, str(path)]
    return sides, env


def compare(name: str, path: Path, peer: str | None, times: Mapping[str, int]) -> dict[str, Any]:
    """Measure every side on one file and print its lines."""
    sides, env = sides_of(path, peer, with_diagnose=True)
    costs = alternate(sides, {side: times[side] for side in sides}, env)
    num_bytes = size_of(path)
    print(f"\n{name}: {path.stat().st_size / MB:.1f} MB on disk, {num_bytes / MB:.0f} MB of JSON")
    print(
        f"  {'side':10} {'runs':>4} {'CPU s':>8} {'min':>8} {'wall s':>8} {'peak MB':>8} {'× CPU':>8} {'× peak':>8}"
    )
    middles = {side: middle(runs) for side, runs in costs.items()}
    base = middles.get("native") or middles.get("fallback") or Cost(float("nan"), 0.0, 1)
    for side, cost in middles.items():
        least = min(run.cpu_seconds for run in costs[side])
        print(
            f"  {side:10} {len(costs[side]):4} {cost.cpu_seconds:8.2f} {least:8.2f} {cost.wall_seconds:8.2f} "
            f"{cost.peak_bytes / MB:8.0f} {cost.cpu_seconds / base.cpu_seconds:8.1f} {cost.peak_bytes / base.peak_bytes:8.1f}",
            flush=True,
        )
    return {
        "file": name,
        "json_bytes": num_bytes,
        "disk_bytes": path.stat().st_size,
        "runs": {side: [asdict(run) for run in runs] for side, runs in costs.items()},
        "median": {side: asdict(cost) for side, cost in middles.items()},
    }


def size_of(path: Path) -> int:
    """Bytes of JSON."""
    if path.suffix != ".gz":
        return path.stat().st_size
    import gzip

    total = 0
    with gzip.open(path) as file:
        while block := file.read(1 << 22):
            total += len(block)
    return total


def judge(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every budget beside what was measured."""
    lines: list[dict[str, Any]] = []

    def line(what: str, value: float | None, op: str, budget: float, unit: str) -> None:
        is_met = None if value is None else (value <= budget if op == "≤" else value >= budget)
        lines.append(
            {"what": what, "value": value, "op": op, "budget": budget, "unit": unit, "is_met": is_met}
        )

    def median_of(file: str, side: str, figure: str) -> float | None:
        found = results["files"].get(file, {}).get("median", {}).get(side)
        return float(found[figure]) if found else None

    def ratio(a: float | None, b: float | None) -> float | None:
        return a / b if a is not None and b else None

    large, huge = results["files"].get("large"), results["files"].get("huge")
    line("load 540 MB, native, CPU", median_of("large", "native", "cpu_seconds"), "≤", 1.0, "s")
    line("load 540 MB, native, peak", ratio(median_of("large", "native", "peak_bytes"), MB), "≤", 200, "MB")
    line("load 540 MB, fallback, CPU", median_of("large", "fallback", "cpu_seconds"), "≤", 8.0, "s")
    line(
        "diagnose against load, CPU",
        ratio(median_of("large", "diagnose", "cpu_seconds"), median_of("large", "native", "cpu_seconds")),
        "≤",
        3.0,
        "×",
    )
    line(
        "diagnose, peak against the file",
        ratio(median_of("large", "diagnose", "peak_bytes"), large["json_bytes"] if large else None),
        "≤",
        1.0,
        "×",
    )
    line(
        "peer against native, 540 MB, CPU",
        ratio(median_of("large", "peer", "cpu_seconds"), median_of("large", "native", "cpu_seconds")),
        "≥",
        20,
        "×",
    )
    line(
        "peer against native, 540 MB, peak",
        ratio(median_of("large", "peer", "peak_bytes"), median_of("large", "native", "peak_bytes")),
        "≥",
        1,
        "×",
    )
    for name in REAL:
        line(
            f"peer against native, {name}, CPU",
            ratio(median_of(name, "peer", "cpu_seconds"), median_of(name, "native", "cpu_seconds")),
            "≥",
            20,
            "×",
        )
    for side in ("native", "diagnose"):
        growth = ratio(median_of("huge", side, "cpu_seconds"), median_of("large", side, "cpu_seconds"))
        sizes = ratio(huge["json_bytes"], large["json_bytes"]) if huge and large else None
        line(f"1.5 GB, {side}: growth of CPU against growth of size", ratio(growth, sizes), "≤", 1.15, "×")
    line(
        "1.5 GB, diagnose, peak against the file",
        ratio(median_of("huge", "diagnose", "peak_bytes"), huge["json_bytes"] if huge else None),
        "≤",
        1.0,
        "×",
    )
    line("stepscope --help, wall", results.get("help_wall_seconds"), "≤", 0.3, "s")
    return lines  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one run of each side, no 1.5 GB file")
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out")
    given = parser.parse_args()
    data = shared_data()
    if not data.is_dir():
        print(f"bench: no shared data at {data}; set STEPSCOPE_SHARED_DATA", file=sys.stderr)
        return 3
    WORK.mkdir(exist_ok=True)
    peer = None if given.no_peer else peer_python()
    ours = 1 if given.quick else 5
    # What pip does for the peer when it installs: compile what is imported.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "src")], check=True)
    results: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "files": {}}

    helps = [
        measure([sys.executable, "-m", "stepscope", "--help"], {"PYTHONPATH": str(ROOT / "src")})
        for _ in range(9)
    ]
    results["help_wall_seconds"] = middle(helps).wall_seconds

    plan: list[tuple[str, Path, dict[str, int]]] = [
        (
            name,
            next(iter(sorted(data.glob(path))), data / path),
            {"native": 9, "fallback": 5, "diagnose": 5, "peer": 3},
        )
        for name, path in REAL.items()
    ]
    plan.append(
        (
            "large",
            made("large.json", LARGE_BYTES),
            {"native": ours, "fallback": min(ours, 3), "diagnose": min(ours, 3), "peer": min(ours, 2)},
        )
    )
    for name, path, times in plan:
        if not path.exists():
            print(f"\n{name}: absent, left out")
            continue
        results["files"][name] = compare(
            name, path, peer, {k: 1 if given.quick else v for k, v in times.items()}
        )
    if not given.quick:
        path = made("huge.json", HUGE_BYTES)
        results["files"]["huge"] = compare("huge", path, None, {"native": 3, "fallback": 1, "diagnose": 2})

    results["budgets"] = judge(results)
    print(f"\n{'':4}{'what':58} {'measured':>10}   budget")
    for each in results["budgets"]:
        mark = {True: "ok", False: "OVER", None: "–"}[each["is_met"]]
        value = "–" if each["value"] is None else f"{each['value']:.2f}"
        print(f"{mark:4}{each['what']:58} {value:>10} {each['unit']:2} {each['op']} {each['budget']:g}")
    (WORK / "result.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"\nall runs: {WORK / 'result.json'}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(70)
