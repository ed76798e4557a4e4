"""Time as the agent sees it: real, or one that a test turns by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """`mono_ns` never jumps and orders what the agent does; `real_ns` is what samples are stamped with."""

    def mono_ns(self) -> int: ...

    def real_ns(self) -> int: ...

    def wait(self, stop: threading.Event, until_mono_ns: int) -> bool:
        """Sleep until then, or until `stop` is set; whether it is."""


class RealClock:
    """The machine's own."""

    def mono_ns(self) -> int:
        return time.monotonic_ns()

    def real_ns(self) -> int:
        return time.time_ns()

    def wait(self, stop: threading.Event, until_mono_ns: int) -> bool:
        return stop.wait(max(until_mono_ns - time.monotonic_ns(), 0) / 1e9)


class ScaledClock:
    """Runs `scale` times as fast as the machine's, for sources that are simulated so. `since_ns` is the wall
    time at which theirs began to: the two then say the same; `None`: now."""

    def __init__(self, scale: float, since_ns: int | None = None) -> None:
        self._scale = scale
        self._mono_ns, now_ns = time.monotonic_ns(), time.time_ns()
        since_ns = now_ns if since_ns is None else min(since_ns, now_ns)
        self._real_ns = since_ns + int((now_ns - since_ns) * scale)

    def mono_ns(self) -> int:
        return self._mono_ns + self._passed()

    def real_ns(self) -> int:
        return self._real_ns + self._passed()

    def wait(self, stop: threading.Event, until_mono_ns: int) -> bool:
        return stop.wait(max(until_mono_ns - self.mono_ns(), 0) / 1e9 / self._scale)

    def _passed(self) -> int:
        return int((time.monotonic_ns() - self._mono_ns) * self._scale)


class HandClock:
    """Stands still until something waits: then it is that time. For one thread."""

    def __init__(self, real_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = 0
        self._start_ns = real_ns

    def mono_ns(self) -> int:
        return self._now_ns

    def real_ns(self) -> int:
        return self._start_ns + self._now_ns

    def wait(self, stop: threading.Event, until_mono_ns: int) -> bool:
        self._now_ns = max(self._now_ns, until_mono_ns)
        return stop.is_set()

    def turn(self, by_ns: int) -> None:
        self._now_ns += by_ns
