"""Times in texts and in names of files."""

from __future__ import annotations

import pytest

from stepscope.sources.formats.moment import clock_ns, day_ns, stamp_ns, time_in_name

S = 1_000_000_000


@pytest.mark.parametrize(
    ("name", "at_ns"),
    [
        ("metrics_1773114089.prom", 1_773_114_089 * S),
        ("/data/1773114089184.txt", 1_773_114_089_184_000_000),
        ("dcgm-1773114089184000000.prom", 1_773_114_089_184_000_000),
        ("node1_2026-07-14T09-00-44.prom", 1_784_019_644 * S),
        ("20260714_090044.prom", 1_784_019_644 * S),
        ("2026-07-14 09:00:44.5.prom", 1_784_019_644_500_000_000),
        ("scrape.prom", None),
        ("linux-x86_64__590.48.01__load.metrics", None),
        ("1773114089_1773114099.prom", None),
        ("99999999999.prom", None),
        ("2026-13-14T09-00-44.prom", None),
        ("2026-02-30T09-00-44.prom", None),
    ],
)
def test_the_time_in_a_name(name: str, at_ns: int | None) -> None:
    assert time_in_name(name) == at_ns


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026/07/14 09:00:44.742", (1_784_019_644_742_000_000, False)),
        ("2026-07-14T09:00:44Z", (1_784_019_644 * S, True)),
        ("2026-07-14T11:00:44+02:00", (1_784_019_644 * S, True)),
        ("1786553852", (1_786_553_852 * S, True)),
        ("1786553852.25", (1_786_553_852_250_000_000, True)),
        ("2026/07/14", None),
        ("N/A", None),
        ("2026/02/31 09:00:44.742", None),
    ],
)
def test_a_timestamp_and_whether_it_states_its_zone(text: str, wanted: tuple[int, bool] | None) -> None:
    assert stamp_ns(text) == wanted


def test_days_and_times_of_day() -> None:
    assert day_ns("20260714") == 1_783_987_200 * S
    assert day_ns("20261414") is None
    assert clock_ns("09:00:44") == 32_444 * S
    assert clock_ns("25:00:00") is None
