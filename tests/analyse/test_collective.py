"""Bus bandwidth: the factors, and when there is none."""

from __future__ import annotations

import pytest

from stepscope.analyse.collective import bus_bandwidth, collective_kind, element_bytes
from stepscope.model.hardware import hardware_of


def test_bus_bandwidth_of_an_all_reduce_counts_the_data_twice() -> None:
    # 17.6 MB over 8 ranks in 9.2 ms: 2 · 7/8 · 17.6 MB / 9.2 ms = 3.35 GB/s, 0.75 % of 448 GB/s.
    rate = bus_bandwidth("all_reduce", 17_600_000, 8, 9_200_000)
    assert rate == pytest.approx(3.348e9, rel=1e-3)
    link = hardware_of("AMD Instinct MI300X").link_bytes_per_second
    assert link == 448e9
    assert rate / link == pytest.approx(0.0075, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "factor"), [("all_gather", 7 / 8), ("reduce_scatter", 7 / 8), ("all_to_all", 7 / 8)]
)
def test_other_synchronising_kinds_move_it_once(kind: str, factor: float) -> None:
    assert bus_bandwidth(kind, 1_000_000, 8, 1_000_000) == pytest.approx(factor * 1e9)


@pytest.mark.parametrize(
    ("kind", "size", "ranks", "ns"),
    [
        ("broadcast", 10**6, 8, 10**6),
        ("all_reduce", 0, 8, 10**6),
        ("all_reduce", 10**6, 1, 10**6),
        ("all_reduce", 10**6, 8, 0),
    ],
)
def test_there_is_no_bandwidth_without_a_size_a_group_or_a_time(
    kind: str, size: int, ranks: int, ns: int
) -> None:
    assert bus_bandwidth(kind, size, ranks, ns) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all_reduce"),
        ("nccl:all_reduce", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("reduce_scatter_tensor", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce_scatter"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send_recv"),
        ("broadcast", "broadcast"),
        ("ncclDevKernel_Generic", "other"),
    ],
)
def test_a_collective_has_its_kind(name: str, kind: str) -> None:
    assert collective_kind(name) == kind


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("BFloat16", 2), ("c10::BFloat16", 2), ("Float", 4), ("torch.float8_e4m3fn", 1), ("Quux", None)],
)
def test_an_element_has_its_width_or_none_is_known(dtype: str, width: int | None) -> None:
    assert element_bytes(dtype) == width


def test_an_unknown_device_stays_unknown() -> None:
    assert hardware_of("Quadro GP100") is None
    assert hardware_of(None) is None
