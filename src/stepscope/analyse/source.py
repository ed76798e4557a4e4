"""Which line of the user's Python launched work: frames of frameworks are passed over."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.launched import Launched, innermost
from stepscope.model.trace import Trace
from stepscope.trace.category import Kind
from stepscope.trace.link import Activities
from stepscope.trace.nesting import HostRows

_FRAME = re.compile(r"[^\s]+\.py\(\d+\): .+")
"""A frame as the profiler writes it: file(line): function."""
_FRAMEWORK = re.compile(
    r"(^|/)(torch|torchvision|lightning|pytorch_lightning|accelerate|deepspeed|apex|functorch|runpy|threading|"
    r"contextlib|multiprocessing|concurrent|importlib|typing|numpy|site-packages/(torch|lightning|accelerate|"
    r"deepspeed|apex))(/|\.py\()|^<|^(runpy|threading|contextlib)\.py"
)
_SPLIT = re.compile(r";|\\n|\n|\r")


def is_own_frame(name: str) -> bool:
    """Whether a frame's name is a line of Python outside the frameworks."""
    return _FRAME.fullmatch(name) is not None and _FRAMEWORK.search(name) is None


def called_from(
    trace: Trace,
    rows: Mapping[int, HostRows],
    who: Launched,
    activities: Activities,
    which: npt.NDArray[np.intp],
) -> str | None:
    """The line that most device time of these activities was launched from, `None` where no stack tells.

    Python rows of the launching thread tell, else the stacks written beside the ops.
    """
    duration = activities.end_ns - activities.start_ns
    spent: dict[str, int] = {}
    for track, members in groups(who.thread[which]):
        mine = which[members]
        if track in rows:
            own = _own_rows(trace, rows[track])
            row = innermost(rows[track], own, activities.launch_ns[mine]) if own.any() else None
            if row is not None:
                for name, at in groups(np.where(row >= 0, trace.spans.name_id[np.maximum(row, 0)], -1)):
                    if name >= 0:
                        spent[trace.names[name]] = spent.get(trace.names[name], 0) + int(
                            duration[mine[at]].sum()
                        )
    if not spent:
        spent = _from_stacks(trace, who, which, duration)
    return max(sorted(spent), key=lambda name: spent[name]) if spent else None


def _own_rows(trace: Trace, rows: HostRows) -> npt.NDArray[np.bool_]:
    is_python: npt.NDArray[np.bool_] = rows.kind == Kind.PYTHON
    if not is_python.any():
        return is_python
    ids = [n for n in np.unique(rows.name_id[is_python]).tolist() if is_own_frame(trace.names[n])]
    is_own: npt.NDArray[np.bool_] = is_python & np.isin(rows.name_id, ids)
    return is_own


def _from_stacks(
    trace: Trace, who: Launched, which: npt.NDArray[np.intp], duration: npt.NDArray[np.int64]
) -> dict[str, int]:
    ops = trace.ops
    mine = which[who.op_row[which] >= 0]
    if not len(ops.row) or not len(mine):
        return {}
    at = np.minimum(np.searchsorted(ops.row, who.op_row[mine]), len(ops.row) - 1)
    stack = np.where(ops.row[at] == who.op_row[mine], ops.stack_id[at], -1)
    spent: dict[str, int] = {}
    for text, members in groups(stack):
        line = next(filter(is_own_frame, _SPLIT.split(trace.texts[text])), None) if text >= 0 else None
        if line is not None:
            spent[line] = spent.get(line, 0) + int(duration[mine[members]].sum())
    return spent


__all__ = ["called_from", "is_own_frame"]
