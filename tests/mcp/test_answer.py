"""Answers on real traces: small, with ids that can be asked for, and without events of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope import offline
from stepscope.mcp import answer, query
from stepscope.mcp.desk import MAX_REPORTS, Asked, Desk
from stepscope.mcp.root import Roots
from stepscope.mcp.tool import BY_NAME, checked
from stepscope.model.error import StepscopeError, UsageError
from stepscope.views.table import TABLES, table
from tests.views.measured import measured, telemetry_alone

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "src/stepscope/demo/demo.pt.trace.json.gz"


def traces(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "traces").rglob("*.json*") if path.is_file())


def check(asked: Asked) -> None:
    """Every answer about a report is within its budget, and what `next` says can be asked."""
    desk = Desk(Roots([str(ROOT)]), doctor=list)
    desk._keep(asked)
    waiting: list[dict[str, Any]] = answer.diagnosis(asked)["next"]
    assert answer.num_tokens(answer.diagnosis(asked)) <= answer.MAX_TOKENS
    seen = set()
    while waiting:
        step = waiting.pop()
        key = json.dumps(step, sort_keys=True)
        if key in seen or step["tool"] == "diagnose":
            continue
        seen.add(key)
        tool = BY_NAME[step["tool"]]
        found = tool.run(desk, checked(tool, step["arguments"]))
        assert answer.num_tokens(found) <= answer.MAX_TOKENS, step
        waiting += found["next"]
    for finding in asked.report.findings:
        assert answer.num_tokens(answer.evidence(asked, finding)) <= answer.MAX_TOKENS
    for name in TABLES:
        tool = BY_NAME["query"]
        found = tool.run(desk, checked(tool, {"report": asked.handle, "table": name, "limit": 50}))
        assert answer.num_tokens(found) <= answer.MAX_TOKENS


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_answers_on_the_sample_fit(lang: Any) -> None:
    check(Asked("r-demo", stepscope.diagnose(DEMO, lang=lang), lang))


def test_answers_on_every_real_trace_fit_and_name_what_is_withheld(shared_data: Path) -> None:
    sizes = []
    for path in traces(shared_data):
        try:
            report = stepscope.diagnose(path)
        except StepscopeError:
            continue
        asked = Asked("r-real", report, "en")
        check(asked)
        told = answer.diagnosis(asked)
        sizes.append(answer.num_tokens(told))
        assert told["verdict"]["class"] == report.verdict.class_
        assert len(told.get("withheld", ())) + told.get("left_out", {}).get("withheld", 0) == len(
            report.health.withheld
        )
        assert len(told.get("cards", ())) + told.get("left_out", {}).get("cards", 0) == len(report.cards)
    assert len(sizes) >= 30
    print(f"{len(sizes)} traces, largest answer {max(sizes)} tokens, median {sorted(sizes)[len(sizes) // 2]}")


def test_what_does_not_fit_is_counted() -> None:
    long = {"cards": [{"title": "x" * 300} for _ in range(60)], "next": ["go"]}
    found = answer.fitted(long, ("cards",))
    assert answer.num_tokens(found) <= answer.MAX_TOKENS
    assert len(found["cards"]) + found["left_out"]["cards"] == 60
    assert found["next"] == ["go"]


def test_reports_are_forgotten_least_recently_used_first(tmp_path: Path) -> None:
    made = []
    diagnosed = offline.diagnosed(DEMO)

    def diagnose(paths: Any, **more: Any) -> Any:
        made.append(Path(paths[0]).name)
        return diagnosed

    for i in range(MAX_REPORTS + 1):
        (tmp_path / f"{i}.json").write_text("{}")
    desk = Desk(Roots([str(tmp_path)]), doctor=list, diagnose=diagnose)

    def ask(i: int) -> Asked:
        return desk.diagnose([f"{i}.json"], steps=None, rank=None, lang="en")

    first = ask(0)
    for i in range(1, MAX_REPORTS):
        ask(i)
    ask(0)  # used again: 1 is the oldest now
    ask(MAX_REPORTS)
    assert desk.report(first.handle) is first
    assert made.count("0.json") == 1
    ask(1)
    assert made.count("1.json") == 2


def test_rows_without_a_value_come_last_and_fit_no_condition() -> None:
    report = stepscope.diagnose(DEMO)
    found = query.rows(report, "operators", wanted=["name", "flops"], order_by="flops", limit=50)
    values = [row[1] for row in found["rows"]]
    known = [value for value in values if value is not None]
    assert known == sorted(known)
    assert values == known + [None] * (len(values) - len(known))
    everything = [query.Condition("flops", op, 0) for op in ("<", ">=")]
    counts = [query.rows(report, "operators", where=[each])["matched"] for each in everything]
    assert sum(counts) == len(known)


def test_contains_looks_for_a_part_in_any_case() -> None:
    report = stepscope.diagnose(DEMO)
    found = query.rows(
        report, "operators", wanted=["name"], where=[query.Condition("name", "contains", "CONV")], limit=50
    )
    assert found["rows"]
    assert all("conv" in row[0].lower() for row in found["rows"])
    with pytest.raises(UsageError, match="cannot be asked"):
        query.rows(report, "operators", where=[query.Condition("count", "contains", "1")])


def test_a_table_has_the_same_columns_whatever_the_report() -> None:
    report = stepscope.diagnose(DEMO)
    for name in TABLES:
        found = table(report, name)
        assert all(len(row) == len(found.columns) for row in found.rows)
    found = table(report, "accounting")
    row = dict(zip([column.name for column in found.columns], found.rows[0], strict=True))
    account = report.accounting[0]
    assert row["idle.input_ns"] == account.idle.input_ns
    assert row["device.index"] == account.device.index


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_findings_of_several_ranks_fit_with_the_call_for_the_rest(shared_data: Path, lang: Any) -> None:
    folder = shared_data / "traces/param/dlrm_kineto"
    report = stepscope.diagnose(folder, lang=lang)
    asked = Asked("r-0123456789", report, lang)
    seen: list[str] = []
    while True:
        told = answer.findings(asked, severity=None, offset=len(seen))
        assert answer.num_tokens(told) <= answer.MAX_TOKENS
        seen += [each["finding"] for each in told["findings"]]
        rest = [each for each in told["next"] if each["tool"] == "findings"]
        assert told.get("left_out", {}).get("findings", 0) == told["count"] - len(seen)
        if not rest:
            break
        assert rest[0]["arguments"]["offset"] == len(seen)
    assert seen == [each.id for each in report.findings]
    assert len({rank for each in report.findings for rank in each.subject.ranks or ()}) > 1


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("make", [measured, telemetry_alone])
def test_counters_and_events_are_in_the_answer_and_within_its_budget(make: Any, lang: Any) -> None:
    asked = Asked("r-telemetry", make(lang), lang)
    check(asked)
    told = answer.diagnosis(asked)
    assert told["events"][1].startswith(("[critical] Xid 79", "[严重] Xid 79"))
    assert any("614 / 700 W" in line for line in told["counters"])
    assert "train.log" in told["progress"][0]
    assert {
        "tool": told["next"][-2]["tool"],
        "table": told["next"][-2]["arguments"]["table"],
    } == {"tool": "query", "table": "signals"}


def test_samples_of_one_signal_can_be_asked_for() -> None:
    found = query.rows(
        measured(),
        "signal_points",
        wanted=("at_ns", "value"),
        where=[query.Condition("signal", "=", "power_watts"), query.Condition("device.index", "=", 1)],
        order_by="value",
        descending=True,
        limit=1,
    )
    assert found["matched"] == 48
    assert found["rows"][0][1] == pytest.approx(472, abs=0.5)
