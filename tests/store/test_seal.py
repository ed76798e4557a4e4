from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.store.retention import DAY_NS, HOUR_NS, MINUTE_NS, Retention
from stepscope.store.store import Store
from tests.store.made import AGENT, BATCH_NS, NUM_ROWS, RETENTION, START_NS, counted, request, samples
from tests.store.soak import check

END_NS = START_NS + 10 * DAY_NS


class Clock:
    def __init__(self, now_ns: int = START_NS) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns


def filled(folder: Path, clock: Clock, num: int, retention: Retention = RETENTION, every: int = 4) -> Store:
    store = Store.open(str(folder), now_ns=clock, retention=retention)
    for number in range(1, num + 1):
        clock.now_ns = START_NS + number * BATCH_NS
        store.keep(request(number))
        if number % every == 0:
            store.tend()
    return store


def sealed(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*.parquet"))


def test_an_hour_is_sealed_once_rows_and_clock_are_past_it(tmp_path: Path) -> None:
    clock = Clock()
    store = filled(tmp_path, clock, 3)
    store.tend()
    assert sealed(tmp_path) == []
    store.keep(request(4))
    clock.now_ns = START_NS + HOUR_NS + 15 * MINUTE_NS
    store.tend()
    kinds = {name.rsplit("/", 1)[1].split("-")[0] for name in sealed(tmp_path)}
    assert kinds == {"device", "mark", "line"}
    assert len(counted(store.batches(None, None, START_NS, END_NS))) == 8 * 3 * NUM_ROWS
    store.close()


def test_a_clock_an_hour_ahead_seals_nothing_early_and_forgets_nothing(tmp_path: Path) -> None:
    clock = Clock()
    store = filled(tmp_path, clock, 3, Retention(reserve_bytes=0))
    clock.now_ns += HOUR_NS
    store.tend()
    assert sealed(tmp_path) == []
    clock.now_ns += 3650 * DAY_NS  # and ten years ahead: sealed, but still there
    store.tend()
    store.tend()
    assert sealed(tmp_path) != []
    assert len(counted(store.batches(None, None, START_NS, END_NS))) == 6 * 3 * NUM_ROWS
    store.close()


def test_a_clock_an_hour_behind_waits(tmp_path: Path) -> None:
    clock = Clock()
    store = filled(tmp_path, clock, 6)
    before = sealed(tmp_path)
    clock.now_ns -= HOUR_NS
    store.tend()
    assert sealed(tmp_path) == before
    assert (
        len(counted(store.batches(None, None, START_NS, END_NS)))
        == len({(o, at) for n in range(1, 7) for o in (0, 1) for at in samples(n).series[0].at_ns}) * 3
    )
    store.close()


def test_rows_and_rollups_are_what_was_sent_over_more_than_a_day_with_late_rows(tmp_path: Path) -> None:
    store = filled(tmp_path, Clock(), 84, every=12)
    store.close()
    assert any(name.startswith("minutes/") for name in sealed(tmp_path))
    assert check(tmp_path, 84) == 84


def test_a_missing_rollup_is_found_by_the_check(tmp_path: Path) -> None:
    store = filled(tmp_path, Clock(), 12)
    with store._db.writing() as cursor:
        cursor.execute("UPDATE minute SET num = num + 1 WHERE kind = 'device'")
    store.close()
    with pytest.raises(AssertionError, match="samples"):
        check(tmp_path, 12)


def test_what_is_too_old_goes_raw_rows_before_minutes_before_hours(tmp_path: Path) -> None:
    short = Retention(raw_ns=HOUR_NS, minutes_ns=2 * HOUR_NS, coarser_ns=30 * DAY_NS, reserve_bytes=0)
    store = filled(tmp_path, Clock(), 30, short, every=6)
    store.tend()
    store.tend()
    hours = {name.split("/")[1] for name in sealed(tmp_path) if name.startswith("hours/")}
    assert len(hours) <= 2
    with store._db.reading() as cursor:
        (num_minutes,) = cursor.execute(
            "SELECT count(DISTINCT at_ns) FROM minute WHERE kind = 'device'"
        ).fetchone()  # type: ignore[misc]
        (num_hours,) = cursor.execute(
            "SELECT count(DISTINCT at_ns) FROM hour WHERE kind = 'device'"
        ).fetchone()  # type: ignore[misc]
    assert num_minutes <= 180
    assert num_hours >= 8
    store.close()


def test_a_bound_on_the_size_takes_the_oldest_raw_rows_first(tmp_path: Path) -> None:
    bound = Retention(most_bytes=60_000, reserve_bytes=0)
    store = filled(tmp_path, Clock(), 24, bound, every=6)
    store.tend()
    store.tend()
    left = sealed(tmp_path)
    assert sum((tmp_path / name).stat().st_size for name in left) <= 60_000
    assert left
    assert not any(name.startswith("hours/2023-11-14T00") for name in left)
    store.close()


def test_a_damaged_file_is_named_once_and_the_rest_is_answered(tmp_path: Path) -> None:
    store = filled(tmp_path, Clock(), 12)
    first, second, *_ = (name for name in sealed(tmp_path) if "/device-" in name)
    damaged, gone = tmp_path / first, tmp_path / second
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:4] + b"\x55" * (len(whole) - 4))
    gone.unlink()
    for _ in range(2):
        found = counted(store.batches(None, None, START_NS, END_NS))
        assert START_NS + 11 * BATCH_NS in {at_ns for _, _, at_ns in found}
    assert store.telemetry("llama", "r1", START_NS, END_NS)[0].notes[0][0] == "store_damage"
    told = [each[2] for each in store.notes()]
    assert len(told) == 2
    assert told[0].startswith(first)
    assert "restore it from a copy" in told[0]
    assert store.lines(["power_watts"], START_NS, END_NS, 100)
    store.tend()
    store.close()


def test_rot_is_found_by_the_checksum_and_named_in_answers_of_its_window_alone(tmp_path: Path) -> None:
    clock = Clock()
    store = filled(tmp_path, clock, 12, Retention(reserve_bytes=0))
    first = next(name for name in sealed(tmp_path) if "/device-" in name)
    before = counted(store.batches(None, None, START_NS, END_NS))
    whole = bytearray((tmp_path / first).read_bytes())
    whole[len(whole) // 3] ^= 1
    (tmp_path / first).write_bytes(whole)
    after = counted(store.batches(None, None, START_NS, END_NS))
    assert all(before[key] == values for key, values in after.items())  # nothing wrong, though less
    assert min(at_ns for _, _, at_ns in after) == START_NS + HOUR_NS
    ((code, _, text),) = store.notes(START_NS, START_NS + 1)
    assert (code, first in text, "checksum" in text) == ("store_damage", True, True)
    assert store.notes(START_NS + HOUR_NS, END_NS) == ()
    store.close()


def test_rot_that_changes_no_time_is_found_by_looking_again(tmp_path: Path) -> None:
    clock = Clock()
    store = filled(tmp_path, clock, 8, Retention(reserve_bytes=0))
    first = tmp_path / next(name for name in sealed(tmp_path) if "/device-" in name)
    store.batches(None, None, START_NS, END_NS)
    there, whole = first.stat(), bytearray(first.read_bytes())
    whole[len(whole) // 3] ^= 1
    first.write_bytes(whole)
    os.utime(first, ns=(there.st_atime_ns, there.st_mtime_ns))
    store.batches(None, None, START_NS, END_NS)
    assert store.notes() == ()
    store.tend()
    assert [code for code, _, _ in store.notes()] == ["store_damage"]
    store.close()


def test_leftovers_of_a_kill_are_removed_at_the_start(tmp_path: Path) -> None:
    filled(tmp_path, Clock(), 8).close()
    before = sealed(tmp_path)
    for name in ("hours/2023-11-14T00/device-99.parquet", "hours/2023-11-14T01/mark-98.parquet.part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"half")
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS, retention=RETENTION)
    assert sealed(tmp_path) == before
    assert not list(tmp_path.rglob("*.part"))
    assert store.last_seq(AGENT) == 24
    store.close()
