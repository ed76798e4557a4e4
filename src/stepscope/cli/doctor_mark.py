"""What `stepscope doctor` says of marks: whether reading the clock is free, and whether rings can be kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stepscope.cli.doctor import Check
from stepscope_sdk import folder

CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
READ_WITHOUT_CALL = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
"""Clock sources that the kernel lets a process read by itself (its vDSO)."""


def clock(path: Path = CLOCK) -> list[Check]:
    """The kernel's clock source, by which each mark is timed."""
    try:
        name = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return []
    if name in READ_WITHOUT_CALL:
        return [Check("clock source", "ok", f"{name}: a mark makes no system call")]
    return [Check("clock source", "note", f"{name}: each mark reads the clock by a system call, twice")]


def run_folder(env: Mapping[str, str] = os.environ) -> list[Check]:
    """Where rings of this user would lie. Nothing is made."""
    path = folder.run_dir(env)
    mend = "export STEPSCOPE_RUN_DIR=/dev/shm/stepscope-$USER"
    try:
        folder.rights(env)
        at = os.stat(path)
    except FileNotFoundError:
        parent = path
        while not os.path.exists(parent):
            parent = os.path.dirname(parent) or "."
        if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
            return [Check("run directory", "ok", f"{path} will be made by the first process that marks")]
        return [Check("run directory", "missing", f"{path} is not there and cannot be made", mend)]
    except (OSError, ValueError) as error:
        return [Check("run directory", "missing", f"not usable: {error}", mend)]
    why = folder.why_unsafe(at, os.geteuid())
    if not os.path.isdir(path):
        return [Check("run directory", "missing", f"{path} is no folder", mend)]
    if why:
        return [
            Check(
                "run directory",
                "missing",
                f"{path} is not safe: all may write there without a sticky bit",
                mend,
            )
        ]
    if not os.access(path, os.W_OK | os.X_OK):
        return [Check("run directory", "missing", f"{path} may not be written by this user", mend)]
    num_rings = sum(name.endswith(".ring") for name in os.listdir(path))
    return [Check("run directory", "ok", f"{path}, rings there now: {num_rings}")]
