"""The window that is asked for is the one that the how-to states."""

from __future__ import annotations

import re
from pathlib import Path

from stepscope.model.report import Input
from stepscope.offline.beside import asked_of
from stepscope.offline.read import Read
from stepscope.sources.prometheus.read import MARGIN_NS, window
from stepscope.sources.prometheus.url import endpoint_of

PAGE = "docs/how-to/telemetry-from-prometheus.md"
MINUTE_NS = 60 * 1_000_000_000
BEGIN_NS = 1_790_000_000_000_000_000
END_NS = BEGIN_NS + 20 * 1_000_000_000


def given(kind: str, start_ns: int, end_ns: int) -> Read:
    return Read(Input(kind=kind, format="x", name=kind, start_ns=start_ns, end_ns=end_ns), kind)


def minutes(traces: list[Read], logs: list[Read], query: str = "") -> tuple[float, float]:
    """How long before the traces' beginning and after their end is asked for."""
    asked = asked_of(traces, logs)
    endpoint = endpoint_of(f"prometheus+http://127.0.0.1:9{query}", {})
    span = window(endpoint, asked.start_ns, asked.end_ns, MARGIN_NS)
    return (BEGIN_NS / 1e6 - span.start_ms) / 6e4, (span.end_ms - END_NS / 1e6) / 6e4


def test_beside_traces_it_is_as_long_before_and_after_them_as_the_page_says(root: Path) -> None:
    page = " ".join((root / PAGE).read_text(encoding="utf-8").split())
    stated = re.search(r"from (\d+) minutes before the traces begin to (\d+) minutes after they end", page)
    assert stated is not None
    before, after = minutes([given("trace", BEGIN_NS, END_NS)], [])
    assert (before, after) == (float(stated[1]), float(stated[2])) == (70.0, 10.0)


def test_a_log_widens_it_by_its_own_time_and_a_margin() -> None:
    trace = given("trace", BEGIN_NS, END_NS)
    log = given("log", BEGIN_NS - 120 * MINUTE_NS, END_NS + 30 * MINUTE_NS)
    assert minutes([trace], [log]) == (130.0, 40.0)
    assert minutes([], [log]) == (130.0, 40.0)
    short = given("log", BEGIN_NS - 5 * MINUTE_NS, END_NS)
    assert minutes([trace], [short]) == (70.0, 10.0)
    assert minutes([], [short]) == (15.0, 10.0)


def test_a_window_of_the_address_has_no_margin() -> None:
    query = "?start=1789999940&end=1790000080"
    assert minutes([given("trace", BEGIN_NS, END_NS)], [], query) == (1.0, 1.0)
