"""`dcgmi dmon -e …`: DCGM's fields under short names, rows of devices, MIG instances or both, without times
(DCGM#14): rows of one entity stand a second apart, its default.

A row of a GPU under MIG is the sum of its instances by their share of the whole; a row of an instance is of
the instance. Before Hopper fields of different counter groups take turns: `N/A` where it is not theirs.
"""

from __future__ import annotations

from stepscope.model.error import InputError
from stepscope.model.sample import Owner, Telemetry
from stepscope.sources.dcgm_field import BY_SHORT
from stepscope.sources.formats.smi import read_entities
from stepscope.sources.gather import Gathering
from stepscope.sources.source import FileSource
from stepscope.sources.table import add_column_cells, cycle_times

FORMAT = "dcgmi-dmon"


def read(text: str, name: str) -> Telemetry:
    table = read_entities(text)
    if table is None or not table.rows:
        raise InputError(name, "dcgmi dmon without a row of values", "let it run for a while")
    gathering = Gathering(FORMAT)
    for fault in table.faults():
        gathering.note(*fault)
    owners: list[Owner | None] = []
    gpu: int | None = None
    for row in table.rows:
        entity, number = row[0].upper(), row[1]
        if entity == "GPU":
            gpu = int(number)
            owners.append(Owner(index=gpu))
        elif entity == "GPU-I":
            owners.append(Owner(index=gpu, mig=number))
        else:
            owners.append(None)  # GPU-CI: a compute instance is within one that is there
    at_ns = cycle_times([(row[0], row[1], owner.index if owner else None) for row, owner in
                         zip(table.rows, owners, strict=True)])  # fmt: skip
    num_known = 0
    for place, short in enumerate(table.names[2:], 2):
        known = BY_SHORT.get(short.upper())
        if known:
            num_known += 1
            # Not "not supported", which N/A is elsewhere: the counter group had no turn, or no sample yet.
            cells = ["-" if row[place] == "N/A" else row[place] for row in table.rows]
            add_column_cells(gathering, owners, at_ns, cells, known.field, short)
    if not num_known:
        raise InputError(name, "dcgmi dmon with no column that is known", "use -e 1001,1002,1004,1005,155")
    return gathering.telemetry(name, "none")


def _claims(head: str) -> bool:
    table = read_entities(head + "\n")
    return table is not None and len(table.names) > 2


SOURCE = FileSource(format=FORMAT, title="dcgmi dmon", claims=_claims, read=read)
