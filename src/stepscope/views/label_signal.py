"""What signals, events and what follows from telemetry are called, in both languages."""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.model import report
from stepscope.model.signal import CLOCK_REASONS
from stepscope.model.text import Lang, Text

_T = Text
_THROTTLES: Mapping[str, Text] = {
    "power": _T(en="power limit", zh="功耗上限"),
    "thermal": _T(en="temperature", zh="温度"),
    "sync_boost": _T(en="synchronised boost", zh="同步加速"),
    "board_limit": _T(en="board limit", zh="板卡限制"),
    "low_utilization": _T(en="low utilisation", zh="利用率低"),
    "reliability": _T(en="reliability voltage", zh="可靠性电压"),
    "application_clocks": _T(en="application clocks", zh="应用设定的频率"),
    "base_clocks": _T(en="below base clocks", zh="低于基础频率"),
    "hardware_thermal": _T(en="temperature (hardware)", zh="温度（硬件）"),
    "software_thermal": _T(en="temperature (driver)", zh="温度（驱动）"),
    "hardware_power_brake": _T(en="power brake", zh="外部功率制动"),
}
SIGNAL: Mapping[str, Text] = {
    "compute_busy_ratio": _T(en="compute busy", zh="计算忙碌"),
    "graphics_engine_active_ratio": _T(en="engine active", zh="引擎活跃"),
    "memory_busy_ratio": _T(en="memory busy", zh="显存忙碌"),
    "sm_active_ratio": _T(en="SM active", zh="SM 活跃"),
    "sm_occupancy_ratio": _T(en="SM occupancy", zh="SM 占用率"),
    "tensor_active_ratio": _T(en="tensor active", zh="Tensor 活跃"),
    "tensor_int8_active_ratio": _T(en="tensor active, integer", zh="Tensor 活跃（整数）"),
    "tensor_fp16_active_ratio": _T(en="tensor active, half precision", zh="Tensor 活跃（半精度）"),
    "tensor_fp64_active_ratio": _T(en="tensor active, double precision", zh="Tensor 活跃（双精度）"),
    "fp64_active_ratio": _T(en="FP64 active", zh="FP64 活跃"),
    "fp32_active_ratio": _T(en="FP32 active", zh="FP32 活跃"),
    "fp16_active_ratio": _T(en="FP16 active", zh="FP16 活跃"),
    "int_active_ratio": _T(en="integer active", zh="整数流水线活跃"),
    "vector_active_ratio": _T(en="vector active", zh="向量核活跃"),
    "encoder_busy_ratio": _T(en="encoder busy", zh="编码器忙碌"),
    "decoder_busy_ratio": _T(en="decoder busy", zh="解码器忙碌"),
    "dram_active_ratio": _T(en="DRAM active", zh="DRAM 活跃"),
    "memory_used_bytes": _T(en="memory used", zh="显存已用"),
    "memory_free_bytes": _T(en="memory free", zh="显存空闲"),
    "memory_reserved_bytes": _T(en="memory kept by the driver", zh="驱动保留的显存"),
    "memory_total_bytes": _T(en="memory present", zh="显存总量"),
    "memory_used_ratio": _T(en="share of memory used", zh="显存占用比"),
    "power_watts": _T(en="power", zh="功耗"),
    "power_limit_watts": _T(en="power limit", zh="功耗上限"),
    "power_limit_default_watts": _T(en="power limit as shipped", zh="出厂功耗上限"),
    "energy_joules_total": _T(en="energy", zh="能耗"),
    "temperature_celsius": _T(en="temperature", zh="温度"),
    "slowdown_temperature_celsius": _T(en="slowdown temperature", zh="降频温度"),
    "shutdown_temperature_celsius": _T(en="shutdown temperature", zh="关机温度"),
    "memory_temperature_celsius": _T(en="memory temperature", zh="显存温度"),
    "sm_clock_hertz": _T(en="SM clock", zh="SM 频率"),
    "sm_clock_max_hertz": _T(en="highest SM clock", zh="SM 最高频率"),
    "memory_clock_hertz": _T(en="memory clock", zh="显存频率"),
    "memory_clock_max_hertz": _T(en="highest memory clock", zh="显存最高频率"),
    "clock_event_reasons": _T(en="clocks held down by", zh="频率受限原因"),
    "performance_state": _T(en="P-state", zh="P-state"),
    **{
        f"throttle_{key}_seconds_total": _T(
            en=f"time with lowered clocks: {why.en}", zh=f"降频时间：{why.zh}"
        )
        for key, why in _THROTTLES.items()
    },
    "pcie_tx_bytes_per_second": _T(en="PCIe sent", zh="PCIe 发送"),
    "pcie_rx_bytes_per_second": _T(en="PCIe received", zh="PCIe 接收"),
    "pcie_bytes_per_second": _T(en="PCIe, both directions", zh="PCIe 双向"),
    "nvlink_tx_bytes_per_second": _T(en="device links sent", zh="设备互联发送"),
    "nvlink_rx_bytes_per_second": _T(en="device links received", zh="设备互联接收"),
    "nvlink_bytes_per_second": _T(en="device links, both directions", zh="设备互联双向"),
    "pcie_link_gen": _T(en="PCIe generation", zh="PCIe 代"),
    "pcie_link_width": _T(en="PCIe lanes", zh="PCIe 通道数"),
    "pcie_link_gen_max": _T(en="highest PCIe generation", zh="PCIe 最高代"),
    "pcie_link_width_max": _T(en="most PCIe lanes", zh="PCIe 最多通道数"),
    "pcie_replay_total": _T(en="PCIe replays", zh="PCIe 重传"),
    "nvlink_error_total": _T(en="device link errors", zh="设备互联错误"),
    "ecc_corrected_total": _T(en="corrected memory errors", zh="已纠正的显存错误"),
    "ecc_uncorrected_total": _T(en="uncorrected memory errors", zh="未纠正的显存错误"),
    "row_remap_correctable_total": _T(en="rows remapped, correctable", zh="行重映射（可纠正）"),
    "row_remap_uncorrectable_total": _T(en="rows remapped, uncorrectable", zh="行重映射（不可纠正）"),
    "retired_pages_total": _T(en="retired pages", zh="已停用的页"),
    "row_remap_pending": _T(en="row remapping pending", zh="待行重映射"),
    "row_remap_failed": _T(en="row remapping failed", zh="行重映射失败"),
    "xid": _T(en="last Xid", zh="最近的 Xid"),
    "process_sm_ratio": _T(en="process: kernels running", zh="进程：kernel 运行"),
    "process_memory_bytes": _T(en="process: device memory", zh="进程：显存"),
    "process_cpu_cores": _T(en="process: cores busy", zh="进程：占用核数"),
    "process_resident_bytes": _T(en="process: host memory", zh="进程：主机内存"),
    "process_major_faults_per_second": _T(en="process: major page faults", zh="进程主缺页"),
    "process_threads": _T(en="process: threads", zh="进程线程数"),
    "cpu_user_ratio": _T(en="CPU in programs", zh="CPU 用户态"),
    "cpu_system_ratio": _T(en="CPU in the kernel", zh="CPU 内核态"),
    "cpu_iowait_ratio": _T(en="CPU waiting for disk", zh="CPU 等待磁盘"),
    "cpu_steal_ratio": _T(en="CPU taken by the hypervisor", zh="CPU 被虚拟机管理程序占用"),
    "cpu_run_queue": _T(en="run queue", zh="运行队列"),
    "cpu_cores": _T(en="cores", zh="核数"),
    "major_page_faults_per_second": _T(en="major page faults", zh="主缺页"),
    "disk_read_bytes_per_second": _T(en="disk read", zh="磁盘读"),
    "disk_write_bytes_per_second": _T(en="disk written", zh="磁盘写"),
    "disk_read_operations_per_second": _T(en="disk reads", zh="磁盘读次数"),
    "disk_write_operations_per_second": _T(en="disk writes", zh="磁盘写次数"),
    "disk_busy_ratio": _T(en="disk busy", zh="磁盘忙碌"),
    "network_tx_bytes_per_second": _T(en="network sent", zh="网络发送"),
    "network_rx_bytes_per_second": _T(en="network received", zh="网络接收"),
    "rdma_tx_bytes_per_second": _T(en="RDMA sent", zh="RDMA 发送"),
    "rdma_rx_bytes_per_second": _T(en="RDMA received", zh="RDMA 接收"),
    "rdma_error_total": _T(en="RDMA errors", zh="RDMA 错误"),
    "memory_available_bytes": _T(en="host memory available", zh="主机可用内存"),
    "filesystem_available_bytes": _T(en="file system free", zh="文件系统可用"),
    "filesystem_size_bytes": _T(en="file system size", zh="文件系统容量"),
    "memory_present_bytes": _T(en="host memory present", zh="主机内存总量"),
    "cgroup_throttled_ratio": _T(en="stopped for the CPU quota", zh="因 CPU 配额被暂停"),
    "cgroup_cpu_quota_cores": _T(en="CPU quota", zh="CPU 配额"),
    "cpu_pressure_ratio": _T(en="waiting for a core", zh="等待 CPU"),
    "io_pressure_ratio": _T(en="waiting for a disk", zh="等待磁盘"),
    "memory_pressure_ratio": _T(en="waiting for memory", zh="等待内存"),
    "storage_medium": _T(en="storage medium", zh="存储介质"),
    "agent_cpu_seconds_total": _T(en="agent: CPU time", zh="agent：CPU 时间"),
    "agent_resident_bytes": _T(en="agent: memory", zh="agent：内存"),
    "agent_samples_total": _T(en="agent: samples", zh="agent：样本数"),
    "agent_samples_dropped_total": _T(en="agent: samples lost", zh="agent：丢失样本数"),
    "agent_late_total": _T(en="agent: looks left out", zh="agent：略过的采集"),
    "agent_reads_total": _T(en="agent: looks at a source", zh="agent：来源采集次数"),
    "agent_read_failures_total": _T(en="agent: failed looks", zh="agent：采集失败次数"),
    "agent_read_seconds_total": _T(en="agent: time of looks", zh="agent：采集耗时"),
}
"""The title of every signal of the catalogue."""

CLOCK_REASON: Mapping[str, Text] = {
    "idle": _T(en="idle", zh="空闲"),
    "application_clocks": _T(en="application clocks", zh="应用设定的频率"),
    "software_power_cap": _T(en="power limit", zh="功耗上限"),
    "hardware_slowdown": _T(en="hardware slowdown", zh="硬件降频"),
    "sync_boost": _T(en="synchronised boost", zh="同步加速"),
    "software_thermal": _T(en="temperature (driver)", zh="温度（驱动）"),
    "hardware_thermal": _T(en="temperature (hardware)", zh="温度（硬件）"),
    "hardware_power_brake": _T(en="power brake", zh="外部功率制动"),
    "display_clocks": _T(en="display clocks", zh="显示频率"),
}
EVENT_KIND: Mapping[report.EventKind, Text] = {
    "xid": _T(en="Xid", zh="Xid"),
    "oom": _T(en="out of memory", zh="内存不足"),
    "error": _T(en="error", zh="错误"),
    "checkpoint": _T(en="checkpoint", zh="检查点"),
    "start": _T(en="start", zh="开始"),
    "exit": _T(en="exit", zh="退出"),
    "capture": _T(en="capture", zh="采集"),
    "change": _T(en="change", zh="变更"),
}
WORDS: Mapping[str, Text] = {
    "counters": _T(en="Device counters", zh="设备计数器"),
    "counters_of": _T(en="counters:", zh="计数器："),
    "host_counters": _T(en="Host", zh="主机"),
    "over_time": _T(en="Signals over time", zh="信号随时间的变化"),
    "samples": _T(en="samples (covering)", zh="样本（覆盖）"),
    "progress": _T(en="Job progress, by its logs", zh="作业进度（据日志）"),
    "own_cost": _T(
        en="Own cost of stepscope, measured in this run", zh="stepscope 自身开销（在本次运行中测得）"
    ),
    "events": _T(en="Events", zh="事件"),
    "patterns": _T(en="Patterns", zh="四种模式"),
    "as_written": _T(en="as written", zh="原文阈值"),
    "effective": _T(en="effective", zh="生效阈值"),
    "decides_nothing": _T(
        en="as written: the specification's own thresholds, shown and deciding nothing; effective: those "
        "that decide",
        zh="原文阈值：规范自身的阈值，仅供展示，不作任何判定；生效阈值：据以判定",
    ),
    "holds": _T(en="holds", zh="成立"),
    "holds_not": _T(en="does not hold", zh="不成立"),
    "not_measured": _T(en="not measured", zh="未测量"),
    "unknown": _T(en="cannot be told", zh="无法判定"),
    "pattern": _T(en="pattern", zh="模式"),
    "begin_with": _T(en="begin with", zh="从此入手"),
    "hints": _T(en="Hints: each is a hint, not a verdict", zh="线索：仅为线索，不是结论"),
    "ok": _T(en="ok", zh="正常"),
    "suspect": _T(en="suspect", zh="可疑"),
    "in_order": _T(en="Gone through in order", zh="依次排查"),
    "no_reason": _T(en="nothing", zh="无"),
}
REPRESENTATIVE: Mapping[str, Text] = {
    "yes": _T(en="The window looks like the rest of the run", zh="该窗口与运行的其余部分相似"),
    "no": _T(en="The window does not look like the rest of the run", zh="该窗口与运行的其余部分不同"),
    "unknown": _T(
        en="Whether the window looks like the rest of the run is not known",
        zh="该窗口是否与运行的其余部分相似，无法得知",
    ),
}
ABSENT = "–"
"""What stands for a value that was not measured."""


def say(key: str, lang: Lang) -> str:
    """A word of ours in the reader's language."""
    return WORDS[key].in_(lang)


def signal_name(name: str, lang: Lang) -> str:
    """What a signal is called; one that is in no catalogue is its own name."""
    return SIGNAL[name].in_(lang) if name in SIGNAL else name


def clock_reasons(mask: int, lang: Lang) -> list[str]:
    """The names of the bits that are set; a bit without a name is its number."""
    told = [CLOCK_REASON[name].in_(lang) for bit, name in CLOCK_REASONS.items() if mask & bit]
    rest = mask & ~sum(CLOCK_REASONS)
    return [*told, *([hex(rest)] if rest else [])]
