"""Counters beside kernels in a Perfetto file: on one axis, with their units, and with gaps as gaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope import offline
from stepscope.export import perfetto
from stepscope.model import report
from stepscope.model.sample import Owner, Series, Telemetry
from stepscope.model.text import Lang
from stepscope.views.perfetto.telemetry import AROUND_NS, owner_tracks
from tests.views.perfetto.engine import Engine
from tests.views.perfetto.test_written import DEMO, complaints

S = 1_000_000_000
UUID = "GPU-5f0c9a31-0000-4000-8000-000000000000"
GPU = Owner(uuid=UUID, index=0, model="NVIDIA H100", host="node1")
HOST = Owner(kind="host", host="node1")
COUNTERS = """
    select t.name, c.ts, c.value, ct.unit from counter c
    join track t on c.track_id = t.id join counter_track ct on ct.id = t.id
    order by t.name, c.ts
"""


def series(signal: str, seconds: list[float], values: list[float], owner: Owner = GPU, at: int = 0) -> Series:
    times = np.array([at + round(S * second) for second in seconds], dtype=np.int64)
    return Series(signal, owner, times, np.array(values, dtype=np.float64))


def source(*found: Series, name: str = "dcgm.prom", window_ns: int | None = S) -> Telemetry:
    return Telemetry(name=name, format="dcgm-exporter", series=found, time="scrape", window_ns=window_ns)


@pytest.fixture(scope="module")
def demo() -> offline.Diagnosed:
    return offline.diagnosed([DEMO])


def begin(done: offline.Diagnosed) -> int:
    start = done.report.inputs[0].start_ns
    assert start is not None
    return start


def told(done: offline.Diagnosed, *clocks: report.TelemetryClock, **more: Any) -> offline.Diagnosed:
    made = msgspec.structs.replace(done.report, clocks=report.Clocks(telemetry=clocks), **more)
    return replace(done, report=made)


def write(
    done: offline.Diagnosed, out: Path, telemetry: list[Telemetry], lang: Lang = "en"
) -> perfetto.Written:
    with out.open("wb") as sink:
        return perfetto.write(done, sink, lang, telemetry)


def found(lag_ns: int = 3 * S) -> report.TelemetryClock:
    return report.TelemetryClock(source="dcgm.prom", status="found", window_ns=S, lag_ns=lag_ns)


def test_a_value_stands_where_the_time_that_it_describes_begins(demo: Any, tmp_path: Path) -> None:
    """Read at 5 s with a lag of 3 s and a window of 1 s: it describes 1 s to 2 s of the trace."""
    at = begin(demo)
    counts = write(
        told(demo, found()),
        tmp_path / "out",
        [source(series("power_watts", [5, 6, 7], [612.0, 640.5, 655.0], at=at))],
    )
    with Engine(tmp_path / "out") as engine:
        rows = [row for row in engine.query(COUNTERS) if row[0] == "power"]
        (title,) = engine.query("select name from track where name glob 'stepscope, counters:*'")
        assert complaints(engine) == []
    assert rows == [
        ("power", at + 1 * S, 612.0, "W"),
        ("power", at + 2 * S, 640.5, "W"),
        ("power", at + 3 * S, 655.0, "W"),
        ("power", at + 4 * S, None, "W"),
    ]
    assert title == (f"stepscope, counters: device 0 (NVIDIA H100, {UUID})",)
    assert (counts.samples, counts.outside) == (3, 0)


def test_kernels_and_counters_lie_on_one_clock(demo: Any, tmp_path: Path) -> None:
    at = begin(demo)
    write(
        told(demo, found(0)), tmp_path / "out", [source(series("sm_active_ratio", [1, 2], [0.5, 0.7], at=at))]
    )
    with Engine(tmp_path / "out") as engine:
        (first,) = engine.query("select min(ts) from slice where category = 'kernel'")
        values = engine.query(
            "select c.ts, c.value from counter c join track t on c.track_id = t.id "
            "where t.name = 'SM active' and c.value is not null order by 1"
        )
    assert values == [(at, 50.0), (at + S, 70.0)]
    assert 0 <= first[0] - at < S


def test_nothing_is_held_over_a_gap(demo: Any, tmp_path: Path) -> None:
    """Samples at 0, 1, 2 and 10, 11 s: SQL has NULL from 3 s on, and a slice says so; 0 is never written."""
    at = begin(demo)
    write(
        told(demo, found(0)),
        tmp_path / "out",
        [source(series("power_watts", [0, 1, 2, 10, 11], [600.0] * 5, at=at), window_ns=0)],
    )
    with Engine(tmp_path / "out") as engine:
        rows = [(ts - at, value) for name, ts, value, _ in engine.query(COUNTERS) if name == "power"]
        gaps = engine.query("select ts, dur, name from slice where category = 'stepscope.no_samples'")
        lowest = engine.query(
            "select min(c.value) from counter c join track t on c.track_id = t.id where t.name = 'power'"
        )
    values = [600.0, 600.0, 600.0, None, 600.0, 600.0, None]
    assert rows == [(n * S - S, value) for n, value in zip([0, 1, 2, 3, 10, 11, 12], values, strict=True)]
    assert gaps == [(at + 2 * S, 7 * S, "no samples")]
    assert lowest == [(600.0,)]


@pytest.mark.parametrize(
    ("clock", "lang", "note"),
    [
        (None, "en", "power (lag unknown)"),
        (
            report.TelemetryClock(source="dcgm.prom", status="ambiguous", lag_range_ns=(0, 4 * S)),
            "en",
            "power (lag ambiguous: 0 s to 4.00 s)",
        ),
        (
            report.TelemetryClock(source="dcgm.prom", status="unknown", lag_range_ns=(0, S)),
            "zh",
            "功耗（滞后未知）",
        ),
        (report.TelemetryClock(source="dcgm.prom", status="declared", lag_ns=0), "en", "power"),
    ],
)
def test_a_lag_that_is_not_known_is_not_taken_off_and_said(
    demo: Any, tmp_path: Path, clock: report.TelemetryClock | None, lang: Lang, note: str
) -> None:
    at = begin(demo)
    clocks = [clock] if clock is not None else []
    given = [source(series("power_watts", [5, 6], [612.0, 640.0], at=at), window_ns=None)]
    write(told(demo, *clocks), tmp_path / "out", given, lang)
    with Engine(tmp_path / "out") as engine:
        rows = [row for row in engine.query(COUNTERS) if row[3] == "W"]
    assert {row[0] for row in rows} == {note}
    assert [row[1] - at for row in rows][:2] == [5 * S, 6 * S]


def test_clock_reasons_are_slices_in_words_and_the_last_xid_is_no_counter(demo: Any, tmp_path: Path) -> None:
    at = begin(demo)
    mask = series("clock_event_reasons", [1, 2, 3, 4, 5], [0, 4, 4, 0x60, 0], at=at)
    write(told(demo, found(0)), tmp_path / "out", [source(mask, series("xid", [1, 2], [79, 79], at=at))])
    with Engine(tmp_path / "out") as engine:
        rows = engine.query(
            "select ts, dur, name from slice where category = 'stepscope.clock_reason' order by 1"
        )
        names = {name for name, *_ in engine.query(COUNTERS)}
    assert rows == [
        (at + S, 2 * S, "power limit"),
        (at + 3 * S, S, "temperature (driver), temperature (hardware)"),
    ]
    assert "last Xid" not in names


def test_events_are_instants_and_those_of_another_day_are_left_out_and_counted(
    demo: Any, tmp_path: Path
) -> None:
    at = begin(demo)
    events = (
        report.Event(at_ns=at + S, kind="xid", severity="critical", text="fell off the bus", code=79, rank=0),
        report.Event(at_ns=at + 2 * S, kind="oom", severity="critical", text="CUDA out of memory"),
        report.Event(at_ns=at - 86_400 * S, kind="start", severity="info", text="hello"),
    )
    counts = write(told(demo, events=events), tmp_path / "out", [])
    with Engine(tmp_path / "out") as engine:
        rows = engine.query(
            "select ts, dur, name from slice where category glob 'stepscope.event.*' order by 1"
        )
        assert complaints(engine) == []
    assert rows == [
        (at + S, 0, "Xid 79: fell off the bus"),
        (at + 2 * S, 0, "out of memory: CUDA out of memory"),
    ]
    assert counts.outside == 1


def test_an_hour_of_samples_leaves_the_kernels_large_enough_to_see(demo: Any, tmp_path: Path) -> None:
    at = begin(demo)
    hour = series("power_watts", [float(n) for n in range(-1800, 1800)], [600.0] * 3600, at=at)
    counts = write(told(demo, found(0)), tmp_path / "out", [source(hour)])
    assert counts.samples + counts.outside == 3600
    assert 120 <= counts.samples <= 124
    with Engine(tmp_path / "out") as engine:
        ((first, last),) = engine.query("select min(ts), max(ts) from counter where ts > 0")
    assert at - first <= AROUND_NS
    assert last - at <= 2 * AROUND_NS


def test_telemetry_without_a_trace_is_on_wall_time(tmp_path: Path) -> None:
    from stepscope.views.perfetto import PerfettoFile

    at = 1_714_566_790 * S
    given = source(
        series("memory_used_bytes", [0, 1], [61.0 * 2**30, 62.0 * 2**30], at=at),
        series("cpu_iowait_ratio", [0, 1], [0.1, 0.2], HOST, at=at),
    )
    with (tmp_path / "out").open("wb") as sink:
        file = PerfettoFile(sink)
        file.add_telemetry([given], {}, "en")
    with Engine(tmp_path / "out") as engine:
        rows = engine.query(COUNTERS)
        titles = {
            name for (name,) in engine.query("select name from track where name glob 'stepscope, counters:*'")
        }
        assert complaints(engine) == []
    assert rows[0] == ("CPU waiting for disk", at, 10.0, "%")
    assert ("memory used", at, 61.0 * 2**30) in [row[:3] for row in rows]
    assert {title.partition(" (")[0] for title in titles} == {
        f"stepscope, counters: {name}" for name in ("device 0", "node1")
    }


def test_counters_stand_in_the_order_of_the_source_and_what_was_found_stands_first(
    demo: Any, tmp_path: Path
) -> None:
    at = begin(demo)
    given_ = source(
        series("power_watts", [0, 1], [1.0, 2.0], at=at), series("sm_active_ratio", [0], [0.5], at=at)
    )
    write(told(demo, found(0)), tmp_path / "out", [given_])
    with Engine(tmp_path / "out") as engine:
        order = engine.query(
            "select a.key, coalesce(a.string_value, a.int_value), t.name from track t "
            "join args a on a.arg_set_id = t.source_arg_set_id where a.key in "
            "('child_ordering', 'sibling_order_rank') and t.name in ('power', 'SM active') "
            "or a.key = 'child_ordering' order by t.name desc"
        )
        names = [name for (name,) in engine.query("select name from track where name glob 'stepscope*'")]
    assert [row[:2] for row in order] == [
        ("child_ordering", "explicit"),
        ("sibling_order_rank", 0),
        ("sibling_order_rank", 1),
    ]
    assert sorted(names)[0] == "stepscope"


def test_two_sources_of_one_device_are_told_apart_and_ranks_are_named() -> None:
    one = source(series("power_watts", [0, 1], [1.0, 2.0]))
    other = source(series("power_watts", [0, 1], [3.0, 4.0], replace(GPU, index=None)), name="smi.csv")
    (tracks,), _ = owner_tracks([one, other], {}, None, "en", {UUID: 3})
    assert [track.name for track in tracks.counters] == ["power (dcgm.prom)", "power (smi.csv)"]
    assert tracks.title == f"counters: rank 3, device 0 (NVIDIA H100, {UUID})"


def test_hosts_leave_only_under_the_reports_pseudonyms(demo: Any, tmp_path: Path) -> None:
    at = begin(demo)
    write(told(demo), tmp_path / "out", [source(series("cpu_user_ratio", [0, 1], [0.1, 0.2], HOST, at=at))])
    data = (tmp_path / "out").read_bytes()
    assert b"node1" not in data
    assert b"stepscope, counters: host-" in data


@given(
    seconds=st.lists(st.integers(0, 500), min_size=1, max_size=60, unique=True),
    window=st.sampled_from([None, 0, S // 6, S]),
)
def test_every_sample_is_there_once_in_order_and_is_followed_by_another_or_by_nothing(
    seconds: list[int], window: int | None
) -> None:
    times = sorted(seconds)
    given_ = source(
        series("power_watts", [float(t) for t in times], [float(t) for t in times]), window_ns=window
    )
    (tracks,), outside = owner_tracks([given_], {}, None, "en")
    (counter,) = tracks.counters
    assert outside == 0
    assert (np.diff(counter.at_ns) > 0).all()
    assert np.isnan(counter.value[-1])
    known = ~np.isnan(counter.value)
    assert counter.value[known].tolist() == times
    # A value is held no longer than over a usual distance or the window.
    held = np.diff(counter.at_ns)[known[:-1]]
    usual = np.median(np.diff(times)) * S if len(times) > 1 else 0
    assert held.max() <= max(2.5 * usual, window or 0, 1)
