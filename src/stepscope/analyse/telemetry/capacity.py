"""Memory of accelerator models: what one card can hold at most."""

from __future__ import annotations

import re

from stepscope.model.hardware import hardware_of

GIGABYTES: dict[str, int] = {
    "V100-SXM2": 32, "V100-PCIE": 32, "T4": 16, "A10": 24, "A10G": 24, "A30": 24,
    "A100-SXM4-40": 40, "A100-SXM4-80": 80, "A100-PCIE-40": 40, "A100-PCIE-80": 80, "A800-SXM4-80": 80,
    "L4": 24, "L40S": 48, "H100-SXM": 96, "H100-PCIE": 80, "H100-NVL": 94, "H200-SXM": 141,
    "H200-NVL": 141, "H20": 141, "H800-SXM": 80, "B200": 192, "GB200": 192, "B300": 288,
    "RTX4090": 24, "RTX5090": 32, "MI250X-GCD": 64, "MI300X": 192, "MI325X": 256, "MI350X": 288,
    "MI355X": 288, "Ascend910B": 64,
}  # fmt: skip
"""Key of `model.hardware` -> the largest variant that is sold under its names, by the vendors' data sheets
(B200 has 192 GB of which 180 are offered; the H100 of Grace Hopper has 96)."""
_STATED = re.compile(r"(?<![\d.])(\d{2,3})\s?GB\b", re.IGNORECASE)
MOST_GIGABYTES = max(GIGABYTES.values())


def memory_bytes_of(model: str | None) -> int | None:
    """What one card of this name holds at most, as the driver would count it (2^30 to the gigabyte, which
    drivers of 80 GB cards nearly reach); `None` of an unknown model."""
    if not model:
        return None
    stated = _STATED.search(model)
    if stated is not None:
        return int(stated[1]) << 30
    hardware = hardware_of(model)
    size = GIGABYTES.get(hardware.key) if hardware is not None else None
    return None if size is None else size << 30
