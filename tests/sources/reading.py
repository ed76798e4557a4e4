"""What tests of sources ask a `Telemetry`."""

from __future__ import annotations

from typing import Any

from stepscope.model.sample import Series, Telemetry
from stepscope.sources.telemetry import read_telemetry


def read(text: str, name: str = "given.txt") -> Telemetry:
    return read_telemetry(name, data=text.encode())


def series(telemetry: Telemetry, signal: str, **owner: Any) -> Series:
    """The one series of a signal whose owner has these fields."""
    found = [
        each
        for each in telemetry.of(signal)
        if all(getattr(each.owner, name) == value for name, value in owner.items())
    ]
    assert len(found) == 1, (signal, owner, [each.owner for each in telemetry.of(signal)])
    return found[0]


def values(telemetry: Telemetry, signal: str, **owner: Any) -> list[float]:
    return [float(each) for each in series(telemetry, signal, **owner).value]


def reasons(telemetry: Telemetry, signal: str) -> dict[str, int]:
    """How many values of a signal are missing, by why."""
    found: dict[str, int] = {}
    for each in telemetry.missing:
        if each.signal == signal:
            found[each.reason] = found.get(each.reason, 0) + each.count
    return found


def note(telemetry: Telemetry, code: str) -> int:
    """How often a fault was noted."""
    return sum(count for known, count, _ in telemetry.notes if known == code)
