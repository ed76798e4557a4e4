"""A request's batches into the file: one transaction, together with the agent's and the rings' numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples
from stepscope.store import ring as rings
from stepscope.store.clean import Cleaner
from stepscope.store.contract import Kept
from stepscope.store.database import Database
from stepscope.store.home import Homes
from stepscope.store.layout import Layout
from stepscope.store.name import Names, text_of
from stepscope.store.ring import Ring
from stepscope.store.schema import KINDS, MARK_COLUMNS
from stepscope.store.stretch import Stretches, has, joined, without_narrow
from stepscope.store.wide import Block, Widener
from stepscope.store.wide import joined as joined_blocks

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

_I64 = 1 << 63
MARK_FIELDS = ("number", "record_kind", "flags", "step", "mono_ns", "real_ns", "a", "b", "c")
MOST_TOGETHER = 64
"""Requests in one transaction."""
MOST_GAPS = 64
"""In an agent's numbers that are remembered."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits for its turn, and what came of it."""

    batches: Sequence[Batch]
    kept: Kept | None = None
    error: BaseException | None = None


class Keeper:
    """What the store remembers of agents, rings and names, and the one way in. Whoever uses it holds the
    database's lock; `keep` takes it."""

    def __init__(self, database: Database, now_ns: Callable[[], int]) -> None:
        self._db, self._now_ns = database, now_ns
        self.names = Names()
        self.rings: dict[tuple[str, str], Ring] = {}
        self.acks: dict[str, tuple[int, int]] = {}
        """Of each agent (last number, newest time of its rows)."""
        self._held: dict[str, Stretches] = {}
        """Of each agent the numbers that are here: a number far ahead keeps none out that lies before it."""
        self.homes = Homes(now_ns)
        self.columns: dict[str, set[str]] = {}
        """Signals that a table of samples has a column of."""
        self._next_ring = 0
        self.n = 0
        self.unknown: dict[str, int] = {}
        """Samples of signals that are not known; `""`: columns that make no sense."""
        self.foreign: dict[tuple[str, str], int] = {}
        """Batches that were left out, by (agent, another agent's host)."""
        self._queue: list[_Waiting] = []
        self._queue_lock = threading.Lock()
        self._clean = Cleaner()
        self._widen = Widener(self.names)
        self.load()

    def load(self) -> None:
        """What the file says, in the place of what was remembered."""
        cursor = self._db.cursor()
        try:
            self.names.load(cursor)
            self._widen.forget()
            rows = cursor.execute("SELECT arg_max(body, n) FROM ring GROUP BY id ORDER BY id").fetchall()
            found = [msgspec.json.decode(row[0], type=Ring) for row in rows]
            self.rings = {(each.host, each.ring): each for each in found}
            self._next_ring = max((each.id for each in found), default=-1) + 1
            self.homes.load(found)
            acks = cursor.execute(
                "SELECT agent, max(seq), max(newest_ns), max(n), arg_max(held, n) FROM ack GROUP BY agent"
            ).fetchall()
            self.acks = {agent: (seq, newest) for agent, seq, newest, *_ in acks}
            self._held = {
                agent: msgspec.json.decode(held, type=Stretches) if held else [(1, seq)]
                for agent, seq, _, _, held in acks
            }
            self.n = max((row[3] for row in acks), default=0)
            self.columns = {kind: set() for kind in KINDS}
            described = cursor.execute(
                "SELECT table_name, column_name FROM duckdb_columns() WHERE table_name LIKE 'raw_%' "
                "AND data_type = 'DOUBLE'"
            ).fetchall()
            for table, column in described:
                if table[4:] in self.columns:
                    self.columns[table[4:]].add(column)
        finally:
            cursor.close()

    def settle(self, kind: str, texts: Sequence[str]) -> list[int]:
        """Numbers of these texts, on the disk."""
        with self._db.lock:
            if any(each not in self.names.ids[kind] for each in texts):
                with self._db.writing() as cursor:
                    for each in texts:
                        self.names.id(kind, each)
                    self.names.write(cursor)
            return [self.names.ids[kind][each] for each in texts]

    def forget(
        self, cursor: Cursor, names: dict[str, set[int]], ringed: Sequence[Ring], before_ns: int
    ) -> None:
        """Let go of names that no row has, of rings, and of agents not heard since, in the transaction that
        is open."""
        self.names.forget(cursor, names)
        self._widen.forget()
        for ring in ringed:
            del self.rings[ring.host, ring.ring]
        cursor.execute("DELETE FROM ring WHERE id IN (SELECT unnest(?))", [[each.id for each in ringed]])
        silent = [agent for agent, (_, newest) in self.acks.items() if newest < before_ns]
        for agent in silent:
            del self.acks[agent]
            self._held.pop(agent, None)
        self.homes.forget(silent)
        cursor.execute("DELETE FROM ack WHERE agent IN (SELECT unnest(?))", [silent])

    def keep(self, batches: Sequence[Batch]) -> Kept:
        """As `contract.Store.keep`. Requests that wait for one another go into one transaction: the disk is
        waited for once, and each is answered after that."""
        if not batches:
            return Kept(0, ())
        if any(each.agent != batches[0].agent for each in batches):
            raise ValueError("batches of one agent are kept at a time")
        mine = _Waiting(batches)
        with self._queue_lock:
            self._queue.append(mine)
        while mine.kept is None and mine.error is None:
            with self._db.lock:  # whoever comes first takes along all that wait by then
                if mine.kept is None and mine.error is None:
                    with self._queue_lock:
                        group, self._queue = self._queue[:MOST_TOGETHER], self._queue[MOST_TOGETHER:]
                    self._together(group)
        if mine.error is not None:
            raise mine.error
        assert mine.kept is not None
        return mine.kept

    def _together(self, group: Sequence[_Waiting]) -> None:
        """Keep them all, or each by itself where that fails: one must not be refused for another's sake."""
        try:
            kept = self._kept(group)
        except BaseException as error:  # noqa: BLE001  it is raised again in the thread that asked
            if len(group) == 1:
                group[0].error = error
                return
            for each in group:
                self._together([each])
        else:
            for each, one in zip(group, kept, strict=True):
                each.kept = one

    def _kept(self, group: Sequence[_Waiting]) -> list[Kept]:
        acks: dict[str, tuple[int, int]] = {}
        held: dict[str, Stretches] = {}
        news: list[list[tuple[Batch, Layout | None]]] = []
        for each in group:
            agent = each.batches[0].agent
            self.homes.hear(agent, each.batches[0].host)
            last, newest = acks.get(agent) or self.acks.get(agent, (0, 0))
            here = held.get(agent) or self._held.get(agent, [])
            new: list[tuple[Batch, Layout | None]] = []
            came: Stretches = []
            for batch in each.batches:
                if has(here, batch.seq) or has(came, batch.seq):
                    continue
                came = joined(came, [(batch.seq, batch.seq)])
                layout = self._widen.known(batch) if isinstance(batch, Samples) else None
                clean = self._clean(batch, layout is not None)
                if self._is_admitted(clean):
                    new.append((clean, layout))
            news.append(new)
            if came:
                acks[agent] = (max(last, came[-1][1]), newest)
                held[agent] = without_narrow(joined(here, came), MOST_GAPS)
        if not acks:
            return [Kept(each.batches[-1].seq, ()) for each in group]
        all_new = [batch for new in news for batch, _ in new]
        with self._db.writing() as cursor:
            self.n += 1
            blocks: dict[str, list[Block]] = {}
            num_samples = [0] * len(group)
            for place, new in enumerate(news):
                for batch, layout in new:
                    if isinstance(batch, Samples):
                        wide = self._widen(batch, layout, self.unknown)
                        acks[batch.agent] = _later(acks[batch.agent], (b.newest_ns for b in wide.values()))
                        for kind, block in wide.items():
                            blocks.setdefault(kind, []).append(block)
                            num_samples[place] += block.num_samples
                    elif isinstance(batch, Marks | Lines):
                        times = batch.real_ns if isinstance(batch, Marks) else batch.at_ns
                        acks[batch.agent] = _later(acks[batch.agent], times)
            fresh = self._marks(cursor, [each for each in all_new if isinstance(each, Marks)])
            self._events(cursor, [each for each in all_new if isinstance(each, Happened)])
            self._lines(cursor, [each for each in all_new if isinstance(each, Lines)])
            for kind, parts in blocks.items():
                self._block(cursor, kind, joined_blocks(parts))
            self.names.write(cursor)
            rows = [
                (agent, last, newest, self.n, text_of(held[agent])) for agent, (last, newest) in acks.items()
            ]
            places = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
            cursor.execute(f"INSERT INTO ack VALUES {places}", [value for row in rows for value in row])
        self.acks |= acks
        self._held |= held
        return [
            Kept(
                each.batches[-1].seq,
                tuple(fresh[id(batch)] if isinstance(batch, Marks) else batch for batch, _ in new),
                num,
            )
            for each, new, num in zip(group, news, num_samples, strict=True)
        ]

    def _is_admitted(self, batch: Batch) -> bool:
        """Whether it is its agent's to send. AnotherAgentError where that is not known yet."""
        ring = self.rings.get((batch.host, batch.ring)) if isinstance(batch, Marks) else None
        if self.homes.admits(batch, ring):
            return True
        key = (batch.agent, batch.host)
        if key in self.foreign or len(self.foreign) < MOST_TOGETHER:
            self.foreign[key] = self.foreign.get(key, 0) + 1
        return False

    def _block(self, cursor: Cursor, kind: str, block: Block) -> None:
        for signal in block.signals:
            if signal not in self.columns[kind]:
                cursor.execute(f'ALTER TABLE raw_{kind} ADD COLUMN "{signal}" DOUBLE')
                self.columns[kind].add(signal)
        rows = block.all_columns()
        into = ", ".join(f'"{name}"' for name in (*rows, "n"))
        chosen = ", ".join(f'"{name}"' for name in rows)
        cursor.execute(f"INSERT INTO raw_{kind} ({into}) SELECT {chosen}, {self.n} FROM rows")

    def _marks(self, cursor: Cursor, batches: Sequence[Marks]) -> dict[int, Marks]:
        """What is new of each batch, by its identity: of two agents two may have one number."""
        found: dict[int, Marks] = {}
        parts: list[dict[str, Any]] = []
        touched: dict[int, Ring] = {}
        for batch in batches:
            if not rings.is_whole(batch):
                self.unknown[""] = self.unknown.get("", 0) + len(batch.number)
                found[id(batch)] = _some(batch, np.zeros(0, dtype=np.bool_))
                continue
            key = (batch.host, batch.ring)
            ring = self.rings.get(key)
            if ring is None:
                ring = self.rings[key] = Ring(self._next_ring, batch.ring, batch.host, batch.agent)
                ring.came_ns = self._now_ns()
                self._next_ring += 1
            is_new = rings.fresh(ring, batch)
            rings.take(ring, batch, is_new)
            touched[ring.id] = ring
            fresh = batch if is_new.all() else _some(batch, is_new)
            found[id(batch)] = fresh
            if fresh.number:
                parts.append({"ring": [ring.id] * len(fresh.number), **_columns(fresh)})
        if touched:
            bodies = [msgspec.json.encode(each).decode() for each in touched.values()]
            cursor.execute(f"INSERT INTO ring SELECT unnest(?), unnest(?), {self.n}", [list(touched), bodies])
        if parts:
            rows: dict[str, Any] = {  # noqa: F841  DuckDB reads it by its name
                name: np.array([each for part in parts for each in part[name]], dtype=kind)
                for name, kind in _MARK_TYPES.items()
            }
            chosen = ", ".join(MARK_COLUMNS[:-1])
            cursor.execute(f"INSERT INTO raw_mark SELECT {chosen}, {self.n} FROM rows")
        return found

    def _events(self, cursor: Cursor, batches: Sequence[Happened]) -> None:
        for each in batches:
            if not -_I64 <= each.at_ns < _I64:
                self.unknown[""] = self.unknown.get("", 0) + 1
                continue
            owner = text_of(each.owner) if each.owner is not None else None
            code = each.code if each.code is not None and -_I64 <= each.code < _I64 else None
            labels = self._widen.labels(each.labels)
            row = [each.at_ns, each.host, each.what, each.text, code, owner, labels, each.agent, self.n]
            cursor.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _lines(self, cursor: Cursor, batches: Sequence[Lines]) -> None:
        rows: list[tuple[Any, ...]] = []
        for each in batches:
            labels = self._widen.labels(each.labels)
            rows += [
                (at_ns, each.host, each.log, each.name, labels, each.agent, text)
                for at_ns, text in zip(each.at_ns, each.text, strict=False)
                if -_I64 <= at_ns < _I64
            ]
        if rows:
            columns = [list(each) for each in zip(*rows, strict=True)]
            asked = ", ".join("unnest(?)" for _ in columns)
            cursor.execute(f"INSERT INTO raw_line SELECT {asked}, {self.n}", columns)


_MARK_TYPES: dict[str, type] = {
    "ring": np.int32, "number": np.int64, "at_ns": np.int64, "record_kind": np.int32, "flags": np.int32,
    "step": np.int64, "mono_ns": np.int64, "a": np.int64, "b": np.float64, "c": np.float64,
}  # fmt: skip


def _columns(batch: Marks) -> dict[str, list[Any]]:
    return {("at_ns" if name == "real_ns" else name): getattr(batch, name) for name in MARK_FIELDS}


def _some(batch: Marks, is_new: np.ndarray[Any, np.dtype[np.bool_]]) -> Marks:
    """The batch with some of its records."""
    places = np.flatnonzero(is_new).tolist()
    return msgspec.structs.replace(
        batch, **{name: [getattr(batch, name)[place] for place in places] for name in MARK_FIELDS}
    )


def _later(ack: tuple[int, int], times: Iterable[int]) -> tuple[int, int]:
    """With the newest time of these, of rows alone: events may tell of the past or of nothing."""
    return ack[0], max(ack[1], min(max(times, default=0), _I64 - 1))
