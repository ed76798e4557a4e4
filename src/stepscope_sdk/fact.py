"""What becomes known once a step has run: the framework and the device in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def facts(modules: Mapping[str, Any]) -> dict[str, str]:
    """Fields of the header, of loaded frameworks. Starts no device and waits for none."""
    found: dict[str, str] = {}
    torch = modules.get("torch")
    if torch is not None:
        version = getattr(torch, "__version__", None)
        if version is not None:
            found["framework"] = f"torch {version}"
        cuda = getattr(torch, "cuda", None)
        # Only where the loop has begun to use it: a context costs memory and seconds.
        if cuda is not None and cuda.is_initialized():
            uuid = getattr(cuda.get_device_properties(cuda.current_device()), "uuid", None)
            if uuid is not None:
                text = str(uuid)
                found["device_uuids"] = text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"
    elif "jax" in modules:
        found["framework"] = f"jax {getattr(modules['jax'], '__version__', '')}".strip()
    return found
