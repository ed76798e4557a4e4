"""Which line of the user's Python launched work: frames of frameworks are passed over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.launched import Launched
from stepscope.analyse.nest import innermost
from stepscope.model.trace import Trace
from stepscope.trace.category import Kind
from stepscope.trace.link import Activities
from stepscope.trace.nesting import HostRows

_FRAME = re.compile(r".+\.py\(\d+\): .+")
"""A frame as the profiler writes it: file(line): function."""
_FRAMEWORK = re.compile(
    r"(^|/)(torch|torchvision|lightning|pytorch_lightning|accelerate|deepspeed|apex|functorch|runpy|threading|"
    r"contextlib|multiprocessing|concurrent|importlib|typing|numpy|site-packages/(torch|lightning|accelerate|"
    r"deepspeed|apex))(/|\.py\()|^<|^(runpy|threading|contextlib)\.py"
)
_SPLIT = re.compile(r";|\\n|\n|\r")


@lru_cache(maxsize=4096)
def is_own_frame(name: str) -> bool:
    """Whether a frame's name is a line of Python outside the frameworks."""
    return _FRAME.fullmatch(name) is not None and _FRAMEWORK.search(name) is None


def called_from(
    trace: Trace,
    rows: Mapping[int, HostRows],
    who: Launched,
    activities: Activities,
    groups_of: Sequence[npt.NDArray[np.intp]],
) -> list[str | None]:
    """For each group of activities the line that most device time was launched from, `None` where no stack
    tells.

    Python rows of the launching thread tell, else the stacks written beside the ops.
    """
    duration = activities.end_ns - activities.start_ns
    asked = np.concatenate([np.empty(0, dtype=np.intp), *groups_of])
    line = np.full(len(duration), -1, dtype=np.int64)
    for track, members in groups(who.thread[asked]):
        mine = asked[members]
        own = _own_rows(trace, rows[track]) if track in rows else np.empty(0, dtype=bool)
        if own.any():
            row = innermost(rows[track], own, activities.launch_ns[mine])
            line[mine] = np.where(row >= 0, trace.spans.name_id[np.maximum(row, 0)], -1)
    result = []
    for which in groups_of:
        spent = {
            trace.names[name]: int(duration[which[at]].sum()) for name, at in groups(line[which]) if name >= 0
        } or _from_stacks(trace, who, which, duration)
        result.append(max(sorted(spent), key=lambda name: spent[name]) if spent else None)
    return result


def _own_rows(trace: Trace, rows: HostRows) -> npt.NDArray[np.bool_]:
    is_python: npt.NDArray[np.bool_] = rows.kind == Kind.PYTHON
    if not is_python.any():
        return is_python
    present = np.zeros(len(trace.names), dtype=bool)
    present[rows.name_id[is_python]] = True
    ids = np.flatnonzero(present)
    present[ids] = [is_own_frame(trace.names[name]) for name in ids.tolist()]
    is_own: npt.NDArray[np.bool_] = is_python & present[rows.name_id]
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
