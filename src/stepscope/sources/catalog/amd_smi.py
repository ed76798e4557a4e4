"""`amd-smi metric --csv` and `amd-smi monitor --csv`: per cent, watts, megahertz, MB that are MiB.

A card has several graphics engines, each with its clock: their mean is the device's. `N/A` and max-uint
are no values.
"""

from __future__ import annotations

import csv
import io
import re

import numpy as np

from stepscope.model.error import InputError
from stepscope.model.sample import Owner, Telemetry
from stepscope.sources.blank import UINT16_MAX, UINT32_MAX, reason_of_text
from stepscope.sources.field import MEBI, MEGA, PERCENT, Field
from stepscope.sources.formats.line import without_cut_line
from stepscope.sources.formats.smi import amount
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import pci_bus_id
from stepscope.sources.source import FileSource
from stepscope.sources.table import add_column_cells, row_times

FORMAT = "amd-smi"
FIELDS: dict[str, Field] = {
    "gfx_activity": Field("compute_busy_ratio", PERCENT),
    "gfx": Field("compute_busy_ratio", PERCENT, rank=1),
    "umc_activity": Field("memory_busy_ratio", PERCENT),
    "mem_util": Field("memory_busy_ratio", PERCENT, rank=1),
    "socket_power": Field("power_watts"),
    "average_socket_power": Field("power_watts", rank=1),
    "power_usage": Field("power_watts", rank=2),
    "hotspot": Field("temperature_celsius"),
    "hotspot_temperature": Field("temperature_celsius", rank=1),
    "edge": Field("temperature_celsius", rank=2),
    "mem": Field("memory_temperature_celsius"),
    "memory_temperature": Field("memory_temperature_celsius", rank=1),
    "gfx_clk": Field("sm_clock_hertz", MEGA, rank=1),
    "gfx_0_max_clk": Field("sm_clock_max_hertz", MEGA),
    "mem_0_clk": Field("memory_clock_hertz", MEGA),
    "mem_clock": Field("memory_clock_hertz", MEGA, rank=1),
    "mem_0_max_clk": Field("memory_clock_max_hertz", MEGA),
    "used_vram": Field("memory_used_bytes", MEBI),
    "vram_used": Field("memory_used_bytes", MEBI, rank=1),
    "free_vram": Field("memory_free_bytes", MEBI),
    "total_vram": Field("memory_total_bytes", MEBI),
    "vram_total": Field("memory_total_bytes", MEBI, rank=1),
    "total_energy_consumption": Field("energy_joules_total"),
    "current_bandwidth_sent": Field("pcie_tx_bytes_per_second", MEGA / 8),
    "current_bandwidth_received": Field("pcie_rx_bytes_per_second", MEGA / 8),
    "replay_count": Field("pcie_replay_total"),
    "total_correctable_count": Field("ecc_corrected_total"),
    "total_uncorrectable_count": Field("ecc_uncorrected_total"),
}
_GFX = re.compile(r"gfx_\d+_clk")
_KNOWN = frozenset(
    ("gfx_activity", "umc_activity", "socket_power", "hotspot_temperature", "used_vram", "gfx_clk")
)


def read(text: str, name: str) -> Telemetry:
    whole, is_cut = without_cut_line(text)
    rows, num_bad = _rows(whole)
    if not rows:
        raise InputError(
            name, "amd-smi CSV without a row", "let it run for a while: amd-smi metric --csv -w 1"
        )
    gathering = Gathering(FORMAT)
    gathering.note("malformed_lines", num_bad, "rows of more or fewer cells than the header")
    gathering.note(
        "truncated", int(is_cut), "the last line has no end: its number may be cut, it is left out"
    )
    header = list(rows[0])
    owners: list[Owner | None] = [_owner(row) for row in rows]
    stamps = [row["timestamp"] for row in rows] if "timestamp" in rows[0] else None
    at_ns, has, time = row_times(gathering, stamps, [owner.key if owner else None for owner in owners])
    owners = [owner if has_time else None for owner, has_time in zip(owners, has, strict=True)]
    for each in header:
        field = FIELDS.get(each)
        if field:
            cells = [_without_max(row[each]) for row in rows]
            add_column_cells(gathering, owners, at_ns, cells, field, each)
    engines = [each for each in header if _GFX.fullmatch(each)]
    if engines:
        cells = [_mean([row[each] for each in engines]) for row in rows]
        add_column_cells(gathering, owners, at_ns, cells, Field("sm_clock_hertz", MEGA), "gfx_*_clk")
    return gathering.telemetry(name, time)


def _rows(text: str) -> tuple[list[dict[str, str]], int]:
    """Rows by the header's names in lower case; lists within a cell are quoted."""
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip() and line[0] != "#"]
    header: list[str] = []
    rows, num_bad = [], 0
    try:
        for cells in csv.reader(io.StringIO("\n".join(lines))):
            lower = [cell.strip().lower() for cell in cells]
            if "gpu" in lower and len(set(lower)) == len(lower) and not header:
                header = lower
            elif lower == header:
                continue
            elif header and len(cells) == len(header):
                rows.append(dict(zip(header, (cell.strip() for cell in cells), strict=True)))
            else:
                num_bad += 1
    except csv.Error:
        num_bad += 1
    return rows, num_bad


def _owner(row: dict[str, str]) -> Owner | None:
    number = row.get("gpu", "")
    if not (number.isascii() and number.isdigit() and len(number) < 5):
        return None
    host = row.get("hostname") or None
    return Owner(
        index=int(number), pci_bus_id=pci_bus_id(row.get("bdf")), uuid=row.get("uuid") or None, host=host
    )


def _without_max(cell: str) -> str:
    found = amount(cell)
    return "N/A" if found and found[0] in (UINT16_MAX, UINT32_MAX) else cell


def _mean(cells: list[str]) -> str:
    """The mean of the cells that are numbers, `N/A` where none is."""
    numbers = [
        found[0] for cell in cells if reason_of_text(cell) is None and (found := amount(_without_max(cell)))
    ]
    return f"{float(np.mean(numbers)):.6f}" if numbers else "N/A"


def _claims(head: str) -> bool:
    for line in head.replace("\r", "").split("\n"):
        if line.strip() and not line.startswith("#"):
            names = {cell.strip().lower() for cell in line.split(",")}
            return "gpu" in names and bool(names & _KNOWN)
    return False


SOURCE = FileSource(format=FORMAT, title="amd-smi CSV", claims=_claims, read=read)
