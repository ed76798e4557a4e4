"""Counters to rates, from one look to the next."""

from __future__ import annotations

from collections.abc import Hashable


class Meter:
    """Remembers what counters stood at. The first look at one gives nothing, nor does a fall: a reset."""

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[int, float]] = {}
        self._seen: set[Hashable] = set()
        self.num_resets = 0

    def delta(self, key: Hashable, value: float, mono_ns: int) -> tuple[float, int] | None:
        """(growth, nanoseconds) since the last look."""
        self._seen.add(key)
        before = self._before.get(key)
        self._before[key] = (mono_ns, value)
        if before is None or mono_ns <= before[0]:
            return None
        if value < before[1]:
            self.num_resets += 1
            return None
        return value - before[1], mono_ns - before[0]

    def rate(self, key: Hashable, value: float, mono_ns: int) -> float | None:
        """Growth per second."""
        found = self.delta(key, value, mono_ns)
        return None if found is None else found[0] * 1e9 / found[1]

    def forget_unseen(self) -> None:
        """Drop what was not asked for since the last call: processes that ended, disks that went."""
        self._before = {key: each for key, each in self._before.items() if key in self._seen}
        self._seen = set()
