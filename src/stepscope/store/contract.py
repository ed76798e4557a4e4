"""What the store offers, and the nouns of its answers. One process owns it; whoever else asks the server, or
reads sealed Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stepscope.model.batch import Batch, Happened
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.model.sample import F64, Telemetry
from stepscope.model.stuck import Stack
from stepscope.model.trace import I64


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of a request's batches. `seq` is the last number that is on the disk; `fresh` are the batches
    that were new, without the mark records that were there already."""

    seq: int
    fresh: tuple[Batch, ...]
    num_samples: int = 0


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a job. Times as seen; `is_over` where every rank said that it ends, or is gone."""

    job: str
    run: str
    start_ns: int
    last_ns: int
    is_over: bool
    world_size: int | None
    hosts: tuple[str, ...]
    labels: dict[str, str]
    """namespace, pod, scheduler_job, … that all ranks share."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank of a run. `device` as in `model.alarm.About.devices`, `None` where it is not known."""

    rank: int
    host: str
    ring: str
    agent: str
    device: str | None
    pid: int | None
    last_step: int | None
    last_ns: int | None
    is_alive: bool | None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device: `device` as in `About.devices`."""

    device: str
    host: str
    model: str | None
    index: int | None
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node over all jobs: how often it was slow (incidents, or alarms of none, that named it, its ranks
    or devices) and how often it failed (Xid of the hardware or its driver, row remap, device vanished, out of
    memory, ranks of a run that were killed on it: once a run), each in how many different jobs."""

    host: str
    first_ns: int
    last_ns: int
    num_jobs: int
    num_slow: int
    num_slow_jobs: int
    num_failed: int
    num_failed_jobs: int
    last_slow_ns: int | None
    last_failed_ns: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One series for a picture: at most two points a pixel, the least and the most of it, in order of time.
    `resolution` is `raw`, `minute`, `hour`, `day` or `week`: what it was drawn from."""

    signal: str
    unit: str
    owner: str
    """A device, host, process or link, in words that are stable."""
    labels: dict[str, str]
    resolution: str
    at_ns: I64
    value: F64


class Document(Protocol):
    """A stored document: `kind` is its table (`incident`, `alarm`, `report`, `capture`, `silence`,
    `threshold`, `audit`, `token`, `reference`, `change`, …)."""

    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


class Store(Protocol):
    """What `store.store.Store` does. Every write is on the disk when the call returns, whole or not at all.
    Safe to call from several threads."""

    def keep(self, batches: Sequence[Batch]) -> Kept:
        """Batches of one agent in ascending order. A batch that was kept is not kept again."""
        ...

    def runs(self, job: str | None = None) -> tuple[RunRow, ...]:
        """Newest first."""
        ...

    def ranks(self, job: str, run: str) -> tuple[RankRow, ...]: ...

    def devices(self) -> tuple[DeviceRow, ...]: ...

    def nodes(self) -> tuple[NodeRow, ...]: ...

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
        """Signals, and step series (`step_seconds`, `data_wait_seconds`, `tokens_per_second`, `loss`), for a
        picture."""
        ...

    def telemetry(
        self, job: str | None, run: str | None, start_ns: int, end_ns: int
    ) -> tuple[Telemetry, ...]:
        """All samples of a job's devices, hosts and processes in [start, end), one `Telemetry` a host and
        source: as a spool gives them."""
        ...

    def marks(self, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
        """Marks of every rank, records in [start, end); what was open at `start_ns` is not known."""
        ...

    def logs(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Log, ...]:
        """Lines that agents followed, read as logs."""
        ...

    def stacks(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Stack, ...]:
        """Python stacks of processes, as they were read while a job stood still; oldest first."""
        ...

    def events(self, job: str | None, start_ns: int, end_ns: int) -> tuple[Happened, ...]: ...

    def batches(self, job: str | None, run: str | None, start_ns: int, end_ns: int) -> tuple[Batch, ...]:
        """The window as batches again (`seq` counted anew): what `GET /api/v1/window` sends as a spool."""
        ...

    def put(
        self, kind: str, id: str, body: bytes, *, job: str | None = None, run: str | None = None, at_ns: int
    ) -> None:
        """Keep a document in the place of the one with this kind and id."""
        ...

    def get(self, kind: str, id: str) -> bytes | None: ...

    def documents(
        self,
        kind: str,
        *,
        job: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        limit: int = 1000,
    ) -> tuple[Document, ...]:
        """Newest first."""
        ...

    def remove(self, kind: str, id: str) -> bool: ...

    def put_trace(self, job: str, run: str, capture: int, ring: str, rank: int | None, body: bytes) -> str:
        """Keep a whole trace (gzip JSON, without secrets): its path. Only of abnormal windows and references:
        `summarise_traces` turns it into an op summary."""
        ...

    def traces(self, job: str, run: str, capture: int) -> tuple[str, ...]:
        """Paths of the whole traces that are still there, by rank."""
        ...

    def summarise_traces(self, job: str, run: str, capture: int) -> None:
        """Keep op summaries (`export ops`, at most a tenth of the size) in the place of whole traces."""
        ...

    def notes(
        self, start_ns: int | None = None, end_ns: int | None = None
    ) -> tuple[tuple[str, int, str], ...]:
        """Faults of the store as notes of a source, (code, count, detail): damaged files, each once, of the
        window alone where one is given; else also samples of signals that are not known, and batches that
        another agent's host was named in."""
        ...

    def tend(self) -> None:
        """Seal hours that are over, roll up, forget what is too old. Called now and then; crash-safe."""
        ...

    def close(self) -> None: ...
