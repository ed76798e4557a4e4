"""Inputs, one after another: read, analysed, and their columns dropped."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from stepscope.model import redact
from stepscope.model.analysis import RankAnalysis
from stepscope.model.error import (
    InputError,
    RefusedError,
    ServiceError,
    StepscopeError,
    UnusableError,
    UsageError,
)
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.model.report import HealthIssue, Input, InputKind, Memory
from stepscope.model.sample import Telemetry
from stepscope.model.stuck import Flight, Stack
from stepscope.model.table import StepTimes, Table, Timeline, table_of_steps
from stepscope.model.trace import Trace

OnProgress = Callable[[str, int, int], None]
"""Called with an input's name, bytes read so far and bytes in all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller asks of every input."""

    steps: tuple[int, int] | None = None
    model_flops: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What is kept of one input once its columns are dropped."""

    input: Input
    path: str
    analyses: tuple[RankAnalysis, ...] = ()
    memory: tuple[Memory, ...] = ()
    """Of a memory snapshot."""
    table: Table | None = None
    """Of a table of step times or a timeline."""
    telemetry: tuple[Telemetry, ...] = ()
    """Of a telemetry source, one an exporter."""
    log: Log | None = None
    """Of a log."""
    logs: tuple[Log, ...] = ()
    """Of a spool, which may hold several."""
    marks: tuple[RankMarks, ...] = ()
    """Of step rings, one a ring."""
    flights: tuple[Flight, ...] = ()
    """Of PyTorch's flight recorder, one a dump."""
    stacks: tuple[Stack, ...] = ()
    """Of processes, by py-spy."""
    read_ns: int | None = None
    """When whoever wrote the marks down last saw their rings; `None`: now."""
    known: redact.Identities = redact.NOBODY
    error: StepscopeError | None = None
    recorded: tuple[int, int] | None = None
    """First and last step number in the file, `None` where it has no steps."""
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Versions and settings of the recording, as it states them."""


def read_all(
    paths: Sequence[str],
    wanted: Wanted,
    jobs: int,
    on_progress: OnProgress | None,
    discover: Any,
) -> list[Read]:
    reads: list[Read] = []
    sources: list[str] = []
    for path in paths:
        try:
            found = discover([path], also=is_meant_table)
            sources += [source for source in found if source not in sources]
        except StepscopeError as error:
            reads.append(refused(path, error))
        except OSError as error:  # a folder on the way that may not be entered
            reads.append(refused(path, unreadable(path, error)))
    if jobs > 1 and len(sources) > 1:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        context = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(min(jobs, len(sources)), mp_context=context) as pool:
                reads += pool.map(_read_one, sources, [wanted] * len(sources))
        except BrokenProcessPool as error:
            what = (
                "a process that was reading was ended from outside, as the system does when memory is short"
            )
            raise UnusableError(f"{what}; give fewer --jobs") from error
    else:
        seen: dict[str, str] = {}
        reads += [_read_one(source, wanted, on_progress, seen) for source in sources]
    return _without_copies(reads)


def _without_copies(reads: Sequence[Read]) -> list[Read]:
    """Of inputs with the same bytes the first is used: twice the same run is no second rank."""
    first: dict[str, str] = {}
    kept = []
    for read in reads:
        digest = read.input.sha256
        name = first.setdefault(digest, read.input.name) if digest and read.error is None else None
        kept.append(read if name in (None, read.input.name) else _copy_of(name, read.input))
    return kept


def _copy_of(first: str, given: Input) -> Read:
    what = f"{given.name}: the same bytes as {first}; left out"
    return Read(
        Input(
            kind=given.kind,
            format=given.format,
            name=given.name,
            bytes=given.bytes,
            sha256=given.sha256,
            error=what,
        ),
        given.name,
    )


def _read_one(
    name: str,
    wanted: Wanted,
    on_progress: OnProgress | None = None,
    seen: dict[str, str] | None = None,
) -> Read:
    """Load and analyse one input; its columns are gone when this returns.

    `seen` holds the digests of the inputs before it: one with the same bytes is not analysed again.
    """
    from stepscope.analyse.rank import analyse_rank
    from stepscope.offline.held import is_held, read_held
    from stepscope.sources import file
    from stepscope.sources.catalog.torch_snapshot import is_snapshot
    from stepscope.trace.load import load as load_file
    from stepscope.trace.load import rank_of

    if is_ring(name):
        return read_ring(name)
    if is_table(name):
        return read_table(name, wanted.steps)
    if is_held(name):
        return read_held(name)
    if is_snapshot(name, file.head(name)):
        return _read_snapshot(name)
    try:
        trace = load_file(name, progress=partial(on_progress, name) if on_progress else None, digest=True)
    except StepscopeError as error:
        return refused(name, error)
    except OSError as error:
        return refused(name, unreadable(name, error))
    if seen is not None and trace.sha256:
        first_name = seen.setdefault(trace.sha256, name)
        if first_name != name:
            copy = Input(kind="trace", format="kineto", name=name, bytes=trace.num_bytes, sha256=trace.sha256)
            return _copy_of(first_name, copy)
    trace, num_secrets, known = redact.trace_without_secrets(trace)
    rank, world_size, conflict = rank_of(trace)
    steps = wanted.steps
    whole = analyse_rank(trace, steps=steps, rank=rank, world_size=world_size, model_flops=wanted.model_flops)
    numbers = [step.step for analysis in whole for step in analysis.steps]
    analyses = tuple(_with_conflict(_only(_dropped(each), steps), conflict) for each in whole)
    first = analyses[0] if analyses else None
    start_ns, end_ns = _extent(trace)
    return Read(
        Input(
            kind="trace",
            format="kineto",
            name=name,
            bytes=trace.num_bytes,
            sha256=trace.sha256,
            rank=first.rank if first and len(analyses) == 1 else None,
            world_size=first.world_size if first else None,
            events=trace.num_events,
            start_ns=start_ns,
            end_ns=end_ns,
            redacted=num_secrets,
        ),
        name,
        analyses,
        known=known,
        recorded=(min(numbers), max(numbers)) if numbers else None,
        settings=settings_of(trace.metadata),
    )


SETTINGS = (
    "pytorch_version", "cuda_driver_version", "cuda_runtime_version", "cupti_version", "hip_driver_version",
    "hip_runtime_version", "nccl_version", "record_shapes", "with_stack", "with_flops", "with_modules",
    "profile_memory",
)  # fmt: skip
"""Keys of a trace's metadata that may explain a difference: versions, and what recording itself costs."""


def settings_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The settings that a trace's metadata state."""
    return {
        key: str(value)[:80]
        for key in SETTINGS
        if isinstance(value := metadata.get(key), (str, int, float)) and str(value)
    }


def is_ring(name: str) -> bool:
    """Whether an input is meant as a step ring."""
    return name.endswith(".ring")


def read_ring(name: str) -> Read:
    """Read what one step ring holds now."""
    from stepscope.sources.marks import FORMAT, marks_of_ring

    try:
        marks = marks_of_ring(name)
    except StepscopeError as error:
        return refused(name, error, "steps")
    except OSError as error:
        return refused(name, unreadable(name, error), "steps")
    num_records = len(marks.phases) + len(marks.steps)
    given = Input(
        kind="steps",
        format=FORMAT,
        name=name,
        bytes=os.path.getsize(name),
        rank=marks.identity.rank,
        world_size=marks.identity.world_size,
        events=num_records,
        start_ns=marks.start_ns,
        end_ns=marks.last_ns,
    )
    host = marks.identity.host
    known = redact.Identities(hosts=frozenset({host} if host and host != "localhost" else ()))
    numbers = marks.steps.step
    recorded = (int(numbers.min()), int(numbers.max())) if len(numbers) else None
    return Read(given, name, marks=(marks,), known=known, recorded=recorded)


def is_table(name: str) -> bool:
    """Whether an input is meant as a table: by its name, or as Parquet by its first bytes."""
    from stepscope.sources import file
    from stepscope.sources.catalog import step_table, timeline_table

    return name.lower().endswith(step_table.SUFFIXES) or timeline_table.is_parquet(file.head(name))


def is_meant_table(path: str) -> bool:
    """Whether a file found in a folder is a table that is read: its columns say so."""
    from stepscope.offline.held import is_held
    from stepscope.sources import file
    from stepscope.sources.catalog import step_table, timeline_table

    if is_ring(path) or is_held(path):
        return True
    if not path.lower().endswith((".parquet", *step_table.SUFFIXES)):
        return False
    return timeline_table.is_timeline_table(path) or step_table.is_step_table(path, file.head(path, 4096))


def read_table(name: str, steps: tuple[int, int] | None = None) -> Read:
    """Read one table of step times or timeline. Of its text only the kinds of operations go on."""
    from stepscope.sources import file
    from stepscope.sources.catalog import step_table, timeline_table

    table: Table
    try:
        whole = file.read(name)
        if timeline_table.is_parquet(whole.data):
            table, format_ = timeline_table.read(name), timeline_table.FORMAT
            events = len(table)
        else:
            table, format_ = step_table.parse(whole.data, name), step_table.FORMAT
            events = int(table.duration.size)
    except StepscopeError as error:
        return refused(name, error, "steps")
    num_secrets = 0
    if isinstance(table, Timeline):
        kinds, num_secrets = redact.tree_without_secrets(list(table.kinds))
        table = dataclasses.replace(table, kinds=tuple(kinds))
    given = Input(
        kind="steps",
        format=format_,
        name=name,
        bytes=whole.num_bytes,
        sha256=whole.sha256,
        events=events,
        redacted=num_secrets,
    )
    numbers = sorted(set(table.steps if isinstance(table, StepTimes) else table.step.tolist()))
    recorded = (int(numbers[0]), int(numbers[-1]))
    return Read(given, name, table=table_of_steps(table, steps) if steps else table, recorded=recorded)


def _read_snapshot(name: str) -> Read:
    """Read and analyse one memory snapshot. Its stacks are all of its text that goes on."""
    from stepscope.analyse.memory.of_snapshot import memory_of_snapshot
    from stepscope.sources import file
    from stepscope.sources.catalog import torch_snapshot
    from stepscope.trace.discover import rank_in_name

    try:
        whole = file.read(name)
        snapshot = torch_snapshot.parse(whole.data, name)
    except StepscopeError as error:
        return refused(name, error, "snapshot")
    texts, num_secrets = redact.tree_without_secrets([list(stack) for stack in snapshot.stacks])
    snapshot = dataclasses.replace(snapshot, stacks=tuple(map(tuple, texts)))
    rank = rank_in_name(name)
    times = snapshot.times_ns
    return Read(
        Input(
            kind="snapshot",
            format=torch_snapshot.FORMAT,
            name=name,
            bytes=whole.num_bytes,
            sha256=whole.sha256,
            rank=rank,
            events=snapshot.num_entries,
            start_ns=min(times, default=None),
            end_ns=max(times, default=None),
            redacted=num_secrets,
        ),
        name,
        memory=memory_of_snapshot(snapshot, rank=rank),
    )


def _dropped(analysis: RankAnalysis) -> RankAnalysis:
    """The analysis without what is as long as the trace."""
    devices = tuple(dataclasses.replace(device, idle=None) for device in analysis.devices)
    return dataclasses.replace(analysis, devices=devices)


OPEN = 1 << 62
"""A range that ends here, or begins at minus this, is open on that side."""


def check_steps(steps: tuple[int, int], reads: Sequence[Read]) -> None:
    """Refuse a range in which no input has a step: an answer about other steps would be a wrong one."""
    if any(analysis.steps for read in reads for analysis in read.analyses):
        return
    if any(read.table is not None for read in reads):
        return
    if any(
        ((each.steps.step >= steps[0]) & (each.steps.step <= steps[1])).any()
        for r in reads
        for each in r.marks
    ):
        return
    ranges = [read.recorded for read in reads if read.recorded is not None]
    there = (
        f"steps {min(a for a, _ in ranges)} to {max(b for _, b in ranges)} are recorded"
        if ranges
        else "no steps are marked; leave --steps out"
    )
    first, last = steps
    span = f"from {first} to {last}" if first > -OPEN and last < OPEN else f"from {first} on"
    raise UsageError(f"no step {span if first > -OPEN else f'up to {last}'} in the inputs: {there}")


def _only(analysis: RankAnalysis, steps: tuple[int, int] | None) -> RankAnalysis:
    """The analysis without the steps that nobody asked for."""
    if steps is None:
        return analysis
    kept = tuple(step for step in analysis.steps if steps[0] <= step.step <= steps[1])
    return dataclasses.replace(analysis, steps=kept)


def _with_conflict(analysis: RankAnalysis, conflict: str | None) -> RankAnalysis:
    if conflict is None:
        return analysis
    issue = HealthIssue(code="rank_conflict", count=1, rank=analysis.rank, effect="none", detail=conflict)
    return dataclasses.replace(analysis, issues=(*analysis.issues, issue))


def _extent(trace: Trace) -> tuple[int | None, int | None]:
    """Wall time of the first start and the last end; absent where the trace has no anchor in wall time."""
    from stepscope.trace.category import span_kinds
    from stepscope.trace.health import far_rows

    spans = trace.spans
    if trace.anchor == "none" or len(spans.ts_ns) == 0:
        return None, None
    is_sound = (spans.dur_ns >= 0) & (spans.ts_ns > 0) & (spans.dur_ns < 1 << 61) & (spans.ts_ns < 1 << 61)
    is_sound &= ~far_rows(trace, span_kinds(trace))
    if not is_sound.any():
        return None, None
    start = spans.ts_ns[is_sound]
    return int(start.min()), int((start + spans.dur_ns[is_sound]).max())


def refused(name: str, error: StepscopeError, kind: InputKind = "trace") -> Read:
    """An input that cannot be used, with the reason."""
    what = str(error)
    num_bytes = None
    if os.path.isfile(name):
        with contextlib.suppress(OSError):
            num_bytes = os.path.getsize(name)
    return Read(Input(kind=kind, name=name, bytes=num_bytes, error=what), name, error=error)


def unreadable(name: str, error: OSError) -> InputError:
    """The one line for a file that the system does not give."""
    why = (error.strerror or type(error).__name__).lower()
    return InputError(name, f"cannot be read: {why}", "check the path and its permissions")


def renamed(reads: Sequence[Read], shown_as: Mapping[str, str]) -> list[Read]:
    """The reads under the names to show, and their errors, which may name other inputs and archives too."""
    from stepscope.trace.discover import MEMBER

    names = {path.partition(MEMBER)[0]: name.partition(MEMBER)[0] for path, name in shown_as.items()}
    names |= shown_as
    paths = re.compile(
        "|".join(map(re.escape, sorted(filter(None, names), key=len, reverse=True))) or r"(?!)"
    )

    def shown(error: str | None) -> str | None:
        return paths.sub(lambda match: names[match[0]], error) if error is not None else None

    return [
        dataclasses.replace(
            read,
            input=msgspec.structs.replace(
                read.input, name=shown_as.get(read.input.name, read.input.name), error=shown(read.input.error)
            ),
        )
        for read in reads
    ]


def nothing_read(reads: Sequence[Read]) -> StepscopeError:
    errors = [read.input.error or "" for read in reads]
    # Refused for safety is not unreadable, and has a code of its own.
    is_refused = all(isinstance(read.error, RefusedError) for read in reads)
    kind = RefusedError if is_refused else UnusableError
    for read in reads:
        if isinstance(read.error, ServiceError):
            return read.error
    if len(errors) == 1:
        return kind(errors[0])
    return kind(f"none of the {len(errors)} inputs can be read: {errors[0]} (and {len(errors) - 1} more)")


def one_file_a_rank(reads: Sequence[Read]) -> tuple[list[RankAnalysis], list[Input]]:
    """The analyses, one a rank: of several files of one rank the first is used, and said."""
    kept: list[RankAnalysis] = []
    place: dict[int, int] = {}
    owner: dict[int, str] = {}
    conflicts: dict[int, list[str]] = {}
    inputs: list[Input] = []
    for read in reads:
        inputs.append(read.input)
        for analysis in read.analyses:
            if analysis.rank is None or analysis.rank not in place:
                if analysis.rank is not None:
                    place[analysis.rank] = len(kept)
                    owner[analysis.rank] = read.input.name
                kept.append(analysis)
            elif owner[analysis.rank] == read.input.name:
                kept.append(analysis)  # several devices or processes in one file are one rank's own matter
            else:
                conflicts.setdefault(analysis.rank, []).append(read.input.name)
    for rank, names in conflicts.items():
        issue = HealthIssue(
            code="rank_conflict",
            count=len(names),
            rank=rank,
            effect="degraded",
            detail=f"rank {rank} is in {len(names) + 1} files: {owner[rank]} was used, "
            f"{', '.join(names)} was not; give the files of one run",
            affects=(),
        )
        first = kept[place[rank]]
        kept[place[rank]] = dataclasses.replace(first, issues=(*first.issues, issue))
    return kept, inputs
