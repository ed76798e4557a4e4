"""Packets of Perfetto's trace format, written in batches as they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

_BATCH = 4096
_CLEARED = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
_NEEDED = pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
BEGIN = pb.TrackEvent.TYPE_SLICE_BEGIN
END = pb.TrackEvent.TYPE_SLICE_END
INSTANT = pb.TrackEvent.TYPE_INSTANT
COUNTER = pb.TrackEvent.TYPE_COUNTER
REALTIME, BOOTTIME = 1, 6
BYTES = pb.CounterDescriptor.UNIT_SIZE_BYTES
EVENTS, CATEGORIES = "event_names", "event_categories"
NOTES, STRINGS = "debug_annotation_names", "debug_annotation_string_values"
"""Kinds of interned strings."""

Note = tuple[int, int | str, bool]
"""One argument of a slice: the interned id of its name, a number, a text or the id of an interned text, and
whether it is such an id."""


class Packets:
    """One writer in the file: its tracks, its interned strings and its events.

    Ids of interned strings are the caller's, from 1, and of this sequence alone; ids of tracks are of the
    whole file.
    """

    def __init__(self, sink: BinaryIO, number: int) -> None:
        self._sink = sink
        self._number = number
        self._batch = pb.Trace()
        self._is_new = True
        self._ids: dict[tuple[str, str], int] = {}

    def _packet(self) -> Any:
        if len(self._batch.packet) >= _BATCH:
            self.flush()
        packet = self._batch.packet.add()
        packet.trusted_packet_sequence_id = self._number
        packet.sequence_flags = _CLEARED if self._is_new else _NEEDED
        self._is_new = False
        return packet

    def flush(self) -> None:
        """Write what is still held."""
        self._sink.write(self._batch.SerializeToString())
        self._batch = pb.Trace()

    def clock(self, at_ns: int) -> None:
        """Say that the file's time is wall time."""
        snapshot = self._packet().clock_snapshot
        for clock in (BOOTTIME, REALTIME):
            snapshot.clocks.add(clock_id=clock, timestamp=at_ns)

    def process(self, uuid: int, pid: int, name: str, rank: int) -> None:
        """A group of tracks, shown in the order of `rank`."""
        track = self._packet().track_descriptor
        track.uuid = uuid
        track.process.pid = pid
        track.process.process_name = name
        track.sibling_order_rank = rank

    def thread(self, uuid: int, process: int, pid: int, tid: int, name: str, rank: int) -> None:
        """A track that is a thread (or a stream) of a process."""
        track = self._packet().track_descriptor
        track.uuid = uuid
        track.parent_uuid = process
        track.thread.pid = pid
        track.thread.tid = tid
        track.thread.thread_name = name
        track.sibling_order_rank = rank

    def track(
        self, uuid: int, parent: int | None, name: str, rank: int = 0, *, is_ordered: bool = False
    ) -> None:
        """A named track, which is never joined with another of the same name. `is_ordered`: the tracks in it
        are shown in the order of their ranks, else by name."""
        track = self._packet().track_descriptor
        track.uuid = uuid
        if parent is not None:
            track.parent_uuid = parent
        track.name = name
        track.sibling_order_rank = rank
        track.sibling_merge_behavior = pb.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
        if is_ordered:
            track.child_ordering = pb.TrackDescriptor.EXPLICIT

    def counter(self, uuid: int, parent: int, name: str, unit: str | None = None, rank: int = 0) -> None:
        """A track of a number over time: of bytes, or of a `unit`, which may be empty."""
        track = self._packet().track_descriptor
        track.uuid = uuid
        track.parent_uuid = parent
        track.name = name
        track.sibling_order_rank = rank
        if unit is None:
            track.counter.unit = BYTES
        else:
            track.counter.unit_name = unit

    def intern(self, kind: str, strings: Iterable[tuple[int, str]]) -> None:
        """Give ids to strings of one kind (`EVENTS`, `CATEGORIES`, `NOTES`, `STRINGS`)."""
        is_bytes = kind == STRINGS
        packet = None
        for count, (number, text) in enumerate(strings):
            if packet is None or count % 1000 == 0:
                packet = self._packet()
            entry = getattr(packet.interned_data, kind).add()
            entry.iid = number
            if is_bytes:
                entry.str = text.encode("utf-8", "replace")
            else:
                entry.name = _sound(text)

    def id_of(self, kind: str, text: str) -> int:
        """The id of a string, which is written where it is new. Not for kinds that the caller numbers."""
        key = kind, text
        if key not in self._ids:
            self._ids[key] = len(self._ids) + 1
            self.intern(kind, [(self._ids[key], text)])
        return self._ids[key]

    def begin(
        self,
        track: int,
        at_ns: int,
        name: int,
        category: int,
        notes: Sequence[Note] = (),
        flows_out: Sequence[int] = (),
        flow_in: int = 0,
        kind: int = BEGIN,
    ) -> None:
        """A slice begins, or an instant."""
        packet = self._packet()
        packet.timestamp = at_ns
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        event.name_iid = name
        event.category_iids.append(category)
        for note_name, value, is_interned in notes:
            note = event.debug_annotations.add()
            note.name_iid = note_name
            if is_interned:
                note.string_value_iid = value
            elif isinstance(value, str):
                note.string_value = _sound(value)
            else:
                note.int_value = value
        if flows_out:
            event.flow_ids.extend(flows_out)
        if flow_in:
            event.terminating_flow_ids.append(flow_in)

    def end(self, track: int, at_ns: int) -> None:
        """The innermost open slice ends."""
        packet = self._packet()
        packet.timestamp = at_ns
        packet.track_event.type = END
        packet.track_event.track_uuid = track

    def count(self, track: int, at_ns: int, value: int | float) -> None:
        """A counter's value from here on; NaN where there is none."""
        packet = self._packet()
        packet.timestamp = at_ns
        packet.track_event.type = COUNTER
        packet.track_event.track_uuid = track
        if isinstance(value, int):
            packet.track_event.counter_value = value
        else:
            packet.track_event.double_counter_value = value


def _sound(text: str) -> str:
    """A string that UTF-8 can carry: lone surrogates of a damaged file cannot be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
