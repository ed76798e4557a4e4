"""Details of health, of withheld numbers and of unusable inputs, in Chinese."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscope
from stepscope.analyse.rank import SETTLES
from stepscope.model import report
from stepscope.model.error import InputError
from stepscope.trace.load import _LOOKS_LIKE
from stepscope.views.detail import ISSUE, WITHHELD, input_error, issue_detail, settling, withheld_why
from stepscope.views.label import HEALTH_CODE

SOURCES = Path(stepscope.__file__).parent
HAN = re.compile("[\u4e00-\u9fff]")


def calls(*names: str) -> Iterator[ast.Call]:
    """Calls of these names in the sources of traces, analysis and the offline path."""
    for path in [*SOURCES.glob("trace/*.py"), *SOURCES.glob("analyse/*.py"), SOURCES / "offline.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                if called in names:
                    yield node


def literals(node: ast.expr | None) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def codes() -> set[str]:
    documented = (SOURCES.parents[1] / "docs/reference/health.md").read_text(encoding="utf-8")
    made = {code for call in calls("Issue", "Loss") for code in literals(call.args[0] if call.args else None)}
    return made | set(re.findall(r"^\| `(\w+)`", documented, re.MULTILINE)) | {"rank_missing", "rule_broken"}


def test_every_code_that_is_made_has_a_name_and_a_chinese_sentence() -> None:
    assert len(codes()) >= 18
    assert codes() <= set(ISSUE)
    assert codes() <= set(HEALTH_CODE)
    for code in ISSUE:
        issue = report.HealthIssue(code=code, count=1234, effect="degraded", detail="English")
        assert HAN.search(issue_detail(issue, "zh"))
        assert "{" not in issue_detail(issue, "zh")
        assert issue_detail(issue, "en") == "English"


def test_the_count_is_in_the_sentence() -> None:
    issue = report.HealthIssue(code="missing_launch", count=1234, effect="none", detail="English")
    assert issue_detail(issue, "zh") == "1,234 个设备活动没有下发记录"


def test_an_unknown_code_keeps_its_detail() -> None:
    issue = report.HealthIssue(code="new", count=1, effect="none", detail="English")
    assert issue_detail(issue, "zh") == "English"


def test_what_is_withheld_says_why_in_chinese() -> None:
    issue = report.HealthIssue(code="missing_launch", count=7, effect="withheld", detail="English")
    because = report.Withheld(what="idle causes", why="English")
    assert withheld_why(because, [issue], "zh") == issue_detail(issue, "zh")
    assert withheld_why(because, [issue], "en") == "English"
    assert set(SETTLES.values()) <= set(WITHHELD)
    assert all(HAN.search(settling(text, "zh")) for text in WITHHELD)
    for call in calls("Withheld"):
        for keyword in call.keywords:
            if keyword.arg in ("why", "would_settle"):
                assert set(literals(keyword.value)) <= set(WITHHELD)


def refusals() -> list[tuple[str, str]]:
    """What and mend of every refusal that is written out in the sources."""
    return [(what, mend) for _, what, mend in _LOOKS_LIKE] + [
        (what, mend)
        for call in calls("InputError")
        if len(call.args) >= 3
        for what in literals(call.args[1])
        for mend in literals(call.args[2])
    ]


@pytest.mark.parametrize(("what", "mend"), refusals())
def test_every_refusal_has_chinese_words(what: str, mend: str) -> None:
    error = str(InputError("run/a: b.json", what, mend, "byte 12"))
    told = input_error(report.Input(kind="trace", name="run/a: b.json", error=error), "zh")
    head, _, rest = told.partition("（第 12 字节）：")
    assert head == "run/a: b.json"
    said, _, mended = rest.partition("；")
    assert HAN.search(said)
    assert HAN.search(mended)


def test_an_unknown_refusal_stays_as_it_is() -> None:
    for error in ("out of order", "x.json: it rained; wait"):
        told = input_error(report.Input(kind="trace", name="x.json", error=error), "zh")
        assert told in (error, "x.json：it rained；wait")


def test_english_is_as_written() -> None:
    given = report.Input(kind="trace", name="x", error="x: no such file; check the path")
    assert input_error(given, "en") == given.error
    assert input_error(given, "zh") == "x：文件不存在；请检查路径"
