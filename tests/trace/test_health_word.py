"""What health says of one thing, of several, and of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from tests.analyse.build import Build


def said(trace: Build, code: str, folder: Path) -> str:
    path = folder / "x.json"
    path.write_text(trace.write())
    return next(i.detail for i in stepscope.diagnose(path).health.issues if i.code == code)


def steps() -> Build:
    trace = Build().steps(1, range(0, 500, 100))
    for n in range(4):
        at = 100 * n
        trace.kernel("gemm", at + 10, at + 60, launched=(at + 1, at + 3), correlation=100 + n)
    return trace


@pytest.mark.parametrize(
    ("before", "later", "words"),
    [
        (1, 0, "1 device activity has no recorded launch (20 % of kernels), it was launched before"),
        (0, 1, "1 device activity has no recorded launch (20 % of kernels)"),
        (
            2,
            0,
            "2 device activities have no recorded launch (33 % of kernels), all of them were launched before",
        ),
        (
            1,
            1,
            "2 device activities have no recorded launch (33 % of kernels), 1 of them was launched before",
        ),
        (
            2,
            1,
            "3 device activities have no recorded launch (43 % of kernels), 2 of them were launched before",
        ),
    ],
)
def test_kernels_without_launch(before: int, later: int, words: str, tmp_path: Path) -> None:
    trace = steps()
    for n in range(before):
        trace.kernel("early", 2 * n, 2 * n + 1, correlation=1 + n)
    for n in range(later):
        trace.kernel("late", 460 + 2 * n, 461 + 2 * n, correlation=900 + n)
    detail = said(trace, "missing_launch", tmp_path)
    assert detail.startswith(words)
    assert (" they " in detail) == (before + later > 1 and " of device time" in detail)


@pytest.mark.parametrize(("cut", "words"), [((4,), "step 4 has"), ((3, 4), "steps 3, 4 have")])
def test_steps_without_device_data(cut: tuple[int, ...], words: str, tmp_path: Path) -> None:
    trace = Build().steps(1, range(0, 500, 100))
    for n in range(1, 5):
        at = 100 * (n - 1)
        if n in cut:
            trace.call("cudaLaunchKernel", at + 1, at + 3)
        else:
            trace.kernel("gemm", at + 10, at + 60, launched=(at + 1, at + 3))
    verb = "is" if len(cut) == 1 else "are"
    assert (
        said(trace, "no_device_data", tmp_path)
        == f"{words} launches but no device data and {verb} not counted"
    )
