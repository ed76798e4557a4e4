"""Series for pictures, from raw rows or from the coarsest rollup that still has two points a pixel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stepscope.model.error import UsageError
from stepscope.model.sample import F64
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64
from stepscope.store.contract import Line
from stepscope.store.name import owner_name
from stepscope.store.piece import Piece
from stepscope.store.retention import DAY_NS, HOUR_NS, MINUTE_NS, WEEK_NS, Retention
from stepscope.store.ring import Ring
from stepscope.store.rollup import STEPS
from stepscope.store.row import Columns, Rows, filled
from stepscope.store.schema import KINDS
from stepscope.store.step import StepReader, owner_text
from stepscope.store.thin import thin_all
from stepscope.store.who import Asked, in_list

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

MOST_RAW_STEPS_NS = 3 * HOUR_NS
"""Of step series, whose raw points are put together from marks one by one."""
_LIVE_NS = 6 * HOUR_NS
_WIDTHS = {"minute": MINUTE_NS, "hour": HOUR_NS, "day": DAY_NS, "week": WEEK_NS}
RANK_LABELS = ("job", "run", "rank", "pod", "namespace", "scheduler_job")


@dataclass(slots=True)
class _Part:
    """One series of one owner and source, ascending in time."""

    signal: str
    owner: int
    labels: dict[str, str]
    at_ns: I64
    least: F64
    most: F64


class Pictures:
    """Draws [start, end) in so many pixels."""

    def __init__(
        self, rows: Rows, steps: StepReader, retention: Retention, as_of_ns: Callable[[], int]
    ) -> None:
        self._rows, self._steps, self._keeper = rows, steps, rows.keeper
        self._retention, self._as_of_ns = retention, as_of_ns

    def lines(
        self, signals: Sequence[str], start_ns: int, end_ns: int, pixels: int, asked: Asked
    ) -> tuple[Line, ...]:
        """As `contract.Store.lines`."""
        if end_ns <= start_ns or pixels < 1:
            raise UsageError("lines: the window is empty; give an end after its start, and a pixel at least")
        width = -(-(end_ns - start_ns) // pixels)
        resolution = self.resolution(start_ns, width)
        of_samples = [each for each in dict.fromkeys(signals) if each in SIGNALS]
        of_steps = [each for each in dict.fromkeys(signals) if each not in SIGNALS]
        found: list[Line] = []
        if of_samples:
            parts = self._raw(of_samples, start_ns, end_ns, asked)
            if resolution != "raw":
                parts = [*self._rolled(resolution, of_samples, start_ns, end_ns, width, asked), *parts]
            found += self._drawn(parts, resolution, start_ns, width)
        if of_steps:
            found += self._of_steps(of_steps, start_ns, end_ns, width, asked, resolution)
        return tuple(found)

    def resolution(self, start_ns: int, width_ns: int) -> str:
        """The coarsest of which a pixel holds one at least, of those that are still there."""
        age = self._as_of_ns() - start_ns
        if width_ns < MINUTE_NS and age <= self._retention.raw_ns:
            return "raw"
        if width_ns < HOUR_NS and age <= self._retention.minutes_ns:
            return "minute"
        return "hour" if width_ns < DAY_NS else "day" if width_ns < WEEK_NS else "week"

    def _drawn(self, parts: Sequence[_Part], resolution: str, start_ns: int, width_ns: int) -> list[Line]:
        together: dict[tuple[str, int], list[_Part]] = {}
        for part in parts:
            together.setdefault((part.signal, part.owner), []).append(part)
        alike: dict[int, list[_Part]] = {}  # series that share their times are thinned at once
        for mine in together.values():
            part = mine[0] if len(mine) == 1 else _joined(mine)
            alike.setdefault(id(part.at_ns), []).append(part)
        lines = []
        for group in alike.values():
            least, most = [part.least for part in group], [part.most for part in group]
            thinned = thin_all(group[0].at_ns, least, most, start_ns, width_ns)
            for part, (at_ns, value) in zip(group, thinned, strict=True):
                known = SIGNALS.get(part.signal)
                unit = known.unit if known is not None else STEPS.get(part.signal, "1")
                name = owner_name(*self._keeper.names.owner(part.owner))
                lines.append(Line(part.signal, unit, name, part.labels, resolution, at_ns, value))
        return lines

    def _where(self, asked: Asked) -> str:
        labels = in_list("labels", asked.labels(self._keeper))
        return f"{labels} AND {in_list('owner', asked.owners(self._keeper))}"

    def _raw(self, signals: Sequence[str], start_ns: int, end_ns: int, asked: Asked) -> list[_Part]:
        where = self._where(asked)

        def read(cursor: Cursor, files: list[Piece]) -> list[tuple[tuple[str, ...], Columns]]:
            found = []
            for kind in KINDS:
                relation, known = self._rows.relation(cursor, files, kind, signals, start_ns, end_ns)
                if known:
                    chosen = ", ".join(
                        ["owner", "source", "labels", "at_ns", *(f'"{name}"' for name in known)]
                    )
                    rows = cursor.execute(f"SELECT {chosen} FROM {relation} WHERE {where}").fetchnumpy()
                    found.append((known, {name: filled(column) for name, column in rows.items()}))
            return found

        every = self._keeper.names.labels()
        return [
            part for known, columns in self._rows.look(read, []) for part in _split(known, columns, every)
        ]

    def _rolled(
        self,
        resolution: str,
        signals: Sequence[str],
        start_ns: int,
        end_ns: int,
        width_ns: int,
        asked: Asked,
    ) -> list[_Part]:
        where = self._where(asked)

        def read(cursor: Cursor, files: list[Piece]) -> tuple[Columns, list[tuple[int, int, int, int]]]:
            live = " UNION ALL ".join(
                f"SELECT owner, labels, at_ns AS first_ns, at_ns AS last_ns FROM raw_{kind}" for kind in KINDS
            )
            whose = cursor.execute(
                "SELECT owner, min(first_ns), max(last_ns), arg_max(labels, last_ns) FROM "
                f"(SELECT owner, labels, first_ns, last_ns FROM stretch UNION ALL {live}) "
                f"WHERE first_ns < {end_ns} AND last_ns >= {start_ns} AND {where} GROUP BY owner"
            ).fetchall()
            of = {owner: (first, last) for owner, first, last, _ in whose}
            return self._rollup(cursor, files, resolution, signals, of, start_ns, end_ns, width_ns), whose

        empty: tuple[Columns, list[tuple[int, int, int, int]]] = ({}, [])
        columns, whose = self._rows.look(read, empty)
        labels = {row[0]: self._keeper.names.labels()[row[3]] for row in whose}
        return [
            _Part(self._keeper.names.texts["signal"][signal], owner, labels[owner], at_ns, value, value)
            for signal, owner, at_ns, value in _series_of(columns)
        ]

    def _rollup(
        self,
        cursor: Cursor,
        files: list[Piece],
        resolution: str,
        signals: Sequence[str],
        owners: Mapping[int, tuple[int, int]],
        start_ns: int,
        end_ns: int,
        width_ns: int,
    ) -> Columns:
        """The least and the most of each pixel, of the owners while they were there: from the first to the
        last of these times."""
        known = self._keeper.names.ids["signal"]
        ids = [number for each in signals if (number := known.get(each)) is not None]
        if not ids or not owners:
            return {}
        window = f"at_ns >= {start_ns} AND at_ns < {end_ns}"
        where = f"{window} AND {in_list('signal', ids)} AND {in_list('owner', list(owners))}"
        chosen = "signal, owner, source, at_ns, least, most"
        sql = f"SELECT {chosen} FROM {resolution} WHERE {where}"
        if resolution == "minute":
            pieces = self._rows.pieces.named(cursor, "minute", start_ns, end_ns)
            files += pieces
            if pieces:
                sql += f" UNION ALL SELECT {chosen} FROM {self._rows.pieces.relation(pieces)} WHERE {where}"
        bucket = _WIDTHS[resolution]
        joined = ""
        if any(first - bucket >= start_ns or last < end_ns - 1 for first, last in owners.values()):
            there = ", ".join(f"({own}, {first - bucket}, {last})" for own, (first, last) in owners.items())
            joined = (
                f"JOIN (VALUES {there}) w(o, first_ns, last_ns) "
                "ON o = owner AND at_ns > first_ns AND at_ns <= last_ns "
            )
        return {
            name: filled(column)
            for name, column in cursor.execute(
                f"SELECT signal, owner, source, (at_ns - {start_ns}) // {width_ns} AS pixel, "
                "min(least) AS least, arg_min(at_ns, least) AS least_ns, max(most) AS most, "
                f"arg_max(at_ns, most) AS most_ns FROM ({sql}) {joined}"
                "GROUP BY signal, owner, source, pixel ORDER BY signal, owner, source, pixel"
            )
            .fetchnumpy()
            .items()
        }

    def _of_steps(
        self, signals: Sequence[str], start_ns: int, end_ns: int, width_ns: int, asked: Asked, resolution: str
    ) -> list[Line]:
        rings = asked.rings(self._keeper)
        if resolution == "raw" and end_ns - start_ns > MOST_RAW_STEPS_NS:
            resolution = "minute"
        owners = {number: ring for ring in rings if (number := self._owner(ring)) is not None}
        parts: list[_Part] = []
        raw_from = start_ns
        if resolution != "raw":

            def read(cursor: Cursor, files: list[Piece]) -> tuple[Columns, int | None]:
                there = dict.fromkeys(owners, (start_ns, end_ns))
                columns = self._rollup(cursor, files, resolution, signals, there, start_ns, end_ns, width_ns)
                waiting = cursor.execute(
                    f"SELECT min(at_ns) FROM raw_mark WHERE at_ns >= {start_ns} AND at_ns < {end_ns}"
                ).fetchone()
                return columns, waiting[0] if waiting is not None else None

            empty: tuple[Columns, int | None] = ({}, None)
            columns, first = self._rows.look(read, empty)
            raw_from = end_ns if first is None else max(first, end_ns - _LIVE_NS)
            for signal, owner, at_ns, value in _series_of(columns):
                name = self._keeper.names.texts["signal"][signal]
                parts.append(_Part(name, owner, _labels(owners[owner]), at_ns, value, value))
        if raw_from < end_ns:
            for ring, series in self._steps.series(rings, raw_from, end_ns):
                for name in signals:
                    if name in series:
                        at_ns, value = series[name]
                        order = np.argsort(at_ns, kind="stable")
                        at_ns, value = at_ns[order], value[order]
                        (owner,) = self._keeper.settle("owner", [owner_text(ring)])
                        parts.append(_Part(name, owner, _labels(ring), at_ns, value, value))
        return self._drawn(parts, resolution, start_ns, width_ns)

    def _owner(self, ring: Ring) -> int | None:
        return self._keeper.names.ids["owner"].get(owner_text(ring))


def _labels(ring: Ring) -> dict[str, str]:
    return {name: value for name in RANK_LABELS if (value := ring.text(name)) is not None}


def _joined(parts: Sequence[_Part]) -> _Part:
    """Rollups and what is not rolled up yet; or two sources of one owner, of which the fuller one counts at
    each time."""
    at_ns = np.concatenate([each.at_ns for each in parts])
    least, most = (np.concatenate([getattr(each, name) for each in parts]) for name in ("least", "most"))
    order = np.argsort(at_ns, kind="stable")
    return _Part(parts[-1].signal, parts[-1].owner, parts[-1].labels, at_ns[order], least[order], most[order])


def _split(signals: Sequence[str], columns: Columns, labels: Mapping[int, dict[str, str]]) -> Iterator[_Part]:
    """Series of raw rows; of two sources of a signal the one with more samples."""
    order = np.lexsort((columns["at_ns"], columns["source"], columns["owner"]))
    if not len(order):
        return
    sorted_: dict[str, npt.NDArray[Any]] = columns
    if (order[1:] < order[:-1]).any():  # a file's rows come in order
        sorted_ = {name: column[order] for name, column in columns.items()}
    owner, source = sorted_["owner"], sorted_["source"]
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(source) != 0)) + 1
    ends = [*cuts.tolist(), len(order)]
    best: dict[tuple[str, int], _Part] = {}
    begin = 0
    for end in ends:
        part = slice(begin, end)
        begin = end
        times, who = sorted_["at_ns"][part], int(owner[end - 1])
        for signal in signals:
            value = sorted_[signal][part]
            known = ~np.isnan(value)
            num = int(np.count_nonzero(known))
            if not num or ((signal, who) in best and len(best[signal, who].at_ns) >= num):
                continue
            at_ns = times
            if num < len(value):
                at_ns, value = times[known], value[known]
            mine = labels[int(sorted_["labels"][end - 1])]
            best[signal, who] = _Part(signal, who, mine, at_ns, value, value)
    yield from best.values()


def _series_of(columns: Columns) -> Iterator[tuple[int, int, I64, F64]]:
    """(signal, owner, times, values) of pixels in order; of two sources the one with more of them."""
    if not columns or not len(columns["pixel"]):
        return
    is_swapped = columns["least_ns"] > columns["most_ns"]
    at_ns = np.stack([columns["least_ns"], columns["most_ns"]], axis=1)
    value = np.stack([columns["least"], columns["most"]], axis=1)
    at_ns[is_swapped], value[is_swapped] = at_ns[is_swapped][:, ::-1], value[is_swapped][:, ::-1]
    keys = np.stack([columns["signal"], columns["owner"], columns["source"]])
    ends = [*(np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1).tolist(), keys.shape[1]]
    best: dict[tuple[int, int], slice] = {}
    begin = 0
    for end in ends:
        key = (int(columns["signal"][begin]), int(columns["owner"][begin]))
        if key not in best or best[key].stop - best[key].start < end - begin:
            best[key] = slice(begin, end)
        begin = end
    for (signal, owner), part in best.items():
        yield signal, owner, at_ns[part].reshape(-1), value[part].reshape(-1)
