"""Collectives of one rank: kind, bytes, group, and the bus bandwidth their durations imply.

From one rank a long collective may be a slow link or a wait for a late peer: the bandwidth is a lower
bound, and far below the link it only says that the two cannot be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model import report
from stepscope.model.trace import ABSENT_I64, I32, I64, Trace
from stepscope.trace.link import COMMUNICATION, Activities

ELEMENT_BYTES = {
    name: width
    for width, names in {
        1: "char, signed char, byte, unsigned char, bool, uint8, int8, float8_e4m3fn, float8_e5m2",
        2: "half, float16, bfloat16, short, int16",
        4: "float, float32, int, int32",
        8: "double, float64, long, long int, int64, complexfloat",
    }.items()
    for name in names.split(", ")
}
"""Bytes an element, by the profiler's dtype words in lower case without a namespace."""

# Bytes over the wire per byte of message, n ranks: the usual bus-bandwidth factors (nccl-tests
# PERFORMANCE.md).
SYNCHRONISING: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}
_KINDS = (
    ("all_reduce", re.compile(r"all_?reduce", re.I)),
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.I)),
    ("all_gather", re.compile(r"all_?gather", re.I)),
    ("all_to_all", re.compile(r"all_?to_?all|alltoall", re.I)),
    ("broadcast", re.compile(r"broadcast", re.I)),
    ("reduce", re.compile(r"reduce", re.I)),
    ("send", re.compile(r"^send$|nccl:send", re.I)),
    ("recv", re.compile(r"^recv$|nccl:recv", re.I)),
    ("scatter", re.compile(r"scatter", re.I)),
    ("gather", re.compile(r"gather", re.I)),
    ("send_recv", re.compile(r"send_?recv|p2p|memcpy", re.I)),
    ("barrier", re.compile(r"barrier", re.I)),
)
_ISSUING = re.compile(r"^(nccl|rccl|hccl|xccl|gloo|mpi|ucc|c10d)::?", re.I)
"""Host rows that name the collective which they issue."""
_UNTOLD = ("send_recv", "other")
"""Kinds of kernels that carry any collective: the op that issued them says which.

An all-to-all runs as sends and receives in one kernel (NCCL's own documentation of grouped
point-to-point)."""
MIN_MESSAGE_BYTES = 1_000_000
"""Below a megabyte latency, not bandwidth, sets the time: no plausibility is judged."""


MAX_LINK_SHARE = 1.1
"""More than the link carries is a wrong size, group or duration, not a fast link."""


def collective_kind(name: str) -> str:
    """The kind a recorded collective name or a kernel name speaks of; `other` where it does not say."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def element_bytes(dtype: str) -> int | None:
    """Bytes of one element, `None` for an unknown dtype."""
    return ELEMENT_BYTES.get(dtype.lower().rsplit("::", 1)[-1].rsplit(".", 1)[-1])


@dataclass(frozen=True, slots=True)
class Collectives:
    """Communication activities of one device with what was recorded of each: arrays of one length.

    `record` is each one's position in `Trace.comms`, -1 where nothing was recorded. `bytes` is the message
    (the larger of what goes in and out), `group_size` the ranks; both 0 where not recorded. `rate` is the
    bus bandwidth in bytes per second, NaN where it cannot be told or where the link does not carry as much;
    `impossible` are the rates left out for that.
    """

    at: I64
    record: I64
    kind: tuple[str, ...]
    group: tuple[str | None, ...]
    bytes: I64
    group_size: I64
    start_ns: I64
    end_ns: I64
    rate: npt.NDArray[np.float64]
    impossible: tuple[float, ...]

    @property
    def duration_ns(self) -> I64:
        """Length of each."""
        return self.end_ns - self.start_ns

    @property
    def span(self) -> tuple[I64, I64]:
        """Start and end of each."""
        return self.start_ns, self.end_ns


def collectives_of(
    trace: Trace, activities: Activities, world_size: int | None, link_bytes_per_second: float | None
) -> Collectives:
    """Read kind, bytes and group from the kernel's own record, else from the op with its external id,
    else its name. The link is one direction of the device's, `None` where it is not known."""
    at = np.flatnonzero(activities.part == COMMUNICATION)
    comms, row = trace.comms, activities.row[at]
    own = _position(comms.row, row)
    # The op that issued it carries the same external id as the kernel.
    external = _external(trace, row)
    of_comm = _external(trace, comms.row)
    order = np.argsort(of_comm, kind="stable")
    issued = order[_position(of_comm[order], external)] if len(order) else np.full(len(at), -1)
    is_issued = (external != ABSENT_I64) & (_position(of_comm[order], external) >= 0)
    has_own = (own >= 0) & (comms.collective_id[own] >= 0) if len(comms.row) else np.zeros(len(at), bool)
    record = np.where(has_own, own, np.where(is_issued, issued, own))
    kinds, groups, sizes, bytes_ = [], [], [], []
    issuing = _issuing(trace, activities.launch_row[at])
    for i, name_id, op in zip(
        record.tolist(), trace.spans.name_id[row].tolist(), issuing.tolist(), strict=True
    ):
        kind, group, size, count = collective_kind(trace.names[name_id]), None, 0, 0
        if kind in _UNTOLD and op >= 0:
            kind = collective_kind(trace.names[op])
        if i >= 0:
            if comms.collective_id[i] >= 0:
                kind = collective_kind(trace.texts[comms.collective_id[i]])
            group = trace.texts[comms.group_id[i]] if comms.group_id[i] >= 0 else None
            size = max(int(comms.group_size[i]), 0)
            width = element_bytes(trace.texts[comms.dtype_id[i]]) if comms.dtype_id[i] >= 0 else None
            nelems = max(int(comms.in_nelems[i]), int(comms.out_nelems[i]))
            count = nelems * width if width is not None and nelems > 0 else 0
        kinds.append(kind)
        groups.append(group)
        sizes.append(size if size else (world_size or 0))
        bytes_.append(count)
    start, end = activities.start_ns[at], activities.end_ns[at]
    told = zip(kinds, bytes_, sizes, (end - start).tolist(), strict=True)
    rate = np.array([bus_bandwidth(*each) or np.nan for each in told], dtype=np.float64)
    # Every comparison with NaN is false.
    is_over = rate > MAX_LINK_SHARE * (link_bytes_per_second or np.inf)
    return Collectives(
        at=at.astype(np.int64),
        record=record.astype(np.int64),
        kind=tuple(kinds),
        group=tuple(groups),
        bytes=np.array(bytes_, dtype=np.int64),
        group_size=np.array(sizes, dtype=np.int64),
        start_ns=start,
        end_ns=end,
        rate=np.where(is_over, np.nan, rate),
        impossible=tuple(rate[is_over].tolist()),
    )


def _issuing(trace: Trace, launch_row: I32) -> I32:
    """The name of the innermost host row that names a collective and was open at each launch, -1 for none."""
    spans = trace.spans
    found = np.full(len(launch_row), -1, dtype=np.int32)
    named = np.array([_ISSUING.match(name) is not None for name in trace.names] or [False])
    row = np.flatnonzero(named[spans.name_id]) if named.any() else np.empty(0, dtype=np.intp)
    has = np.flatnonzero(launch_row >= 0)
    if not len(row) or not len(has):
        return found
    row = row[np.lexsort((spans.ts_ns[row], spans.track_id[row]))]
    for track in np.unique(spans.track_id[launch_row[has]]).tolist():
        mine = row[spans.track_id[row] == track]
        of = has[spans.track_id[launch_row[has]] == track]
        if not len(mine):
            continue
        called = spans.ts_ns[launch_row[of]]
        last = np.searchsorted(spans.ts_ns[mine], called, side="right") - 1
        # The one that began last is innermost; where it is over, one around it may be open still.
        for back in range(3):
            at = np.maximum(last - back, 0)
            is_open = (last - back >= 0) & (spans.ts_ns[mine[at]] + spans.dur_ns[mine[at]] >= called)
            fresh = is_open & (found[of] < 0)
            found[of[fresh]] = spans.name_id[mine[at[fresh]]]
    return found


def _position(sorted_: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer]) -> I64:
    """Where each wanted number is in a sorted column, -1 where it is not."""
    if not len(sorted_):
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(sorted_, wanted), len(sorted_) - 1)
    return np.where(sorted_[at] == wanted, at, -1)


def _external(trace: Trace, row: I32) -> I64:
    """The external id of each row, ABSENT_I64 where none was recorded."""
    at = _position(trace.ops.row, row)
    found = np.full(len(row), ABSENT_I64, dtype=np.int64)
    found[at >= 0] = trace.ops.external_id[at[at >= 0]]
    return found


def bus_bandwidth(kind: str, bytes_: int, group_size: int, duration_ns: int) -> float | None:
    """Bus bandwidth in bytes per second; `None` where kind, size or duration do not allow one."""
    factor = SYNCHRONISING.get(kind)
    if factor is None or bytes_ <= 0 or group_size < 2 or duration_ns <= 0:
        return None
    return factor(group_size) * bytes_ / (duration_ns / 1e9)


def rows(
    found: Collectives, rank: int | None, link_bytes_per_second: float | None
) -> tuple[report.Collective, ...]:
    """The report's rows: one for each (kind, group, message size), by total time. Median bus bandwidth."""
    groups: dict[tuple[str, str | None, int], list[int]] = {}
    for i, key in enumerate(zip(found.kind, found.group, found.bytes.tolist(), strict=True)):
        groups.setdefault(key, []).append(i)
    result = []
    for (kind, group, bytes_), members in groups.items():
        known = found.rate[members][~np.isnan(found.rate[members])]
        rate = float(np.median(known)) if len(known) else None
        row = report.Collective(
            kind=kind,
            count=len(members),
            group=group,
            bytes=bytes_ or None,
            bus_bytes_per_second=rate,
            link_share=rate / link_bytes_per_second if rate is not None and link_bytes_per_second else None,
        )
        result.append((int(found.duration_ns[members].sum()), row))
    result.sort(key=lambda pair: -pair[0])
    return tuple(row for _, row in result)


def plausibility(
    found: Collectives, exposed_ns: I64, link_bytes_per_second: float | None
) -> dict[str, float]:
    """Bandwidth of exposed, large, synchronising collectives, weighted by exposed time.

    Numbers `bus_bytes_per_second`, `collective_bytes`, `collective_group_size` and, where the link is known,
    `bus_bandwidth_link_share`. Empty where no such collective has recorded bytes.
    """
    at = np.flatnonzero((found.bytes >= MIN_MESSAGE_BYTES) & (exposed_ns > 0) & ~np.isnan(found.rate))
    if not len(at):
        return {}
    weight = exposed_ns[at].astype(float)
    longest = at[int(np.argmax(weight))]
    numbers = {
        "bus_bytes_per_second": float(np.average(found.rate[at], weights=weight)),
        "collective_bytes": float(found.bytes[longest]),
        "collective_group_size": float(found.group_size[longest]),
    }
    if link_bytes_per_second:
        numbers["bus_bandwidth_link_share"] = numbers["bus_bytes_per_second"] / link_bytes_per_second
    return numbers
