"""What doctor says of marks, in good and bad surroundings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.cli import doctor_mark, doctor_zh
from stepscope.cli.doctor import Check


def test_a_clock_that_is_read_without_a_call_is_good_and_another_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "current_clocksource"
    file.write_text("tsc\n")
    assert doctor_mark.clock(file) == [Check("clock source", "ok", "tsc: a mark makes no system call")]
    file.write_text("hpet\n")
    (check,) = doctor_mark.clock(file)
    assert (check.state, check.found[:5]) == ("note", "hpet:")
    assert doctor_mark.clock(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("made", "state", "found"),
    [
        ("folder", "ok", "{}, rings there now: 1"),
        ("nothing", "ok", "{} will be made by the first process that marks"),
        ("file", "missing", "{} is no folder"),
        ("below a file", "missing", "not usable: "),
        ("nonsense", "missing", "not usable: "),
    ],
)
def test_a_run_directory_is_usable_or_not_and_nothing_is_made(
    tmp_path: Path, made: str, state: str, found: str
) -> None:
    path = tmp_path / "run"
    env = {"STEPSCOPE_RUN_DIR": str(path)}
    if made == "folder":
        path.mkdir()
        (path / "a.ring").touch()
    elif made == "file":
        path.touch()
    elif made == "below a file":
        env["STEPSCOPE_RUN_DIR"] = "/dev/null/run"
    elif made == "nonsense":
        env["STEPSCOPE_RUN_GROUP"] = "no-such-group"
    before = sorted(tmp_path.rglob("*"))
    (check,) = doctor_mark.run_folder(env)
    assert check.state == state
    assert check.found.startswith(found.format(env["STEPSCOPE_RUN_DIR"]))
    assert (check.add is not None) == (state == "missing")
    assert sorted(tmp_path.rglob("*")) == before
    assert doctor_zh.in_chinese(check.found) != check.found


def test_a_folder_of_somebody_else_without_a_sticky_bit_is_not_safe(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("to give a folder away needs root")
    path = tmp_path / "run"
    path.mkdir()
    path.chmod(0o777)
    os.chown(path, 4242, 4242)
    (check,) = doctor_mark.run_folder({"STEPSCOPE_RUN_DIR": str(path)})
    assert "is not safe" in check.found
    path.chmod(0o1777)
    assert doctor_mark.run_folder({"STEPSCOPE_RUN_DIR": str(path)})[0].state == "ok"
