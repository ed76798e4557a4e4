"""The short form of `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.agent.soak import check, soak


def test_a_quarter_of_an_hour_leaves_memory_flat_and_every_batch_kept_or_waiting(tmp_path: Path) -> None:
    found = soak(0.25, tmp_path)
    check(found)
    assert found.num_dropped == 0
    assert found.num_kept + found.num_left == 900
    assert found.bytes_per_sample < 25
