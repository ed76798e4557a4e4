"""The table of alerts: every condition with its published defaults. A site changes them by
`threshold.with_thresholds`; `docs/reference/alerts.md` is made from here."""

from __future__ import annotations

from stepscope.detect.alert.condition import MINUTE_NS, SECOND_NS, Condition
from stepscope.model.text import Text

_SPEC = "published default of the specification"
_GATE = "robust gate: 6 of 8 beyond median + 3σ, effect 5/10/20 % (docs/reference/detection.md)"
_NVML = "NVML, clocks event reasons"
_S = SECOND_NS

RESOURCE: tuple[Condition, ...] = (
    Condition(
        id="memory-high", level="resource", how="level", severity="info", feature="memory_used_ratio",
        unit="ratio", threshold=0.90, clear=0.88, for_ns=5 * MINUTE_NS, pages=False,
        title=Text("Device memory nearly full", "显存将满"),
        text=Text("{who}: device memory {value} in use, over {threshold} for {held}; a framework's cache "
                  "fills it on purpose, so this alone is no fault",
                  "{who}：显存已用 {value}，超过 {threshold} 达 {held}；框架缓存会有意占满显存，单凭此项不算故障"),
        needs="memory_used_ratio, or memory used and total", reference=_SPEC,
    ),
    Condition(
        id="memory-growing", level="resource", how="level", severity="warning", feature="memory_growth_ratio",
        unit="ratio", threshold=0.02, clear=0.005, for_ns=0, clear_for_ns=2 * MINUTE_NS,
        title=Text("Device memory keeps growing", "显存持续增长"),
        text=Text("{who}: device memory grew in nearly every ten seconds of the last two minutes, by {value} "
                  "of the device: a leak ends out of memory",
                  "{who}：最近两分钟内显存几乎每 10 秒都在增长，共增长设备容量的 {value}：泄漏最终会导致显存耗尽"),
        needs="device memory, and steps that advance",
        reference="measured here: a healthy job's memory is flat after its first steps",
    ),
    Condition(
        id="temperature-at-limit", level="resource", how="level", severity="warning",
        feature="temperature_margin_celsius", unit="celsius", side="below", threshold=0.0, clear=3.0,
        for_ns=30 * _S, title=Text("At the device's own slowdown temperature", "达到设备自身的降频温度"),
        text=Text("{who}: {value} below its own slowdown temperature",
                  "{who}：距自身降频温度仅 {value}"),
        needs="temperature and slowdown temperature", reference="the device's own limit (DCGM 158, NVML)",
    ),
    Condition(
        id="temperature-over-80", level="resource", how="level", severity="warning",
        feature="temperature_celsius", unit="celsius", threshold=80.0, clear=78.0, for_ns=5 * MINUTE_NS,
        group="specification-literal", is_on=False,
        title=Text("Over 80 °C", "超过 80 °C"),
        text=Text("{who}: {value} for {held}; many devices are made for more",
                  "{who}：{value} 持续 {held}；许多设备允许更高温度"),
        needs="temperature", reference=_SPEC + ", to the letter; off by default: hot is not throttled",
    ),
    Condition(
        id="clock-thermal", level="resource", how="level", severity="warning", feature="thermal_slowdown_share",
        unit="ratio", threshold=0.6, clear=0.2, for_ns=0, clear_for_ns=30 * _S,
        title=Text("Clock lowered by temperature", "因温度降频"),
        text=Text("{who}: clock lowered by temperature under load in {value} of the last 10 s",
                  "{who}：最近 10 秒中有 {value} 的时间在负载下因温度降频"),
        needs="clock, compute busy, and clock event reasons or the thermal throttle counter", reference=_NVML,
    ),
    Condition(
        id="power-brake", level="resource", how="level", severity="warning", feature="power_brake_share",
        unit="ratio", threshold=0.6, clear=0.2, for_ns=0, clear_for_ns=30 * _S,
        title=Text("Clock lowered by the power brake", "因外部功率制动降频"),
        text=Text("{who}: clock lowered by the power brake from outside in {value} of the last 10 s",
                  "{who}：最近 10 秒中有 {value} 的时间因外部功率制动降频"),
        needs="clock, compute busy, clock event reasons", reference=_NVML,
    ),
    Condition(
        id="power-capped", level="resource", how="level", severity="warning", feature="power_cap_share",
        unit="ratio", threshold=0.6, clear=0.2, for_ns=0, clear_for_ns=30 * _S,
        title=Text("Clock lowered by a power limit below the shipped one", "功率上限低于出厂值导致降频"),
        text=Text("{who}: held at a power limit below the one as shipped in {value} of the last 10 s",
                  "{who}：最近 10 秒中有 {value} 的时间被低于出厂值的功率上限限制"),
        needs="clock, compute busy, clock event reasons, power limit and its default",
        reference=_NVML + "; at the shipped limit it is ordinary",
    ),
    Condition(
        id="clock-locked", level="resource", how="level", severity="warning", feature="clock_lock_share",
        unit="ratio", threshold=0.9, clear=0.3, for_ns=30 * _S, clear_for_ns=30 * _S,
        title=Text("Clock below its highest without a reason", "时钟无故低于最高频率"),
        text=Text("{who}: clock under load below 95 % of its highest in {value} of the last 10 s, neither "
                  "power nor temperature: clocks are locked, or set by an application",
                  "{who}：最近 10 秒中有 {value} 的时间负载时钟低于最高频率的 95%，且非功率或温度所致：时钟被锁定或被应用设置"),
        needs="clock, highest clock, compute busy, clock event reasons", reference=_NVML,
    ),
    Condition(
        id="xid", level="resource", how="event", feature="xid", unit="code", clear_for_ns=10 * MINUTE_NS,
        title=Text("Xid", "Xid"), text=Text("{who}: {value}", "{who}：{value}"),
        needs="the driver's events, the kernel log, or a gauge of the last Xid whose change is an edge",
        reference="severity by code: stepscope.model.xid",
    ),
    Condition(
        id="device-lost", level="resource", how="event", severity="critical", feature="device_vanished",
        unit="1", clear_for_ns=10 * MINUTE_NS,
        title=Text("Device lost", "设备丢失"), text=Text("{who}: {value}", "{who}：{value}"),
        needs="a source that showed the device before", reference="Xid 79; every series of it is gone",
    ),
    Condition(
        id="host-out-of-memory", level="resource", how="event", severity="critical", feature="oom", unit="1",
        clear_for_ns=10 * MINUTE_NS, title=Text("Host out of memory", "主机内存耗尽"),
        text=Text("{who}: {value}", "{who}：{value}"), needs="the kernel log", reference="Linux OOM killer",
    ),
    Condition(
        id="link-lost", level="resource", how="event", severity="warning", feature="link_event", unit="1",
        clear_for_ns=10 * MINUTE_NS, title=Text("Link error in the kernel log", "内核日志中的链路错误"),
        text=Text("{who}: {value}", "{who}：{value}"), needs="the kernel log",
        reference="docs/reference/logs.md: nvlink_error, pcie_error",
    ),
    Condition(
        id="ecc-uncorrected", level="resource", how="edge", severity="critical",
        feature="ecc_uncorrected_total", unit="1", threshold=1.0, clear_for_ns=10 * MINUTE_NS,
        title=Text("Uncorrected memory error", "不可纠正的显存错误"),
        text=Text("{who}: {value} uncorrected memory errors more", "{who}：新增 {value} 个不可纠正的显存错误"),
        needs="ecc_uncorrected_total, twice", reference="NVML ECC counters; growth tells, not the value",
    ),
    Condition(
        id="row-remapped", level="resource", how="edge", severity="warning", feature="row_remap_total",
        unit="1", threshold=1.0, clear_for_ns=10 * MINUTE_NS,
        title=Text("Memory row remapped", "显存行被重映射"),
        text=Text("{who}: {value} memory rows more were remapped", "{who}：新增 {value} 行显存被重映射"),
        needs="row remap counters, twice", reference="NVML row remapping",
    ),
    Condition(
        id="row-remap-pending", level="resource", how="level", severity="warning", feature="row_remap_pending",
        unit="state", threshold=1.0, clear=0.5, for_ns=5 * _S,
        title=Text("Memory rows wait to be remapped", "有待重映射的显存行"),
        text=Text("{who}: memory rows wait for a reset to be remapped", "{who}：有显存行需复位后才能重映射"),
        needs="row_remap_pending", reference="NVML row remapping",
    ),
    Condition(
        id="row-remap-failed", level="resource", how="level", severity="critical", feature="row_remap_failed",
        unit="state", threshold=1.0, clear=0.5, for_ns=5 * _S,
        title=Text("Row remapping failed", "显存行重映射失败"),
        text=Text("{who}: a memory row could not be remapped: the device is to be replaced",
                  "{who}：显存行无法重映射：应更换该设备"),
        needs="row_remap_failed", reference="NVML row remapping",
    ),
    Condition(
        id="pcie-degraded", level="resource", how="level", severity="warning", feature="pcie_share",
        unit="ratio", side="below", threshold=0.75, clear=0.9, for_ns=15 * _S,
        title=Text("PCIe below its own speed under load", "负载下 PCIe 速率低于自身能力"),
        text=Text("{who}: PCIe at {value} of its own speed under load",
                  "{who}：负载下 PCIe 仅为自身速率的 {value}"),
        needs="PCIe generation and width with their maxima, compute busy",
        reference="NVML PCIe link; it drops at idle on purpose, so only under load",
    ),
    Condition(
        id="link-errors", level="resource", how="level", severity="warning",
        feature="link_errors_per_minute", unit="1", threshold=20.0, clear=5.0, for_ns=5 * _S,
        clear_for_ns=MINUTE_NS, title=Text("Links count errors", "链路错误计数增长"),
        text=Text("{who}: {value} errors of NVLink or PCIe in the last minute",
                  "{who}：最近一分钟 NVLink 或 PCIe 出现 {value} 次错误"),
        needs="nvlink_error_total or pcie_replay_total, twice",
        reference="growth under load tells, not the value (reference of signals)",
    ),
)

PERFORMANCE: tuple[Condition, ...] = (
    Condition(
        id="step-slow", level="performance", how="gate", feature="step_seconds", unit="s",
        title=Text("Steps take longer", "步耗时增加"),
        text=Text("{who}: a step takes {value}, usual is {normal} (+{effect})",
                  "{who}：每步 {value}，平时 {normal}（+{effect}）"),
        needs="marked steps, 60 of them clean", reference=_GATE,
    ),
    Condition(
        id="tokens-falling", level="performance", how="gate", feature="tokens_per_second", unit="1/s",
        side="below", title=Text("Tokens per second fall", "每秒 token 数下降"),
        text=Text("{who}: {value} tokens/s, usual are {normal} (-{effect})",
                  "{who}：每秒 {value} token，平时 {normal}（-{effect}）"),
        needs="marked steps with tokens, 60 of them clean", reference=_GATE,
    ),
    Condition(
        id="data-wait-up", level="performance", how="gate", feature="data_wait_ratio", unit="ratio",
        title=Text("The loader takes more of the step", "数据加载占比上升"),
        text=Text("{who}: waits for data {value} of the step, usual is {normal} (+{effect})",
                  "{who}：等待数据占每步 {value}，平时 {normal}（+{effect}）"),
        needs="marked phase data, 60 clean steps", reference=_GATE + ", in points of the step",
    ),
    Condition(
        id="data-wait-high", level="performance", how="task", severity="warning", feature="data_wait_ratio",
        unit="ratio", threshold=0.20, clear=0.15, for_ns=MINUTE_NS,
        title=Text("Much of the step waits for data", "每步大量时间等待数据"),
        text=Text("{who}: {value} of the last 32 steps waits for data, for {held}",
                  "{who}：最近 32 步中有 {value} 的时间在等待数据，已持续 {held}"),
        needs="marked phase data", reference="TraceML: input wait ≥ 20 % is critical",
    ),
    Condition(
        id="communication-up", level="performance", how="gate", feature="communication_seconds", unit="s",
        title=Text("Communication takes longer", "通信耗时增加"),
        text=Text("{who}: meetings of the ranks take {value} a step without any wait, usual is {normal} "
                  "(+{effect})",
                  "{who}：不计等待，各 rank 每步集合通信耗时 {value}，平时 {normal}（+{effect}）"),
        needs="marked phases in which ranks meet, 60 clean steps", reference=_GATE,
    ),
    Condition(
        id="rank-slow", level="performance", how="peer", feature="own_step_seconds", unit="s",
        clear_for_ns=20 * _S,
        title=Text("A rank is slower than its peers", "某 rank 慢于其他 rank"),
        text=Text("{who}: its own part of the step takes {effect} longer than its peers'",
                  "{who}：其自身部分比其他 rank 慢 {effect}"),
        needs="marked steps of at least two ranks", reference="peer gate (detect.peer): 6 of 8 steps, 10 %",
    ),
    Condition(
        id="tensor-low", level="performance", how="gate", feature="tensor_active_ratio", unit="ratio",
        side="below", title=Text("Tensor cores less active", "Tensor Core 活跃度下降"),
        text=Text("{who}: tensor cores active {value}, usual is {normal} (-{effect})",
                  "{who}：Tensor Core 活跃度 {value}，平时 {normal}（-{effect}）"),
        needs="tensor_active_ratio, 60 clean samples", reference=_GATE + ", in points",
    ),
    Condition(
        id="dram-high", level="performance", how="gate", feature="dram_active_ratio", unit="ratio",
        title=Text("Device memory more active", "显存带宽占用上升"),
        text=Text("{who}: memory interface active {value}, usual is {normal} (+{effect})",
                  "{who}：显存接口活跃度 {value}，平时 {normal}（+{effect}）"),
        needs="dram_active_ratio, 60 clean samples", reference=_GATE + ", in points",
    ),
    Condition(
        id="sm-low", level="performance", how="gate", feature="sm_active_ratio", unit="ratio", side="below",
        title=Text("Multiprocessors less active", "SM 活跃度下降"),
        text=Text("{who}: multiprocessors active {value}, usual is {normal} (-{effect})",
                  "{who}：SM 活跃度 {value}，平时 {normal}（-{effect}）"),
        needs="sm_active_ratio, 60 clean samples", reference=_GATE + ", in points",
    ),
    Condition(
        id="busy-low", level="performance", how="level", severity="warning", feature="compute_busy_ratio",
        unit="ratio", side="below", threshold=0.20, clear=0.30, for_ns=10 * MINUTE_NS,
        clear_for_ns=MINUTE_NS, needs_stillness=True, title=Text("Hardly busy", "利用率过低"),
        text=Text("{who}: busy {value}, under {threshold} for {held}",
                  "{who}：利用率 {value}，低于 {threshold} 达 {held}"),
        needs="compute_busy_ratio; the state of the job's steps decides whether it is more than a hint",
        reference=_SPEC,
    ),
    Condition(
        id="idle", level="performance", how="level", severity="warning", feature="compute_busy_mean_ratio",
        unit="ratio", side="below", threshold=0.05, clear=0.10, clear_for_ns=MINUTE_NS,
        needs_stillness=True, title=Text("Idle", "空闲"),
        text=Text("{who}: busy {value} in the mean of 5 min", "{who}：5 分钟平均利用率 {value}"),
        needs="compute_busy_ratio over 5 min; the state of the job's steps, as above", reference=_SPEC,
    ),
    Condition(
        id="saw-tooth", level="performance", how="level", severity="info", feature="saw_tooth", unit="1",
        threshold=1.0, clear=0.5, for_ns=MINUTE_NS, clear_for_ns=5 * MINUTE_NS,
        title=Text("Busy and idle by turns", "忙闲交替"),
        text=Text("{who}: busy over 70 % and under 10 % each in more than a twentieth of the last 5 min",
                  "{who}：最近 5 分钟内，利用率高于 70% 与低于 10% 的时间各超过二十分之一"),
        needs="compute_busy_ratio over 5 min, no marked evaluation or checkpoint in it",
        reference="SageMaker Debugger: p95 ≥ 70 % and p5 < 10 %",
    ),
    Condition(
        id="busy-power-falling", level="performance", how="level", severity="info",
        feature="busy_power_fall_ratio", unit="ratio", threshold=0.25, clear=0.10, for_ns=30 * _S, pages=False,
        title=Text("Utilisation and power fall together", "利用率与功率同时下降"),
        text=Text("{who}: utilisation and power of the last minute are at least {value} below those of the "
                  "last half hour: less work comes",
                  "{who}：最近一分钟的利用率与功率比过去半小时至少低 {value}：工作量减少"),
        needs="compute_busy_ratio and power_watts", reference="a hint of the specification, never an alert",
    ),
)

TASK: tuple[Condition, ...] = (
    Condition(
        id="hang", level="task", how="elsewhere", severity="critical", feature="no_step_seconds", unit="s",
        threshold=30.0, title=Text("No step advances", "步不再推进"),
        text=Text("{who}: no step for {value}", "{who}：已 {value} 没有新的步"),
        needs="marked steps", reference="no step for max(30 s, 3 × the learned tail) (detect.hang)",
    ),
    Condition(
        id="process-gone", level="task", how="elsewhere", severity="critical", feature="exit", unit="1",
        title=Text("A process is gone", "进程消失"),
        text=Text("{who}: ended without a word", "{who}：未留任何信息即结束"),
        needs="step rings, which a living process holds", reference="detect.hang",
    ),
    Condition(
        id="never-started", level="task", how="elsewhere", severity="warning", feature="start", unit="1",
        title=Text("Never came to a step", "始终没有开始训练步"),
        text=Text("{who}: marked its start and no step for {value}", "{who}：已启动，但 {value} 内没有任何步"),
        needs="step rings", reference="detect.hang",
    ),
    Condition(
        id="loss-not-finite", level="task", how="task", severity="critical", feature="loss", unit="1",
        clear_for_ns=MINUTE_NS, title=Text("The loss is no number", "损失不是有限值"),
        text=Text("{who}: the loss is {value}", "{who}：损失为 {value}"),
        needs="a logged loss", reference=_SPEC + ": loss not updated",
    ),
    Condition(
        id="loss-not-updated", level="task", how="task", severity="warning", feature="loss", unit="1",
        for_ns=2 * MINUTE_NS, clear_for_ns=10 * _S,
        title=Text("The loss does not change", "损失不再更新"),
        text=Text("{who}: steps advance and the loss stays at {value} for 20 steps and {held}",
                  "{who}：步在推进，但损失在 20 步、{held} 内一直为 {value}"),
        needs="a logged loss", reference=_SPEC,
    ),
    Condition(
        id="collective-timeout", level="task", how="event", severity="critical", feature="nccl_watchdog",
        unit="1", clear_for_ns=10 * MINUTE_NS,
        title=Text("A collective timed out", "集合通信超时"), text=Text("{who}: {value}", "{who}：{value}"),
        needs="the log that NCCL or the framework's watchdog writes",
        reference="PyTorch's NCCL watchdog: 10 min by default",
    ),
    Condition(
        id="checkpoint-stuck", level="task", how="task", severity="critical", feature="checkpoint_seconds",
        unit="s", threshold=600.0, title=Text("A checkpoint does not end", "检查点迟迟未完成"),
        text=Text("{who}: in a checkpoint for {value}, the longest so far took {normal}",
                  "{who}：检查点已持续 {value}，此前最长 {normal}"),
        needs="marked phase checkpoint",
        reference="max(10 min, 3 × the longest before); measured checkpoints take 96 s of a 168 s epoch",
    ),
)  # fmt: skip

TABLE: tuple[Condition, ...] = (*RESOURCE, *PERFORMANCE, *TASK)
"""All of them. Ids are unique."""
