"""The reader of step rings against real writers, and against files that lie."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.error import InputError
from stepscope.sources.ring import RECORD, RingReader
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import Ring
from tests.sdk import writer

VALUE = abi.kind_number("value")


def ring_in(folder: Path, num_records: int = 8, has_crc: bool = True, **identity: str | int) -> Ring:
    return Ring(str(folder / "a.ring"), identity, num_records=num_records, has_crc=has_crc)


def put(ring: Ring, *numbers: int) -> None:
    for number in numbers:
        ring.write(VALUE, 0, number, number * 10, number / 2)


def test_each_record_is_read_once_and_in_order(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    with RingReader(ring.path) as reader:
        assert len(reader.poll().records) == 0
        put(ring, 0, 1, 2)
        part = reader.poll()
        assert part.number.tolist() == [0, 1, 2]
        assert part.records["step"].tolist() == [0, 1, 2]
        assert part.records["a"].tolist() == [0, 10, 20]
        assert part.records["b"].tolist() == [0.0, 0.5, 1.0]
        assert np.isnan(part.records["c"]).all()
        assert part.records["seq"].tolist() == [2, 4, 6]
        assert len(reader.poll().records) == 0
        put(ring, 3)
        assert reader.poll().number.tolist() == [3]


@given(
    rounds=st.lists(st.integers(0, 40), max_size=12), has_crc=st.booleans(), size=st.sampled_from([2, 8, 16])
)
@settings(max_examples=60, deadline=None)
def test_what_is_read_and_what_is_lost_make_up_all_that_was_written(tmp_path_factory, rounds, has_crc, size):  # type: ignore[no-untyped-def]
    ring = ring_in(tmp_path_factory.mktemp("law"), size, has_crc)
    with RingReader(ring.path) as reader:
        written = 0
        seen: list[int] = []
        num_lost = 0
        for num in rounds:
            put(ring, *range(written, written + num))
            written += num
            part = reader.poll()
            assert part.records["step"].tolist() == part.number.tolist()
            # Whole rounds that fit lose nothing: the newest of each round are there, up to the ring's size.
            assert part.number.tolist() == list(range(written - min(num, size), written))
            assert part.num_lost == max(num - size, 0)
            seen += part.number.tolist()
            num_lost += part.num_lost
        assert len(seen) + num_lost == written
        assert seen == sorted(set(seen))
    ring.close()


def test_a_full_ring_that_rests_is_read_whole(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, 8)
    put(ring, *range(11))
    part = RingReader(ring.path).poll()
    assert part.number.tolist() == list(range(3, 11))
    assert part.num_lost == 3


def test_a_reader_may_go_on_where_another_stopped(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    put(ring, 0, 1, 2, 3)
    assert RingReader(ring.path, start=2).poll().number.tolist() == [2, 3]


def poke(path: str, record: int, field: str, raw: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(abi.HEADER_BYTES + record * abi.RECORD_BYTES + abi.place(abi.RECORD, field).offset)
        file.write(raw)


@pytest.mark.parametrize("field", [each.name for each in abi.RECORD])
def test_a_record_with_one_byte_changed_is_lost_and_the_others_are_not(tmp_path: Path, field: str) -> None:
    ring = ring_in(tmp_path)
    put(ring, 0, 1, 2)
    poke(ring.path, 1, field, b"\x55")
    part = RingReader(ring.path).poll()
    assert part.number.tolist() == [0, 2]
    assert part.num_lost == 1


def test_a_record_that_is_being_written_waits_for_the_next_look(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    put(ring, 0, 1)
    poke(ring.path, 1, "seq", struct.pack("<Q", 3))
    with RingReader(ring.path) as reader:
        assert reader.poll().number.tolist() == [0]
        poke(ring.path, 1, "seq", struct.pack("<Q", 4))
        part = reader.poll()
        assert part.number.tolist() == [1]
        assert part.num_lost == 0


def test_a_record_whose_count_was_not_written_any_more_is_read(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    put(ring, 0, 1)
    ring._words[abi.place(abi.HEADER, "num_written").offset >> 3] = 1
    assert RingReader(ring.path).poll().number.tolist() == [0, 1]


def set_field(path: str, name: str, value: int) -> None:
    at = abi.place(abi.HEADER, name)
    with open(path, "r+b") as file:
        file.seek(at.offset)
        file.write(struct.pack("<" + at.kind, value))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("version", 2, "of version 2"),
        ("num_records", 0, "makes no sense"),
        ("num_records", 7, "makes no sense"),
        ("num_records", 1 << 31, "makes no sense"),
        ("num_records", 1 << 20, "is cut"),
        ("record_bytes", 0, "makes no sense"),
        ("record_bytes", 4096, "makes no sense"),
        ("header_bytes", 0, "makes no sense"),
        ("header_bytes", 0xFFFFFFFF, "makes no sense"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, name: str, value: int, says: str
) -> None:
    ring = ring_in(tmp_path)
    set_field(ring.path, name, value)
    with pytest.raises(InputError, match=says) as caught:
        RingReader(ring.path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 7, 100, abi.HEADER_BYTES - 1, abi.HEADER_BYTES, abi.HEADER_BYTES + 511])
def test_a_file_that_is_cut_is_refused(tmp_path: Path, size: int) -> None:
    ring = ring_in(tmp_path)
    raw = Path(ring.path).read_bytes()
    (tmp_path / "cut.ring").write_bytes(raw[:size])
    with pytest.raises(InputError, match=r"cut|not ready"):
        RingReader(str(tmp_path / "cut.ring"))


def test_a_file_that_is_cut_while_it_is_read_ends_neither_reader_nor_order(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, 1024)
    put(ring, *range(100))
    Path(tmp_path / "b.ring").write_bytes(Path(ring.path).read_bytes())
    with RingReader(str(tmp_path / "b.ring")) as reader:
        os.truncate(tmp_path / "b.ring", abi.HEADER_BYTES + 50 * abi.RECORD_BYTES)
        assert reader.poll().number.tolist() == list(range(50))
        os.truncate(tmp_path / "b.ring", 0)
        assert len(reader.poll().records) == 0
        assert reader.identity().rank in (None, 0)
        assert reader.names() == ()


def test_a_file_that_grows_is_read_as_far_as_its_header_says(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    with RingReader(ring.path) as reader:
        put(ring, 0)
        os.truncate(ring.path, 1 << 21)
        put(ring, 1)
        assert reader.poll().number.tolist() == [0, 1]


@pytest.mark.parametrize("count", [2**64 - 1, 2**62, 2**40, 0, 3, 801])
@pytest.mark.parametrize("num_records", [256, 1024])
def test_whatever_the_count_says_the_records_that_are_there_are_read(
    tmp_path: Path, count: int, num_records: int
) -> None:
    ring = ring_in(tmp_path, num_records)
    put(ring, *range(800))
    set_field(ring.path, "num_written", count)
    first = max(0, 800 - num_records)
    with RingReader(ring.path) as reader:
        part = reader.poll()
        assert part.number.tolist() == list(range(first, 800))
        assert (part.num_lost, part.num_damaged) == (first, 0)
        assert len(reader.poll().records) == 0
        put(ring, 800)
        set_field(ring.path, "num_written", 801)
        assert reader.poll().number.tolist() == [800]


def test_flipped_bytes_are_damage_and_what_the_writer_ran_over_is_none(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, 8)
    put(ring, *range(13))
    poke(ring.path, 10 % 8, "a", b"\x55")
    part = RingReader(ring.path).poll()
    assert part.number.tolist() == [5, 6, 7, 8, 9, 11, 12]
    assert (part.num_lost, part.num_damaged) == (6, 1)


def test_a_time_of_creation_that_is_no_time_is_not_told(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    for absurd in (2**63 - 1, -1, 0):
        at = abi.place(abi.HEADER, "created_real_ns").offset
        with open(ring.path, "r+b") as file:
            file.seek(at)
            file.write(struct.pack("<q", absurd))
        assert RingReader(ring.path).created_ns()[1] == Path(ring.path).stat().st_mtime_ns


@given(raw=st.binary(min_size=0, max_size=2048), at=st.integers(0, abi.HEADER_BYTES + 600))
@settings(max_examples=150, deadline=None)
def test_whatever_the_bytes_are_the_reader_refuses_or_reads(tmp_path_factory, raw, at):  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("hostile")
    ring = ring_in(folder, job="j")
    put(ring, *range(9))
    whole = bytearray(Path(ring.path).read_bytes())
    ring.close()
    whole[at : at + len(raw)] = raw
    (folder / "b.ring").write_bytes(whole)
    try:
        reader = RingReader(str(folder / "b.ring"))
    except InputError:
        return
    with reader:
        part = reader.poll()
        assert len(part.records) == len(part.number)
        assert (np.diff(part.number) > 0).all()
        assert (part.records["seq"] == 2 * part.number + 2).all()
        texts = [value for value in vars_of(reader) if isinstance(value, str)]
        assert all(text.isprintable() for text in (*texts, *reader.names()))


def vars_of(reader: RingReader) -> list[object]:
    found = reader.identity()
    return [getattr(found, name) for name in found.__slots__]


def test_a_text_of_the_header_carries_no_escape_and_no_secret(tmp_path: Path) -> None:
    ring = ring_in(
        tmp_path, job="\x1b[31mred\x07", task="https://u:hunter2@host/x", device_uuids="GPU-a,,GPU-b"
    )
    found = RingReader(ring.path).identity()
    assert found.job == "[31mred"
    assert "hunter2" not in str(found.task)
    assert found.device_uuids == ("GPU-a", "GPU-b")
    assert found.container is None
    assert found.rank == 0  # nothing was told: the bytes are zero


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ring")
    with pytest.raises(InputError, match="not a file"):
        RingReader(str(tmp_path / "pipe.ring"))
    with pytest.raises(OSError):
        RingReader(str(tmp_path / "none.ring"))


def test_the_writers_own_process_may_read_its_ring_and_still_lives_for_others(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    with RingReader(ring.path) as reader:
        assert reader.is_alive()
    open(ring.path).close()  # would drop a lock of the process
    ask = (
        "import sys; from stepscope.sources.ring import RingReader; print(RingReader(sys.argv[1]).is_alive())"
    )
    told = writer.run(ask, tmp_path, ring.path)
    assert told.stdout == "True\n", told.stderr
    ring.close()
    assert writer.run(ask, tmp_path, ring.path).stdout == "False\n"


# Two threads of a real process write as fast as they can, each record with a law of its own: c = a·step, and
# a counts up in each thread; small ring, so that it goes round while it is read.
STRESS = """
import os, sys, threading, time
from stepscope_sdk.ring import Ring
ring = Ring(sys.argv[1], {"rank": 0}, num_records=256, has_crc=sys.argv[2] == "1")
print("ready", flush=True)
until = time.monotonic() + float(sys.argv[3])
def work(thread):
    n = 0
    while time.monotonic() < until:
        for _ in range(200):
            ring.write(6, thread, n, n * 7, float(n), float(n * 7 * n))
            n += 1
        time.sleep(0)
workers = [threading.Thread(target=work, args=(n,)) for n in range(2)]
[each.start() for each in workers]
[each.join() for each in workers]
print(ring._words[8], flush=True)
"""


@pytest.mark.parametrize("has_crc", ["1", "0"])
def test_no_torn_record_is_ever_accepted_while_a_process_writes(tmp_path: Path, has_crc: str) -> None:
    path = str(tmp_path / "a.ring")
    process = writer.start(STRESS, tmp_path, path, has_crc, "1.5")
    num_read = num_lost = 0
    last = {0: -1, 1: -1}
    newest = -1
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with RingReader(path) as reader:
            while True:
                is_last = process.poll() is not None
                part = reader.poll()
                records = part.records
                assert (records["seq"] == 2 * part.number + 2).all()
                assert (records["a"] == records["step"] * 7).all()
                assert (records["b"] == records["step"]).all()
                assert (records["c"] == records["a"].astype(float) * records["step"]).all()
                if len(records):
                    assert part.number[0] > newest
                    assert (np.diff(part.number) > 0).all()
                    newest = int(part.number[-1])
                for thread in (0, 1):
                    steps = records["step"][records["flags"] == thread]
                    if len(steps):
                        assert steps[0] > last[thread]
                        assert (np.diff(steps) > 0).all()
                        last[thread] = int(steps[-1])
                num_read += len(records)
                num_lost += part.num_lost
                if is_last:
                    break
            written = int(process.stdout.readline())
            assert num_read + num_lost == written
            assert num_read > 1000
            assert not reader.is_alive()
    finally:
        process.kill()
        process.communicate()


def test_a_torn_record_would_be_noticed(tmp_path: Path) -> None:
    """The stress test can fail: a reader that trusts the sequence alone takes a changed payload."""
    ring = ring_in(tmp_path, has_crc=False)
    put(ring, 0)
    poke(ring.path, 0, "a", b"\x55")
    with RingReader(ring.path) as reader:
        assert reader.poll().records["a"].tolist() == [0x55]
    set_field(ring.path, "has_crc", 1)
    with RingReader(ring.path) as reader:
        assert len(reader.poll().records) == 0


def test_a_ring_without_its_name_is_read_on(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    with RingReader(ring.path) as reader:
        put(ring, 0)
        os.unlink(ring.path)
        put(ring, 1)
        assert reader.poll().number.tolist() == [0, 1]
        assert reader.is_removed()
        assert reader.is_alive()


def test_threads_may_read_one_ring_each_for_itself(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, 1024)
    put(ring, *range(500))
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(RingReader(ring.path).poll().records)))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [500] * 4


def test_the_records_dtype_is_the_tables(tmp_path: Path) -> None:
    assert RECORD.itemsize == abi.RECORD_BYTES
    assert [RECORD.fields[f.name][1] for f in abi.RECORD] == [f.offset for f in abi.RECORD]  # type: ignore[index]


NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--mount-proc")


def test_a_ring_is_told_dead_or_alive_over_namespaces_of_processes(tmp_path: Path) -> None:
    if subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine gives no new namespaces")
    script = (
        "import stepscope_sdk, os, sys; stepscope_sdk.monitor()\n"
        "print(os.getpid(), flush=True); sys.stdin.readline()"
    )
    process = writer.start(script, tmp_path, wrap=NAMESPACES, python=sys.executable)
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        assert int(process.stdout.readline()) < 10  # a number of its own namespace
        (path,) = writer.rings(tmp_path)
        with RingReader(str(path)) as reader:
            assert reader.is_alive()
            process.stdin.write("\n")
            process.stdin.flush()
            writer.wait_for(lambda: not reader.is_alive())
    finally:
        process.kill()
        process.communicate()
