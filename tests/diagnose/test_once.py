"""One step that holds most of a finding's time says little of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.model import report
from tests.analyse.build import Build

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def diagnosed(waits: list[int], where: Path, lang: str = "en") -> report.Report:
    """Steps of 100 µs of work after a wait for the loader, in microseconds, each."""
    build, at = Build(), 0
    for number, wait in enumerate(waits, 1):
        end = at + wait + 100
        build = build.step(number, at, end)
        if wait:
            build = build.note(LOADER, at, at + wait)
        build = build.op("aten::mm", at + wait, at + wait + 4)
        build = build.kernel("gemm", at + wait + 2, end, launched=(at + wait + 1, at + wait + 2))
        at = end
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file, lang=lang)


@pytest.mark.parametrize("place", [0, 5, 9])
def test_a_wait_in_one_step_of_ten_is_told_as_that_and_promises_nothing(place: int, tmp_path: Path) -> None:
    """800 µs of wait in one step, 1,000 µs of work: 800 / 1,800 = 44 %, and nine steps have none of it."""
    waits = [800 if i == place else 0 for i in range(10)]
    made = diagnosed(waits, tmp_path)
    found = made.findings[0]
    assert found.rule == "input-starvation"
    assert found.cost is not None
    assert found.cost.share == pytest.approx(800 / 1800, abs=0.01)
    assert found.severity == "warning"
    assert f"most of it in step {place + 1} alone" in made.verdict.text
    assert all(remedy.gain_share is None for remedy in found.remedies)
    assert any(f"in step {place + 1} alone" in note for note in made.cards[0].notes)
    assert f"第 {place + 1} 步" in diagnosed(waits, tmp_path, "zh").verdict.text


@pytest.mark.parametrize("waits", [[80] * 10, [0, 80] * 5, [200, 0, 200, 0, 200, 0], [800, 0]])
def test_a_wait_in_several_steps_or_in_one_of_two_is_the_job_s(waits: list[int], tmp_path: Path) -> None:
    made = diagnosed(waits, tmp_path)
    found = made.findings[0]
    assert found.rule == "input-starvation"
    assert found.severity == "critical"
    assert "alone" not in made.verdict.text
    assert found.remedies[0].gain_share is not None
