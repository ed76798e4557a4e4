"""Lists are whole over their pages, times are read in three forms, reports are shown in four."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.alarm import About, Alarm
from stepscope.model.error import UsageError
from stepscope.model.incident import Incident
from stepscope.model.report import encode
from stepscope.offline import diagnose
from stepscope.server.limit import Bucket, Limits
from stepscope.server.moment import PATTERN, moment_ns, window_ns
from tests.server.served import Asked, serving

NOW_NS = 1_800_000_000 * 10**9


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving(limits=Limits(requests_per_s=1e6, burst=10**9)) as asked:
        yield asked


@settings(max_examples=15, deadline=None)
@given(times=st.lists(st.integers(1, 5), max_size=25), limit=st.integers(1, 7))
def test_pages_hold_every_alarm_once_newest_first(server: Asked, times: list[int], limit: int) -> None:
    server.store.docs.clear()
    for number, at_ns in enumerate(times):
        alarm = Alarm(
            id=f"{number:03}", condition="hot", level="resource", severity="info", about=About(job="llama"),
            onset_ns=at_ns, seen_ns=at_ns,
        )  # fmt: skip
        server.store.put("alarm", alarm.id, msgspec.json.encode(alarm), job="llama", at_ns=at_ns)
    got: list[tuple[int, str]] = []
    after = ""
    while True:
        page = server.get(f"/api/v1/alarms?limit={limit}{after}").json
        assert len(page["items"]) <= limit
        got += [(each["onset_ns"], each["id"]) for each in page["items"]]
        if "next" not in page:
            break
        after = f"&after={page['next']}"
    assert sorted(got) == sorted((at, f"{number:03}") for number, at in enumerate(times))
    assert [at for at, _ in got] == sorted(times, reverse=True)


def test_alarms_are_chosen_by_level_and_by_whether_they_hold(server: Asked) -> None:
    server.store.docs.clear()
    for name, level, end in (("a", "task", None), ("b", "task", 9), ("c", "resource", None)):
        alarm = Alarm(
            id=name, condition=name, level=level, severity="info", about=About(), onset_ns=1,
            seen_ns=2, end_ns=end,
        )  # type: ignore[arg-type]  # fmt: skip
        server.store.put("alarm", name, msgspec.json.encode(alarm), at_ns=1)

    def ids(query: str) -> str:
        return "".join(each["id"] for each in server.get(f"/api/v1/alarms?{query}").json["items"])

    assert ids("level=task") == "ab"
    assert ids("level=task&holds=true") == "a"
    assert ids("holds=false") == "b"
    assert ids("condition=c") == "c"


@pytest.fixture(scope="module")
def report(root: Any) -> bytes:
    return encode(diagnose([root / "src/stepscope/demo/demo.pt.trace.json.gz"]))


def test_a_report_is_shown_as_json_html_markdown_and_text(server: Asked, report: bytes) -> None:
    server.store.docs.clear()
    card = json.loads(report)["cards"][0]
    server.store.put("report", "r1", report, job="llama", run="1", at_ns=5)
    incident = Incident(
        id="i1", about=About(job="llama"), severity="warning", title="x", onset_ns=1, opened_ns=2,
        report="r1", card=card["id"],
    )  # fmt: skip
    server.store.put("incident", "i1", msgspec.json.encode(incident), job="llama", at_ns=6)
    assert server.get("/api/v1/reports/r1").body == report
    for form, word in (("html", "<html"), ("markdown", "# "), ("text", card["title"][:20])):
        said = server.get(f"/api/v1/reports/r1?format={form}")
        assert said.status == 200
        assert word in said.body.decode()
    assert "text/html" in server.get("/api/v1/reports/r1", Accept="text/html").headers["content-type"]
    assert server.get("/api/v1/reports?job=llama").json["items"][0]["cards"][0] == card["title"]
    assert [each["card"] for each in server.get("/api/v1/cards").json["items"]] == [card]
    assert server.get("/api/v1/cards/i1").json["card"] == card
    assert b"<html" in server.get("/api/v1/cards/i1?format=html").body
    for form in ("html", "markdown", "text"):
        types = server.get(f"/api/v1/reports/r1?format={form}").headers["content-type"]
        assert types.count("charset") == 1
    findings = server.get("/api/v1/findings?job=llama").json["items"]
    assert {each["finding"]["id"] for each in findings} == {
        each["id"] for each in json.loads(report)["findings"]
    }
    assert server.get("/api/v1/cards/none").status == server.get("/api/v1/reports/none").status == 404


def test_thresholds_of_a_site_are_in_force_until_they_are_taken_back(server: Asked) -> None:
    path = "/api/v1/rules/input-starvation/thresholds"

    def shown() -> dict[str, Any]:
        rules = server.get("/api/v1/rules").json["items"]
        rule = next(each for each in rules if each["id"] == "input-starvation")
        return next(each for each in rule["thresholds"] if each["feature"] == "idle_input_share")

    before = shown()
    assert server.ask("PUT", path, b'{"idle_input_share": 0.25}').status == 200
    assert (shown()["threshold"], shown()["is_own"]) == (0.25, True)
    for bad in (b'{"no_such": 1}', b'{"idle_input_share": 7}', b'{"idle_input_share": "x"}', b"[]"):
        assert server.ask("PUT", path, bad).status == 400, bad
    assert server.ask("PUT", path, b"{}").status == 200
    assert shown() == before
    assert server.ask("PUT", "/api/v1/rules/none/thresholds", b"{}").status == 404


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1700000000123456789", 1_700_000_000_123_456_789),
        ("now", NOW_NS),
        ("now-90s", NOW_NS - 90 * 10**9),
        ("now-250ms", NOW_NS - 250_000_000),
        ("now-2w", NOW_NS - 14 * 86_400 * 10**9),
        ("2023-11-14T22:13:20Z", 1_700_000_000 * 10**9),
        ("2023-11-14T22:13:20.000000001z", 1_700_000_000 * 10**9 + 1),
        ("2023-11-15 00:13+02:00", 1_699_999_980 * 10**9),
    ],
)
def test_a_time_is_nanoseconds_a_date_with_a_zone_or_some_time_ago(text: str, ns: int) -> None:
    import re

    assert moment_ns(text, NOW_NS, "start") == ns
    assert re.match(PATTERN, text)


@given(st.text(max_size=30) | st.from_regex(PATTERN))
def test_any_text_is_a_time_in_bounds_or_refused(text: str) -> None:
    try:
        found = moment_ns(text, NOW_NS, "start")
    except UsageError:
        return
    assert 0 <= found < 1 << 62


def test_a_window_ends_after_it_starts_and_is_not_endless() -> None:
    limits = Limits()
    assert window_ns(None, None, NOW_NS, limits, default_ns=60) == (NOW_NS - 60, NOW_NS)
    assert window_ns("5", "9", NOW_NS, limits, default_ns=60) == (5, 9)
    for start, end in (("9", "5"), ("5", "5"), ("0", "now")):
        with pytest.raises(UsageError):
            window_ns(start, end, NOW_NS, limits, default_ns=60)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=60))
def test_a_bucket_gives_no_more_than_its_burst_and_its_rate(waits: list[float]) -> None:
    bucket, now, given_ = Bucket(2.0, 5), 100.0, 0
    for wait in waits:
        now += wait
        wait_s = bucket.take("one", now)
        given_ += wait_s == 0
        assert wait_s <= 0.5
    assert given_ <= 5 + 2.0 * sum(waits) + 1e-6
    assert bucket.take("other", now) == 0


def test_a_report_comes_in_the_language_that_was_asked_for_or_says_that_it_is_not_kept_in_it(
    server: Asked, root: Any, report: bytes
) -> None:
    server.store.docs.clear()
    zh = encode(diagnose([root / "src/stepscope/demo/demo.pt.trace.json.gz"], lang="zh"))
    card = json.loads(zh)["cards"][0]
    incident = Incident(
        id="i1", about=About(job="llama"), severity="warning", title="x", onset_ns=1, opened_ns=2,
        report="i1-1", card=card["id"],
    )  # fmt: skip
    server.store.put("incident", "i1", msgspec.json.encode(incident), job="llama", at_ns=6)
    server.store.put("report", "i1-1", report, job="llama", at_ns=5)
    alone = server.get("/api/v1/cards/i1?format=markdown&lang=zh")
    assert alone.headers["content-language"] == "en"
    assert alone.body.decode().startswith("> 此报告仅保存了英文版")
    assert "此报告仅保存了英文版" in server.get("/api/v1/reports/i1-1?format=html&lang=zh").body.decode()
    assert server.get("/api/v1/reports/i1-1?lang=zh").body == report

    server.store.put("report", "i1-1.zh", zh, job="llama", at_ns=5)
    said = server.get("/api/v1/reports/i1-1?lang=zh")
    assert (said.body, said.headers["content-language"]) == (zh, "zh")
    assert server.get("/api/v1/reports/i1-1.zh?lang=en").body == report
    assert server.get("/api/v1/reports/i1-1").body == report
    assert server.get("/api/v1/cards/i1?lang=zh").json["card"] == card
    page = server.get("/api/v1/cards/i1?format=text&lang=zh")
    assert card["title"] in page.body.decode()
    assert "此报告仅" not in page.body.decode()
