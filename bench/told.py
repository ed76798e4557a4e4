"""From a fault to its card: `serve`, `simulate --serve` and `agent` as processes of this machine.

    python -m bench.told [--trials 20] [--together 2] [--faults NAME …] [--keep DIR]
    python -m bench.told --healthy 60 [--time-scale 4] [--keep DIR]

Each trial is a job of its own that trains until its normal is known; then a fault is switched on, by the wall
clock at time scale 1, and the clock runs until the server has the card of an incident of this job. Every
trial is printed: when the alarm came, the capture was asked for and its traces were in, and the card; whether
its rule is one that the fault stands for, and its ranks those of the fault.

`--healthy` lets one job train for so many simulated minutes with evaluations, checkpoints, falls of the
learning rate and restarts of the exporter, and has it captured now and then; every incident is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.faults import RULES, SHOWN_BY, SYMPTOMS
from stepscope.simulate.fault import parse

ROOT = Path(__file__).resolve().parent.parent

LEARNED_STEPS = 130
"""Warm-up, a hundred clean steps, and some to spare."""
FAULTS = ("loader-stall#1", "straggler#2", "thermal-throttle#3", "host-sync:severe", "slow-link")
LIMIT_S = 120.0
LIVE = {name: words for name, words in SHOWN_BY.items() if "--run-ahead" not in words}
"""Fault -> the shape of a job that it costs something; a live job is no step ahead by itself."""


@dataclass
class Trial:
    """One fault. Seconds after it was switched on; `None` for what did not come."""

    fault: str
    seed: int
    marks: dict[str, float] = field(default_factory=dict)
    rule: str | None = None
    ranks: tuple[int, ...] = ()
    title: str = ""
    why: str = ""
    learning_incidents: int = 0

    @property
    def card_s(self) -> float | None:
        return self.marks.get("card")

    @property
    def verdict(self) -> str:
        """`right` cause and ranks, `symptom` where the card says what happens and not why, `WRONG`, or `-`
        for no card. Of a fault of every rank any may be named."""
        chosen = parse(self.fault)
        if self.card_s is None:
            return "-"
        if chosen.rank is not None and self.ranks != (chosen.rank,):
            return "WRONG"
        if self.rule in RULES[chosen.name]:
            return "right"
        return "symptom" if self.rule in SYMPTOMS.get(chosen.name, ()) else "WRONG"


# ── processes ──


@contextlib.contextmanager
def process(folder: Path, name: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A verb of stepscope; what it says goes to `NAME.log` and into the list."""
    said: list[str] = []
    log = open(folder / f"{name}.log", "w")  # noqa: SIM115  closed below
    running = subprocess.Popen(
        [sys.executable, "-m", "stepscope", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "500"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
    )  # fmt: skip

    def read() -> None:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            log.write(line)
            log.flush()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield running, said
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait(10)
        reader.join(5)
        assert running.stdout is not None
        running.stdout.close()
        log.close()


def address_in(running: subprocess.Popen[str], said: list[str], word: str) -> str:
    """The first http address on a line that holds this word."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        for line in list(said):
            if word in line and "http://" in line:
                at = line.index("http://")
                return "/".join(line[at:].split()[0].rstrip(".;,").split("/")[:3])
        if running.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"it did not start: {''.join(said)[-2000:]}")


def ask(url: str, body: bytes | None = None, method: str | None = None) -> Any:
    """JSON of an address, or its text."""
    request = urllib.request.Request(url, body, method=method)
    if body is not None and body[:1] == b"{":
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


@contextlib.contextmanager
def job(folder: Path, server: str, seed: int, *more: str, scale: float = 1.0) -> Iterator[str]:
    """A job that trains, and its agent: the job's own address."""
    folder.mkdir(parents=True)
    words = ["simulate", "--serve", "--out", "live", "--port", "0", "--seed", str(seed), "--ranks", "4",
             "--counters", "full", "--time-scale", str(scale), *more]  # fmt: skip
    with process(folder, "simulate", *words) as (running, said):
        at = address_in(running, said, "Scrape")
        agent = ["agent", "--server", server, "--spool", "spool", "--run-dir", "live/run", "--host",
                 f"train-{seed % 100:02d}-001", "--exporter", f"{at}/metrics", "--exporter",
                 f"{at}/node/metrics", "--source", "rings", "--source", "scrape", "--source", "own",
                 "--time-scale", str(scale)]  # fmt: skip
        with process(folder, "agent", *agent):
            yield at


def steps_of(server: str, name: str) -> int:
    """The newest step that the server knows of."""
    runs = ask(f"{server}/api/v1/runs?job={name}")["items"]
    if not runs:
        return -1
    ranks = ask(f"{server}/api/v1/ranks?job={name}&run={runs[0]['run']}")["items"]
    return min((each.get("last_step") or -1 for each in ranks), default=-1)


def until(what: Any, seconds: float, every_s: float = 0.25) -> Any:
    """Ask again and again until it is true; `None` where it never is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            if found := what():
                return found
        time.sleep(every_s)
    return None


# ── a trial ──


def trial(folder: Path, server: str, fault: str, seed: int) -> Trial:
    """Train, break, wait for the card."""
    done, name = Trial(fault, seed), f"simulated-{seed}"
    with job(folder, server, seed, *LIVE.get(parse(fault).name, ())) as at:
        if until(lambda: steps_of(server, name) >= LEARNED_STEPS, 400, 1.0) is None:
            done.why = f"step {steps_of(server, name)} after 400 s"
            return done
        # At no particular moment of a step or a look.
        time.sleep(random.Random(seed).uniform(0.0, 3.0))
        before = {each["id"] for each in ask(f"{server}/api/v1/incidents?job={name}")["items"]}
        done.learning_incidents = len(before)
        begin_ns = time.time_ns()
        ask(f"{at}/faults", f"{fault} on".encode())

        def card() -> dict[str, Any] | None:
            for each in ask(f"{server}/api/v1/incidents?job={name}")["items"]:
                if each["id"] not in before and each.get("report") and each.get("card"):
                    return dict(each)
            return None

        found = until(card, LIMIT_S, 0.1)
        ask(f"{at}/faults", b"all off")
        items = ask(f"{server}/api/v1/incidents?job={name}")["items"]
        if found is None:
            done.why = "; ".join(
                f"{each['title']}: {[h['what'] for h in each.get('history', [])]}" for each in items
            )
            return done
        done.marks = {"card": (time.time_ns() - begin_ns) / 1e9}
        for each in found.get("history", []):
            done.marks.setdefault(each["what"].split(":")[0][:40], (each["at_ns"] - begin_ns) / 1e9)
        done.rule, done.title = found.get("rule"), found["title"]
        done.ranks = tuple(found["about"].get("ranks", ()))
    return done


def line_of(one: Trial) -> str:
    """One row of the table."""
    card = f"{one.card_s:6.1f}" if one.card_s is not None else "  none"
    steps = ", ".join(f"{what} {at:.1f}" for what, at in one.marks.items() if what != "card")
    early = f" [{one.learning_incidents} before the fault]" if one.learning_incidents else ""
    what = one.rule or one.title or one.why[:300]
    return (
        f"{one.fault:20} {one.seed:5} {card} s  {one.verdict:7} {what!s:24} "
        f"ranks {list(one.ranks)}  ({steps}){early}"
    )


def run_trials(root: Path, faults: Sequence[str], num: int, together: int, first_seed: int) -> int:
    """All trials, printed; 0 where the ninetieth percentile is below 30 s and every cause is right."""
    with process(root, "serve", "serve", "--data", "data", "--port", "0") as (running, said):
        server = address_in(running, said, "Serving")
        plan = [(faults[n % len(faults)], first_seed + n) for n in range(num)]
        done: list[Trial] = []
        with ThreadPoolExecutor(together) as pool:
            waits = [pool.submit(trial, root / f"job-{seed}", server, fault, seed) for fault, seed in plan]
            for each in waits:
                done.append(each.result())
                print(line_of(done[-1]), flush=True)
    times = sorted(one.card_s if one.card_s is not None else LIMIT_S for one in done)
    p90 = times[min(len(times) - 1, int(0.9 * len(times)))]
    num_right = sum(one.verdict == "right" for one in done)
    print(
        f"card after: median {statistics.median(times):.1f} s, p90 {p90:.1f} s, most {times[-1]:.1f} s; "
        f"right cause and ranks {num_right} of {len(done)}; "
        f"incidents before the fault {sum(one.learning_incidents for one in done)}"
    )
    return 0 if p90 < 30 and num_right == len(done) else 1


def healthy(root: Path, minutes: float, scale: float, seed: int) -> int:
    """One job without a fault: 0 where no card comes."""
    name = f"simulated-{seed}"
    with process(root, "serve", "serve", "--data", "data", "--port", "0", "--time-scale", str(scale)) as (
        running,
        said,
    ):
        server = address_in(running, said, "Serving")
        with job(root / "job", server, seed, "--events", scale=scale):
            end = time.monotonic() + minutes * 60 / scale
            num_asked = 0
            while time.monotonic() < end:
                time.sleep(min(60 / scale * 5, max(end - time.monotonic(), 0.1)))
                with contextlib.suppress(urllib.error.URLError):
                    ask(f"{server}/api/v1/captures", json.dumps({"job": name, "num_steps": 3}).encode())
                    num_asked += 1
            captures = ask(f"{server}/api/v1/captures?job={name}")["items"]
            items = ask(f"{server}/api/v1/incidents?job={name}")["items"]
            alarms = ask(f"{server}/api/v1/alarms?job={name}&limit=1000")["items"]
            window = f"job={name}&start=now-{int(minutes * 60 / scale) + 3600}s&end=now"
            series = ask(f"{server}/api/v1/series?signal=sm_active_ratio&pixels=10000&{window}")
            num_samples = [len(each["at_ns"]) for each in series["lines"]]
    done = sum(each["body"]["state"] == "done" for each in captures)
    print(
        f"{minutes:g} simulated minutes at time scale {scale:g}: {len(items)} incidents, {len(alarms)} alarms"
    )
    print(f"captures asked {num_asked}, done {done}; samples of sm_active_ratio a series {num_samples}")
    for each in items:
        print(f"  {each['title']} {each.get('rule')} {[h['what'] for h in each.get('history', [])]}")
    for each in alarms:
        pages = each.get("pages", True)
        print(f"  alarm {each['condition']} {each['severity']} {each.get('text')} pages={pages}")
    cards = [each for each in items if each.get("card") and each["severity"] != "info"]
    return 1 if cards else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.told")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--together", type=int, default=2, help="jobs at a time")
    parser.add_argument("--faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--first", type=int, default=2000, help="the first seed")
    parser.add_argument("--healthy", type=float, default=0.0, metavar="MINUTES")
    parser.add_argument("--time-scale", type=float, default=1.0)
    parser.add_argument("--keep", metavar="DIR", help="keep everything there")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if given.keep:
            root = Path(given.keep).resolve()
            root.mkdir(parents=True, exist_ok=True)
        else:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if given.healthy:
            return healthy(root, given.healthy, given.time_scale, given.first)
        return run_trials(root, given.faults, given.trials, given.together, given.first)


if __name__ == "__main__":
    sys.exit(main())
