"""What the command finds in its environment: where to put its rings, and what starts attach mode."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from stepscope.model.error import UsageError
from stepscope.run.folder import Folder


def attached_folder() -> Path:
    """The folder that goes first on PYTHONPATH."""
    found = importlib.util.find_spec("stepscope_sdk")
    if found is None or not found.submodule_search_locations:
        raise UsageError("stepscope_sdk is not installed beside stepscope; add it: pip install stepscope-sdk")
    return Path(next(iter(found.submodule_search_locations))) / "attached"


def of_command(environment: Mapping[str, str], folder: Folder, attached: Path) -> dict[str, str]:
    """The environment of the command: all that was there, and four more."""
    python = environment.get("PYTHONPATH", "")
    return {
        **environment,
        "STEPSCOPE_ATTACH": "1",
        "STEPSCOPE_RUN_DIR": str(folder.live),
        "STEPSCOPE_TRACE_DIR": str(folder.traces),
        "PYTHONPATH": f"{attached}{os.pathsep}{python}" if python else str(attached),
    }


def is_off(environment: Mapping[str, str]) -> bool:
    """Whether marks are switched off."""
    return environment.get("STEPSCOPE_DISABLE", "0") not in ("", "0") or (
        environment.get("STEPSCOPE", "").lower() == "off"
    )
