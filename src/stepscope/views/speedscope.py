"""Traces for the speedscope viewer: each host thread and each device stream as an evented profile.

Times are nanoseconds from the start of the first event of all: the viewer computes in doubles, which resolve
nanoseconds since the epoch to 256. A thread whose slices overlap without nesting has several profiles.
"""

from __future__ import annotations

from array import array
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.model.trace import Trace
from stepscope.trace.link import Activities
from stepscope.version import VERSION
from stepscope.views.perfetto.file import EXTREME
from stepscope.views.perfetto.group import groups_of, track_name
from stepscope.views.perfetto.lane import placed

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_CHUNK = 50_000


class SpeedscopeFile:
    """One file in the making; memory holds one thread's slices. `close` ends it."""

    def __init__(self, sink: BinaryIO, name: str) -> None:
        self._sink = sink
        self._frames: dict[str, int] = {}
        self._num_profiles = 0
        self.num_slices = 0
        self.left_out = 0
        head = {"$schema": SCHEMA, "name": name, "exporter": f"stepscope@{VERSION}", "activeProfileIndex": 0}
        self._sink.write(msgspec.json.encode(head)[:-1] + b',"profiles":[')

    def add_trace(
        self,
        trace: Trace,
        activities: Activities,
        is_far: npt.NDArray[np.bool_],
        owner: str,
        origin_ns: int,
    ) -> None:
        """Every complete event of a trace, but those of `is_far` and those too long to be true, which are
        counted (`left_out`). The file's time begins at `origin_ns`, not after the trace's first event."""
        spans = trace.spans
        end_ns = spans.ts_ns + np.maximum(spans.dur_ns, 0)
        names = np.array([self._frame(name) for name in trace.names] or [0], dtype=np.int64)
        devices = frozenset(np.unique(spans.track_id[activities.row]).tolist())
        kept = np.flatnonzero(~is_far & (spans.ts_ns >= origin_ns) & (spans.dur_ns < EXTREME))
        self.left_out += len(is_far) - len(kept)
        kept = kept[np.argsort(spans.track_id[kept], kind="stable")]
        heads = np.searchsorted(spans.track_id[kept], np.arange(len(trace.tracks) + 1))
        for group in groups_of(trace.tracks, devices, owner):
            for track in group.tracks:
                rows = kept[heads[track] : heads[track + 1]]
                name = f"{group.name}, {track_name(trace.tracks[track], group.is_device)}"
                for i, lane in enumerate(placed(spans.ts_ns[rows], end_ns[rows])):
                    place = np.frombuffer(lane, dtype=np.int64)
                    row = rows[np.where(place >= 0, place, ~place)]
                    when = np.where(place >= 0, spans.ts_ns[row], end_ns[row]) - origin_ns
                    title = f"{name} ({i + 1})" if i else name
                    self._add(title, lane, names[spans.name_id[row]], when)
                self.num_slices += len(rows)

    def close(self) -> None:
        """Write the names, which are shared by all profiles."""
        frames = [{"name": name} for name in self._frames]
        self._sink.write(b'],"shared":{"frames":' + msgspec.json.encode(frames) + b"}}\n")

    def _frame(self, name: str) -> int:
        return self._frames.setdefault(name.encode("utf-8", "replace").decode(), len(self._frames))

    def _add(
        self, name: str, lane: array[int], frame: npt.NDArray[np.int64], when: npt.NDArray[np.int64]
    ) -> None:
        head = {
            "type": "evented",
            "name": name,
            "unit": "nanoseconds",
            "startValue": int(when[0]),
            "endValue": int(when[-1]),
        }
        comma = b"," if self._num_profiles else b""
        self._sink.write(comma + msgspec.json.encode(head)[:-1] + b',"events":[')
        for at in range(0, len(lane), _CHUNK):
            rows = zip(
                lane[at : at + _CHUNK],
                frame[at : at + _CHUNK].tolist(),
                when[at : at + _CHUNK].tolist(),
                strict=True,
            )
            text = ",".join(
                f'{{"type":"{"O" if event >= 0 else "C"}","frame":{of},"at":{time}}}'
                for event, of, time in rows
            )
            self._sink.write((b"," if at else b"") + text.encode())
        self._sink.write(b"]}")
        self._num_profiles += 1
