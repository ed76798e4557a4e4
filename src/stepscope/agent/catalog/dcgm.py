"""DCGM's own Python bindings, where they are installed and asked for: values with DCGM's timestamps.

One reader watches the fields that a diagnosis needs; what it gathered since the last look is taken whole, so
that no sample falls between two looks. Blanks are left out by the bindings.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stepscope.agent.context import Context
from stepscope.agent.possible import is_possible
from stepscope.agent.source import Kind, NotHere, Reading, Sample, Source
from stepscope.model.error import ServiceError
from stepscope.model.sample import Owner
from stepscope.sources.dcgm_field import FIELDS
from stepscope.sources.owner import pci_bus_id

WANTED = (
    203, 204, 252, 251, 253, 155, 156, 164, 150, 140, 100, 113, 112, 240, 241, 202, 393, 394, 395, 396, 1001,
    1002, 1003, 1004, 1005, 1007, 1009, 1010, 1011, 1012,
)  # fmt: skip
UPDATE_NS = 1_000_000_000
KEEP_SECONDS = 60.0
_NUMBERS = (int, float)


class DcgmSource:
    """One connection to the host engine, made when it is first asked."""

    name = "dcgm"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reader: Any = None

    def read(self) -> Sequence[Reading]:
        reader = self._reader if self._reader is not None else self._connect()
        said = reader.GetAllGpuValuesAsFieldIdDictSinceLastCall()
        if not said and reader.m_dcgmHandle is None:
            self._reader = None
            raise ServiceError("DCGM", "its host engine does not answer", "start nv-hostengine")
        reading = Reading(self._context.clock.real_ns(), window_ns=UPDATE_NS, collect_ns=UPDATE_NS, lag_ns=0)
        for number, fields in said.items():
            uuid, bus = reader.m_gpuIdToUUId.get(number), reader.m_gpuIdToBusId.get(number)
            owner = Owner(
                uuid=uuid, index=int(number), pci_bus_id=pci_bus_id(bus), host=self._context.host
            )  # DCGM's number of a device is not the driver's: it is told where there is no better
            for field_id, values in fields.items():
                row = FIELDS.get(int(field_id))
                if row is not None:
                    reading.samples += self._samples(
                        owner, row.names[0], row.field.signal, row.field.factor, values, reading
                    )
        reading.samples.sort(key=lambda each: each.at_ns or 0)
        return [reading]

    def close(self) -> None:
        if self._reader is not None:
            self._reader.Shutdown()
            self._reader = None

    def _connect(self) -> Any:
        assert self._context.load_dcgm is not None
        try:
            kind = self._context.load_dcgm()
        except (ImportError, OSError) as error:
            raise NotHere(f"DCGM's Python bindings cannot be loaded: {error}") from error
        reader = kind(
            fieldIds=list(WANTED),
            updateFrequency=UPDATE_NS // 1000,
            maxKeepAge=KEEP_SECONDS,
            fieldGroupName=f"stepscope_{os.getpid()}",
        )
        reader.Init()
        self._reader = reader
        return reader

    @staticmethod
    def _samples(
        owner: Owner, name: str, signal: str, factor: float, values: Sequence[Any], reading: Reading
    ) -> list[Sample]:
        found = []
        for each in values:
            value = each.value * factor if isinstance(each.value, _NUMBERS) else None
            if value is not None and is_possible(signal, value):
                found.append(Sample(owner, signal, value, (("dcgm", name),), int(each.ts) * 1000))
            else:
                reading.missing[name, "out_of_range"] += 1
        return found


def _make(context: Context) -> Sequence[Source]:
    return [DcgmSource(context)] if context.load_dcgm is not None else []


SOURCE = Kind(
    name="dcgm",
    title="DCGM (Python bindings)",
    gives="DCGM's fields with its own timestamps, where its bindings are installed and `--dcgm` is given",
    make=_make,
    least_ns=UPDATE_NS,
)
