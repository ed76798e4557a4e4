"""The parser without a compiler: the same columns, strings and counts as the native one.

What an event is, what is kept of a broken one and where parsing goes on is decided token by token, exactly as
`native/kineto.cpp` does. Events whose shape was learned (see `kineto_shape`) are taken apart by one regular
expression each, and their columns are made some ten thousand rows at a time.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import ABSENT_I32, ABSENT_I64, I32, I64
from stepscope.trace.kineto_shape import (
    FLOW_SLOT,
    KEY_OF,
    MAX_NESTED,
    MEMORY,
    Kind,
    Learner,
    Region,
    Role,
    Shape,
    kind_of,
)
from stepscope.trace.kineto_table import KEYS, META_SLOT, SLOTS, TABLES, Read, Type
from stepscope.trace.kineto_token import (
    SPACE,
    Malformed,
    NeedMore,
    Tokens,
    Value,
    behind_colon,
    fraction_ns,
    integer,
    nanoseconds,
    real,
    skip_space,
    triple,
)
from stepscope.trace.parsed import CORE, DTYPES, Parsed, State

Column = npt.NDArray[Any]

MAX_NESTING = 1024
FLUSH_ROWS = 8_000
MIN_FAST = 256
"""Bytes of a chunk below which no shape is tried."""
MAX_SHAPES = 256
MAX_CANDIDATES = 16
"""Shapes tried on one event before it is read token by token."""
MAX_SEEN = 3_000
"""Shapes remembered until they come again."""
MAX_REFUSED = 200
"""Regions that turned out to be none, until patterns follow their strings."""
MAX_LITERAL_CATS = 64
MAX_REGION_BYTES = 32 << 20
NEAR = 1024
"""How near a backslash makes the patterns with escapes the first choice."""
REACH = 1024
"""Room for braces, white space and a key."""
MAX_KEY = 4096
"""A longer one is a hole that begins inside a key."""

_READ_OF = {slot: read for read, slot in KEYS.values()}
for _slot, _read in list(_READ_OF.items()):
    if _read is Read.TRIPLE:
        _READ_OF.update({_slot: Read.INT, _slot + 1: Read.INT, _slot + 2: Read.INT})
_PERCENT = frozenset(slot for slot, read in _READ_OF.items() if read is Read.PERCENT)
_FLOATS = frozenset(slot for slot, read in _READ_OF.items() if read in (Read.FLOAT, Read.PERCENT))
_TEXTS = tuple(slot for slot, read in _READ_OF.items() if read in (Read.STRING, Read.RAW))
_DTYPE_OF = {
    slot: np.float64 if slot in _FLOATS else np.int32 if slot in _TEXTS else np.int64 for slot in _READ_OF
}
_ABSENT_OF = {slot: np.nan if slot in _FLOATS else -1 if slot in _TEXTS else ABSENT_I64 for slot in _READ_OF}
_ZERO = Value(0, 1, False, 0)
_MEMBERS = frozenset((b"ph", b"cat", b"name", b"pid", b"tid", b"ts", b"dur", b"id"))
_STRUCTURE = re.compile(rb"[{\]]")
# White space, but no more than a writer would leave: what is decided must not depend on where a chunk ends.
_SOME_SPACE = re.compile(rb"[ \n\r\t]{0,256}")
_MEMBER = rb'"(?:%s)"[ \n\r\t]{0,256}:'
_IN_EVENT = re.compile(
    _MEMBER % b"|".join((b"ph", b"name", b"cat", b"pid", b"tid", b"ts", b"dur", b"args", b"id", b"s", b"bp"))
)
# Members that stand around the events, never in one.
_AROUND = re.compile(
    _MEMBER
    % (
        b"schemaVersion|deviceProperties|distributedInfo|traceEvents|traceName|displayTimeUnit|"
        b"baseTimeNanoseconds|trace_id|record_shapes|with_stack|profile_memory|with_flops|with_modules|"
        b"cuda_runtime_version|cuda_driver_version|cupti_version|hip_runtime_version|hip_driver_version|"
        b"roctracer_version|metadata|host_name|username|logical_server_subtype|INFO|WARNING|ERROR|"
        b"otherData|systemTraceEvents"
    )
)


class _Ids(dict[bytes, int]):
    """Distinct byte strings in order of first appearance."""

    def __missing__(self, key: bytes) -> int:
        self[key] = number = len(self)
        return number


class _Fractions(dict[bytes, int]):
    """Decimals of a microsecond, the point included, in nanoseconds."""

    def __missing__(self, key: bytes) -> int:
        number = fraction_ns(key[1:])
        if len(key) <= 4:
            self[key] = number
        return number


class _TrackIds(dict[tuple[bytes, bytes], int]):
    """(pid, tid) as written -> the track's id."""

    def __init__(self, flags: int, tracks: _Ids) -> None:
        super().__init__()
        self._flags, self._tracks = flags, tracks

    def __missing__(self, key: tuple[bytes, bytes]) -> int:
        self[key] = number = self._tracks[track_key(self._flags, *key)]
        return number


def track_key(flags: int, pid: bytes, tid: bytes) -> bytes:
    """See `Parsed.tracks`."""
    return b"%c%s%s%s" % (48 + flags, (len(pid) % 2**32).to_bytes(4, "little"), pid, tid)


class _Growing:
    """A column that grows in place: small pieces joined at the end would need its memory twice."""

    def __init__(self, dtype: str) -> None:
        self._data: Column = np.empty(0, dtype=dtype)
        self._size = 0

    def append(self, part: Column) -> None:
        """Add rows."""
        size = self._size + len(part)
        if size > len(self._data):
            self._data.resize(size + size // 8 + 1024, refcheck=False)
        self._data[self._size : size] = part
        self._size = size

    def whole(self) -> Column:
        """All rows. Nothing may be added afterwards."""
        self._data.resize(self._size, refcheck=False)
        return self._data


class _Row(NamedTuple):
    """An event that was read token by token."""

    kind: Kind
    ordinal: int
    phase: int
    ts: int
    dur: int
    name: int
    cat: int
    track: int
    flow_id: int
    slots: dict[int, int | float]


@dataclass(slots=True)
class _Block:
    """Rows of one kind in columns: of one shape, or those that were read token by token."""

    ordinal: I64
    phase: npt.NDArray[np.uint8]
    ts: I64
    dur: I64
    name: I32
    cat: I32
    track: I32
    flow_id: I64
    slots: dict[int, Column] = field(default_factory=dict)
    """Slot -> number or text id; absent is the smallest number, NaN or -1."""


class FallbackParser:
    """See `stepscope.trace.parsed.Parser`."""

    def __init__(self, max_string: int, max_nesting: int) -> None:
        self._max_string = max_string
        self._tokens = Tokens(max_string, min(max_nesting, MAX_NESTING))
        self._learner = Learner(self._tokens)
        # Patterns follow brackets up to a depth that the caps must allow.
        self._is_learning = self._tokens.max_nesting > MAX_NESTED
        # results
        self._names, self._cats, self._texts, self._raws, self._tracks = (_Ids() for _ in range(5))
        self._core = {name: _Growing(dtype) for name, dtype in CORE}
        self._tables = [
            {"row": _Growing("i4"), **{name: _Growing(DTYPES[kind]) for name, kind in table.columns}}
            for table in TABLES
        ]
        self._num_settled = {"name": 0, "cat": 0, "track": 0}
        self._num_rows = dict.fromkeys(Kind, 0)
        self._num_kept = self._num_lost = self._num_repaired = self._num_bad_time = 0
        self._num_no_duration = self._num_counters = self._num_other = self._lost_bytes = 0
        self._first_lost = self._first_repair = self._first_bad_time = self._mixed_at = -1
        # state
        self._consumed = 0
        self._num_events = 0
        self._is_lost = self._is_closed = False
        self._lost_from = 0
        self._before = 91
        """The last byte of earlier feeds that was no white space; the array's bracket at first."""
        # the event at hand
        self._slots: dict[int, int | float] = {}
        self._pending: dict[int, bytes] = {}
        """Texts in order of appearance; they are interned once the event is kept."""
        self._is_repaired = False
        # shapes, and rows since the last flush
        self._root = self._last = self._new_root()
        self._shapes: list[Shape] = []
        self._seen: dict[bytes, Shape] = {}
        self._literal_cats: set[bytes] = set()
        self._num_refused = 0
        self._slow: list[_Row] = []
        self._flushed_at = 0
        self._fractions = _Fractions()
        self._track_ids = [_TrackIds(flags, self._tracks) for flags in range(4)]
        self._num_regions = self._region_bytes = 0
        self._region_ids = {slot: array("i") for slot in _TEXTS}

    @staticmethod
    def _new_root() -> Shape:
        """What stands before the first event: every shape may follow."""
        return Shape(Kind.OTHER, 0, b"", b"", (), None, 0, ())

    # ── the protocol ────────────────────────────────────────────────────────────────────────────────

    def feed(self, text: memoryview, is_final: bool, is_forced: bool) -> int:
        """Bytes it is done with."""
        buf = bytes(text)
        p, end = 0, len(buf)
        is_fast = end >= MIN_FAST
        while not self._is_closed and self._mixed_at < 0:
            if self._is_lost:
                start = p + (self._consumed + p == self._lost_from)
                found, undecided = self._resume(buf, start, is_final)
                stop = undecided if found is None else found
                self._lost_bytes += stop - p
                p = stop
                if found is None:
                    break
                self._is_lost = False
                if self._mixed_at >= 0:
                    break
            p = skip_space(buf, p)
            if p >= end:
                break
            byte = buf[p]
            if byte == 44:
                p += 1
                continue
            if byte == 93:
                p += 1
                self._is_closed = True
                break
            if byte != 123:
                self._lose(p)
                continue
            if is_fast and self._shapes:
                following = self._fast(buf, p)
                if following > p:
                    p = following
                    continue
            try:
                p = self._event(buf, p)
                continue
            except NeedMore:
                if not is_final and not (is_forced and p == 0):
                    break
                if is_final and not self._looks_broken(buf, p):
                    break
            except Malformed:
                pass
            if _AROUND.match(buf, skip_space(buf, p + 1)):
                self._mixed_at = self._consumed + p
                break
            self._lose(p)
        self._before = self._byte_before(buf, p)
        self._consumed += p
        return p

    def state(self) -> State:
        """Counts so far."""
        pending = {Kind.COUNTER: 0, Kind.OTHER: 0}
        for shape in self._shapes:
            if shape.kind in pending:
                pending[shape.kind] += len(shape.rows)
        return State(
            num_kept=self._num_kept,
            num_lost=self._num_lost,
            num_repaired=self._num_repaired,
            num_bad_time=self._num_bad_time,
            num_no_duration=self._num_no_duration,
            num_counters=self._num_counters + pending[Kind.COUNTER],
            num_other=self._num_other + pending[Kind.OTHER],
            lost_bytes=self._lost_bytes,
            is_closed=self._is_closed,
            is_lost=self._is_lost,
            first_lost=self._first_lost,
            first_repair=self._first_repair,
            first_bad_time=self._first_bad_time,
            mixed_at=self._mixed_at,
            num_events=self._num_events,
        )

    def finish(self) -> Parsed:
        """The columns. The parser is spent afterwards."""
        self._flush()
        core = {name: column.whole() for name, column in self._core.items()}
        tables = {
            table.name: {name: column.whole() for name, column in columns.items()}
            for table, columns in zip(TABLES, self._tables, strict=True)
        }
        return Parsed(
            core=core,
            tables=tables,
            names=list(self._names),
            cats=list(self._cats),
            texts=list(self._texts),
            raws=list(self._raws),
            tracks=list(self._tracks),
        )

    # ── the array ───────────────────────────────────────────────────────────────────────────────────

    def _lose(self, p: int) -> None:
        self._is_lost = True
        self._lost_from = self._consumed + p
        self._num_lost += 1
        if self._first_lost < 0:
            self._first_lost = self._lost_from
        self._num_events += 1

    def _resume(
        self, buf: bytes, p: int, is_final: bool, *, events_only: bool = False
    ) -> tuple[int | None, int]:
        """Where the next event or the end of the array is. `None`: not in this chunk, and from where it has
        to be sought once there is more text. `events_only`: the array's end is not looked for."""
        end = len(buf)
        for match in _STRUCTURE.finditer(buf, p):
            at = match.start()
            if not is_final and end - at < REACH:
                return None, at
            inside = _skip_some_space(buf, at + 1)
            if buf[at] == 123:
                if _AROUND.match(buf, inside):
                    self._mixed_at = self._consumed + at
                    return at, at
                if self._byte_before(buf, at) in b",[}" and _IN_EVENT.match(buf, inside):
                    return at, at
            elif events_only:
                continue
            elif inside < end and buf[inside] == 44:
                if _AROUND.match(buf, _skip_some_space(buf, inside + 1)):
                    return at, at
            elif is_final and (inside == end or (buf[inside] == 125 and skip_space(buf, inside + 1) == end)):
                return at, at
        return None, end

    def _byte_before(self, buf: bytes, p: int) -> int:
        """The last byte before `p` that is no white space."""
        p -= 1
        while p >= 0 and buf[p] in SPACE:
            p -= 1
        return buf[p] if p >= 0 else self._before

    def _looks_broken(self, buf: bytes, p: int) -> bool:
        """At the end of the text: another event begins behind an unfinished one, so that one is broken."""
        saved = self._mixed_at
        found, _ = self._resume(buf, p + 1, True, events_only=True)
        self._mixed_at = saved
        return found is not None

    # ── token by token ──────────────────────────────────────────────────────────────────────────────

    def _event(self, buf: bytes, begin: int) -> int:
        """Read the event at `begin`; returns what is behind it."""
        members: dict[bytes, Value] = {}
        self._slots, self._pending = {}, {}
        self._is_repaired = False
        needs_comma = False
        end = len(buf)
        p = begin + 1
        while True:
            p = skip_space(buf, p)
            if p >= end:
                raise NeedMore
            byte = buf[p]
            if byte == 125:
                p += 1
                break
            if byte == 44:
                self._is_repaired |= not needs_comma
                needs_comma = False
                p += 1
                continue
            if byte != 34 or needs_comma:
                raise Malformed
            close = self._tokens.string_end(buf, p + 1)
            if close - p - 1 > MAX_KEY:
                raise Malformed
            key = buf[p + 1 : close]
            p = behind_colon(buf, close + 1)
            needs_comma = True
            if key == b"args":
                self._slots, self._pending = {}, {}
                if buf[p] == 123:
                    p = self._arguments(buf, p)
                    continue
            value = self._tokens.value(buf, p)
            if key in _MEMBERS:
                members[key] = value
            p = value.next
        self._keep(buf, begin, members)
        self._num_events += 1
        if self._is_learning and not self._is_repaired:
            self._learn(buf, begin)
        if self._num_events - self._flushed_at >= FLUSH_ROWS:
            self._flush()
        return p

    def _arguments(self, buf: bytes, p: int) -> int:
        needs_comma = False
        end = len(buf)
        p += 1
        while True:
            p = skip_space(buf, p)
            if p >= end:
                raise NeedMore
            byte = buf[p]
            if byte == 125:
                return p + 1
            if byte == 44:
                self._is_repaired |= not needs_comma
                needs_comma = False
                p += 1
                continue
            if byte != 34 or needs_comma:
                raise Malformed
            close = self._tokens.string_end(buf, p + 1)
            if close - p - 1 > MAX_KEY:
                raise Malformed
            key = buf[p + 1 : close]
            p = behind_colon(buf, close + 1)
            value = self._tokens.value(buf, p)
            if key in KEY_OF:
                self._argument(*KEY_OF[key], buf[value.begin : value.end], value.is_string)
            p = value.next
            needs_comma = True

    def _argument(self, read: Read, slot: int, text: bytes, is_string: bool) -> None:
        slots = self._slots
        is_null = not is_string and text == b"null"
        if read is Read.INT:
            number = integer(text, is_string)
            if number is not None:
                slots[slot] = number
            else:
                slots.pop(slot, None)
                self._is_repaired |= not is_string and not is_null
        elif read in (Read.STRING, Read.RAW):
            if is_null:
                slots.pop(slot, None)
            else:
                slots[slot] = -1
                self._pending[slot] = text
        elif read is Read.TRIPLE:
            for axis, number in enumerate(triple(text)):
                slots[slot + axis] = number
        else:
            fraction = real(text)
            if fraction is None:
                slots.pop(slot, None)
            else:
                slots[slot] = fraction / 100.0 if read is Read.PERCENT else fraction

    def _keep(self, buf: bytes, begin: int, members: dict[bytes, Value]) -> None:
        """Make a row of the event, or count why not."""

        def text(key: bytes, absent: bytes) -> bytes:
            value = members.get(key)
            return absent if value is None else buf[value.begin : value.end]

        ph = text(b"ph", b"")
        # A byte NUL is no phase.
        if len(ph) != 1 or ph == b"\0":
            raise Malformed
        kind = kind_of(ph[0])
        ts = nanoseconds(text(b"ts", b""))
        if self._is_repaired:
            self._num_repaired += 1
            if self._first_repair < 0:
                self._first_repair = self._consumed + begin
        if ts is None and kind not in (Kind.META, Kind.COUNTER):
            self._num_bad_time += 1
            if self._first_bad_time < 0:
                self._first_bad_time = self._consumed + begin
            return
        self._num_kept += 1
        if kind is Kind.COUNTER:
            self._num_counters += 1
            return
        if kind is Kind.OTHER:
            self._num_other += 1
            return
        dur = nanoseconds(text(b"dur", b"")) if kind is Kind.SPAN else 0
        if dur is None:
            dur = 0
            self._num_no_duration += 1
        flow_id = None
        if kind is Kind.FLOW and b"id" in members:
            flow_id = integer(text(b"id", b""), members[b"id"].is_string)
        flags = 2 * members.get(b"pid", _ZERO).is_string + members.get(b"tid", _ZERO).is_string
        name = text(b"name", b"")
        if kind in (Kind.SPAN, Kind.META) or (kind is Kind.MARK and name == MEMORY):
            for slot, pending in self._pending.items():
                if slot in self._slots:
                    strings = self._raws if _READ_OF[slot] is Read.RAW else self._texts
                    self._slots[slot] = strings[pending]
        row = _Row(
            kind=kind,
            ordinal=self._num_events,
            phase=ph[0],
            ts=ts or 0,
            dur=dur,
            name=-1 if kind is Kind.FLOW else self._names[name],
            cat=-1 if kind is Kind.META else self._cats[text(b"cat", b"")],
            track=self._tracks[track_key(flags, text(b"pid", b"0"), text(b"tid", b"0"))],
            flow_id=ABSENT_I64 if flow_id is None else flow_id,
            slots=self._slots,
        )
        self._slow.append(row)

    # ── by shape ────────────────────────────────────────────────────────────────────────────────────

    def _learn(self, buf: bytes, begin: int) -> None:
        """Remember the shape of an event that was just read; use it from the second time on."""
        has_literal_cat = len(self._literal_cats) < MAX_LITERAL_CATS
        shape = self._learner.learn(buf, begin, has_literal_cat=has_literal_cat)
        if shape is None:
            return
        known = self._seen.setdefault(shape.plain, shape)
        if known is shape:
            self._is_learning = len(self._seen) < MAX_SEEN
            return
        if known.take is None:
            known.compile()
            if known.cat:
                self._literal_cats.add(known.cat)
            self._shapes.append(known)
            known.followers = self._shapes[: -MAX_CANDIDATES - 1 : -1]
            for other in (self._root, *self._shapes[:-1]):
                if len(other.followers) < MAX_CANDIDATES:
                    other.followers.append(known)
            self._is_learning = len(self._shapes) < MAX_SHAPES
        followers = self._last.followers
        if known in followers:
            followers.remove(known)
        followers.insert(0, known)
        del followers[MAX_CANDIDATES:]
        self._last = known

    def _fast(self, buf: bytes, p: int) -> int:
        """Take events from `p` on as long as their shapes are known; returns what is behind them."""
        if self._region_bytes > MAX_REGION_BYTES:
            self._forget_regions()
        size, max_string = len(buf), self._max_string
        is_capped = size > max_string
        limit = slash = _slash(buf, p)
        near = slash - NEAR if slash < size else size
        last = self._last
        n = self._num_events
        stop = self._flushed_at + FLUSH_ROWS
        while n < stop:
            if is_capped:
                # No string is longer than its event.
                limit = min(slash, p + max_string)
            followers = last.followers
            if p < near:
                for shape in followers:
                    found = shape.take(buf, p, limit)  # type: ignore[misc]
                    if found is None:
                        continue
                    row = found.groups()
                    for region in shape.regions:
                        if region.texts.get(row[region.at], -1) < 0:
                            break
                    else:
                        break
                    if self._admit(shape, row):
                        break
                else:
                    break
            else:
                escaped = self._escaped(buf, p, min(size, p + max_string), followers)
                if escaped is None:
                    break
                shape, row, found = escaped
            if shape is not followers[0]:
                followers.remove(shape)
                followers.insert(0, shape)
            shape.rows.append(row)
            shape.ordinals.append(n)
            n += 1
            p = found.end()
            last = shape
            if slash < p:
                limit = slash = _slash(buf, p)
                near = slash - NEAR if slash < size else size
        self._last = last
        self._num_kept += n - self._num_events
        self._num_events = n
        if n >= stop:
            self._flush()
        if self._num_refused > MAX_REFUSED + n // 50:
            self._start_over()
        return p

    def _escaped(
        self, buf: bytes, p: int, limit: int, shapes: list[Shape]
    ) -> tuple[Shape, tuple[bytes, ...], re.Match[bytes]] | None:
        """The shape of an event that may have backslashes, its groups, its match."""
        for shape in shapes:
            found = (shape.take_escaped or shape.compile_escaped())(buf, p, limit)
            if found is None:
                continue
            row = found.groups()
            if self._admit(shape, row):
                return shape, row, found
        return None

    def _admit(self, shape: Shape, row: tuple[bytes, ...]) -> bool:
        """Read the regions of a row that were not seen here before. False where one of them is none."""
        new: list[tuple[Region, bytes, list[tuple[Read, int, bytes | None]]]] = []
        for region in shape.regions:
            text = row[region.at]
            number = region.texts.get(text)
            if number is None:
                self._region_bytes += len(text)
                found = self._learner.region(text)
                if found is not None and all(slot in region.slots for _, slot, _ in found):
                    new.append((region, text, found))
                    continue
                region.texts[text] = number = -1
            if number < 0:
                self._num_refused += 1
                return False
        # Only now is it certain that the event is kept, and with it its texts.
        for region, text, found in new:
            ids = dict.fromkeys(_TEXTS, -1)
            for read, slot, value in found:
                if value is not None:
                    ids[slot] = (self._raws if read is Read.RAW else self._texts)[value]
            for slot, column in self._region_ids.items():
                column.append(ids[slot])
            region.texts[text] = self._num_regions
            self._num_regions += 1
        return True

    def _forget_regions(self) -> None:
        """Give their memory back where hardly any comes twice."""
        self._flush()
        for shape in self._shapes:
            for region in shape.regions:
                region.texts.clear()
        for column in self._region_ids.values():
            del column[:]
        self._num_regions = self._region_bytes = 0

    def _start_over(self) -> None:
        """Regions turned out to be something else too often: learn patterns that follow their strings."""
        self._flush()
        self._learner.is_loose = False
        self._num_refused = -(2**62)
        self._shapes, self._seen = [], {}
        self._root = self._last = self._new_root()
        self._is_learning = True

    # ── columns ─────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        """Make columns of the rows since the last time."""
        self._flushed_at = self._num_events
        blocks: dict[Kind, list[_Block]] = {kind: [] for kind in Kind}
        for shape in self._shapes:
            if not shape.rows:
                continue
            if shape.kind is Kind.COUNTER:
                self._num_counters += len(shape.rows)
            elif shape.kind is Kind.OTHER:
                self._num_other += len(shape.rows)
            else:
                blocks[shape.kind].append(self._block(shape))
            shape.rows, shape.ordinals = [], []
        for kind in {row.kind for row in self._slow}:
            blocks[kind].append(_slow_block([row for row in self._slow if row.kind is kind]))
        self._slow = []
        everything = [block for some in blocks.values() for block in some]
        self._settle(self._names, "name", everything)
        self._settle(self._cats, "cat", everything)
        if self._settle(self._tracks, "track", everything):
            for ids in self._track_ids:
                ids.clear()
        for kind, some in blocks.items():
            if some:
                self._write(kind, some)

    def _block(self, shape: Shape) -> _Block:
        """The rows that one shape took."""
        n = len(shape.rows)
        columns = list(zip(*shape.rows, strict=True))
        role_at = {role: i for i, (role, _) in enumerate(shape.roles)}

        def given(role: Role, absent: bytes) -> Iterable[bytes]:
            return columns[role_at[role]] if role in role_at else repeat(absent, n)

        def time(role: Role, fraction: Role) -> I64:
            if role not in role_at:
                return np.zeros(n, dtype=np.int64)
            whole = _whole_numbers(columns[role_at[role]])
            parts = map(self._fractions.__getitem__, columns[role_at[fraction]])
            return whole * 1000 + np.fromiter(parts, dtype=np.int64, count=n)

        def ids(strings: Iterable[Any], known: dict[Any, int]) -> I32:
            return np.fromiter(map(known.__getitem__, strings), dtype=np.int32, count=n)

        name = cat = np.full(n, -1, dtype=np.int32)
        if shape.kind is not Kind.FLOW:
            name = ids(given(Role.NAME, b""), self._names)
        if shape.kind is not Kind.META:
            given_cat = given(Role.CAT, b"") if shape.cat is None else repeat(shape.cat, n)
            cat = ids(given_cat, self._cats)
        pairs = zip(given(Role.PID, b"0"), given(Role.TID, b"0"), strict=True)
        slots = self._slots_of(shape, columns)
        return _Block(
            ordinal=np.array(shape.ordinals, dtype=np.int64),
            phase=np.full(n, shape.phase, dtype=np.uint8),
            ts=time(Role.TS, Role.TS_FRACTION),
            dur=time(Role.DUR, Role.DUR_FRACTION),
            name=name,
            cat=cat,
            track=ids(pairs, self._track_ids[shape.track_flags]),
            flow_id=slots.pop(FLOW_SLOT, np.full(n, ABSENT_I64, dtype=np.int64)),
            slots=slots,
        )

    def _slots_of(self, shape: Shape, columns: list[tuple[bytes, ...]]) -> dict[int, Column]:
        """Slot -> column of what the shape took from the arguments."""
        slots: dict[int, Column] = {}
        for (role, slot), column in zip(shape.roles, columns, strict=True):
            if role is Role.INT:
                slots[slot] = _whole_numbers(column)
            elif role in (Role.BIG_INT, Role.INT_STRING):
                whole = (integer(text, role is Role.INT_STRING) for text in column)
                slots[slot] = np.array([ABSENT_I64 if n is None else n for n in whole], dtype=np.int64)
            elif role is Role.FLOAT:
                unit = 100.0 if slot in _PERCENT else 1.0
                reals = (real(text) for text in column)
                slots[slot] = np.array([np.nan if x is None else x / unit for x in reals], dtype=np.float64)
        for region in shape.regions:
            found = map(region.texts.__getitem__, columns[region.at])
            numbers = np.fromiter(found, dtype=np.int64, count=len(shape.rows))
            for slot in region.slots:
                # The copy lets the array behind it grow again.
                ids = np.frombuffer(self._region_ids[slot], dtype=np.int32)[numbers]
                slots[slot] = np.maximum(slots[slot], ids) if slot in slots else ids
        return slots

    def _settle(self, known: _Ids, column: str, blocks: list[_Block]) -> bool:
        """Put the strings that are new since the last flush into the order of their first event.

        They were numbered shape by shape. Returns whether any number changed.
        """
        base = self._num_settled[column]
        num_new = len(known) - base
        self._num_settled[column] = len(known)
        if num_new < 2:
            return False
        first = np.full(num_new, np.iinfo(np.int64).max)
        for block in blocks:
            ids = getattr(block, column)
            is_new = ids >= base
            np.minimum.at(first, ids[is_new] - base, block.ordinal[is_new])
        order = np.argsort(first, kind="stable")
        if bool((order[1:] > order[:-1]).all()):
            return False
        moved = np.empty(num_new, dtype=np.int32)
        moved[order] = np.arange(base, base + num_new, dtype=np.int32)
        for block in blocks:
            ids = getattr(block, column)
            is_new = ids >= base
            ids[is_new] = moved[ids[is_new] - base]
        strings = list(islice(known, base, None))
        for string in strings:
            del known[string]
        for i in order.tolist():
            known[strings[i]] = len(known)
        return True

    def _write(self, kind: Kind, blocks: list[_Block]) -> None:
        """Append rows of one kind, in the order of the file, and their side tables."""
        order = np.argsort(np.concatenate([block.ordinal for block in blocks]))
        first_row = self._num_rows[kind]
        self._num_rows[kind] += len(order)
        row = np.empty(len(order), dtype=np.int32)
        row[order] = np.arange(first_row, first_row + len(order), dtype=np.int32)
        prefix = _PREFIXES[kind]
        for name, _ in CORE:
            field_name = _FIELDS.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
            if field_name is None or _kind_of_column(name) is not kind:
                continue
            if name == "meta_text":
                column = np.concatenate(
                    [b.slots.get(META_SLOT, _absent(META_SLOT, len(b.ts))) for b in blocks]
                )
            else:
                column = np.concatenate([getattr(block, field_name) for block in blocks])
            self._core[name].append(column[order])
        ends = np.cumsum([0, *(len(block.ordinal) for block in blocks)])
        rows = [row[a:b] for a, b in pairwise(ends.tolist())]
        for number, table in enumerate(TABLES):
            if table.phase == kind.value:
                self._write_table(number, blocks, rows)

    def _write_table(self, number: int, blocks: list[_Block], rows: list[I32]) -> None:
        table = TABLES[number]
        triggers = [SLOTS[name] for name in table.triggers]
        parts: list[tuple[_Block, I32, npt.NDArray[np.bool_]]] = []
        for block, row in zip(blocks, rows, strict=True):
            has: npt.NDArray[np.bool_] = np.zeros(len(row), dtype=bool)
            for slot in triggers:
                if slot in block.slots:
                    has |= _is_present(slot, block.slots[slot])
            if table.phase == Kind.MARK.value:
                has &= block.name == self._names.get(MEMORY, -1)
            if has.any():
                parts.append((block, row[has], has))
        if not parts:
            return
        all_rows = np.concatenate([row for _, row, _ in parts])
        order = np.argsort(all_rows)
        self._tables[number]["row"].append(all_rows[order])
        for name, kind in table.columns:
            slot = SLOTS[name]
            column = np.concatenate(
                [
                    block.slots[slot][has] if slot in block.slots else _absent(slot, len(row))
                    for block, row, has in parts
                ]
            )
            self._tables[number][name].append(_as_type(column[order], kind))


_PREFIXES = {Kind.SPAN: "", Kind.MARK: "mark_", Kind.PAIR: "pair_", Kind.FLOW: "flow_", Kind.META: "meta_"}
_FIELDS = {
    "ts": "ts", "dur": "dur", "name": "name", "cat": "cat", "track": "track", "index": "ordinal",
    "phase": "phase", "id": "flow_id", "text": "slots",
}  # fmt: skip
"""A core column without its prefix -> the block's field."""


def _kind_of_column(name: str) -> Kind:
    for kind, prefix in _PREFIXES.items():
        if prefix and name.startswith(prefix):
            return kind
    return Kind.SPAN


def _slash(buf: bytes, p: int) -> int:
    """The next backslash from `p` on, the end where there is none."""
    found = buf.find(b"\\", p)
    return found if found >= 0 else len(buf)


def _skip_some_space(buf: bytes, p: int) -> int:
    found = _SOME_SPACE.match(buf, p)
    return found.end() if found is not None else p


def _whole_numbers(column: Sequence[bytes]) -> I64:
    """Decimal digits, at most 18 and a sign, as numbers."""
    return np.fromiter(map(int, column), dtype=np.int64, count=len(column))


def _slow_block(rows: list[_Row]) -> _Block:
    """Rows that were read token by token."""
    filled = sorted({slot for row in rows for slot in row.slots})
    slots: dict[int, Column] = {}
    for slot in filled:
        absent = _ABSENT_OF[slot]
        slots[slot] = np.array([row.slots.get(slot, absent) for row in rows], dtype=_DTYPE_OF[slot])
    return _Block(
        ordinal=np.array([row.ordinal for row in rows], dtype=np.int64),
        phase=np.array([row.phase for row in rows], dtype=np.uint8),
        ts=np.array([row.ts for row in rows], dtype=np.int64),
        dur=np.array([row.dur for row in rows], dtype=np.int64),
        name=np.array([row.name for row in rows], dtype=np.int32),
        cat=np.array([row.cat for row in rows], dtype=np.int32),
        track=np.array([row.track for row in rows], dtype=np.int32),
        flow_id=np.array([row.flow_id for row in rows], dtype=np.int64),
        slots=slots,
    )


def _absent(slot: int, n: int) -> Column:
    return np.full(n, _ABSENT_OF[slot], dtype=_DTYPE_OF[slot])


def _is_present(slot: int, column: Column) -> npt.NDArray[np.bool_]:
    if slot in _FLOATS:
        return ~np.isnan(column)
    return np.asarray(column >= 0 if slot in _TEXTS else column != ABSENT_I64, dtype=bool)


def _as_type(column: Column, kind: Type) -> Column:
    """Numbers as the column's type; those that do not fit are absent."""
    if kind is Type.I32:
        fits = (column > ABSENT_I32) & (column <= -(ABSENT_I32 + 1))
        return np.where(fits, column, ABSENT_I32).astype(np.int32)
    if kind is Type.F32:
        with np.errstate(over="ignore"):
            return column.astype(np.float32)
    return column.astype(DTYPES[kind], copy=False)
