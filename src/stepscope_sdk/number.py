"""Numbers of a training loop, taken without ever waiting for a device."""

from __future__ import annotations

import sys
from typing import Any


def as_float(value: Any) -> float | None:
    """A number; None for what is none, or lies on a device: reading it there would stall the loop."""
    if type(value) in (float, int):
        return float(value)
    if isinstance(value, float | int):
        return float(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        # Subclasses may talk to other ranks when they are read (a distributed tensor does).
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return None
        if value.device.type != "cpu" or value.numel() != 1:
            return None
        return float(value.detach().item())
    device = getattr(value, "device", None)
    if device is not None and getattr(device, "platform", device) != "cpu":
        return None
    return float(value)


def as_count(value: Any) -> int:
    """A whole number; -1 for what is absent, none, or on a device."""
    found = value if type(value) is int else as_amount(value)
    return int(found) if 0 <= found < 2**62 else -1


def as_amount(value: Any) -> float:
    """A number; NaN where it is absent, none, or on a device."""
    try:
        found = None if value is None else as_float(value)
    except Exception:  # noqa: BLE001 - of whatever kind it is, its step is marked all the same
        found = None
    return float("nan") if found is None else found
