"""Files in, report out: the only I/O of the offline path.

    load(path)        one trace, in columns, without its secrets
    diagnose(paths)   the report of any number of traces

Ranks are read one after another (or `jobs` at a time) and their columns are dropped once they are analysed:
memory follows the largest file, not the number of files.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stepscope.model import redact
from stepscope.model.error import InputError, UsageError
from stepscope.model.report import Report
from stepscope.model.sample import Telemetry
from stepscope.model.text import Lang
from stepscope.model.trace import Trace
from stepscope.offline.beside import asked_of, read_log_inputs, read_telemetry_inputs
from stepscope.offline.mark import ended_well, interrupted, marks_of
from stepscope.offline.option import as_training, check_options, read_thresholds
from stepscope.offline.read import (
    OnProgress,
    Read,
    Wanted,
    check_steps,
    nothing_read,
    one_file_a_rank,
    read_all,
    renamed,
)

if TYPE_CHECKING:
    from stepscope.diagnose.row import Row

__all__ = ["Diagnosed", "InputError", "Source", "diagnose", "diagnosed", "has_native_loader", "load"]


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


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


def has_native_loader() -> bool:
    """Whether the native loader is built and loads here."""
    from stepscope.trace.load import native_available

    return bool(native_available())


def load(path: str | os.PathLike[str]) -> Trace:
    """One trace file in columns (`stepscope.model.trace.Trace`), secrets removed.

    Raises `stepscope.model.error.InputError` where nothing of it can be read; what was lost of a damaged
    file is in `Trace.losses`.
    """
    from stepscope.trace.load import load as load_file

    trace, _, _ = redact.trace_without_secrets(load_file(os.fspath(path)))
    return trace


def diagnose(
    paths: Paths = (),
    *,
    telemetry: Paths = (),
    logs: Paths = (),
    log_pattern: str | None = None,
    parameters: str | None = None,
    steps: tuple[int, int] | None = None,
    rank: int | None = None,
    job: str | None = None,
    lang: Lang = "en",
    rules_config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    keep_identities: bool = False,
    redact_key: str | None = None,
    model_flops: int | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    shown_as: Mapping[str, str] | None = None,
) -> Report:
    """The report of one or more traces (files, directories, archives or patterns) and memory snapshots.

    `telemetry` are files, directories, an agent's spool or servers (`prometheus+http://host:9090`) with
    counters of devices and hosts, `logs` files or directories of training, NCCL and kernel logs,
    `log_pattern` a line pattern of one's own; each may be given without any trace. `parameters` are the
    model's, as `8e9`, `8B` or `8B:2,2,12` (bytes of weights, gradients and optimizer states), for the memory
    that training needs. `steps` is a range of step numbers, both ends included; `rank` leaves out every
    other rank; `job` names the run, and chooses it in a spool of several; `lang` is the language of its
    sentences, `en` or `zh`; `rules_config` holds a site's thresholds, as a TOML file or as `{rule: {feature:
    number}}`. Identities (host and user names, home paths, addresses) become pseudonyms under `redact_key`,
    or under a key derived from the inputs, unless `keep_identities`; secrets are removed in any case.
    `model_flops` is the arithmetic that one rank's model needs in a step, for MFU; without it MFU is derived
    where recorded shapes tell. `jobs` files are read at the same time. `shown_as` gives names to show in the
    place of paths.

    In a notebook the report shows itself as its HTML page.

    An input that cannot be used is named in `report.inputs[].error`. Raises
    `stepscope.model.error.StepscopeError` where none can be used, or where the options make no sense.
    """
    return diagnosed(
        paths,
        telemetry=telemetry,
        logs=logs,
        log_pattern=log_pattern,
        parameters=parameters,
        steps=steps,
        rank=rank,
        job=job,
        lang=lang,
        rules_config=rules_config,
        keep_identities=keep_identities,
        redact_key=redact_key,
        jobs=jobs,
        model_flops=model_flops,
        on_progress=on_progress,
        shown_as=shown_as,
    ).report


def diagnosed(
    paths: Paths = (),
    *,
    telemetry: Paths = (),
    logs: Paths = (),
    log_pattern: str | None = None,
    parameters: str | None = None,
    steps: tuple[int, int] | None = None,
    rank: int | None = None,
    job: str | None = None,
    lang: Lang = "en",
    rules_config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    keep_identities: bool = False,
    redact_key: str | None = None,
    model_flops: int | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    shown_as: Mapping[str, str] | None = None,
    was_interrupted: bool = False,
    has_ended_well: bool = False,
) -> Diagnosed:
    """As `diagnose`, with what it takes to read the traces again. `was_interrupted`: whoever started the job
    knows that Ctrl-C ended it, whatever its launcher did to the ranks then; `has_ended_well`: that the job
    ended in order, though a rank may not have said so."""
    from stepscope.diagnose import Options
    from stepscope.diagnose.diagnose import diagnosed as diagnose_ranks
    from stepscope.diagnose.stuck import Held
    from stepscope.diagnose.table import with_tables
    from stepscope.rules import load_catalog
    from stepscope.sources.catalog.flight_recorder import one_a_rank
    from stepscope.trace.load import discover
    from stepscope.views.notebook import shown

    check_options(
        log_pattern=log_pattern,
        parameters=parameters,
        steps=steps,
        rank=rank,
        job=job,
        lang=lang,
        rules_config=rules_config,
        redact_key=redact_key,
        model_flops=model_flops,
        jobs=jobs,
        on_progress=on_progress,
        shown_as=shown_as,
    )
    given, counters, told = (
        _as_paths(name, each) for name, each in (("paths", paths), ("telemetry", telemetry), ("logs", logs))
    )
    if not (given or counters or told):
        raise UsageError("no input; give at least one trace, directory or pattern")
    training = as_training(parameters)
    catalog = load_catalog()
    if rules_config is not None:
        catalog = catalog.with_thresholds(
            rules_config if isinstance(rules_config, Mapping) else read_thresholds(rules_config)
        )
    reads = read_all(given, Wanted(steps, model_flops), jobs, on_progress, discover)
    if was_interrupted:
        reads = interrupted(reads)
    elif has_ended_well:
        reads = ended_well(reads)
    beside = read_log_inputs(told, log_pattern)
    beside += read_telemetry_inputs(counters, asked_of(reads, beside), job)
    reads += beside
    if shown_as:
        reads = renamed(reads, shown_as)
    if not any(read.input.error is None for read in reads):
        raise nothing_read(reads)
    if steps is not None:
        check_steps(steps, reads)
    given_marks = [each for read in reads for each in read.marks]
    marked = marks_of(reads, steps, rank, time.time_ns())
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
        catalog=catalog,
        job=job,
        lang=lang,
        training=training,
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
    report = with_tables(report, tables, lang)
    known = redact.NOBODY
    for read in reads:
        known = known | read.known
        if shown_as:  # the folder that is left off may be what says that a name is a user's
            known = known | redact.identities_in_path(read.path) | redact.identities_in_path(read.input.name)
    key = redact_key.encode() if redact_key else redact.key_of_inputs(i.sha256 or i.name for i in inputs)
    return Diagnosed(
        shown(redact.redact_report(report, key=key, known=known, keep_identities=keep_identities)),
        _sources(reads, rank),
        steps,
        redact.Redaction(key, known, keep_identities),
        tuple(part for read in reads for part in read.telemetry),
        rows,
    )


def _tells_of_all(read: Read) -> bool:
    """Whether an input may say something of a rank that it does not name."""
    return bool(read.memory or read.table or read.telemetry or read.log or read.flights or read.stacks)


def _as_paths(name: str, given: Paths) -> list[str]:
    try:
        return [os.fsdecode(each) for each in ([given] if isinstance(given, (str, os.PathLike)) else given)]
    except TypeError as error:
        raise UsageError(f"{name}: {error}; give a path or several") from error


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
