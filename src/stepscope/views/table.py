"""The report as flat tables: rows of named columns, for a spreadsheet, a data base or a query.

A table's columns follow from the report's structs: those of a part in a part are joined by a dot
(`idle.input_ns`), lists of parts are tables of their own. A table has the same columns whatever the report.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec

from stepscope.model import report

Cell = int | float | str | bool | None
Kind = Literal["integer", "number", "text", "flag"]
_KINDS: dict[type, Kind] = {bool: "flag", int: "integer", float: "number", str: "text"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `kind` is what its cells are where they are not `None`, which is `not known`."""

    name: str
    kind: Kind
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and rows of as many cells."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class RankStep(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the map of lateness."""

    rank: int
    step: int
    lateness_ns: int | None
    wait_ns: int | None


class RankPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of one rank's row of the map, neighbours of one part joined; where nothing was recorded there
    is no piece."""

    rank: int
    start_ns: int
    dur_ns: int
    part: str


class SignalPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of a signal, when it was read: no lag is taken off."""

    at_ns: int
    value: float


class WalkStation(msgspec.Struct, frozen=True, kw_only=True):
    """One station of a walk, in its place."""

    rank: int | None
    device: report.Device | None
    place: int
    text: str
    status: str
    said: str


_OWNED = ("device.index", "device.uuid", "host", "name", "source", "signal", "unit")
"""What tells whose sample a row of `signal_points` or `signal_steps` is."""


def _owner(each: report.SignalSummary) -> tuple[Cell, ...]:
    return (
        each.device.index, each.device.uuid, each.host, each.name, each.source, each.signal, each.unit
    )  # fmt: skip


def _points(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], SignalPoint]]:
    for each in whole.signals:
        for at_ns, value in each.points:
            yield _owner(each), SignalPoint(at_ns=at_ns, value=value)


def _signal_steps(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], report.SignalStep]]:
    for each in whole.signals:
        yield from ((_owner(each), step) for step in each.by_step)


def _pattern_evidence(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], report.Evidence]]:
    for each in whole.patterns:
        uuid = None if each.device is None else each.device.uuid
        for name, side in (("as_written", each.as_written), ("effective", each.effective)):
            yield from (((each.pattern, name, uuid), row) for row in side.evidence)


def _walks(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], WalkStation]]:
    for walk in whole.walks:
        for place, step in enumerate(walk.steps, 1):
            yield (
                (walk.walk, walk.title),
                WalkStation(
                    rank=walk.rank,
                    device=walk.device,
                    place=place,
                    text=step.text,
                    status=step.status,
                    said=step.said,
                ),
            )


def _lateness(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], RankStep]]:
    if whole.lateness is None:
        return
    for row in whole.lateness.rows:
        for step, late, wait in zip(whole.lateness.steps, row.lateness_ns, row.wait_ns, strict=False):
            yield (), RankStep(rank=row.rank, step=step, lateness_ns=late, wait_ns=wait)


def _rank_map(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], RankPart]]:
    drawn = whole.rank_map
    if drawn is None:
        return
    for row in drawn.rows:
        at = 0
        for place, same in itertools.groupby(row.cells):
            count = len(tuple(same))
            if 0 <= place < len(drawn.parts):
                yield (
                    (),
                    RankPart(
                        rank=row.rank,
                        start_ns=drawn.start_ns + at * drawn.cell_ns,
                        dur_ns=count * drawn.cell_ns,
                        part=drawn.parts[place],
                    ),
                )
            at += count


def _in(part: str, rows: str) -> Callable[[report.Report], Iterator[tuple[tuple[Cell, ...], msgspec.Struct]]]:
    """The rows in a part of the report that may be absent."""

    def source(whole: report.Report) -> Iterator[tuple[tuple[Cell, ...], msgspec.Struct]]:
        found = getattr(whole, part)
        yield from (((), row) for row in (() if found is None else getattr(found, rows)))

    return source


_Source = Callable[[report.Report], Iterable[tuple[tuple[Cell, ...], msgspec.Struct]]]


def _plain(name: str) -> _Source:
    return lambda whole: (((), row) for row in getattr(whole, name))


def _of_findings(name: str) -> _Source:
    return lambda whole: (((each.id,), row) for each in whole.findings for row in getattr(each, name))


# Table -> part of the report it lists, columns in front of the part's own, and where its rows are.
_TABLES: dict[str, tuple[type[msgspec.Struct], tuple[str, ...], _Source]] = {
    "accounting": (report.Accounting, (), _plain("accounting")),
    "steps": (report.Step, (), _plain("steps")),
    "operators": (report.Operator, (), _plain("operators")),
    "operator_shapes": (report.OperatorShape, (), _plain("operator_shapes")),
    "modules": (report.Module, (), _plain("modules")),
    "efficiency": (report.Efficiency, (), _plain("efficiency")),
    "kernels": (report.Kernel, (), _plain("kernels")),
    "collectives": (report.Collective, (), _plain("collectives")),
    "memory": (report.Memory, (), _plain("memory")),
    "findings": (report.Finding, (), _plain("findings")),
    "evidence": (report.Evidence, ("finding",), _of_findings("evidence")),
    "culprits": (report.Named, ("finding",), _of_findings("culprits")),
    "remedies": (report.Remedy, ("finding",), _of_findings("remedies")),
    "undecided": (report.Undecided, (), _plain("undecided")),
    "issues": (report.HealthIssue, (), lambda whole: (((), row) for row in whole.health.issues)),
    "withheld": (report.Withheld, (), lambda whole: (((), row) for row in whole.health.withheld)),
    "inputs": (report.Input, (), _plain("inputs")),
    "stragglers": (report.Straggler, (), _plain("stragglers")),
    "lateness": (RankStep, (), _lateness),
    "rank_map": (RankPart, (), _rank_map),
    "clocks": (report.RankClock, (), _in("clocks", "ranks")),
    "signals": (report.SignalSummary, (), _plain("signals")),
    "signal_points": (SignalPoint, _OWNED, _points),
    "signal_steps": (report.SignalStep, _OWNED, _signal_steps),
    "telemetry_clocks": (report.TelemetryClock, (), _in("clocks", "telemetry")),
    "events": (report.Event, (), _plain("events")),
    "progress": (report.Progress, (), _plain("progress")),
    "own_cost": (report.OwnCost, (), _plain("own_cost")),
    "patterns": (report.Pattern, (), _plain("patterns")),
    "pattern_evidence": (report.Evidence, ("pattern", "side", "device.uuid"), _pattern_evidence),
    "walks": (WalkStation, ("walk", "title"), _walks),
    "hints": (report.Hint, (), _plain("hints")),
    "what_if": (report.WhatIf, (), _in("replay", "what_if")),
    "critical_path": (report.PathPart, (), _in("replay", "critical_path")),
}
TABLES = tuple(_TABLES)
_FRONT: dict[str, Kind] = {"device.index": "integer"}
"""Columns in front that are no texts."""


@cache
def columns(name: str) -> tuple[Column, ...]:
    """The columns of a table, always the same."""
    part, before, _ = _TABLES[name]
    own = sorted(_columns(part, "", ()), key=lambda column: column.name != "rank")
    return (*(Column(each, _FRONT.get(each, "text"), ()) for each in before), *own)


def table(whole: report.Report, name: str) -> Table:
    """One table of a report. Raises KeyError for a name that is not in `TABLES`."""
    _, before, source = _TABLES[name]
    wanted = columns(name)
    own = wanted[len(before) :]
    rows = tuple((*front, *(_cell(part, column.path) for column in own)) for front, part in source(whole))
    return Table(name, wanted, rows)


def _columns(part: type[msgspec.Struct], prefix: str, path: tuple[str, ...]) -> Iterator[Column]:
    hints = typing.get_type_hints(part)
    for field in msgspec.structs.fields(part):
        kind = _without_none(hints[field.name])
        here = (*path, field.name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from _columns(kind, f"{prefix}{field.encode_name}.", here)
        elif typing.get_origin(kind) is tuple:
            if not _holds_parts(kind):
                yield Column(prefix + field.encode_name, "text", here)
        else:
            yield Column(prefix + field.encode_name, _KINDS.get(kind, "text"), here)


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return kinds[0] if len(kinds) == 1 else str
    return kind


def _holds_parts(kind: Any) -> bool:
    """Whether a list holds parts or pairs: those are a table of their own."""
    return any(
        typing.get_origin(each) is tuple or (isinstance(each, type) and issubclass(each, msgspec.Struct))
        for each in typing.get_args(kind)
    )


def _cell(part: Any, path: tuple[str, ...]) -> Cell:
    """The value at a path. A list becomes its numbers with blanks between, or its texts with `; `, and `None`
    where it is empty. A lone surrogate, which no UTF-8 can carry, and a NUL are U+FFFD."""
    for name in path:
        if part is None:
            return None
        part = getattr(part, name)
    if isinstance(part, tuple):
        has_text = any(isinstance(each, str) for each in part)
        part = ("; " if has_text else " ").join(map(str, part)) or None
    if isinstance(part, str) and not part.isascii():
        part = part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(part, str):
        part = part.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return typing.cast("Cell", part)
