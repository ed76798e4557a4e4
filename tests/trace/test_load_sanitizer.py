"""The native parser under the address and undefined-behaviour sanitizers: no read or write out of place, and
the same columns whatever the chunks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stepscope.trace.kineto_native import spec_bytes
from tests.trace.parsers import corpus

MUTATIONS = 20
FLAGS = "-std=c++17 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all".split()


@pytest.fixture(scope="module")
def driver(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("driver")
    probe = folder / "probe.cpp"
    probe.write_text("int main() { return 0; }\n")
    if subprocess.run([compiler, *FLAGS, probe, "-o", folder / "probe"], capture_output=True).returncode:
        pytest.skip("the compiler has no sanitizers")
    sources = [root / "src/stepscope/trace/native/kineto.cpp", root / "tests/trace/fuzz/driver.cpp"]
    subprocess.run([compiler, *FLAGS, *sources, "-o", folder / "driver"], check=True, capture_output=True)
    (folder / "spec").write_bytes(spec_bytes())
    return folder / "driver"


def test_mutated_events_stay_inside_and_do_not_depend_on_chunks(driver: Path, tmp_path: Path) -> None:
    for path in [*corpus(), *sorted((Path(__file__).parent / "corpus").glob("*.json"))]:
        text = path.read_bytes()
        opened = re.search(rb'"traceEvents"\s*:\s*\[', text)
        name = f"{path.parent.name}-{path.name}"
        (tmp_path / name).write_bytes(text[opened.end() if opened else text.index(b"[") + 1 :])
    inputs = sorted(tmp_path.glob("*.json"))
    command = [driver, driver.parent / "spec", "20240607", str(MUTATIONS), *inputs]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == f"{len(inputs) * (MUTATIONS + 1)} inputs\n"
