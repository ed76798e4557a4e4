"""The writer: its room, its lock, its names."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sources.ring import RingReader
from stepscope_sdk import ring as rings
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import Ring, hold, is_held


def test_where_room_cannot_be_reserved_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(rings.os, "posix_fallocate", refuse)
    ring = Ring(str(tmp_path / "a.ring"), {}, num_records=128)
    at = os.stat(ring.path)
    assert at.st_size == abi.HEADER_BYTES + 128 * abi.RECORD_BYTES
    assert at.st_blocks * 512 >= at.st_size
    ring.write(6, 0, 1)
    assert RingReader(ring.path).poll().records["step"].tolist() == [1]
    ring.close()


def test_a_disk_without_room_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(rings.os, "posix_fallocate", full)
    with pytest.raises(OSError, match="full"):
        Ring(str(tmp_path / "a.ring"), {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("has_other_locks", [True, False])
def test_a_file_is_held_until_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_other_locks: bool
) -> None:
    if not has_other_locks:
        monkeypatch.delattr(rings.fcntl, "F_OFD_SETLK")
    (tmp_path / "a").touch()
    file, other = (os.open(tmp_path / "a", os.O_RDWR) for _ in range(2))
    assert not is_held(other)
    hold(file)
    # A lock of the process is not seen by itself; that of an open file is.
    assert is_held(other) == has_other_locks
    if has_other_locks:
        with pytest.raises(BlockingIOError):
            hold(other)
    os.close(file)
    assert not is_held(other)
    os.close(other)


def test_a_closed_ring_raises_and_stays_as_it_was(tmp_path: Path) -> None:
    ring = Ring(str(tmp_path / "a.ring"), {}, num_records=8)
    ring.write(6, 0, 1)
    before = Path(ring.path).read_bytes()
    ring.close()
    ring.close()
    with pytest.raises(ValueError):
        ring.write(6, 0, 2)
    assert Path(ring.path).read_bytes() == before


@given(text=st.text(max_size=300), size=st.sampled_from([8, 64, 128]))
def test_a_text_fits_and_is_not_cut_within_a_character(text: str, size: int) -> None:
    raw = rings._cut(text, size)
    assert len(raw) == size
    assert raw[-1] == 0
    found = raw.split(b"\0", 1)[0].decode("utf-8")  # would raise within a character
    if len(text.encode("utf-8", "replace")) < size:
        assert found == text.encode("utf-8", "replace").decode().replace("\0", " ")


@pytest.mark.parametrize("num", [0, 1, 3, 100])
def test_a_number_of_records_is_a_power_of_two(tmp_path: Path, num: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Ring(str(tmp_path / "a.ring"), {}, num_records=num)
