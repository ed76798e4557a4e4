"""Scope of figures: what one card cannot have is told, and withheld from verdicts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscope.analyse.telemetry.capacity import GIGABYTES, memory_bytes_of
from stepscope.analyse.telemetry.scope import CODES, Scope, cards, scope, without
from stepscope.analyse.telemetry.table import samples_of
from stepscope.model.hardware import TABLE
from stepscope.model.sample import Missing, Owner, Series, Telemetry

SECOND = 1_000_000_000
H100 = Owner(index=0, model="NVIDIA H100 80GB HBM3")
GIB = 1 << 30


def telemetry(owner: Owner = H100, **signals: object) -> Telemetry:
    series = []
    for name, given in signals.items():
        value = np.atleast_1d(np.asarray(given, dtype=np.float64))
        series.append(Series(name, owner, np.arange(len(value), dtype=np.int64) * SECOND, value))
    return Telemetry("metrics.prom", "prometheus", tuple(series), "scrape")


def told(*sources: Telemetry, num_devices: int | None = None) -> list[tuple[str, str]]:
    return [(each.code, each.signal) for each in scope(sources, num_devices).suspects]


def test_eight_cards_of_320_watts_given_as_one() -> None:
    source = telemetry(power_watts=[2560.0] * 5, compute_busy_ratio=[0.96] * 5)
    found = scope([source])
    (issue,) = found.issues()
    assert (issue.code, issue.effect, issue.affects) == ("sum_of_cards", "withheld", ("power_watts",))
    assert issue.detail == (
        "power_watts of gpu 0 is 2,560 W, and the rated power of its model is 700 W: it looks like the sum "
        "of 4 to 8 cards (320 to 640 W each), or another unit; as one card's it is not judged"
    )
    (kept,) = without([source], found)
    assert [each.signal for each in kept.series] == ["compute_busy_ratio"]
    (samples,) = samples_of([kept])
    assert not samples.has("power_watts")
    assert found.numbers(H100) == {"scope_suspects": 1.0}


def test_one_card_of_320_watts_is_one_card() -> None:
    source = telemetry(power_watts=[320.0] * 5, compute_busy_ratio=[0.96] * 5, memory_used_bytes=[62 * GIB])
    assert told(source) == []
    assert scope([source]).numbers(H100) == {"scope_suspects": 0.0}
    assert without([source], Scope()) == (source,)


@pytest.mark.parametrize(
    ("total", "limit", "fit"),
    [
        (2560, 700, (4, 8)),
        (5600, 700, (8, 8)),
        (1000, 700, (2, 8)),
        (900, 400, (3, 8)),
        (9000, 700, (13, 16)),
    ],
)
def test_how_many_cards_fit_a_sum(total: float, limit: float, fit: tuple[int, int]) -> None:
    assert cards(total, limit) == fit


def test_a_limit_that_is_a_sum_itself_judges_nothing() -> None:
    both = telemetry(power_watts=[2560.0], power_limit_watts=[5600.0])
    assert told(both) == [("sum_of_cards", "power_limit_watts"), ("sum_of_cards", "power_watts")]
    lowered = telemetry(power_watts=[640.0], power_limit_watts=[400.0])
    assert told(lowered) == [("sum_of_cards", "power_watts")]


def test_a_spike_over_the_limit_is_no_sum() -> None:
    power = np.full(100, 690.0)
    power[7] = 1100.0
    assert told(telemetry(power_watts=power)) == []


def test_of_an_unknown_model_only_what_no_card_can_is_said() -> None:
    unknown = Owner(index=0, model="NVIDIA Rubin")
    assert told(telemetry(unknown, power_watts=[1500.0])) == []
    assert told(telemetry(unknown, memory_used_bytes=[200 * GIB])) == []
    assert told(telemetry(unknown, power_watts=[2560.0])) == [("sum_of_cards", "power_watts")]
    assert told(telemetry(unknown, nvlink_tx_bytes_per_second=[9e12])) == []


def test_a_slice_of_a_card_has_no_limits_of_the_card() -> None:
    mig = Owner(index=0, mig="3", model="NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    assert told(telemetry(mig, sm_active_ratio=[1.3] * 20)) == []
    assert told(telemetry(sm_active_ratio=[1.3] * 20)) == [("sum_of_cards", "sm_active_ratio")]


def test_energy_that_is_called_power() -> None:
    source = telemetry(power_watts=np.arange(60) * 320.0 + 5000.0)
    assert told(source) == [("energy_as_power", "power_watts")]
    ramp = telemetry(power_watts=np.linspace(100, 690, 60))
    assert told(ramp) == []


def test_memory_of_eight_cards_and_of_one() -> None:
    eight = telemetry(memory_used_bytes=[8 * 62 * GIB], memory_total_bytes=[8 * 80 * GIB])
    found = scope([eight])
    assert {each.signal for each in found.suspects} == {"memory_used_bytes", "memory_total_bytes"}
    assert "at least 7 cards" in found.suspects[0].detail
    mixed = telemetry(memory_used_bytes=[84 * GIB], memory_total_bytes=[80 * GIB])
    assert told(mixed) == [("sum_of_cards", "memory_used_bytes")]
    # 81,559 MiB: what the driver of an 80 GB card says.
    assert told(telemetry(memory_used_bytes=[81_000 << 20], memory_total_bytes=[81_559 << 20])) == []


@pytest.mark.parametrize(
    ("top", "code"),
    [
        (1.0, None),
        (1.01, None),
        (7.68, "sum_of_cards"),
        (96.0, "percent_as_ratio"),
        (7407936.0, "percent_as_ratio"),
    ],
)
def test_ratios_above_one(top: float, code: str | None) -> None:
    found = told(telemetry(compute_busy_ratio=[0.1, top, top, top]))
    assert found == ([] if code is None else [(code, "compute_busy_ratio")])


def test_ratios_that_their_source_left_out() -> None:
    source = replace(
        telemetry(dram_active_ratio=[0.0, 1.0]),
        missing=(Missing("drama", "dram_active_ratio", "out_of_range", 58, H100),),
    )
    (suspect,) = scope([source]).suspects
    assert suspect.code == "percent_as_ratio"
    assert suspect.detail.startswith("58 of 60 values of dram_active_ratio are above 1")
    few = replace(source, missing=(Missing("drama", "dram_active_ratio", "out_of_range", 1, H100),))
    assert told(few) == []


def test_eight_cards_at_full_power_are_beyond_what_a_source_takes_for_power() -> None:
    """5,600 W: no sample is left, and the user is told why."""
    lost = Missing("power", "power_watts", "out_of_range", 60, H100)
    (suspect,) = scope([replace(telemetry(compute_busy_ratio=[0.96]), missing=(lost,))]).suspects
    assert (suspect.code, suspect.signal) == ("sum_of_cards", "power_watts")
    assert suspect.detail.startswith("60 of 60 values of power_watts are more than any card draws")


def test_rates_of_links() -> None:
    """NVLink of an H100 carries 450 GB/s each way."""
    assert told(telemetry(nvlink_tx_bytes_per_second=[430e9])) == []
    assert told(telemetry(nvlink_tx_bytes_per_second=[820e9])) == [
        ("both_directions", "nvlink_tx_bytes_per_second")
    ]
    assert told(telemetry(nvlink_tx_bytes_per_second=[2.4e12])) == [
        ("sum_of_cards", "nvlink_tx_bytes_per_second")
    ]
    assert told(telemetry(nvlink_bytes_per_second=[820e9])) == []
    assert told(telemetry(pcie_rx_bytes_per_second=[200e9])) == [("sum_of_cards", "pcie_rx_bytes_per_second")]


def test_memory_busy_that_is_capacity() -> None:
    used = np.linspace(60, 62, 20) * GIB
    total = np.full(20, 80.0 * GIB)
    wrong = telemetry(memory_busy_ratio=used / total, memory_used_bytes=used, memory_total_bytes=total)
    assert told(wrong) == [("capacity_as_bandwidth", "memory_busy_ratio")]
    right = telemetry(
        memory_busy_ratio=np.linspace(0.3, 0.5, 20), memory_used_bytes=used, memory_total_bytes=total
    )
    assert told(right) == []


def test_a_series_without_a_device_where_there_are_eight() -> None:
    nameless = telemetry(Owner(host="n1"), compute_busy_ratio=[0.9], power_watts=[320.0])
    assert told(nameless) == []
    assert told(nameless, num_devices=1) == []
    assert told(nameless, num_devices=8) == [
        ("device_unlabelled", "compute_busy_ratio"),
        ("device_unlabelled", "power_watts"),
    ]
    labelled = telemetry(compute_busy_ratio=[0.9])
    other = telemetry(replace(H100, index=1), compute_busy_ratio=[0.9])
    both = replace(nameless, series=(*nameless.series, *labelled.series, *other.series))
    assert [code for code, _ in told(both)] == ["device_unlabelled"] * 2


def test_a_window_that_counters_cannot_average_over() -> None:
    def every(period_ns: int, **known: int) -> Telemetry:
        at = np.arange(50, dtype=np.int64) * period_ns
        series = [Series(n, H100, at, np.full(50, 0.4)) for n in ("sm_active_ratio", "compute_busy_ratio")]
        return Telemetry("dmon", "dcgmi", tuple(series), "sample", **known)

    (stated,) = scope([every(10_000_000, window_ns=10_000_000)]).suspects
    assert (stated.code, stated.signal, stated.is_withheld) == ("window_too_short", "sm_active_ratio", True)
    (close,) = scope([every(10_000_000)]).suspects
    assert not close.is_withheld
    assert told(every(100_000_000, window_ns=100_000_000)) == []
    assert told(every(10_000_000, window_ns=1_000_000_000)) == []


def test_one_issue_a_signal_however_many_devices() -> None:
    sources = [telemetry(replace(H100, index=n), power_watts=[2560.0]) for n in range(3)]
    (issue,) = scope(sources).issues()
    assert issue.count == 3
    assert issue.detail.endswith("(and 2 more)")
    assert issue.code in CODES


def test_every_model_of_the_table_has_a_size() -> None:
    assert {row.key for row in TABLE} == set(GIGABYTES)
    assert memory_bytes_of("Tesla V100-SXM2-16GB") == 16 * GIB
    assert memory_bytes_of("NVIDIA H200") == 141 * GIB
    assert memory_bytes_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb") == 80 * GIB
    assert memory_bytes_of("NVIDIA Rubin") is None


_LINE = re.compile(r'^(DCGM_FI_DEV_\w+)\{gpu="(\d+)",UUID="([^"]+)".*modelName="([^"]+)".*\} (\S+)$', re.M)
_FIELDS = {
    "DCGM_FI_DEV_POWER_USAGE": ("power_watts", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("compute_busy_ratio", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_busy_ratio", 0.01),
}


def test_a_real_node_of_eight_is_as_it_says_and_its_sum_is_not(shared_data: Path) -> None:
    """Eight idle H100 of 65.7 to 113.6 W. Their sum, 584 W, is under one card's limit: of idle cards nobody
    can tell a sum by power alone. Of four times as much one can."""
    text = (shared_data / "other" / "aicr" / "dcgm_exporter_h100x8_idle.prom").read_text()
    series = []
    sums: dict[str, float] = {}
    for field, index, uuid, model, value in _LINE.findall(text):
        if field not in _FIELDS:
            continue
        signal, factor = _FIELDS[field]
        owner = Owner(index=int(index), uuid=uuid, model=model)
        series.append(Series(signal, owner, np.zeros(1, dtype=np.int64), np.array([float(value) * factor])))
        sums[signal] = sums.get(signal, 0.0) + float(value) * factor
    assert len({each.owner.key for each in series}) == 8
    assert told(Telemetry("node", "prometheus", tuple(series), "scrape")) == []
    assert sums["power_watts"] == pytest.approx(583.767)
    assert told(telemetry(power_watts=[sums["power_watts"]])) == []
    assert told(telemetry(power_watts=[4 * sums["power_watts"]])) == [("sum_of_cards", "power_watts")]
