"""A Perfetto file in the making: the events of each trace, then what the report says of them."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from stepscope.model.analysis import IdleSpans
from stepscope.model.report import IDLE_CAUSES, Report, TelemetryClock
from stepscope.model.sample import Telemetry
from stepscope.model.text import Lang
from stepscope.model.trace import Trace
from stepscope.trace.link import Activities
from stepscope.views.perfetto.events import Events, Flows, memory_counters
from stepscope.views.perfetto.group import MAX_ID, Group, Pids, groups_of, track_name
from stepscope.views.perfetto.lane import placed
from stepscope.views.perfetto.note import NAMES, note_texts
from stepscope.views.perfetto.packet import CATEGORIES, EVENTS, INSTANT, NOTES, STRINGS, Packets
from stepscope.views.perfetto.telemetry import AROUND_NS, owner_tracks
from stepscope.views.perfetto.verdict import (
    TITLES,
    Extent,
    Mark,
    card_marks,
    event_marks,
    finding_marks,
    step_marks,
)

EXTREME = 1 << 62
"""No time and no duration of an event is as large: 146 years."""
_COUNTERS, _THEIRS = 500_000, 1_000_000
"""Where groups of telemetry and recorded processes begin in the order: what we found stands above them."""


@dataclass(frozen=True, slots=True)
class Written:
    """What went into the file. `slices` are complete events, `marks` slices of our own tracks.

    `left_out` events have a time far from all others, which the health report calls bad; `shortened` ones a
    negative duration: they are slices without length that say what was written. `samples` of telemetry are
    values of counters; `outside` are samples and events of logs that are not in the file, for they lie long
    before or after the traces.
    """

    slices: int = 0
    instants: int = 0
    counters: int = 0
    flows: int = 0
    marks: int = 0
    left_out: int = 0
    shortened: int = 0
    samples: int = 0
    outside: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class PerfettoFile:
    """One file of any number of traces. Each trace is a sequence of its own, with its own tracks."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._uuids = itertools.count(1)
        self._sequences = itertools.count(1)
        self._places = itertools.count(_THEIRS)
        self._pids = Pids()
        self._groups: dict[str, int] = {}
        self._has_clock = False
        self._extent: Extent | None = None
        self.written = Written()

    def add_trace(
        self, trace: Trace, activities: Activities, is_far: npt.NDArray[np.bool_], owner: str
    ) -> Extent | None:
        """Every event of one trace; its first and last time, `None` where it has none.

        `activities` link device work with its launches; `is_far` are core rows to leave out for their time;
        `owner` stands in front of the names of processes (`rank 3`), where it is not empty.
        """
        number = next(self._sequences)
        packets = Packets(self._sink, number)
        spans, instants = trace.spans, trace.instants
        is_kept = ~is_far & (spans.ts_ns >= 0) & (spans.ts_ns < EXTREME) & (spans.dur_ns < EXTREME)
        extent = _extent(trace, is_kept)
        self._extent = _joined(self._extent, extent)
        if extent is not None and trace.anchor != "none" and not self._has_clock:
            packets.clock(extent[0])
            self._has_clock = True
        packets.intern(EVENTS, enumerate(trace.names, 1))
        packets.intern(CATEGORIES, enumerate(trace.cats, 1))
        packets.intern(NOTES, enumerate(NAMES, 1))
        packets.intern(STRINGS, ((i + 1, trace.texts[i]) for i in note_texts(trace)))

        flows = Flows.of(trace, activities, is_kept)
        events = Events(trace, is_kept, flows, packets, number)
        is_shown = (instants.ts_ns >= 0) & (instants.ts_ns < EXTREME)
        marked = np.flatnonzero(is_shown)
        devices = frozenset(np.unique(spans.track_id[activities.row]).tolist())
        processes: dict[int | str, int] = {}
        for group in groups_of(trace.tracks, devices, owner):
            pid = self._pids.of(group)
            process = next(self._uuids)
            processes[trace.tracks[group.tracks[0]].pid] = process
            packets.process(process, pid, group.name, next(self._places))
            for place, track in enumerate(group.tracks):
                mine = marked[instants.track_id[marked] == track]
                self._add_track(events, packets, group, (pid, process), track, 100 * place, mine)
        counted = self._add_memory(trace, processes, packets)
        packets.flush()
        kept = int(is_kept.sum())
        self.written += Written(
            slices=kept,
            instants=len(marked),
            counters=counted,
            flows=len(flows.target),
            left_out=len(is_kept) - kept + len(is_shown) - len(marked),
            shortened=int((is_kept & (spans.dur_ns < 0)).sum()),
        )
        return extent

    def add_idle(self, idle: Sequence[IdleSpans], owner: str, lang: Lang) -> None:
        """Why each device of one trace idled: a slice a cause, which never overlap."""
        for spans in idle:
            packets = Packets(self._sink, next(self._sequences))
            packets.intern(EVENTS, enumerate(IDLE_CAUSES, 1))
            packets.intern(CATEGORIES, [(1, "stepscope.idle")])
            group = self._group(packets, owner)
            packets.track(uuid := next(self._uuids), group, f"{TITLES['idle'].in_(lang)}, {spans.device}")
            rows = zip(spans.start_ns.tolist(), spans.end_ns.tolist(), spans.cause.tolist(), strict=True)
            for start, end, cause in rows:
                packets.begin(uuid, start, cause + 1, 1)
                packets.end(uuid, end)
            packets.flush()
            self.written += Written(marks=len(spans.cause))

    def add_telemetry(
        self,
        telemetry: Sequence[Telemetry],
        lags: Mapping[str, TelemetryClock],
        lang: Lang,
        ranks: Mapping[str, int] | None = None,
    ) -> None:
        """Signals of devices, hosts and processes, behind the traces that they go with (`owner_tracks`)."""
        owners, outside = owner_tracks(telemetry, lags, self._extent, lang, ranks)
        count = samples = 0
        for owner in owners:
            packets = Packets(self._sink, next(self._sequences))
            group = next(self._uuids)
            if not self._has_clock:
                first = [int(each.at_ns[0]) for each in owner.counters]
                packets.clock(min([*first, *(each.marks[0].start_ns for each in owner.slices if each.marks)]))
                self._has_clock = True
            # By name our groups stand together, whatever a viewer makes of ranks of outermost groups.
            title = f"stepscope, {owner.title}"
            packets.track(group, None, title, _COUNTERS + group, is_ordered=True)
            for place, counter in enumerate(owner.counters):
                uuid = next(self._uuids)
                packets.counter(uuid, group, counter.name, None if counter.is_bytes else counter.unit, place)
                for at_ns, value in zip(counter.at_ns.tolist(), counter.value.tolist(), strict=True):
                    packets.count(uuid, at_ns, value)
                count += len(counter.at_ns)
                samples += int((~np.isnan(counter.value)).sum())
            for place, track in enumerate(owner.slices, len(owner.counters)):
                self._add_marks(packets, group, track.name, track.marks, place)
            packets.flush()
        self.written += Written(counters=count, samples=samples, outside=outside)

    def add_report(
        self, report: Report, owners: Sequence[str | None], extents: Sequence[Extent | None], lang: Lang
    ) -> None:
        """Steps, findings and cards. `owners` and `extents` go with `report.inputs`, as `add_trace` was
        given and gave them; `None` for an input that is not in the file."""
        packets = Packets(self._sink, next(self._sequences))
        group = self._group(packets, "")
        cards, findings, steps = (TITLES[key].in_(lang) for key in ("cards", "findings", "steps"))
        tracks = [(cards, card_marks(report, extents)), (findings, finding_marks(report, extents, lang))]
        for i, owner in enumerate(owners):
            if owner is not None:
                tracks.append((f"{owner}: {steps}" if owner else steps, step_marks(report, i)))
        for place, (title, marks) in enumerate(tracks):
            self._add_marks(packets, group, title, marks, 100 * place)
        self._add_events(packets, group, event_marks(report, lang), lang)
        packets.flush()

    def _add_events(self, packets: Packets, group: int, marks: Sequence[Mark], lang: Lang) -> None:
        """Instants on a track of their own, but for those far from the traces."""
        low, high = 0, EXTREME
        if self._extent is not None:
            around = max(AROUND_NS, self._extent[1] - self._extent[0])
            low, high = max(0, self._extent[0] - around), self._extent[1] + around
        shown = sorted(
            (mark for mark in marks if low <= mark.start_ns < high), key=lambda mark: mark.start_ns
        )
        self.written += Written(marks=len(shown), outside=len(marks) - len(shown))
        if not shown:
            return
        packets.track(uuid := next(self._uuids), group, TITLES["events"].in_(lang), 50)
        for mark in shown:
            packets.begin(
                uuid,
                mark.start_ns,
                packets.id_of(EVENTS, mark.name),
                packets.id_of(CATEGORIES, mark.category),
                [(packets.id_of(NOTES, key), value, False) for key, value in mark.notes],
                kind=INSTANT,
            )

    def _group(self, packets: Packets, owner: str) -> int:
        """The group of our tracks about one trace, or about all."""
        if owner not in self._groups:
            self._groups[owner] = next(self._uuids)
            title = f"stepscope, {owner}" if owner else "stepscope"
            packets.track(self._groups[owner], None, title, len(self._groups))
        return self._groups[owner]

    def _add_track(
        self,
        events: Events,
        packets: Packets,
        group: Group,
        ids: tuple[int, int],
        track: int,
        place: int,
        instants: npt.NDArray[np.intp],
    ) -> None:
        """One recorded track, on as many tracks as it takes for every slice to have its place."""
        pid, process = ids
        recorded = events.trace.tracks[track]
        name = track_name(recorded, group.is_device)
        rows = events.rows_of(track)
        lanes = events.lanes_of(rows)
        if not lanes and len(instants):
            lanes = [array("q")]
        for i, lane in enumerate(lanes):
            uuid = next(self._uuids)
            if i == 0 and isinstance(recorded.tid, int) and 0 < recorded.tid <= MAX_ID:
                packets.thread(uuid, process, pid, recorded.tid, name, place)
            else:
                packets.track(uuid, process, f"{name} ({i + 1})" if i else name, place + min(i, 99))
            events.write(uuid, rows, lane)
            if i == 0:
                events.write_instants(uuid, instants)

    def _add_memory(self, trace: Trace, processes: dict[int | str, int], packets: Packets) -> int:
        uuids: dict[tuple[int, str], int] = {}
        count = 0
        for track, name, times, values in memory_counters(trace):
            process = processes[trace.tracks[track].pid]
            if (process, name) not in uuids:
                uuids[process, name] = next(self._uuids)
                packets.counter(uuids[process, name], process, name)
            for at_ns, value in zip(times.tolist(), values.tolist(), strict=True):
                packets.count(uuids[process, name], at_ns, value)
            count += len(times)
        return count

    def _add_marks(self, packets: Packets, group: int, title: str, marks: Sequence[Mark], place: int) -> None:
        start = np.array([mark.start_ns for mark in marks], dtype=np.int64)
        end = np.array([mark.end_ns for mark in marks], dtype=np.int64)
        for i, lane in enumerate(placed(start, end)):
            packets.track(uuid := next(self._uuids), group, f"{title} ({i + 1})" if i else title, place + i)
            for at in lane:
                if at < 0:
                    packets.end(uuid, marks[~at].end_ns)
                    continue
                mark = marks[at]
                packets.begin(
                    uuid,
                    mark.start_ns,
                    packets.id_of(EVENTS, mark.name),
                    packets.id_of(CATEGORIES, mark.category),
                    [(packets.id_of(NOTES, key), value, False) for key, value in mark.notes],
                )
        self.written += Written(marks=len(marks))


def _extent(trace: Trace, is_kept: npt.NDArray[np.bool_]) -> Extent | None:
    start = trace.spans.ts_ns[is_kept]
    if not len(start):
        return None
    return int(start.min()), int((start + np.maximum(trace.spans.dur_ns[is_kept], 0)).max())


def _joined(one: Extent | None, other: Extent | None) -> Extent | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])
