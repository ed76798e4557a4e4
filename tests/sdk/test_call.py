"""A mark makes no system call: the kernel ends a process that makes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.sdk import strictly
from stepscope.cli.doctor_mark import clock


def test_marks_get_through_where_any_system_call_ends_the_process(tmp_path: Path) -> None:
    if strictly(str(tmp_path), "nothing") != "got through":
        pytest.skip("this kernel gives no strict seccomp")
    if not clock() or clock()[0].state != "ok":
        pytest.skip("reading this machine's clock is a system call")
    assert strictly(str(tmp_path), "call") == ""
    assert strictly(str(tmp_path), "mark") == "got through"
