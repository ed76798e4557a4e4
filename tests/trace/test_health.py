"""What the health check compares an activity with."""

from __future__ import annotations

import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.trace.health import _usual_ns


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=25))
def test_the_usual_duration_is_the_median_of_the_others_of_its_name(
    activities: list[tuple[int, int]],
) -> None:
    name = np.array([n for n, _ in activities], dtype=np.int32)
    duration = np.array([d for _, d in activities], dtype=np.int64)
    for i, usual in enumerate(_usual_ns(name, duration).tolist()):
        others = [d for j, (n, d) in enumerate(activities) if n == activities[i][0] and j != i]
        assert np.isnan(usual) if not others else usual == statistics.median(others)
