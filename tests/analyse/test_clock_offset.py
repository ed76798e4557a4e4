"""A device clock ahead of the host's: issued work seems to wait, and the device would be blamed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.model import report
from tests.analyse.build import Build


def diagnosed(ahead_us: int, where: Path, *, call_us: int = 3, is_waited_for: bool = False) -> report.Report:
    """Five steps of 1,000 µs that issue a kernel of 20 µs each 100 µs: idle, and for the host."""
    build = Build()
    for step in range(5):
        at = step * 1000
        build = build.step(step, at, at + 1000)
        for i in range(9):
            t = at + i * 100
            build = build.op("aten::add", t, t + 98)
            start = t + 8 + call_us
            build = build.kernel(
                "add", start + ahead_us, start + 20 + ahead_us, launched=(t + 4, t + 4 + call_us)
            )
        if is_waited_for:
            build = build.call("cudaDeviceSynchronize", at + 920, at + 940)
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)


def codes(made: report.Report) -> list[str]:
    return [issue.code for issue in made.health.issues]


def test_clocks_that_agree_blame_the_host(tmp_path: Path) -> None:
    made = diagnosed(0, tmp_path)
    assert made.findings[0].rule == "launch-bound"
    assert "clock_offset" not in codes(made)


@pytest.mark.parametrize(("ahead_us", "is_waited_for"), [(600, False), (30_000, False), (250, True)])
def test_a_clock_ahead_withholds_every_cause(ahead_us: int, is_waited_for: bool, tmp_path: Path) -> None:
    made = diagnosed(ahead_us, tmp_path, is_waited_for=is_waited_for)
    assert "clock_offset" in codes(made)
    assert made.verdict.class_ == "undecided"
    assert "host is not the cause" not in made.verdict.text
    assert not made.findings
    row = made.accounting[0]
    assert row.status == "withheld"
    assert row.idle.unknown_ns == row.idle_ns > 0


def test_slow_launch_calls_are_no_offset(tmp_path: Path) -> None:
    made = diagnosed(0, tmp_path, call_us=70)
    assert "clock_offset" not in codes(made)


def test_a_full_queue_is_no_offset(tmp_path: Path) -> None:
    """All is issued in the first 60 µs of 2,000: the last of 20 kernels starts 1.9 ms after its launch."""
    build = Build().step(1, 0, 2000)
    for i in range(20):
        build = build.op("aten::mm", 3 * i, 3 * i + 2)
        build = build.kernel("gemm", 100 * i + 2, 100 * i + 100, launched=(3 * i, 3 * i + 1))
    file = tmp_path / "t.json"
    file.write_text(build.write())
    assert "clock_offset" not in codes(stepscope.diagnose(file))


def test_a_few_delayed_calls_do_not_hide_an_offset(tmp_path: Path) -> None:
    """As with 2,000 µs ahead, and one of the 450 launch calls held up until after its work has begun."""
    build = Build()
    for step in range(50):
        at = step * 1000
        build = build.step(step, at, at + 1000)
        for i in range(9):
            t = at + i * 100
            end = t + 2500 if (step, i) == (20, 3) else t + 7
            build = build.op("aten::add", t, t + 98)
            build = build.kernel("gemm", t + 2011, t + 2031, launched=(t + 4, end))
    file = tmp_path / "t.json"
    file.write_text(build.write())
    assert "clock_offset" in codes(stepscope.diagnose(file))


def test_of_two_devices_nobody_knows_which_is_waited_for(tmp_path: Path) -> None:
    """Device 0 has ended when the wait returns; device 1 works on for 300 µs."""
    build = Build()
    for step in range(12):
        at = step * 1000
        build = build.step(step, at, at + 1000)
        for device in range(2):
            start = at + 10 + 5 * device
            build = build.op("aten::mm", at + 5 * device, at + 5 * device + 4)
            build = build.kernel(
                "gemm",
                start,
                at + 500 + 300 * device,
                launched=(start - 8, start - 7),
                device=device,
                stream=7,
            )
        build = build.call("cudaDeviceSynchronize", at + 30, at + 505)
    file = tmp_path / "t.json"
    file.write_text(build.write())
    assert "clock_offset" not in codes(stepscope.diagnose(file))
