"""Rings that turn over are kept whole."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.run.keep import Keeper
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import Ring

STEP_END = abi.kind_number("step_end")


@pytest.fixture
def folders(tmp_path):
    for name in ("live", "kept"):
        (tmp_path / name).mkdir()
    return tmp_path / "live", tmp_path / "kept"


def ring_of(live, num_records=16):
    """A ring that turns over soon."""
    return Ring(str(live / "rank3.ring"), {"rank": 3, "world_size": 4}, num_records=num_records)


def test_what_a_ring_forgets_is_kept_where_it_was_looked_at_often_enough(folders):
    live, kept = folders
    ring, keeper = ring_of(live), Keeper(live, kept)
    for step in range(100):
        ring.write(STEP_END, 0, step)
        if step % 10 == 9:
            keeper.poll()
    keeper.close()
    part = RingReader(str(kept / "rank3.ring")).poll()
    assert part.records["step"].tolist() == list(range(100))
    assert (part.num_lost, keeper.num_steps, keeper.ranks) == (0, 100, [3])


def test_what_was_lost_between_two_looks_is_told_as_lost_and_not_made_up(folders):
    live, kept = folders
    ring, keeper = ring_of(live), Keeper(live, kept)
    ring.write(STEP_END, 0, 0)
    keeper.poll()
    for step in range(1, 40):
        ring.write(STEP_END, 0, step)
    keeper.close()
    part = RingReader(str(kept / "rank3.ring")).poll()
    assert part.records["step"].tolist()[-16:] == list(range(24, 40))
    assert np.all(np.diff(part.number) > 0)


def test_of_a_run_that_is_too_long_the_newest_stays(folders):
    live, kept = folders
    ring, keeper = ring_of(live), Keeper(live, kept, most_records=32)
    for step in range(100):
        ring.write(STEP_END, 0, step)
        keeper.poll()
    keeper.close()
    assert RingReader(str(kept / "rank3.ring")).poll().records["step"].tolist() == list(range(68, 100))


def test_what_is_kept_so_far_can_be_read_while_more_is_kept(folders):
    live, kept = folders
    ring, keeper = ring_of(live), Keeper(live, kept)
    for step in range(5):
        ring.write(STEP_END, 0, step)
    keeper.poll()
    keeper.flush()
    assert len(RingReader(str(kept / "rank3.ring")).poll().records) == 5
    ring.write(STEP_END, 0, 5)
    keeper.close()
    assert len(RingReader(str(kept / "rank3.ring")).poll().records) == 6


def test_a_file_that_is_no_ring_yet_is_left_for_the_next_look(folders):
    live, kept = folders
    (live / "new.ring").write_bytes(b"")
    keeper = Keeper(live, kept)
    keeper.poll()
    keeper.close()
    assert [*kept.iterdir()] == []
