"""What training needs of memory, by published and exact figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.memory.estimate import Training, estimate, parameters_of, stage_of
from stepscope.model import report

GB = 10**9


def test_eight_billion_parameters_are_16_gb_of_weights_128_gb_of_states_and_16_gb_a_card_of_eight() -> None:
    row = estimate(Training(num_parameters=8 * GB, stage=3, num_shards=8))
    assert row.weights_bytes == 16 * GB
    assert (row.gradients_bytes, row.optimizer_bytes) == (16 * GB, 96 * GB)
    assert row.states_bytes == 128 * GB
    assert row.per_device_bytes == 16 * GB


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_figure_1_of_the_zero_paper(stage: int, gigabytes: float) -> None:
    """7.5 billion parameters over 64 ranks: 120, 31.4, 16.6 and 1.9 GB a card."""
    row = estimate(Training(num_parameters=7_500_000_000, stage=stage, num_shards=64))  # type: ignore[arg-type]
    assert row.per_device_bytes / GB == pytest.approx(gigabytes, abs=0.06)


def test_slices_divide_weights_gradients_and_states() -> None:
    row = estimate(Training(num_parameters=70 * GB, stage=1, num_shards=4, num_slices=8))
    assert row.per_device_bytes == (140 * GB + 140 * GB + 840 * GB // 4) // 8


def test_what_is_used_beyond_the_states_is_left_unexplained() -> None:
    row = estimate(Training(num_parameters=8 * GB, stage=3, num_shards=8), used_bytes=62 * GB)
    assert (row.unexplained_bytes, row.least_division) == (46 * GB, None)


def test_less_in_use_than_reckoned_says_how_far_it_is_divided_at_least() -> None:
    row = estimate(Training(num_parameters=8 * GB), used_bytes=62 * GB)
    assert (row.unexplained_bytes, row.least_division) == (None, 3)


@given(
    st.integers(1, 10**12),
    st.sampled_from((0, 1, 2, 3)),
    st.integers(1, 4096),
    st.integers(1, 64),
)
def test_cards_together_hold_no_less_than_the_states_and_more_sharding_no_more(
    parameters: int, stage: int, shards: int, slices: int
) -> None:
    def each(at: int) -> int:
        return estimate(
            Training(num_parameters=parameters, stage=at, num_shards=shards, num_slices=slices)  # type: ignore[arg-type]
        ).per_device_bytes

    assert each(stage) * shards * slices >= 16 * parameters
    assert each(3) <= each(2) <= each(1) <= each(0)


@pytest.mark.parametrize(
    ("text", "parameters", "bytes_"),
    [("8e9", 8 * GB, 16), ("8B", 8 * GB, 16), ("1.5b", 1_500_000_000, 16), ("124M:4,4,8", 124_000_000, 16),
     ("70 B:2,2,4", 70 * GB, 8)],
)  # fmt: skip
def test_a_number_of_parameters_as_people_write_it(text: str, parameters: int, bytes_: float) -> None:
    found = parameters_of(text)
    assert found.num_parameters == parameters
    assert found.weight_bytes + found.gradient_bytes + found.optimizer_bytes == bytes_


@pytest.mark.parametrize(
    "text", ["", "eight", "-8e9", "0", "8e9:", "8e9:2", "8e9:2,x,3", "nan", "8e9:-2,2,2"]
)
def test_what_is_no_number_of_parameters_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="parameter"):
        parameters_of(text)


def moved(**bytes_: int) -> tuple[report.Collective, ...]:
    return tuple(report.Collective(kind=kind, count=2, bytes=each) for kind, each in bytes_.items())


def test_how_states_are_sharded_by_what_is_gathered_and_reduced() -> None:
    assert stage_of(moved(all_reduce=16 * GB)) == 0
    assert stage_of(moved(all_gather=32 * GB, reduce_scatter=16 * GB)) == 3
    assert stage_of(moved(all_gather=16 * GB, reduce_scatter=16 * GB)) == 1
    assert stage_of(moved(all_gather=GB)) is None
    assert stage_of(moved(reduce_scatter=GB)) is None
    assert stage_of((report.Collective(kind="broadcast", count=1, bytes=8),)) is None
    assert stage_of(()) is None
