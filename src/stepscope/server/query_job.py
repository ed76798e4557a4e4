"""Jobs, runs, ranks, devices and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.params import PathParameter, QueryParameter

from stepscope.model.alarm import Alarm
from stepscope.model.error import UsageError
from stepscope.server import shape
from stepscope.server.parts import Parts
from stepscope.server.reply import Ask, asker, reply, unknown
from stepscope.server.route import in_thread, needs, responses
from stepscope.store.contract import RunRow

T = TypeVar("T")
MOST_CHARACTERS = 1024
"""As `entry` takes them in."""
Word = Annotated[str, QueryParameter(min_length=1, max_length=MOST_CHARACTERS)]
Id = Annotated[str, PathParameter(min_length=1, max_length=MOST_CHARACTERS)]
After = Annotated[
    str | None, QueryParameter(max_length=64, description="`next` of the page before: begin behind it.")
]
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="Items of a page.")]
OfJob = Annotated[str | None, QueryParameter(max_length=MOST_CHARACTERS, description="Only of this job.")]
OfRun = Annotated[str | None, QueryParameter(max_length=MOST_CHARACTERS, description="Only of this run.")]
PLAIN_LABELS = frozenset(
    ("namespace", "pod", "container", "scheduler_job", "task", "framework", "cluster", "partition", "queue")
)
"""Labels that say where a job runs. All others are of its configuration or its user's: from operator up."""


def page(rows: Sequence[T], after: str | None, limit: int) -> tuple[Sequence[T], str | None]:
    """A page of rows that are here already; the cursor is a place. UsageError where it is none."""
    if after is not None and not (after.isascii() and after.isdigit() and len(after) <= 9):
        raise UsageError("after is no cursor; give `next` of the page before")
    start = int(after or 0)
    end = start + limit
    return rows[start:end], str(end) if end < len(rows) else None


def run_of(parts: Parts, job: str, run: str | None) -> RunRow:
    """A run of a job: the newest where it is not named. Refusal where there is none."""
    for each in parts.store.runs(job):
        if run is None or each.run == run:
            return each
    raise unknown("run" if run else "job", "/api/v1/runs" if run else "/api/v1/jobs")


@get("/api/v1/jobs", guards=[needs("viewer")], responses=responses(503), tags=["jobs"], summary="Jobs")
async def jobs(request: Ask, state: State, after: After = None, limit: Limit = 100) -> Response[shape.Jobs]:
    """Jobs, those that ran last first."""

    def work() -> shape.Jobs:
        newest: dict[str, list[RunRow]] = {}
        for row in state.parts.store.runs():
            newest.setdefault(row.job, []).append(row)
        rows = [
            shape.Job(
                job=job,
                run=runs[0].run,
                num_runs=len(runs),
                start_ns=min(each.start_ns for each in runs),
                last_ns=max(each.last_ns for each in runs),
                is_over=runs[0].is_over,
                world_size=runs[0].world_size,
            )
            for job, runs in newest.items()
        ]
        items, following = page(rows, after, limit)
        return shape.Jobs(items=list(items), next=following)

    return reply(request, await in_thread(state.querying, work))


@get("/api/v1/runs", guards=[needs("viewer")], responses=responses(503), tags=["jobs"], summary="Runs")
async def runs(
    request: Ask, state: State, job: OfJob = None, after: After = None, limit: Limit = 100
) -> Response[shape.Runs]:
    """Runs, newest first."""
    sees = asker(request).sees_sensitive

    def work() -> shape.Runs:
        rows, following = page(state.parts.store.runs(job), after, limit)
        items = [
            shape.Run(
                job=row.job,
                run=row.run,
                start_ns=row.start_ns,
                last_ns=row.last_ns,
                is_over=row.is_over,
                world_size=row.world_size,
                hosts=row.hosts,
                labels={k: v for k, v in row.labels.items() if sees or k in PLAIN_LABELS},
            )
            for row in rows
        ]
        return shape.Runs(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


@get("/api/v1/ranks", guards=[needs("viewer")], responses=responses(404, 503), tags=["jobs"], summary="Ranks")
async def ranks(request: Ask, state: State, job: Word, run: OfRun = None) -> Response[shape.Ranks]:
    """Ranks of a run, by number; of the newest run where none is named."""
    parts: Parts = state.parts

    def work() -> shape.Ranks:
        row = run_of(parts, job, run)
        items = [
            shape.Rank(
                rank=each.rank,
                host=each.host,
                ring=each.ring,
                agent=each.agent,
                device=each.device,
                pid=each.pid,
                last_step=each.last_step,
                last_ns=each.last_ns,
                is_alive=each.is_alive,
            )
            for each in parts.store.ranks(row.job, row.run)
        ]
        return shape.Ranks(job=row.job, run=row.run, items=items)

    return reply(request, await in_thread(state.querying, work))


def _device_rows(parts: Parts) -> list[shape.Device]:
    return [
        shape.Device(
            device=each.device,
            host=each.host,
            model=each.model,
            index=each.index,
            first_ns=each.first_ns,
            last_ns=each.last_ns,
        )
        for each in parts.store.devices()
    ]


@get("/api/v1/devices", guards=[needs("viewer")], responses=responses(503), tags=["nodes"], summary="Devices")
async def devices(
    request: Ask, state: State, host: OfJob = None, after: After = None, limit: Limit = 100
) -> Response[shape.Devices]:
    """Devices that samples were ever seen of."""

    def work() -> shape.Devices:
        rows = [each for each in _device_rows(state.parts) if host is None or each.host == host]
        items, following = page(rows, after, limit)
        return shape.Devices(items=list(items), next=following)

    return reply(request, await in_thread(state.querying, work))


def _node_rows(parts: Parts) -> list[shape.Node]:
    return [
        shape.Node(
            host=each.host,
            first_ns=each.first_ns,
            last_ns=each.last_ns,
            num_jobs=each.num_jobs,
            num_slow=each.num_slow,
            num_slow_jobs=each.num_slow_jobs,
            num_failed=each.num_failed,
            num_failed_jobs=each.num_failed_jobs,
            last_slow_ns=each.last_slow_ns,
            last_failed_ns=each.last_failed_ns,
        )
        for each in parts.store.nodes()
    ]


@get("/api/v1/nodes", guards=[needs("viewer")], responses=responses(503), tags=["nodes"], summary="Nodes")
async def nodes(request: Ask, state: State, after: After = None, limit: Limit = 100) -> Response[shape.Nodes]:
    """Nodes over all jobs: which are slow, or fail, again and again."""

    def work() -> shape.Nodes:
        items, following = page(_node_rows(state.parts), after, limit)
        return shape.Nodes(items=list(items), next=following)

    return reply(request, await in_thread(state.querying, work))


@get(
    "/api/v1/nodes/{host:str}",
    guards=[needs("viewer")],
    responses=responses(404, 503),
    tags=["nodes"],
    summary="One node",
)
async def node(request: Ask, state: State, host: Id) -> Response[shape.NodeAlone]:
    """One node, its devices, and the newest alarms that named it."""
    parts: Parts = state.parts

    def work() -> shape.NodeAlone:
        found = next((each for each in _node_rows(parts) if each.host == host), None)
        if found is None:
            raise unknown("node", "/api/v1/nodes")
        alarms = []
        for each in parts.store.documents("alarm", limit=1000):
            alarm = msgspec.json.decode(each.body, type=Alarm)
            if host in alarm.about.hosts:
                alarms.append(alarm)
        mine = [each for each in _device_rows(parts) if each.host == host]
        return shape.NodeAlone(node=found, devices=mine, alarms=alarms[:50])

    return reply(request, await in_thread(state.querying, work))


HANDLERS = (jobs, runs, ranks, devices, nodes, node)
