"""Samples of telemetry as one long table: of a server's window, a spool, or what `--telemetry` takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from stepscope.model import redact
from stepscope.model.error import UsageError
from stepscope.model.sample import Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.offline.beside import Asked, read_telemetry_inputs

COLUMNS = ("at_ns", "host", "kind", "device", "pid", "name", "job", "run", "rank", "signal", "unit", "value")
"""`device` is a UUID, with `/MIG` behind where it is an instance, else an index; what is not known is
empty."""


def read(
    path: str, job: str | None, environment: Mapping[str, str], *, key: bytes | None
) -> tuple[list[Mapping[str, Any]], list[tuple[Any, Any]]]:
    """What stands on each series' rows, and its (times, values). Hosts are pseudonyms under `key`, themselves
    without one. StepscopeError where it cannot be read."""
    reads = read_telemetry_inputs([path], Asked(environment=environment), job)
    for each in reads:
        if each.error is not None:
            raise each.error
    parts = [part for each in reads for part in each.telemetry]
    names = redact.Pseudonyms(key) if key is not None else None
    return _rows(parts, names)


def _rows(
    parts: Sequence[Telemetry], names: redact.Pseudonyms | None
) -> tuple[list[Mapping[str, Any]], list[tuple[Any, Any]]]:
    heads: list[Mapping[str, Any]] = []
    columns: list[tuple[Any, Any]] = []
    for part in parts:
        for series in part.series:
            owner, labels = series.owner, part.labels.get(series.owner, {})
            host = owner.host or ""
            device = owner.uuid or ("" if owner.index is None else str(owner.index))
            heads.append(
                {
                    "host": names.name("host", host) if names is not None and host else host,
                    "kind": owner.kind,
                    "device": f"{device}/{owner.mig}" if device and owner.mig else device,
                    "pid": "" if owner.pid is None else str(owner.pid),
                    "name": owner.name or "",
                    **{each: labels.get(each, "") for each in ("job", "run", "rank")},
                    "signal": series.signal,
                    "unit": SIGNALS[series.signal].unit,
                }
            )
            columns.append((series.at_ns, series.value))
    if not heads:
        raise UsageError("there are no samples in it; is it the right job and window?")
    return heads, columns


def write(
    path: str,
    output: str,
    sink: BinaryIO,
    *,
    job: str | None,
    environment: Mapping[str, str],
    key: bytes | None,
) -> None:
    """Write them: Parquet where the name of `output` ends so, else CSV. Series by series, each by time."""
    heads, columns = read(path, job, environment, key=key)
    if output.removesuffix(".gz").endswith(".parquet"):
        from stepscope.export.parquet import write_columns

        sizes = [len(at_ns) for at_ns, _ in columns]
        whole: dict[str, Any] = {"at_ns": np.concatenate([at_ns for at_ns, _ in columns])}
        for name in COLUMNS[1:-1]:
            whole[name] = np.repeat(np.array([head[name] for head in heads], dtype=object), sizes)
        whole["value"] = np.concatenate([value for _, value in columns])
        write_columns(whole, sink)
        return
    text = io.TextIOWrapper(sink, encoding="utf-8", newline="", write_through=False)
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for head, (at_ns, value) in zip(heads, columns, strict=True):
        said = [head[name] for name in COLUMNS[1:-1]]
        rows.writerows(
            [at, *said, repr(each)] for at, each in zip(at_ns.tolist(), value.tolist(), strict=True)
        )
    text.flush()
    text.detach()
