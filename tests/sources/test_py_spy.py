"""The text of py-spy, to stacks; and the same as lines of a spool."""

from __future__ import annotations

from stepscope.model.batch import Lines
from stepscope.model.stuck import Frame
from stepscope.sources.formats.py_spy import is_stacks, short, stacks_of_text
from stepscope.sources.spool_log import stacks_of_lines

TEXT = """Process 21168: /usr/bin/python3 train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 21210 (idle): "loader"
    wait (threading.py:327)
Thread 21168 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3245)
    step (train.py:80)
    <module> (train.py:122)
"""


def test_the_main_thread_comes_first_with_its_frames_innermost_first() -> None:
    (found,) = stacks_of_text(TEXT.splitlines(), name="stacks-rank3.txt")
    assert (found.rank, found.pid, [each.name for each in found.threads]) == (
        3,
        21168,
        ["MainThread", "loader"],
    )
    assert found.main is not None
    assert found.main.frames[1] == Frame("step", "train.py", 80)
    assert [each.is_idle for each in found.threads] == [False, True]


def test_a_text_of_several_processes_has_no_rank_for_them() -> None:
    assert [each.rank for each in stacks_of_text((TEXT + TEXT).splitlines(), name="rank3")] == [None, None]


def test_stacks_are_told_from_logs() -> None:
    assert is_stacks(TEXT)
    assert not is_stacks("Process 12: starting\nThread pool of 4\n")


def test_lines_of_a_spool_have_the_rank_of_their_labels() -> None:
    rows = [line for line in TEXT.splitlines() if line.strip()]
    batch = Lines("a", 1, "n1", "stacks", "pid 21168", [5] * len(rows), rows, {"job": "j", "rank": "2"})
    other = Lines("a", 2, "n1", "stacks", "pid 9", [5] * len(rows), rows, {"job": "k", "rank": "0"})
    (found,) = stacks_of_lines([batch, other], "j")
    assert (found.rank, found.host, found.at_ns) == (2, "n1", 5)


def test_files_are_cut_to_what_is_the_jobs_own() -> None:
    assert (
        short("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py") == "torch/nn/modules/module.py"
    )
    assert short("/home/alice/train.py") == "train.py"
    assert short("/work/job/train.py") == "job/train.py"
