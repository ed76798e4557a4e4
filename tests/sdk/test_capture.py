"""Captures of real processes through their rings: PyTorch's profiler, two ranks over gloo."""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from stepscope import offline
from stepscope.act.capture import Limits, Request, capture
from stepscope.act.capture.control import ControlWriter
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from tests.job.test_ddp import python_with_torch

ROOT = Path(__file__).resolve().parents[2]
TRAIN = Path(__file__).with_name("train.py")
PATIENCE_S = 180
STEP_BEGIN, CAPTURE_END = abi.kind_number("step_begin"), abi.kind_number("capture_end")


@pytest.fixture(scope="module")
def python():
    found = python_with_torch()
    if found is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    return found


class Job:
    """Real ranks; each gets what `more` says for it on top."""

    def __init__(self, python, folder, more, *, is_one_world, pause_s=0.01):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
        world = {"WORLD_SIZE": str(len(more) if is_one_world else 1), "PYTHONPATH": str(ROOT / "src")}
        common = kept | world | {"STEPSCOPE_RUN_DIR": str(folder)}
        self.ranks = [
            subprocess.Popen(
                [python, str(TRAIN), "1000000", str(pause_s), str(port)],
                env=common | {"RANK": str(rank)} | own,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, own in enumerate(more)
        ]

    def rings(self):
        """The rings, once every rank has marked some steps."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            found = sorted(str(each) for each in self.folder.glob("rank*.ring"))
            if len(found) == len(self.ranks) and all(num_steps(each) > 5 for each in found):
                return found
            assert all(each.poll() is None for each in self.ranks), self.ranks[0].stderr.read()
            time.sleep(0.05)
        raise AssertionError("the ranks mark no steps")

    def stop(self):
        """Its ranks' exit codes and last words."""
        (self.folder / "stop").touch()
        try:
            return [(each.communicate(timeout=PATIENCE_S)[0], each.returncode) for each in self.ranks]
        finally:
            for each in self.ranks:
                each.kill()
                each.wait()


def records_of(ring):
    reader = RingReader(ring)
    try:
        return reader.poll().records
    finally:
        reader.close()


def num_steps(ring):
    return int((records_of(ring)["kind"] == STEP_BEGIN).sum())


@pytest.fixture(scope="module")
def pair(python, tmp_path_factory):
    """Two ranks of one job, who step together."""
    job = Job(python, tmp_path_factory.mktemp("pair"), [{}, {}], is_one_world=True)
    try:
        job.rings()
        yield job
    finally:
        assert [code for _, code in job.stop()] == [0, 0]


def content(path):
    with gzip.open(path) as file:
        return json.load(file)


def steps_in(trace):
    names = [re.fullmatch(r"ProfilerStep#(\d+)", str(each.get("name"))) for each in trace["traceEvents"]]
    return sorted(int(name[1]) for name in names if name)


def test_both_ranks_give_traces_of_the_same_agreed_steps_that_are_read_as_one_job(pair):
    outcome = capture(pair.rings(), Request(num_steps=4))
    assert outcome.is_done, outcome.why
    first = outcome.first_step
    assert [each.rank for each in outcome.ranks] == [0, 1]
    for row in outcome.ranks:
        trace = content(row.path)
        assert steps_in(trace) == list(range(first, first + 4))
        told = {"capture": outcome.capture, "first_step": first, "num_steps": 4, "dropped_step": first}
        assert trace["stepscope"].items() >= told.items()
        assert 0 < row.stall_ns < 60_000_000_000
        assert row.num_bytes == os.path.getsize(row.path)
    report = offline.diagnose(Path(outcome.ranks[0].path).parent)
    assert [(each.rank, each.world_size) for each in report.inputs] == [(0, 2), (1, 2)]
    used = [(row.rank, row.step, row.use) for row in report.steps]
    wanted = ["warm_up", "counted", "counted", "counted"]
    assert used == [(rank, first + n, use) for rank in (0, 1) for n, use in enumerate(wanted)]


def test_the_marks_tell_which_steps_were_captured_and_held_up_and_for_how_long(pair):
    rings = pair.rings()
    outcome = capture(rings, Request(num_steps=2))
    assert outcome.is_done, outcome.why
    for ring, row in zip(rings, outcome.ranks, strict=True):
        first = outcome.first_step
        while True:  # the step behind the last one begins soon
            records = records_of(ring)
            begun = records[records["kind"] == STEP_BEGIN]
            flags = dict(zip(begun["step"].tolist(), begun["flags"].tolist(), strict=True))
            if first + 2 in flags:
                break
            time.sleep(0.01)
        captured, stalled = abi.FLAGS["captured"], abi.FLAGS["stalled"]
        assert [flags[step] & captured != 0 for step in range(first - 2, first + 3)] == [0, 0, 1, 1, 0]
        assert [flags[step] & stalled != 0 for step in (first - 2, first - 1, first, first + 2)] == [
            0,
            1,
            1,
            1,
        ]
        ends = records[(records["kind"] == CAPTURE_END) & (records["a"] == outcome.capture)]
        assert ends["step"].tolist() == [first + 1] * 2
        assert np.isnan(ends["c"][0])
        assert (ends["b"][1], ends["c"][1]) == (row.stall_ns, row.num_bytes)
        assert ends["b"][0] < ends["b"][1]


def test_a_step_that_is_too_near_is_cancelled_on_both_and_nothing_is_recorded(pair):
    outcome = capture(pair.rings(), Request(), delay_ns=0, limits=Limits(attempts=1, least_margin_steps=1))
    assert not outcome.is_done
    assert {each.answer for each in outcome.ranks} <= {"too_late", "cancelled"}
    assert [each.path for each in outcome.ranks] == [None, None]


def test_a_margin_that_was_too_small_is_doubled_until_all_ranks_agree(pair):
    limits = Limits(attempts=10, least_margin_steps=1)
    outcome = capture(pair.rings(), Request(num_steps=1), delay_ns=0, limits=limits)
    assert outcome.is_done, outcome.why
    assert outcome.attempts > 1
    assert [steps_in(content(each.path)) for each in outcome.ranks] == [[outcome.first_step]] * 2


def test_a_light_capture_keeps_the_last_two_hundred_ops_and_what_they_lie_in(pair):
    outcome = capture(pair.rings(), Request(num_steps=4, mode="light"))
    assert outcome.is_done, outcome.why
    for row in outcome.ranks:
        trace = content(row.path)
        ops = [each for each in trace["traceEvents"] if each.get("cat") == "cpu_op"]
        assert len(ops) == 200
        assert trace["stepscope"]["trimmed"]["num_left_out"] > 0
        last = outcome.first_step + 3
        assert steps_in(trace)[-1] == last
        assert trace["stepscope"]["cut_step"] == steps_in(trace)[0]
    report = offline.diagnose(Path(outcome.ranks[0].path).parent)
    assert {(row.rank, row.step) for row in report.steps if row.use == "counted"} >= {(0, last), (1, last)}


def test_stacks_and_shapes_come_when_they_are_asked_for(pair):
    asked = Request(num_steps=1, flags=frozenset({"stacks", "shapes"}))
    outcome = capture(pair.rings(), asked)
    assert outcome.is_done, outcome.why
    trace = content(outcome.ranks[0].path)
    assert any(each.get("cat") == "python_function" for each in trace["traceEvents"])
    assert any("Input Dims" in each.get("args", {}) for each in trace["traceEvents"])


def test_refused_killed_and_unwritable_leave_the_training_as_it_was(python, tmp_path):
    more = [{"STEPSCOPE_TRACE_DIR": "/dev/null/none"}, {"TRAIN_PROFILER": "waiting"}]
    job = Job(python, tmp_path, more, is_one_world=False)
    try:
        rings = job.rings()
        # Another profiler in one rank: refused in both.
        outcome = capture(rings, Request())
        assert (outcome.is_done, [each.answer for each in outcome.ranks]) == (False, ["cancelled", "busy"])
        (tmp_path / "unprofiled").touch()

        # A rank that dies before the commit: cancelled in the other, and soon.
        def kill(seconds, rank=job.ranks[1]):
            if ControlWriter(rings[0]).capture > outcome.capture:
                rank.send_signal(signal.SIGSTOP)  # it cannot answer any more
                rank.kill()
                rank.wait()
            time.sleep(seconds)

        start = time.monotonic()
        killed = capture(rings, Request(), sleep=kill, poll_s=0.001, limits=Limits(least_margin_steps=200))
        assert not killed.is_done
        assert "ended" in killed.why
        assert killed.ranks[0].answer == "cancelled"
        assert time.monotonic() - start < PATIENCE_S
        # A folder that cannot be written: the trace fails, the training does not.
        failed = capture(rings[:1], Request())
        assert (failed.is_done, failed.ranks[0].path) == (False, None)
        assert failed.ranks[0].answer in ("failed", "refused")
        # It ends while it is captured, or about to be.
        (tmp_path / "stop").touch()
        ended = capture(rings[:1], Request(num_steps=1000))
        assert not ended.is_done
    finally:
        ends = job.stop()
    assert ends[0][1] == 0
    assert ends[0][0].startswith("trained")


def test_profilers_of_the_users_own_have_precedence_and_get_our_handler(python, tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    script = Path(__file__).with_name("own_profiler.py")
    more = {
        "PYTHONPATH": str(ROOT / "src"),
        "STEPSCOPE_RUN_DIR": str(tmp_path),
        "RANK": "3",
        "WORLD_SIZE": "8",
    }
    ended = subprocess.run(
        [python, script], env=kept | more, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.strip().splitlines()[-1])
    for how in ("warming up", "recording"):
        assert told[how]["theirs"] > 0
        assert told[how]["ours"].startswith("the profiler is taken over")
        assert told[how]["free"] is None
    assert told["running"] == "PyTorch's profiler"
    assert told["nsys"] == "Nsight Systems"
    # Every 20th step was sampled on its own, with its number.
    samples = {
        path.parent.name: steps_in(content(path)) for path in tmp_path.glob("traces/*/rank3-*.json.gz")
    }
    assert samples["capture-20"] == [20]
    assert set(samples) <= {"capture-20", "capture-40"}
    # The user's own profiler counts from 0: wait, warm-up, then two steps, which are the run's 47 and 48.
    (own,) = (tmp_path / "own").glob("steps-47-48/rank3-*.json.gz")
    trace = content(own)
    assert steps_in(trace) == [47, 48]
    assert trace["distributedInfo"] == {"rank": 3, "world_size": 8}
    (ring,) = tmp_path.glob("rank3-*.ring")
    records = records_of(str(ring))
    begun = records[records["kind"] == abi.kind_number("capture_begin")]
    assert begun["step"].tolist()[-1] == 47
