"""Tables of telemetry, of logs and of what follows from them."""

from __future__ import annotations

from stepscope.views.csv import render
from stepscope.views.table import TABLES, table
from tests.diagnose import build
from tests.export.test_job_tables import rows
from tests.views.measured import CLOCKS, DEVICES, T0, S, measured

SIGNALS = (
    "signals", "signal_points", "signal_steps", "telemetry_clocks", "events", "progress", "patterns",
    "pattern_evidence", "walks", "hints",
)  # fmt: skip


def test_a_signal_is_a_row_and_its_samples_are_rows_of_their_own() -> None:
    whole = measured()
    found = rows("signals", whole)
    assert len(found) == len(whole.signals)
    assert "points" not in found[0]
    power = next(row for row in found if row["signal"] == "power_watts" and row["rank"] == 1)
    assert (power["device.uuid"], power["unit"], power["samples"]) == (DEVICES[1].uuid, "W", 10)
    samples = rows("signal_points", whole)
    assert len(samples) == sum(len(each.points) for each in whole.signals)
    mine = [row for row in samples if row["signal"] == "sm_active_ratio" and row["device.index"] == 0]
    assert mine[0]["at_ns"] == T0 - 20 * S + 600_000_000
    assert mine[0]["value"] == 0.71


def test_steps_of_a_signal_name_their_device_and_step() -> None:
    (first, *others) = rows("signal_steps", measured())
    assert len(others) == 15
    assert (first["signal"], first["device.index"], first["step"], first["samples"]) == (
        "sm_active_ratio",
        0,
        5,
        2,
    )


def test_a_lag_that_is_not_known_is_an_empty_cell() -> None:
    found = rows("telemetry_clocks", measured())
    assert [row["status"] for row in found] == [each.status for each in CLOCKS]
    assert [row["lag_ns"] for row in found] == [600_000_000, None, None]
    assert found[1]["lag_range_ns"] == "0 4000000000"


def test_both_sides_of_a_pattern_are_told_apart() -> None:
    found = rows("patterns", measured())
    assert [(row["pattern"], row["as_written.holds"], row["effective.holds"]) for row in found] == [
        ("B", None, None),
        ("D", True, False),
        ("A", False, True),
    ]
    numbers = rows("pattern_evidence", measured())
    assert [(row["pattern"], row["side"], row["feature"]) for row in numbers] == [
        ("D", "as_written", "loader_share"),
        ("D", "effective", "idle_input_share"),
        ("A", "as_written", "sm_occupancy_mean"),
        ("A", "effective", "sm_active_mean"),
        ("A", "effective", "slow_gemm_share"),
    ]


def test_a_walk_is_its_stations_in_order() -> None:
    found = rows("walks", measured())
    assert [(row["walk"], row["place"], row["status"]) for row in found[:4]] == [
        ("low-utilisation", 1, "ok"),
        ("low-utilisation", 2, "suspect"),
        ("low-utilisation", 3, "unknown"),
        ("busy-low-power", 1, "suspect"),
    ]


def test_events_progress_and_hints_are_rows() -> None:
    whole = measured()
    assert [row["code"] for row in rows("events", whole)][:3] == [None, 79, None]
    assert rows("progress", whole)[0]["step_growth_ratio"] == 1.083
    assert rows("hints", whole)[0]["hint"] == "low-occupancy"


def test_without_telemetry_the_tables_have_their_columns_and_no_row() -> None:
    assert set(SIGNALS) <= set(TABLES)
    for name in SIGNALS:
        found = table(build.healthy(), name)
        assert found.columns
        assert found.rows == ()
        assert render(found).count(b"\r\n") == 1
