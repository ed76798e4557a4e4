"""A utilisation above 1 is an error that says what is wrong, and no number."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.model import report
from stepscope.model.error import UsageError
from stepscope.views.detail import issue_detail
from tests.analyse.kernel_run import BF16, H100, Op, run
from tests.analyse.test_recoverable import GEMM

PRODUCT = Op("aten::mm", 1000, [[4096, 4096], [4096, 4096]], BF16, GEMM)


def reached(where: Path, model_flops: int | None) -> report.Report:
    file = where / "t.json"
    file.write_text(run([PRODUCT], H100).write())
    return stepscope.diagnose(file, model_flops=model_flops)


def test_model_flops_that_are_given_make_an_mfu(tmp_path: Path) -> None:
    """Steps of 1 ms: 2 · 4096³ operations in each are 137.4 TFLOP/s of 989; given are half of them."""
    whole = 2 * 4096**3
    (derived,) = reached(tmp_path, None).efficiency
    assert derived.model_flops == derived.flops == 3 * whole
    assert derived.mfu == derived.hfu == pytest.approx(whole / 1e-3 / 9.89e14, rel=1e-3)
    (given,) = reached(tmp_path, whole // 2).efficiency
    assert given.is_given is True
    assert given.mfu == pytest.approx(derived.mfu / 2)
    assert given.hfu == derived.hfu


def test_more_than_the_device_can_do_says_which_assumption_failed(tmp_path: Path) -> None:
    made = reached(tmp_path, 10**12)
    (efficiency,) = made.efficiency
    assert efficiency.mfu is None
    (issue,) = [each for each in made.health.issues if each.code == "impossible_rate"]
    assert "the run would use 101.1 % of the peak of NVIDIA H100 80GB HBM3" in issue.detail
    assert "model FLOPs that were given" in issue.detail
    assert "所给的模型运算量" in issue_detail(issue, "zh")


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "1e12"])
def test_what_is_no_number_of_operations_is_refused(bad: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="model_flops is"):
        stepscope.diagnose(tmp_path, model_flops=bad)  # type: ignore[arg-type]
