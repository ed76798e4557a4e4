"""Files in, report out: the only I/O of the offline path.

    load(path)        one trace, in columns, without its secrets
    diagnose(paths)   the report of any number of traces

Ranks are read one after another (or `jobs` at a time) and their columns are dropped once they are analysed:
memory follows the largest file, not the number of files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeGuard

import msgspec

from stepscope.model import redact
from stepscope.model.analysis import RankAnalysis
from stepscope.model.error import InputError, RefusedError, StepscopeError, UnusableError, UsageError
from stepscope.model.report import HealthIssue, Input, InputKind, Memory, Report
from stepscope.model.text import LANGS, Lang
from stepscope.model.trace import Trace

OnProgress = Callable[[str, int, int], None]
"""Called with an input's name, bytes read so far and bytes in all."""


MAX_THRESHOLD_BYTES = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller asks of every input."""

    steps: tuple[int, int] | None = None
    model_flops: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    """What is kept of one input once its columns are dropped."""

    input: Input
    path: str
    analyses: tuple[RankAnalysis, ...] = ()
    memory: tuple[Memory, ...] = ()
    """Of a memory snapshot."""
    known: redact.Identities = redact.NOBODY
    error: StepscopeError | None = None
    recorded: tuple[int, int] | None = None
    """First and last step number in the file, `None` where it has no steps."""


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
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
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

    `steps` is a range of step numbers, both ends included; `rank` leaves out every other rank; `job` names
    the run; `lang` is the language of its sentences, `en` or `zh`; `rules_config` holds a site's thresholds,
    as a TOML file or as `{rule: {feature: number}}`. Identities (host and user names, home paths, addresses)
    become pseudonyms under `redact_key`, or under a key derived from the inputs, unless `keep_identities`;
    secrets are removed in any case. `model_flops` is the arithmetic that one rank's model needs in a step,
    for MFU; without it MFU is derived where recorded shapes tell. `jobs` files are read at the same time.
    `shown_as` gives names to show in the place of paths.

    In a notebook the report shows itself as its HTML page.

    An input that cannot be used is named in `report.inputs[].error`. Raises
    `stepscope.model.error.StepscopeError` where none can be used, or where the options make no sense.
    """
    return diagnosed(
        paths,
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
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
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
) -> Diagnosed:
    """As `diagnose`, with what it takes to read the traces again."""
    from stepscope.diagnose import Options
    from stepscope.diagnose import diagnose as diagnose_ranks
    from stepscope.rules import load_catalog
    from stepscope.trace.load import discover
    from stepscope.views.notebook import shown

    _check_options(
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
    try:
        given = [os.fsdecode(each) for each in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    except TypeError as error:
        raise UsageError(f"paths: {error}; give a path or several") from error
    if not given:
        raise UsageError("no input; give at least one trace, directory or pattern")
    catalog = load_catalog()
    if rules_config is not None:
        catalog = catalog.with_thresholds(
            rules_config if isinstance(rules_config, Mapping) else read_thresholds(rules_config)
        )
    reads = _read_all(given, Wanted(steps, model_flops), jobs, on_progress, discover)
    if not any(read.input.error is None for read in reads):
        raise _nothing_read(reads)
    if steps is not None:
        _check_steps(steps, reads)
    if shown_as:
        reads = [_renamed(read, shown_as.get(read.input.name)) for read in reads]
    analyses, inputs = _one_file_a_rank(reads)
    if rank is not None:
        found = sorted({a.rank for a in analyses if a.rank is not None})
        analyses = [a for a in analyses if a.rank == rank]
        if not analyses and not any(read.memory for read in reads):
            there = f"there are: {', '.join(map(str, found))}" if found else "the inputs name no rank"
            raise UsageError(f"no input is of rank {rank}; {there}")
    options = Options(catalog=catalog, job=job, lang=lang, native_loader=has_native_loader())
    memory = [
        msgspec.structs.replace(row, input=place)
        for place, read in enumerate(reads)
        for row in read.memory
        if rank is None or row.rank in (None, rank)
    ]
    report = diagnose_ranks(analyses, inputs, options, memory)
    known = redact.NOBODY
    for read in reads:
        known = known | read.known
    key = redact_key.encode() if redact_key else redact.key_of_inputs(i.sha256 or i.name for i in inputs)
    return Diagnosed(
        shown(redact.redact_report(report, key=key, known=known, keep_identities=keep_identities)),
        _sources(reads, rank),
        steps,
        redact.Redaction(key, known, keep_identities),
    )


def _sources(reads: Sequence[_Read], rank: int | None) -> tuple[Source, ...]:
    """The traces that were used: not those that cannot be read, repeat a rank or are of another rank."""
    owner: dict[int, int] = {}
    found = []
    for place, read in enumerate(reads):
        ranks = {analysis.rank for analysis in read.analyses}
        is_first = [number is None or owner.setdefault(number, place) == place for number in ranks]
        if read.input.error is None and any(is_first) and (rank is None or rank in ranks):
            found.append(Source(read.path, place, read.input.sha256))
    return tuple(found)


def _check_options(**given: Any) -> None:
    """Refuse options that make no sense in one line each: the first one, with what to give in its place."""
    steps, rank, jobs, rules = given["steps"], given["rank"], given["jobs"], given["rules_config"]
    is_pair = isinstance(steps, (tuple, list)) and len(steps) == 2 and all(map(_is_count, steps))
    sound: dict[str, tuple[bool, str]] = {
        "steps": (
            steps is None or (is_pair and steps[0] <= steps[1]),
            "(first, last), the smaller first, as in (5, 9)",
        ),
        "rank": (rank is None or (_is_count(rank) and rank >= 0), "0 or more, or None for all"),
        "job": (isinstance(given["job"], str | None), "a name"),
        "lang": (given["lang"] in LANGS, " or ".join(map(repr, LANGS))),
        "rules_config": (
            rules is None or isinstance(rules, (str, os.PathLike, Mapping)),
            "a TOML file, or {rule: {feature: number}}",
        ),
        "redact_key": (isinstance(given["redact_key"], str | None), "a text"),
        "model_flops": (
            given["model_flops"] is None or (_is_count(given["model_flops"]) and given["model_flops"] > 0),
            "a number of operations above 0, or None",
        ),
        "jobs": (_is_count(jobs) and jobs >= 1, "1 or more"),
        "on_progress": (given["on_progress"] is None or callable(given["on_progress"]), "a function"),
        "shown_as": (isinstance(given["shown_as"], Mapping | None), "{path: name}"),
    }
    for name, (is_sound, wanted) in sound.items():
        if not is_sound:
            value = given[name]
            # A key is a secret, and what is no plain value may take pages.
            is_told = name != "redact_key" and (
                value is None or isinstance(value, (str, int, float, tuple, list))
            )
            told = " ".join(repr(value).split())[:80] if is_told else f"a {type(value).__name__}"
            raise UsageError(f"{name} is {told}; give {wanted}")


def _is_count(value: object) -> TypeGuard[int]:
    """An integer, NumPy's among them; true and false count nothing."""
    return isinstance(value, SupportsIndex) and not isinstance(value, bool)


def read_thresholds(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """A site's thresholds from TOML: `[rule-id]`, then `feature = number`."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    name = os.fspath(path)
    mend = "--rules-config takes a TOML file"
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise UsageError(f"{name}: is {kind}; {mend}")
        with open(path, "rb") as file:
            data = file.read(MAX_THRESHOLD_BYTES + 1)
        if len(data) > MAX_THRESHOLD_BYTES:
            raise UsageError(f"{name}: is larger than {MAX_THRESHOLD_BYTES // 1_000_000} MB; {mend}")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        no_text = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "is no file name"
        why = error.strerror if isinstance(error, OSError) else no_text
        raise UsageError(f"{name}: {why}; {mend}") from error
    try:
        thresholds: Mapping[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{name}: is nested too deeply; {mend}") from error
    except tomllib.TOMLDecodeError as error:
        mend = "--rules-config takes TOML: [rule-id], then feature = number"
        raise UsageError(f"{name}: {error}; {mend}") from error
    return thresholds


def _read_all(
    paths: Sequence[str],
    wanted: Wanted,
    jobs: int,
    on_progress: OnProgress | None,
    discover: Any,
) -> list[_Read]:
    reads: list[_Read] = []
    sources: list[str] = []
    for path in paths:
        try:
            sources += [source for source in discover([path]) if source not in sources]
        except StepscopeError as error:
            reads.append(_refused(path, error))
        except OSError as error:  # a folder on the way that may not be entered
            reads.append(_refused(path, _unreadable(path, error)))
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


def _without_copies(reads: Sequence[_Read]) -> list[_Read]:
    """Of inputs with the same bytes the first is used: twice the same run is no second rank."""
    first: dict[str, str] = {}
    kept = []
    for read in reads:
        digest = read.input.sha256
        name = first.setdefault(digest, read.input.name) if digest and read.error is None else None
        kept.append(read if name in (None, read.input.name) else _copy_of(name, read.input))
    return kept


def _copy_of(first: str, given: Input) -> _Read:
    what = f"{given.name}: the same bytes as {first}; left out"
    return _Read(
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
) -> _Read:
    """Load and analyse one input; its columns are gone when this returns.

    `seen` holds the digests of the inputs before it: one with the same bytes is not analysed again.
    """
    from stepscope.analyse.rank import analyse_rank
    from stepscope.sources import file
    from stepscope.sources.catalog.torch_snapshot import is_snapshot
    from stepscope.trace.load import load as load_file
    from stepscope.trace.load import rank_of

    if is_snapshot(name, file.head(name)):
        return _read_snapshot(name)
    try:
        trace = load_file(name, progress=partial(on_progress, name) if on_progress else None, digest=True)
    except StepscopeError as error:
        return _refused(name, error)
    except OSError as error:
        return _refused(name, _unreadable(name, error))
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
    return _Read(
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
    )


def _read_snapshot(name: str) -> _Read:
    """Read and analyse one memory snapshot. Its stacks are all of its text that goes on."""
    from stepscope.analyse.memory.of_snapshot import memory_of_snapshot
    from stepscope.sources import file
    from stepscope.sources.catalog import torch_snapshot
    from stepscope.trace.discover import rank_in_name

    try:
        whole = file.read(name)
        snapshot = torch_snapshot.parse(whole.data, name)
    except StepscopeError as error:
        return _refused(name, error, "snapshot")
    texts, num_secrets = redact.tree_without_secrets([list(stack) for stack in snapshot.stacks])
    snapshot = dataclasses.replace(snapshot, stacks=tuple(map(tuple, texts)))
    rank = rank_in_name(name)
    times = snapshot.times_ns
    return _Read(
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


def _check_steps(steps: tuple[int, int], reads: Sequence[_Read]) -> None:
    """Refuse a range in which no input has a step: an answer about other steps would be a wrong one."""
    if any(analysis.steps for read in reads for analysis in read.analyses):
        return
    ranges = [read.recorded for read in reads if read.recorded is not None]
    there = (
        f"steps {min(a for a, _ in ranges)} to {max(b for _, b in ranges)} are recorded"
        if ranges
        else "no steps are marked; leave --steps out"
    )
    raise UsageError(f"no step from {steps[0]} to {steps[1]} in the inputs: {there}")


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
    spans = trace.spans
    if trace.anchor == "none" or len(spans.ts_ns) == 0:
        return None, None
    is_sound = (spans.dur_ns >= 0) & (spans.ts_ns > 0) & (spans.dur_ns < 1 << 61) & (spans.ts_ns < 1 << 61)
    if not is_sound.any():
        return None, None
    start = spans.ts_ns[is_sound]
    return int(start.min()), int((start + spans.dur_ns[is_sound]).max())


def _refused(name: str, error: StepscopeError, kind: InputKind = "trace") -> _Read:
    what = str(error)
    num_bytes = None
    if os.path.isfile(name):
        with contextlib.suppress(OSError):
            num_bytes = os.path.getsize(name)
    return _Read(Input(kind=kind, name=name, bytes=num_bytes, error=what), name, error=error)


def _unreadable(name: str, error: OSError) -> InputError:
    why = (error.strerror or type(error).__name__).lower()
    return InputError(name, f"cannot be read: {why}", "check the path and its permissions")


def _renamed(read: _Read, name: str | None) -> _Read:
    return dataclasses.replace(read, input=msgspec.structs.replace(read.input, name=name)) if name else read


def _nothing_read(reads: Sequence[_Read]) -> StepscopeError:
    errors = [read.input.error or "" for read in reads]
    # Refused for safety is not unreadable, and has a code of its own.
    is_refused = all(isinstance(read.error, RefusedError) for read in reads)
    kind = RefusedError if is_refused else UnusableError
    if len(errors) == 1:
        return kind(errors[0])
    return kind(f"none of the {len(errors)} inputs can be read: {errors[0]} (and {len(errors) - 1} more)")


def _one_file_a_rank(reads: Sequence[_Read]) -> tuple[list[RankAnalysis], list[Input]]:
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


__all__ = ["InputError", "diagnose", "has_native_loader", "load"]
