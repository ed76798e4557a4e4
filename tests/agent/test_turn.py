"""A sending thread outlives what its steps raise, and what remote write had taken is not lost by it."""

from __future__ import annotations

import threading

from stepscope.agent.turn import Turns
from stepscope.model import mark
from stepscope_sdk import ring_abi


def test_a_step_that_raises_is_told_and_followed_by_the_next():
    told: list[str] = []
    went_on = threading.Event()

    def step() -> float:
        if not told:
            raise ZeroDivisionError("planted")
        went_on.set()
        return 60.0

    def failed(error: Exception) -> float:
        told.append(str(error))
        return 0.0

    turns = Turns("test", step, failed, lambda: None)
    turns.start()
    assert went_on.wait(20)
    turns.stop(5)
    assert told == ["planted"]


def test_a_turn_that_never_began_can_be_stopped():
    cut: list[bool] = []
    Turns("test", lambda: 0.0, lambda _: 0.0, lambda: cut.append(True)).stop(0.1)
    assert cut == [True]


def test_phases_are_those_of_the_ring():
    assert mark.PHASES == ring_abi.PHASES
