"""Captures that the agent asks for keep to the budget of each job, and what is refused is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscope.act.capture import Budget, Outcome, RankOutcome
from stepscope.act.capture import capture as real_capture
from stepscope.agent.capture import Captures
from stepscope.cli import main
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import Ring

S = 1_000_000_000


class Asked:
    """Captures that a made-up job makes: 3 steps of 2 s on one rank, 5000 bytes, 0.1 s held up."""

    def __init__(self, folder: Path, budget: Budget) -> None:
        self.told: list[tuple[str, str]] = []
        self.now_ns = 0
        self.ring = str(folder / "rank0.ring")
        ring = Ring(self.ring, {"rank": 0}, num_records=64)
        for step in range(10):
            for kind, at in (("step_begin", 2 * step), ("step_end", 2 * step + 2)):
                ring.write(abi.kind_number(kind), 0, step, at=(at * S, at * S))
        self.captures = Captures(
            3, budget, lambda *what: self.told.append(what), wall_ns=lambda: self.now_ns, ask=self.ask
        )

    def ask(self, rings: list[str], request: Any, **options: Any) -> Outcome:
        options |= {"should_stop": lambda: True}
        try:
            real_capture([], request, **options)  # whether the budget allows it
        except Exception as error:
            if "no rank to capture" not in str(error):
                raise
        rank = RankOutcome(self.ring, 0, "done", S // 10, 5000)
        return Outcome(True, None, 1, 4, request.num_steps, 1, (rank,))

    def what(self, times: int, job: str = "llm") -> list[str]:
        self.told.clear()
        for _ in range(times):
            self.captures.now((job, "r1"), [self.ring], lambda: False)
        return [what for what, _ in self.told]


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(captures_per_hour=2), "2 captures in the last hour, the budget is 2"),
        (Budget(bytes=9000), "10000 bytes of traces in the last hour, the budget is 9000"),
        (Budget(seconds=11), "12 seconds of captured steps in the last hour, the budget is 11"),
        (Budget(overhead_ratio=0.00005), "5.55556e-05 of the time held up in the last hour"),
    ],
)
def test_what_goes_beyond_the_budget_of_an_hour_is_refused_and_said(
    tmp_path: Path, budget: Budget, why: str
) -> None:
    asked = Asked(tmp_path, budget)
    assert asked.what(3) == ["capture", "capture", "capture_refused"]
    assert asked.told[2][1].startswith(f"job llm: no capture: {why}")
    assert asked.what(1, "another") == ["capture"]  # its own budget
    asked.now_ns = 3601 * S
    assert asked.what(1) == ["capture"]


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1:2:3:4", "nan", "1:inf", ""])
def test_a_budget_that_is_none_is_a_usage_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--once", "--capture", "3", "--capture-budget", text]) == 2
    assert f"--capture-budget {text}: no budget" in capsys.readouterr().err
