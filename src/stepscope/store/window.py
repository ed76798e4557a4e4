"""A stored window as a spool would give it: batches, telemetry, marks, logs, events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.model.batch import Batch, BatchOwner, Happened, Lines, Marks, Samples
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.model.sample import Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.model.stuck import Stack
from stepscope.sources.spool_column import FORMAT, Whole
from stepscope.sources.spool_log import logs_of, stacks_of_lines
from stepscope.sources.wide_row import Meanings, samples_of_rows
from stepscope.store.piece import Piece
from stepscope.store.retention import MINUTE_NS
from stepscope.store.row import Rows, filled
from stepscope.store.schema import KINDS
from stepscope.store.step import StepReader
from stepscope.store.who import Asked, in_list, nobodys, owners_on

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

NAME = "store"
"""What its telemetry and logs are called."""
_MOST_RECORDS = 20_000
"""Of one batch of marks: a few megabytes."""


class Window:
    """Reads of [start, end). Of a job what its labels name, and what nobody has on its hosts."""

    def __init__(self, rows: Rows, steps: StepReader) -> None:
        self._rows, self._keeper, self._steps = rows, rows.keeper, steps

    def telemetry(
        self, job: str | None, run: str | None, start_ns: int, end_ns: int
    ) -> tuple[Telemetry, ...]:
        """As `contract.Store.telemetry`."""
        whole = Whole()
        found_batches: list[Batch] = [*self._samples(job, run, start_ns, end_ns, None)]
        found_batches += self._marks(job, run, start_ns, end_ns)
        found_batches += self._lines(job, run, start_ns, end_ns)
        found_batches += self.events(job, start_ns, end_ns)
        for each in found_batches:
            whole.take(each)
        whole.close()
        found = whole.telemetry(NAME, job if job in whole.jobs else None)
        notes = self._rows.pieces.notes(start_ns, end_ns)
        if notes:
            first = found[0] if found else Telemetry(NAME, FORMAT, (), "sample")
            found = [replace(first, notes=(*notes, *first.notes)), *found[1:]]
        return tuple(found)

    def marks(self, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
        """As `contract.Store.marks`."""
        ends = [each for each in self.events(job, start_ns, end_ns) if each.what == "exit"]
        return tuple(self._steps.marks(Asked(job, run).rings(self._keeper), ends, start_ns, end_ns))

    def logs(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Log, ...]:
        """As `contract.Store.logs`."""
        return tuple(logs_of(self._lines(job, run, start_ns, end_ns), NAME, job))

    def stacks(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Stack, ...]:
        """As `contract.Store.stacks`."""
        return tuple(stacks_of_lines(self._lines(job, run, start_ns, end_ns), job))

    def events(self, job: str | None, start_ns: int, end_ns: int) -> tuple[Happened, ...]:
        """As `contract.Store.events`, by time: those of the job, and those of nobody on its hosts."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[Any]:
            return cursor.execute(
                "SELECT agent, host, at_ns, what, text, code, owner, labels FROM event "
                f"WHERE at_ns >= {start_ns} AND at_ns < {end_ns} AND {self._whose(job, None, True)} "
                "ORDER BY at_ns, n"
            ).fetchall()

        labels = self._keeper.names.labels()
        return tuple(
            Happened(
                agent=str(agent), seq=0, host=str(host), at_ns=at_ns, what=str(what), text=str(text),
                code=code,
                owner=msgspec.json.decode(owner, type=BatchOwner) if owner is not None else None,
                labels=labels[number],
            )
            for agent, host, at_ns, what, text, code, owner, number in self._rows.look(read, [])
        )  # fmt: skip

    def batches(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Batch, ...]:
        """As `contract.Store.batches`: samples a minute a batch, then marks, lines and events."""
        found: list[Batch] = list(self._samples(job, run, start_ns, end_ns, MINUTE_NS))
        for batch in self._marks(job, run, start_ns, end_ns):
            found += _parts(batch)
        found += self._lines(job, run, start_ns, end_ns)
        found += self.events(job, start_ns, end_ns)
        return tuple(
            msgspec.structs.replace(each, agent=NAME, seq=seq) for seq, each in enumerate(found, start=1)
        )

    def _marks(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> list[Marks]:
        rings = Asked(job, run).rings(self._keeper)

        def read(cursor: Cursor, asked: list[Piece]) -> list[Marks]:
            return self._steps.batches(cursor, asked, rings, start_ns, end_ns)

        return self._rows.look(read, [])

    def _hosts(self, job: str, start_ns: int, end_ns: int) -> list[str]:
        """Hosts of a job in the window, as its labels and its rings say."""
        hosts = {each.host for each in Asked(job).rings(self._keeper)}
        mine = in_list("labels", Asked(job).labels(self._keeper))

        def read(cursor: Cursor, asked: list[Piece]) -> set[int]:
            owners: set[int] = set()
            for kind in KINDS:
                relation, _ = self._rows.relation(cursor, asked, kind, (), start_ns, end_ns)
                found = cursor.execute(f"SELECT DISTINCT owner FROM {relation} WHERE {mine}").fetchall()
                owners |= {row[0] for row in found}
            return owners

        known = self._keeper.names.owners()
        return sorted(hosts | {known[number][0] for number in self._rows.look(read, set())})

    def _whose(
        self, job: str | None, run: str | None, is_text: bool, window: tuple[int, int] | None = None
    ) -> str:
        """An SQL condition on rows with `labels`, and `owner` or (`is_text`) `host`."""
        if job is None:
            return "TRUE"
        mine = in_list("labels", Asked(job, run).labels(self._keeper))
        start_ns, end_ns = window or (0, 1 << 62)
        hosts = self._hosts(job, start_ns, end_ns) if window else self._hosts_known(job)
        if is_text:
            quoted = ", ".join("'" + each.replace("'", "''") + "'" for each in hosts) or "NULL"
            there = f"host IN ({quoted})"
        else:
            there = in_list("owner", owners_on(self._keeper, hosts))
        return f"({mine} OR ({in_list('labels', nobodys(self._keeper))} AND {there}))"

    def _hosts_known(self, job: str) -> list[str]:
        """Hosts of a job at any time, from what is remembered and the stretches of sealed hours."""
        hosts = {each.host for each in Asked(job).rings(self._keeper)}
        mine = in_list("labels", Asked(job).labels(self._keeper))

        def read(cursor: Cursor, asked: list[Piece]) -> set[int]:
            parts = [f"SELECT owner, labels FROM raw_{kind}" for kind in KINDS]
            sql = " UNION ALL ".join([*parts, "SELECT owner, labels FROM stretch"])
            return {
                row[0]
                for row in cursor.execute(f"SELECT DISTINCT owner FROM ({sql}) WHERE {mine}").fetchall()
            }

        known = self._keeper.names.owners()
        return sorted(hosts | {known[number][0] for number in self._rows.look(read, set())})

    def _samples(
        self, job: str | None, run: str | None, start_ns: int, end_ns: int, every_ns: int | None
    ) -> list[Samples]:
        whose = self._whose(job, run, False, (start_ns, end_ns))
        names = self._keeper.names
        sources: dict[int, tuple[str, str, int | None, int | None]] = {}
        missing: dict[int, list[tuple[str, str, int]]] = {}

        def source(number: int) -> tuple[str, str, int | None, int | None]:
            if number not in sources:
                kind = tuple[str, str, int | None, int | None]
                sources[number] = msgspec.json.decode(names.texts["source"][number], type=kind)
            return sources[number]

        def absent(number: int) -> list[tuple[str, str, int]]:
            if number not in missing:
                kind = list[tuple[str, str, int]]
                missing[number] = msgspec.json.decode(names.texts["missing"][number], type=kind)
            return missing[number]

        labels = names.labels()
        meanings = Meanings(lambda number: names.owner(number)[1], source, labels.__getitem__, absent)

        def read(cursor: Cursor, asked: list[Piece]) -> list[Samples]:
            found: list[Samples] = []
            for kind in KINDS:
                relation, signals = self._rows.relation(cursor, asked, kind, tuple(SIGNALS), start_ns, end_ns)
                rows = cursor.execute(f"SELECT * FROM {relation} WHERE {whose} ORDER BY n").fetchnumpy()
                columns = {name: filled(column) for name, column in rows.items()}
                found += samples_of_rows(columns, signals, meanings, every_ns=every_ns)
            return found

        return sorted(self._rows.look(read, []), key=_first_ns) if every_ns else self._rows.look(read, [])

    def _lines(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> list[Lines]:
        whose = self._whose(job, run, True)

        def read(cursor: Cursor, asked: list[Piece]) -> list[Any]:
            relation, _ = self._rows.relation(cursor, asked, "line", (), start_ns, end_ns)
            return cursor.execute(
                "SELECT host, log, name, labels, list(at_ns ORDER BY at_ns, n), list(text ORDER BY at_ns, n) "
                f"FROM {relation} WHERE {whose} GROUP BY host, log, name, labels ORDER BY ALL"
            ).fetchall()

        labels = self._keeper.names.labels()
        return [
            Lines(NAME, 0, str(host), str(log), str(name), at_ns, text, labels[number])
            for host, log, name, number, at_ns, text in self._rows.look(read, [])
        ]


def _first_ns(batch: Samples) -> int:
    return min((each.at_ns[0] for each in batch.series), default=0)


def _parts(batch: Marks) -> list[Marks]:
    """The batch in pieces that a frame holds."""
    num = len(batch.number)
    if num <= _MOST_RECORDS:
        return [batch]
    names = ("number", "record_kind", "flags", "step", "mono_ns", "real_ns", "a", "b", "c")
    return [
        msgspec.structs.replace(
            batch,
            num_lost=batch.num_lost if start == 0 else 0,
            **{name: getattr(batch, name)[start : start + _MOST_RECORDS] for name in names},
        )
        for start in np.arange(0, num, _MOST_RECORDS).tolist()
    ]
