"""Kernel and NCCL logs, and stacks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.agent.catalog.kernel_log import KernelLogSource
from stepscope.agent.catalog.nccl_log import NcclLogSource
from stepscope.agent.clock import HandClock
from stepscope.agent.context import Context
from stepscope.agent.device import Device
from stepscope.agent.follow import MOST_BYTES, Follower
from stepscope.agent.job import LiveRank
from stepscope.agent.source import NotHere
from stepscope.agent.stacks import MOST_BYTES as MOST_STACK_BYTES
from stepscope.agent.stacks import found_py_spy, stacks_of, stacks_of_ranks
from stepscope.model.error import InputError, ServiceError
from stepscope.model.mark import Identity
from stepscope.model.sample import Owner

S = 1_000_000_000


def kmsg(tmp_path: Path) -> Path:
    path = tmp_path / "dev/kmsg"
    path.parent.mkdir()
    path.write_text("3,1,1000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=9, old\n")
    return path


def test_from_now_on_what_is_known_of_the_kernels_log_is_told(tmp_path: Path) -> None:
    path = kmsg(tmp_path)
    clock = HandClock()
    clock.turn(100 * S)  # the host has run for so long
    context = Context(host="n1", clock=clock, root=str(tmp_path))
    owner = Owner(uuid="GPU-1", index=1, pci_bus_id="0000:3b:00.0", host="n1")
    context.devices.put([Device(owner)])
    source = KernelLogSource(context)
    assert source.read()[0].lines == []  # what was there before is old
    with path.open("a") as file:
        file.write(
            "6,2,98000000,-;eth0: promiscuous mode\n SUBSYSTEM=net\n"
            "3,3,99500000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
            "3,4,99700000,-;Out of memory: Killed process 77 (python) total-vm:1kB, anon-rss:5kB\n"
        )
    (reading,) = source.read()
    start_ns = clock.real_ns() - 100 * S
    assert [(each.what, each.code, each.at_ns - start_ns) for each in reading.events] == [
        ("xid", 79, 99_500_000_000),
        ("oom", None, 99_700_000_000),
    ]
    assert reading.events[0].owner == owner
    assert reading.events[1].owner == Owner(kind="process", host="n1", pid=77)
    assert [each.at_ns - start_ns for each in reading.lines] == [99_500_000_000, 99_700_000_000]
    assert "promiscuous" not in "".join(each.text for each in reading.lines)
    assert source.read()[0].lines == []
    source.close()


def test_lines_that_left_the_node_are_read_again_as_a_log(tmp_path: Path) -> None:
    from stepscope.sources.log import read_log

    path = kmsg(tmp_path)
    clock = HandClock()
    clock.turn(100 * S)
    source = KernelLogSource(Context(host="n1", clock=clock, root=str(tmp_path)))
    source.read()
    with path.open("a") as file:
        file.write("3,3,99500000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, x\n")
    (reading,) = source.read()
    log = read_log("kmsg", data="\n".join(each.text for each in reading.lines).encode())
    assert [(each.what, each.code, each.at_ns) for each in log.events] == [
        ("xid", 79, clock.real_ns() - 500_000_000)
    ]
    source.close()


def test_a_kernel_log_that_may_not_be_read_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(NotHere, match="no such file"):
        KernelLogSource(Context(host="n1", root=str(tmp_path))).read()


# ── following ──


def test_a_file_is_followed_by_whole_lines_over_its_rotation(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    follower = Follower(str(path))
    assert follower.lines() == ["one"]
    with path.open("a") as file:
        file.write("o\nthree\n")
    assert follower.lines() == ["two", "three"]
    path.rename(tmp_path / "a.log.1")
    path.write_text("four\n")
    assert follower.lines() == ["four"]
    path.write_text("5\n")  # cut and written anew
    assert follower.lines() == ["5"]
    assert Follower(str(path), is_from_end=True).lines() == []


def test_a_line_without_an_end_fills_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" * (4 * MOST_BYTES))
    follower = Follower(str(path))
    for _ in range(6):
        assert follower.lines() == []
        assert len(follower._rest) <= MOST_BYTES


def test_a_link_a_pipe_and_another_users_file_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root:x\n")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name, uid in (("link", None), ("pipe", None), ("secret", os.getuid() + 1)):
        with pytest.raises(OSError):
            Follower(str(tmp_path / name), owner_uid=uid).lines()


# ── NCCL ──


def a_rank(root: Path, named: str, *, uid_of: Path | None = None) -> LiveRank:
    """A rank of pid 9, whose root folder is `root/job`."""
    proc = root / "proc/9"
    proc.mkdir(parents=True)
    (root / "job/logs").mkdir(parents=True)
    (proc / "root").symlink_to(root / "job")
    (proc / "cwd").symlink_to(root / "job/logs")
    (proc / "status").write_text("Name:\tpython\nNSpid:\t9\t1\n")
    (proc / "environ").write_bytes(f"HF_TOKEN=hf_x\0NCCL_DEBUG_FILE={named}\0".encode())
    return LiveRank("a.ring", Identity(job="j", rank=0, host="pod-0"), 0, pid=9, pids=frozenset((9,)))


@pytest.mark.parametrize("named", ["/logs/nccl.%h.%p", "nccl.%h.%p"])
def test_the_file_that_a_job_names_is_followed_in_its_own_file_system(tmp_path: Path, named: str) -> None:
    context = Context(host="n1", root=str(tmp_path))
    context.jobs.put(a_rank(tmp_path, named))
    source = NcclLogSource(context)
    assert source.read()[0].lines == []  # not written yet
    (tmp_path / "job/logs/nccl.pod-0.1").write_text(
        "pod-0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\nmy own line: password=hunter2\n"
    )
    (reading,) = source.read()
    (line,) = reading.lines
    assert (line.log, line.name) == ("nccl", named.replace("%h", "pod-0").replace("%p", "1"))
    assert "NCCL INFO" in line.text
    assert dict(line.labels)["job"] == "j"


def test_a_job_cannot_have_a_file_read_that_is_not_its_own(tmp_path: Path) -> None:
    context = Context(host="n1", root=str(tmp_path))
    context.jobs.put(a_rank(tmp_path, "/logs/link"))
    (tmp_path / "job/logs/link").symlink_to("/etc/passwd")
    (reading,) = NcclLogSource(context).read()
    assert reading.lines == []
    assert reading.missing["NCCL_DEBUG_FILE", "no_permission"] == 1


def test_files_that_the_agent_is_told_of_are_followed(tmp_path: Path) -> None:
    (tmp_path / "n.h1.5").write_text("h1:5:5 [0] NCCL WARN Connect failed\n")
    source = NcclLogSource(Context(host="n1", nccl_logs=(f"{tmp_path}/n.%h.%p",)))
    assert [each.text for each in source.read()[0].lines] == ["h1:5:5 [0] NCCL WARN Connect failed"]


# ── stacks ──


def test_stacks_have_no_secrets(tmp_path: Path) -> None:
    tool = tmp_path / "py-spy"
    token = "hf_" + "a1B2c3D4" * 5
    tool.write_text(
        f"#!/bin/sh\necho \"Process 5: python train.py --token {token}\"\necho '    step (train.py:7)'\n"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    lines = stacks_of(5, 1, py_spy=str(tool))
    assert [each.name for each in lines] == ["pid 5", "pid 5"]
    assert token not in lines[0].text
    assert "step (train.py:7)" in lines[1].text


def test_a_tool_that_is_not_there_fails_or_hangs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="py-spy"):
        stacks_of(5, 1, py_spy=str(tmp_path / "none"))
    for name, script in (("bad", "echo 'Permission denied' >&2; exit 1"), ("slow", "exec sleep 60")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        with pytest.raises((InputError, ServiceError)) as caught:
            stacks_of(5, 1, py_spy=str(tool), timeout_seconds=0.5)
        assert "\n" not in str(caught.value)


def test_py_spy_itself_is_asked_where_it_is() -> None:
    if found_py_spy() is None:
        pytest.skip("py-spy is not installed here")
    job = subprocess.Popen([sys.executable, "-c", "def here():\n    input()\nhere()"], stdin=subprocess.PIPE)
    try:
        assert any("here" in each.text for each in stacks_of(job.pid, 1))
    finally:
        job.kill()
        job.communicate(timeout=10)


def test_stacks_of_ranks_carry_their_labels_and_one_that_fails_leaves_the_rest(tmp_path: Path) -> None:
    tool = tmp_path / "py-spy"
    tool.write_text(
        '#!/bin/sh\n[ "$4" = 7 ] || { echo no such process >&2; exit 1; }\necho "Process 7: train"\n'
    )
    tool.chmod(0o755)
    ranks = [LiveRank(f"r{n}.ring", Identity(job="j", rank=n), 0) for n in range(3)]
    ranks[0].pid, ranks[1].pid = 7, 8
    lines, why = stacks_of_ranks(ranks, 1, py_spy=str(tool))
    assert [(each.text, dict(each.labels)["rank"]) for each in lines] == [("Process 7: train", "0")]
    assert len(why) == 2
    assert "no such process" in why[0]
    assert "rank 2" in why[1]


def test_what_prints_without_an_end_is_cut_and_ended(tmp_path: Path) -> None:
    tool = tmp_path / "py-spy"
    tool.write_text("#!/bin/sh\nexec yes Thread\n")
    tool.chmod(0o755)
    lines = stacks_of(5, 1, py_spy=str(tool))
    assert 0 < sum(len(each.text) + 1 for each in lines) <= MOST_STACK_BYTES
