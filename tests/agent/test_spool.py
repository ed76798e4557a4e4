"""The spool: numbers, bounds, what a kill, a full disk and a lost position leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.agent.number import RESERVE, SKIP
from stepscope.agent.position import NAME, Position, read_position, write_position
from stepscope.agent.shipment import Shipment
from stepscope.agent.spool import Spool
from stepscope.model.batch import Batch, Happened
from stepscope.model.error import RefusedError
from stepscope.sources.formats.frame import batch_of, frames_of, header_of
from stepscope.sources.formats.spool import batches_of, open_spool
from tests.agent.made import event, samples, series

SRC = Path(__file__).parents[2] / "src"


def _spool(folder: Path, **options: object) -> Spool:
    return Spool(folder, is_threaded=False, **options)  # type: ignore[arg-type]


def _batches(shipment: Shipment | None) -> list[Batch]:
    assert shipment is not None
    header = header_of(shipment.body, "body")
    return [batch_of(frame, header, "body") for frame in frames_of(shipment.body, header, [])]


def _texts(batches: list[Batch]) -> list[str]:
    return [each.text for each in batches if isinstance(each, Happened)]


def _on_disk(folder: Path) -> list[str]:
    return _texts(list(batches_of(open_spool(str(folder)))))


def _killed(spool: Spool) -> None:
    """As a kill leaves it: no farewell, the lock gone with the process."""
    assert spool._numbers._lock is not None
    os.close(spool._numbers._lock)
    spool._numbers._lock = None
    spool._segments._file = None


def test_batches_are_numbered_from_one_and_come_back_in_order(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    assert [spool.append(event(f"e{n}")) for n in range(5)] == [1, 2, 3, 4, 5]
    shipment = spool.pending()
    assert shipment is not None
    assert (shipment.first_seq, shipment.last_seq, shipment.num_frames) == (1, 5, 5)
    batches = _batches(shipment)
    assert _texts(batches) == ["e0", "e1", "e2", "e3", "e4"]
    assert [(each.agent, each.seq) for each in batches] == [(spool.agent, n) for n in range(1, 6)]
    spool.close()


def test_what_is_acknowledged_is_not_shipped_again_and_a_lie_is_not_believed(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    for n in range(5):
        spool.append(event(f"e{n}"))
    assert not spool.acknowledge(6)
    assert spool.acknowledge(3)
    assert not spool.acknowledge(3)
    assert not spool.acknowledge(2)
    assert _texts(_batches(spool.pending())) == ["e3", "e4"]
    assert spool.acknowledge(5)
    assert spool.pending() is None
    spool.close()
    spool = _spool(tmp_path)
    assert spool.pending() is None
    assert spool.append(event("next")) == 6
    spool.close()


def test_a_body_is_bounded_but_holds_one_batch_in_any_case(tmp_path: Path) -> None:
    spool = _spool(tmp_path, segment_bytes=2000)
    for n in range(100):
        spool.append(event(f"e{n}"))
    got = []
    while (shipment := spool.pending(500)) is not None:
        assert len(shipment.body) < 800
        got += _texts(_batches(shipment))
        spool.acknowledge(shipment.last_seq)
    assert got == [f"e{n}" for n in range(100)]
    one = spool.append(event("x" * 100))
    shipment = spool.pending(1)
    assert shipment is not None
    assert (shipment.first_seq, shipment.num_frames) == (one, 1)
    spool.close()


def test_after_a_kill_numbers_go_on_above_all_that_can_have_been_used(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    for n in range(3):
        spool.append(event(f"e{n}"))
    _killed(spool)
    again = _spool(tmp_path)
    assert again.agent == spool.agent
    assert again.append(event("after")) == RESERVE + 1
    assert _texts(_batches(again.pending())) == ["e0", "e1", "e2", "after"]
    again.close()
    third = _spool(tmp_path)
    assert third.append(event("in order")) == RESERVE + 2
    third.close()


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_last_batch_that_was_cut_is_taken_off_and_told(tmp_path: Path, cut: int) -> None:
    spool = _spool(tmp_path)
    for n in range(3):
        spool.append(event(f"e{n}"))
    _killed(spool)
    (segment,) = tmp_path.glob("*.spool")
    os.truncate(segment, segment.stat().st_size - cut)
    again = _spool(tmp_path)
    assert again.state().num_damaged == 1
    again.append(event("after"))
    e0, e1, told, after = _texts(_batches(again.pending()))
    assert [e0, e1, after] == ["e0", "e1", "after"]
    assert "ends in the middle of a batch, as after a kill" in told
    again.close()
    assert _on_disk(tmp_path) == [e0, e1, told, after]


def test_a_position_that_is_lost_makes_numbers_skip_and_never_repeat(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    for n in range(3):
        spool.append(event(f"e{n}"))
    spool.acknowledge(2)
    _killed(spool)
    (tmp_path / NAME).write_bytes(b"\xff" * 1024)
    again = _spool(tmp_path)
    assert again.agent == spool.agent
    assert again.append(event("after")) == 3 + SKIP + 1
    assert _texts(_batches(again.pending())) == ["e0", "e1", "e2", "after"]
    again.close()


def test_a_position_survives_a_write_that_was_torn(tmp_path: Path) -> None:
    first = write_position(tmp_path, Position("a", 5, 100))
    second = write_position(tmp_path, Position("a", 9, 100, first.turn))
    assert read_position(tmp_path) == second
    data = bytearray((tmp_path / NAME).read_bytes())
    place = second.turn % 2 * 512
    data[place + 20 : place + 512] = b"\0" * 492
    (tmp_path / NAME).write_bytes(bytes(data))
    assert read_position(tmp_path) == first


def test_the_disk_is_bounded_and_what_was_given_up_is_told(tmp_path: Path) -> None:
    spool = _spool(tmp_path, max_bytes=40_000, segment_bytes=4_000)
    for n in range(1000):
        spool.append(event(f"e{n}"))
        assert sum(each.stat().st_size for each in tmp_path.glob("*.spool")) <= 40_000
    dropped = spool.state().num_dropped
    assert 500 < dropped < 900
    gaps = [
        each for each in batches_of(open_spool(str(tmp_path))) if getattr(each, "what", "") == "spool_gap"
    ]
    texts = [text for text in _on_disk(tmp_path) if text.startswith("e")]
    assert texts[-1] == "e999"
    assert texts == [f"e{n}" for n in range(1000 - len(texts), 1000)]
    assert gaps
    assert all(isinstance(gap, Happened) and "no room: batches" in gap.text for gap in gaps)
    # Every number of the past is accounted for: on the disk, or given up.
    assert spool.state().last_seq == dropped + len(list(batches_of(open_spool(str(tmp_path)))))
    spool.close()


def test_what_was_shipped_goes_first_and_is_no_loss(tmp_path: Path) -> None:
    spool = _spool(tmp_path, max_bytes=40_000, segment_bytes=4_000)
    for n in range(1000):
        spool.acknowledge(spool.append(event(f"e{n}")))
    assert spool.state().num_dropped == 0
    assert spool.state().num_bytes <= 40_000
    assert len(_on_disk(tmp_path)) > 100  # the recent past stays, for who reads it here
    spool.close()


def test_a_spool_has_one_writer(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    with pytest.raises(RefusedError, match="another agent writes this spool"):
        _spool(tmp_path)
    spool.close()
    _spool(tmp_path).close()


def test_numbers_that_may_be_in_use_do_not_leave_until_the_disk_vouches_for_them(tmp_path: Path) -> None:
    now_s = [0.0]
    spool = _spool(tmp_path / "spool")
    spool.append(event("before"))
    _killed(spool)
    (tmp_path / "spool").rename(tmp_path / "elsewhere")
    (tmp_path / "spool").write_text("a file stands where the folder should be")
    again = _spool(tmp_path / "spool", monotonic_s=lambda: now_s[0])
    again.append(event("held"))
    assert again.state().why == "not a directory"
    assert again.pending() is None
    (tmp_path / "spool").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "spool")
    now_s[0] = 6.0
    again.append(event("after"))
    batches = _batches(again.pending())
    assert {each.agent for each in batches} == {spool.agent}
    assert batches[1].seq == RESERVE + 1
    texts = _texts(batches)
    assert [texts[0], texts[2], texts[3]] == ["before", "held", "after"]
    again.close()


_LIMITED = """
import sys
from resource import RLIM_INFINITY, RLIMIT_FSIZE, setrlimit
from stepscope.agent.spool import Spool
from stepscope.model.batch import Happened
from stepscope.sources.formats.frame import batch_of, frames_of, header_of
now_s = [0.0]
def make(**options):
    return Spool(sys.argv[1], is_threaded=False, monotonic_s=lambda: now_s[0], **options)
def put(first, last):
    for n in range(first, last):
        spool.append(Happened("", 0, "n1", n, "test", f"e{n}"))
def limit(size):  # of a file: as a full disk, it takes part of a write and then no more
    setrlimit(RLIMIT_FSIZE, (size, RLIM_INFINITY))
def show():
    state = spool.state()
    print(state.why, state.num_held, state.num_dropped, sep="|")
"""


def _run(script: str, folder: Path) -> list[list[str]]:
    line = [sys.executable, "-c", _LIMITED + script, str(folder)]
    found = subprocess.run(line, env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    return [row.split("|") for row in found.stdout.splitlines()]


def test_a_disk_that_takes_no_more_loses_nothing_that_memory_can_hold(tmp_path: Path) -> None:
    script = """
spool = make(); put(0, 10); limit(2500); put(10, 60); show()
limit(RLIM_INFINITY); now_s[0] = 60.0; put(60, 70); show()
spool.close()
"""
    full, after = _run(script, tmp_path)
    assert (full[0], full[2]) == ("file too large", "0")
    assert int(full[1]) > 20
    assert after == ["None", "0", "0"]
    texts = _on_disk(tmp_path)
    assert [text for text in texts if text.startswith("e")] == [f"e{n}" for n in range(70)]
    assert any("file too large: batches are kept in memory" in text for text in texts)
    assert any("the disk takes batches again" in text for text in texts)
    content = open_spool(str(tmp_path))
    assert len(list(batches_of(content))) == 72
    assert content.faults == []


def test_a_disk_full_from_the_start_keeps_the_newest_in_memory_and_ships_from_there(tmp_path: Path) -> None:
    script = """
limit(0)
spool = make(memory_bytes=2000); put(0, 50); show()
shipment = spool.pending()
header = header_of(shipment.body, "body")
texts = [batch_of(each, header, "body").text for each in frames_of(shipment.body, header, [])]
print(*texts, sep="|")
spool.acknowledge(shipment.last_seq - 2)
limit(RLIM_INFINITY); now_s[0] = 6.0; put(50, 52); show()
spool.close()
"""
    full, shipped, after = _run(script, tmp_path)
    assert full[0] == "file too large"
    assert 5 < int(full[1]) < 25
    assert int(full[1]) + int(full[2]) == 51
    assert shipped[-1] == "e49"
    assert len(shipped) == int(full[1])
    assert after == ["None", "0", full[2]]
    texts = _on_disk(tmp_path)
    assert texts[:3] == ["e48", "e49", "e50"]
    assert texts[-1] == "e51"
    assert any("the disk takes batches again" in text for text in texts)
    assert any(f" {full[2]} were given up" in text for text in texts)


def test_a_batch_too_large_for_a_frame_is_told_and_the_next_one_goes_in(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    import random

    chance = random.Random(1)
    large = samples(series("power_watts", [chance.random() for _ in range(1_000_000)]))
    spool.append(large)
    assert spool.append(event("next")) == 2
    first, second = _texts(_batches(spool.pending()))
    assert "a batch could not be written" in first
    assert second == "next"
    spool.close()


def test_a_segment_that_is_taken_away_is_told_and_the_rest_is_shipped(tmp_path: Path) -> None:
    spool = _spool(tmp_path, segment_bytes=1000, max_bytes=1 << 20)
    for n in range(30):
        spool.append(event(f"e{n}"))
    sorted(tmp_path.glob("*.spool"))[1].unlink()
    shipment = spool.pending()
    assert shipment is not None
    texts = _texts(_batches(shipment))
    assert texts[-1] == "e29"
    assert 10 < len(texts) < 30
    assert spool.state().num_damaged == 1
    spool.close()


def test_samples_of_eight_devices_cost_under_25_bytes_each_on_the_disk(tmp_path: Path) -> None:
    from tests.agent.made import node_second

    spool = _spool(tmp_path)
    for second in range(30):
        spool.append(node_second(second))
    assert spool.state().num_bytes / (30 * 320) < 25
    spool.close()


def test_the_thread_brings_to_the_disk_what_was_appended(tmp_path: Path) -> None:
    import time

    spool = Spool(tmp_path, sync_every_s=0.01)
    spool.append(event("e"))
    until = time.monotonic() + 60
    while spool._is_dirty:
        assert time.monotonic() < until
        time.sleep(0.005)
    spool.close()
