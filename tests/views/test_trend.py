"""Signals on the axis of the traces: lags taken off, gaps kept, doubt told, and no sample lost or moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepscope.model import report
from stepscope.views.trend import Placed, bars, placed, reaches, slices
from tests.views.measured import MS, S, signal

T = 1_000 * S


def summary(*points: tuple[float, float]) -> report.SignalSummary:
    made = tuple((T + round(S * second), value) for second, value in points)
    return replace(signal(0, "power_watts", 1.0), points=made)


def clock(
    status: report.LagStatus, lag: int | None = None, span: tuple[int, int] | None = None
) -> report.TelemetryClock:
    return report.TelemetryClock(source="dcgm", status=status, lag_ns=lag, lag_range_ns=span, window_ns=S)


def test_a_found_lag_is_taken_off_and_its_error_is_kept() -> None:
    one = placed(summary((5, 1.0), (6, 2.0)), clock("found", 600 * MS, (500 * MS, 750 * MS)))
    assert one.points == ((T + 4_400 * MS, 1.0), (T + 5_400 * MS, 2.0))
    # A lag of 750 ms would put it 150 ms earlier, one of 500 ms 100 ms later.
    assert (one.before_ns, one.after_ns, one.is_raw) == (150 * MS, 100 * MS, False)


def test_an_ambiguous_lag_lies_in_the_middle_of_its_span() -> None:
    one = placed(summary((5, 1.0)), clock("ambiguous", None, (0, 4 * S)))
    assert one.points == ((T + 3 * S, 1.0),)
    assert (one.before_ns, one.after_ns) == (2 * S, 2 * S)


@pytest.mark.parametrize("known", [None, clock("unknown")])
def test_without_any_lag_a_signal_lies_where_it_was_read(known: report.TelemetryClock | None) -> None:
    one = placed(summary((5, 1.0)), known)
    assert one.points == ((T + 5 * S, 1.0),)
    assert one.is_raw


def test_a_gap_parts_a_line_and_a_late_sample_does_not() -> None:
    one = Placed(tuple((n * S, 1.0) for n in (0, 1, 2, 4, 5, 12, 13)))
    assert [[at // S for at, _ in run] for run in one.runs()] == [[0, 1, 2, 4, 5], [12, 13]]


def test_points_chosen_out_of_many_are_uneven_without_a_gap() -> None:
    """Two of each cell of 4 s, its extremes: neighbours are 0.1 s to 7.9 s apart."""
    times = [at for n in range(120) for at in (4 * n * S, 4 * n * S + 100 * MS)]
    assert len(Placed(tuple((at, 1.0) for at in times)).runs()) == 1


def test_doubt_spans_every_value_that_may_lie_there() -> None:
    """A single peak at 30 s whose lag is known to ±10 s may lie anywhere from 20 s to 40 s."""
    points = tuple((n * S, 1.0 if n == 30 else 0.0) for n in range(61))
    (run,) = reaches(Placed(points, before_ns=10 * S, after_ns=10 * S), 0, 60 * S)
    high = [each.at_ns / S for each in run if each.most == 1.0]
    assert (min(high), max(high)) == (20.0, 41.0)
    assert all(each.least == 0.0 for each in run)


def test_a_lag_that_is_known_well_has_no_span() -> None:
    points = tuple((n * S, 1.0) for n in range(61))
    assert reaches(Placed(points, before_ns=50 * MS, after_ns=50 * MS), 0, 60 * S) == []


def test_a_sample_is_a_bar_over_the_window_that_it_describes() -> None:
    one = Placed(((10 * S, 1.0), (11 * S, 2.0), (12 * S, 3.0)), window_ns=S)
    found = bars(one, 9_500 * MS, 11_200 * MS)
    assert [(each.start_ns, each.end_ns, each.value) for each in found] == [
        (9_500 * MS, 10 * S, 1.0),
        (10 * S, 11 * S, 2.0),
        (11 * S, 11_200 * MS, 3.0),
    ]


def test_without_a_window_a_sample_holds_since_the_one_before_but_not_over_a_gap() -> None:
    one = Placed(tuple((n * S, float(n)) for n in (0, 1, 2, 9, 10)))
    found = bars(one, 0, 20 * S)
    assert [(each.start_ns // S, each.end_ns // S) for each in found] == [(0, 1), (1, 2), (9, 10)]


lists = st.lists(st.tuples(st.integers(0, 10**12), st.floats(-1e9, 1e9)), min_size=1, max_size=300,
                 unique_by=lambda each: each[0])  # fmt: skip


@given(found=lists, number=st.integers(1, 40))
def test_every_sample_is_in_one_slice_and_one_run(found: list[tuple[int, float]], number: int) -> None:
    one = Placed(tuple(sorted(found)))
    first, last = one.points[0][0], one.points[-1][0]
    assert [point for run in one.runs() for point in run] == list(one.points)
    pieces = slices(one, first, max(last, first + number), number)
    assert sum(each.count for each in pieces) == len(found)
    assert min(each.least for each in pieces) == min(value for _, value in found)
    assert max(each.most for each in pieces) == max(value for _, value in found)


@given(
    found=lists,
    window=st.one_of(st.none(), st.integers(1, 10**11)),
    start=st.integers(0, 10**12),
    length=st.integers(1, 10**12),
)
def test_bars_lie_within_the_time_asked_for_and_never_on_one_another(
    found: list[tuple[int, float]], window: int | None, start: int, length: int
) -> None:
    made = bars(Placed(tuple(sorted(found)), window_ns=window), start, start + length)
    ends = start
    for each in made:
        assert ends <= each.start_ns < each.end_ns <= start + length
        ends = each.end_ns
