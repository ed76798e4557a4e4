"""`nvidia-smi dmon`, any columns (`-s`, `--gpm-metrics`). It prints no interval and, without `-o DT`, no
times: rows of one device then stand a second apart, which is its default.

`sm` and `mem` are shares of time with any kernel, with any memory access; GPM's `smutil` is the share of busy
multiprocessors. `-` is no value: utilisation under MIG, the first GPM sample.
"""

from __future__ import annotations

from stepscope.model.error import InputError
from stepscope.model.sample import Owner, Telemetry
from stepscope.sources.field import MEBI, MEGA, PERCENT, Field
from stepscope.sources.formats.smi import read_monitor
from stepscope.sources.gather import Gathering
from stepscope.sources.source import FileSource
from stepscope.sources.table import add_column_cells, monitor_times

FORMAT = "nvidia-smi-dmon"
FIELDS: dict[str, Field] = {
    "pwr": Field("power_watts"),
    "gtemp": Field("temperature_celsius"),
    "temp": Field("temperature_celsius", rank=1),
    "mtemp": Field("memory_temperature_celsius"),
    "sm": Field("compute_busy_ratio", PERCENT),
    "mem": Field("memory_busy_ratio", PERCENT),
    "enc": Field("encoder_busy_ratio", PERCENT),
    "dec": Field("decoder_busy_ratio", PERCENT),
    "mclk": Field("memory_clock_hertz", MEGA),
    "pclk": Field("sm_clock_hertz", MEGA),
    "fb": Field("memory_used_bytes", MEBI),
    "sbecc": Field("ecc_corrected_total"),
    "dbecc": Field("ecc_uncorrected_total"),
    "pci": Field("pcie_replay_total"),
    "rxpci": Field("pcie_rx_bytes_per_second", MEGA),
    "txpci": Field("pcie_tx_bytes_per_second", MEGA),
    "gract": Field("graphics_engine_active_ratio", PERCENT),
    "smutil": Field("sm_active_ratio", PERCENT),
    "smocc": Field("sm_occupancy_ratio", PERCENT),
    "intutil": Field("int_active_ratio", PERCENT),
    "mmaact": Field("tensor_active_ratio", PERCENT),
    "dram": Field("dram_active_ratio", PERCENT),
    "fp64": Field("fp64_active_ratio", PERCENT),
    "fp32": Field("fp32_active_ratio", PERCENT),
    "fp16": Field("fp16_active_ratio", PERCENT),
    "pcitx": Field("pcie_tx_bytes_per_second", MEBI, rank=1),
    "pcirx": Field("pcie_rx_bytes_per_second", MEBI, rank=1),
    "nvltx": Field("nvlink_tx_bytes_per_second", MEBI),
    "nvlrx": Field("nvlink_rx_bytes_per_second", MEBI),
}
"""By the column's head. `pviol` and `tviol` are shares of a time that dmon does not state: not read."""


def read(text: str, name: str) -> Telemetry:
    table = read_monitor(text)
    if table is None or not table.rows:
        raise InputError(
            name, "nvidia-smi dmon without a row of values", "let it run for a while: dmon -o DT"
        )
    gathering = Gathering(FORMAT)
    for fault in table.faults():
        gathering.note(*fault)
    column = {each: place for place, each in enumerate(table.names)}
    numbers = [row[column["gpu"]] for row in table.rows]
    owners: list[Owner | None] = [
        Owner(index=int(number)) if number.isascii() and number.isdigit() and len(number) < 5 else None
        for number in numbers
    ]
    dates = [row[column["date"]] for row in table.rows] if "date" in column else None
    clocks = [row[column["time"]] for row in table.rows] if "time" in column else None
    at_ns, has, time = monitor_times(gathering, dates, clocks, numbers)
    gathering.note("malformed_lines", owners.count(None), "rows without the number of a GPU")
    owners = [owner if has_time else None for owner, has_time in zip(owners, has, strict=True)]
    for each, place in column.items():
        field = FIELDS.get(each)
        if field:
            unit = table.units[place].removeprefix("GPM:")
            cells = [row[place] for row in table.rows]
            add_column_cells(gathering, owners, at_ns, cells, field, each, unit)
    return gathering.telemetry(name, time)


def _claims(head: str) -> bool:
    table = read_monitor(head + "\n")
    return (
        table is not None
        and "gpu" in table.names
        and "pid" not in table.names
        and bool(FIELDS.keys() & set(table.names))
    )


SOURCE = FileSource(format=FORMAT, title="nvidia-smi dmon", claims=_claims, read=read)
