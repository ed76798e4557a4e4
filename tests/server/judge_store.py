"""A store in memory: as much of `store.contract.Store` as the loop asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.model.sample import Telemetry
from stepscope.model.stuck import Stack
from stepscope.sources.marks import marks_of_batches
from stepscope.sources.spool_column import Whole
from stepscope.sources.spool_log import logs_of, stacks_of_lines
from stepscope.store.contract import Kept, RankRow, RunRow


@dataclass(frozen=True)
class Kind:
    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


class JudgeStore:
    """Batches and documents in lists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[Batch] = []
        self.late_ns: int | None = None
        """Counters from then on are on their way."""
        self.put_down: dict[tuple[str, str], Kind] = {}
        self.whole: dict[tuple[str, str, int], list[tuple[int, str]]] = {}
        self.summarised: list[tuple[str, str, int]] = []

    def keep(self, batches: Sequence[Batch]) -> Kept:
        self.kept += batches
        return Kept(batches[-1].seq if batches else 0, tuple(batches))

    def batches(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Batch, ...]:
        found: list[Batch] = []
        for each in self.kept:
            cut = _cut(each, start_ns, end_ns)
            if cut is not None:
                found.append(cut)
        return tuple(found)

    def _whole(self, start_ns: int, end_ns: int) -> Whole:
        whole = Whole()
        for each in self.batches(None, None, start_ns, end_ns):
            whole.take(each)
        whole.close()
        return whole

    def telemetry(
        self, job: str | None, run: str | None, start_ns: int, end_ns: int
    ) -> tuple[Telemetry, ...]:
        end_ns = end_ns if self.late_ns is None else min(end_ns, self.late_ns)
        return tuple(self._whole(start_ns, end_ns).telemetry("stored", job))

    def marks(self, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
        whole = self._whole(start_ns, end_ns)
        return tuple(marks_of_batches(whole.marks, [e for e in whole.events if e.what == "exit"]))

    def logs(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Log, ...]:
        return tuple(logs_of(self._whole(start_ns, end_ns).lines, "stored", job))

    def notes(
        self, start_ns: int | None = None, end_ns: int | None = None
    ) -> tuple[tuple[str, int, str], ...]:
        return ()

    def stacks(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Stack, ...]:
        return tuple(stacks_of_lines(self._whole(start_ns, end_ns).lines, job))

    def events(self, job: str | None, start_ns: int, end_ns: int) -> tuple[Happened, ...]:
        return tuple(self._whole(start_ns, end_ns).events)

    def runs(self, job: str | None = None) -> tuple[RunRow, ...]:
        found: dict[tuple[str, str], list[Marks]] = {}
        for each in self.kept:
            if isinstance(each, Marks):
                key = (str(each.identity.get("job")), str(each.identity.get("run")))
                found.setdefault(key, []).append(each)
        rows = []
        for (name, run), mine in found.items():
            at = [t for each in mine for t in each.real_ns]
            world = mine[0].identity.get("world_size")
            is_over = any(each.is_alive is False for each in mine)
            hosts = tuple(sorted({each.host for each in mine}))
            if job in (None, name) and at:
                size = world if isinstance(world, int) else None
                rows.append(RunRow(name, run, min(at), max(at), is_over, size, hosts, {}))
        return tuple(sorted(rows, key=lambda row: -row.last_ns))

    def ranks(self, job: str, run: str) -> tuple[RankRow, ...]:
        return ()

    def put(
        self, kind: str, id: str, body: bytes, *, job: str | None = None, run: str | None = None, at_ns: int
    ) -> None:
        self.put_down[kind, id] = Kind(kind, id, job, run, at_ns, body)

    def get(self, kind: str, id: str) -> bytes | None:
        found = self.put_down.get((kind, id))
        return None if found is None else found.body

    def documents(
        self, kind: str, *, job: str | None = None, start_ns: int | None = None, end_ns: int | None = None,
        limit: int = 1000,
    ) -> tuple[Kind, ...]:  # fmt: skip
        found = [
            each
            for each in self.put_down.values()
            if each.kind == kind
            and job in (None, each.job)
            and (start_ns is None or each.at_ns >= start_ns)
            and (end_ns is None or each.at_ns < end_ns)
        ]
        found.reverse()
        return tuple(sorted(found, key=lambda each: -each.at_ns)[:limit])

    def remove(self, kind: str, id: str) -> bool:
        return self.put_down.pop((kind, id), None) is not None

    def put_trace(self, job: str, run: str, capture: int, ring: str, rank: int | None, body: bytes) -> str:
        path = self.folder / f"{capture}-{rank}.json.gz"
        path.write_bytes(body)
        self.whole.setdefault((job, run, capture), []).append((rank or 0, str(path)))
        return str(path)

    def traces(self, job: str, run: str, capture: int) -> tuple[str, ...]:
        return tuple(path for _, path in sorted(self.whole.get((job, run, capture), ())))

    def summarise_traces(self, job: str, run: str, capture: int) -> None:
        self.summarised.append((job, run, capture))
        self.whole.pop((job, run, capture), None)


def _cut(each: Batch, start_ns: int, end_ns: int) -> Batch | None:
    """What of a batch lies in [start, end)."""
    if isinstance(each, Happened):
        return each if start_ns <= each.at_ns < end_ns else None
    if isinstance(each, Lines):
        rows = [row for row in zip(each.at_ns, each.text, strict=True) if start_ns <= row[0] < end_ns]
        at, text = [row[0] for row in rows], [row[1] for row in rows]
        return replace(each, at_ns=at, text=text) if rows else None
    if isinstance(each, Samples):
        series = []
        for one in each.series:
            pairs = [p for p in zip(one.at_ns, one.value, strict=True) if start_ns <= p[0] < end_ns]
            if pairs:
                series.append(replace(one, at_ns=[p[0] for p in pairs], value=[p[1] for p in pairs]))
        return replace(each, series=series) if series else None
    mine = [n for n, at in enumerate(each.real_ns) if start_ns <= at < end_ns]
    if not mine:
        return None
    columns = ("number", "record_kind", "flags", "step", "mono_ns", "real_ns", "a", "b", "c")
    return replace(each, **{name: [getattr(each, name)[n] for n in mine] for name in columns})
