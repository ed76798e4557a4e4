"""No network, no home, no writing: the answer is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_process

NO_SOCKETS = """
import socket
def refused(*words, **more):
    raise AssertionError("a socket was used")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refused
"""


def can_unshare() -> bool:
    tool = shutil.which("unshare")
    return (
        bool(tool)
        and subprocess.run([str(tool), "-n", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_without_network_and_with_a_read_only_home_the_answer_is_the_same(
    stepscope: Run, sample: Path, tmp_path: Path, form: str
) -> None:
    usual = stepscope("diagnose", sample, "--format", form)
    assert usual.code == 0, usual.err
    block = tmp_path / "block"
    block.mkdir()
    (block / "sitecustomize.py").write_text(NO_SOCKETS)
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    wall = ["unshare", "-n"] if can_unshare() else []
    alone = run_process(
        [*wall, sys.executable, "-m", "stepscope", "diagnose", sample, "--format", form],
        env={
            "HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_CONFIG_HOME": str(home), "TMPDIR": str(home),
            "PYTHONPATH": f"{block}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=home,
    )  # fmt: skip
    assert (alone.code, alone.err) == (0, "")
    assert alone.out == usual.out
    assert os.listdir(home) == []
