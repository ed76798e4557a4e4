"""Host work at the start of a step is taken for preprocessing by its place: only a name makes it sure."""

from __future__ import annotations

from pathlib import Path

import stepscope
from stepscope.model import report
from tests.analyse.build import Build


def diagnosed(named: str | None, where: Path) -> report.Report:
    """Five steps of 100 µs, the first 50 of which the host does something before it launches."""
    build = Build()
    for step in range(5):
        at = step * 100
        build = build.step(step, at, at + 100)
        if named is not None:
            build = build.frame(named, at + 1, at + 50)
        build = build.op("aten::mm", at + 50, at + 54)
        build = build.kernel("gemm", at + 52, at + 100, launched=(at + 51, at + 52))
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)


def test_with_a_function_named_it_is_believed(tmp_path: Path) -> None:
    made = diagnosed("train.py(12): tokenize", tmp_path)
    found = made.findings[0]
    assert (found.rule, found.confidence) == ("host-preprocessing", "medium")
    assert found.culprits[0].name == "train.py(12): tokenize"
    assert not any("Nothing recorded names" in note for note in made.cards[0].notes)


def test_with_nothing_named_it_is_doubted_and_says_what_to_record(tmp_path: Path) -> None:
    made = diagnosed(None, tmp_path)
    found = made.findings[0]
    assert (found.rule, found.confidence) == ("host-preprocessing", "low")
    assert any("Nothing recorded names" in note for note in made.cards[0].notes)
    open_ = next(each for each in made.undecided if each.rule == "host-preprocessing")
    assert open_.would_settle == "Python functions (with_stack=True)"
    assert "with_stack=True" in str(made.next)
