"""Devices of the node as the driver names them now, and which process is on which."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stepscope.model.sample import Owner

DeviceKey = tuple[str, str | None]
"""(UUID of the device, its MIG instance or None)."""


@dataclass(frozen=True, slots=True)
class Device:
    """`owner` identifies it; `alias` is the UUID that a MIG instance has of its own (`MIG-…`), by which
    `CUDA_VISIBLE_DEVICES` names it."""

    owner: Owner
    alias: str | None = None

    @property
    def key(self) -> DeviceKey:
        return (self.owner.uuid or "", self.owner.mig)


class DeviceTable:
    """Written by whoever reads the driver, read by whoever labels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, DeviceKey] = {}
        self._by_bus: dict[str, Owner] = {}
        self._pids: dict[DeviceKey, frozenset[int]] = {}
        self.version = 0
        """Rises with each change."""

    def put(self, devices: Iterable[Device]) -> None:
        """The devices there are now."""
        names: dict[str, DeviceKey] = {}
        buses: dict[str, Owner] = {}
        for each in devices:
            if each.owner.pci_bus_id and each.owner.mig is None:
                buses[each.owner.pci_bus_id] = each.owner
            if each.alias:
                names[each.alias] = each.key
            elif each.owner.uuid:
                names[each.owner.uuid] = each.key
        with self._lock:
            if names != self._by_name:
                kept = set(names.values())
                self._by_name, self._by_bus = names, buses
                self._pids = {key: pids for key, pids in self._pids.items() if key in kept}
                self.version += 1

    def put_pids(self, pids: Mapping[DeviceKey, frozenset[int]]) -> None:
        """Which processes compute on which device, by their pids on the node."""
        with self._lock:
            if dict(pids) != self._pids:
                self._pids = dict(pids)
                self.version += 1

    def key_of(self, name: str) -> DeviceKey:
        """The device that a UUID names: of a whole device, or of a MIG instance where the driver told it."""
        with self._lock:
            return self._by_name.get(name, (name, None))

    def owner_at(self, bus: str) -> Owner | None:
        """The device at a PCI address, `None` where the driver told of none."""
        with self._lock:
            return self._by_bus.get(bus)

    def of_pids(self, pids: frozenset[int]) -> tuple[DeviceKey, ...]:
        """The devices on which any of the processes computes."""
        with self._lock:
            return tuple(key for key, there in self._pids.items() if there & pids)
