"""`nvidia-smi pmon`: processes on devices, their share of time and (`-s m`) their memory.

Shares of processes that ended are rubbish that may pass 100 % (nvtop#110): such a value is no sample. Under
MIG there is none at all.
"""

from __future__ import annotations

from stepscope.model.error import InputError
from stepscope.model.sample import Owner, Telemetry
from stepscope.sources.field import MEBI, PERCENT, Field
from stepscope.sources.formats.smi import read_monitor
from stepscope.sources.gather import Gathering
from stepscope.sources.source import FileSource
from stepscope.sources.table import add_column_cells, monitor_times

FORMAT = "nvidia-smi-pmon"
FIELDS: dict[str, Field] = {
    "sm": Field("process_sm_ratio", PERCENT),
    "fb": Field("process_memory_bytes", MEBI),
}


def read(text: str, name: str) -> Telemetry:
    """A row without a process says that none ran on the device: it is no sample and no fault."""
    table = read_monitor(text, last_is_text=True)
    if table is None or not table.rows:
        raise InputError(name, "nvidia-smi pmon without a row", "let it run for a while: pmon -o DT")
    gathering = Gathering(FORMAT)
    for fault in table.faults():
        gathering.note(*fault)
    column = {each: place for place, each in enumerate(table.names)}
    owners: list[Owner | None] = []
    for row in table.rows:
        gpu, pid = row[column["gpu"]], row[column["pid"]]
        known = all(each.isascii() and each.isdigit() and len(each) < 11 for each in (gpu, pid))
        command = row[column["command"]] if "command" in column else ""
        owners.append(
            Owner(kind="process", index=int(gpu), pid=int(pid), name=command if command != "-" else None)
            if known
            else None
        )
    keys = [(row[column["gpu"]], row[column["pid"]]) for row in table.rows]
    dates = [row[column["date"]] for row in table.rows] if "date" in column else None
    clocks = [row[column["time"]] for row in table.rows] if "time" in column else None
    at_ns, has, time = monitor_times(gathering, dates, clocks, keys)
    owners = [owner if has_time else None for owner, has_time in zip(owners, has, strict=True)]
    for each, field in FIELDS.items():
        if each in column:
            place = column[each]
            cells = [row[place] for row in table.rows]
            add_column_cells(gathering, owners, at_ns, cells, field, each, table.units[place])
    return gathering.telemetry(name, time)


def _claims(head: str) -> bool:
    table = read_monitor(head + "\n", last_is_text=True)
    return table is not None and {"gpu", "pid"} <= set(table.names)


SOURCE = FileSource(format=FORMAT, title="nvidia-smi pmon", claims=_claims, read=read)
