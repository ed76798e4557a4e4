"""What a loop says, as records."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.monitor import Monitor
from stepscope_sdk.ring import Ring

KIND = {each.number: each.name for each in abi.KINDS}
FLAGS = abi.FLAGS


class Marked:
    """A monitor and what it wrote, without `start`."""

    def __init__(self, folder: Path) -> None:
        self.ring = Ring(str(folder / "a.ring"), {"rank": 0}, num_records=256)
        self.monitor = Monitor(self.ring)
        self.reader = RingReader(self.ring.path)
        assert self.kinds() == ["start"]

    def records(self) -> list[Any]:
        found = self.reader.poll().records
        return [row for row in found if not (row["kind"] in (4, 5) and row["a"] == abi.PHASES.index("gc"))]

    def kinds(self) -> list[str]:
        return [KIND[int(row["kind"])] for row in self.records()]

    def rows(self) -> list[tuple[Any, ...]]:
        """kind, flags, step, a, b"""
        return [
            (KIND[int(row["kind"])], int(row["flags"]), int(row["step"]), int(row["a"]),
             None if isnan(row["b"]) else row["b"])
            for row in self.records()
        ]  # fmt: skip


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    made = Marked(tmp_path)
    yield made
    made.monitor.close()
    made.ring.close()


def test_a_step_with_its_phases_and_numbers(marked: Marked) -> None:
    monitor = marked.monitor
    with monitor.step(tokens=4096, samples=8, seq_len=512.0):
        with monitor.phase("forward"):
            pass
        with monitor.phase("backward", sync=True), monitor.phase("mine"):
            pass
        monitor.log(loss=2.5, grad_norm=1)
    with monitor.step():
        pass
    place = abi.PHASES.index
    assert marked.rows() == [
        ("step_begin", 0, 0, 4096, 8.0),
        ("phase_begin", 0, 0, place("forward"), None),
        ("phase_end", 0, 0, place("forward"), None),
        ("phase_begin", FLAGS["sync"], 0, place("backward"), None),
        ("phase_begin", 0, 0, place("other"), 0.0),
        ("phase_end", 0, 0, place("other"), 0.0),
        ("phase_end", FLAGS["sync"], 0, place("backward"), None),
        ("value", 0, 0, 1, 2.5),
        ("value", 0, 0, 2, 1.0),
        ("step_end", 0, 0, -1, None),
        ("step_begin", 0, 1, -1, None),
        ("step_end", 0, 1, -1, None),
    ]
    assert marked.reader.names() == ("mine", "loss", "grad_norm")


def test_the_end_of_a_phase_says_how_long_it_was(marked: Marked) -> None:
    for mark in ("pair", "block"):
        if mark == "pair":
            marked.monitor.begin_phase("eval")
            time.sleep(0.002)
            marked.monitor.end_phase("eval")
        else:
            with marked.monitor.phase("eval"):
                time.sleep(0.002)
        begin, end = marked.records()
        assert end["c"] == float(begin["mono_ns"] - end["mono_ns"]) <= -2_000_000
    marked.monitor.end_phase("eval")  # without a begin
    (end,) = marked.records()
    assert math.isnan(end["c"])


def test_steps_count_up_from_the_last_number(marked: Marked) -> None:
    monitor = marked.monitor
    monitor.begin_step(100)
    monitor.end_step(tokens=7, seq_len=3.5)
    monitor.begin_step()
    monitor.end_step(has_failed=True)
    monitor.log(loss=1.0)
    rows = marked.rows()
    assert [row[2] for row in rows] == [100, 100, 101, 101, -1]
    assert rows[1][3] == 7
    assert rows[3][1] == FLAGS["error"]


def test_an_exception_goes_through_a_step_and_a_phase_and_is_marked(marked: Marked) -> None:
    with pytest.raises(KeyError, match="mine"), marked.monitor.step(), marked.monitor.phase("forward"):
        raise KeyError("mine")
    assert [(row[0], row[1]) for row in marked.rows()] == [
        ("step_begin", 0), ("phase_begin", 0), ("phase_end", FLAGS["error"]), ("step_end", FLAGS["error"]),
    ]  # fmt: skip


def test_a_phase_of_another_thread_is_aside(marked: Marked) -> None:
    def work() -> None:
        with marked.monitor.phase("checkpoint"):
            pass

    with marked.monitor.step():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [row[1] for row in marked.rows()] == [0, FLAGS["aside"], FLAGS["aside"], 0]


class Loader:
    """Three batches an epoch; tells whether its iterators were closed."""

    batch_size = 4

    def __init__(self) -> None:
        self.closed = 0

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        try:
            yield from (1, 2, 3)
        finally:
            self.closed += 1


def test_waits_for_batches_are_marked_epoch_after_epoch(marked: Marked) -> None:
    loader = Loader()
    data = marked.monitor.data(loader)
    assert len(data) == 3
    assert data.batch_size == 4
    for _ in range(2):
        assert list(data) == [1, 2, 3]
    # Two marks for making the iterator, for each batch, and for finding that there is none left.
    assert [kind for kind in marked.kinds() if kind == "phase_begin"] == ["phase_begin"] * 10
    assert loader.closed == 2


def test_leaving_a_loop_closes_an_iterator_that_was_made_and_no_other(marked: Marked) -> None:
    loader = Loader()
    for batch in marked.monitor.data(loader):
        if batch == 2:
            break
    gc.collect()
    assert loader.closed == 1
    numbers = iter(range(10))
    for number in marked.monitor.data(numbers):
        if number == 4:
            break
    gc.collect()
    assert next(numbers) == 5
    given = (n for n in range(5))
    for number in marked.monitor.data(given):
        if number == 1:
            break
    gc.collect()
    assert list(given) == [2, 3, 4]
    assert next(marked.monitor.data([7])) == 7
    with pytest.raises(TypeError):
        len(marked.monitor.data(n for n in range(5)))


def test_what_a_loader_raises_is_raised(marked: Marked) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(marked.monitor.data(broken()))
    assert marked.kinds().count("phase_end") == 3


class OnDevice:
    """As a number on a device: to read it would wait for the device."""

    device = type("Device", (), {"type": "cuda", "platform": "gpu"})()

    def __float__(self) -> float:
        raise AssertionError("it was read")

    __int__ = __index__ = __float__  # type: ignore[assignment]


def test_nothing_on_a_device_is_ever_read(marked: Marked) -> None:
    with marked.monitor.step(OnDevice(), tokens=OnDevice(), samples=OnDevice()):  # type: ignore[arg-type]
        marked.monitor.log(loss=OnDevice(), other=1.0)
    assert [row[0] for row in marked.rows()] == ["step_begin", "value", "step_end"]


NONSENSE: tuple[Any, ...] = (None, "x", [], {}, object(), 1 << 80, math.nan, math.inf, -math.inf, b"\xff", 1j)


@pytest.mark.parametrize(
    "value", NONSENSE, ids=lambda value: type(value).__name__ + str(value)[:5].strip("<")
)
def test_nonsense_never_raises_and_never_costs_the_step(marked: Marked, value: Any) -> None:
    monitor = marked.monitor
    monitor.begin_step(value, tokens=value, samples=value, seq_len=value)
    monitor.begin_phase(value)
    monitor.end_phase(value)
    monitor.log(loss=value)
    monitor.world(value, value, value)
    monitor.activations(value, value, value)
    monitor.end_step(tokens=value)
    monitor.log(**{"n" * 500: 1.0})
    with monitor.step():
        pass
    kinds = marked.kinds()
    assert kinds.count("step_begin") >= 1
    assert kinds[-2:] == ["step_begin", "step_end"]


def test_more_names_than_there_is_room_for_are_left_out(marked: Marked) -> None:
    for n in range(abi.MAX_NAMES + 5):
        marked.monitor.log(**{f"value_{n}": n})
    assert marked.kinds().count("value") == abi.MAX_NAMES
    with marked.monitor.phase("one more"):
        pass
    assert [(row[3], row[4]) for row in marked.rows()] == [(abi.PHASES.index("other"), None)] * 2


def test_a_long_pause_of_the_collector_is_a_phase_and_a_short_one_is_not(tmp_path: Path) -> None:
    ring = Ring(str(tmp_path / "a.ring"), {})
    monitor = Monitor(ring)
    reader = RingReader(ring.path)
    gc.collect()
    reader.poll()
    monitor.begin_step(3)
    # The collector's own callbacks, with a pause that is as long as is wanted.
    monitor._pauses._collected("start", {})
    time.sleep(0.003)
    monitor._pauses._collected("stop", {})
    monitor._pauses._collected("start", {})
    monitor._pauses._collected("stop", {})
    rows = [row for row in reader.poll().records if row["kind"] in (4, 5)]
    assert [(int(row["kind"]), int(row["step"]), int(row["a"])) for row in rows] == [
        (4, 3, abi.PHASES.index("gc")), (5, 3, abi.PHASES.index("gc")),
    ]  # fmt: skip
    assert rows[1]["mono_ns"] - rows[0]["mono_ns"] >= 3_000_000
    monitor.close()
    assert monitor._pauses._collected not in gc.callbacks
    ring.close()


def test_a_mark_inside_a_mark_waits_and_is_written(tmp_path: Path) -> None:
    """As when the collector or a signal handler runs in the middle of a mark."""
    ring = Ring(str(tmp_path / "a.ring"), {})
    inner: list[int] = []

    class Meddler(float):
        def __float__(self) -> float:  # runs while the record is packed
            return 1.0

    class Number(int):
        def __index__(self) -> int:
            inner.append(ring.write(6, 0, 77))
            return 5

    ring.write(6, 0, Number(5))
    if not inner:  # an int is packed without asking it

        class Asked:
            def __index__(self) -> int:
                inner.append(ring.write(6, 0, 77))
                return 5

        ring.write(6, 0, Asked())  # type: ignore[arg-type]
    steps = RingReader(ring.path).poll().records["step"].tolist()
    assert steps[-2:] == [5, 77]
    assert len(inner) == 1
    ring.close()


def test_marks_of_many_threads_are_all_there(tmp_path: Path) -> None:
    ring = Ring(str(tmp_path / "a.ring"), {}, num_records=1 << 14)

    def work(n: int) -> None:
        for k in range(1000):
            ring.write(6, n, k)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    records = RingReader(ring.path).poll().records
    assert len(records) == 8000
    for n in range(8):
        assert sorted(records["step"][records["flags"] == n].tolist()) == list(range(1000))
    ring.close()


def test_an_inert_monitor_does_nothing_at_all() -> None:
    monitor = Monitor(None)
    assert not monitor.is_on
    with monitor.step(tokens=1), monitor.phase("forward"):
        monitor.log(loss=1.0)
    assert list(monitor.data([1, 2])) == [1, 2]
    monitor.world(4, 1, 1)
    monitor.close()


def test_the_world_is_told_when_it_is_known(marked: Marked) -> None:
    marked.monitor.world(16, 3, 1)
    (row,) = marked.records()
    assert (int(row["a"]), row["b"], row["c"]) == (16, 3.0, 1.0)
    found = marked.reader.identity()
    assert (found.world_size, found.rank, found.local_rank) == (16, 3, 1)
