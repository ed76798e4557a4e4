"""What one signal alone suggests: a table. A hint is never a verdict: each says what it does not mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepscope.analyse.features import has_device, memory_used_share, nvlink_link_share, sm_active_mean
from stepscope.analyse.features.pattern import busy_with_power
from stepscope.analyse.features.telemetry import (
    compute_busy_mean,
    compute_busy_p5,
    compute_busy_p95,
    dram_active_mean,
    foreign_memory_share,
    foreign_sm_share,
    fp32_active_mean,
    memory_busy_mean,
    num_foreign_processes,
    occupancy_while_active,
    pcie_link_share,
    power_limit_share,
    power_watts_mean,
    sm_occupancy_mean,
    temperature_celsius_max,
    temperature_margin_celsius,
    tensor_active_mean,
    thermal_throttled_share,
)
from stepscope.model import report
from stepscope.model.feature import Clause, Facts, Feature, Observed
from stepscope.model.text import Lang, Text


@dataclass(frozen=True, slots=True)
class HintRow:
    """All of `when` must be known to hold and none of `unless`; `shows` stand beside them."""

    id: str
    when: tuple[Clause, ...]
    text: Text
    references: Mapping[Feature, Text]
    unless: tuple[Clause, ...] = ()
    shows: tuple[Feature, ...] = ()

    def __post_init__(self) -> None:
        bare = sorted({c.feature.name for c in self.clauses() if c.feature not in self.references})
        if bare:
            raise ValueError(f"hint {self.id}: no reference for the threshold of {', '.join(bare)}")

    def clauses(self) -> tuple[Clause, ...]:
        """Every clause of the hint."""
        return (*self.when, *self.unless)


SPECIFIED = Text(en="the specification's line for this signal", zh="规格为该信号给出的界线")
OURS = Text(en="our choice", zh="自定")
LIKELY_POOR = Text(
    en="NVIDIA's DCGM guide: under 0.5 is likely ineffective use, 0.8 is needed for an efficient kernel",
    zh="NVIDIA DCGM 文档：低于 0.5 很可能利用不佳，高效 kernel 至少需要 0.8",
)
BUSY = Text(en="our choice: a kernel is resident nearly all the time", zh="自定：几乎一直有 kernel 驻留")
FAR_BELOW = Text(
    en="our choice: a device that computes at full rate draws at least 80 % of its limit; 60 % is far below",
    zh="自定：全速计算的设备至少消耗上限的 80 %；60 % 已明显偏低",
)

HINTS: tuple[HintRow, ...] = (
    HintRow(
        "low-occupancy",
        (sm_occupancy_mean < 0.60,),
        Text(
            en="Few warps are resident: there may be too few blocks, or registers and shared memory may "
            "bound "
            "them. It does not mean slow: the best matrix kernels run at low occupancy, and this mean is "
            "over "
            "all cycles, idle ones among them.",
            zh="驻留的 warp 较少：可能线程块太少，或受寄存器与共享内存限制。这并不等于慢：最好的矩阵 kernel "
            "占用率也低，而且该均值包含空闲周期。",
        ),
        {sm_occupancy_mean: SPECIFIED},
        shows=(sm_active_mean, occupancy_while_active, tensor_active_mean),
    ),
    HintRow(
        "high-occupancy",
        (sm_occupancy_mean > 0.95,),
        Text(
            en="Multiprocessors are full of warps: more parallel work will not help, faster kernels may. "
            "It does "
            "not mean efficient: elementwise kernels that wait for memory fill them as well.",
            zh="多处理器已被 warp 占满：增加并行度无益，更快的 kernel 才可能有益。这并不等于高效："
            "等待显存的逐元素 kernel 同样会占满。",
        ),
        {sm_occupancy_mean: SPECIFIED},
        shows=(sm_active_mean, dram_active_mean, tensor_active_mean),
    ),
    HintRow(
        "latency-bound",
        (dram_active_mean < 0.70, sm_active_mean >= 0.80, tensor_active_mean <= 0.30),
        Text(
            en="Multiprocessors hold work, and neither memory nor the tensor pipes are near their rate: "
            "kernels "
            "may wait for latency (scattered accesses, short dependent chains, atomics). It does not prove "
            "it: "
            "warps that spin in a collective look alike, and above 0.60 memory may be the bound all the "
            "same.",
            zh="多处理器有任务驻留，而显存与张量核都远未到速率上限：kernel 可能受延迟限制"
            "（零散访问、短依赖链、原子操作）。这不是证明：在集合通信中自旋的 warp 看起来一样，"
            "且高于 0.60 时仍可能受带宽限制。",
        ),
        {
            dram_active_mean: SPECIFIED,
            sm_active_mean: LIKELY_POOR,
            tensor_active_mean: OURS,
            fp32_active_mean: Text(
                en="our choice: the FP32 pipe is then what bounds it", zh="自定：此时受 FP32 流水线限制"
            ),
        },
        unless=(fp32_active_mean >= 0.50,),
    ),
    HintRow(
        "waiting-for-copies",
        (memory_busy_mean >= 0.50, compute_busy_mean < 0.50),
        Text(
            en="Memory is read and written while few kernels run: the device may wait for copies. It says "
            "nothing "
            "of how much memory is used, nor of how many bytes move.",
            zh="显存被读写而 kernel 很少：设备可能在等待拷贝。它不说明显存用了多少，也不说明搬运了多少字节。",
        ),
        {memory_busy_mean: OURS, compute_busy_mean: OURS},
        shows=(pcie_link_share,),
    ),
    HintRow(
        "bytes-over-pcie",
        (pcie_link_share >= 0.10, nvlink_link_share <= 0.01),
        Text(
            en="Bytes go over PCIe and NVLink is idle: devices may talk across sockets or through the "
            "host, with "
            "peer-to-peer off. It may also be input or offloading: only the bytes in collectives tell.",
            zh="字节走 PCIe 而 NVLink 空闲：设备之间可能跨插槽（NUMA）或经主机通信，点对点被关闭。"
            "也可能只是输入数据或卸载：只有集合通信期间的字节才能说明。",
        ),
        {
            pcie_link_share: Text(
                en="our choice: input of batches rarely takes a tenth of the bus",
                zh="自定：批次输入很少占到总线的十分之一",
            ),
            nvlink_link_share: OURS,
        },
    ),
    HintRow(
        "busy-with-few-blocks",
        (compute_busy_mean >= 0.95, sm_active_mean < 0.50),
        Text(
            en="A kernel is resident all the time, on few multiprocessors: collectives that wait for a "
            "peer, or "
            "kernels with few blocks. It does not mean that the device is well used, nor that it is stuck.",
            zh="一直有 kernel 驻留，但只在少数多处理器上：可能是等待其他 rank 的集合通信，"
            "或线程块很少的 kernel。这不等于设备利用良好，也不等于卡死。",
        ),
        {compute_busy_mean: BUSY, sm_active_mean: LIKELY_POOR},
        shows=(tensor_active_mean, power_limit_share),
    ),
    HintRow(
        "busy-at-low-power",
        (compute_busy_mean >= 0.90, power_limit_share <= 0.60),
        Text(
            en="Busy, and far under the power limit: the device may wait in collectives, run tiny kernels "
            "or move "
            "memory. It does not name the cause, and is no fault of the card: go through the order of "
            "looking.",
            zh="忙碌而功率远低于上限：设备可能在集合通信中等待、运行极小的 kernel 或搬运显存。"
            "它不指明原因，也不是显卡故障：请按排查顺序逐项查看。",
        ),
        {compute_busy_mean: BUSY, power_limit_share: FAR_BELOW},
        shows=(power_watts_mean, memory_used_share, sm_active_mean, tensor_active_mean),
    ),
    HintRow(
        "busy-and-power-fall-together",
        (busy_with_power >= 0.70, compute_busy_p5 <= 0.30, compute_busy_p95 >= 0.70),
        Text(
            en="Utilisation and power fall together: the device really stops at times, for input, a "
            "checkpoint, "
            "the host or its peers. It is no fault of the counter, and not yet a dead job: steps tell.",
            zh="利用率与功率同时下降：设备确实不时停下，可能在等输入、写检查点、等主机或其他 rank。"
            "这不是计数器错误，也还不是作业已死：要看步是否推进。",
        ),
        {
            busy_with_power: Text(
                en="our choice: a correlation of 0.7 explains half of the variance",
                zh="自定：0.7 的相关系数解释一半的方差",
            ),
            compute_busy_p5: OURS,
            compute_busy_p95: Text(
                en="SageMaker Debugger's fluctuation rule: 95th percentile of at least 70 %",
                zh="SageMaker Debugger 的波动规则：第 95 百分位不低于 70 %",
            ),
        },
    ),
    HintRow(
        "another-process",
        (num_foreign_processes >= 1,),
        Text(
            en="A process that is none of the job's holds this device: it may take time and memory from "
            "it. It does "
            "not prove contention: a process may hold a context and do nothing.",
            zh="有不属于该作业的进程占用此设备：可能分走时间与显存。这并不证明存在争用："
            "进程可能只持有上下文。",
        ),
        {num_foreign_processes: Text(en="any", zh="任意一个")},
        shows=(foreign_sm_share, foreign_memory_share),
    ),
    HintRow(
        "hot-not-throttled",
        (temperature_celsius_max >= 85, thermal_throttled_share < 0.01),
        Text(
            en="The chip is hot, and its clocks were not lowered for it: there is little margin. It costs "
            "nothing "
            "now: only a clock drop under load with a thermal reason does.",
            zh="芯片温度高，但时钟并未因此降低：余量很小。目前没有代价：只有负载下因温度降频才会变慢。",
        ),
        {
            temperature_celsius_max: Text(
                en="the line of TraceML and of public alert rules; the device's own slowdown temperature "
                "is better",
                zh="TraceML 与公开告警规则的界线；设备自身的降频温度更可靠",
            ),
            thermal_throttled_share: Text(
                en="our choice: less than a hundredth of the time under load",
                zh="自定：不到负载时间的百分之一",
            ),
        },
        shows=(temperature_margin_celsius,),
    ),
)


def features() -> tuple[Feature, ...]:
    """What hints look at, each once."""
    return tuple(
        dict.fromkeys(
            feature for row in HINTS for feature in (*(c.feature for c in row.clauses()), *row.shows)
        )
    )


def hints(observed: Observed, facts: Facts, lang: Lang) -> tuple[report.Hint, ...]:
    """The hints of one device, in the table's order. `facts` are of `features()`."""
    if not has_device(observed):
        return ()
    return tuple(
        report.Hint(
            hint=row.id,
            text=row.text.in_(lang),
            device=observed.device.accounting.device,
            rank=observed.rank.rank,
            evidence=(
                *(_evidence(clause, row, facts, lang) for clause in row.when),
                *(
                    report.Evidence(
                        from_=shown.origin, feature=shown.name, value=facts.values[shown], unit=shown.unit
                    )
                    for shown in row.shows
                    if facts.get(shown) is not None
                ),
            ),
        )
        for row in HINTS
        if is_given(row, facts)
    )


def is_given(row: HintRow, facts: Facts) -> bool:
    """Whether the facts suggest it: what was not measured suggests nothing."""
    return all(clause.known(facts) is True for clause in row.when) and not any(
        clause.known(facts) is True for clause in row.unless
    )


def _evidence(clause: Clause, row: HintRow, facts: Facts, lang: Lang) -> report.Evidence:
    return report.Evidence(
        from_=clause.feature.origin,
        feature=clause.feature.name,
        value=facts.values[clause.feature],
        unit=clause.feature.unit,
        op=clause.op,
        threshold=clause.threshold,
        reference=row.references[clause.feature].in_(lang),
    )
