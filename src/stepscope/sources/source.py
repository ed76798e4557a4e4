"""The contract of the catalogue: one file a source, its one agreed name `SOURCE`.

There are two families. A `FileSource` is a text of a shape of its own. A `MetricSource` is an exporter: names
of series, however they came (text, Prometheus' API, PromQL).
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from stepscope.model.sample import Telemetry, TimeKind
from stepscope.sources.formats.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """`claims(head)` says from the first bytes, as text, whether the file is one; `read(text, name)` raises
    InputError where it is one and cannot be read. `title` is what the format is called in an error."""

    format: str
    title: str
    claims: Callable[[str], bool]
    read: Callable[[str, str], Telemetry]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSource:
    """`claims(name)` says of a series' name whether it is this exporter's; `read(metrics, name, time)` reads
    all that it claimed."""

    format: str
    title: str
    claims: Callable[[str], bool]
    read: Callable[[Sequence[Metric], str, TimeKind], Telemetry]
    wants: Callable[[str], bool] | None = None
    """Which of the claimed names it reads, where those are few of many: a server is asked for no other.
    `None`: all."""


@functools.cache
def sources() -> tuple[FileSource | MetricSource, ...]:
    """Every source of the catalogue, by the names of their files. TypeError where a `SOURCE` is none."""
    from stepscope.sources import catalog

    found = []
    for each in pkgutil.iter_modules(catalog.__path__):
        module = importlib.import_module(f"{catalog.__name__}.{each.name}")
        if hasattr(module, "SOURCE"):
            found.append(_as_source(module))
    return tuple(found)


def _as_source(module: ModuleType) -> FileSource | MetricSource:
    source = module.SOURCE
    if not isinstance(source, FileSource | MetricSource):
        raise TypeError(f"{module.__name__}: SOURCE is a {type(source).__name__}, not a source")
    return source


def file_sources() -> tuple[FileSource, ...]:
    return tuple(each for each in sources() if isinstance(each, FileSource))


def metric_sources() -> tuple[MetricSource, ...]:
    return tuple(each for each in sources() if isinstance(each, MetricSource))
