"""`--steps`: the range asked for, or a refusal."""

from __future__ import annotations

import pytest

import stepscope
from stepscope.model.error import UsageError
from tests.analyse.build import Build


@pytest.fixture
def trace(tmp_path):  # type: ignore[no-untyped-def]
    b = Build()
    for n in (5, 6, 7):
        at = 100 * (n - 5)
        b.step(n, at, at + 100).kernel("gemm", at + 10, at + 60 + n, launched=(at + 1, at + 3))
    path = tmp_path / "rank0.json"
    path.write_text(b.write())
    return path


def test_only_the_steps_asked_for_are_accounted(trace) -> None:  # type: ignore[no-untyped-def]
    report = stepscope.diagnose(trace, steps=(6, 7))
    assert [s.step for s in report.steps] == [6, 7]
    assert report.accounting[0].num_steps == 2
    assert report.accounting[0].compute_ns == (56 + 57) * 1000


def test_a_range_without_a_step_is_refused_with_what_there_is(trace) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="no step from 900 to 910 in the inputs: steps 5 to 7 are recorded"):
        stepscope.diagnose(trace, steps=(900, 910))
