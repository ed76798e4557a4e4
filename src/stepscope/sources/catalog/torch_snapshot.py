"""PyTorch's memory snapshot: the pickle that `torch.cuda.memory._dump_snapshot` writes.

The format is read by its documentation and PyTorch's own viewer; no file of a real run has been compared yet.
Keys that are not known are passed over, and entries that do not fit are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.model.error import InputError, RefusedError
from stepscope.model.snapshot import Action, Blocks, History, Segments, Snapshot, State
from stepscope.model.trace import ABSENT_I64
from stepscope.sources.formats.plain_pickle import BrokenPickle, HostilePickle, Limits, is_pickle, loads

FORMAT = "pytorch-memory-snapshot"
SUFFIXES = (".pickle", ".pkl", ".pickle.gz", ".pkl.gz")
MAX_ROWS = 20_000_000
"""Blocks, entries and frames that are looked at. A file may refer to one list over and over."""
MAX_FRAMES = 64
"""Of one stack; deeper ones lose their outermost frames."""

STATES: Mapping[str, State] = {
    "active_allocated": State.ACTIVE,
    "active_pending_free": State.PENDING,
    "active_awaiting_free": State.PENDING,
    "inactive": State.FREE,
}
ACTIONS: Mapping[str, Action] = {
    "alloc": Action.ALLOC,
    "free_completed": Action.FREE,
    "free": Action.FREE,
    "segment_alloc": Action.SEGMENT_ALLOC,
    "segment_free": Action.SEGMENT_FREE,
    "segment_map": Action.SEGMENT_MAP,
    "segment_unmap": Action.SEGMENT_UNMAP,
    "oom": Action.OOM,
}
PASSED_OVER = frozenset({"free_requested", "snapshot"})
"""Entries that change no memory."""
_GIVE = "give what torch.cuda.memory._dump_snapshot() wrote"


def parse(data: bytes, name: str, limits: Limits | None = None) -> Snapshot:
    """A snapshot from the bytes of its pickle.

    Raises InputError for what is no snapshot or breaks off, RefusedError for a pickle that asks for more than
    plain data: nothing it names is looked up or run.
    """
    try:
        plain = loads(data, limits)
    except HostilePickle as error:
        what = f"the pickle {error.what}: refused, and nothing of it was run"
        raise RefusedError(f"{name} at byte {error.place}: {what}; {_GIVE}") from error
    except BrokenPickle as error:
        raise InputError(name, f"the pickle {error.what}", _GIVE, f"byte {error.place}") from error
    top = {"segments": plain} if isinstance(plain, list) else plain
    if not isinstance(top, dict) or not isinstance(top.get("segments"), list):
        keys = ", ".join(map(repr, list(top)[:5])) if isinstance(top, dict) and top else "none"
        raise InputError(name, f"the pickle holds no memory snapshot (its keys: {keys[:120]})", _GIVE)
    return _Reader(name).read(top)


@dataclass
class _Reader:
    """One pass over the plain data, of fixed depth: what refers to itself is not followed."""

    name: str
    num_rows: int = 0
    num_odd: int = 0
    stacks: dict[tuple[str, ...], int] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)
    """Identity of a list of frames -> its stack: one list is shared by all that its call allocated."""

    def read(self, top: Mapping[str, Any]) -> Snapshot:
        """The whole snapshot."""
        segments: list[tuple[int, int, int, bool, int, bool]] = []
        blocks: list[tuple[int, int, int, int, int, int]] = []
        for segment in self.rows(top["segments"]):
            self.segment(segment, segments, blocks)
        history: list[tuple[int, int, int, int, int, int, int, int]] = []
        traces = top.get("device_traces")
        for device, entries in enumerate(traces if isinstance(traces, list) else ()):
            for entry in self.rows(entries):
                self.entry(device, entry, history)
        if not segments and not history:
            raise InputError(self.name, "the snapshot holds no segment and no history", _RECORD)
        return Snapshot(
            name=self.name,
            segments=Segments(
                *_columns(segments, (np.int64, np.int64, np.int32, np.bool_, np.int64, np.bool_))
            ),
            blocks=Blocks(*_columns(blocks, (np.int64, np.int64, np.int64, np.int8, np.int32, np.int32))),
            history=History(
                *_columns(
                    history,
                    (np.int32, np.int8, np.int64, np.int64, np.int64, np.int64, np.int32, np.int64),
                )
            ),
            stacks=tuple(self.stacks),
            settings=_settings(top.get("allocator_settings")),
            num_odd=self.num_odd,
        )

    def rows(self, values: Any) -> Iterable[dict[str, Any]]:
        """The dictionaries of a list, counted."""
        for each in values if isinstance(values, list) else ():
            self.counted(1)
            if isinstance(each, dict):
                yield each
            else:
                self.num_odd += 1

    def counted(self, number: int) -> None:
        """So many more rows; too many are refused."""
        self.num_rows += number
        if self.num_rows > MAX_ROWS:
            what = f"the snapshot has more than {MAX_ROWS:,} blocks, entries and frames: refused"
            raise RefusedError(f"{self.name}: {what}; record a shorter history (max_entries)")

    def segment(self, segment: dict[str, Any], segments: list[Any], blocks: list[Any]) -> None:
        """One segment with its blocks."""
        address, size = _whole(segment.get("address")), _whole(segment.get("total_size"))
        device = _whole(segment.get("device", 0))
        if address is None or size is None or device is None or device > MAX_DEVICES:
            self.num_odd += 1
            return
        place, at = len(segments), address
        pool = segment.get("segment_pool_id")
        is_private = isinstance(pool, (tuple, list)) and any(_whole(each) for each in pool)
        is_growing = segment.get("is_expandable") is True
        segments.append((address, size, device, is_growing, _stream(segment), is_private))
        for block in self.rows(segment.get("blocks")):
            held, state = _whole(block.get("size")), STATES.get(_text(block.get("state")))
            if held is None or state is None:
                self.num_odd += 1
                continue
            # Until PyTorch 2.1 a block had no address, and its stack lay in a history of its own.
            own = _whole(block.get("address", at))
            past = block.get("history")
            first = past[0] if isinstance(past, list) and past and isinstance(past[0], dict) else {}
            requested = _whole(block.get("requested_size", first.get("real_size", held)))
            stack = self.stack(block.get("frames", first.get("frames")))
            start = at if own is None else own
            blocks.append((start, held, held if requested is None else requested, state, place, stack))
            at = start + held

    def entry(self, device: int, entry: dict[str, Any], history: list[Any]) -> None:
        """One entry of the history."""
        said = _text(entry.get("action"))
        if said in PASSED_OVER:
            return
        action, size, time_us = ACTIONS.get(said), _whole(entry.get("size")), _whole(entry.get("time_us"))
        address = _whole(entry.get("addr", entry.get("address", 0)))
        if action is None or size is None or address is None or device > MAX_DEVICES:
            self.num_odd += 1
            return
        free = _whole(entry.get("device_free")) if action is Action.OOM else None
        history.append(
            (
                device,
                action,
                address,
                size,
                ABSENT_I64 if free is None else free,
                # What cannot be a time since the epoch in nanoseconds is none.
                time_us * 1000 if time_us is not None and time_us < MAX_US else ABSENT_I64,
                self.stack(entry.get("frames")),
                _stream(entry),
            )
        )

    def stack(self, frames: Any) -> int:
        """The number of a stack, -1 for none."""
        if not isinstance(frames, list) or not frames:
            return -1
        found = self.known.get(id(frames))
        if found is None:
            kept = frames[:MAX_FRAMES]
            self.counted(len(kept))
            told = tuple(frame for each in kept if (frame := _frame(each)) is not None)
            found = self.stacks.setdefault(told, len(self.stacks)) if told else -1
            self.known[id(frames)] = found
        return found


MAX_DEVICES = 1 << 16
MAX_US = 4_102_444_800_000_000
"""The year 2100 in microseconds."""
_RECORD = "call torch.cuda.memory._record_memory_history() before the run"


def _whole(value: Any) -> int | None:
    """A number that a size or an address can be, `None` for anything else."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 1 << 62 else None


def _stream(row: Mapping[str, Any]) -> int:
    """The stream of a segment or an entry, ABSENT_I64 where none is told."""
    told = _whole(row.get("stream"))
    return ABSENT_I64 if told is None else told


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_LONGEST = 400
"""Characters of a file's or a function's name; C++ templates go on for pages."""


def _frame(frame: Any) -> str | None:
    """`file:line function`; a frame without a file is its function's name."""
    if not isinstance(frame, dict):
        return None
    file, name = _text(frame.get("filename"))[-_LONGEST:], _text(frame.get("name"))[:_LONGEST]
    line = _whole(frame.get("line"))
    if not file or file == "??":
        return name or None
    return f"{file}:{line or 0} {name}".rstrip()


def _settings(value: Any) -> dict[str, str]:
    """The settings that are a text, a number or a truth value."""
    if not isinstance(value, dict):
        return {}
    return {
        key[:_LONGEST]: str(each)[:_LONGEST]
        for key, each in list(value.items())[:100]
        if isinstance(each, (str, int, float))
    }


def _columns(rows: list[Any], kinds: tuple[type, ...]) -> list[Any]:
    """Equally long columns of these types."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    return [np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)]


def is_snapshot(path: str, start: bytes) -> bool:
    """Whether a file is meant as a snapshot: by its first (unpacked) bytes, or by its name. Pickles of
    protocols 0 and 1 begin like text."""
    return is_pickle(start) or (path.lower().endswith(SUFFIXES) and not start.lstrip().startswith(b'{"'))
