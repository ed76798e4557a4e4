"""Any file of samples, known by its content, to `Telemetry`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepscope.model.error import InputError
from stepscope.model.sample import Telemetry, TimeKind
from stepscope.sources import file
from stepscope.sources.formats.api_json import read_api_json
from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.formats.line import without_cut_line
from stepscope.sources.formats.metric import Metric
from stepscope.sources.formats.moment import time_in_name
from stepscope.sources.refusal import refusal
from stepscope.sources.shape import is_api_json, is_exposition
from stepscope.sources.source import file_sources, metric_sources

HEAD = 64 << 10
"""Bytes by which a file is known."""
WANTED = (
    "give Prometheus text (dcgm-exporter, node-exporter, …), an answer of its API, or the output of "
    "nvidia-smi --query-gpu --format=csv, nvidia-smi dmon, pmon or topo -m, dcgmi dmon or amd-smi --csv"
)


def read_telemetry(path: str, *, data: bytes | None = None, name: str | None = None) -> Telemetry:
    """One file as one source. A body of several exporters is one `Telemetry` of the format that most samples
    have; `read_parts` keeps them apart. InputError where it is no telemetry or says nothing of use,
    RefusedError beyond a limit."""
    return merged(read_parts(path, data=data, name=name))


def read_parts(path: str, *, data: bytes | None = None, name: str | None = None) -> list[Telemetry]:
    """One file, one `Telemetry` an exporter in it, the one of most samples first."""
    name = name or path
    raw = file.read(path).data if data is None else data
    if b"\0" in raw[:HEAD]:
        raise InputError(name, refusal(raw, name) or "a binary file, no telemetry", WANTED)
    text = raw.decode("utf-8", "replace")
    head = text[:HEAD]
    for source in file_sources():
        if source.claims(head):
            return [source.read(text, name)]
    if is_api_json(head):
        answer = read_api_json(text, name)
        parts = telemetry_of(answer.metrics, name=name, time="sample")
        return _noted(_wanted(parts, answer.metrics, name), answer.faults)
    if is_exposition(head):
        scraped = read_exposition(text, given_ns=time_in_name(name))
        parts = telemetry_of(scraped.metrics, name=name, time=scraped.time)
        return _noted(_wanted(parts, scraped.metrics, name), scraped.faults)
    raise InputError(name, refusal(raw, name) or "no telemetry that is known", WANTED)


def read_scrapes(files: Sequence[tuple[str, bytes | None]]) -> list[Telemetry]:
    """Files of one scrape each, the time in their names (`dcgm_1700000015.prom`), as one history.

    Of each (path, its bytes, or None to read it). One `Telemetry` an exporter, times `given`. InputError
    where a name states no time.
    """
    scrapes = []
    for path, data in files:
        at_ns = time_in_name(path)
        if at_ns is None:
            mend = "name it after the second of its scrape, as in node1_1700000000.prom"
            raise InputError(path, "no time in the name of the file", mend)
        text = (file.read(path).data if data is None else data).decode("utf-8", "replace")
        scrapes.append((at_ns, without_cut_line(text)[0].rstrip("\n") + "\n"))
    whole = "".join(f"# scraped_at_ns {at_ns}\n{text}" for at_ns, text in sorted(scrapes))
    name = files[0][0] if files else ""
    parts = read_parts(name, data=whole.encode())
    return [replace(part, time="given") if part.time == "scrape" else part for part in parts]


def telemetry_of(metrics: Sequence[Metric], *, name: str, time: TimeKind) -> list[Telemetry]:
    """Series of any exporters, one `Telemetry` an exporter, the one of most samples first; series that no
    source claims are left out. Empty where none is claimed."""
    rest = list(metrics)
    parts = []
    for source in metric_sources():
        claimed = [metric for metric in rest if source.claims(metric.name)]
        if claimed:
            rest = [metric for metric in rest if not source.claims(metric.name)]
            parts.append(source.read(claimed, name, time))
    return sorted(parts, key=lambda part: -part.num_samples)


def merged(parts: Sequence[Telemetry]) -> Telemetry:
    """Several as one, of the first one's format. What they declare of their windows is kept where they agree.

    An owner that two describe is as the first has it. Of a signal that two have of one owner (two
    exporters on one host) the first one's series counts.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    seen: set[tuple[object, str]] = set()
    series = []
    for part in parts:
        fresh = [each for each in part.series if (each.owner.key, each.signal) not in seen]
        seen |= {(each.owner.key, each.signal) for each in fresh}
        series += fresh
    labels = {owner: kept for part in reversed(parts) for owner, kept in part.labels.items()}
    windows = {part.window_ns for part in parts}
    return replace(
        first,
        series=tuple(series),
        window_ns=windows.pop() if len(windows) == 1 else None,
        missing=tuple(each for part in parts for each in part.missing),
        marks=tuple(sorted((m for part in parts for m in part.marks), key=lambda mark: mark.at_ns)),
        notes=tuple(each for part in parts for each in part.notes),
        labels=labels,
        num_samples=sum(part.num_samples for part in parts),
        num_redacted=sum(part.num_redacted for part in parts),
    )


def is_telemetry(path: str, head: bytes) -> bool:
    """Whether a file of a folder is taken for telemetry: by its first bytes, unpacked, not by its name."""
    if b"\0" in head:
        return False
    text = head[:HEAD].decode("utf-8", "replace")
    if any(source.claims(text) for source in file_sources()):
        return True
    if is_api_json(text):
        return True
    return is_exposition(text) and _has_known_name(text)


def _has_known_name(text: str) -> bool:
    names = {metric.name for metric in read_exposition(text).metrics}
    return any(source.claims(name) for name in names for source in metric_sources())


def _wanted(parts: list[Telemetry], metrics: Sequence[Metric], name: str) -> list[Telemetry]:
    if parts:
        return parts
    if not metrics:
        raise InputError(name, "it holds no sample", "scrape again, or ask for a window with samples")
    names = sorted({metric.name for metric in metrics if metric.name})
    some = ", ".join(names[:3]) or "series without a name"
    raise InputError(name, f"series of no exporter that is known ({some})", WANTED)


def _noted(parts: list[Telemetry], faults: tuple[tuple[str, int, str], ...]) -> list[Telemetry]:
    """The file's own faults, told once."""
    return [replace(parts[0], notes=(*faults, *parts[0].notes)), *parts[1:]]
