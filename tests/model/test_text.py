"""Texts and how numbers are written."""

from __future__ import annotations

import pytest

from stepscope.model.text import Text, duration, number, percent


def test_a_text_needs_both_languages() -> None:
    assert Text(en="a", zh="甲").in_("zh") == "甲"
    with pytest.raises(ValueError, match="both languages"):
        Text(en="a", zh=" ")


@pytest.mark.parametrize(
    ("ns", "written"),
    [
        (0, "0 ns"),
        (17, "17 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (41_234_567, "41.2 ms"),
        (999_999, "1.00 ms"),
        (999_499, "999 µs"),
        (1_500_000_000, "1.50 s"),
        (3_600_000_000_000, "3600 s"),
        (-2_000, "-2.00 µs"),
    ],
)
def test_a_duration_has_three_digits(ns: int, written: str) -> None:
    assert duration(ns) == written


@pytest.mark.parametrize(
    ("share", "written"), [(0.0, "0.0 %"), (0.0001, "< 0.1 %"), (0.331, "33.1 %"), (1.0, "100.0 %")]
)
def test_a_share_is_written_in_per_cent(share: float, written: str) -> None:
    assert percent(share) == written


def test_a_number_is_written_with_its_unit() -> None:
    assert number(0.5, "ratio") == "50.0 %"
    assert number(2_500, "ns") == "2.50 µs"
    assert number(3.2e9, "B/s") == "3.20 GB/s"
    assert number(512, "launches") == "512 launches"
    assert number(123_456, "launches") == "123,456 launches"
