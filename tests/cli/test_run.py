"""`stepscope run`: what is refused before anything is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("keep", "code", "said"),
    [
        ("/proc/x", 3, "stepscope: /proc/x: cannot be made: "),
        ("FILE", 3, ": is a file; give a directory to --keep"),
        ("", 2, "--keep is given an empty name"),
    ],
)
def test_a_place_that_can_keep_nothing_is_refused_before_the_command_runs(
    stepscope: Run, tmp_path: Path, keep: str, code: int, said: str
) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file") if keep == "FILE" else keep
    ran = tmp_path / "ran"
    done = stepscope("run", "--keep", place, "--", sys.executable, "-c", f"open({str(ran)!r}, 'w').close()")
    assert done.code == code
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not ran.exists()
