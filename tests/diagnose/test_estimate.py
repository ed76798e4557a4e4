"""The memory estimate in a sentence."""

from __future__ import annotations

import re

import pytest

from stepscope.analyse.memory.estimate import Training, estimate
from stepscope.diagnose.estimate import estimated

GB = 10**9
SHARDED = Training(num_parameters=8 * GB, stage=3, num_shards=8)


def test_eight_billion_parameters_in_a_sentence() -> None:
    assert estimated(estimate(SHARDED, used_bytes=62 * GB), "en") == (
        "8 billion parameters at 16 bytes: 128 GB of weights (16 GB), gradients (16 GB) and optimizer states "
        "(96 GB), 16 GB a card (all sharded over 8). In use are 62 GB: 46 GB (74.2 %) are activations, the "
        "framework's cache and its fragments, buffers and contexts."
    )
    assert estimated(estimate(SHARDED, used_bytes=62 * GB), "zh") == (
        "8 × 10⁹ 个参数，每个 16 字节：共 128 GB，其中权重 16 GB、梯度 16 GB、优化器状态 96 GB；"
        "每卡 16 GB（全部切分到 8 个 rank）。实际使用 62 GB：其余 46 GB（74.2 %）为激活、框架缓存及碎片、"
        "缓冲区与上下文。"
    )


def test_what_is_not_divided_contradicts_what_is_used() -> None:
    told = estimated(estimate(Training(num_parameters=8 * GB), used_bytes=62 * GB), "en")
    assert "128 GB a card (not divided)" in told
    assert told.endswith("the states are divided by 3 at least, or take fewer bytes.")


def test_what_does_not_fit_is_said_before_it_is_tried() -> None:
    told = estimated(estimate(Training(num_parameters=70 * GB, num_slices=8), present_bytes=80 * GB), "en")
    assert told.endswith("A card has 80 GB: they do not fit.")
    assert "140 GB a card (all sliced by 8)" in told
    assert "1,120 GB" in told


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_each_division_is_told_in_both_languages(stage: int) -> None:
    row = estimate(Training(num_parameters=GB, stage=stage, num_shards=4, num_slices=2))  # type: ignore[arg-type]
    assert not re.search("[\u4e00-\u9fff]", estimated(row, "en"))
    assert re.search("[\u4e00-\u9fff]", estimated(row, "zh"))
