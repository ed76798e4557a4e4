"""Runs the command line as a person does: in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stepscope.views.json import schema


@dataclass(frozen=True)
class Done:
    """How a command ended. `peak_bytes` is the largest resident size of its process."""

    code: int
    out: str
    err: str
    peak_bytes: int

    @property
    def report(self) -> dict[str, Any]:
        """The report that was printed, checked against the schema that others read it by."""
        report: dict[str, Any] = json.loads(self.out)
        _validator().validate(report)
        return report


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


Run = Callable[..., Done]

MEASURE = """
import os, sys
child = os.fork()
if not child:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
os.write(int(sys.argv[1]), b"%d" % usage.ru_maxrss)
os._exit(0) if not status else os._exit(status >> 8) if status >> 8 else os.kill(os.getpid(), status & 127)
"""
"""Starts the command from a small process: the kernel counts the size of the one it is forked from as the
child's own peak, and a test worker may be larger than any limit here."""


def run_process(
    words: Sequence[str | os.PathLike[str]],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    **more: Any,
) -> Done:
    """Run to the end, with output in files so that the peak size can be had from the kernel."""
    import tempfile

    environment = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE_", "COV_"))}
    environment |= {"COLUMNS": "100", "NO_COLOR": "1", **(env or {})}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as kb:
        more["pass_fds"] = (*more.get("pass_fds", ()), kb.fileno())
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", MEASURE, str(kb.fileno()), *(os.fspath(w) for w in words)],
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=cwd,
            **more,
        )
        code = process.wait()
        for file in (out, err, kb):
            file.seek(0)
        return Done(
            code,
            out.read().decode(errors="replace"),
            err.read().decode(errors="replace"),
            int(kb.read()) * 1024,
        )


@pytest.fixture(scope="session")
def stepscope() -> Run:
    """`stepscope(*words)` runs the command and says how it ended."""

    def run(*words: str | os.PathLike[str], **more: Any) -> Done:
        return run_process([sys.executable, "-m", "stepscope", *words], **more)

    return run


@pytest.fixture(scope="session")
def sample(root: Path) -> Path:
    """The packaged sample."""
    return root / "src/stepscope/demo/demo.pt.trace.json.gz"


@pytest.fixture(scope="session")
def eight_ranks(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample as eight ranks of one job."""
    folder = tmp_path_factory.mktemp("eight")
    text = gzip.decompress(sample.read_bytes())
    for rank in range(8):
        info = json.dumps({"backend": "nccl", "rank": rank, "world_size": 8}).encode()
        mine = text.replace(b'"record_shapes"', b'"distributedInfo": ' + info + b', "record_shapes"', 1)
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(mine, 1))
    return folder
