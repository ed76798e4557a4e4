"""Simulated time against real time, turned by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.simulate.config import START_NS
from stepscope.simulate.serve import Pace, Turn
from stepscope.simulate.serve.live import BEGIN_NS
from tests.simulate.live import CLOCKS, KIND, Job

SECOND = 1_000_000_000


class Hand:
    """A clock that goes when it is waited for, and sleeps when it is told to."""

    def __init__(self, stops_after: float) -> None:
        self.now_ns = 7 * SECOND
        self.stops_ns = self.now_ns + round(stops_after * SECOND)
        self.naps: dict[int, float] = {}
        """Of real seconds, after so many waits."""
        self.waits: list[float] = []

    def now(self) -> int:
        return self.now_ns

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now_ns += round(SECOND * (seconds + self.naps.get(len(self.waits), 0.0)))
        return self.now_ns >= self.stops_ns


def test_simulated_time_goes_so_many_times_as_fast(tmp_path: Path) -> None:
    job, hand = Job(tmp_path / "run", layers=1), Hand(stops_after=3)
    Turn(job.service, Pace(5.0, hand.now), hand.wait).run()
    assert job.service.now_ns - BEGIN_NS == pytest.approx(15 * SECOND, abs=1.5 * SECOND)
    assert len(hand.waits) <= 3 / 0.02 + 1
    begun, last = job.said(0, "start")[0], job.said(0, "exit")[0]
    assert begun["real_ns"] == CLOCKS.real_ns
    assert int(last["mono_ns"]) - CLOCKS.mono_ns == job.service.now_ns - BEGIN_NS
    assert int(last["real_ns"]) - CLOCKS.real_ns == job.service.now_ns - BEGIN_NS


def test_a_job_ends_by_itself_at_its_last_simulated_moment(tmp_path: Path) -> None:
    job, hand = Job(tmp_path / "run", layers=1), Hand(stops_after=1e6)
    Turn(job.service, Pace(2.0, hand.now), hand.wait, lasts_s=9.0).run()
    assert job.service.now_ns == BEGIN_NS + 9 * SECOND
    assert [KIND[int(each["kind"])] for each in job.records(1)][-1] == "exit"
    assert "Training completed after 13 steps" in (tmp_path / "run/logs/train.log").read_text()
    job.service.tick(BEGIN_NS + 20 * SECOND)  # and nothing comes behind
    assert [KIND[int(each["kind"])] for each in job.records(1)][-1] == "exit"


def test_a_machine_that_slept_had_its_job_sleep_at_scale_1(tmp_path: Path) -> None:
    job, hand = Job(tmp_path / "run", layers=1), Hand(stops_after=40)
    hand.naps[60] = 20.0
    turn = Turn(job.service, Pace(1.0, hand.now), hand.wait)
    turn.run()
    assert turn.lost_s == pytest.approx(20, abs=0.5)
    steps = job.step_seconds(0)
    assert max(steps.values()) == pytest.approx(20, abs=0.7)
    assert sum(took > 1 for took in steps.values()) == 1
    assert job.service.now_ns - BEGIN_NS == pytest.approx(40 * SECOND, abs=0.5 * SECOND)


def test_a_machine_that_is_too_slow_for_a_scale_goes_on_from_where_it_was(tmp_path: Path) -> None:
    job, hand = Job(tmp_path / "run", layers=1), Hand(stops_after=24)
    hand.naps[60] = 20.0
    turn = Turn(job.service, Pace(3.0, hand.now), hand.wait)
    turn.run()
    assert turn.lost_s == pytest.approx(20, abs=0.5)
    assert max(job.step_seconds(0).values()) < 0.5
    assert (job.service.now_ns - START_NS) / SECOND == pytest.approx(3 * 4 - 5, abs=1.5)
