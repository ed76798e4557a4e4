"""Who was running while the device idled: names with the idle time they cover, and where to look."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.idle import IdlePieces
from stepscope.model.analysis import Culprit
from stepscope.model.interval import Intervals, intersect, overlap_ns, union
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.trace import I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import RANK
from stepscope.trace.nesting import HostRows

MAX_CULPRITS = 8
MIN_SHARE = 0.05
"""A name must cover this share of a cause's idle time to be called for it."""
WRAPPER_SHARE = 0.97
"""A frame whose time is a callee's up to this share only passes the call on."""
ROOT_SHARE = 0.95
"""A frame that also covers this share of the whole window says nothing about the gap."""
MOST_NESTED = 500
"""Names that are weighed against each other; of more the innermost: the outer ones only pass the call on."""
# Frames of the framework and the interpreter: a user looks for lines of their own.
_LIBRARY = re.compile(
    r"^(torch|torchvision|multiprocessing|threading|queue|concurrent|asyncio|contextlib|nn\.Module)[/.: (]"
    r"|^<(built-in|frozen)|^enumerate\(DataLoader\)|(site|dist)-packages/|/lib/python3"
)
_BY_ROW = {cause for cause in RANK if cause not in ("launch", "python", "unknown")}


def culprits(
    trace: Trace, idle: IdlePieces, rows: dict[int, HostRows], windows: Intervals
) -> dict[str, tuple[Culprit, ...]]:
    """For each idle cause with a responsible thread, the names that cover most of its time.

    Rows of the cause itself are named; for host work (launch, python, preprocess) the ops and Python
    functions that were open, without those that only wrap others or that are open all the time.
    """
    found: dict[str, tuple[Culprit, ...]] = {}
    for cause in np.unique(idle.cause).tolist():
        name = IDLE_CAUSES[cause]
        best: list[Culprit] = []
        for thread in np.unique(idle.thread[idle.cause == cause]).tolist():
            if thread not in rows:
                continue
            mask = (idle.cause == cause) & (idle.thread == thread)
            when = intersect(Intervals(idle.start[mask], idle.end[mask]), windows)
            if len(when):
                best.extend(_of_thread(trace, rows[thread], when, name, windows))
        best.sort(key=lambda c: -c.time_ns)
        if best:
            found[name] = tuple(best[:MAX_CULPRITS])
    return found


def _of_thread(
    trace: Trace, rows: HostRows, when: Intervals, cause: str, windows: Intervals
) -> list[Culprit]:
    total = when.total_ns
    if cause in _BY_ROW:
        # With stacks, the functions that the loader (or the checkpoint) calls say more than its own name.
        mask = (rows.cause == RANK[cause]) | ((rows.kind == Kind.PYTHON) & ~rows.is_transparent)
        if cause in ("host_sync", "copy_wait"):
            # Charged run-ahead lies after the call: name every such call that ran since the previous gap.
            return _calls(trace, rows, rows.cause == RANK[cause], total, windows)
    elif cause == "launch":
        mask = (rows.kind == Kind.OP) | (rows.kind == Kind.CALL)
    else:
        mask = ((rows.kind == Kind.PYTHON) | (rows.kind == Kind.ANNOTATION)) & ~rows.is_transparent
    return _names(
        trace,
        rows,
        mask,
        when,
        total,
        windows,
        is_outermost=cause == "launch",
    )


def _calls(
    trace: Trace, rows: HostRows, mask: npt.NDArray[np.bool_], total: int, windows: Intervals
) -> list[Culprit]:
    """Blocking calls by name with the idle time charged to them in proportion to their own."""
    at = np.flatnonzero(mask)
    inside = overlap_ns(rows.start_ns[at], rows.end_ns[at], windows)
    blocked = int(inside.sum())
    result = []
    for _, mine in groups(rows.name_id[at]):
        share = int(inside[mine].sum()) / blocked if blocked else 0.0
        if share < MIN_SHARE:
            continue
        longest = at[mine[int(np.argmax(inside[mine]))]]
        result.append(
            Culprit(
                name=_with_caller(trace, rows, int(longest)),
                time_ns=int(total * share),
                span=int(trace.spans.index[rows.row[longest]]),
                start_ns=int(rows.start_ns[longest]),
                end_ns=int(rows.end_ns[longest]),
            )
        )
    return result


def _with_caller(trace: Trace, rows: HostRows, at: int) -> str:
    """A call with the innermost op or Python function around it: `cudaStreamSynchronize in aten::item`."""
    call = trace.names[rows.name_id[at]]
    start = rows.start_ns[at]
    low = max(0, at - 256)
    around = np.flatnonzero(
        (rows.end_ns[low:at] > start) & np.isin(rows.kind[low:at], [Kind.OP, Kind.PYTHON])
    )
    return f"{call} in {trace.names[rows.name_id[low + around[-1]]]}" if len(around) else call


def _names(
    trace: Trace,
    rows: HostRows,
    mask: npt.NDArray[np.bool_],
    when: Intervals,
    total: int,
    windows: Intervals,
    *,
    is_outermost: bool,
) -> list[Culprit]:
    at = np.flatnonzero(mask)
    covered = overlap_ns(rows.start_ns[at], rows.end_ns[at], when)
    # A row cannot matter alone, nor in sum with its name, if all rows of the name together stay below the
    # floor.
    name_id, hit = rows.name_id[at], np.flatnonzero(covered)
    by_name = np.bincount(name_id[hit], weights=covered[hit], minlength=len(trace.names))
    keep = (by_name >= MIN_SHARE * total)[name_id]
    at, covered, name_id = at[keep], covered[keep], name_id[keep]
    entries: list[tuple[int, int, int, Intervals]] = []
    span = windows.total_ns
    for name, mine in groups(name_id):
        open_ = union(rows.start_ns[at[mine]], rows.end_ns[at[mine]], is_sorted=True)
        inside = intersect(open_, when)
        time = inside.total_ns
        if time < MIN_SHARE * total:
            continue
        outside_share = (intersect(open_, windows).total_ns - time) / max(span - total, 1)
        if outside_share >= ROOT_SHARE and span - total > 0.02 * span:
            continue
        entries.append((name, time, int(at[mine[int(np.argmax(covered[mine]))]]), inside))

    if len(entries) > MOST_NESTED:
        entries = sorted(entries, key=lambda entry: entry[2])[-MOST_NESTED:]

    def lies_in(inner: int, outer: int) -> bool:
        return bool(
            inner > outer
            and rows.start_ns[inner] >= rows.start_ns[outer]
            and rows.end_ns[inner] <= rows.end_ns[outer]
        )

    def is_library(name_id: int) -> bool:
        return _LIBRARY.search(trace.names[name_id]) is not None

    result = []
    for name, time, longest, inside in entries:
        others = [(other, covered_ns, row) for other, covered_ns, row, _ in entries if other != name]
        if is_outermost:
            # An op and the ops it is made of are one thing to a reader: its own name is the one in the
            # model's code.
            if any(lies_in(longest, row) for _, _, row in others):
                continue
        elif any(
            covered_ns >= WRAPPER_SHARE * time
            and lies_in(row, longest)
            and (is_library(name) or not is_library(other))
            for other, covered_ns, row in others
        ):
            continue
        biggest = int(np.argmax(inside.end - inside.start))
        result.append(
            Culprit(
                name=trace.names[name],
                time_ns=time,
                span=int(trace.spans.index[rows.row[longest]]),
                start_ns=int(inside.start[biggest]),
                end_ns=int(inside.end[biggest]),
            )
        )
    return result


def activity_culprits(
    trace: Trace, row: npt.NDArray[np.int32], start_ns: I64, end_ns: I64, exposed: Intervals
) -> tuple[Culprit, ...]:
    """Device activities by name, by how much of their time nothing hides."""
    if not len(row) or not len(exposed):
        return ()
    time = overlap_ns(start_ns, end_ns, exposed)
    result = []
    for name, mine in groups(trace.spans.name_id[row]):
        if not time[mine].any():
            continue
        longest = mine[int(np.argmax(time[mine]))]
        result.append(
            Culprit(
                name=trace.names[name],
                time_ns=int(time[mine].sum()),
                span=int(trace.spans.index[row[longest]]),
                start_ns=int(start_ns[longest]),
                end_ns=int(end_ns[longest]),
            )
        )
    result.sort(key=lambda c: -c.time_ns)
    return tuple(result[:MAX_CULPRITS])
