"""Pauses of Python's garbage collector, as phases `gc`."""

from __future__ import annotations

import gc
from contextlib import suppress
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any

from stepscope_sdk import ring_abi as abi

if TYPE_CHECKING:
    from stepscope_sdk.monitor import Monitor

LEAST_NS = 1_000_000
"""Shorter ones come hundreds of times a second and explain no step."""
_GC = abi.PHASES.index("gc")
_BEGIN, _END = abi.kind_number("phase_begin"), abi.kind_number("phase_end")


class Pauses:
    """Told by the collector when it begins and ends. It may run in the middle of a mark: its own two records
    wait then, and are written by the mark that it interrupted."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._begun = (0, 0)

    def watch(self) -> None:
        """From now on."""
        if self._collected not in gc.callbacks:
            gc.callbacks.append(self._collected)

    def stop(self) -> None:
        """No more."""
        with suppress(ValueError):
            gc.callbacks.remove(self._collected)

    def _collected(self, when: str, told: dict[str, Any]) -> None:
        try:
            if when == "start":
                self._begun = (monotonic_ns(), time_ns())
                return
            begun, ended = self._begun, (monotonic_ns(), time_ns())
            monitor = self._monitor
            # Of a forked child that has marked nothing there is no ring, and a pause is no reason for one.
            if not begun[0] or ended[0] - begun[0] < LEAST_NS or monitor._ring is None:
                return
            nothing = float("nan")
            monitor._write_inner(_BEGIN, 0, monitor._step, _GC, nothing, nothing, begun)
            monitor._write_inner(_END, 0, monitor._step, _GC, nothing, float(begun[0] - ended[0]), ended)
        except Exception:  # noqa: BLE001 - the outer wall: what a collector's callback raises is printed
            pass
