"""`nvidia-smi --query-compute-apps=… --format=csv`: processes on devices and the memory that each holds.

No row is an answer too: nothing ran. In a container other processes' names, or all, are hidden.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stepscope.model.error import InputError
from stepscope.model.sample import Owner, Telemetry
from stepscope.sources.catalog.nvidia_smi_query import _owner as device_of
from stepscope.sources.field import MEBI, Field
from stepscope.sources.formats.smi import read_csv
from stepscope.sources.gather import Gathering
from stepscope.sources.source import FileSource
from stepscope.sources.table import add_column_cells, row_times

FORMAT = "nvidia-smi-apps"
MEMORY = Field("process_memory_bytes", MEBI)
NAMES = ("used_gpu_memory", "used_memory")
REQUIRED = frozenset(("pid",))


def read(text: str, name: str) -> Telemetry:
    table = read_csv(text, REQUIRED, free=("process_name", "name"))
    if table is None:
        raise InputError(name, "nvidia-smi --query-compute-apps without its header", "keep the header")
    gathering = Gathering(FORMAT)
    for fault in table.faults():
        gathering.note(*fault)
    column = {each: place for place, each in enumerate(table.names)}
    owners: list[Owner | None] = []
    for row in table.rows:
        pid = row[column["pid"]]
        of_device = {each: place for each, place in column.items() if each != "name"}
        process = next((row[column[each]] for each in ("process_name", "name") if each in column), "")
        owners.append(
            replace(device_of(row, of_device), kind="process", pid=int(pid), name=process or None)
            if re.fullmatch(r"\d{1,10}", pid)
            else None
        )
    stamps = [row[column["timestamp"]] for row in table.rows] if "timestamp" in column else None
    at_ns, has, time = row_times(gathering, stamps, [owner.key if owner else None for owner in owners])
    owners = [owner if has_time else None for owner, has_time in zip(owners, has, strict=True)]
    for each in NAMES:
        if each in column:
            place = column[each]
            cells = [row[place] for row in table.rows]
            add_column_cells(gathering, owners, at_ns, cells, MEMORY, each, table.units[place])
            break
    return gathering.telemetry(name, time)


def _claims(head: str) -> bool:
    table = read_csv(head + "\n", REQUIRED)
    return table is not None and bool({*NAMES, "process_name", "gpu_uuid"} & set(table.names))


SOURCE = FileSource(format=FORMAT, title="nvidia-smi --query-compute-apps", claims=_claims, read=read)
