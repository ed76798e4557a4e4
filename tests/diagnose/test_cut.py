"""A file that ends inside its events: what was recorded is kept, and nothing is concluded from it."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from tests.analyse.build import Build


@pytest.mark.parametrize("share", [0.15, 0.35, 0.55, 0.75, 0.95])
def test_a_cut_file_is_never_judged(share: float, tmp_path: Path) -> None:
    """Host rows stand before device rows: cut anywhere, the steps are there and their device work is not."""
    build = Build()
    for step in range(6):
        build = build.step(step, step * 100, step * 100 + 100)
        for i in range(8):
            at = step * 100 + 12 * i
            build = build.op("aten::mm", at, at + 6)
    for step in range(6):
        for i in range(8):
            at = step * 100 + 12 * i
            build = build.kernel("gemm", at + 2, at + 14, launched=(at + 1, at + 2))
    text, file = build.write(), tmp_path / "t.json"
    file.write_text(text)
    assert "computes 9" in stepscope.diagnose(file).verdict.text
    file.write_text(text[: int(len(text) * share)])
    cut = stepscope.diagnose(file)
    assert cut.verdict.class_ == "undecided"
    assert "cut off" in cut.verdict.text
    assert not cut.findings
    assert not cut.top_operators
    assert all(row.status == "withheld" for row in cut.accounting)
    assert cut.next == "stepscope diagnose NEW_TRACE  # after recording the whole trace"


def test_beside_a_whole_rank_a_cut_one_keeps_health_from_being_claimed(tmp_path: Path) -> None:
    def steps(rank: int) -> str:
        build = Build()
        for step in range(6):
            at = step * 100
            build = build.step(step, at, at + 100).op("aten::mm", at, at + 10)
            build = build.kernel("gemm", at + 2, at + 101, launched=(at + 1, at + 2))
        build.rank, build.world_size = rank, 2
        return build.write()

    (tmp_path / "rank0.json").write_text(steps(0))
    text = steps(1)
    (tmp_path / "rank1.json").write_text(text)
    assert stepscope.diagnose(tmp_path).verdict.class_ == "healthy", stepscope.diagnose(tmp_path).verdict
    (tmp_path / "rank1.json").write_text(text[: len(text) * 3 // 4])
    made = stepscope.diagnose(tmp_path)
    assert made.verdict.class_ == "undecided"
    assert {finding.subject.ranks for finding in made.findings} <= {(0,)}
