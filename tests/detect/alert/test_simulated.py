"""A simulated job, the agent's own sources and the watch: faults are told soon, on whom, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.detect.alert.loop import of
from tests.detect.alert.node import Node

SHAPE = {"ranks": 2, "layers": 1, "step_ms": 500.0, "seed": 21}
LEARN_S = 65.0


@pytest.mark.parametrize(
    ("fault", "condition", "ranks", "within_s"),
    [
        ("loader-stall#1:medium", "data-wait-up", (1,), 8.0),
        ("thermal-throttle#0", "clock-thermal", (0,), 20.0),
    ],
)
def test_a_fault_that_is_switched_on_is_told_within_seconds_with_its_rank(
    tmp_path: Path, fault: str, condition: str, ranks: tuple[int, ...], within_s: float
) -> None:
    node = Node(tmp_path / "run", **SHAPE)
    try:
        assert node.run(LEARN_S) == []
        since = node.job.seconds
        node.job.service.switch(f"{fault} on")
        told = node.run(within_s)
    finally:
        node.close()
    (alarm,) = [each for each in of(told).values() if each.condition == condition]
    assert (alarm.about.ranks, alarm.inhibited_by, alarm.pages) == (ranks, None, True)
    assert {each.inhibited_by for each in of(told).values()} == {None, alarm.id}
    assert min(at for at, _ in told) - since <= 8.0  # the first of them: the slower step at the latest


def test_a_healthy_job_with_its_events_and_a_marked_evaluation_is_told_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path / "run", events=True, period=40, **SHAPE)
    try:
        assert node.run(150.0) == []
        assert node.watch.learning() == ()
        node.job.service.event("exporter-restart")
        node.job.service.switch("eval:10 on")
        assert node.run(60.0) == []
    finally:
        node.close()


def test_evaluations_that_take_a_third_of_the_time_are_told_and_end_when_they_do(tmp_path: Path) -> None:
    node = Node(tmp_path / "run", **SHAPE)
    try:
        assert node.run(LEARN_S) == []
        node.job.service.switch("eval:10 on")
        told = node.run(30.0)
        (alarm,) = of(told).values()
        assert (alarm.condition, alarm.pages, alarm.end_ns) == ("pauses-high", True, None)
        node.job.service.switch("all off")
        ((_, ended),) = node.run(75.0)
        assert ended.id == alarm.id
        assert ended.end_ns is not None
    finally:
        node.close()
