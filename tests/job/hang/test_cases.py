"""Jobs that stop for real: three processes over gloo, watched through the agent's own reader of rings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from stepscope import offline
from stepscope.agent.catalog.rings import RingSource
from stepscope.agent.context import Context
from stepscope.agent.stacks import found_py_spy, stacks_of
from stepscope.detect.hang import HangLimits, HangWatch
from stepscope.model.alarm import Alarm
from stepscope.model.batch import Batch, BatchOwner, BatchSeries, Samples
from stepscope.model.report import Report
from tests.job.test_ddp import python_with_torch

ROOT = Path(__file__).resolve().parents[3]
LOOP = Path(__file__).with_name("loop.py")
TORCH = python_with_torch() or ""
KINDS = ("sleep", "killed", "mismatch", "loader", "checkpoint", "evaluation")
GUILTY = 1
LIMITS = HangLimits(least_ns=2_000_000_000, first_ns=20_000_000_000, settle_ns=300_000_000)
"""An evaluation that was never seen may take 20 s here; nothing else more than 2 s."""
DEADLINE_S = 90.0
pytestmark = pytest.mark.skipif(
    not TORCH,
    reason="no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON",
)


@dataclass
class Case:
    """One job with its watch, read as the agent reads it."""

    kind: str
    folder: Path
    source: RingSource
    pids: dict[int, int] = field(default_factory=dict)
    """Rank -> its process."""
    ended: dict[int, int] = field(default_factory=dict)
    """Rank -> its exit code."""
    watch: HangWatch = field(default_factory=lambda: HangWatch(LIMITS))
    alarms: list[Alarm] = field(default_factory=list)
    seq: int = 0

    def look(self) -> None:
        """One look of the agent: its marks, and its own samples, which say that it lives."""
        now = time.time_ns()
        batches: list[Batch] = [each for reading in self.source.read() for each in reading.marks]
        owner = BatchOwner(kind="process", host="n1", name="agent")
        alive = BatchSeries("agent_cpu_seconds_total", owner, [now], [1.0])
        batches.append(Samples("a", self.seq, "n1", "agent", [alive]))
        self.seq += 1
        self.watch.take(batches)
        self.alarms += self.watch.tick(now)

    @property
    def is_decided(self) -> bool:
        """What it must tell is told, and where it stands its dumps are written."""
        if self.kind == "evaluation":
            return len(self.ended) == 3
        wanted = "process-gone" if self.kind == "killed" else "hang"
        if not any(each.condition == wanted for each in self.alarms):
            return False
        return self.kind == "killed" or len(list(self.folder.glob("trace_rank_?"))) == 3

    def begun(self, condition: str) -> list[Alarm]:
        return [each for each in self.alarms if each.condition == condition and each.end_ns is None]

    def report(self, *more: Path) -> Report:
        """What a person gets who gives the rings, and what else was taken."""
        return offline.diagnose([self.folder / "run", *more], keep_identities=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def made(kind: str, folder: Path) -> Case:
    run = folder / "run"
    run.mkdir(parents=True)
    return Case(kind, folder, RingSource(Context(host="n1", agent="a", run_dirs=(str(run),))))


def hear(stream: IO[str], cases: dict[str, Case]) -> None:
    """Processes as they begin and end."""
    for line in stream:
        kind, rank, pid, *code = line.split()
        if code:
            cases[kind].ended[int(rank)] = int(code[0])
        else:
            cases[kind].pids[int(rank)] = int(pid)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Case]]:
    """All jobs, one beside the other, until each is decided. They still stand when tests look at them."""
    folder = tmp_path_factory.mktemp("hang")
    every = {kind: made(kind, folder / kind) for kind in KINDS}
    with (folder / "errors").open("wb") as errors:
        parent = subprocess.Popen(
            [TORCH, str(LOOP), str(folder), *(f"{kind}:{free_port()}" for kind in KINDS)],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    assert parent.stdout is not None
    listener = threading.Thread(target=hear, args=(parent.stdout, every), daemon=True)
    listener.start()
    try:
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends and not all(each.is_decided for each in every.values()):
            for each in every.values():
                each.look()
            time.sleep(0.25)
        yield every
    finally:
        for case in every.values():
            case.source.close()
            for rank, pid in case.pids.items():
                if rank not in case.ended:
                    os.kill(pid, signal.SIGKILL)
        try:
            parent.wait(20)
        finally:
            parent.kill()
            parent.wait(20)
            listener.join(10)
            parent.stdout.close()


@pytest.mark.parametrize(
    ("kind", "phase"), [("sleep", "forward"), ("loader", "data"), ("checkpoint", "checkpoint")]
)
def test_the_rank_that_the_others_wait_for_is_named_with_its_phase(
    cases: dict[str, Case], kind: str, phase: str
) -> None:
    (alarm,) = cases[kind].begun("hang")
    assert alarm.about.ranks == (GUILTY,)
    assert f"rank 1 is in {phase}" in alarm.text
    assert "ranks 0, 2 are in backward" in alarm.text
    assert (alarm.level, alarm.severity) == ("task", "critical")
    assert alarm.measured is not None
    assert alarm.measured.threshold is not None
    assert alarm.measured.value > alarm.measured.threshold >= 2.0


def test_a_killed_rank_is_told_as_gone_and_not_as_a_hang(cases: dict[str, Case]) -> None:
    (alarm,) = cases["killed"].begun("process-gone")
    assert alarm.about.ranks == (GUILTY,)
    assert "in backward of step 20" in alarm.text
    assert not cases["killed"].begun("hang")
    finding = next(e for e in cases["killed"].report().findings if e.rule == "killed-process")
    assert finding.subject.ranks == (GUILTY,)


def test_of_a_mismatch_marks_alone_name_nobody_and_the_flight_recorder_does(cases: dict[str, Case]) -> None:
    case = cases["mismatch"]
    (alarm,) = case.begun("hang")
    assert alarm.about.ranks == ()
    assert "ranks 0, 1, 2 are in backward of step 20" in alarm.text
    report = case.report(*sorted(case.folder.glob("trace_rank_?")))
    finding = next(each for each in report.findings if each.rule == "collective-mismatch")
    assert finding.subject.ranks == (GUILTY,)
    assert "rank 1 calls broadcast at share_weights" in finding.title
    assert "ranks 0, 2 all_reduce at reduce_gradients" in finding.title


@pytest.mark.parametrize("kind", ["sleep", "loader", "checkpoint"])
def test_who_never_came_to_the_collective_is_on_the_card(cases: dict[str, Case], kind: str) -> None:
    case = cases[kind]
    report = case.report(*sorted(case.folder.glob("trace_rank_?")))
    card = next(each for each in report.cards if each.id == "rank-not-in-collective")
    assert "rank 1 did not enter all_reduce" in card.title
    finding = next(each for each in report.findings if each.id == card.findings[0])
    assert finding.subject.ranks == (GUILTY,)
    assert {each.feature: each.value for each in finding.evidence}["absent_ranks"] == 1


def test_a_long_evaluation_on_one_rank_is_left_alone(cases: dict[str, Case]) -> None:
    case = cases["evaluation"]
    assert case.ended == {0: 0, 1: 0, 2: 0}, (case.folder.parent / "errors").read_text()
    assert not case.alarms


def test_stacks_of_all_ranks_name_the_line_that_holds_them_up(cases: dict[str, Case]) -> None:
    py_spy = found_py_spy()
    if py_spy is None:
        pytest.skip("py-spy is not installed: no real stacks")
    case = cases["sleep"]
    folder = case.folder / "stacks"
    folder.mkdir()
    for rank, pid in case.pids.items():
        lines = stacks_of(pid, time.time_ns(), py_spy=py_spy)
        (folder / f"rank{rank}.txt").write_text("\n".join(each.text for each in lines))
    report = offline.diagnose(
        [case.folder / "run"],
        logs=[folder],
        keep_identities=True,
        rules_config={"no-progress": {"seconds_without_step": 1, "missed_log_lines": 1}},
    )
    card = next(each for each in report.cards if each.id == "no-progress")
    said = next(note for note in card.notes if note.startswith("stacks: "))
    assert "rank 1 is in its own code at look_for_the_device" in said
    assert "ranks 0, 2 are in its own code at reduce_gradients" in said
    finding = next(each for each in report.findings if each.id == card.findings[0])
    assert finding.subject.ranks == (GUILTY,)
