from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.error import UsageError
from stepscope.store.contract import Line
from stepscope.store.retention import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, Retention
from stepscope.store.store import Store
from stepscope.store.thin import thin
from tests.store.made import BATCH_NS, EVERY_NS, START_NS, request, value


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    now = [START_NS]
    folder = tmp_path_factory.mktemp("store")
    store = Store.open(str(folder), now_ns=lambda: now[0], retention=Retention(reserve_bytes=0))
    for number in range(1, 80):
        now[0] = START_NS + number * BATCH_NS
        store.keep(request(number))
    store.tend()
    return store


def one(lines: tuple[Line, ...], owner: str) -> Line:
    (found,) = (each for each in lines if each.owner == owner)
    return found


def test_raw_rows_are_drawn_where_a_pixel_is_less_than_a_minute(store: Store) -> None:
    end = START_NS + 79 * BATCH_NS
    line = one(store.lines(["power_watts"], end - HOUR_NS, end, 400, job="llama", ranks=[1]), "GPU-0001")
    assert (line.resolution, line.unit, line.labels["rank"]) == ("raw", "W", "1")
    wanted = np.arange(end - HOUR_NS, end, EVERY_NS)
    np.testing.assert_array_equal(line.at_ns, wanted)
    assert line.value.tolist() == [value(1, "power_watts", at) for at in wanted.tolist()]


def test_a_long_window_keeps_the_least_and_the_most_of_every_pixel(store: Store) -> None:
    end = START_NS + 79 * BATCH_NS
    lines = store.lines(["power_watts"], START_NS, end, 100, job="llama", run="r1")
    line = one(lines, "GPU-0000")
    assert line.resolution == "minute"
    assert len(line.at_ns) <= 200
    assert (np.diff(line.at_ns) >= 0).all()
    width = -(-(end - START_NS) // 100)
    at_ns = np.arange(START_NS, end, EVERY_NS)
    values = np.array([value(0, "power_watts", at) for at in at_ns.tolist()])
    for pixel in range(100):
        # A minute belongs to the pixel in which it begins; what is not rolled up yet to its own.
        mine = line.value[(line.at_ns - START_NS) // width == pixel]
        inside = (at_ns // MINUTE_NS * MINUTE_NS - START_NS) // width == pixel
        if pixel < 90:
            assert (mine.min(), mine.max()) == (values[inside].min(), values[inside].max()), pixel


def test_coarser_windows_take_coarser_rollups_and_the_last_hours_too(store: Store) -> None:
    end = START_NS + 79 * BATCH_NS
    for pixels, resolution in ((10, "hour"), (1, "day")):
        line = one(store.lines(["power_watts"], START_NS, end, pixels, hosts=["gpu-node-1"]), "GPU-0000")
        assert line.resolution == resolution
        values = [value(0, "power_watts", at) for at in range(START_NS, end, EVERY_NS)]
        assert (line.value.min(), line.value.max()) == (min(values), max(values))
        assert pixels == 1 or line.at_ns[-1] >= end - 3 * HOUR_NS


def test_steps_of_a_rank_are_drawn_from_marks_and_from_their_minutes(store: Store) -> None:
    end = START_NS + 79 * BATCH_NS
    for start, resolution in ((end - HOUR_NS, "raw"), (START_NS, "minute")):
        signals = ["step_seconds", "tokens_per_second"]
        lines = store.lines(signals, start, end, 400, job="llama", run="r1", ranks=[0])
        assert [each.signal for each in lines] == signals
        assert {each.resolution for each in lines} == {resolution}
        assert set(lines[0].value.tolist()) == {10.0}
        assert set(lines[1].value.tolist()) == {100.0}
        assert lines[0].labels["rank"] == "0"
        assert lines[0].at_ns[0] < start + 10 * MINUTE_NS
        assert lines[0].at_ns[-1] > end - 10 * MINUTE_NS


def test_nothing_fits_nothing_is_drawn_and_an_empty_window_is_refused(store: Store) -> None:
    end = START_NS + 79 * BATCH_NS
    assert store.lines(["power_watts"], START_NS, end, 100, job="other") == ()
    assert store.lines(["power_watts"], START_NS, end, 100, devices=["GPU-9999"]) == ()
    assert len(store.lines(["power_watts"], START_NS, end, 100, devices=["GPU-0001"])) == 1
    assert store.lines(["no_such_signal"], START_NS, end, 100) == ()
    with pytest.raises(UsageError, match="window is empty"):
        store.lines(["power_watts"], end, START_NS, 100)


def test_resolution_follows_age_as_well_as_width(store: Store) -> None:
    pictures = store._pictures
    now = store._now_ns()
    assert pictures.resolution(now - HOUR_NS, SECOND_NS) == "raw"
    assert pictures.resolution(now - 8 * DAY_NS, SECOND_NS) == "minute"
    assert pictures.resolution(now - 100 * DAY_NS, SECOND_NS) == "hour"
    assert pictures.resolution(now, 8 * DAY_NS) == "week"


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(-10, 10)), min_size=1, max_size=60), st.integers(1, 70)
)
@settings(max_examples=60, deadline=None)
def test_thinning_keeps_extremes_in_order_and_no_more_than_two_a_pixel(
    rows: list[tuple[int, float]], width: int
) -> None:
    at_ns = np.cumsum(np.array([gap for gap, _ in rows], dtype=np.int64))
    values = np.array([each for _, each in rows])
    found_ns, found = thin(at_ns, values, values, 0, width)
    assert (np.diff(found_ns) > 0).all()
    for pixel in np.unique(at_ns // width):
        mine, all_ = found[found_ns // width == pixel], values[at_ns // width == pixel]
        assert 1 <= len(mine) <= 2
        assert (mine.min(), mine.max()) == (all_.min(), all_.max())
