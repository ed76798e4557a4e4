"""Whether the counters of traced steps are still on their way."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.model.mark import Identity, Phases, RankMarks, Steps
from stepscope.model.sample import Owner, Series, Telemetry
from stepscope.offline.stored import Window
from stepscope.server.judge.look import is_short

S = 1_000_000_000
END_NS = 1_750_000_000 * S


def window(*sources: tuple[int, float]) -> Window:
    """Steps of which the last two were traced, until `END_NS`; sources by period and how far back each ended
    (seconds)."""
    end = END_NS - S * np.arange(9, -1, -1)
    off, number = np.zeros(10, dtype=np.bool_), np.full(10, np.nan)
    none = np.empty(0, dtype=np.int64)
    steps = Steps(np.arange(10), end - S, end, number, number, number, off, np.arange(10) > 7, off)
    phases = Phases(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32), none, none, none, off[:0])
    parts = tuple(_source(n, period, back) for n, (period, back) in enumerate(sources))
    return Window("j", "r", 0, END_NS, parts, (RankMarks(Identity(rank=0), steps, phases),))


def _source(n: int, period: int, back: float) -> Telemetry:
    at_ns = END_NS - int(back * S) - period * S * np.arange(20, -1, -1)
    return Telemetry(f"{n}", "spool", (Series("power_watts", Owner(index=n), at_ns, np.ones(21)),), "sample")


@pytest.mark.parametrize(
    ("sources", "is_waited"),
    [
        (((1, 1.0),), False),
        (((1, 5.0),), True),
        (((10, 9.0), (1, 1.0)), False),
        (((10, 16.0),), True),
        (((1, 61.0), (1, 0.0)), False),
        ((), False),
    ],
    ids=["here", "late", "slow-source", "slow-and-late", "silent", "none"],
)
def test_counters_are_waited_for_by_the_pace_of_their_own_source(
    sources: tuple[tuple[int, float], ...], is_waited: bool
) -> None:
    assert is_short(window(*sources)) is is_waited
