"""A forked child never writes into its parent's ring."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from tests.job.test_ddp import python_with_torch
from tests.sdk import writer

KIND = {each.number: each.name for each in abi.KINDS}


def steps_of(folder: Path) -> dict[tuple[int | None, str | None], list[int]]:
    """Rank and last kind of each ring, with its step numbers."""
    found = {}
    for path in writer.rings(folder):
        with RingReader(str(path)) as reader:
            records = reader.poll().records
            who = (reader.identity().rank, KIND[int(records["kind"][-1])])
            found[who] = records["step"][records["kind"] == abi.kind_number("step_begin")].tolist()
    return found


CHILD = """
import os, stepscope_sdk
monitor = stepscope_sdk.monitor()
with monitor.step(1): pass
child = os.fork()
if child == 0:
    {child}
    {end}
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with monitor.step(2): pass
"""


def test_a_child_that_does_not_mark_leaves_nothing(tmp_path: Path) -> None:
    for end in ("os._exit(0)", "raise SystemExit(0)"):
        done = writer.run(CHILD.format(child="pass", end=end), tmp_path / end, RANK="3")
        assert (done.stdout, done.stderr) == ("0\n", "")
        assert steps_of(tmp_path / end) == {(3, "exit"): [1, 2]}


def test_a_child_that_marks_has_a_ring_of_its_own_and_is_not_the_rank(tmp_path: Path) -> None:
    child = "[monitor.begin_step(n) for n in (70, 71)]"
    done = writer.run(CHILD.format(child=child, end="os._exit(0)"), tmp_path, RANK="3")
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert steps_of(tmp_path) == {(3, "exit"): [1, 2], (None, "step_begin"): [70, 71]}


def test_a_child_that_says_which_rank_it_is_is_that_rank(tmp_path: Path) -> None:
    child = "os.environ['RANK'] = '4'; monitor.begin_step(70)"
    assert writer.run(CHILD.format(child=child, end="os._exit(0)"), tmp_path, RANK="3").stdout == "0\n"
    assert steps_of(tmp_path) == {(3, "exit"): [1, 2], (4, "step_begin"): [70]}


def test_a_child_of_multiprocessing_says_that_it_ends(tmp_path: Path) -> None:
    script = """
import multiprocessing, stepscope_sdk
monitor = stepscope_sdk.monitor()
def work():
    with monitor.step(70): pass
with monitor.step(1): pass
process = multiprocessing.get_context("fork").Process(target=work)
process.start(); process.join(); print(process.exitcode)
"""
    done = writer.run(script, tmp_path, RANK="3")
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert steps_of(tmp_path) == {(3, "exit"): [1], (None, "exit"): [70]}


def test_a_child_that_is_started_anew_and_imports_the_script_leaves_no_ring(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import multiprocessing, sys, stepscope_sdk
monitor = stepscope_sdk.monitor()
def nothing(): pass
def work():
    with monitor.step(70): pass
if __name__ == "__main__":
    for target, daemon in ((nothing, True), (nothing, False), (work, False)):
        process = multiprocessing.get_context("spawn").Process(target=target, daemon=daemon)
        process.start(); process.join(); print(process.exitcode)
""")
    done = subprocess.run(
        [writer.sys.executable, script], env=writer.environment(tmp_path, RANK="3"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0\n0\n0\n", "")
    found = []
    for path in writer.rings(tmp_path):
        with RingReader(str(path)) as reader:
            kinds = [KIND[int(kind)] for kind in reader.poll().records["kind"]]
            found.append([kind for kind in kinds if "phase" not in kind])  # the collector may have paused
    assert sorted(found) == [["start", "exit"], ["start", "step_begin", "step_end", "exit"]]


# The fork happens between two stores of a record, in the thread that writes it: as in a signal handler or a
# finalizer that runs there. The child returns into the mark when its parent has written more and is gone.
WITHIN = """
import os, stepscope_sdk
from stepscope_sdk import ring
forked = []
real = ring.crc32
def crc32(*given):
    if len(forked) == 0 and armed:
        forked.append(os.fork())
        os.close(pipe[0 if forked[0] else 1])
        if forked[0] == 0: os.read(pipe[0], 1)
    return real(*given)
pipe = os.pipe()
ring.crc32 = crc32
armed = False
monitor = stepscope_sdk.monitor()
for n in range(5):
    with monitor.step(n): pass
armed = True
monitor.log(loss=1.0)
armed = False
if forked[0] == 0:
    for n in range(70, 75):
        with monitor.step(n): pass
    os._exit(0)
for n in range(5, 10):
    with monitor.step(n): pass
print("parent is done")
"""


def test_a_fork_in_the_middle_of_a_mark_leaves_both_rings_whole(tmp_path: Path) -> None:
    done = writer.run(WITHIN, tmp_path, RANK="3")  # to the end of both: the child has the same stdout
    assert (done.stdout, done.stderr) == ("parent is done\n", "")
    assert steps_of(tmp_path) == {(3, "exit"): list(range(10)), (None, "step_end"): list(range(70, 75))}
    for path in writer.rings(tmp_path):
        assert RingReader(str(path)).poll().num_lost == 0


def test_forks_while_threads_mark_leave_the_parents_ring_whole(tmp_path: Path) -> None:
    script = """
import os, threading, time, stepscope_sdk
monitor = stepscope_sdk.monitor()
until = time.monotonic() + 0.8
def work():
    while time.monotonic() < until:
        with monitor.phase("forward"): pass
        time.sleep(0)
threads = [threading.Thread(target=work) for _ in range(2)]
[each.start() for each in threads]
codes = set()
while time.monotonic() < until:
    child = os.fork()
    if child == 0:
        monitor.begin_phase("eval"); monitor.end_phase("eval")
        os._exit(0)
    codes.add(os.waitpid(child, 0)[1])
    time.sleep(0.02)
[each.join() for each in threads]
print(codes, monitor._ring._words[8])
"""
    done = writer.run(script, tmp_path, RANK="3")
    assert done.stderr == ""
    assert done.stdout.startswith("{0} ")
    num_eval = 0
    for path in writer.rings(tmp_path):
        with RingReader(str(path)) as reader:
            part = reader.poll()
            phases = set(part.records["a"][part.records["kind"] == 4].tolist())
            if reader.identity().rank == 3:
                assert abi.PHASES.index("eval") not in phases
                assert len(part.records) == min(int(done.stdout.split()[1]) + 1, abi.NUM_RECORDS)
            else:
                assert part.num_lost == 0
                assert [KIND[int(k)] for k in part.records["kind"]] == ["start", "phase_begin", "phase_end"]
                num_eval += 1
    assert num_eval >= 1


def test_the_parents_end_is_seen_while_its_children_live(tmp_path: Path) -> None:
    script = """
import os, time, stepscope_sdk
monitor = stepscope_sdk.monitor()
if os.fork() == 0:
    os.close(1); os.close(2)
    time.sleep(30)
    os._exit(0)
print("ready", flush=True)
import sys; sys.stdin.readline()
os._exit(0)
"""
    process = subprocess.Popen(
        [writer.sys.executable, "-c", script], env=writer.environment(tmp_path), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, start_new_session=True, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        (path,) = writer.rings(tmp_path)
        with RingReader(str(path)) as reader:
            assert reader.is_alive()
            process.stdin.write("\n")
            process.stdin.flush()
            process.wait(writer.PATIENCE_SECONDS)
            begun = time.monotonic()
            writer.wait_for(lambda: not reader.is_alive())
            assert time.monotonic() - begun < 20
    finally:
        writer.os.killpg(process.pid, 9)
        process.communicate()


WORKERS = """
import stepscope_sdk, torch
from torch.utils.data import DataLoader, Dataset
monitor = stepscope_sdk.monitor()
class Numbers(Dataset):
    def __len__(self): return 8
    def __getitem__(self, n):
        with monitor.phase("mine"): monitor.log(seen=n)
        return torch.tensor(n)
data = monitor.data(DataLoader(Numbers(), batch_size=2, num_workers=2))
for batch in data:
    with monitor.step(samples=len(batch)): monitor.log(loss=batch.float().mean())
print(len(data))
"""


def test_workers_of_a_loader_do_not_mark(tmp_path: Path) -> None:
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch")
    done = subprocess.run(
        [python, "-c", WORKERS], env=writer.environment(tmp_path, RANK="0", WORLD_SIZE="1"),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    (path,) = writer.rings(tmp_path)
    with RingReader(str(path)) as reader:
        records = reader.poll().records
        assert records["b"][records["kind"] == 6].tolist() == [0.5, 2.5, 4.5, 6.5]
        assert reader.names() == ("loss",)
        assert str(reader.identity().framework).startswith("torch 2")
