"""Features of matrix shapes: the hottest, the large ones at the measured clock, and what is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyse.features import facts
from stepscope.analyse.features import pattern as p
from stepscope.model import report
from stepscope.model.feature import Feature, Observed
from tests.diagnose.build import rank, row

ALL = [value for value in vars(p).values() if isinstance(value, Feature)]
H100 = report.Device(index=0, name="NVIDIA H100 80GB HBM3")


def op(name: str, class_: str, share: float) -> report.Operator:
    return report.Operator(name=name, class_=class_, count=1, device_ns=round(share * 1e9), share=share)


def shape(
    name: str, dims: str, share: float, peak: float | None, memory: float | None = None
) -> report.OperatorShape:
    return report.OperatorShape(
        name=name,
        shapes=dims,
        count=1,
        device_ns=round(share * 1e9),
        share=share,
        peak_share=peak,
        memory_peak_share=memory,
    )


def known(
    operators: tuple[report.Operator, ...],
    shapes: tuple[report.OperatorShape, ...],
    efficiency: tuple[report.Efficiency, ...] = (),
    **numbers: float,
) -> dict[str, float]:
    whole = rank(row(device=H100), operators=operators, numbers=numbers)
    whole = replace(whole, operator_shapes=shapes, efficiency=efficiency)
    found = facts(Observed(whole, whole.devices[0]), ALL)
    return {feature.name: value for feature, value in found.values.items()}


MM = (op("aten::mm", "gemm", 0.62), op("aten::add", "elementwise", 0.2))
SHAPES = (
    shape("aten::mm", "[[4096, 4096], [4096, 11008]]", 0.35, 0.45, 0.08),
    shape("aten::mm", "[[4096, 4096], [4096, 4096]]", 0.25, 0.36, 0.10),
    shape("aten::add", "[[4096, 4096]]", 0.2, None, 0.7),
    shape("aten::mm", "[[8, 8], [8, 8]]", 0.02, 0.001, 0.9),
)


def test_a_features_name_is_the_name_it_is_imported_by() -> None:
    assert {name for name, value in vars(p).items() if isinstance(value, Feature)} == {x.name for x in ALL}


def test_the_hottest_product_and_the_slowest_of_the_large_ones() -> None:
    found = known(MM, SHAPES, sm_clock_share=0.8)
    assert found["gemm_shape_share"] == 0.35
    assert found["gemm_shape_roofline_share"] == 0.45
    # 36 % of the peak at 80 % of the clock; the small product at 0.1 % is none of the large ones.
    assert found["large_gemm_peak_share"] == pytest.approx(0.45)


def test_a_product_near_the_memorys_rate_is_not_longer_than_its_roofline() -> None:
    thin = (shape("aten::mm", "[[16, 4096], [4096, 4096]]", 0.4, 0.05, 0.82),)
    assert known(MM, thin)["gemm_shape_roofline_share"] == 0.82


def test_without_the_clock_or_the_peak_the_large_ones_are_unknown() -> None:
    assert "large_gemm_peak_share" not in known(MM, SHAPES)
    unknown = (replace_peak(SHAPES[0]), *SHAPES[1:])
    assert "large_gemm_peak_share" not in known(MM, unknown, sm_clock_share=0.9)
    assert "gemm_shape_roofline_share" not in known(MM, unknown, sm_clock_share=0.9)


def replace_peak(each: report.OperatorShape) -> report.OperatorShape:
    return shape(each.name, each.shapes, each.share or 0.0, None, each.memory_peak_share)


def test_a_clock_above_the_stated_highest_makes_nothing_slower() -> None:
    assert known(MM, SHAPES, sm_clock_share=1.04)["large_gemm_peak_share"] == 0.36


def test_no_product_is_a_measured_zero_and_no_shapes_are_nothing() -> None:
    only = (op("aten::add", "elementwise", 0.9),)
    assert known(only, SHAPES[2:3])["gemm_shape_share"] == 0.0
    assert "gemm_shape_share" not in known(MM, ())


def test_products_without_a_shape_may_hide_a_larger_one() -> None:
    compiled = (*MM, op("cutlass_gemm", "gemm", 0.4))
    assert "gemm_shape_share" not in known(compiled, SHAPES)


def test_arithmetic_against_the_peak_is_of_the_same_device() -> None:
    mine = report.Efficiency(device=H100, total_ns=100, hfu=0.41)
    other = report.Efficiency(device=report.Device(index=1), total_ns=100, hfu=0.9)
    assert known(MM, SHAPES, (other, mine))["flops_peak_share"] == 0.41
    assert "flops_peak_share" not in known(MM, SHAPES, (other,))
