"""The store: everything that the server keeps, in one folder that one process owns.

`store.duckdb` holds the last hours, rollups, documents and the list of files; `hours/`, `minutes/` and
`traces/` the files. `Store.open` is the way in.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence

from stepscope.model.batch import Batch, Happened
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.model.sample import Telemetry
from stepscope.model.stuck import Stack
from stepscope.store.contract import DeviceRow, Document, Kept, Line, NodeRow, RankRow, RunRow
from stepscope.store.database import FILE, Database
from stepscope.store.document import Documents
from stepscope.store.inventory import Inventory
from stepscope.store.keep import Keeper
from stepscope.store.line import Pictures
from stepscope.store.piece import Pieces
from stepscope.store.retention import Retention
from stepscope.store.row import Rows
from stepscope.store.seal import Sealer
from stepscope.store.step import StepReader
from stepscope.store.trace import Summarise, Traces
from stepscope.store.who import Asked
from stepscope.store.window import Window

MEMORY_BYTES = 1 << 30
THREADS = 2


class Store:
    """As `contract.Store`. Safe to call from several threads.

    Writes raise StoreFullError where nothing can be written now: nothing of the call was kept, and the next
    may work again.
    """

    def __init__(
        self,
        database: Database,
        *,
        now_ns: Callable[[], int],
        retention: Retention,
        summarise: Summarise | None,
        point: Callable[[str], None],
    ) -> None:
        self._db, self._now_ns = database, now_ns
        self._keeper = Keeper(database, now_ns)
        database.failed = self._keeper.load
        self._pieces = Pieces(database, point)
        self._rows = Rows(database, self._keeper, self._pieces)
        steps = StepReader(self._rows)
        self._sealer = Sealer(database, self._keeper, self._pieces, retention, now_ns, steps)
        self._window = Window(self._rows, steps)
        self._pictures = Pictures(self._rows, steps, retention, self._sealer.as_of_ns)
        self._inventory = Inventory(self._rows)
        self._documents = Documents(database, self._rows)
        self._traces = Traces(database, self._rows, self._pieces, retention, summarise)
        self._pieces.remove_leftovers()

    @classmethod
    def open(
        cls,
        folder: str,
        *,
        now_ns: Callable[[], int],
        retention: Retention | None = None,
        summarise: Summarise | None = None,
        memory_bytes: int = MEMORY_BYTES,
        threads: int = THREADS,
        free_bytes: Callable[[], int] | None = None,
        point: Callable[[str], None] = lambda name: None,
    ) -> Store:
        """The store in this folder, made where there is none. `summarise` makes an op summary of a trace;
        without it a trace that is not kept whole leaves none. `free_bytes` says how much room the disk has;
        `point` is called at named points of what must survive a kill (tests).

        RefusedError where another process has it open, UsageError without DuckDB, InputError where its file
        is damaged."""
        retention = retention or Retention()
        database = Database(
            folder,
            memory_bytes=memory_bytes,
            threads=threads,
            free_bytes=free_bytes or (lambda: shutil.disk_usage(folder).free),
            reserve_bytes=retention.reserve_bytes,
        )
        try:
            return cls(database, now_ns=now_ns, retention=retention, summarise=summarise, point=point)
        except BaseException:
            database.close()
            raise

    def keep(self, batches: Sequence[Batch]) -> Kept:
        return self._keeper.keep(batches)

    def last_seq(self, agent: str) -> int:
        """The last number of this agent that is kept, 0 where there is none."""
        with self._db.lock:
            return self._keeper.acks.get(agent, (0, 0))[0]

    def runs(self, job: str | None = None) -> tuple[RunRow, ...]:
        return self._inventory.runs(job)

    def ranks(self, job: str, run: str) -> tuple[RankRow, ...]:
        return self._inventory.ranks(job, run)

    def devices(self) -> tuple[DeviceRow, ...]:
        return self._inventory.devices()

    def nodes(self) -> tuple[NodeRow, ...]:
        return self._inventory.nodes()

    def lines(
        self,
        signals: Sequence[str],
        start_ns: int,
        end_ns: int,
        pixels: int,
        *,
        job: str | None = None,
        run: str | None = None,
        ranks: Sequence[int] | None = None,
        devices: Sequence[str] | None = None,
        hosts: Sequence[str] | None = None,
    ) -> tuple[Line, ...]:
        asked = Asked(
            job,
            run,
            tuple(ranks) if ranks is not None else None,
            tuple(devices) if devices is not None else None,
            tuple(hosts) if hosts is not None else None,
        )
        return self._pictures.lines(signals, start_ns, end_ns, pixels, asked)

    def telemetry(
        self, job: str | None, run: str | None, start_ns: int, end_ns: int
    ) -> tuple[Telemetry, ...]:
        return self._window.telemetry(job, run, start_ns, end_ns)

    def marks(self, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
        return self._window.marks(job, run, start_ns, end_ns)

    def logs(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Log, ...]:
        return self._window.logs(job, run, start_ns, end_ns)

    def stacks(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Stack, ...]:
        return self._window.stacks(job, run, start_ns, end_ns)

    def events(self, job: str | None, start_ns: int, end_ns: int) -> tuple[Happened, ...]:
        return self._window.events(job, start_ns, end_ns)

    def batches(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Batch, ...]:
        return self._window.batches(job, run, start_ns, end_ns)

    def put(
        self, kind: str, id: str, body: bytes, *, job: str | None = None, run: str | None = None, at_ns: int
    ) -> None:
        self._documents.put(kind, id, body, job, run, at_ns)

    def get(self, kind: str, id: str) -> bytes | None:
        return self._documents.get(kind, id)

    def documents(
        self,
        kind: str,
        *,
        job: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        limit: int = 1000,
    ) -> tuple[Document, ...]:
        return self._documents.list(kind, job, start_ns, end_ns, limit)

    def remove(self, kind: str, id: str) -> bool:
        return self._documents.remove(kind, id)

    def put_trace(self, job: str, run: str, capture: int, ring: str, rank: int | None, body: bytes) -> str:
        return self._traces.put(job, run, capture, ring, rank, body, self._now_ns())

    def traces(self, job: str, run: str, capture: int) -> tuple[str, ...]:
        return self._traces.paths(job, run, capture)

    def summaries(self, job: str, run: str, capture: int) -> tuple[str, ...]:
        """Paths of the op summaries (gzip JSON) that stand in the place of whole traces, by rank."""
        return self._traces.paths(job, run, capture, is_whole=False)

    def summarise_traces(self, job: str, run: str, capture: int) -> None:
        self._traces.summarise(job, run, capture)

    def tend(self) -> None:
        self._sealer.tend()
        self._traces.tend(self._sealer.as_of_ns())

    def notes(
        self, start_ns: int | None = None, end_ns: int | None = None
    ) -> tuple[tuple[str, int, str], ...]:
        found = list(self._pieces.notes(start_ns, end_ns))
        if start_ns is not None or end_ns is not None:
            return tuple(found)
        with self._db.lock:
            unknown, foreign = dict(self._keeper.unknown), dict(self._keeper.foreign)
        if unknown:
            names = ", ".join(sorted(name or "columns of unequal length" for name in unknown)[:3])
            found.append(
                ("store_unknown", sum(unknown.values()), f"samples that are not known here ({names})")
            )
        for (agent, host), num in sorted(foreign.items()):
            why = f"agent {agent} sent batches of {host}, which another agent ships; they were left out"
            found.append(("store_foreign", num, why))
        return tuple(found)

    def num_bytes(self) -> int:
        """What the store takes on the disk."""
        total = 0
        for folder, _, files in os.walk(self._db.folder):
            for file in files:
                try:
                    total += os.path.getsize(os.path.join(folder, file))
                except OSError:
                    continue  # removed meanwhile
        return total

    def close(self) -> None:
        self._db.close()


__all__ = ["FILE", "Store"]
