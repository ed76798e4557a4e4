"""The three specified orders in which a symptom is gone through, as tables of stations.

A station shows its numbers, and is suspect where all clauses of any of its signs hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stepscope.analyse.features import (
    copy_stall_share,
    exposed_communication_share,
    host_cpu_busy,
    idle_input_share,
    idle_launch_share,
    idle_preprocess_share,
    memory_used_share,
    nvlink_link_share,
    pageable_copy_share,
    sm_active_mean,
)
from stepscope.analyse.features.kernel import memory_bound_kernel_share, short_kernel_share, tf32_off_share
from stepscope.analyse.features.pattern import large_gemm_peak_share, scope_suspects
from stepscope.analyse.features.peer import peer_wait_share
from stepscope.analyse.features.telemetry import (
    busy_below_peers,
    compute_busy_five_minutes,
    compute_busy_mean,
    compute_busy_p5,
    compute_busy_p95,
    compute_busy_quiet_share,
    dram_active_mean,
    grave_xids,
    host_major_faults_per_second,
    log_collective_timeouts,
    log_out_of_memory,
    milder_xids,
    missed_log_lines,
    num_foreign_processes,
    numa_distance_share,
    pcie_link_share,
    pcie_rate_lost_share,
    power_capped_share,
    power_limit_share,
    power_watts_mean,
    quiet_while_stepping,
    seconds_without_step,
    sm_clock_share,
    step_growth_ratio,
    telemetry_samples,
    temperature_celsius_max,
    tensor_active_mean,
    thermal_throttled_share,
    wrong_way,
)
from stepscope.model.feature import Clause, Feature
from stepscope.model.text import Text

Name = Literal["low-utilisation", "busy-low-power", "six-causes"]
Sign = tuple[Clause, ...]
"""All of it."""


@dataclass(frozen=True, slots=True)
class Station:
    """What is looked at, in order.

    It is suspect where any of `signs` or `further` holds; ok where all of `signs` are known not to; else
    unknown. `further` are of sources that many runs lack: their absence leaves nothing open. `shows` are
    further numbers for the sentence.
    """

    text: Text
    signs: tuple[Sign, ...]
    further: tuple[Sign, ...] = ()
    shows: tuple[Feature, ...] = ()

    def features(self) -> tuple[Feature, ...]:
        """What it looks at, each once."""
        named = [c.feature for sign in (*self.signs, *self.further) for c in sign]
        return tuple(dict.fromkeys([*self.shows, *named]))


@dataclass(frozen=True, slots=True)
class Order:
    """One walk: it is given where any of `symptom` holds; of no symptom it is asked for by its caller."""

    walk: Name
    title: Text
    symptom: tuple[Sign, ...]
    stations: tuple[Station, ...]


LOW_UTILISATION = Order(
    "low-utilisation",
    Text(en="The device is hardly used", zh="设备利用率低"),
    symptom=((compute_busy_five_minutes <= 0.05,), (compute_busy_mean <= 0.50,)),
    stations=(
        Station(
            Text(en="Do steps go on?", zh="步是否在推进"),
            signs=((seconds_without_step >= 30, missed_log_lines >= 3),),
            further=((step_growth_ratio >= 1.10,),),
            shows=(quiet_while_stepping,),
        ),
        Station(
            Text(en="The raw curve: flat, or bursts?", zh="原始曲线：平坦还是突发"),
            signs=(
                (compute_busy_p95 >= 0.70, compute_busy_p5 <= 0.10),
                (compute_busy_quiet_share >= 0.50,),
            ),
            shows=(compute_busy_mean, compute_busy_five_minutes, compute_busy_p5, compute_busy_p95),
        ),
        Station(
            Text(en="The cards against each other", zh="各卡之间对比"),
            signs=((busy_below_peers >= 0.30,),),
        ),
        Station(
            Text(en="Communication and data", zh="通信与数据"),
            signs=((exposed_communication_share >= 0.10,), (idle_input_share >= 0.10,)),
            further=((pcie_link_share >= 0.10, nvlink_link_share <= 0.01), (host_cpu_busy >= 0.90,)),
        ),
        Station(
            Text(en="Errors and the state of processes", zh="错误与进程状态"),
            signs=((grave_xids >= 1,), (log_collective_timeouts >= 1,), (log_out_of_memory >= 1,)),
            further=((num_foreign_processes >= 1,), (milder_xids >= 1,)),
        ),
    ),
)
BUSY_LOW_POWER = Order(
    "busy-low-power",
    Text(en="Busy, but at low power", zh="忙碌但功率低"),
    symptom=((compute_busy_mean >= 0.90, power_limit_share <= 0.60),),
    stations=(
        Station(
            Text(
                en="The figures' scope: one card, over time, bytes of the same thing",
                zh="指标口径：单卡还是合计、瞬时还是平均、容量还是带宽",
            ),
            signs=((scope_suspects >= 1,),),
            shows=(compute_busy_mean, power_watts_mean, memory_used_share, telemetry_samples),
        ),
        Station(
            Text(en="Power, clock and temperature", zh="功率、时钟与温度"),
            signs=(
                (sm_clock_share <= 0.90,),
                (thermal_throttled_share >= 0.10,),
                (power_capped_share >= 0.10,),
            ),
            shows=(power_limit_share, temperature_celsius_max),
        ),
        Station(
            Text(en="Tensor cores", zh="张量核"),
            signs=((tensor_active_mean <= 0.10,),),
        ),
        Station(
            Text(en="Memory bandwidth (DRAM)", zh="显存带宽（DRAM）"),
            signs=((dram_active_mean >= 0.60,),),
        ),
        Station(
            Text(en="Links and NCCL", zh="链路与 NCCL"),
            signs=((exposed_communication_share >= 0.10,),),
            further=(
                (sm_active_mean <= 0.30,),
                (pcie_link_share >= 0.10, nvlink_link_share <= 0.01),
                (wrong_way >= 1,),
            ),
        ),
        Station(
            Text(en="Throughput and the timeline", zh="吞吐与时间线"),
            signs=((short_kernel_share >= 0.50,),),
            further=((step_growth_ratio >= 1.10,), (idle_launch_share >= 0.10,)),
        ),
    ),
)
SIX_CAUSES = Order(
    "six-causes",
    Text(en="A slow step: six causes in order", zh="步变慢：按顺序排查六类原因"),
    symptom=(),
    stations=(
        Station(
            Text(en="Data", zh="数据"),
            signs=((idle_input_share >= 0.10,), (idle_preprocess_share >= 0.10,)),
            further=((host_major_faults_per_second >= 100,),),
        ),
        Station(
            Text(en="Copies", zh="拷贝"),
            signs=((copy_stall_share >= 0.05,),),
            shows=(copy_stall_share, pageable_copy_share),
        ),
        Station(
            Text(en="Communication", zh="通信"),
            signs=((exposed_communication_share >= 0.10,),),
            further=((peer_wait_share >= 0.05,),),
        ),
        Station(
            Text(en="Ops", zh="算子"),
            signs=((memory_bound_kernel_share >= 0.30,), (idle_launch_share >= 0.10,)),
            further=((large_gemm_peak_share < 0.60,), (tf32_off_share >= 0.10,)),
        ),
        Station(
            Text(en="Topology", zh="拓扑"),
            signs=((wrong_way >= 1,), (numa_distance_share >= 0.50,)),
            further=((pcie_rate_lost_share >= 0.25,),),
        ),
        Station(
            Text(en="Batch size", zh="批次大小"),
            signs=((sm_active_mean < 0.50, memory_used_share <= 0.50),),
            further=((compute_busy_mean <= 0.50, memory_used_share <= 0.50),),
        ),
    ),
)

ORDERS: tuple[Order, ...] = (LOW_UTILISATION, BUSY_LOW_POWER, SIX_CAUSES)
