"""What numbers are called in a sentence, and which counter, log or recording brings them: a table.

Names of DCGM's fields are those of dcgm-exporter's counter lists before DCGM 4.6; later ones know them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stepscope.analyse.features import (
    copy_stall_share,
    exposed_communication_share,
    host_cpu_busy,
    host_loader_share,
    idle_input_share,
    idle_launch_share,
    idle_preprocess_share,
    idle_share,
    memory_used_share,
    nvlink_link_share,
    pageable_copy_share,
    pcie_receive_link_share,
    sm_active_mean,
)
from stepscope.analyse.features import kernel as k
from stepscope.analyse.features import pattern as p
from stepscope.analyse.features import peer as r
from stepscope.analyse.features import telemetry as t
from stepscope.model.feature import Facts, Feature
from stepscope.model.text import Lang, Text
from stepscope.model.text import number as plain


@dataclass(frozen=True, slots=True)
class Number:
    """What a feature is called within a sentence, and what has to be given so that it is there."""

    name: Text
    brought_by: Text


def _dcgm(*fields: str) -> Text:
    named = ", ".join(fields)
    return Text(en=f"counter {named}", zh=f"计数器 {named}")


BUSY = _dcgm("DCGM_FI_DEV_GPU_UTIL")
REASONS = _dcgm("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
CLOCKS = _dcgm("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MAX_SM_CLOCK")
POWER = _dcgm("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT")
NVLINK = _dcgm("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES")
PCIE = _dcgm("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
PROCESSES = Text(
    en="nvidia-smi's list of compute processes, and the job's process ids (its trace)",
    zh="nvidia-smi 的计算进程列表，以及作业的进程号（来自 trace）",
)
TRAINING_LOG = Text(en="the training log", zh="训练日志")
KERNEL_LOG = Text(en="the kernel log (dmesg)", zh="内核日志（dmesg）")
NCCL_LOG = Text(en="a log with NCCL_DEBUG=INFO", zh="带 NCCL_DEBUG=INFO 的日志")
TRACE = Text(en="a profiler trace", zh="一份 profiler trace")
SHAPES = Text(en="a trace with record_shapes=True", zh="打开 record_shapes=True 的 trace")
RANKS = Text(en="traces of all ranks", zh="所有 rank 的 trace")
PEERS = Text(en="counters of the job's other devices", zh="作业其他设备的计数器")
HOST = Text(en="host counters", zh="主机计数器")
TOPOLOGY = Text(en="nvidia-smi topo -m", zh="nvidia-smi topo -m 的输出")


def _row(en: str, zh: str, brought_by: Text) -> Number:
    return Number(Text(en=en, zh=zh), brought_by)


NUMBERS: Mapping[Feature, Number] = {
    # ── counters of the device ──
    t.telemetry_samples: _row("readings", "采样数", BUSY),
    t.compute_busy_mean: _row("compute busy", "计算忙碌率", BUSY),
    t.compute_busy_p5: _row("its 5th percentile", "其第 5 百分位", BUSY),
    t.compute_busy_p95: _row("its 95th percentile", "其第 95 百分位", BUSY),
    t.compute_busy_quiet_share: _row("readings under 5 % busy", "忙碌率低于 5 % 的采样占比", BUSY),
    t.compute_busy_five_minutes: _row("its least five-minute mean", "其五分钟均值的最小值", BUSY),
    t.quiet_five_minutes: _row(
        "of its least used five minutes under 5 % busy", "其最空闲五分钟内忙碌率低于 5 % 的占比", BUSY
    ),
    t.busy_below_peers: _row(
        "busy below the median of the other devices by", "忙碌率低于其他设备中位数", PEERS
    ),
    sm_active_mean: _row("SM active", "SM 活跃率", _dcgm("DCGM_FI_PROF_SM_ACTIVE")),
    t.sm_occupancy_mean: _row("SM occupancy", "SM 占用率", _dcgm("DCGM_FI_PROF_SM_OCCUPANCY")),
    t.occupancy_while_active: _row(
        "occupancy while active",
        "活跃期间的占用率",
        _dcgm("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_ACTIVE"),
    ),
    t.tensor_active_mean: _row("tensor active", "张量核活跃率", _dcgm("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")),
    t.dram_active_mean: _row("DRAM active", "显存活跃率", _dcgm("DCGM_FI_PROF_DRAM_ACTIVE")),
    t.fp32_active_mean: _row("FP32 active", "FP32 活跃率", _dcgm("DCGM_FI_PROF_PIPE_FP32_ACTIVE")),
    t.memory_busy_mean: _row("memory busy", "显存读写忙碌率", _dcgm("DCGM_FI_DEV_MEM_COPY_UTIL")),
    t.power_watts_mean: _row("power", "功率", POWER),
    t.power_limit_share: _row("power of the limit", "功率占上限", POWER),
    p.busy_with_power: _row("correlation of busy and power", "忙碌率与功率的相关系数", POWER),
    memory_used_share: _row("memory in use", "显存已用", _dcgm("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE")),
    t.sm_clock_share: _row("clock of the highest", "时钟占最高时钟", CLOCKS),
    t.thermal_throttled_share: _row("time throttled by temperature", "因温度降频的时间占比", REASONS),
    t.power_capped_share: _row("time at the power cap", "触及功率上限的时间占比", REASONS),
    t.temperature_celsius_max: _row("highest temperature", "最高温度", _dcgm("DCGM_FI_DEV_GPU_TEMP")),
    t.temperature_margin_celsius: _row(
        "margin to its slowdown temperature", "距降频温度的余量", _dcgm("DCGM_FI_DEV_SLOWDOWN_TEMP")
    ),
    nvlink_link_share: _row("NVLink of its rate", "NVLink 占其速率", NVLINK),
    p.nvlink_cycles: _row("periodic falls of NVLink", "NVLink 周期性下降次数", NVLINK),
    t.nvlink_with_pcie: _row(
        "correlation of NVLink and PCIe receive",
        "NVLink 与 PCIe 接收的相关系数",
        _dcgm("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
    ),
    t.pcie_link_share: _row("PCIe of its rate", "PCIe 占其速率", PCIE),
    pcie_receive_link_share: _row("PCIe receive of its rate", "PCIe 接收占其速率", PCIE),
    t.pcie_with_input: _row(
        "correlation of PCIe receive and waiting for input",
        "PCIe 接收与等待输入的相关系数",
        Text(
            en="counter DCGM_FI_PROF_PCIE_RX_BYTES over a trace's time",
            zh="trace 时间内的计数器 DCGM_FI_PROF_PCIE_RX_BYTES",
        ),
    ),
    t.pcie_rate_lost_share: _row(
        "PCIe rate lost",
        "PCIe 损失的速率",
        _dcgm("DCGM_FI_DEV_PCIE_LINK_GEN", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "DCGM_FI_DEV_PCIE_LINK_WIDTH"),
    ),
    p.scope_suspects: _row("figures of doubtful scope", "口径可疑的指标", BUSY),
    t.num_foreign_processes: _row("processes of others", "其他进程", PROCESSES),
    t.foreign_sm_share: _row("their share of time", "其占用的时间", PROCESSES),
    t.foreign_memory_share: _row("their memory", "其占用的显存", PROCESSES),
    # ── logs and host ──
    t.seconds_without_step: _row("time without a step", "没有新步的时间", TRAINING_LOG),
    t.missed_log_lines: _row("usual log intervals missed", "缺失的日志间隔数", TRAINING_LOG),
    t.step_growth_ratio: _row("last step times of the first", "末段步时间占首段", TRAINING_LOG),
    t.quiet_while_stepping: _row("of quiet readings, with steps", "低忙碌采样中仍在推进的占比", TRAINING_LOG),
    t.log_out_of_memory: _row("out of memory", "显存不足次数", TRAINING_LOG),
    t.log_collective_timeouts: _row("collectives timed out", "集合通信超时次数", TRAINING_LOG),
    t.grave_xids: _row("grave Xids", "严重 Xid 次数", KERNEL_LOG),
    t.milder_xids: _row("further Xids", "其他 Xid 次数", KERNEL_LOG),
    t.wrong_way: _row("detours of NCCL", "NCCL 绕行", NCCL_LOG),
    t.numa_distance_share: _row("device pairs across sockets", "跨插槽的设备对占比", TOPOLOGY),
    t.host_major_faults_per_second: _row("major page faults", "主缺页", HOST),
    host_cpu_busy: _row("processor cores busy", "CPU 忙碌率", HOST),
    # ── trace ──
    idle_share: _row("device idle", "设备空闲", TRACE),
    idle_input_share: _row("idle, waiting for input", "空闲：等待输入", TRACE),
    idle_preprocess_share: _row("idle, batch prepared", "空闲：准备批次", TRACE),
    idle_launch_share: _row("idle, host issues ops", "空闲：主机下发算子", TRACE),
    host_loader_share: _row("host in the loader", "主机处于数据加载", TRACE),
    copy_stall_share: _row("exposed copies", "未被掩盖的拷贝", TRACE),
    pageable_copy_share: _row("pageable copies of all", "可分页内存拷贝占比", TRACE),
    exposed_communication_share: _row("exposed communication", "未被掩盖的通信", TRACE),
    r.peer_wait_share: _row("waiting for later ranks", "等待较晚的 rank", RANKS),
    p.wait_spread_share: _row("spread of the ranks' coming", "各 rank 到达的时间差", RANKS),
    k.memory_bound_kernel_share: _row("elementwise and normalisation", "逐元素与归一化", TRACE),
    k.elementwise_kernel_share: _row("elementwise kernels", "逐元素 kernel", TRACE),
    k.short_kernel_share: _row("kernels up to 10 µs", "不超过 10 µs 的 kernel", TRACE),
    k.tf32_off_share: _row("fp32 products without TF32", "未用 TF32 的 fp32 矩阵运算", SHAPES),
    p.gemm_shape_share: _row("hottest product's shape", "最热矩阵乘形状", SHAPES),
    p.gemm_shape_roofline_share: _row("its part of the roofline", "其达到 roofline 的比例", SHAPES),
    p.large_gemm_peak_share: _row(
        "large product's part of the peak at this clock",
        "大矩阵乘在此时钟下达到峰值的比例",
        Text(
            en="a trace with record_shapes=True, and DCGM_FI_DEV_SM_CLOCK with DCGM_FI_DEV_MAX_SM_CLOCK",
            zh="打开 record_shapes=True 的 trace，以及 DCGM_FI_DEV_SM_CLOCK 与 DCGM_FI_DEV_MAX_SM_CLOCK",
        ),
    ),
    p.flops_peak_share: _row("FLOP/s of the peak", "FLOP/s 占峰值", SHAPES),
}

UNITS: Mapping[str, Text] = {
    "celsius": Text(en="°C", zh="°C"),
    "s": Text(en="s", zh="秒"),
    "1/s": Text(en="per second", zh="次/秒"),
    "processes": Text(en="processes", zh="个进程"),
    "steps": Text(en="steps", zh="步"),
}


def amount(feature: Feature, value: float, lang: Lang) -> str:
    """A value as it stands in a sentence."""
    if feature.unit in ("1", "samples"):
        return f"{value:,.3g}"
    if feature.unit in UNITS:
        return f"{value:,.4g} {UNITS[feature.unit].in_(lang)}"
    return plain(value, feature.unit)


def said(facts: Facts, features: Iterable[Feature], lang: Lang) -> str:
    """The numbers that are known, in the order of `features`: `compute busy 96.0 %, power 320 W`."""
    return (", " if lang == "en" else "，").join(
        f"{NUMBERS[feature].name.in_(lang)} {amount(feature, value, lang)}"
        for feature in dict.fromkeys(features)
        if (value := facts.get(feature)) is not None
    )


def lacking(features: Iterable[Feature], lang: Lang) -> str:
    """What was not measured, and what would bring it; those that one source brings stand together."""
    by_source: dict[Text, list[str]] = {}
    for feature in dict.fromkeys(features):
        row = NUMBERS[feature]
        by_source.setdefault(row.brought_by, []).append(row.name.in_(lang))
    if lang == "zh":
        return "；".join(f"未测到{'、'.join(names)}：请提供{of.zh}" for of, names in by_source.items())
    return "; ".join(f"not measured: {', '.join(names)} (give {of.en})" for of, names in by_source.items())
