"""Details of health, of withheld numbers and of unusable inputs, in Chinese."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import stepscope
from stepscope.analyse.rank import SETTLES
from stepscope.model import report
from stepscope.model.error import InputError
from stepscope.trace.load import _LOOKS_LIKE
from stepscope.views.detail import WITHHELD, input_error, issue_detail, settling, withheld_why
from stepscope.views.label import HEALTH_CODE

SOURCES = Path(stepscope.__file__).parent
READ = [
    *SOURCES.glob("trace/*.py"),
    *SOURCES.glob("analyse/*.py"),
    SOURCES / "diagnose/data.py",
    SOURCES / "diagnose/job.py",
    SOURCES / "offline/read.py",
    SOURCES / "offline/__init__.py",
    SOURCES / "offline/option.py",
]
TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in READ]
HAN = re.compile("[\u4e00-\u9fff]")
NUMBER = re.compile(r"\d+(?:[,.]\d+)*")
_SAYS = ["the file name", "distributedInfo", "metadata"]
FILLED = {
    "effect": ["degraded", "withheld"],
    "source": _SAYS,
    "s": _SAYS,
    "', '.join(others)": ["the file name says 7"],
}
"""What may stand in a place that holds no number."""


@dataclass
class Scope:
    """One function of the sources, with what its names may hold."""

    module: ast.Module
    body: ast.AST
    seen: set[str] = field(default_factory=set)

    def texts(self, node: ast.expr | None) -> list[str]:
        """Every text that an expression may be, with a number of its own in each place; none if unknown."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                filled = [self.filled(part, place) for place, part in enumerate(parts)]
                return ["".join(each) for each in itertools.product(*filled)]
            case ast.IfExp(body=one, orelse=other):
                return [*self.texts(one), *self.texts(other)]
            case ast.BoolOp(values=values):
                return [text for value in values for text in self.texts(value)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [a + b for a in self.texts(left) or ["1999"] for b in self.texts(right) or ["1998"]]
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str(stop)), attr="join"), args=[listed]
            ):
                pieces = self.appended(listed)
                return [*pieces, stop.join(pieces)] if pieces else []
            case ast.Attribute(attr="damage"):
                return damages()
            case ast.Name(id=name) if name not in self.seen:
                return self.named(name)
        return []

    def filled(self, part: ast.expr, place: int) -> list[str]:
        if not isinstance(part, ast.FormattedValue):
            return self.texts(part)
        if ast.unparse(part.value) in FILLED:
            return FILLED[ast.unparse(part.value)]
        spec = "".join(self.texts(part.format_spec)) if part.format_spec else ""
        return self.texts(part.value) or [format(1200 + place, spec)]

    def named(self, name: str) -> list[str]:
        """What is assigned to a name here, else in the module, with and without what is added to it."""
        inner = Scope(self.module, self.body, {*self.seen, name})
        found: list[str] = []
        for body in (self.body, self.module):
            for node in sorted(
                (n for n in ast.walk(body) if isinstance(n, ast.Assign | ast.AugAssign | ast.For)),
                key=lambda n: n.lineno,
            ):
                match node:
                    case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                        found += inner.texts(node.value)
                    case ast.AugAssign(target=ast.Name(id=target)) if target == name:
                        found += [a + b for a in found for b in inner.texts(node.value)]
                    case ast.For(target=ast.Tuple(elts=names), iter=ast.Tuple(elts=rows)):
                        for at, target in enumerate(names):
                            if isinstance(target, ast.Name) and target.id == name:
                                found += [
                                    t
                                    for r in rows
                                    if isinstance(r, ast.Tuple)
                                    for t in inner.texts(r.elts[at])
                                ]
            if found:
                break
        return found

    def appended(self, listed: ast.expr) -> list[str]:
        return [
            text
            for node in ast.walk(self.body)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            if isinstance(listed, ast.Name) and ast.unparse(node.func.value) == listed.id
            for text in self.texts(node.args[0])
        ]


def scopes() -> Iterator[Scope]:
    for module in TREES:
        inside = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
        yield from (Scope(module, function) for function in inside)
        top = [node for node in module.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
        yield Scope(module, ast.Module(top, []))


def damages() -> list[str]:
    """What a compressed stream may have."""
    return [
        text
        for scope in scopes()
        for node in ast.walk(scope.body)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
        if node.targets[0].attr == "damage" and not isinstance(node.value, ast.Attribute)
        for text in scope.texts(node.value)
    ]


def calls(*names: str) -> Iterator[tuple[Scope, ast.Call]]:
    """Calls of these names in the sources of traces, analysis and the offline path."""
    for scope in scopes():
        for node in ast.walk(scope.body):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
                yield scope, node


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    named = (keyword.value for keyword in call.keywords if keyword.arg == name)
    return next(named, call.args[place] if place < len(call.args) else None)


def codes() -> set[str]:
    documented = (SOURCES.parents[1] / "docs/reference/health.md").read_text(encoding="utf-8")
    made = {
        code
        for scope, call in calls("Issue", "Loss", "HealthIssue")
        for code in scope.texts(argument(call, 0, "code"))
        if re.fullmatch("[a-z]+(_[a-z]+)+|truncated", code)
    }
    return made | set(re.findall(r"^\| `(\w+)`", documented, re.MULTILINE))


def details() -> list[str]:
    """Every detail of an issue that the sources can make, but for what another package says of itself."""
    places = {"Issue": 3, "HealthIssue": 3, "Loss": 2}
    made = [
        text
        for name, place in places.items()
        for scope, call in calls(name)
        for text in scope.texts(argument(call, place, "detail"))
    ]
    conflicts = [
        text
        for scope in scopes()
        if isinstance(scope.body, ast.FunctionDef) and scope.body.name == "rank_of"
        for node in ast.walk(scope.body)
        if isinstance(node, ast.JoinedStr)
        for text in scope.texts(node)
    ]
    return sorted({text for text in (*made, *conflicts) if re.search("[a-z]{3}", text)})


def issue(detail: str) -> report.HealthIssue:
    return report.HealthIssue(code="x", count=1, effect="degraded", detail=detail)


def check(english: str, chinese: str) -> None:
    """Chinese says it all: each number is there, and no sentence stayed English."""
    assert HAN.search(chinese), english
    assert set(NUMBER.findall(english)) <= set(NUMBER.findall(chinese)), (english, chinese)
    assert not re.search(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b", chinese.replace("pip install", "")), chinese


def test_every_code_that_is_made_has_a_name() -> None:
    assert len(codes()) >= 18
    assert codes() <= set(HEALTH_CODE)


def test_the_details_are_read_from_the_sources() -> None:
    """What the reader must find: if it does not, the next test proves nothing."""
    found = details()
    assert len(found) >= 50
    for part in (
        "collectives imply up to",
        "before the trace began",
        "device rows of category",
        "the gzip checksum is wrong, at byte",
        "says rank",
        "begin or end events",
        "have launches but no device data",
        "ranks were given",
    ):
        assert any(part in each for each in found), part


@pytest.mark.parametrize("detail", details())
def test_every_detail_is_told_in_chinese_with_each_of_its_numbers(detail: str) -> None:
    assert issue_detail(issue(detail), "en") == detail
    check(detail, issue_detail(issue(detail), "zh"))
    check(detail, withheld_why(report.Withheld(what="x", why=detail), "zh"))


def test_details_say_in_chinese_what_they_say_in_english() -> None:
    for english, chinese in (
        (
            "3 collectives imply up to 5,000 GB/s where the link carries 450: their recorded size, group or "
            "duration is wrong, and their bandwidth is withheld",
            "3 次集合通信按记录快至 5,000 GB/s，而链路只有 450 GB/s："
            "所记录的数据量、通信组或时长有误，其带宽不予给出",
        ),
        (
            "968 device activities have no recorded launch (25 % of kernels), 7 of them were launched before "
            "the trace began",
            "968 个设备活动没有下发记录（占 kernel 的 25 %），其中 7 个在 trace 开始之前下发",
        ),
        (
            "12 device rows of category mtia_ccp_events, mtia are not understood: device work cannot be "
            "seen, the accounting is the host's alone",
            "12 个类别为 mtia_ccp_events、mtia 的设备事件无法解读：设备任务不可见，核算只含主机",
        ),
        ("steps 2, 3 are cut and are not counted", "第 2、3 步被截断，未计入"),
        ("step 10 is cut and is not counted", "第 10 步被截断，未计入"),
        (
            "steps 2, 3, 4, 5, 6, 7, … have launches but no device data and are not counted",
            "第 2、3、4、5、6、7、… 步只有下发而没有设备活动，未计入",
        ),
        (
            "968 device activities have no recorded launch (25 % of kernels), all of them were launched "
            "before the trace began",
            "968 个设备活动没有下发记录（占 kernel 的 25 %），全部在 trace 开始之前下发",
        ),
        (
            "1 device activity has no recorded launch (a copy), it was launched before the trace began; "
            "it is 3 % of device time, so causes of idle time are degraded",
            "1 个设备活动没有下发记录（是拷贝），在 trace 开始之前下发；"
            "它占设备时间的 3 %，因此空闲原因有缺损",
        ),
        (
            "1 device duration cannot be true and was cut at the next activity of its stream; "
            "it stays unexplained, at most 5 µs together",
            "1 个设备活动的时长不可信，已在同一流的下一个活动处截断；它仍无法解释，合计至多 5 µs",
        ),
        (
            "rank 3 is in 3 files: a.json was used, b.json, c.json was not; give the files of one run",
            "rank 3 出现在 3 个文件中：使用了 a.json，未使用 b.json、c.json；请只给同一次运行的文件",
        ),
    ):
        assert issue_detail(issue(english), "zh") == chinese


def test_an_unknown_detail_stays_as_it_is() -> None:
    for text in ("English", "acme: ImportError: no module", "time is counted once; and it rained"):
        assert issue_detail(issue(text), "zh") == text


def test_what_is_withheld_says_why_in_chinese() -> None:
    assert set(SETTLES.values()) <= set(WITHHELD)
    assert all(HAN.search(settling(text, "zh")) for text in WITHHELD)
    told = [
        text
        for scope, call in calls("Withheld")
        for name in ("why", "would_settle")
        for text in scope.texts(argument(call, 9, name))
    ]
    assert told
    assert any(NUMBER.search(text) for text in told)
    for text in set(told) - set(WITHHELD):
        chinese = withheld_why(report.Withheld(what="a number", why=text), "zh")
        assert HAN.search(chinese), text
        assert NUMBER.findall(chinese) == NUMBER.findall(text)


def refusals() -> list[tuple[str, str]]:
    """What and mend of every refusal in the sources."""
    return sorted(
        {
            *((what, mend) for _, what, mend in _LOOKS_LIKE),
            *(
                pair
                for scope, call in calls("InputError")
                for pair in itertools.product(
                    scope.texts(argument(call, 1, "what")), scope.texts(argument(call, 2, "mend"))
                )
            ),
        }
    )


def test_the_refusals_are_read_from_the_sources() -> None:
    assert {"list its members with tar -tf 1201", "list its members with tar -tvf 1201"} <= {
        mend for _, mend in refusals()
    }
    assert "the gzip checksum is wrong" in {what for what, _ in refusals()}
    assert any(mend.startswith("pip install") for _, mend in refusals())


@pytest.mark.parametrize(("what", "mend"), refusals())
def test_every_refusal_has_chinese_words(what: str, mend: str) -> None:
    error = str(InputError("run/a: b.json", what, mend, "byte 12"))
    told = input_error(report.Input(kind="trace", name="run/a: b.json", error=error), "zh")
    head, _, rest = told.partition("（第 12 字节）：")
    assert head == "run/a: b.json"
    said, _, mended = rest.partition("；")
    check(what, said)
    check(mend, mended)


def test_a_copy_is_told_in_chinese() -> None:
    error = "b.json: the same bytes as a.json; left out"
    told = input_error(report.Input(kind="trace", name="b.json", error=error), "zh")
    assert told == "b.json：与 a.json 字节完全相同；已略去"


def test_an_unknown_refusal_stays_as_it_is() -> None:
    for error in ("out of order", "x.json: it rained; wait"):
        told = input_error(report.Input(kind="trace", name="x.json", error=error), "zh")
        assert told in (error, "x.json：it rained；wait")


def test_english_is_as_written() -> None:
    given = report.Input(kind="trace", name="x", error="x: no such file; check the path")
    assert input_error(given, "en") == given.error
    assert input_error(given, "zh") == "x：文件不存在；请检查路径"
