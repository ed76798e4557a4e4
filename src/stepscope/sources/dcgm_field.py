"""DCGM's fields by id: what they are and in which unit, whatever an exporter calls them.

Ids, types and units: `dcgm_fields.h` and the exporter's lists of counters. 4.6 renamed most fields and kept
the ids; the old namespace (`--use-old-namespace`) has names of its own. The unit is the id's: 203 is 0–100
though it is now called `…_RATIO`, 254 is 0–1 though it was called `…_PERCENT`, `PROF_…_BYTES` are rates
though lists of counters call them counters, 449 is a rate too.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.sources.field import MEBI, MEGA, MILLI, NANO, PERCENT, Field


@dataclass(frozen=True, slots=True)
class DcgmField:
    """`names` as exporters print them: of 4.5 and older, of 4.6, of the old namespace; `short` as
    `dcgmi dmon` heads its column, where it is known."""

    id: int
    names: tuple[str, ...]
    field: Field
    short: str = ""


def _ratio(id_: int, signal: str, short: str, *names: str) -> DcgmField:
    return DcgmField(
        id_, tuple(f"DCGM_FI_PROF_{name}" for name in names), Field(signal, 1.0, "double"), short
    )


def _rate(id_: int, signal: str, short: str, name: str) -> DcgmField:
    return DcgmField(id_, (f"DCGM_FI_PROF_{name}",), Field(signal, 1.0, "int64"), short)


def _int(id_: int, signal: str, factor: float, *names: str, short: str = "", rank: int = 0, part: str = "",
         old: str = "") -> DcgmField:  # fmt: skip
    all_names = (*(f"DCGM_FI_DEV_{name}" for name in names), *((f"dcgm_{old}",) if old else ()))
    return DcgmField(id_, all_names, Field(signal, factor, "int64", rank, part), short)


def _double(id_: int, signal: str, *names: str, short: str = "", rank: int = 0, old: str = "") -> DcgmField:
    all_names = (*(f"DCGM_FI_DEV_{name}" for name in names), *((f"dcgm_{old}",) if old else ()))
    return DcgmField(id_, all_names, Field(signal, 1.0, "double", rank), short)


_NVLINK_RATE = 1_024_000.0  # of 449: Δ(KiB, both directions) / Δt / 1000, DCGM#221

_ROWS = (
    # ── clocks, temperature, power ──
    _int(100, "sm_clock_hertz", MEGA, "SM_CLOCK", short="SMCLK", old="sm_clock"),
    _int(101, "memory_clock_hertz", MEGA, "MEM_CLOCK", short="MMCLK", old="memory_clock"),
    _int(113, "sm_clock_max_hertz", MEGA, "MAX_SM_CLOCK"),
    _int(114, "memory_clock_max_hertz", MEGA, "MAX_MEM_CLOCK"),
    _int(112, "clock_event_reasons", 1.0, "CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS"),
    _int(140, "memory_temperature_celsius", 1.0, "MEMORY_TEMP", "MEMORY_TEMP_CELSIUS", short="MMTMP",
         old="memory_temp"),
    _int(150, "temperature_celsius", 1.0, "GPU_TEMP", "GPU_TEMP_CELSIUS", short="TMPTR", old="gpu_temp"),
    _int(158, "slowdown_temperature_celsius", 1.0, "SLOWDOWN_TEMP", "GPU_TEMP_SLOWDOWN_CELSIUS"),
    _int(159, "shutdown_temperature_celsius", 1.0, "SHUTDOWN_TEMP", "GPU_TEMP_SHUTDOWN_CELSIUS"),
    _double(155, "power_watts", "POWER_USAGE", "BOARD_POWER_WATTS", short="POWER", old="power_usage"),
    _double(157, "power_watts", "POWER_USAGE_INSTANT", "BOARD_POWER_RAW_WATTS", rank=1),
    _double(164, "power_limit_watts", "ENFORCED_POWER_LIMIT", "BOARD_POWER_LIMIT_ENFORCED_WATTS"),
    _double(160, "power_limit_watts", "POWER_MGMT_LIMIT", "BOARD_POWER_LIMIT_REQUESTED_WATTS", rank=1),
    _double(163, "power_limit_default_watts", "POWER_MGMT_LIMIT_DEF", "BOARD_POWER_LIMIT_DEFAULT_WATTS"),
    _int(156, "energy_joules_total", MILLI, "TOTAL_ENERGY_CONSUMPTION", short="TOTEC",
         old="total_energy_consumption"),
    _int(190, "performance_state", 1.0, "PSTATE", "GPU_PSTATE"),
    # ── compute and memory, by NVML ──
    _int(203, "compute_busy_ratio", PERCENT, "GPU_UTIL", "GPU_UTIL_RATIO", short="GPUTL",
         old="gpu_utilization"),
    _int(204, "memory_busy_ratio", PERCENT, "MEM_COPY_UTIL", "MEM_COPY_UTIL_RATIO", short="MCUTL",
         old="mem_copy_utilization"),
    _int(206, "encoder_busy_ratio", PERCENT, "ENC_UTIL", "ENC_UTIL_RATIO", old="enc_utilization"),
    _int(207, "decoder_busy_ratio", PERCENT, "DEC_UTIL", "DEC_UTIL_RATIO", old="dec_utilization"),
    _int(250, "memory_total_bytes", MEBI, "FB_TOTAL", short="FBTTL", old="fb_total"),
    _int(251, "memory_free_bytes", MEBI, "FB_FREE", short="FBFRE", old="fb_free"),
    _int(252, "memory_used_bytes", MEBI, "FB_USED", short="FBUSD", old="fb_used"),
    _int(253, "memory_reserved_bytes", MEBI, "FB_RESERVED", old="fb_reserved"),
    _double(254, "memory_used_ratio", "FB_USED_PERCENT", "FB_USED_RATIO"),
    # ── throttling: nanoseconds, though lists up to 2025 said microseconds (DCGM#266). Of 1420–1424 the
    #    header says "in sampling interval", which may mean that they do not add up: they count second ──
    *(
        _int(240 + place, f"throttle_{reason}_seconds_total", NANO, f"{name}_VIOLATION",
             old=f"{name.lower()}_violation")
        for place, (name, reason) in enumerate(
            (
                ("POWER", "power"),
                ("THERMAL", "thermal"),
                ("SYNC_BOOST", "sync_boost"),
                ("BOARD_LIMIT", "board_limit"),
                ("LOW_UTIL", "low_utilization"),
                ("RELIABILITY", "reliability"),
            )
        )
    ),
    _int(246, "throttle_application_clocks_seconds_total", NANO, "TOTAL_APP_CLOCKS_VIOLATION"),
    _int(247, "throttle_base_clocks_seconds_total", NANO, "TOTAL_BASE_CLOCKS_VIOLATION"),
    _int(1420, "throttle_power_seconds_total", NANO, "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",
         rank=1),
    _int(1421, "throttle_sync_boost_seconds_total", NANO, "CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
         rank=1),
    _int(1422, "throttle_software_thermal_seconds_total", NANO,
         "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"),
    _int(1423, "throttle_hardware_thermal_seconds_total", NANO,
         "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"),
    _int(1424, "throttle_hardware_power_brake_seconds_total", NANO,
         "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"),
    # ── links ──
    _int(202, "pcie_replay_total", 1.0, "PCIE_REPLAY_COUNTER", "PCIE_REPLAY_TOTAL",
         old="pcie_replay_counter"),
    _int(235, "pcie_link_gen_max", 1.0, "PCIE_MAX_LINK_GEN"),
    _int(236, "pcie_link_width_max", 1.0, "PCIE_MAX_LINK_WIDTH"),
    _int(237, "pcie_link_gen", 1.0, "PCIE_LINK_GEN"),
    _int(238, "pcie_link_width", 1.0, "PCIE_LINK_WIDTH"),
    _int(409, "nvlink_error_total", 1.0, "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
         "NVLINK_CRC_FLIT_ERROR_TOTAL", part="crc_flit", old="nvlink_flit_crc_error_count_total"),
    _int(419, "nvlink_error_total", 1.0, "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
         "NVLINK_CRC_DATA_ERROR_TOTAL", part="crc_data", old="nvlink_data_crc_error_count_total"),
    _int(429, "nvlink_error_total", 1.0, "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
         "NVLINK_REPLAY_ERROR_TOTAL", part="replay", old="nvlink_replay_error_count_total"),
    _int(439, "nvlink_error_total", 1.0, "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
         "NVLINK_RECOVERY_ERROR_TOTAL", part="recovery", old="nvlink_recovery_error_count_total"),
    _int(449, "nvlink_bytes_per_second", _NVLINK_RATE, "NVLINK_BANDWIDTH_TOTAL", "NVLINK_THROUGHPUT_TOTAL",
         old="nvlink_bandwidth_total"),
    _rate(1009, "pcie_tx_bytes_per_second", "PCITX", "PCIE_TX_BYTES"),
    _rate(1010, "pcie_rx_bytes_per_second", "PCIRX", "PCIE_RX_BYTES"),
    _rate(1011, "nvlink_tx_bytes_per_second", "NVLTX", "NVLINK_TX_BYTES"),
    _rate(1012, "nvlink_rx_bytes_per_second", "NVLRX", "NVLINK_RX_BYTES"),
    # ── health ──
    _int(230, "xid", 1.0, "XID_ERRORS", "XID_ERROR", old="xid_errors"),
    _int(310, "ecc_corrected_total", 1.0, "ECC_SBE_VOL_TOTAL", old="ecc_sbe_volatile_total"),
    _int(311, "ecc_uncorrected_total", 1.0, "ECC_DBE_VOL_TOTAL", old="ecc_dbe_volatile_total"),
    _int(312, "ecc_corrected_total", 1.0, "ECC_SBE_AGG_TOTAL", rank=1, old="ecc_sbe_aggregate_total"),
    _int(313, "ecc_uncorrected_total", 1.0, "ECC_DBE_AGG_TOTAL", rank=1, old="ecc_dbe_aggregate_total"),
    _int(390, "retired_pages_total", 1.0, "RETIRED_SBE", "PAGE_RETIRED_SBE_TOTAL", part="sbe",
         old="retired_pages_sbe"),
    _int(391, "retired_pages_total", 1.0, "RETIRED_DBE", "PAGE_RETIRED_DBE_TOTAL", part="dbe",
         old="retired_pages_dbe"),
    _int(393, "row_remap_uncorrectable_total", 1.0, "UNCORRECTABLE_REMAPPED_ROWS",
         "ROW_REMAP_UNCORRECTABLE_TOTAL"),
    _int(394, "row_remap_correctable_total", 1.0, "CORRECTABLE_REMAPPED_ROWS",
         "ROW_REMAP_CORRECTABLE_TOTAL"),
    _int(395, "row_remap_failed", 1.0, "ROW_REMAP_FAILURE", "ROW_REMAP_FAILED"),
    _int(396, "row_remap_pending", 1.0, "ROW_REMAP_PENDING"),
    # ── profiling: ratios of cycles, 0–1, whatever HELP says of per cent ──
    _ratio(1001, "graphics_engine_active_ratio", "GRACT", "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
    _ratio(1002, "sm_active_ratio", "SMACT", "SM_ACTIVE", "SM_UTIL_RATIO"),
    _ratio(1003, "sm_occupancy_ratio", "SMOCC", "SM_OCCUPANCY", "SM_OCCUPANCY_RATIO"),
    _ratio(1004, "tensor_active_ratio", "TENSO", "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
    _ratio(1005, "dram_active_ratio", "DRAMA", "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
    _ratio(1006, "fp64_active_ratio", "FP64A", "PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO"),
    _ratio(1007, "fp32_active_ratio", "FP32A", "PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO"),
    _ratio(1008, "fp16_active_ratio", "FP16A", "PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO"),
    _ratio(1013, "tensor_int8_active_ratio", "TIMMA", "PIPE_TENSOR_IMMA_ACTIVE", "IMMA_UTIL_RATIO"),
    _ratio(1014, "tensor_fp16_active_ratio", "THMMA", "PIPE_TENSOR_HMMA_ACTIVE", "HMMA_UTIL_RATIO"),
    _ratio(1015, "tensor_fp64_active_ratio", "TDFMA", "PIPE_TENSOR_DFMA_ACTIVE", "DFMA_UTIL_RATIO"),
    _ratio(1016, "int_active_ratio", "INTAC", "PIPE_INT_ACTIVE", "INT_UTIL_RATIO"),
)  # fmt: skip

FIELDS: dict[int, DcgmField] = {row.id: row for row in _ROWS}

CYCLES_ELAPSED = 1084
CYCLES: dict[int, tuple[str, str]] = {
    1085: ("DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", "sm_active_ratio"),
    1086: ("DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL", "tensor_active_ratio"),
    1088: ("DCGM_FI_PROF_HMMA_CYCLES_ACTIVE_TOTAL", "tensor_fp16_active_ratio"),
    1089: ("DCGM_FI_PROF_IMMA_CYCLES_ACTIVE_TOTAL", "tensor_int8_active_ratio"),
    1090: ("DCGM_FI_PROF_DFMA_CYCLES_ACTIVE_TOTAL", "tensor_fp64_active_ratio"),
    1093: ("DCGM_FI_PROF_INT_CYCLES_ACTIVE_TOTAL", "int_active_ratio"),
    1094: ("DCGM_FI_PROF_FP64_CYCLES_ACTIVE_TOTAL", "fp64_active_ratio"),
    1095: ("DCGM_FI_PROF_FP32_CYCLES_ACTIVE_TOTAL", "fp32_active_ratio"),
    1096: ("DCGM_FI_PROF_FP16_CYCLES_ACTIVE_TOTAL", "fp16_active_ratio"),
}
"""Raw cycles of 4.6: Δactive / Δelapsed is the ratio over exactly the scrape interval."""
ELAPSED_NAME = "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL"
BYTES: dict[int, tuple[str, str]] = {
    1091: ("DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "pcie_tx_bytes_per_second"),
    1092: ("DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", "pcie_rx_bytes_per_second"),
}
"""Raw bytes of 4.6: Δbytes / Δt is the rate."""

BY_NAME: dict[str, DcgmField] = {name.lower(): row for row in _ROWS for name in row.names} | {
    name.lower(): row
    for row in _ROWS
    for name in (f"dcgm_{each.removeprefix('DCGM_')}" for each in row.names if each.startswith("DCGM_"))
}
"""By name in lower case."""
BY_SHORT: dict[str, DcgmField] = {row.short: row for row in _ROWS if row.short}
