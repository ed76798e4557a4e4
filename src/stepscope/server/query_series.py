"""Series, steps, events and raw windows."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from litestar import Response, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from stepscope.model.batch import BatchOwner, Happened
from stepscope.model.error import UsageError
from stepscope.model.mark import RankMarks
from stepscope.model.sample import F64
from stepscope.model.signal import SIGNALS
from stepscope.server import shape
from stepscope.server.moment import FORM, PATTERN, window_ns
from stepscope.server.parts import Parts
from stepscope.server.query_job import PLAIN_LABELS, After, Limit, OfJob, OfRun, Word, page, run_of
from stepscope.server.reply import Ask, Refusal, asker, reply, send
from stepscope.server.route import in_thread, needs, responses
from stepscope.server.window import spool_of
from stepscope.sources.formats.frame import CONTENT_TYPE

HOUR_NS = 3_600_000_000_000
LEAST_AHEAD_S = 2.0
"""By which a clock is told to be ahead."""
STEP_SERIES = ("step_seconds", "data_wait_seconds", "tokens_per_second", "loss")
Time = Annotated[str | None, QueryParameter(pattern=PATTERN, max_length=40, description=f"A time: {FORM}.")]
Words = Annotated[list[str] | None, QueryParameter(max_items=256)]


@get(
    "/api/v1/series",
    guards=[needs("viewer")],
    responses=responses(413, 503),
    tags=["data"],
    summary="Series of signals, for a picture",
)
async def series(
    request: Ask,
    state: State,
    signal: Annotated[list[str], QueryParameter(min_items=1, max_items=64, description="Names of signals.")],
    start: Time = None,
    end: Time = None,
    pixels: Annotated[int, QueryParameter(ge=1, le=10_000, description="How wide the picture is.")] = 1000,
    job: OfJob = None,
    run: OfRun = None,
    rank: Annotated[list[int] | None, QueryParameter(max_items=4096)] = None,
    device: Words = None,
    host: Words = None,
) -> Response[shape.Series]:
    """Signals, and the series of steps, as columns: at most two points a pixel, the least and the most."""
    parts: Parts = state.parts
    sees = asker(request).sees_sensitive

    def work() -> shape.Series:
        start_ns, end_ns = window_ns(start, end, parts.clock_ns(), parts.limits, default_ns=HOUR_NS)
        strange = [each for each in signal if each not in SIGNALS and each not in STEP_SERIES]
        if strange:
            raise UsageError("no signal of that name; docs/reference/signals.md lists those there are")
        of_processes = [each for each in signal if each in SIGNALS and SIGNALS[each].of == "process"]
        if of_processes and not sees:
            raise Refusal(403, "series of processes need the role operator", "leave those signals out")
        lines = parts.store.lines(
            signal, start_ns, end_ns, pixels, job=job, run=run, ranks=rank, devices=device, hosts=host
        )
        if sum(len(each.at_ns) for each in lines) > parts.limits.points:
            raise Refusal(413, f"more than {parts.limits.points:,} points", "ask for fewer lines or pixels")
        shown = [
            shape.Line(
                signal=each.signal,
                unit=each.unit,
                owner=each.owner,
                labels={
                    k: v for k, v in each.labels.items() if sees or k in (*PLAIN_LABELS, "job", "run", "rank")
                },
                resolution=each.resolution,
                at_ns=each.at_ns.tolist(),
                value=each.value.tolist(),
            )
            for each in lines
        ]
        notes = [detail for _, _, detail in parts.store.notes(start_ns, end_ns)]
        return shape.Series(start_ns=start_ns, end_ns=end_ns, lines=shown, notes=notes)

    return reply(request, await in_thread(state.querying, work))


@get(
    "/api/v1/steps",
    guards=[needs("viewer")],
    responses=responses(404, 503),
    tags=["data"],
    summary="Steps of a run, in columns",
)
async def steps(
    request: Ask,
    state: State,
    job: Word,
    run: OfRun = None,
    rank: Annotated[int | None, QueryParameter(ge=0, le=1 << 31)] = None,
    start: Time = None,
    end: Time = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=100_000, description="Steps of each rank, the newest.")
    ] = 1000,
) -> Response[shape.Steps]:
    """Whole steps of every rank, and what each rank was in at its last mark."""
    parts: Parts = state.parts

    def work() -> shape.Steps:
        row = run_of(parts, job, run)
        start_ns, end_ns = window_ns(start, end, parts.clock_ns(), parts.limits, default_ns=HOUR_NS)
        notes: list[str] = []
        if end is None and row.last_ns >= end_ns:
            ahead_s = (row.last_ns - end_ns) / 1e9
            if ahead_s >= LEAST_AHEAD_S:
                notes.append(f"the clock of a rank is {ahead_s:.0f} s ahead of the server's: set it")
            end_ns = row.last_ns + 1
        marks = [
            each
            for each in parts.store.marks(row.job, row.run, start_ns, end_ns)
            if rank is None or each.identity.rank == rank
        ]
        return shape.Steps(
            job=row.job,
            run=row.run,
            start_ns=start_ns,
            end_ns=end_ns,
            ranks=[_columns(each, limit) for each in marks],
            is_cut=any(len(each.steps) > limit for each in marks),
            notes=[*notes, *(detail for _, _, detail in parts.store.notes(start_ns, end_ns))],
        )

    return reply(request, await in_thread(state.querying, work))


def _columns(marks: RankMarks, limit: int) -> shape.StepColumns:
    steps = marks.steps
    last = slice(max(len(steps) - limit, 0), None)
    return shape.StepColumns(
        rank=marks.identity.rank,
        step=steps.step[last].tolist(),
        start_ns=steps.start_ns[last].tolist(),
        end_ns=steps.end_ns[last].tolist(),
        tokens=_known(steps.tokens[last]),
        samples=_known(steps.samples[last]),
        sequence_length=_known(steps.sequence_length[last]),
        is_captured=steps.is_captured[last].tolist() if steps.is_captured[last].any() else None,
        open_step=marks.open_step,
        open_phase=marks.open_phase,
        open_since_ns=marks.open_since_ns,
        exit_ns=marks.exit_ns,
    )


def _known(column: F64) -> list[float | None] | None:
    if not np.isfinite(column).any():
        return None
    return [each if math.isfinite(each) else None for each in column.tolist()]


@get("/api/v1/events", guards=[needs("viewer")], responses=responses(503), tags=["data"], summary="Events")
async def events(
    request: Ask,
    state: State,
    job: OfJob = None,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[shape.Events]:
    """Instants of jobs, nodes and agents, newest first: Xid, ranks that ended, devices that vanished."""
    parts: Parts = state.parts
    sees = asker(request).sees_sensitive

    def work() -> shape.Events:
        start_ns, end_ns = window_ns(start, end, parts.clock_ns(), parts.limits, default_ns=24 * HOUR_NS)
        found = sorted(parts.store.events(job, start_ns, end_ns), key=lambda each: -each.at_ns)
        rows, following = page(found, after, limit)
        return shape.Events(items=[_event(each, sees) for each in rows], next=following)

    return reply(request, await in_thread(state.querying, work))


def _event(event: Happened, sees: bool) -> shape.Event:
    is_log = "log" in event.labels
    return shape.Event(
        at_ns=event.at_ns,
        host=event.host,
        what=event.what,
        text=event.text if sees or not is_log else None,
        code=event.code,
        device=_device(event.owner),
        labels={k: v for k, v in event.labels.items() if sees or k in (*PLAIN_LABELS, "job", "run", "rank")},
    )


def _device(owner: BatchOwner | None) -> str | None:
    if owner is None or owner.kind != "device":
        return None
    name = owner.uuid or (f"{owner.host}:{owner.index}" if owner.index is not None else None)
    return f"{name}/{owner.mig}" if name and owner.mig else name


@get(
    "/api/v1/window",
    guards=[needs("operator")],
    responses={
        200: ResponseSpec(bytes, media_type=CONTENT_TYPE, description="A segment of a spool."),
        **responses(404, 413, 503),
    },
    media_type=CONTENT_TYPE,
    tags=["data"],
    summary="All that is kept of a window, as a spool",
)
async def window(
    request: Ask,
    state: State,
    job: OfJob = None,
    run: OfRun = None,
    start: Time = None,
    end: Time = None,
) -> Response[bytes]:
    """Samples, marks, lines and events as an agent's spool holds them: `stepscope diagnose --telemetry URL`
    reads it. Without a job that of the newest run, which `Stepscope-Job` names, and `Stepscope-Other-Jobs`
    some of the others; without times the last hour of it."""
    parts: Parts = state.parts

    body, chosen = await in_thread(state.querying, lambda: spool_of(parts, job, run, start, end))
    return send(request, body, CONTENT_TYPE, headers=chosen)


HANDLERS = (series, steps, events, window)
