"""Attach mode: marks of a script that marks nothing itself.

Steps are found by the optimizer, waits by the loader, passes by the outermost module and by autograd. Used by
`stepscope run`; `stepscope_sdk.attach.start()` in a notebook does the same. A script that marks its own steps
is left alone.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any

from stepscope_sdk import monitor
from stepscope_sdk.attach_import import watch
from stepscope_sdk.attach_mark import Marks
from stepscope_sdk.monitor import Monitor
from stepscope_sdk.start import is_off

SEEN, FAULT = "torch.seen", "attach.fault"
"""Files in the run directory: a process imported torch (for whoever finds no ring there); attach mode itself
failed, and how."""

_marks: Marks | None = None


def start(torch: ModuleType | None = None) -> None:
    """Wrap torch now, or as soon as it has been imported. Twice is once; never raises."""
    if _marks is not None or is_off(os.environ):
        return
    if torch is None:
        watch("torch", start)
        return
    try:
        _start(torch)
    except Exception as error:  # noqa: BLE001  the wall to the training script
        _stop(error)


def _stop(error: BaseException) -> None:
    _say_fault(error)
    if _marks is not None:
        _marks.is_off = True


def _start(torch: ModuleType) -> None:
    global _marks
    from stepscope_sdk.attach_torch import wrap

    marks = Marks(_open)
    marks.on_fault = _say_fault
    _marks = marks
    os.register_at_fork(after_in_child=marks.reset)
    wrap(torch, marks)
    for name in ("begin_step", "step"):
        _give_way(marks, name)
    _note(SEEN, str(getattr(torch, "__version__", "")))


def _say_fault(error: BaseException) -> None:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = (
        "" if last is None else f" at {os.path.basename(last.tb_frame.f_code.co_filename)}:{last.tb_lineno}"
    )
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  the text of a stranger's exception may fail too
        said = ""
    _note(FAULT, f"{type(error).__name__}{': ' + said if said else ''}{where}")


def _note(name: str, text: str) -> None:
    """Leave a line for `stepscope run`, in its own folder alone."""
    folder = os.environ.get("STEPSCOPE_RUN_DIR")
    if not folder or os.environ.get("STEPSCOPE_ATTACH") != "1":
        return
    try:
        with open(os.path.join(folder, name), "w", encoding="utf-8", errors="replace") as file:
            file.write(text[:1000])
    except OSError:
        return


def _open() -> Monitor | None:
    """The monitor of this process; None in a worker of a loader, which trains nothing."""
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None and getattr(worker, "_worker_info", None) is not None:
        return None
    return monitor()


def _give_way(marks: Marks, name: str) -> None:
    """A step that somebody else marks ends attach mode."""
    before = getattr(Monitor, name)

    @functools.wraps(before)
    def wrapped(self: Monitor, *args: Any, **kwargs: Any) -> Any:
        if not marks.is_own:
            marks.stay_out()
        return before(self, *args, **kwargs)

    setattr(Monitor, name, wrapped)
