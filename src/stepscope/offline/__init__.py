"""Files in, report out: the only I/O of the offline path.

    load(path)        one trace, in columns, without its secrets
    diagnose(paths)   the report of any number of traces

Ranks are read one after another (or `jobs` at a time) and their columns are dropped once they are analysed:
memory follows the largest file, not the number of files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from stepscope.model import redact
from stepscope.model.error import InputError, UsageError
from stepscope.model.report import Report
from stepscope.model.text import Lang
from stepscope.model.trace import Trace
from stepscope.offline.beside import asked_of, read_log_inputs, read_telemetry_inputs
from stepscope.offline.joined import Diagnosed, Joining, Source, has_native_loader, joined
from stepscope.offline.mark import ended_well, interrupted
from stepscope.offline.option import as_training, check_options, read_thresholds
from stepscope.offline.read import OnProgress, Wanted, read_all, renamed

__all__ = ["Diagnosed", "InputError", "Source", "diagnose", "diagnosed", "has_native_loader", "load"]


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


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
    from stepscope.rules import load_catalog
    from stepscope.trace.load import discover

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
    return joined(
        reads,
        Joining(
            catalog=catalog,
            job=job,
            lang=lang,
            training=training,
            steps=steps,
            rank=rank,
            redact_key=redact_key,
            keep_identities=keep_identities,
            shown_as=shown_as,
            now_ns=time.time_ns(),
        ),
    )


def _as_paths(name: str, given: Paths) -> list[str]:
    try:
        return [os.fsdecode(each) for each in ([given] if isinstance(given, (str, os.PathLike)) else given)]
    except TypeError as error:
        raise UsageError(f"{name}: {error}; give a path or several") from error
