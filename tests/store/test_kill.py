"""Kills at planted points and at random moments; `python -m tests.store.soak 200` does many more."""

from __future__ import annotations

import random
from pathlib import Path

from tests.store.soak import POINTS, check, killed


def test_nothing_is_lost_nor_counted_twice_over_ten_kills(tmp_path: Path) -> None:
    chance, kept = random.Random(7), 0
    for place, point in enumerate(POINTS):
        last = killed(tmp_path, max(kept - 1, 1), point=point, count=1 + place % 3)
        kept = check(tmp_path, last)
    for _ in range(10 - len(POINTS)):
        last = killed(tmp_path, max(kept - 1, 1), after_s=chance.uniform(0.0, 0.4))
        kept = check(tmp_path, last)
    assert kept > 20
