"""Whatever fails beside the command: it is waited for, its code returned, and what was kept is told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stepscope.run import Options, keep, run
from stepscope.run.keep import Keeper
from stepscope.run.watching import Watching
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import Ring

STEP_END = abi.kind_number("step_end")
MARKS = """
import glob, os, sys, time, stepscope_sdk
monitor = stepscope_sdk.monitor()
folder = os.environ["STEPSCOPE_RUN_DIR"]
for n in range(40):
    with monitor.step(): time.sleep(0.02)
    if n == 20: {do}
open(sys.argv[1], "w").write("ended")
os._exit(9)
"""


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """What `run` says of a script that marks 40 steps, does something at the 20th, and ends with 9."""
    monkeypatch.setattr("stepscope.run.folder.tempfile.tempdir", str(tmp_path))

    def ran(do="pass", script=MARKS):
        words = [sys.executable, "-c", script.format(do=do), str(tmp_path / "ended")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = run(words, environment, Options(capture=None), 1e9)
        assert (tmp_path / "ended").read_text() == "ended"
        return done

    return ran


@pytest.mark.parametrize(
    "do",
    [
        "[os.rename(each, each[:-5] + '2.ring') for each in glob.glob(folder + '/*.ring')]",
        "[os.unlink(each) for each in glob.glob(folder + '/*.ring')]",
        "__import__('shutil').rmtree(folder)",
    ],
)
def test_a_ring_that_the_script_takes_away_costs_neither_its_code_nor_the_verdict(ran, do):
    done = ran(do)
    assert done.code == 9
    assert done.report is not None, done.lines
    assert len(done.report.steps) == 40


def test_a_full_disk_costs_neither_the_code_nor_what_was_kept_before(ran, monkeypatch):
    write, num = keep._write, 0

    def full(file, data, at):
        nonlocal num
        num += 1
        if num > 5:
            raise OSError(28, "No space left on device")
        write(file, data, at)

    monkeypatch.setattr(keep, "_write", full)
    done = ran()
    assert done.code == 9
    assert any("could not be kept: " in line and "no space left" in line for line in done.lines), done.lines


def test_a_fault_of_ours_while_the_command_runs_is_a_line_and_its_code_is_returned(ran, monkeypatch):
    def poll(self):
        raise AssertionError

    monkeypatch.setattr(Keeper, "poll", poll)
    done = ran()
    assert done.code == 9
    assert any("AssertionError at test_wall.py:" in line for line in done.lines)


def test_an_interrupt_outside_of_the_wall_waits_for_the_command(ran, monkeypatch):
    def tick(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Watching, "tick", tick)
    done = ran()
    assert done.code == 9
    assert any("KeyboardInterrupt" in line for line in done.lines)


def test_a_verdict_that_cannot_be_given_is_a_line_and_not_an_exit_code(ran, monkeypatch):
    monkeypatch.setattr("stepscope.run.diagnosed", lambda *_, **__: [][1])
    done = ran()
    assert done.code == 9
    assert (
        "no verdict: a fault of stepscope (IndexError: list index out of range at test_wall.py"
        in done.lines[-1]
    )


def test_a_folder_removed_before_the_first_mark_is_told_as_that(ran):
    script = (
        "import os, shutil, sys; shutil.rmtree(os.environ['STEPSCOPE_RUN_DIR']);"
        "open(sys.argv[1], 'w').write('ended'); os._exit(9)"
    )
    done = ran(script=script)
    assert done.code == 9
    assert "the folder of the marks was removed" in done.lines[-1]


def test_what_was_written_before_the_disk_was_full_can_be_read_on_it(tmp_path, monkeypatch):
    for name in ("live", "kept"):
        (tmp_path / name).mkdir()
    ring = Ring(str(tmp_path / "live" / "rank0.ring"), {"rank": 0}, num_records=64)
    keeper = Keeper(tmp_path / "live", tmp_path / "kept")
    for step in range(8):
        ring.write(STEP_END, 0, step)
    keeper.poll()
    write = os.pwrite

    def full(file, data, at):
        if len(data) < abi.HEADER_BYTES:
            raise OSError(28, "No space left on device")
        return write(file, data, at)

    monkeypatch.setattr(keep.os, "pwrite", full)
    for step in range(8, 20):
        ring.write(STEP_END, 0, step)
    keeper.close()
    assert keeper.lost == "12 marks could not be kept: rank0.ring: no space left on device"
    part = RingReader(str(tmp_path / "kept" / "rank0.ring")).poll()
    assert (part.records["step"].tolist(), part.num_lost) == (list(range(8)), 0)


def test_a_report_that_cannot_be_written_leaves_the_commands_code(tmp_path):
    words = [sys.executable, "-m", "stepscope", "run", "-o", str(tmp_path / "r.json"), "--"]
    script = "import os, sys; os.mkdir(sys.argv[1]); os._exit(9)"
    done = subprocess.run(
        [*words, sys.executable, "-c", script, str(tmp_path / "r.json")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 9
