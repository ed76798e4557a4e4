"""The NVIDIA driver through its own library: which devices there are, and when they go or come back.

The library is a parameter (`nvidia-ml-py`, imported by whoever starts the agent). Every pass over a device
holds one lock: GPM calls side by side were seen to crash, and a shutdown must not meet a read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from stepscope.agent.clock import Clock
from stepscope.agent.device import Device, DeviceKey, DeviceTable
from stepscope.agent.source import Event, NotHere
from stepscope.model.error import ServiceError
from stepscope.model.sample import Owner
from stepscope.sources.owner import pci_bus_id

# nvml.h, nvmlReturn_t. Every binding has these numbers; newer names are not in all of them.
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 9, 10, 12, 13
GPU_IS_LOST, RESET_REQUIRED, MISMATCH, NO_DATA, UNKNOWN = 15, 16, 18, 21, 999
NOT_HERE = frozenset((DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND))
REASON = {NOT_SUPPORTED: "not_supported", FUNCTION_NOT_FOUND: "not_supported", NO_PERMISSION: "no_permission",
          INVALID_ARGUMENT: "not_supported", NOT_FOUND: "not_found", NO_DATA: "blank"}  # fmt: skip
"""Answers that say of one call that it has no value; any other says it of the device or the driver."""
LOOK_AGAIN_NS = 30_000_000_000
"""How often devices and their instances are counted anew."""
SUSPECT_NS = 5_000_000_000
"""The same, after an answer that may mean that something changed."""
RESTART_NS = 300_000_000_000
"""How often the library is started anew while a device is lost: one that came back is seen by that only."""


@dataclass(slots=True)
class Handle:
    """A device or a MIG instance. `parent` is the handle of the whole device, `instance` its GPU instance."""

    device: Device
    raw: Any
    parent: Any = None
    instance: int | None = None
    is_lost: bool = False
    silent: dict[str, str] = field(default_factory=dict)
    """Calls that this device does not answer, and why: asked again when the library is started anew."""

    @property
    def owner(self) -> Owner:
        return self.device.owner

    @property
    def key(self) -> tuple[DeviceKey, str | None]:
        """An instance that was made anew under its old number is another."""
        return self.device.key, self.device.alias

    @property
    def is_instance(self) -> bool:
        return self.instance is not None


class Driver:
    """The one connection to the driver. `handles` are of the devices there are now."""

    def __init__(self, load: Callable[[], Any], *, host: str, clock: Clock, devices: DeviceTable) -> None:
        self._load, self._host, self._clock, self._devices = load, host, clock, devices
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._looked_mono_ns = 0
        self._is_up = False
        self._has_failed = False
        self._is_suspect = False
        self._started_mono_ns = 0
        self.library: Any = None
        self.handles: list[Handle] = []
        self.generation = 0
        """Rises whenever handles were made anew: what was made of old ones is void."""

    @contextmanager
    def pass_(self) -> Iterator[list[Handle]]:
        """One look at the devices, alone. NotHere where there is no driver, ServiceError where it is there
        and does not answer."""
        with self._lock:
            self._ready()
            yield [each for each in self.handles if not each.is_lost]

    def events(self) -> list[Event]:
        """What happened to devices and driver since the last call."""
        found, self._events = self._events, []
        return found

    def call(self, handle: Handle, name: str, ask: Callable[..., Any], *arguments: Any) -> Any | None:
        """The answer to `ask(*arguments)`, or `None` where this device has none: why is then in
        `handle.silent`. A device that is lost is told and left out from then on."""
        if name in handle.silent:
            return None
        try:
            return ask(*arguments)
        except self.library.NVMLError as error:
            self.failed(handle, name, error)
            return None

    def failed(self, handle: Handle, name: str, error: Any) -> None:
        """Take note of an answer that is none."""
        code = error.value
        if code in REASON:
            if code != NO_DATA:
                handle.silent[name] = REASON[code]
            return
        if code in (UNINITIALIZED, DRIVER_NOT_LOADED, MISMATCH):
            self._has_failed = True
            self._tell("driver_lost", f"the driver does not answer: {error}")
            self._drop()
            raise ServiceError("NVML", str(error), "it is asked again when the driver is back") from error
        if code in (GPU_IS_LOST, RESET_REQUIRED):
            self._lose(handle, str(error))
            return
        self._is_suspect = True

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _ready(self) -> None:
        now = self._clock.mono_ns()
        again_ns = SUSPECT_NS if self._is_suspect else LOOK_AGAIN_NS
        if self._is_up and now - self._looked_mono_ns < again_ns:
            return
        is_lost = any(each.is_lost for each in self.handles)
        if self._is_up and is_lost and now - self._started_mono_ns >= RESTART_NS:
            self._drop()
        if not self._is_up:
            self._started_mono_ns = now
        self._start()
        self._is_suspect, self._looked_mono_ns = False, now

    def _start(self) -> None:
        was_started = not self._is_up
        try:
            if self.library is None:
                self.library = self._load()
            if not self._is_up:
                self.library.nvmlInit()
                self._is_up = True
            found = self._found()
        except ImportError as error:
            raise NotHere(f"{error.name or 'pynvml'} is not installed") from error
        except OSError as error:
            raise NotHere(f"the driver's library cannot be loaded: {error}") from error
        except self.library.NVMLError as error:
            self._drop()
            if error.value in NOT_HERE and not self.generation:
                raise NotHere(f"no driver: {error}") from error
            mend = "start the agent again" if error.value == MISMATCH else "it is asked again"
            raise ServiceError("NVML", str(error), mend) from error
        self._compare(found, was_started)

    def _found(self) -> list[Handle]:
        nvml, found = self.library, list[Handle]()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                raw = nvml.nvmlDeviceGetHandleByIndex(index)
                owner = Owner(
                    kind="device",
                    uuid=_text(nvml.nvmlDeviceGetUUID(raw)),
                    index=index,
                    pci_bus_id=pci_bus_id(_text(nvml.nvmlDeviceGetPciInfo(raw).busId)),
                    model=_text(nvml.nvmlDeviceGetName(raw)),
                    host=self._host,
                )
            except nvml.NVMLError as error:
                if error.value in (UNINITIALIZED, DRIVER_NOT_LOADED, MISMATCH):
                    raise
                continue  # one that is gone keeps its number for a while
            found.append(Handle(Device(owner), raw))
            found += self._instances(raw, owner)
        return found

    def _instances(self, raw: Any, owner: Owner) -> list[Handle]:
        nvml, found = self.library, list[Handle]()
        try:
            if nvml.nvmlDeviceGetMigMode(raw)[0] != 1:
                return found
            num = nvml.nvmlDeviceGetMaxMigDeviceCount(raw)
        except nvml.NVMLError:
            return found
        for place in range(num):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(raw, place)
                number = nvml.nvmlDeviceGetGpuInstanceId(instance)
                alias = _text(nvml.nvmlDeviceGetUUID(instance))
            except nvml.NVMLError:
                continue
            one = replace(owner, mig=str(number))
            found.append(Handle(Device(one, alias), instance, raw, number))
        return found

    def _compare(self, found: list[Handle], was_started: bool) -> None:
        before = {each.key: each for each in self.handles}
        now = {each.key: each for each in found}
        is_first = not self.generation
        if not is_first and self._has_failed:
            self._tell("driver_back", f"the driver answers again, with {len(now)} devices")
        self._has_failed = False
        for key, handle in before.items():
            if key not in now and not handle.is_lost:
                self._tell("device_vanished", f"{_name(handle)} is no longer there", handle.owner)
        for key, handle in now.items():
            if not is_first and key not in before:
                self._tell("device_found", f"{_name(handle)} is there now", handle.owner)
            elif not is_first and before[key].is_lost and was_started:
                self._tell("device_found", f"{_name(handle)} answers again", handle.owner)
        if was_started or now.keys() != before.keys():
            self.generation += 1
        # Within one start a handle stays what it is: what is known of it is kept.
        self.handles = [each if was_started else before.get(each.key, each) for each in found]
        self._devices.put(each.device for each in found)

    def _lose(self, handle: Handle, why: str) -> None:
        handle.is_lost = True
        self._tell("device_vanished", f"{_name(handle)} is lost: {why}", handle.owner)

    def _drop(self) -> None:
        if self._is_up:
            self._is_up = False
            try:
                self.library.nvmlShutdown()
            except self.library.NVMLError:
                return  # it is gone already

    def _tell(self, what: str, text: str, owner: Owner | None = None) -> None:
        self._events.append(Event(self._clock.real_ns(), what, text, None, owner))


def _name(handle: Handle) -> str:
    owner = handle.owner
    instance = f", MIG instance {owner.mig}" if owner.mig is not None else ""
    return f"device {owner.index} ({owner.model}{instance})"


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
