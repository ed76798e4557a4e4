"""Features of telemetry, host counters and logs: numbers of `analyse.telemetry`, absent without them."""

from __future__ import annotations

from stepscope.analyse.features import exposed_communication_share
from stepscope.model.feature import Feature, Observed
from stepscope.model.report import Origin


def _number(name: str, unit: str, origin: Origin, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: observed.device.numbers.get(name), origin=origin)


telemetry_samples = _number(
    "telemetry_samples", "samples", "telemetry", "Readings of this device's counters that were judged."
)
overlapping_samples = _number(
    "overlapping_samples",
    "samples",
    "telemetry",
    "Readings of this device's counters that lie in the trace's time.",
)
compute_busy_mean = _number(
    "compute_busy_mean",
    "ratio",
    "telemetry",
    "Share of time in which any kernel was resident, by the counters. Busy is not efficient.",
)
compute_busy_p5 = _number("compute_busy_p5", "ratio", "telemetry", "5th percentile of compute busy.")
compute_busy_p95 = _number("compute_busy_p95", "ratio", "telemetry", "95th percentile of compute busy.")
compute_busy_quiet_share = _number(
    "compute_busy_quiet_share", "ratio", "telemetry", "Share of readings with compute busy under 5 %."
)
compute_busy_five_minutes = _number(
    "compute_busy_five_minutes",
    "ratio",
    "telemetry",
    "The least mean of compute busy over five minutes; over all, where they are fewer.",
)
quiet_five_minutes = _number(
    "quiet_five_minutes",
    "ratio",
    "telemetry",
    "Share of the readings with the device hardly busy, in the five minutes in which it was used least. The "
    "time before the first step counts only where the device worked ever since.",
)
busy_below_peers = _number(
    "busy_below_peers",
    "ratio",
    "telemetry",
    "How far compute busy lies under the median of the job's other devices.",
)
sm_occupancy_mean = _number(
    "sm_occupancy_mean", "ratio", "telemetry", "Mean occupancy over elapsed cycles and all multiprocessors."
)
occupancy_while_active = _number(
    "occupancy_while_active", "ratio", "telemetry", "Occupancy of the multiprocessors that had work."
)
sm_active_swing = _number(
    "sm_active_swing",
    "ratio",
    "telemetry",
    "Half the distance from the 5th to the 95th percentile of SM active.",
)
tensor_active_mean = _number(
    "tensor_active_mean", "ratio", "telemetry", "Share of cycles in which a tensor pipe issued."
)
dram_active_mean = _number(
    "dram_active_mean",
    "ratio",
    "telemetry",
    "Share of cycles in which the memory interface moved data; about 0.8 is the practical maximum.",
)
fp32_active_mean = _number(
    "fp32_active_mean", "ratio", "telemetry", "Share of cycles in which the FP32 pipe issued."
)
memory_busy_mean = _number(
    "memory_busy_mean",
    "ratio",
    "telemetry",
    "Share of time in which device memory was read or written: not capacity.",
)
power_watts_mean = _number("power_watts_mean", "W", "telemetry", "Mean power of the board.")
power_limit_share = _number(
    "power_limit_share",
    "ratio",
    "telemetry",
    "Mean power against the limit that is enforced, or the model's rated power.",
)
power_limit_share_loaded = _number(
    "power_limit_share_loaded", "ratio", "telemetry", "Median power under load against the limit."
)
power_limit_rated_share = _number(
    "power_limit_rated_share",
    "ratio",
    "telemetry",
    "The enforced power limit against the model's rated power.",
)
memory_used_bytes_max = _number("memory_used_bytes_max", "B", "telemetry", "The most device memory in use.")
memory_growth_share = _number(
    "memory_growth_share",
    "ratio",
    "telemetry",
    "By how much device memory in use grew, as a share of what is present.",
)
memory_growth_steadiness = _number(
    "memory_growth_steadiness",
    "ratio",
    "telemetry",
    "Of ten equal times, the share in which more memory was in use than in the one before.",
)
memory_jump_share = _number(
    "memory_jump_share",
    "ratio",
    "telemetry",
    "The largest rise of memory in use from one reading to the next, as a share of what is present.",
)
sm_clock_share = _number(
    "sm_clock_share", "ratio", "telemetry", "Median clock under load against the highest clock."
)
clock_loss_share = _number(
    "clock_loss_share", "ratio", "telemetry", "Mean clock under load that is missing from the highest clock."
)
clock_spread_share = _number(
    "clock_spread_share",
    "ratio",
    "telemetry",
    "5th to 95th percentile of the clock under load, as a share of its median.",
)
clock_drop_share = _number(
    "clock_drop_share",
    "ratio",
    "telemetry",
    "How much lower the clock is under load while a thermal, power or brake reason is set.",
)
clock_ramp_share = _number(
    "clock_ramp_share",
    "ratio",
    "telemetry",
    "How much lower the clock is in the first reading under load after rest.",
)
thermal_throttled_share = _number(
    "thermal_throttled_share",
    "ratio",
    "telemetry",
    "Share of the time under load with clocks lowered for temperature, by the driver's reasons.",
)
power_capped_share = _number(
    "power_capped_share",
    "ratio",
    "telemetry",
    "Share of the time under load with clocks lowered by the power limit, by the driver's reasons.",
)
power_braked_share = _number(
    "power_braked_share",
    "ratio",
    "telemetry",
    "Share of the time under load with the power brake of the machine set.",
)
application_clock_share = _number(
    "application_clock_share",
    "ratio",
    "telemetry",
    "Share of the time under load with clocks set by an application or administrator.",
)
temperature_celsius_max = _number(
    "temperature_celsius_max", "celsius", "telemetry", "The highest temperature of the chip."
)
temperature_margin_celsius = _number(
    "temperature_margin_celsius",
    "celsius",
    "telemetry",
    "From the highest temperature to where the device slows down by itself.",
)
nvlink_peak_link_share = _number(
    "nvlink_peak_link_share",
    "ratio",
    "telemetry",
    "The highest rate of NVLink against one direction of the link.",
)
nvlink_bytes_per_second_mean = _number(
    "nvlink_bytes_per_second_mean", "B/s", "telemetry", "Mean rate of NVLink, the busier direction."
)
pcie_link_share = _number(
    "pcie_link_share",
    "ratio",
    "telemetry",
    "Bytes over PCIe, the busier direction, against one direction of the bus.",
)
pcie_peak_link_share = _number(
    "pcie_peak_link_share", "ratio", "telemetry", "The highest rate of PCIe against one direction of the bus."
)
pcie_bytes_per_second_mean = _number(
    "pcie_bytes_per_second_mean", "B/s", "telemetry", "Mean rate of PCIe, the busier direction."
)
pcie_rate_lost_share = _number(
    "pcie_rate_lost_share",
    "ratio",
    "telemetry",
    "What PCIe generation and lanes under load lack against what device and slot can do.",
)
nvlink_errors_grown = _number(
    "nvlink_errors_grown", "1", "telemetry", "New errors of NVLink (CRC, replay, recovery)."
)
pcie_replays_grown = _number("pcie_replays_grown", "1", "telemetry", "Packets sent again over PCIe.")
ecc_uncorrected_grown = _number(
    "ecc_uncorrected_grown", "1", "telemetry", "New memory errors that were not corrected."
)
ecc_corrected_grown = _number(
    "ecc_corrected_grown", "1", "telemetry", "New memory errors that were corrected."
)
rows_remapped = _number("rows_remapped", "rows", "telemetry", "Memory rows remapped so far.")
row_remap_pending = _number(
    "row_remap_pending", "1", "telemetry", "Whether rows wait for a reset to be remapped."
)
row_remap_failed = _number("row_remap_failed", "1", "telemetry", "Whether remapping a row failed.")
grave_xids = _number(
    "grave_xids",
    "1",
    "log",
    "Xid incidents of this device, in the time judged, after which a job cannot go on.",
)
milder_xids = _number("milder_xids", "1", "log", "Further Xid incidents of this device in the time judged.")
num_foreign_processes = _number(
    "num_foreign_processes", "processes", "telemetry", "Processes on the device that are none of the job's."
)
foreign_memory_share = _number(
    "foreign_memory_share",
    "ratio",
    "telemetry",
    "Device memory of processes that are none of the job's, as a share of what is present.",
)
foreign_sm_share = _number(
    "foreign_sm_share",
    "ratio",
    "telemetry",
    "Share of time in which processes that are none of the job's had a kernel running.",
)
busy_beyond_trace = _number(
    "busy_beyond_trace",
    "ratio",
    "telemetry",
    "Compute busy by the counters less what the trace says of the same time.",
)
trace_busy_share = _number(
    "trace_busy_share",
    "ratio",
    "trace",
    "Share of the readings' own time in which the trace has a kernel running.",
)
counter_is_broken = _number(
    "counter_is_broken",
    "1",
    "telemetry",
    "1 where the counter says that nothing ran while the trace has kernels.",
)
occupancy_beyond_estimate = _number(
    "occupancy_beyond_estimate",
    "ratio",
    "telemetry",
    "Measured occupancy while computing less the profiler's estimate.",
)
nvlink_in_collectives_link_share = _number(
    "nvlink_in_collectives_link_share",
    "ratio",
    "telemetry",
    "Rate of NVLink in the time in collectives, against one direction of the link.",
)
pcie_in_collectives_link_share = _number(
    "pcie_in_collectives_link_share",
    "ratio",
    "telemetry",
    "Rate of PCIe in the time in collectives, against one direction of the bus.",
)
sm_active_in_collectives = _number(
    "sm_active_in_collectives",
    "ratio",
    "telemetry",
    "Mean SM active of the readings that are of collectives beside which nothing computes.",
)
pcie_with_input = _number(
    "pcie_with_input",
    "1",
    "telemetry",
    "Correlation of PCIe to the device with waiting for input, in the same reading or the one before.",
)
nvlink_with_pcie = _number(
    "nvlink_with_pcie", "1", "telemetry", "Correlation of NVLink with PCIe to the device."
)
matrix_slowdown = _number(
    "matrix_slowdown",
    "1",
    "trace",
    "How much longer this rank's products, convolutions and attention take than the same ones of its peers.",
)
other_slowdown = _number(
    "other_slowdown",
    "1",
    "trace",
    "How much longer this rank's other kernels take than the same ones of its peers.",
)
clock_bound_share = Feature(
    "clock_bound_share",
    "ratio",
    "Time of products, convolutions and attention that a lower clock costs, as a share of the step.",
    lambda observed: observed.device.numbers.get("clock_bound_share"),
    origin="telemetry",
    of=("compute",),
)
host_iowait_share = _number(
    "host_iowait_share",
    "ratio",
    "host",
    "Share of the host's processor time idle with a disk request outstanding.",
)
host_run_queue_per_core = _number(
    "host_run_queue_per_core", "1", "host", "Processes that run or want to, per core."
)
host_major_faults_per_second = _number(
    "host_major_faults_per_second", "1/s", "host", "Page faults that had to read from disk."
)
major_faults_with_loader = _number(
    "major_faults_with_loader", "1", "host", "Correlation of major page faults with waiting for input."
)
host_disk_busy_share = _number(
    "host_disk_busy_share", "ratio", "host", "Share of time in which the busiest disk had a request."
)
host_disk_read_bytes_per_second = _number(
    "host_disk_read_bytes_per_second", "B/s", "host", "Bytes read from disks."
)
host_disk_written_bytes_per_second = _number(
    "host_disk_written_bytes_per_second", "B/s", "host", "Bytes written to disks."
)
host_network_bytes_per_second = _number(
    "host_network_bytes_per_second", "B/s", "host", "Bytes sent over network interfaces."
)
host_rdma_bytes_per_second = _number(
    "host_rdma_bytes_per_second", "B/s", "host", "Bytes sent over RDMA ports."
)
host_cgroup_throttled_share = _number(
    "host_cgroup_throttled_share",
    "ratio",
    "host",
    "Share of scheduling periods in which the container was stopped for its quota.",
)
host_memory_used_share = _number(
    "host_memory_used_share", "ratio", "host", "Host memory in use against host memory present."
)
step_growth_ratio = _number(
    "step_growth_ratio",
    "1",
    "log",
    "Median step time of the last quarter of the log against the first; 1 where steps scatter by more.",
)
steps_logged = _number("steps_logged", "steps", "log", "Steps that the log covers.")
seconds_without_step = _number(
    "seconds_without_step", "s", "log", "Time from the log's last step to the end of telemetry or log."
)
missed_log_lines = _number(
    "missed_log_lines", "1", "log", "The same, in usual times between two lines that state a step."
)
killed_ranks = _number(
    "killed_ranks",
    "ranks",
    "log",
    "Ranks whose process is gone and never said that it ends, by their marks.",
)
mismatched_ranks = _number(
    "mismatched_ranks",
    "ranks",
    "log",
    "Ranks that call another collective than the others of their group, by the flight recorder.",
)
absent_ranks = _number(
    "absent_ranks",
    "ranks",
    "log",
    "Ranks that did not enter a collective in which others of their group wait, by the flight recorder.",
)
elsewhere_by_stacks = _number(
    "elsewhere_by_stacks",
    "ranks",
    "log",
    "Ranks that are elsewhere than the others, by the stacks of all.",
)
standstill_busy_mean = _number(
    "standstill_busy_mean", "ratio", "telemetry", "Compute busy since the last step."
)
standstill_power_ratio = _number(
    "standstill_power_ratio",
    "ratio",
    "telemetry",
    "Mean power since the last step against that while steps went on.",
)
quiet_while_stepping = _number(
    "quiet_while_stepping",
    "ratio",
    "log",
    "Share of the readings with a device hardly busy, in the five minutes in which it was used least, in "
    "which steps went on.",
)
quiet_in_checkpoint = _number(
    "quiet_in_checkpoint",
    "ratio",
    "log",
    "Share of the readings with a device hardly busy, in the five minutes in which it was used least, that "
    "lie in a checkpoint.",
)
quiet_in_eval = _number(
    "quiet_in_eval",
    "ratio",
    "log",
    "Share of the readings with a device hardly busy, in the five minutes in which it was used least, that "
    "lie in an evaluation.",
)
quiet_before_steps = _number(
    "quiet_before_steps",
    "ratio",
    "log",
    "Share of the readings with a device hardly busy, in the five minutes in which it was used least, before "
    "the first step.",
)
silent_in_checkpoint = _number(
    "silent_in_checkpoint", "ratio", "log", "Share of the time since the log's last step in a checkpoint."
)
silent_in_eval = _number(
    "silent_in_eval", "ratio", "log", "Share of the time since the log's last step in an evaluation."
)
nccl_socket_share = _number("nccl_socket_share", "ratio", "log", "Channels of NCCL that go over sockets.")
nccl_host_memory_share = _number(
    "nccl_host_memory_share", "ratio", "log", "Channels of NCCL that go through the host's memory."
)
nccl_p2p_disabled = _number(
    "nccl_p2p_disabled",
    "1",
    "log",
    "1 where NCCL says that peer-to-peer is disabled, 0 where it says that it is not.",
)
log_out_of_memory = _number(
    "log_out_of_memory", "1", "log", "Times that the framework ran out of device memory."
)
log_oom_unallocated_share = _number(
    "log_oom_unallocated_share",
    "1",
    "log",
    "Memory reserved and not handed out when a request failed, against the request.",
)
log_collective_timeouts = _number("log_collective_timeouts", "1", "log", "Collectives that a watchdog ended.")
numa_distance_share = _number(
    "numa_distance_share",
    "ratio",
    "host",
    "Of the job's device pairs on one host, the share that the topology joins across sockets.",
)

contended_share = Feature(
    "contended_share",
    "ratio",
    "Time that others on the device take: busy by the counters beyond the trace, or kernels that take longer "
    "than the same ones of the peers, whichever is more, as a share of the step.",
    lambda observed: observed.device.numbers.get("contended_share"),
    origin="telemetry",
    of=("compute",),
)
wrong_way = _number(
    "wrong_way",
    "1",
    "log",
    "1 where NCCL takes sockets, or the host's memory, between devices that a faster link joins, or says "
    "that peer-to-peer is disabled; 0 where it says that it does not.",
)


def _transfer(observed: Observed) -> float | None:
    known = observed.device.numbers.get("transfer_exposed_share")
    return exposed_communication_share.value(observed) if known is None else known


unhidden_transfer_share = Feature(
    "unhidden_transfer_share",
    "ratio",
    "Time in collectives that nothing hides, as a share of the step; without the waiting for late ranks, "
    "where the ranks of the job were joined.",
    _transfer,
    of=("communication_exposed",),
)
