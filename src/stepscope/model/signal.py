"""Signals: vendor-neutral quantities of devices, hosts and processes. A table; names end in their unit.

Sources map a vendor's fields to these names and convert to these units at the edge. A value that was not
measured is in no series. What each vendor's field means, and how it lies: `docs/reference/signals.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

SignalKind = Literal["gauge", "counter", "mask", "code", "state"]
"""`gauge`: a value over the source's window. `counter`: a sum since some start, which may reset. `mask`:
bits. `code`: a number that names something, such as the last Xid. `state`: a small number that is set, not
averaged."""
Aggregate = Literal["mean", "max", "last", "any", "none"]
"""How samples of one window become one number; `any` is the bits that were set, `none` forbids it."""
Scope = Literal["device", "host", "process", "link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One quantity.

    `layer`, `part` and `class_` are its place in the three published schemes: infrastructure / scheduling /
    execution; hardware / framework / model / business; compute / memory / power-temperature / multi-GPU /
    health (host signals: host).
    """

    name: str
    unit: str
    kind: SignalKind
    aggregate: Aggregate
    of: Scope
    meaning: str
    misreading: str = ""
    least: float | None = 0.0
    """Smallest value that can be; below, the sample is unusable."""
    most: float | None = None
    """Largest value that can be; above, the sample is unusable. `None`: unbounded."""
    layer: str = "infrastructure"
    part: str = "hardware"
    class_: str = "compute"
    is_whole_device: bool = False
    """Read off the whole device and repeated on each of its MIG instances: never summed over them."""


def _ratio(name: str, meaning: str, misreading: str = "", class_: str = "compute") -> Signal:
    # 1.02: rounding and clock skew of a window; MIG was seen to give more (DCGM#152), which the source clips.
    return Signal(
        name=name, unit="ratio", kind="gauge", aggregate="mean", of="device", meaning=meaning,
        misreading=misreading, most=1.02, class_=class_, layer="execution",
    )  # fmt: skip


def _gauge(
    name: str,
    unit: str,
    meaning: str,
    misreading: str = "",
    *,
    aggregate: Aggregate = "mean",
    least: float = 0.0,
    most: float | None = None,
) -> Signal:
    return Signal(
        name=name, unit=unit, kind="gauge", aggregate=aggregate, of="device", meaning=meaning,
        misreading=misreading, least=least, most=most,
    )  # fmt: skip


def _counter(name: str, unit: str, meaning: str, misreading: str = "") -> Signal:
    return Signal(
        name=name, unit=unit, kind="counter", aggregate="none", of="device", meaning=meaning,
        misreading=misreading,
    )  # fmt: skip


def _state(name: str, most: float | None, meaning: str, misreading: str = "", *, kind: SignalKind = "state",
           aggregate: Aggregate = "last") -> Signal:  # fmt: skip
    unit = kind if kind in ("mask", "code") else "state"
    return Signal(
        name=name, unit=unit, kind=kind, aggregate=aggregate, of="device", meaning=meaning,
        misreading=misreading, most=most,
    )  # fmt: skip


def _group(class_: str, *rows: Signal, of: Scope = "device") -> tuple[Signal, ...]:
    whole = of == "device" and class_ != "memory"
    return tuple(replace(row, class_=class_, of=of, is_whole_device=whole) for row in rows)


_AGENT: tuple[tuple[str, str, SignalKind, Aggregate, str], ...] = (
    ("cpu_seconds_total", "s", "counter", "none", "Processor time that the agent itself took."),
    ("resident_bytes", "B", "gauge", "max", "Host memory of the agent itself."),
    ("samples_total", "1", "counter", "none", "Samples that the agent read."),
    ("samples_dropped_total", "1", "counter", "none", "Samples that the agent read and could not keep."),
    ("late_total", "1", "counter", "none", "Looks left out because the one before lasted too long."),
    ("reads_total", "1", "counter", "none", "Looks at one source."),
    ("read_failures_total", "1", "counter", "none", "Looks at one source that failed."),
    ("read_seconds_total", "s", "counter", "none", "How long the looks at one source took."),
)
"""(name after `agent_`, unit, kind, aggregation, meaning)"""

_ROWS: tuple[Signal, ...] = (
    # ── compute ──
    _ratio(
        "compute_busy_ratio",
        "Share of time in which any kernel was resident (GPU utilisation).",
        "Taken for efficiency: one kernel on one multiprocessor, or a collective that spins, gives 1.",
    ),
    _ratio(
        "graphics_engine_active_ratio",
        "Share of cycles in which the graphics or compute engine had a context and was busy.",
        "As compute busy: one thread block on one multiprocessor gives 1.",
    ),
    _ratio(
        "memory_busy_ratio",
        "Share of time in which device memory was read or written (memory utilisation).",
        "Taken for capacity: it says nothing of how much memory is used, nor of how many bytes moved.",
        "memory",
    ),
    _ratio(
        "sm_active_ratio",
        "Share of cycles and multiprocessors with at least one resident warp.",
        "A warp that waits for memory or for a peer counts as active.",
    ),
    _ratio(
        "sm_occupancy_ratio",
        "Resident warps against the most that fit, per elapsed cycle over all multiprocessors.",
        "Bounded by SM active; high is not better by itself: large matrix kernels run at low occupancy.",
    ),
    _ratio(
        "tensor_active_ratio",
        "Share of cycles in which any tensor pipe issued.",
        "It is not MFU: precisions count alike and it is measured against the current clock.",
    ),
    _ratio("tensor_int8_active_ratio", "Share of cycles in which the integer tensor pipe issued."),
    _ratio("tensor_fp16_active_ratio", "Share of cycles in which the half-precision tensor pipe issued."),
    _ratio("tensor_fp64_active_ratio", "Share of cycles in which the double-precision tensor pipe issued."),
    _ratio("fp64_active_ratio", "Share of cycles in which the FP64 pipe issued."),
    _ratio(
        "fp32_active_ratio",
        "Share of cycles in which the FP32 pipe issued.",
        "Integer work may share the pipe.",
    ),
    _ratio(
        "fp16_active_ratio", "Share of cycles in which the FP16 pipe issued.", "Without tensor-core work."
    ),
    _ratio("int_active_ratio", "Share of cycles in which the integer pipe issued."),
    _ratio("vector_active_ratio", "Share of time in which a vector core was busy (Ascend)."),
    _ratio("encoder_busy_ratio", "Share of time in which the video encoder was busy."),
    _ratio("decoder_busy_ratio", "Share of time in which the video decoder was busy."),
    _ratio(
        "dram_active_ratio",
        "Share of cycles in which the memory interface moved data.",
        "About 0.8 is the practical maximum.",
        "memory",
    ),
    # ── memory ──
    *_group(
        "memory",
        _gauge(
            "memory_used_bytes",
            "B",
            "Device memory in use, by every process and the driver.",
            "Not what the framework allocated: its cache, context and buffers are in it.",
            aggregate="max",
        ),
        _gauge("memory_free_bytes", "B", "Device memory not in use.", aggregate="last"),
        _gauge("memory_reserved_bytes", "B", "Device memory kept by the driver.", aggregate="last"),
        _gauge("memory_total_bytes", "B", "Device memory present.", aggregate="last"),
        _gauge(
            "memory_used_ratio",
            "ratio",
            "Device memory in use against what can be used.",
            aggregate="max",
            most=1.02,
        ),
    ),
    # ── power, temperature, clocks ──
    *_group(
        "power-temperature",
        _gauge(
            "power_watts", "W", "Power of the board.", "A mean over a second on most models.", most=5000.0
        ),
        _gauge("power_limit_watts", "W", "The limit that is enforced now.", aggregate="last", most=5000.0),
        _gauge("power_limit_default_watts", "W", "The limit as shipped.", aggregate="last", most=5000.0),
        _counter(
            "energy_joules_total", "J", "Energy since the driver was loaded.", "Resets with the driver."
        ),
        _gauge(
            "temperature_celsius",
            "celsius",
            "Temperature of the chip.",
            "Hot is not throttled: only a clock drop under load with its reason is.",
            aggregate="max",
            least=-50.0,
            most=150.0,
        ),
        _gauge(
            "slowdown_temperature_celsius",
            "celsius",
            "Where the device begins to slow down by itself.",
            aggregate="last",
            most=150.0,
        ),
        _gauge(
            "shutdown_temperature_celsius",
            "celsius",
            "Where the device switches itself off.",
            aggregate="last",
            most=150.0,
        ),
        _gauge(
            "memory_temperature_celsius",
            "celsius",
            "Temperature of the memory.",
            aggregate="max",
            least=-50.0,
            most=150.0,
        ),
        _gauge("sm_clock_hertz", "Hz", "Clock of the multiprocessors, as sampled.", most=1e11),
        _gauge(
            "sm_clock_max_hertz",
            "Hz",
            "The highest clock of the multiprocessors.",
            aggregate="last",
            most=1e11,
        ),
        _gauge("memory_clock_hertz", "Hz", "Clock of the memory.", most=1e11),
        _gauge(
            "memory_clock_max_hertz", "Hz", "The highest clock of the memory.", aggregate="last", most=1e11
        ),
        _state(
            "clock_event_reasons",
            None,
            "Why the clock is not higher, as bits of NVML.",
            "Averaged; and idle or application clocks taken for faults.",
            kind="mask",
            aggregate="any",
        ),
        _state("performance_state", 15.0, "P-state: 0 is the fastest."),
        *(
            _counter(f"throttle_{reason}_seconds_total", "s", f"Time with lowered clocks: {why}.")
            for reason, why in (
                ("power", "the power limit"),
                ("thermal", "temperature"),
                ("sync_boost", "synchronised boost with other devices"),
                ("board_limit", "the board's limit"),
                ("low_utilization", "low utilisation"),
                ("reliability", "the reliability voltage"),
                ("application_clocks", "clocks set by an application"),
                ("base_clocks", "below base clocks"),
                ("hardware_thermal", "temperature, by the hardware"),
                ("software_thermal", "temperature, by the driver"),
                ("hardware_power_brake", "the power brake from outside"),
            )
        ),
    ),
    # ── links ──
    *_group(
        "multi-GPU",
        _gauge(
            "pcie_tx_bytes_per_second", "B/s", "Bytes sent over PCIe: device to host.", "Headers are in it."
        ),
        _gauge(
            "pcie_rx_bytes_per_second",
            "B/s",
            "Bytes received over PCIe: host to device.",
            "Headers are in it.",
        ),
        _gauge("pcie_bytes_per_second", "B/s", "Bytes over PCIe, both directions together."),
        _gauge(
            "nvlink_tx_bytes_per_second",
            "B/s",
            "Bytes sent over device links, all links.",
            "A constant 0 beside running collectives means a broken counter.",
        ),
        _gauge("nvlink_rx_bytes_per_second", "B/s", "Bytes received over device links, all links."),
        _gauge("nvlink_bytes_per_second", "B/s", "Bytes over device links, both directions together."),
        _state(
            "pcie_link_gen",
            8.0,
            "PCIe generation in use.",
            "It drops at idle to save power: judge it under load.",
        ),
        _state("pcie_link_width", 32.0, "PCIe lanes in use.", "As the generation."),
        _state("pcie_link_gen_max", 8.0, "The highest PCIe generation of device and slot."),
        _state("pcie_link_width_max", 32.0, "The most PCIe lanes of device and slot."),
        _counter(
            "pcie_replay_total",
            "1",
            "Packets sent again over PCIe.",
            "Growth under load, not its value, tells.",
        ),
        _counter("nvlink_error_total", "1", "Errors of device links: CRC, replay and recovery."),
    ),
    # ── health ──
    *_group(
        "health",
        _counter("ecc_corrected_total", "1", "Memory errors that were corrected."),
        _counter("ecc_uncorrected_total", "1", "Memory errors that were not corrected."),
        _counter("row_remap_correctable_total", "1", "Memory rows remapped after correctable errors."),
        _counter("row_remap_uncorrectable_total", "1", "Memory rows remapped after uncorrectable errors."),
        _counter("retired_pages_total", "1", "Memory pages retired (before Ampere)."),
        _state("row_remap_pending", 1e6, "Rows that wait for a reset to be remapped.", aggregate="max"),
        _state("row_remap_failed", 1e6, "Whether a remapping failed.", aggregate="max"),
        _state(
            "xid",
            None,
            "The last Xid of the driver.",
            "It stays: no count, no rate, no mean.",
            kind="code",
            aggregate="none",
        ),
    ),
    # ── processes ──
    Signal(
        name="process_sm_ratio",
        unit="ratio",
        kind="gauge",
        aggregate="mean",
        of="process",
        most=1.02,
        meaning="Share of time in which a process had a kernel running.",
        misreading="Rubbish for processes that ended.",
        part="framework",
        layer="scheduling",
    ),
    Signal(
        name="process_memory_bytes",
        unit="B",
        kind="gauge",
        aggregate="max",
        of="process",
        meaning="Device memory of one process.",
        class_="memory",
        part="framework",
        layer="scheduling",
    ),
    Signal(
        name="process_cpu_cores",
        unit="cores",
        kind="gauge",
        aggregate="mean",
        of="process",
        meaning="Processor cores that a process keeps busy.",
        class_="host",
        layer="scheduling",
    ),
    Signal(
        name="process_resident_bytes",
        unit="B",
        kind="gauge",
        aggregate="max",
        of="process",
        meaning="Host memory resident of one process.",
        class_="host",
        layer="scheduling",
    ),
    Signal(
        name="process_major_faults_per_second",
        unit="1/s",
        kind="gauge",
        aggregate="mean",
        of="process",
        meaning="Page faults of one process that had to read from disk.",
        class_="host",
        layer="scheduling",
    ),
    Signal(
        name="process_threads",
        unit="1",
        kind="gauge",
        aggregate="max",
        of="process",
        meaning="Threads of one process.",
        class_="host",
        layer="scheduling",
    ),
    # ── host ──
    *_group(
        "host",
        *(
            _gauge(
                f"cpu_{mode}_ratio", "ratio", f"Share of the host's processor time spent {what}.", most=1.02
            )
            for mode, what in (
                ("user", "in programs"),
                ("system", "in the kernel"),
                ("iowait", "idle with a disk request outstanding"),
                ("steal", "taken by a hypervisor"),
            )
        ),
        _gauge("cpu_run_queue", "1", "Processes that run or want to."),
        _gauge("cpu_cores", "1", "Processor cores of the host.", aggregate="last"),
        _gauge("major_page_faults_per_second", "1/s", "Page faults that had to read from disk."),
        _gauge("disk_read_bytes_per_second", "B/s", "Bytes read from disks."),
        _gauge("disk_write_bytes_per_second", "B/s", "Bytes written to disks."),
        _gauge("disk_read_operations_per_second", "1/s", "Reads from disks."),
        _gauge("disk_write_operations_per_second", "1/s", "Writes to disks."),
        _gauge(
            "disk_busy_ratio", "ratio", "Share of time in which the busiest disk had a request.", most=1.02
        ),
        _gauge("network_tx_bytes_per_second", "B/s", "Bytes sent over network interfaces."),
        _gauge("network_rx_bytes_per_second", "B/s", "Bytes received over network interfaces."),
        _gauge("rdma_tx_bytes_per_second", "B/s", "Bytes sent over RDMA ports."),
        _gauge("rdma_rx_bytes_per_second", "B/s", "Bytes received over RDMA ports."),
        _counter("rdma_error_total", "1", "Errors of RDMA ports."),
        _gauge("memory_available_bytes", "B", "Host memory that can still be given out.", aggregate="last"),
        _gauge("memory_present_bytes", "B", "Host memory present.", aggregate="last"),
        _gauge(
            "filesystem_available_bytes",
            "B",
            "Bytes that a mounted file system can still take.",
            aggregate="last",
        ),
        _gauge("filesystem_size_bytes", "B", "Bytes that a mounted file system holds.", aggregate="last"),
        _gauge(
            "cgroup_throttled_ratio",
            "ratio",
            "Share of scheduling periods in which the container was stopped for its CPU quota.",
            most=1.02,
        ),
        _gauge(
            "cgroup_cpu_quota_cores", "cores", "Cores that the container's quota allows.", aggregate="last"
        ),
        *(
            _gauge(
                f"{of}_pressure_ratio",
                "ratio",
                f"Share of time in which some task of the host waited for {what}.",
                most=1.02,
            )
            for of, what in (("cpu", "a core"), ("io", "a disk"), ("memory", "memory"))
        ),
        _state(
            "storage_medium",
            9.0,
            "What a mount lies on: 1 rotational, 2 solid state, 3 NVMe, 4 network, 5 memory.",
            kind="code",
            aggregate="last",
        ),
        of="host",
    ),
    # ── the agent itself ──
    *(
        Signal(
            name=f"agent_{name}",
            unit=unit,
            kind=kind,
            aggregate=aggregate,
            of="process",
            meaning=meaning,
            class_="host",
            part="framework",
        )
        for name, unit, kind, aggregate, meaning in _AGENT
    ),
)

SIGNALS: dict[str, Signal] = {row.name: row for row in _ROWS}

CLOCK_REASONS: dict[int, str] = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "hardware_power_brake",
    0x100: "display_clocks",
}
"""Bits of `clock_event_reasons`, as in NVML's header (nvmlClocksEventReason…)."""
THERMAL_REASONS = 0x20 | 0x40
POWER_CAP_REASON = 0x4
POWER_BRAKE_REASON = 0x80
