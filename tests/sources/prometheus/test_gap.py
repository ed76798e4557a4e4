"""Gaps: what is not known for want of a scrape is not idle."""

from __future__ import annotations

import numpy as np

from stepscope.sources.formats.metric import Metric
from stepscope.sources.prometheus.answer import Line
from stepscope.sources.prometheus.gap import down, interval_ms, silent
from stepscope.sources.prometheus.plan import Span

WHERE = {"instance": "n1:9400", "job": "dcgm"}
SECOND = 1_000_000_000


def up(*values: float) -> Line:
    return Line(WHERE, np.arange(len(values), dtype=np.int64) * 15 * SECOND, np.array(values))


def metric(*seconds: int) -> Metric:
    at_ns = np.array(seconds, np.int64) * SECOND
    return Metric("m", WHERE, at_ns, np.zeros(len(at_ns)))


def test_a_target_is_down_from_the_first_failed_scrape_to_the_next_that_succeeds() -> None:
    (gap,) = down([up(1, 1, 0, 0, 1)])
    assert (gap.span, gap.num_scrapes, gap.is_down) == (Span(30_000, 60_000), 2, True)
    assert str(gap) == (
        "n1:9400 (job dcgm) could not be scraped (up = 0) 1970-01-01 00:00:30–00:01:00 UTC: a gap, not idle"
    )


def test_a_target_may_be_down_at_both_ends() -> None:
    gaps = down([up(0, 1, 0)])
    assert [gap.span for gap in gaps] == [Span(0, 15_000), Span(30_000, 30_000)]


def test_a_target_that_is_up_has_no_gap() -> None:
    assert down([up(1, 1, 1)]) == []
    assert down([]) == []


def test_the_scrape_interval_is_that_of_the_fullest_series() -> None:
    assert interval_ms([metric(0, 30, 60), metric(0, 15, 30, 46, 60)]) == 15_000
    assert interval_ms([metric(0, 15)]) is None
    assert interval_ms([]) is None


def test_nothing_stored_is_a_gap_and_one_late_scrape_is_none() -> None:
    (gap,) = silent([metric(*range(0, 100, 10), *range(160, 300, 10))], [])
    assert (gap.span, gap.num_scrapes, gap.is_down) == (Span(90_000, 160_000), 6, False)
    assert silent([metric(*range(0, 100, 10), *range(110, 300, 10))], []) == []


def test_a_gap_that_up_explains_is_told_once() -> None:
    metrics = [metric(*range(0, 30, 5), *range(60, 120, 5))]
    assert silent(metrics, down([up(1, 1, 0, 0, 1)])) == []
