"""What a parser hands over: columns of the events as written, before strings are decoded and tracks are
told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

CORE: tuple[tuple[str, str], ...] = (
    ("ts", "i8"), ("dur", "i8"), ("name", "i4"), ("cat", "i4"), ("track", "i4"), ("index", "i4"),
    ("mark_ts", "i8"), ("mark_name", "i4"), ("mark_cat", "i4"), ("mark_track", "i4"), ("mark_index", "i4"),
    ("pair_ts", "i8"), ("pair_name", "i4"), ("pair_cat", "i4"), ("pair_track", "i4"), ("pair_index", "i4"),
    ("pair_phase", "u1"),
    ("flow_ts", "i8"), ("flow_id", "i8"), ("flow_track", "i4"), ("flow_cat", "i4"), ("flow_phase", "u1"),
    ("meta_name", "i4"), ("meta_track", "i4"), ("meta_text", "i4"),
)  # fmt: skip
"""Fixed columns in the parsers' common order: complete events, instants (`mark`), B and E (`pair`), flows,
M (`meta`).

Times are nanoseconds as written, without the base. `meta_text` is an id of `texts`, -1 for none."""

DTYPES = {0: "i8", 1: "i4", 2: "f4", 3: "i4"}
"""Type of a table column -> NumPy type."""


@dataclass(frozen=True, slots=True)
class State:
    """Counts so far. Byte positions are offsets in the text behind the array's opening bracket, -1 for none.

    `num_lost` malformed events given up, `num_repaired` kept after a repair (stray commas),
    `num_bad_time` left out for their time, `num_no_duration` complete events without `dur` (kept with 0),
    `num_counters` and `num_other` of phases that are not kept, `lost_bytes` text given up. `is_closed`:
    the array's end was seen; `is_lost`: looking for the next event; `mixed_at`: where another file's text
    begins. `num_events` counts events in file order, lost ones too.
    """

    num_kept: int
    num_lost: int
    num_repaired: int
    num_bad_time: int
    num_no_duration: int
    num_counters: int
    num_other: int
    lost_bytes: int
    is_closed: bool
    is_lost: bool
    first_lost: int
    first_repair: int
    first_bad_time: int
    mixed_at: int
    num_events: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """Columns by name, side tables by name (`row` first), and distinct byte strings in order of appearance.

    `texts` are strings, `raws` JSON as written (columns read as RAW refer to them). `tracks` are keys: a
    flag b"0" plus 2 where pid and 1 where tid was a JSON string, the length of pid in four bytes (little
    end first), pid, tid.
    """

    core: Mapping[str, npt.NDArray[Any]]
    tables: Mapping[str, Mapping[str, npt.NDArray[Any]]]
    names: list[bytes]
    cats: list[bytes]
    texts: list[bytes]
    raws: list[bytes]
    tracks: list[bytes]


class Parser(Protocol):
    """Takes the text of the event array, from behind its `[`, in chunks."""

    def feed(self, text: memoryview, is_final: bool, is_forced: bool) -> int:
        """Bytes it is done with; the rest must come again with more behind it.

        `is_final`: no more text comes. `is_forced`: the chunk is as large as one event may be; give the
        event up rather than wait for its end.
        """

    def state(self) -> State:
        """Counts so far."""

    def finish(self) -> Parsed:
        """The columns. The parser is spent afterwards."""
