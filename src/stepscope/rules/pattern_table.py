"""The four specified patterns, each as it was written and as it decides.

As written: the specification's own words and figures. Where it gives none (`abnormally high`, `periodically`)
the reference says which reading is used. That side is shown and decides nothing: published counters do not
behave as it assumes (a large matrix kernel runs at low occupancy; 0.8 is the practical maximum of DRAM
active). The other side is what the data can carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stepscope.analyse.features import (
    host_loader_share,
    idle_input_share,
    pcie_receive_link_share,
    sm_active_mean,
)
from stepscope.analyse.features.kernel import elementwise_kernel_share, memory_bound_kernel_share
from stepscope.analyse.features.pattern import (
    LARGE_SHAPE,
    flops_peak_share,
    gemm_shape_roofline_share,
    gemm_shape_share,
    large_gemm_peak_share,
    nvlink_cycles,
    wait_spread_share,
)
from stepscope.analyse.features.telemetry import (
    dram_active_mean,
    host_major_faults_per_second,
    nvlink_with_pcie,
    pcie_with_input,
    sm_occupancy_mean,
    tensor_active_mean,
)
from stepscope.model.feature import Clause, Feature
from stepscope.model.text import Text
from stepscope.rules.reference import LOW_SM_ACTIVE

Letter = Literal["A", "B", "C", "D"]


@dataclass(frozen=True, slots=True)
class Side:
    """One reading: all of `when`. `agrees` are shown where they hold, and not needed.

    `references` says for every feature with a threshold where it comes from.
    """

    when: tuple[Clause, ...]
    references: Mapping[Feature, Text]
    agrees: tuple[Clause, ...] = ()

    def __post_init__(self) -> None:
        bare = sorted({c.feature.name for c in self.clauses() if c.feature not in self.references})
        if bare:
            raise ValueError(f"no reference for the threshold of {', '.join(bare)}")

    def clauses(self) -> tuple[Clause, ...]:
        """Every clause of the side."""
        return (*self.when, *self.agrees)


@dataclass(frozen=True, slots=True)
class Named:
    """One pattern. `advice` is what to begin with where the effective side holds."""

    letter: Letter
    title: Text
    as_written: Side
    effective: Side
    advice: Text
    shows: tuple[Feature, ...] = field(default=())


def _written(figure: str) -> Text:
    return Text(en=f"as the specification writes it: {figure}", zh=f"规格原文：{figure}")


def _read(words: str, zh: str, as_: str) -> Text:
    """The specification gives words and no figure."""
    return Text(
        en=f"the specification says “{words}” and gives no figure; read as {as_}",
        zh=f"规格只写“{zh}”，未给数值；此处按 {as_} 理解",
    )


OURS = Text(en="our choice", zh="自定")

A = Named(
    "A",
    Text(en="A: compute-bound", zh="A：计算受限"),
    as_written=Side(
        when=(sm_occupancy_mean > 0.90, flops_peak_share < 0.60, gemm_shape_roofline_share < 0.60),
        references={
            sm_occupancy_mean: _written("SM occupancy > 90 %"),
            flops_peak_share: _written("FLOP/s < 60 %"),
            gemm_shape_roofline_share: _read(
                "a large matmul longer than expected", "大矩阵乘耗时超出预期", "< 60 % of its roofline"
            ),
        },
    ),
    effective=Side(
        when=(sm_active_mean > 0.90, gemm_shape_share >= LARGE_SHAPE, large_gemm_peak_share < 0.60),
        references={
            sm_active_mean: Text(
                en="NVIDIA's DCGM guide: 0.8 is necessary and not sufficient for an efficient kernel; "
                "above 0.9 "
                "nothing but the kernels themselves can be slow",
                zh="NVIDIA DCGM 文档：高效 kernel 至少需要 0.8，但这并不充分；高于 0.9 时只可能是 kernel "
                "本身慢",
            ),
            gemm_shape_share: Text(
                en="our choice, a fifth of the device's time: tuning one shape is worth no less",
                zh="自定，设备时间的五分之一：更小的形状不值得单独调优",
            ),
            large_gemm_peak_share: Text(
                en="the specification's 60 %, of the peak of the precision at the clock that was measured; "
                "in "
                "Bekman's public measurements the best products reach 66 to 86 % of the peak of A100 and "
                "H100",
                zh="规格的 60 %，相对于该精度在实测时钟下的峰值；Bekman 的公开实测中，A100 与 H100 "
                "的最佳矩阵乘达到峰值的 66 % 至 86 %",
            ),
        },
    ),
    advice=Text(
        en="Tune this product first: let cuBLASLt search for its shape and keep the result in its tuning "
        "cache (or "
        "torch.compile with mode=max-autotune), and pad dimensions that are no multiple of the tile (64 or "
        "128).",
        zh="先调优该矩阵乘：让 cuBLASLt 针对其形状搜索并写入调优缓存"
        "（或 torch.compile 的 mode=max-autotune），并把不是分块（64 或 128）整数倍的维度补齐。",
    ),
)
B = Named(
    "B",
    Text(en="B: memory-bound", zh="B：显存带宽受限"),
    as_written=Side(
        when=(dram_active_mean > 0.85, sm_occupancy_mean < 0.70, elementwise_kernel_share >= 0.30),
        references={
            dram_active_mean: _written("DRAM > 85 %"),
            sm_occupancy_mean: _written("SM occupancy < 70 %"),
            elementwise_kernel_share: _read(
                "elementwise share abnormally high", "逐元素占比异常高", ">= 30 % of kernel time"
            ),
        },
    ),
    effective=Side(
        when=(dram_active_mean >= 0.60, tensor_active_mean <= 0.30, memory_bound_kernel_share >= 0.30),
        references={
            dram_active_mean: Text(
                en="three quarters of the practical maximum of 0.8 in NVIDIA's DCGM guide",
                zh="NVIDIA DCGM 文档给出的实际最大值 0.8 的四分之三",
            ),
            tensor_active_mean: Text(
                en="our choice: above it, products take a fair part of the time",
                zh="自定：更高则矩阵乘占相当一部分时间",
            ),
            memory_bound_kernel_share: Text(
                en="our choice, 30 % of kernel time: BERT's elementwise and normalisation ops are 0.2 % of "
                "its "
                "arithmetic and 39 % of its time (Ivanov et al., 2021)",
                zh="自定，kernel 时间的 30 %：BERT 中逐元素与归一化算子只占 0.2 % 的运算量，"
                "却占 39 % 的时间（Ivanov 等，2021）",
            ),
        },
    ),
    advice=Text(
        en="Fuse chains of elementwise and normalisation ops (torch.compile, fused norms and optimizers), "
        "and "
        "write fewer intermediate tensors to memory.",
        zh="融合逐元素与归一化算子链（torch.compile、融合的归一化与优化器），并减少写入显存的中间张量。",
    ),
)
C = Named(
    "C",
    Text(en="C: communication jitter", zh="C：通信抖动"),
    as_written=Side(
        when=(nvlink_cycles >= 2, nvlink_with_pcie < 0.0, wait_spread_share >= 0.05),
        references={
            nvlink_cycles: _read("NVLink falls periodically", "NVLink 周期性下降", "two falls or more"),
            nvlink_with_pcie: _read(
                "while PCIe receive rises", "同时 PCIe 接收上升", "a negative correlation"
            ),
            wait_spread_share: _read("waits uneven", "等待不均", ">= 5 % of the step"),
        },
    ),
    effective=Side(
        when=(nvlink_with_pcie <= -0.5, nvlink_cycles >= 5, wait_spread_share >= 0.10),
        references={
            nvlink_with_pcie: Text(
                en="our choice: a correlation of -0.5 explains a quarter of the variance",
                zh="自定：-0.5 的相关系数解释四分之一的方差",
            ),
            nvlink_cycles: Text(
                en="our choice: fewer than five periods may be chance", zh="自定：少于五个周期可能只是巧合"
            ),
            wait_spread_share: Text(
                en="our choice, a tenth of the step: the slow steps that Greyhound looks for are 10 % longer",
                zh="自定，一步的十分之一：Greyhound 认定的慢步长 10 %",
            ),
        },
    ),
    advice=Text(
        en="Find the rank that comes last, and what its link shares with PCIe traffic; then look at the "
        "order of "
        "the ring and at the topology (NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=GRAPH, nvidia-smi topo -m).",
        zh="找出最后到达的 rank，以及它的链路与哪些 PCIe 流量相争；再检查环的顺序与拓扑"
        "（NCCL_DEBUG=INFO 且 NCCL_DEBUG_SUBSYS=GRAPH，nvidia-smi topo -m）。",
    ),
)
D = Named(
    "D",
    Text(en="D: waiting for input", zh="D：等待输入"),
    as_written=Side(
        when=(
            sm_active_mean <= 0.60,
            host_loader_share >= 0.30,
            host_major_faults_per_second > 0.0,
            pcie_with_input > 0.0,
        ),
        references={
            sm_active_mean: Text(
                en="the specification's case has SM 52 %; read as <= 60 %",
                zh="规格中的案例为 SM 52 %；此处按 <= 60 % 理解",
            ),
            host_loader_share: Text(
                en="the specification's case has the loader at 38 % of the step; read as >= 30 %",
                zh="规格中的案例为加载占一步的 38 %；此处按 >= 30 % 理解",
            ),
            host_major_faults_per_second: _read("page faults", "缺页", "any major ones"),
            pcie_with_input: _read(
                "PCIe receive follows prefetch", "PCIe 接收随预取变化", "a positive correlation"
            ),
        },
    ),
    effective=Side(
        when=(idle_input_share >= 0.10,),
        agrees=(
            sm_active_mean < 0.70,
            host_major_faults_per_second >= 100,
            pcie_with_input >= 0.5,
        ),
        references={
            idle_input_share: Text(
                en="published tools warn at 5 to 20 % of the step: TraceML at 10 %",
                zh="公开工具在一步的 5 % 至 20 % 时告警：TraceML 为 10 %",
            ),
            sm_active_mean: LOW_SM_ACTIVE,
            host_major_faults_per_second: Text(
                en="our choice: a disk that turns serves about as many reads a second",
                zh="自定：约等于一块机械盘每秒能完成的读取次数",
            ),
            pcie_with_input: Text(
                en="our choice: a correlation of 0.5 explains a quarter of the variance",
                zh="自定：0.5 的相关系数解释四分之一的方差",
            ),
        },
    ),
    advice=Text(
        en="More loader workers, pinned memory and two batches of prefetch first; then decode on the "
        "device or "
        "ahead of time, and keep the data on a local disk.",
        zh="先增加加载进程、锁页内存并预取两个批次；再考虑在设备上或预先解码，并把数据放在本地盘。",
    ),
    shows=(pcie_receive_link_share,),
)

PATTERNS: tuple[Named, ...] = (A, B, C, D)
