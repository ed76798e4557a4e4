"""What the marks say of the steps that a trace is of: phases that a profiler cannot know.

They are read back from the process's own ring when the trace is written, so that marking itself costs no more
while the profiler runs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from stepscope_sdk import ring_abi as abi

TOLD = {
    "data": "data_wait",
    "checkpoint": "checkpoint",
    "eval": "eval",
    "logging": "logging",
    "gc": "garbage_collection",
}
"""Phases -> names of the annotations by which an analysis knows them. Passes and optimizer the profiler sees
itself."""
MOST = 10_000


class Stretch(NamedTuple):
    """One phase in Unix nanoseconds, under the name of its annotation."""

    name: str
    start_ns: int
    end_ns: int


class Marked(NamedTuple):
    """The phases of a stretch of time, cut to it, and whether its steps were found by the optimizer."""

    phases: list[Stretch]
    is_tiled: bool = False


def marked(path: str, begin_ns: int, end_ns: int) -> Marked:
    """What the ring at `path` holds of this time; nothing where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _of(file.read(), begin_ns, end_ns)
    except (OSError, struct.error):
        return Marked([])


def _of(ring: bytes, begin_ns: int, end_ns: int) -> Marked:
    phase_end, step_begin = abi.kind_number("phase_end"), abi.kind_number("step_begin")
    names = _names(ring)
    found: list[Stretch] = []
    is_tiled = False
    for kind, flags, real_ns, a, b, c in _records(ring):
        if kind == step_begin and begin_ns <= real_ns <= end_ns:
            is_tiled = is_tiled or bool(flags & abi.FLAGS["tiled"])
        if kind != phase_end or c != c or flags & abi.FLAGS["aside"] or not 0 <= a < len(abi.PHASES):
            continue
        start, end = max(real_ns + int(c), begin_ns), min(real_ns, end_ns)
        name = TOLD.get(abi.PHASES[a])
        if abi.PHASES[a] == "other" and 0 <= b < len(names):
            name = names[int(b)]
        if name is not None and end > start:
            found.append(Stretch(name, start, end))
    return Marked(sorted(found, key=lambda each: (each.start_ns, -each.end_ns))[:MOST], is_tiled)


def _records(ring: bytes) -> Iterator[tuple[int, int, int, int, float, float]]:
    """Kind, flags, wall time, a, b, c of every whole record, in no order."""
    for at in range(abi.HEADER_BYTES, len(ring) - abi.RECORD_BYTES + 1, abi.RECORD_BYTES):
        seq, kind, flags, _, _, _, real_ns, a, b, c = struct.unpack_from("<QHHIqqqqdd", ring, at)
        if seq and not seq & 1:  # odd: being written
            yield kind, flags, real_ns, a, b, c


def _names(ring: bytes) -> list[str]:
    (num,) = struct.unpack_from("<Q", ring, abi.place(abi.HEADER, "num_names").offset)
    first = abi.place(abi.HEADER, "names").offset
    rows = [
        ring[first + n * abi.NAME_BYTES : first + (n + 1) * abi.NAME_BYTES]
        for n in range(min(num, abi.MAX_NAMES))
    ]
    return [row.split(b"\0")[0].decode("utf-8", "replace") for row in rows]
