"""`nvidia-smi --query-gpu=… --format=csv`, once or in a loop (`-l`, `-lms`).

Times are the host's own, without a zone. With `nounits` the units are in the header alone. Counters of clock
events are microseconds, where DCGM's are nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepscope.model.error import InputError
from stepscope.model.sample import Owner, Telemetry
from stepscope.sources.field import MEBI, MEGA, MICRO, PERCENT, Field
from stepscope.sources.formats.smi import Table, read_csv
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import nvidia_uuid, pci_bus_id
from stepscope.sources.source import FileSource
from stepscope.sources.table import add_column_cells, row_times

FORMAT = "nvidia-smi-query"

_THROTTLE = {
    "sw_power_cap": "power",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "software_thermal",
    "hw_thermal_slowdown": "hardware_thermal",
    "hw_power_brake_slowdown": "hardware_power_brake",
}
FIELDS: dict[str, Field] = {
    "utilization.gpu": Field("compute_busy_ratio", PERCENT),
    "utilization.memory": Field("memory_busy_ratio", PERCENT),
    "utilization.encoder": Field("encoder_busy_ratio", PERCENT),
    "utilization.decoder": Field("decoder_busy_ratio", PERCENT),
    "memory.used": Field("memory_used_bytes", MEBI),
    "memory.free": Field("memory_free_bytes", MEBI),
    "memory.total": Field("memory_total_bytes", MEBI),
    "memory.reserved": Field("memory_reserved_bytes", MEBI),
    "power.draw": Field("power_watts"),
    "power.draw.average": Field("power_watts", rank=1),
    "power.draw.instant": Field("power_watts", rank=2),
    "enforced.power.limit": Field("power_limit_watts"),
    "power.limit": Field("power_limit_watts", rank=1),
    "power.default_limit": Field("power_limit_default_watts"),
    "temperature.gpu": Field("temperature_celsius"),
    "temperature.memory": Field("memory_temperature_celsius"),
    "clocks.current.sm": Field("sm_clock_hertz", MEGA),
    "clocks.sm": Field("sm_clock_hertz", MEGA, rank=1),
    "clocks.current.graphics": Field("sm_clock_hertz", MEGA, rank=2),
    "clocks.gr": Field("sm_clock_hertz", MEGA, rank=3),
    "clocks.current.memory": Field("memory_clock_hertz", MEGA),
    "clocks.mem": Field("memory_clock_hertz", MEGA, rank=1),
    "clocks.max.sm": Field("sm_clock_max_hertz", MEGA),
    "clocks.max.memory": Field("memory_clock_max_hertz", MEGA),
    "clocks.max.mem": Field("memory_clock_max_hertz", MEGA, rank=1),
    "clocks_event_reasons.active": Field("clock_event_reasons"),
    "clocks_throttle_reasons.active": Field("clock_event_reasons", rank=1),
    **{
        f"clocks_{word}_reasons_counters.{name}": Field(f"throttle_{reason}_seconds_total", MICRO, rank=rank)
        for rank, word in enumerate(("event", "throttle"))
        for name, reason in _THROTTLE.items()
    },
    "pstate": Field("performance_state"),
    "pcie.link.gen.current": Field("pcie_link_gen"),
    "pcie.link.gen.gpucurrent": Field("pcie_link_gen", rank=1),
    "pcie.link.gen.max": Field("pcie_link_gen_max"),
    "pcie.link.width.current": Field("pcie_link_width"),
    "pcie.link.width.max": Field("pcie_link_width_max"),
    "ecc.errors.corrected.volatile.total": Field("ecc_corrected_total"),
    "ecc.errors.corrected.aggregate.total": Field("ecc_corrected_total", rank=1),
    "ecc.errors.uncorrected.volatile.total": Field("ecc_uncorrected_total"),
    "ecc.errors.uncorrected.aggregate.total": Field("ecc_uncorrected_total", rank=1),
    "retired_pages.single_bit_ecc.count": Field("retired_pages_total", part="sbe"),
    "retired_pages.sbe": Field("retired_pages_total", part="sbe", rank=1),
    "retired_pages.double_bit.count": Field("retired_pages_total", part="dbe"),
    "retired_pages.dbe": Field("retired_pages_total", part="dbe", rank=1),
    "remapped_rows.correctable": Field("row_remap_correctable_total"),
    "remapped_rows.uncorrectable": Field("row_remap_uncorrectable_total"),
    "remapped_rows.pending": Field("row_remap_pending"),
    "remapped_rows.failure": Field("row_remap_failed"),
}
"""By the name in the query. A unit that is written in the header or the cell is heard instead."""
WORDS = {"yes": 1.0, "no": 0.0, **{f"p{state}": float(state) for state in range(16)}}
IDENTITY = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "name", "gpu_name", "hostname")
REQUIRED = frozenset((*FIELDS, "utilization.gpu", "memory.total"))


def read(text: str, name: str) -> Telemetry:
    table = read_csv(text, REQUIRED, free=("name",))
    if table is None or not table.rows:
        raise InputError(name, "nvidia-smi --query-gpu without a row", "let it run for a while: add -l 1")
    gathering = Gathering(FORMAT)
    for fault in table.faults():
        gathering.note(*fault)
    column = {each: place for place, each in enumerate(table.names)}
    owners: list[Owner | None] = [_owner(row, column) for row in table.rows]
    stamps = [row[column["timestamp"]] for row in table.rows] if "timestamp" in column else None
    at_ns, has, time = row_times(gathering, stamps, [owner.key if owner else None for owner in owners])
    owners = [owner if has_time else None for owner, has_time in zip(owners, has, strict=True)]
    for each, place in column.items():
        field = FIELDS.get(each)
        if field:
            cells = [row[place] for row in table.rows]
            add_column_cells(gathering, owners, at_ns, cells, field, each, table.units[place], WORDS)
    end_ns = int(at_ns[has].max()) if any(has) else None
    return gathering.telemetry(name, time, end_ns=end_ns)


def _owner(row: Sequence[str], column: dict[str, int]) -> Owner:
    def cell(*names: str) -> str | None:
        for each in names:
            if each in column and row[column[each]].strip("[]").upper() not in ("", "N/A"):
                return row[column[each]]
        return None

    uuid, index = cell("uuid", "gpu_uuid"), cell("index")
    return Owner(
        uuid=nvidia_uuid(uuid) if uuid else None,
        index=int(index) if index and re.fullmatch(r"\d{1,4}", index) else None,
        pci_bus_id=pci_bus_id(cell("pci.bus_id", "gpu_bus_id")),
        model=cell("name", "gpu_name"),
        host=cell("hostname"),
    )


def _claims(head: str) -> bool:
    table: Table | None = read_csv(head + "\n", REQUIRED)
    return table is not None and not {"pid", "gfx_activity"} & set(table.names)


SOURCE = FileSource(format=FORMAT, title="nvidia-smi --query-gpu", claims=_claims, read=read)
