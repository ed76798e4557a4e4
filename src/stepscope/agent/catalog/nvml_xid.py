"""Xids as the driver reports them, by NVML's event set: no gauge that stays, each one once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stepscope.agent.context import Context
from stepscope.agent.nvml import TIMEOUT, Driver, Handle
from stepscope.agent.source import Event, Kind, NotHere, Reading, Source
from stepscope.model.xid import xid

MOST_EVENTS = 1000
"""Of one look."""


class XidSource:
    """The event set of all devices; made anew when devices change."""

    name = "nvml-xid"

    def __init__(self, context: Context, driver: Driver) -> None:
        self._context, self._driver = context, driver
        self._generation = 0
        self._set: Any = None

    def read(self) -> Sequence[Reading]:
        driver = self._driver
        reading = Reading(self._context.clock.real_ns())
        with driver.pass_() as handles:
            whole = [each for each in handles if not each.is_instance]
            if self._set is None or self._generation != driver.generation:
                self._register(whole)
            for _ in range(MOST_EVENTS):
                try:
                    said = driver.library.nvmlEventSetWait_v2(self._set, 0)
                except driver.library.NVMLError as error:
                    if error.value != TIMEOUT:
                        self._set = None
                    break
                if said.eventType == driver.library.nvmlEventTypeXidCriticalError:
                    reading.events.append(self._event(said, whole))
        return [reading]

    def close(self) -> None:
        self._set = None

    def _register(self, handles: Sequence[Handle]) -> None:
        nvml = self._driver.library
        self._generation = self._driver.generation
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            raise NotHere(f"the driver gives no events: {error}") from error
        for handle in handles:
            self._driver.call(
                handle,
                "nvmlDeviceRegisterEvents",
                nvml.nvmlDeviceRegisterEvents,
                handle.raw,
                nvml.nvmlEventTypeXidCriticalError,
                self._set,
            )

    def _event(self, said: Any, handles: Sequence[Handle]) -> Event:
        code = int(said.eventData)
        place = ctypes.cast(said.device, ctypes.c_void_p).value
        found = [each for each in handles if ctypes.cast(each.raw, ctypes.c_void_p).value == place]
        owner = replace(found[0].owner, mig=None) if found else None
        return Event(self._context.clock.real_ns(), "xid", f"Xid {code}: {xid(code).meaning.en}", code, owner)


def _make(context: Context) -> Sequence[Source]:
    driver = context.driver()
    return [XidSource(context, driver)] if driver is not None else []


SOURCE = Kind(
    name="nvml-xid",
    title="Xid events (NVML)",
    gives="each Xid once, when it comes",
    make=_make,
    fixed_ns=1_000_000_000,
)
