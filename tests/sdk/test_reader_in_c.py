"""A reader in C, built from the generated header, and ours read the same from a ring that lives."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from tests.sdk import writer

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", str(writer.ROOT / "docs/reference"))


@pytest.fixture(scope="module")
def reader_in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("c") / "reader"
    done = subprocess.run(
        [compiler, *FLAGS, HERE / "reader.c", "-o", built], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


MARK = """
import stepscope_sdk, sys, time
monitor = stepscope_sdk.monitor()
print("ready", flush=True)
sys.stdin.readline()
for n in range(3000):
    with monitor.step(tokens=n * 3, seq_len=n / 7):
        with monitor.phase("mine", sync=True): monitor.log(loss=1 / (n + 1))
    if n % 100 == 0: time.sleep(0.002)
"""


def test_both_read_the_same_from_a_ring_that_lives(tmp_path: Path, reader_in_c: Path) -> None:
    process = writer.start(MARK, tmp_path, RANK="2", WORLD_SIZE="8", STEPSCOPE_JOB="j", STEPSCOPE_RUN="r")
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        (path,) = writer.rings(tmp_path)
        other = subprocess.Popen([reader_in_c, path, "60"], stdout=subprocess.PIPE, text=True)
        process.communicate("\n", timeout=writer.PATIENCE_SECONDS)
        out, _ = other.communicate(timeout=writer.PATIENCE_SECONDS)
        assert other.returncode == 0
    finally:
        process.kill()
        process.communicate()
    first, *lines, last = out.splitlines()
    assert first == "rank 2 world 8 job j run r alive 1"
    with RingReader(str(path)) as reader:
        part = reader.poll()
    # It may have lost some where this machine let it wait for long; what it has is what we have.
    rows = {int(number): row for number, row in zip(part.number, part.records, strict=True)}
    read = [line.split() for line in lines]
    numbers = [int(words[0]) for words in read]
    assert numbers == sorted(set(numbers))
    assert len(numbers) + int(last.split()[1]) == part.number[-1] + 1 == 3000 * 5 + 2
    assert last.split()[2:] == ["alive", "0"] or last.split()[2:] == ["alive", "1"]
    for words in read:
        row = rows[int(words[0])]
        whole = [int(row[name]) for name in ("kind", "flags", "step", "mono_ns", "a")]
        assert [int(word) for word in words[1:6]] == whole
        for word, name in zip(words[6:], ("b", "c"), strict=True):
            assert float(word) == row[name] or (row[name] != row[name] and word.endswith("nan"))
    assert [int(words[1]) for words in read][-1] == abi.kind_number("exit")


def test_the_header_is_good_for_c_plus_plus(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "a.cpp").write_text(
        '#include "step_ring.h"\nint main() { return sizeof(step_ring_record) != 64; }\n'
    )
    flags = [flag for flag in FLAGS if not flag.startswith("-std")]
    subprocess.run([compiler, *flags, tmp_path / "a.cpp", "-o", tmp_path / "a"], check=True)
    assert subprocess.run([tmp_path / "a"], check=False).returncode == 0


def test_the_table_is_sound() -> None:
    for fields, size in (
        (abi.HEADER, abi.HEADER_BYTES),
        (abi.RECORD, abi.RECORD_BYTES),
        (abi.CONTROL, abi.CONTROL_BYTES),
    ):
        end = 0
        for each in fields:
            assert each.offset >= end, each.name
            assert each.offset % min(each.size, 8) == 0, each.name
            end = each.offset + each.size
        assert end <= size
        assert len({each.name for each in fields}) == len(fields)
    assert [kind.number for kind in abi.KINDS] == list(range(1, len(abi.KINDS) + 1))
    bits = list(abi.FLAGS.values())
    assert bits == [1 << n for n in range(len(bits))]
