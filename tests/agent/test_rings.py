"""Rings of real processes: found, read, labelled, ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stepscope.agent.catalog.rings import RingSource, newest_ns
from stepscope.agent.context import Context
from stepscope.agent.source import Event, Reading
from stepscope.agent.spool import Spool
from stepscope.model.batch import Marks
from stepscope_sdk import ring_abi as abi
from tests.agent.agents import Marking, until


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def context(run_dir: Path) -> Context:
    return Context(host="n1", agent="a", run_dirs=(str(run_dir),))


@pytest.fixture
def job(run_dir: Path) -> Iterator[Marking]:
    marking = Marking(run_dir)
    try:
        yield marking
    finally:
        marking.end()


def look(source: RingSource) -> Reading:
    (reading,) = source.read()
    return reading


def texts(events: list[Event]) -> list[tuple[str, str]]:
    return [(each.what, each.text) for each in events]


def steps_of(marks: list[Marks]) -> list[int]:
    number = abi.kind_number("step_begin")
    return [
        step
        for each in marks
        for kind, step in zip(each.record_kind, each.step, strict=True)
        if kind == number
    ]


def test_a_job_is_found_read_once_and_its_end_is_told(context: Context, job: Marking) -> None:
    source = RingSource(context)
    job.steps(3)
    first = look(source)
    assert [what for what, _ in texts(first.events)] == ["start"]
    assert steps_of(first.marks) == [0, 1, 2]
    assert context.jobs.is_busy
    job.steps(2)
    second = look(source)
    assert steps_of(second.marks) == [3, 4]
    assert second.marks[0].number[0] == first.marks[0].number[-1] + 1
    job.end()
    third = look(source)
    assert texts(third.events) == [("exit", "rank 0 ended")]
    assert third.marks[-1].is_alive is False
    assert not context.jobs.is_busy
    assert look(source) == Reading(pytest.approx(time.time_ns(), abs=60e9))  # type: ignore[arg-type]


def test_when_the_newest_living_ring_was_made_is_known(run_dir: Path, job: Marking) -> None:
    at_ns = newest_ns((str(run_dir),))
    assert at_ns is not None
    assert abs(time.time_ns() - at_ns) < 120e9
    job.end()
    assert newest_ns((str(run_dir),)) is None


def test_a_killed_rank_is_told_as_killed(context: Context, job: Marking) -> None:
    source = RingSource(context)
    job.steps(1)
    look(source)
    job.kill()
    assert texts(look(source).events) == [
        ("exit", "rank 0 ended without saying so: it was killed, or it crashed")
    ]


def test_the_process_of_a_ring_is_found_by_its_lock(context: Context, job: Marking) -> None:
    source = RingSource(context)
    look(source)
    (rank,) = context.jobs.living()
    assert rank.pid == job.pid
    assert job.pid in rank.pids


def test_a_ring_that_is_removed_ends_its_rank(context: Context, run_dir: Path, job: Marking) -> None:
    source = RingSource(context)
    job.steps(1)
    look(source)
    for path in run_dir.glob("*.ring"):
        path.unlink()
    assert texts(look(source).events) == [("exit", "the ring of rank 0 was removed")]


def test_a_restart_is_another_rank_in_the_same_folder(context: Context, run_dir: Path, job: Marking) -> None:
    source = RingSource(context)
    job.steps(1)
    look(source)
    job.kill()
    again = Marking(run_dir)
    try:
        again.steps(1)
        assert [what for what, _ in texts(look(source).events)] in (["exit", "start"], ["start", "exit"])
        assert len(context.jobs.living()) == 1
    finally:
        again.end()


def test_a_run_that_ended_while_the_agent_was_away_is_still_told(context: Context, job: Marking) -> None:
    job.steps(2)
    job.end()
    reading = look(RingSource(context))
    assert steps_of(reading.marks) == [0, 1]
    assert [what for what, _ in texts(reading.events)] == ["start", "exit"]


def test_a_dead_ring_of_yesterday_is_left_alone(
    context: Context, job: Marking, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.steps(2)
    job.end()
    monkeypatch.setattr("stepscope.agent.catalog.rings.OLD_NS", -1)
    reading = look(RingSource(context))
    assert (reading.marks, reading.events) == ([], [])


def test_what_is_no_ring_is_told_once_and_harms_nothing(
    context: Context, run_dir: Path, job: Marking
) -> None:
    (run_dir / "rubbish.ring").write_bytes(b"no ring" * 5000)
    os.mkfifo(run_dir / "pipe.ring")
    (run_dir / "link.ring").symlink_to("/etc/passwd")
    source = RingSource(context)
    job.steps(1)
    found = [event for _ in range(8) for event in look(source).events]
    assert [what for what, _ in texts(found)] == ["start", "ring_refused"]
    assert "rubbish.ring" in found[1].text


def test_a_folder_for_each_pod_is_found_by_a_pattern(tmp_path: Path) -> None:
    folders = [tmp_path / f"pod{n}" for n in range(2)]
    for folder in folders:
        folder.mkdir()
    jobs = [Marking(folder) for folder in folders]
    try:
        context = Context(host="n1", run_dirs=(f"{tmp_path}/*",))
        look(RingSource(context))
        assert {Path(each.ring).parent for each in context.jobs.living()} == set(folders)
    finally:
        for each in jobs:
            each.end()


def _can_unshare() -> bool:
    tool = shutil.which("unshare")
    if tool is None:
        return False
    done = subprocess.run(
        [tool, "-Urpmf", "--mount-proc", "true"], capture_output=True, timeout=30, check=False
    )
    return done.returncode == 0


def test_a_job_in_another_namespace_of_pids_is_alive_and_then_dead(context: Context, run_dir: Path) -> None:
    if not _can_unshare():
        assert os.environ.get("STEPSCOPE_NAMESPACES") != "required", "unshare is not allowed here"
        pytest.skip("unshare of pids and mounts is not allowed here")
    job = Marking(run_dir, before=("unshare", "-Urpmf", "--mount-proc"))
    try:
        assert job.inner_pid < 100  # a small number of its own namespace
        source = RingSource(context)
        job.steps(2)
        reading = look(source)
        assert steps_of(reading.marks) == [0, 1]
        (rank,) = context.jobs.living()
        assert rank.pid is not None  # seen from here, since its namespace is below ours
        assert rank.pid != job.inner_pid
        job.kill()
        assert until(lambda: any(event.what == "exit" for event in look(source).events))
    finally:
        job.kill()


# ── started again ──


def _again(context: Context, spool: Spool) -> tuple[RingSource, Context]:
    """What an agent that starts on the same spool begins with."""
    anew = Context(host="n1", agent=spool.agent, run_dirs=context.run_dirs, ring_read=spool.rings.of)
    return RingSource(anew), anew


def _append(spool: Spool, reading: Reading) -> None:
    for each in reading.marks:
        spool.append(each)


def test_an_agent_that_starts_again_sends_no_record_twice(
    context: Context, job: Marking, tmp_path: Path
) -> None:
    numbers: list[int] = []
    for start in range(4):
        spool = Spool(tmp_path / "spool", is_threaded=False)
        source, anew = _again(context, spool)
        job.steps(3)
        reading = look(source)
        numbers += [number for each in reading.marks for number in each.number]
        _append(spool, reading)
        (rank,) = anew.jobs.living()
        assert rank.steps(0, time.time_ns()) == (0, 3 * start + 2)
        source.close()
        spool.close()
    assert numbers == sorted(set(numbers))
    assert numbers == list(range(numbers[-1] + 1))


def test_what_was_read_and_not_appended_is_read_again(context: Context, job: Marking, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", is_threaded=False)
    source, _ = _again(context, spool)
    job.steps(2)
    _append(spool, look(source))
    spool.sync()
    job.steps(2)
    assert steps_of(look(source).marks) == [2, 3]  # and killed before it is appended
    spool.close()
    spool = Spool(tmp_path / "spool", is_threaded=False)
    assert steps_of(look(_again(context, spool)[0]).marks) == [2, 3]
    spool.close()


def test_a_disk_that_fails_does_not_make_the_agent_forget_what_only_memory_holds(
    context: Context, job: Marking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "spool", is_threaded=False)
    source, _ = _again(context, spool)
    job.steps(1)
    _append(spool, look(source))
    spool.sync()

    def full(agent: str, seq: int, frame: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool._segments, "write", full)
    job.steps(1)
    _append(spool, look(source))
    spool.close()
    spool = Spool(tmp_path / "spool", is_threaded=False)
    assert steps_of(look(_again(context, spool)[0]).marks) == [1]
    spool.close()


def test_an_end_that_was_told_is_not_told_again_and_none_becomes_a_kill(
    context: Context, job: Marking, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool", is_threaded=False)
    source, _ = _again(context, spool)
    job.steps(2)
    _append(spool, look(source))
    job.end()
    # Its last record was read and kept, and the agent ended before it told of the end.
    reading = look(source)
    marks = [msgspec.structs.replace(each, is_alive=None) for each in reading.marks]
    _append(spool, Reading(0, marks=marks))
    second = look(_again(context, spool)[0])
    assert [text for what, text in texts(second.events) if what == "exit"] == ["rank 0 ended"]
    _append(spool, second)
    third = look(_again(context, spool)[0])
    assert (third.events, third.marks) == ([], [])
    spool.close()


@pytest.mark.parametrize("content", [b"", b"{", b'{"x.ring": [-1]}', b"[1]", b'{"x.ring": [9, true]}'])
def test_a_damaged_memory_of_rings_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rings").write_bytes(content)
    spool = Spool(tmp_path, is_threaded=False)
    assert spool.rings.of("rank0.ring") is None
    spool.close()
