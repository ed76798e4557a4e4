from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import pytest

from stepscope import offline
from stepscope.model.error import InputError, UsageError
from stepscope.sources.catalog.sealed import is_sealed, read_sealed
from stepscope.sources.catalog.spool import NoJob
from stepscope.store.retention import HOUR_NS, MINUTE_NS, Retention
from stepscope.store.store import Store
from tests.store.made import BATCH_NS, START_NS, request


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sealed hours of a store that is closed."""
    now = [START_NS]
    store = Store.open(str(tmp_path / "store"), now_ns=lambda: now[0], retention=Retention(reserve_bytes=0))
    for number in range(1, 8):
        store.keep(request(number))
    now[0] = START_NS + 7 * BATCH_NS
    store.tend()
    store.close()
    return tmp_path / "store" / "hours"


def test_sealed_hours_are_read_as_the_store_gives_them(folder: Path) -> None:
    assert is_sealed(str(folder))
    found = read_sealed(str(folder))
    (part,) = found.telemetry
    assert found.num_bytes > 0
    assert {(each.signal, each.owner.uuid) for each in part.series} >= {("power_watts", "GPU-0001")}
    store = Store.open(str(folder.parent), now_ns=lambda: START_NS + 7 * BATCH_NS)
    (wanted,) = store.telemetry("llama", None, START_NS, START_NS + 2 * HOUR_NS)
    store.close()
    theirs = {(each.signal, each.owner): each for each in wanted.series}
    for each in part.series:
        np.testing.assert_array_equal(each.value, theirs[each.signal, each.owner].value)
    assert part.window_ns == wanted.window_ns


def test_one_file_is_enough_and_diagnose_takes_it(folder: Path) -> None:
    path = next(iter(sorted(folder.rglob("device-*.parquet"))))
    (part,) = read_sealed(str(path)).telemetry
    assert part.series[0].at_ns[-1] - part.series[0].at_ns[0] > 50 * MINUTE_NS
    report = offline.diagnose(telemetry=[path])
    assert [each.format for each in report.inputs] == ["sealed"]


def test_a_damaged_file_is_named_and_the_rest_is_used(folder: Path) -> None:
    path = next(iter(sorted(folder.rglob("device-*.parquet"))))
    later = path.with_name("device-later.parquet")
    whole = path.read_bytes()
    later.write_bytes(whole[:64] + b"\x55" * (len(whole) // 2) + whole[64 + len(whole) // 2 :])
    (part,) = read_sealed(str(folder)).telemetry
    assert part.notes[0][0] == "store_damage"
    assert "device-later.parquet" in part.notes[0][2]
    path.unlink()
    with pytest.raises(InputError, match="DuckDB cannot read it"):
        read_sealed(str(later))


def test_marks_and_lines_are_read_as_the_store_gives_them(folder: Path) -> None:
    from stepscope.sources.marks import marks_of_batches

    found = read_sealed(str(folder), "llama")
    (mine,) = marks_of_batches(found.marks)
    store = Store.open(str(folder.parent), now_ns=lambda: START_NS + 7 * BATCH_NS)
    (wanted,) = store.marks("llama", "r1", START_NS, START_NS + 2 * HOUR_NS)
    store.close()
    assert mine.identity == wanted.identity
    assert mine.num_lost == wanted.num_lost == 0
    np.testing.assert_array_equal(mine.steps.end_ns, wanted.steps.end_ns)
    (path,) = sorted(folder.rglob("mark-*.parquet"))[1:]
    (alone,) = marks_of_batches(read_sealed(str(path)).marks)
    assert (alone.num_lost, len(alone.steps) > 0) == (0, True)  # what the first hour holds is not lost
    report = offline.diagnose(telemetry=[path])
    assert [(each.format, each.error) for each in report.inputs] == [("sealed", None)]


def test_a_file_whose_bytes_changed_is_left_out_though_parquet_reads_it(folder: Path) -> None:
    path = sorted(folder.rglob("device-*.parquet"))[0]
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)
    assert "its checksum is wrong" in read_sealed(str(folder)).telemetry[0].notes[0][2]
    with pytest.raises(InputError, match="its checksum is wrong"):
        read_sealed(str(path))


def test_what_is_no_sealed_hour_is_none(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 something PAR1")
    assert not is_sealed(str(tmp_path / "x.parquet"))
    with pytest.raises(InputError, match="holds no hour"):
        read_sealed(str(tmp_path / "x.parquet"))
    with pytest.raises(NoJob, match="there are: llama"):
        read_sealed(str(folder), "other")


def test_without_duckdb_one_line_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'stepscope\[sql\]'"):
        read_sealed(str(folder))
