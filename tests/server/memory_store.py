"""A store in memory that offers what `store.contract.Store` does: for tests of the server alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.model.sample import Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.sources.marks import marks_of_batches
from stepscope.sources.spool_column import Whole, job_of
from stepscope.sources.spool_log import logs_of
from stepscope.store.contract import DeviceRow, Kept, Line, NodeRow, RankRow, RunRow


@dataclass(frozen=True)
class Doc:
    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


class MemoryStore:
    """`fails` is raised by every write, as a full disk would."""

    def __init__(self) -> None:
        self.kept: list[Batch] = []
        self.last: dict[str, int] = {}
        self.docs: dict[tuple[str, str], Doc] = {}
        self.fails: Exception | None = None
        self.is_closed = False
        self.faults: tuple[tuple[str, int, str], ...] = ()
        self.lock = threading.RLock()

    def keep(self, batches: Sequence[Batch]) -> Kept:
        with self.lock:
            if self.fails is not None:
                raise self.fails
            agent = batches[0].agent
            before = self.last.get(agent, 0)
            fresh = tuple(each for each in batches if each.seq > before)
            self.kept += fresh
            self.last[agent] = max(before, batches[-1].seq)
            num = sum(len(s.value) for each in fresh if isinstance(each, Samples) for s in each.series)
            return Kept(self.last[agent], fresh, num)

    def notes(
        self, start_ns: int | None = None, end_ns: int | None = None
    ) -> tuple[tuple[str, int, str], ...]:
        return self.faults

    def _marks(self, job: str | None = None, run: str | None = None) -> list[Marks]:
        return [
            each
            for each in self.kept
            if isinstance(each, Marks)
            and job in (None, job_of(each))
            and run in (None, each.identity.get("run"))
        ]

    def runs(self, job: str | None = None) -> tuple[RunRow, ...]:
        rows: dict[tuple[str, str], RunRow] = {}
        for each in self._marks(job):
            key = (str(each.identity["job"]), str(each.identity.get("run", "")))
            first, last = min(each.real_ns), max(each.real_ns)
            row = rows.get(key) or RunRow(*key, first, last, False, None, (each.host,), {"user": "somebody"})
            rows[key] = replace(row, start_ns=min(row.start_ns, first), last_ns=max(row.last_ns, last))
        return tuple(sorted(rows.values(), key=lambda row: -row.last_ns))

    def ranks(self, job: str, run: str) -> tuple[RankRow, ...]:
        rows = {}
        for each in self._marks(job, run):
            rank = int(each.identity.get("rank", 0))  # type: ignore[arg-type]
            rows[rank] = RankRow(
                rank,
                each.host,
                each.ring,
                each.agent,
                None,
                None,
                max(each.step),
                max(each.real_ns),
                each.is_alive,
            )
        return tuple(rows[rank] for rank in sorted(rows))

    def devices(self) -> tuple[DeviceRow, ...]:
        rows = {}
        for batch in self.kept:
            for series in batch.series if isinstance(batch, Samples) else ():
                if series.owner.kind == "device" and series.owner.uuid and series.at_ns:
                    name = series.owner.uuid
                    rows[name] = DeviceRow(
                        name,
                        batch.host,
                        series.owner.model,
                        series.owner.index,
                        series.at_ns[0],
                        series.at_ns[-1],
                    )
        return tuple(rows.values())

    def nodes(self) -> tuple[NodeRow, ...]:
        hosts = dict.fromkeys(each.host for each in self.kept)
        return tuple(NodeRow(host, 1, 2, 1, 0, 0, 0, 0, None, None) for host in hosts)

    def lines(
        self, signals, start_ns, end_ns, pixels, *, job=None, run=None, ranks=None, devices=None, hosts=None
    ):  # type: ignore[no-untyped-def]
        found = []
        for part in self.telemetry(job, run, start_ns, end_ns):
            for each in part.series:
                if each.signal in signals and (hosts is None or each.owner.host in hosts):
                    name = each.owner.uuid or each.owner.name or str(each.owner.host)
                    found.append(
                        Line(each.signal, SIGNALS[each.signal].unit, name, {}, "raw", each.at_ns, each.value)
                    )
        return tuple(found)

    def telemetry(
        self, job: str | None, run: str | None, start_ns: int, end_ns: int
    ) -> tuple[Telemetry, ...]:
        whole = Whole()
        for each in self.kept:
            whole.take(each)
        whole.close()
        cut = []
        for part in whole.telemetry("store", job):
            series = [
                replace(each, at_ns=each.at_ns[inside], value=each.value[inside])
                for each in part.series
                if (inside := (each.at_ns >= start_ns) & (each.at_ns < end_ns)).any()
            ]
            cut.append(replace(part, series=tuple(series)))
        return tuple(cut)

    def marks(self, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
        return tuple(marks_of_batches(self._marks(job, run)))

    def logs(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Log, ...]:
        return tuple(logs_of([each for each in self.kept if isinstance(each, Lines)], "store", job))

    def events(self, job: str | None, start_ns: int, end_ns: int) -> tuple[Happened, ...]:
        return tuple(
            each for each in self.kept if isinstance(each, Happened) and start_ns <= each.at_ns < end_ns
        )

    def batches(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Batch, ...]:
        kept = [
            each
            for each in self.kept
            if job is None or not isinstance(each, Marks) or each.identity.get("job") == job
        ]
        return tuple(msgspec.structs.replace(each, agent="window", seq=n) for n, each in enumerate(kept, 1))

    def put(self, kind, id, body, *, job=None, run=None, at_ns):  # type: ignore[no-untyped-def]
        with self.lock:
            if self.fails is not None:
                raise self.fails
            self.docs[kind, id] = Doc(kind, id, job, run, at_ns, body)

    def get(self, kind: str, id: str) -> bytes | None:
        found = self.docs.get((kind, id))
        return found.body if found else None

    def documents(self, kind, *, job=None, start_ns=None, end_ns=None, limit=1000):  # type: ignore[no-untyped-def]
        with self.lock:
            rows = [
                each
                for each in self.docs.values()
                if each.kind == kind
                and job in (None, each.job)
                and (start_ns is None or each.at_ns >= start_ns)
                and (end_ns is None or each.at_ns < end_ns)
            ]
        return tuple(sorted(rows, key=lambda each: (-each.at_ns, each.id))[:limit])

    def remove(self, kind: str, id: str) -> bool:
        return self.docs.pop((kind, id), None) is not None

    def put_trace(self, job, run, capture, ring, rank, body):  # type: ignore[no-untyped-def]
        return "none"

    def traces(self, job: str, run: str, capture: int) -> tuple[str, ...]:
        return ()

    def summarise_traces(self, job: str, run: str, capture: int) -> None: ...

    def tend(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True
