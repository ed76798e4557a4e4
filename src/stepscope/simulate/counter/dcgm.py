"""Device counters as dcgm-exporter prints them: no timestamps, the newest of what it collects.

It reads the device every collect interval, at a phase of its own, and answers each scrape from what it read
last. A ratio of profiling is averaged over the interval, weighted by the clock's cycles; utilisation and
(but for GA100) power are means over the last second; clocks, temperature and memory are of the instant. The
first sample of a profiling field is blank: its series is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscope.simulate.config import Recording
from stepscope.simulate.counter.device import State
from stepscope.simulate.counter.meter import BIN_NS, F64
from stepscope.simulate.counter.place import DRIVER, Place
from stepscope.simulate.counter.scrape import Collected, scrapes
from stepscope.simulate.counter.timeline import Timeline
from stepscope.simulate.gpu import Gpu

Take = Literal["cycles", "window", "second", "power", "instant", "bits"]
"""How a sample is made of the grid: a mean over the window, weighted by cycles; a mean over it; a mean over
the last second; as power; the value there."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the exporter's list. `scale` makes the printed unit of the state's; `is_default` whether
    it is in the list that the exporter comes with."""

    id: int
    name: str
    later: str
    """Its name since DCGM 4.6, "" for the same."""
    kind: str
    help: str
    source: str
    take: Take
    scale: float = 1.0
    is_whole: bool = True
    """Whether it is printed as a whole number."""
    is_default: bool = False
    needs_link: bool = False


# Names, kinds and help as in the exporter's default-counters.csv (its kind of 449 is wrong there too).
FIELDS = (
    Field(100, "DEV_SM_CLOCK", "", "gauge", "SM clock frequency (in MHz).", "sm_mhz", "instant",
          is_default=True),
    Field(101, "DEV_MEM_CLOCK", "", "gauge", "Memory clock frequency (in MHz).", "memory_mhz", "instant",
          is_default=True),
    Field(113, "DEV_MAX_SM_CLOCK", "", "gauge", "Maximum supported SM clock (in MHz).", "max_sm_mhz",
          "instant"),
    Field(112, "DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS", "gauge",
          "Current clock event reasons (bitmask).", "reasons", "bits"),
    Field(140, "DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", "gauge", "Memory temperature (in C).",
          "memory_temperature", "instant", is_default=True),
    Field(150, "DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", "gauge", "GPU temperature (in C).", "temperature",
          "instant", is_default=True),
    Field(158, "DEV_SLOWDOWN_TEMP", "DEV_GPU_TEMP_SLOWDOWN_CELSIUS", "gauge", "Slowdown temperature (in C).",
          "slowdown", "instant"),
    Field(155, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", "gauge", "Power draw (in W).", "power", "power",
          is_whole=False, is_default=True),
    Field(160, "DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "gauge",
          "Power management limit (in W).", "limit", "instant", is_whole=False),
    Field(164, "DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "gauge",
          "Enforced power limit (in W).", "limit", "instant", is_whole=False),
    Field(156, "DEV_TOTAL_ENERGY_CONSUMPTION", "", "counter", "Total energy consumption since boot (in mJ).",
          "energy_total", "instant", 1000.0, is_default=True),
    Field(202, "DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", "counter", "Total number of PCIe retries.",
          "none", "instant", is_default=True),
    Field(203, "DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", "gauge", "GPU utilization (in %).", "busy", "second",
          100.0,
          is_default=True),
    Field(204, "DEV_MEM_COPY_UTIL", "", "gauge", "Memory utilization (in %).", "memory_busy", "second", 100.0,
          is_default=True),
    Field(206, "DEV_ENC_UTIL", "", "gauge", "Encoder utilization (in %).", "none", "instant",
          is_default=True),
    Field(207, "DEV_DEC_UTIL", "", "gauge", "Decoder utilization (in %).", "none", "instant",
          is_default=True),
    Field(230, "DEV_XID_ERRORS", "DEV_XID_ERROR", "gauge", "Value of the last XID error encountered.", "xid",
          "instant", is_default=True),
    Field(251, "DEV_FB_FREE", "", "gauge", "Framebuffer memory free (in MiB).", "free_bytes", "instant",
          2.0**-20, is_default=True),
    Field(252, "DEV_FB_USED", "", "gauge", "Framebuffer memory used (in MiB).", "used_bytes", "instant",
          2.0**-20, is_default=True),
    Field(253, "DEV_FB_RESERVED", "", "gauge", "Framebuffer memory reserved (in MiB).", "reserved_bytes",
          "instant", 2.0**-20, is_default=True),
    Field(240, "DEV_POWER_VIOLATION", "", "counter", "Throttling duration due to power constraints (in ns).",
          "throttled_power_total", "instant"),
    Field(241, "DEV_THERMAL_VIOLATION", "", "counter",
          "Throttling duration due to thermal constraints (in ns).",
          "throttled_thermal_total", "instant"),
    Field(246, "DEV_APP_CLOCK_VIOLATION", "", "counter",
          "Throttling duration due to application clocks (in ns).",
          "throttled_application_total", "instant"),
    Field(237, "DEV_PCIE_LINK_GEN", "", "gauge", "PCIe current link generation.", "pcie_gen", "instant"),
    Field(238, "DEV_PCIE_LINK_WIDTH", "", "gauge", "PCIe current link width.", "pcie_width", "instant"),
    Field(310, "DEV_ECC_SBE_VOL_TOTAL", "", "counter", "Total number of single-bit volatile ECC errors.",
          "ecc_errors_total", "instant"),
    Field(311, "DEV_ECC_DBE_VOL_TOTAL", "", "counter", "Total number of double-bit volatile ECC errors.",
          "none",
          "instant"),
    Field(393, "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "counter",
          "Number of remapped rows for uncorrectable errors", "none", "instant", is_default=True),
    Field(394, "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", "counter",
          "Number of remapped rows for correctable errors", "remapped", "instant", is_default=True),
    Field(395, "DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", "gauge",
          "Whether remapping of rows has failed",
          "none", "instant", is_default=True),
    Field(396, "DEV_ROW_REMAP_PENDING", "", "gauge", "Whether remapping of rows is pending", "none",
          "instant"),
    Field(409, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "counter",
          "Total number of NVLink flow-control CRC errors.", "link_errors_total", "instant", needs_link=True),
    Field(429, "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL", "counter",
          "Total number of NVLink retries.", "link_errors_total", "instant", 0.5, needs_link=True),
    Field(449, "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_TOTAL", "counter",
          "Total number of NVLink bandwidth counters for all lanes.", "link_bytes", "window", 1 / 1_024_000,
          is_default=True, needs_link=True),
    Field(1001, "PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", "gauge",
          "Ratio of time the graphics engine is active.", "busy", "cycles", is_whole=False, is_default=True),
    Field(1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", "gauge",
          "The ratio of cycles an SM has at least 1 warp assigned.", "sm_active", "cycles", is_whole=False),
    Field(1003, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO", "gauge",
          "The ratio of number of warps resident on an SM.", "occupancy", "cycles", is_whole=False),
    Field(1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", "gauge",
          "Ratio of cycles the tensor (HMMA) pipe is active.", "tensor", "cycles", is_whole=False,
          is_default=True),
    Field(1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", "gauge",
          "Ratio of cycles the device memory interface is active sending or receiving data.", "dram",
          "window", is_whole=False, is_default=True),
    Field(1006, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO", "gauge",
          "Ratio of cycles the fp64 pipes are active.", "none", "cycles", is_whole=False),
    Field(1007, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO", "gauge",
          "Ratio of cycles the fp32 pipes are active.", "fp32", "cycles", is_whole=False),
    Field(1008, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO", "gauge",
          "Ratio of cycles the fp16 pipes are active.", "none", "cycles", is_whole=False),
    Field(1016, "PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO", "gauge",
          "Ratio of cycles the integer pipe is active.", "integer", "cycles", is_whole=False),
    Field(1009, "PROF_PCIE_TX_BYTES", "", "gauge",
          "The rate of data transmitted over the PCIe bus - including both protocol headers and data "
          "payloads - "
          "in bytes per second.", "pcie_tx", "window", is_default=True),
    Field(1010, "PROF_PCIE_RX_BYTES", "", "gauge",
          "The rate of data received over the PCIe bus - including both protocol headers and data "
          "payloads - in "
          "bytes per second.", "pcie_rx", "window", is_default=True),
    Field(1011, "PROF_NVLINK_TX_BYTES", "", "gauge", "The rate of data transmitted over NVLink.", "link_tx",
          "window", needs_link=True),
    Field(1012, "PROF_NVLINK_RX_BYTES", "", "gauge", "The rate of data received over NVLink.", "link_rx",
          "window", needs_link=True),
)  # fmt: skip
RESERVED_BYTES = 551 << 20
"""What the driver keeps for itself."""
SECOND_NS = 1_000_000_000


def series_of(state: State) -> dict[str, F64]:
    """The state with what is derived of it, by the name that a field's `source` gives."""
    of, gpu = dict(state.of), state.gpu
    num = len(of["busy"])
    of |= {
        "none": np.zeros(num),
        "max_sm_mhz": np.full(num, float(gpu.sm_mhz)),
        "slowdown": np.full(num, float(gpu.slowdown_celsius)),
        "memory_busy": np.minimum(1.15 * of["dram"], of["busy"]),
        "free_bytes": np.maximum(gpu.memory_bytes - of["used_bytes"], 0.0),
        "reserved_bytes": np.full(num, float(RESERVED_BYTES)),
        "link_bytes": of["link_tx"] + of["link_rx"],
    }
    return of


def collected(timeline: Timeline, of: dict[str, F64], field: Field, at: Collected) -> F64:
    """A field's samples of `series_of`, one a collection; NaN where the exporter has none."""
    values = of[field.source]
    ends = at.at_ns - timeline.start_ns
    last = np.clip(ends // BIN_NS - 1, 0, timeline.num_bins - 1)
    take = field.take
    if take == "power":
        take = "instant" if timeline.cluster.config.device.is_power_instant else "second"
    if take in ("instant", "bits"):
        return values[last] * field.scale
    window = min(SECOND_NS, at.window_ns) if take == "second" else at.window_ns
    weights = of["sm_mhz"] if take == "cycles" else np.ones(timeline.num_bins)
    edges = BIN_NS * np.arange(timeline.num_bins + 1, dtype=np.float64)

    def mean(what: F64) -> F64:
        whole = np.concatenate(([0.0], np.cumsum(what)))
        starts = np.maximum(ends - window, 0)
        return np.interp(ends, edges, whole) - np.interp(starts, edges, whole)

    found: F64 = mean(values * weights) / mean(weights) * field.scale
    if field.id >= 1000:
        found[0] = np.nan
    if field.id == 449:
        found[0] = 0.0
    return found


def fields_of(gpu: Gpu, recording: Recording) -> list[Field]:
    """The exporter's list."""
    return [
        field
        for field in FIELDS
        if (field.is_default or recording.counters == "full") and (gpu.has_link or not field.needs_link)
    ]


def name_of(field: Field, recording: Recording) -> str:
    """As the exporter prints it."""
    return f"DCGM_FI_{field.later if recording.names == '4.6' and field.later else field.name}"


def text(timeline: Timeline, states: list[State], here: list[Place], recording: Recording) -> Iterator[str]:
    """What was scraped of a node, a body at a time. `states` and `here` are of its ranks."""
    gpu = states[0].gpu
    fields = fields_of(gpu, recording)
    order = sorted(range(len(here)), key=lambda number: here[number].index)
    at = Collected.of(timeline, here[0].node, recording)
    series = [series_of(states[number]) for number in order]
    columns_of = [[printed(collected(timeline, of, field, at), field) for of in series] for field in fields]
    labels = [labels_of(here[number], gpu.name, recording) for number in order]
    for scraped_ns, number in scrapes(timeline, here[0].node, recording, at):
        lines = [f"# scraped_at_ns {scraped_ns}"]
        for field, columns in zip(fields, columns_of, strict=True):
            name = name_of(field, recording)
            found = [
                f"{name}{{{label}}} {column[number]}"
                for label, column in zip(labels, columns, strict=True)
                if column[number]
            ]
            if found:
                lines += [f"# HELP {name} {field.help}", f"# TYPE {name} {field.kind}", *found]
        yield "\n".join(lines) + "\n"


def printed(values: F64, field: Field) -> list[str]:
    """As text, "" for none. Utilisation is cut to whole percent, as the driver does."""
    if field.is_whole:
        return ["" if np.isnan(value) else str(int(value + 1e-9)) for value in values.tolist()]
    return ["" if np.isnan(value) else f"{value:.6f}" for value in values.tolist()]


def labels_of(place: Place, model: str, recording: Recording) -> str:
    """Of a device, without braces."""
    is_later = recording.names == "4.6"
    host, driver = (
        ("hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION") if is_later else ("Hostname", "DCGM_FI_DRIVER_VERSION")
    )
    return (
        f'gpu="{place.index}",UUID="{place.uuid}",pci_bus_id="{place.pci_bus_id}",device="nvidia{place.index}",'
        f'modelName="{model}",{host}="{place.host}",{driver}="{DRIVER}"'
    )
