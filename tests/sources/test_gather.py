"""What holds for every source, whatever it is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.sample import Owner
from stepscope.model.signal import SIGNALS
from stepscope.sources.dcgm_field import BYTES, CYCLES, FIELDS
from stepscope.sources.field import Field
from stepscope.sources.gather import Gathering
from stepscope.sources.nvml_field import CALLS, FIELD_VALUES, GPM, NVLINK_KIB
from stepscope.sources.owner import pci_bus_id

GPU = Owner(uuid="GPU-1")


def column(*pairs: tuple[int, float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([at for at, _ in pairs], np.int64), np.array([value for _, value in pairs], np.float64)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.floats(allow_nan=True, allow_infinity=True)), max_size=8),
        max_size=4,
    )
)
def test_times_ascend_values_are_finite_and_every_sample_is_kept_or_missing(
    columns: list[list[tuple[int, float]]],
) -> None:
    gathering = Gathering("test")
    for pairs in columns:
        gathering.add(GPU, Field("power_watts"), "power", *column(*sorted(pairs, key=lambda pair: pair[0])))
    telemetry = gathering.telemetry("test", "sample")
    kept = 0
    for each in telemetry.series:
        assert np.all(np.diff(each.at_ns) > 0)
        assert np.all((each.value >= 0) & (each.value <= 5000))
        kept += len(each)
    lost = sum(each.count for each in telemetry.missing if each.reason != "vanished")
    assert kept + lost == sum(map(len, columns))


def test_the_first_of_two_values_at_one_time_counts() -> None:
    gathering = Gathering("test")
    gathering.add(GPU, Field("power_watts"), "power", *column((1, 5.0), (2, 6.0)))
    gathering.add(GPU, Field("power_watts"), "power", *column((2, 9.0), (3, 7.0)))
    (series,) = gathering.telemetry("test", "sample").series
    assert (series.at_ns.tolist(), series.value.tolist()) == ([1, 2, 3], [5.0, 6.0, 7.0])


def test_a_sum_of_parts_is_told_only_where_all_parts_are() -> None:
    gathering = Gathering("test")
    gathering.add(GPU, Field("retired_pages_total", part="a"), "a", *column((1, 5.0), (2, 6.0)))
    gathering.add(GPU, Field("retired_pages_total", part="b"), "b", *column((2, 1.0), (3, 1.0)))
    (series,) = gathering.telemetry("test", "sample").series
    assert (series.at_ns.tolist(), series.value.tolist()) == ([2], [7.0])


def test_what_a_later_series_knows_of_an_owner_is_added() -> None:
    gathering = Gathering("test")
    gathering.add(GPU, Field("power_watts"), "power", *column((1, 5.0)))
    more = Owner(uuid="GPU-1", host="n1", model="NVIDIA H100 PCIe", index=3)
    gathering.add(more, Field("temperature_celsius"), "temp", *column((1, 50.0)))
    assert {each.owner for each in gathering.telemetry("test", "sample").series} == {more}


def test_a_series_that_ends_two_intervals_early_has_vanished_and_one_that_misses_the_last_has_not() -> None:
    def vanished(last: int) -> int:
        gathering = Gathering("test")
        gathering.add(GPU, Field("power_watts"), "power", *column(*((at, 5.0) for at in range(10))))
        short = column(*((at, 5.0) for at in range(last)))
        gathering.add(GPU, Field("temperature_celsius"), "temp", *short)
        return sum(each.count for each in gathering.telemetry("test", "sample").missing)

    assert vanished(9) == 0
    assert vanished(8) == 2


def test_every_table_names_signals_that_exist() -> None:
    fields = [row.field for row in FIELDS.values()] + [row.field for row in GPM.values()]
    fields += [*CALLS.values(), *FIELD_VALUES.values()]
    named = {field.signal for field in fields} | set(NVLINK_KIB.values())
    named |= {signal for _, signal in (*CYCLES.values(), *BYTES.values())}
    assert named <= SIGNALS.keys()


def test_gpm_is_a_hundred_times_dcgm() -> None:
    for row in GPM.values():
        of_dcgm = FIELDS[row.dcgm or 0].field
        assert row.field.signal == of_dcgm.signal
        if row.id < 20:
            assert (row.field.factor, of_dcgm.factor) == (0.01, 1.0)


def test_a_bus_id_has_one_spelling() -> None:
    assert (
        pci_bus_id("00000000:A8:00.0")
        == pci_bus_id("0000:a8:00.0")
        == pci_bus_id("A8:00.0")
        == "0000:a8:00.0"
    )
    assert pci_bus_id("00010000:03:00.0") == "10000:03:00.0"
    assert pci_bus_id("N/A") is pci_bus_id(None) is None
