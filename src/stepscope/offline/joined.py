"""What was read, joined to one report: the second half of every diagnosis, whatever the inputs came from."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from stepscope.model import redact
from stepscope.model.error import UsageError
from stepscope.model.report import Report
from stepscope.model.sample import Telemetry
from stepscope.model.text import Lang
from stepscope.offline.mark import marks_of
from stepscope.offline.read import Read, check_steps, nothing_read, one_file_a_rank

if TYPE_CHECKING:
    from stepscope.analyse.memory.estimate import Training
    from stepscope.diagnose.row import Row
    from stepscope.rules import Catalog


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A trace behind a report: where it can be read again, its place in `report.inputs`, and its digest."""

    path: str
    place: int
    sha256: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosed:
    """A report, and what it takes to show its traces beside it (`stepscope.export`).

    `sources` are the traces that the report speaks of, in the order of `report.inputs`; `redaction` is what
    was done to the report's text.
    """

    report: Report
    sources: tuple[Source, ...]
    steps: tuple[int, int] | None
    redaction: redact.Redaction
    telemetry: tuple[Telemetry, ...] = ()
    """As it was read: its identities are still there."""
    rows: tuple[Row, ...] = ()
    """Every device with the facts that its rules were judged on, and that show whether a change worked."""
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Versions and settings that all recordings state alike."""


def has_native_loader() -> bool:
    """Whether the native loader is built and loads here."""
    from stepscope.trace.load import native_available

    return bool(native_available())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What is asked of the joined inputs: as `diagnose` takes it. `now_ns` is when rings were read."""

    catalog: Catalog
    now_ns: int
    job: str | None = None
    lang: Lang = "en"
    training: Training | None = None
    steps: tuple[int, int] | None = None
    rank: int | None = None
    redact_key: str | None = None
    keep_identities: bool = False
    shown_as: Mapping[str, str] | None = None


def joined(reads: Sequence[Read], given: Joining) -> Diagnosed:
    """The report of these inputs. StepscopeError where none can be used, or none is of the steps or the rank
    that are asked for."""
    from stepscope.diagnose import Options
    from stepscope.diagnose.diagnose import diagnosed as diagnose_ranks
    from stepscope.diagnose.stuck import Held
    from stepscope.diagnose.table import with_tables
    from stepscope.sources.catalog.flight_recorder import one_a_rank
    from stepscope.views.notebook import shown

    steps, rank = given.steps, given.rank
    if not any(read.input.error is None for read in reads):
        raise nothing_read(reads)
    if steps is not None:
        check_steps(steps, reads)
    given_marks = [each for read in reads for each in read.marks]
    marked = marks_of(reads, steps, rank, given.now_ns)
    reads = marked.reads
    analyses, inputs = one_file_a_rank(reads)
    if rank is not None:
        own = {a.rank for a in analyses} | {m.identity.rank for m in given_marks}
        found = sorted(each for each in own if each is not None)
        analyses = [a for a in analyses if a.rank == rank]
        if not analyses and not marked.marked.analyses and not any(_tells_of_all(read) for read in reads):
            there = f"there are: {', '.join(map(str, found))}" if found else "the inputs name no rank"
            raise UsageError(f"no input is of rank {rank}; {there}")
    options = Options(
        catalog=given.catalog,
        job=given.job,
        lang=given.lang,
        training=given.training,
        native_loader=has_native_loader(),
    )
    memory = [
        msgspec.structs.replace(row, input=place)
        for place, read in enumerate(reads)
        for row in read.memory
        if rank is None or row.rank in (None, rank)
    ]
    report, rows = diagnose_ranks(
        analyses,
        inputs,
        options,
        memory,
        [part for read in reads for part in read.telemetry],
        [
            *(read.log for read in reads if read.log is not None),
            *(log for read in reads for log in read.logs),
            *marked.logs,
        ],
        marked.marked,
        Held(
            tuple(one_a_rank(flight for read in reads for flight in read.flights)),
            tuple(stack for read in reads for stack in read.stacks),
        ),
    )
    tables = [dataclasses.replace(r.table, name=r.input.name) for r in reads if r.table is not None]
    report = with_tables(report, tables, given.lang)
    known = redact.NOBODY
    for read in reads:
        known = known | read.known
        if given.shown_as:  # the folder that is left off may be what says that a name is a user's
            known = known | redact.identities_in_path(read.path) | redact.identities_in_path(read.input.name)
    key = (
        given.redact_key.encode()
        if given.redact_key
        else redact.key_of_inputs(i.sha256 or i.name for i in inputs)
    )
    return Diagnosed(
        shown(redact.redact_report(report, key=key, known=known, keep_identities=given.keep_identities)),
        _sources(reads, rank),
        steps,
        redact.Redaction(key, known, given.keep_identities),
        tuple(part for read in reads for part in read.telemetry),
        rows,
        _settings(reads),
    )


def _tells_of_all(read: Read) -> bool:
    """Whether an input may say something of a rank that it does not name."""
    return bool(read.memory or read.table or read.telemetry or read.log or read.flights or read.stacks)


def _settings(reads: Sequence[Read]) -> dict[str, str]:
    """What all recordings that say anything say alike; of marks the framework and the script."""
    told = [dict(read.settings) for read in reads if read.settings and read.error is None]
    for read in reads:
        for marks in read.marks:
            who = {"framework": marks.identity.framework, "script": marks.identity.script}
            told.append({key: os.path.basename(value) for key, value in who.items() if value})
    first = told[0] if told else {}
    return {key: value for key, value in first.items() if all(each.get(key) == value for each in told)}


def _sources(reads: Sequence[Read], rank: int | None) -> tuple[Source, ...]:
    """The traces that were used: not those that cannot be read, repeat a rank or are of another rank."""
    owner: dict[int, int] = {}
    found = []
    for place, read in enumerate(reads):
        ranks = {analysis.rank for analysis in read.analyses}
        is_first = [number is None or owner.setdefault(number, place) == place for number in ranks]
        if read.input.error is None and any(is_first) and (rank is None or rank in ranks):
            found.append(Source(read.path, place, read.input.sha256))
    return tuple(found)
