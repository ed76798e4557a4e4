"""Tables of step times in CSV or TSV: one row a worker and step, columns found by their names."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.model.error import InputError, RefusedError
from stepscope.model.table import StepTimes

FORMAT = "step-table"
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
MAX_CELLS = 20_000_000
"""Ranks times steps."""
MAX_RANK = 1 << 31

# Names in lower case, without unit and with `_` between words, the likeliest first.
RANKS = ("rank", "global_rank", "worker", "worker_id", "worker_rank", "rank_id", "gpu_rank", "node", "host")
STEPS = (
    "step",
    "global_step",
    "step_id",
    "iteration",
    "iter",
    "batch",
    "batch_id",
    "batch_index",
    "order",
    "index",
    "time_index",
)
DURATIONS = (
    "duration",
    "dur",
    "step_time",
    "step_duration",
    "iteration_time",
    "iter_time",
    "batch_time",
    "minibatch_time",
    "elapsed",
    "latency",
    "train_time",
    "compute_time",
)
TIME = "time"
"""A duration where it has a unit or is all that there is; else the order of steps."""
_UNITS = {
    "ns": 1.0,
    "nanoseconds": 1.0,
    "us": 1e3,
    "microseconds": 1e3,
    "ms": 1e6,
    "millis": 1e6,
    "milliseconds": 1e6,
    "s": 1e9,
    "sec": 1e9,
    "secs": 1e9,
    "seconds": 1e9,
}
_BESIDE = ("norm", "normalised", "normalized", "mean", "avg")
"""Endings that are no unit and say nothing of which column it is."""
_NUMBER = re.compile(r"(\d{1,10})\s*$")
_GIVE = "give columns named like worker, step and duration_ms"


@dataclass(frozen=True, slots=True)
class Columns:
    """Places of the columns, and how many nanoseconds the unit of duration has, `None` for a unit of its
    own. `step` is `None` where rows of a worker are in order."""

    rank: int
    step: int | None
    duration: int
    unit_ns: float | None


def columns(header: Sequence[str]) -> Columns | str:
    """Which columns a header names, or what it lacks."""
    names = [_words(name) for name in header]
    bare = [_without_unit(name) for name in names]
    rank = _first(names, RANKS)
    if rank is None:
        return "no column names the worker or rank"
    duration = _first([name for name, _ in bare], DURATIONS)
    if duration is None:
        times = [place for place, (name, unit) in enumerate(bare) if name == TIME and unit is not None]
        steps = _first(names, STEPS)
        if not times and steps is not None:
            times = [place for place, name in enumerate(names) if name == TIME]
        if not times:
            return "no column names the duration of a step"
        duration = times[0]
    step = _first(names, (*STEPS, TIME) if names[duration] != TIME else STEPS)
    return Columns(rank, None if step in (rank, duration) else step, duration, bare[duration][1])


def _words(name: str) -> str:
    """A column's name in lower case with `_` between words: `Step Time (ms)` and `stepTime_ms` are one."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def _without_unit(name: str) -> tuple[str, float | None]:
    unit = None
    while True:
        base, _, last = name.rpartition("_")
        if base and last in _UNITS and unit is None:
            unit, name = _UNITS[last], base
        elif base and last in _BESIDE:
            # What was divided by something has no unit, whatever stands before.
            return _without_unit(base)[0], None if last.startswith("norm") else unit or _without_unit(base)[1]
        else:
            return name, unit


def _first(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def is_step_table(path: str, start: bytes) -> bool:
    """Whether a file is called like a table and its first line names the columns of one."""
    if not path.lower().endswith(SUFFIXES) or b"\n" not in start:
        return False
    line = start.partition(b"\n")[0].decode("utf-8-sig", "replace").rstrip("\r")
    return isinstance(columns(next(csv.reader([line], delimiter=_delimiter(line)), [])), Columns)


def _delimiter(header: str) -> str:
    return max(",\t;", key=header.count)


def parse(data: bytes, name: str) -> StepTimes:
    """The table of a file's bytes. Raises InputError with the line and the mend."""
    lines = data.decode("utf-8-sig", "replace").splitlines()
    first = next((place for place, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise InputError(name, "holds no line", _GIVE)
    reader = csv.reader(lines[first:], delimiter=_delimiter(lines[first]))
    header = next(reader)
    found = columns(header)
    if isinstance(found, str):
        named = ", ".join(each.strip()[:30] for each in header[:12]) or "none"
        raise InputError(name, f"{found} (its columns: {named})", _GIVE, f"line {first + 1}")
    cells: dict[tuple[int, int], float] = {}
    nth: dict[int, int] = {}
    num_odd = num_repeated = 0
    try:
        for row in reader:
            at = f"line {first + reader.line_num}"
            if not row:
                continue
            if len(row) <= max(found.rank, found.duration, found.step or 0):
                what = f"has {len(row)} fields, the header {len(header)}"
                raise InputError(name, what, "complete the line or leave it out", at)
            rank = _rank(row[found.rank], name, at)
            if found.step is None:
                step = nth[rank] = nth.get(rank, -1) + 1
            else:
                step = _step(row[found.step], name, at)
            value = _value(row[found.duration])
            if value is None:
                num_odd += 1
                value = math.nan
            if (rank, step) in cells:
                num_repeated += 1
            else:
                cells[rank, step] = value
    except csv.Error as error:
        at = f"line {first + reader.line_num}"
        raise InputError(name, f"is no table ({error})", _GIVE, at) from error
    if not any(math.isfinite(value) for value in cells.values()):
        raise InputError(name, "holds no usable duration", _GIVE)
    ranks = sorted({rank for rank, _ in cells})
    steps = sorted({step for _, step in cells})
    if len(ranks) * len(steps) > MAX_CELLS:
        what = f"{len(ranks):,} ranks times {len(steps):,} steps are more than {MAX_CELLS:,}: refused"
        raise RefusedError(f"{name}: {what}; give fewer steps")
    duration = np.full((len(ranks), len(steps)), np.nan)
    rows = np.searchsorted(ranks, [rank for rank, _ in cells])
    places = np.searchsorted(steps, [step for _, step in cells])
    duration[rows, places] = list(cells.values())
    unit = found.unit_ns
    return StepTimes(
        name=name,
        ranks=tuple(ranks),
        steps=tuple(steps),
        duration=duration if unit is None else duration * unit,
        is_ns=unit is not None,
        num_odd=num_odd,
        num_repeated=num_repeated,
    )


def _rank(text: str, name: str, at: str) -> int:
    """The number of a worker: the whole of it, or the digits at its end (`worker-3`)."""
    match = _NUMBER.search(text.strip().removesuffix(".0"))
    if match is None or text.strip().startswith("-") or int(match[1]) >= MAX_RANK:
        raise InputError(
            name, f"the worker {text.strip()[:30]!r} has no number", "number the workers from 0", at
        )
    return int(match[1])


def _step(text: str, name: str, at: str) -> int:
    value = _value(text, least=-math.inf)
    if value is None or value != int(value) or abs(value) >= 1 << 62:
        what = f"the step {text.strip()[:30]!r} is no whole number"
        raise InputError(name, what, "number the steps", at)
    return int(value)


def _value(text: str, least: float = 0.0) -> float | None:
    """A finite number above `least`, `None` for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > least else None
