"""DCGM's bindings, as a class of their shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from stepscope.agent.catalog.dcgm import SOURCE, DcgmSource
from stepscope.agent.context import Context
from stepscope.agent.source import NotHere
from stepscope.model.error import ServiceError


@dataclass
class Value:
    ts: int
    value: object


@dataclass
class Reader:
    """`DcgmReader` as far as it is used."""

    said: dict[int, dict[int, list[Value]]] = field(default_factory=dict)
    is_up: bool = True
    m_gpuIdToUUId: dict[int, str] = field(default_factory=lambda: {0: "GPU-0"})
    m_gpuIdToBusId: dict[int, str] = field(default_factory=lambda: {0: "00000000:3B:00.0"})
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> Reader:
        self.options = options
        return self

    def Init(self) -> None:
        """As DcgmReader: a host engine that is down is only told to a log."""

    def Shutdown(self) -> None:
        """Nothing is held."""

    @property
    def m_dcgmHandle(self) -> object:
        return object() if self.is_up else None

    def GetAllGpuValuesAsFieldIdDictSinceLastCall(self) -> dict[int, dict[int, list[Value]]]:
        return self.said


def test_values_have_dcgms_own_times_and_units() -> None:
    reader = Reader(
        {0: {155: [Value(1_000_000, 300.5), Value(2_000_000, 301.5)], 203: [Value(1_000_000, 95)]}}
    )
    source = DcgmSource(Context(host="n1", load_dcgm=lambda: reader))
    (reading,) = source.read()
    found = [(each.signal, each.value, each.at_ns) for each in reading.samples]
    assert ("power_watts", 301.5, 2_000_000_000) in found
    assert ("compute_busy_ratio", pytest.approx(0.95), 1_000_000_000) in found
    owner = reading.samples[0].owner
    assert (owner.uuid, owner.pci_bus_id) == ("GPU-0", "0000:3b:00.0")
    assert reader.options["updateFrequency"] == 1_000_000
    assert 1002 in reader.options["fieldIds"]


def test_a_host_engine_that_is_down_is_named_and_bindings_that_are_not_there_are_not_here() -> None:
    with pytest.raises(ServiceError, match="host engine"):
        DcgmSource(Context(host="n1", load_dcgm=lambda: Reader(is_up=False))).read()

    def missing() -> object:
        raise ImportError("no DcgmReader")

    with pytest.raises(NotHere, match="no DcgmReader"):
        DcgmSource(Context(host="n1", load_dcgm=missing)).read()
    assert SOURCE.make(Context(host="n1")) == []
