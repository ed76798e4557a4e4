"""Sources and loops that are made up, and processes that mark."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepscope.agent.clock import Clock, HandClock
from stepscope.agent.context import Context
from stepscope.agent.loop import Loop
from stepscope.agent.pack import Packer
from stepscope.agent.profile import PROFILES
from stepscope.agent.source import Kind, Reading, Sample, Source
from stepscope.model.batch import Batch, Happened, Samples
from stepscope.model.sample import Owner

S = 1_000_000_000
ROOT = Path(__file__).resolve().parents[2]
OWNER = Owner(kind="host", host="n1")


@dataclass
class Made:
    """A source that says `value` each time; `act` may fail or hang first."""

    clock: Clock
    name: str = "made"
    act: Callable[[], object] | None = None
    value: float = 1.0
    reads_ns: list[int] = field(default_factory=list)
    is_closed: bool = False

    def read(self) -> Sequence[Reading]:
        self.reads_ns.append(self.clock.mono_ns())
        if self.act is not None:
            self.act()
        sample = Sample(OWNER, "cpu_run_queue", self.value)
        return [Reading(self.clock.real_ns(), [sample], lag_ns=0)]

    def close(self) -> None:
        self.is_closed = True


def kind(**options: int) -> Kind:
    return Kind(name="made", title="Made up", gives="a number", make=lambda context: [], **options)  # type: ignore[arg-type]


@dataclass
class Agent:
    """A loop and what it handed on."""

    loop: Loop
    batches: list[Batch]
    context: Context

    def events(self) -> list[str]:
        return [each.what for each in self.batches if isinstance(each, Happened)]

    def samples(self, source: str) -> list[Samples]:
        return [each for each in self.batches if isinstance(each, Samples) and each.source == source]


def agent(
    *sources: Source | tuple[Kind, Source],
    clock: Clock | None = None,
    profile: str = "inference",
    is_busy: Callable[[], bool] = lambda: False,
    sink: Callable[[Batch], object] | None = None,
) -> Agent:
    """A loop over these sources."""
    context = Context(host="n1", agent="a1", clock=clock or HandClock())
    batches: list[Batch] = []
    packer = Packer(
        agent="a1", host="n1", jobs=context.jobs, devices=context.devices, hold_ns=PROFILES[profile].hold_ns
    )
    pairs = [each if isinstance(each, tuple) else (kind(), each) for each in sources]
    loop = Loop(
        pairs,
        profile=PROFILES[profile],
        clock=context.clock,
        packer=packer,
        sink=sink or batches.append,
        is_busy=is_busy,
        tally=context.tally,
    )
    return Agent(loop, batches, context)


def in_thread(built: Agent, act: Callable[[], bool]) -> bool:
    """Run the loop in a thread while `act` runs; what that says."""
    stop = threading.Event()
    thread = threading.Thread(target=built.loop.run, args=(stop,))
    thread.start()
    try:
        return act()
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


MARKER = """
import os, sys, time
sys.path.insert(0, {sdk!r})
import stepscope_sdk
mon = stepscope_sdk.monitor()
print(os.getpid(), flush=True)
number = 0
for word in sys.stdin:
    if word.strip() == "step":
        with mon.step(number):
            with mon.phase("forward"):
                time.sleep(0.002)
        number += 1
        print(number, flush=True)
    else:
        break
"""


class Marking:
    """A process that marks a step whenever it is told to."""

    def __init__(self, run_dir: Path, before: Sequence[str] = (), **environment: str) -> None:
        script = MARKER.format(sdk=str(ROOT / "src"))
        whole = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "STEPSCOPE_RUN_DIR": str(run_dir), "RANK": "0",
            "WORLD_SIZE": "1", **environment,
        }  # fmt: skip
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=whole,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.inner_pid = int(self.process.stdout.readline())

    @property
    def pid(self) -> int:
        return self.process.pid

    def steps(self, num: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for _ in range(num):
            self.process.stdin.write("step\n")
            self.process.stdin.flush()
            self.process.stdout.readline()

    def end(self) -> None:
        """In order."""
        if self.process.poll() is None:
            self.process.communicate("end\n", timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


def until(is_so: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until something is so; whether it came to be."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.02)
    return is_so()
