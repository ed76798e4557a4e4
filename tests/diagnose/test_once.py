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


def launch_bound(lengths: list[int], where: Path) -> report.Report:
    """Steps that issue a kernel of 3 µs each 10 µs: the same share of idle time, however long they are."""
    build, at = Build(), 0
    for number, length in enumerate(lengths, 1):
        build = build.step(number, at, at + length)
        for t in range(at, at + length, 10):
            build = build.op("aten::add", t, t + 9)
            build = build.kernel("gemm", t + 6, t + 9, launched=(t + 4, t + 5))
        at += length
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)


@pytest.mark.parametrize("lengths", [[400] * 4, [400, 400, 400, 2000], [400] * 9 + [4800]])
def test_a_long_step_with_no_more_than_its_share_is_not_alone(lengths: list[int], tmp_path: Path) -> None:
    made = launch_bound(lengths, tmp_path)
    assert (made.findings[0].rule, made.findings[0].severity) == ("launch-bound", "critical")
    assert "alone" not in made.verdict.text


def periodic(slow: str | None, where: Path, *, is_busy: bool = False) -> report.Report:
    """32 steps of 100 µs; each fourth takes 200 more, computing all the while or doing what the mark says."""
    build, at = Build(), 0
    for number in range(1, 33):
        more = 200 if number % 4 == 0 else 0
        build = build.step(number, at, at + 100 + more)
        build = build.op("aten::mm", at, at + 4)
        busy = 100 + more if is_busy else 100
        build = build.kernel("gemm", at + 2, at + busy, launched=(at + 1, at + 2))
        if more and slow is not None:
            build = build.note(slow, at + 100, at + 300)
        at += 100 + more
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)


def test_steps_that_compute_longer_at_intervals_are_no_stall(tmp_path: Path) -> None:
    """Gradient accumulation: the optimizer's kernels run in each fourth step, and the device never waits."""
    made = periodic(None, tmp_path, is_busy=True)
    assert made.verdict.class_ == "healthy"
    assert not [finding for finding in made.findings if finding.rule == "periodic-stall"]


@pytest.mark.parametrize(
    ("mark", "rule"),
    [
        ("save_checkpoint", "checkpoint-stall"),
        ("evaluate", "eval-stall"),
        ("wandb", "logging-stall"),
        ("gc.collect", "garbage-collection"),
        ("_compile.compile_inner (dynamo_timed)", "compile-in-window"),
        ("something of ours", "periodic-stall"),
    ],
)
def test_a_stall_at_intervals_is_claimed_once_and_by_its_name(mark: str, rule: str, tmp_path: Path) -> None:
    """Eight times 200 µs of 4,800, less the first 2 µs of each step, which are the launch's."""
    made = periodic(mark, tmp_path)
    costs = {f.rule: f.cost.time_ns for f in made.findings if f.cost is not None and f.cost.time_ns > 10_000}
    assert list(costs) == [rule]
    assert costs[rule] == pytest.approx(1_600_000, abs=20_000)
    assert made.findings[0].severity == "critical"
    periodic_ = next(f for f in made.findings if f.rule == "periodic-stall")
    assert periodic_.explained_by == (None if rule == "periodic-stall" else made.findings[0].id)
