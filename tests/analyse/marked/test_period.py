"""A pause at a period, in no phase: the period is the finding, not what the time of the pause looks like."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analyse.marked.made import job, judged, named


def lines(plain: str, pause: str, seed: int, num: int = 120, share: float = 0.1) -> list[str]:
    """Steps of which every twentieth ends in the pause, the third a step late, and some in 55 ms of host
    time."""
    random = np.random.default_rng(seed)
    at = {19, 39, 60, 79, 99, 119}
    result = []
    for n in range(num):
        more = 55 * random.lognormal(0, 0.5) if random.random() < share else 0.0
        result.append(f"{plain} _{1 + more:.2f}" + (f" {pause}" if n in at else ""))
    return result


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("plain", ["d1 _1 f8 b8 o3", "d1 | _1 f8 b8 o3", "d1 _4 f8 b8 o3"])
def test_an_unmarked_pause_every_twentieth_step_is_the_first_finding(
    plain: str, share: float, num_ranks: int
) -> None:
    told = judged(job([lines(plain, "_1000", 3 + rank, share=share) for rank in range(num_ranks)]))
    assert named(told)[0][0] == "periodic-stall"
    assert "at regular intervals" in told.verdict.text
    assert told.accounting[0].variation is not None
    assert told.accounting[0].variation.period_steps == 20


@pytest.mark.parametrize(
    ("pause", "rule"),
    [("c1000", "checkpoint-stall"), ("e1000", "eval-stall"), ("l1000", "logging-stall")],
)
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_marked_pause_is_what_it_is_marked_as(pause: str, rule: str, num_ranks: int) -> None:
    told = judged(job([lines("d1 _1 f8 b8 o3", pause, 3 + rank) for rank in range(num_ranks)]))
    assert named(told)[0][0] == rule
    assert "periodic-stall" not in [name for name, _ in named(told)]


def test_host_work_of_every_step_beside_the_pauses_keeps_its_own_finding() -> None:
    told = judged(job([lines("d1 _1 f8 b8 o3 _12", "_1000", 3, share=0.0)]))
    assert [name for name, _ in named(told)] == ["periodic-stall", "python-stall"]
    shares = [each.cost.share for each in told.findings if each.cost is not None]
    assert sum(shares) < 1.0
