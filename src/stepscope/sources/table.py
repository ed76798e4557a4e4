"""Rows of a tool's table to a `Gathering`: cells to numbers, units as they are written, rows to times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.model.sample import Owner, TimeKind
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64
from stepscope.sources.blank import reason_of_text
from stepscope.sources.field import Field
from stepscope.sources.formats.moment import GRID_NS, clock_ns, day_ns, stamp_ns
from stepscope.sources.formats.smi import UNITS, amount
from stepscope.sources.gather import Gathering

NO_ZONE = (
    "times without a zone are read as UTC; where the host's clock was another, they are off by whole hours"
)


def add_column_cells(
    gathering: Gathering,
    owners: Sequence[Owner | None],
    at_ns: I64,
    cells: Sequence[str],
    field: Field,
    name: str,
    unit: str = "",
    words: dict[str, float] | None = None,
) -> None:
    """One column of all rows; an owner `None` leaves its row out.

    `field.factor` is from the unit that the tool writes by habit; a unit in the header or in the cell is
    heard instead, and where it measures something else the cell is no sample. `words` are what stands for a
    number (`Yes`, `P2`).
    """
    signal = SIGNALS[field.signal]
    columns: dict[tuple[Owner, float], tuple[list[int], list[float]]] = {}
    num_strange = 0
    for owner, at, cell in zip(owners, at_ns, cells, strict=True):
        if owner is None:
            continue
        gathering.num_samples += 1
        number = _number(cell, words)
        if number is None:
            reason = reason_of_text(cell) or "out_of_range"
            gathering.missing(name, signal.name, reason, 1, gathering.owner(owner))
            continue
        value, written = number
        factor = _factor(written or unit, signal.unit, field.factor)
        if factor is None:
            num_strange += 1
            gathering.missing(name, signal.name, "out_of_range", 1, gathering.owner(owner))
            continue
        times, values = columns.setdefault((owner, factor), ([], []))
        times.append(int(at))
        values.append(value)
    gathering.note("unit_suspect", num_strange, f"{name}: a unit that measures something else")
    for (owner, factor), (times, values) in columns.items():
        exact = Field(field.signal, factor, field.blank, field.rank, field.part)
        gathering.add(owner, exact, name, np.array(times, np.int64), np.array(values))


def _number(cell: str, words: dict[str, float] | None) -> tuple[float, str] | None:
    if words is not None:
        known = words.get(cell.strip().lower())
        if known is not None:
            return known, ""
    return amount(cell)


def _factor(written: str, unit: str, habit: float) -> float | None:
    """What makes the number one of our unit; `None` where the written unit is of something else. A unit that
    is not known says nothing."""
    known = UNITS.get(written.strip().lower())
    if known is None:
        return habit
    return known[1] if known[0] == unit else None


def cycle_times(keys: Sequence[object]) -> I64:
    """Rows without a time: a cycle begins where a key stands again, and cycles stand a second apart."""
    times = np.empty(len(keys), np.int64)
    cycle = 0
    seen: set[object] = set()
    for place, key in enumerate(keys):
        if key in seen:
            seen.clear()
            cycle += 1
        seen.add(key)
        times[place] = cycle * GRID_NS
    return times


def row_times(
    gathering: Gathering, stamps: Sequence[str] | None, keys: Sequence[object]
) -> tuple[I64, list[bool], TimeKind]:
    """(times, which rows have one, where they come from) of a column of timestamps, or of cycles where there
    is none."""
    if stamps is None:
        return cycle_times(keys), [True] * len(keys), "none"
    parsed = [stamp_ns(text) for text in stamps]
    has = [each is not None for each in parsed]
    num_bad = has.count(False)
    gathering.note("malformed_lines", num_bad, "rows whose time cannot be read")
    if any(each is not None and not each[1] for each in parsed):
        gathering.note("time_zone_unknown", 1, NO_ZONE)
    return np.array([each[0] if each else 0 for each in parsed], np.int64), has, "sample"


def monitor_times(
    gathering: Gathering, dates: Sequence[str] | None, clocks: Sequence[str] | None, keys: Sequence[object]
) -> tuple[I64, list[bool], TimeKind]:
    """As `row_times`, of dmon's and pmon's columns `Date` and `Time` (`-o DT`). A time of day alone counts
    from the first row's."""
    if clocks is None:
        return cycle_times(keys), [True] * len(keys), "none"
    times = [clock_ns(text) for text in clocks]
    days: list[int | None]
    if dates is not None:
        days = [day_ns(text) for text in dates]
    else:
        days = _days(times)
    sums = [
        None if day is None or clock is None else day + clock for day, clock in zip(days, times, strict=True)
    ]
    has = [each is not None for each in sums]
    gathering.note("malformed_lines", has.count(False), "rows whose time cannot be read")
    at_ns = np.array([each or 0 for each in sums], np.int64)
    if dates is not None:
        gathering.note("time_zone_unknown", 1, NO_ZONE)
        return at_ns, has, "sample"
    first = next((each for each in sums if each is not None), 0)
    return at_ns - first, has, "none"


def _days(times: Sequence[int | None]) -> list[int | None]:
    """Midnights passed: a clock that falls has passed one."""
    day, before = 0, None
    days: list[int | None] = []
    for clock in times:
        if clock is not None:
            if before is not None and clock < before:
                day += 86_400 * 10**9
            before = clock
        days.append(day)
    return days
