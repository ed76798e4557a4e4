"""The recorded events of one trace, slice by slice."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import ABSENT_I64, I32, I64, Trace
from stepscope.trace.link import Activities
from stepscope.views.perfetto.lane import placed
from stepscope.views.perfetto.note import notes_of
from stepscope.views.perfetto.packet import INSTANT, Packets

_CHUNK = 20_000
"""Slices whose arguments are made into Python objects at a time."""
_COUNTERS = (("total_allocated", "allocated"), ("total_reserved", "reserved"))


@dataclass(frozen=True, slots=True)
class Flows:
    """Arrows from launching calls to their device work: core rows, sorted by `source`.

    Only those whose launch begins before the work: the viewer draws no arrow back in time.
    """

    source: I32
    target: I32

    @staticmethod
    def of(trace: Trace, activities: Activities, is_kept: npt.NDArray[np.bool_]) -> Flows:
        """The arrows between kept rows."""
        source, target = activities.launch_row, activities.row
        spans = trace.spans
        fits = (source >= 0) & is_kept[target] & is_kept[source]
        fits &= spans.ts_ns[source] < spans.ts_ns[target]
        order = np.argsort(source[fits], kind="stable")
        return Flows(source[fits][order], target[fits][order])


class Events:
    """What is needed to write any track of one trace."""

    def __init__(
        self, trace: Trace, is_kept: npt.NDArray[np.bool_], flows: Flows, packets: Packets, number: int
    ) -> None:
        spans = trace.spans
        self.trace = trace
        self._packets = packets
        self._notes = notes_of(trace)
        self._flows = flows
        self._flow_base = number << 40  # ids are of the whole file
        self._is_target = np.zeros(len(spans.ts_ns), dtype=bool)
        self._is_target[flows.target] = True
        self._end_ns = spans.ts_ns + np.maximum(spans.dur_ns, 0)
        rows = np.flatnonzero(is_kept)
        rows = rows[np.argsort(spans.track_id[rows], kind="stable")]
        self._rows = rows
        self._heads = np.searchsorted(spans.track_id[rows], np.arange(len(trace.tracks) + 1))

    def rows_of(self, track: int) -> npt.NDArray[np.intp]:
        """Core rows of one track, in file order."""
        return self._rows[self._heads[track] : self._heads[track + 1]]

    def lanes_of(self, rows: npt.NDArray[np.intp]) -> list[array[int]]:
        """The slices of these rows on lanes (`placed`)."""
        return placed(self.trace.spans.ts_ns[rows], self._end_ns[rows])

    def write(self, uuid: int, rows: npt.NDArray[np.intp], lane: array[int]) -> None:
        """One lane's slices on the track `uuid`."""
        spans, packets = self.trace.spans, self._packets
        for at in range(0, len(lane), _CHUNK):
            place = np.frombuffer(lane, dtype=np.int64)[at : at + _CHUNK]
            is_begin = place >= 0
            row = rows[np.where(is_begin, place, ~place)]
            begun = row[is_begin]
            details = iter(
                zip(
                    (spans.name_id[begun] + 1).tolist(),
                    (spans.cat_id[begun] + 1).tolist(),
                    self._notes(begun),
                    self._flows_from(begun),
                    np.where(self._is_target[begun], self._flow_base + begun + 1, 0).tolist(),
                    strict=True,
                )
            )
            when = np.where(is_begin, spans.ts_ns[row], self._end_ns[row])
            for is_open, at_ns in zip(is_begin.tolist(), when.tolist(), strict=True):
                if is_open:
                    packets.begin(uuid, at_ns, *next(details))
                else:
                    packets.end(uuid, at_ns)

    def write_instants(self, uuid: int, rows: npt.NDArray[np.intp]) -> None:
        """Instants on the track `uuid`."""
        found = self.trace.instants
        for at_ns, name, category in zip(
            found.ts_ns[rows].tolist(),
            found.name_id[rows].tolist(),
            found.cat_id[rows].tolist(),
            strict=True,
        ):
            self._packets.begin(uuid, at_ns, name + 1, category + 1, kind=INSTANT)

    def _flows_from(self, rows: npt.NDArray[np.intp]) -> list[list[int]]:
        """Ids of the arrows that begin in each row: a graph launch has many."""
        low = np.searchsorted(self._flows.source, rows, side="left").tolist()
        high = np.searchsorted(self._flows.source, rows, side="right").tolist()
        target = self._flows.target
        return [
            (self._flow_base + target[a:b].astype(np.int64) + 1).tolist() if a < b else []
            for a, b in zip(low, high, strict=True)
        ]


def memory_counters(trace: Trace) -> list[tuple[int, str, I64, I64]]:
    """What the allocator had handed out and what it held: (track, name, times, bytes) for each device.

    Events without totals, as old profilers wrote them, are not in it.
    """
    memory = trace.memory
    if not len(memory.ts_ns):
        return []
    kinds, of = np.unique(
        np.stack([memory.track_id, memory.device_type, memory.device], axis=1), axis=0, return_inverse=True
    )
    found = []
    for i, (track, kind, device) in enumerate(kinds.tolist()):
        where = "host memory" if kind == 0 else f"memory of device {device}"
        for column, name in _COUNTERS:
            values: I64 = getattr(memory, column)
            rows = np.flatnonzero((of.reshape(-1) == i) & (values != ABSENT_I64) & (memory.ts_ns >= 0))
            if len(rows):
                found.append((track, f"{where}, {name}", memory.ts_ns[rows], values[rows]))
    return found
