"""Cuts what is wanted into questions that a server answers: by target and by time. Pure.

A server that holds the samples is asked for each of them, by a range selector (`NAME{…}[600s]` at an
instant), not for values at steps: so times are those of the scrapes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from stepscope.sources.prometheus.answer import MS

HOST_LABELS = (
    "Hostname", "hostname", "nodename", "node", "kubernetes_node", "host", "exported_instance", "instance",
)  # fmt: skip
"""Labels that may hold the host's name, those of exporters first: dcgm-exporter before and since its
PR#655, node-exporter's `node_uname_info`, and what relabelling in Kubernetes adds."""
TARGET_LABELS = ("job", *HOST_LABELS)
TOO_MUCH = (
    "too many samples",  # Prometheus: query.max-samples
    "maxsamplesperquery",  # VictoriaMetrics
    "too many points",  # VictoriaMetrics, query_range
    "exceeded maximum resolution",  # Prometheus, query_range
    "too many",
    "exceed",  # Thanos, Mimir and Cortex: limits of series, chunks, bytes
    "limit",
    "too large",
    "timed out",
    "timeout",
)
"""Parts of refusals, in lower case, after which half the question may be answered."""
MOST_POINTS = 10_000
"""Of one series over steps: Prometheus stops at 11,000, VictoriaMetrics at 30,000."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in whole milliseconds since the epoch, both ends in it."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        return self.end_ms - self.start_ms

    def cut(self, pieces: int) -> list[Span]:
        """Pieces that meet in one instant: what lies on it is read twice, and kept once."""
        pieces = max(1, min(pieces, self.length_ms))
        edges = [self.start_ms + self.length_ms * k // pieces for k in range(pieces + 1)]
        return [Span(a, b) for a, b in itertools.pairwise(edges)]

    def __str__(self) -> str:
        ends = [datetime.fromtimestamp(each / 1e3, timezone.utc) for each in (self.start_ms, self.end_ms)]
        same_day = ends[0].date() == ends[1].date()
        return f"{ends[0]:%Y-%m-%d %H:%M:%S}–{ends[1]:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}} UTC"


def span_of(start_ns: int, end_ns: int, margin_ns: int) -> Span:
    """The window with its margin, rounded outwards."""
    return Span((start_ns - margin_ns) // MS, -(-(end_ns + margin_ns) // MS))


@dataclass(frozen=True, slots=True)
class Target:
    """What is scraped: its `TARGET_LABELS`, empty ones left out."""

    labels: tuple[tuple[str, str], ...]

    @property
    def job(self) -> str:
        return dict(self.labels).get("job", "")

    @property
    def instance(self) -> str:
        return dict(self.labels).get("instance", "")

    def names(self) -> set[str]:
        """Names and addresses its host may have, without port, lower case."""
        return {without_port(value) for label, value in self.labels if label in HOST_LABELS}

    def is_on(self, host: str) -> bool:
        """Whether it is of that host: the same name, or one is the other with a domain."""
        wanted = without_port(host)
        return any(
            name == wanted
            or ((name.startswith(f"{wanted}.") or wanted.startswith(f"{name}.")) and not is_address(name))
            for name in self.names()
        )


def target_of(labels: Mapping[str, str]) -> Target:
    """The target of a series."""
    return Target(tuple((name, labels[name]) for name in TARGET_LABELS if labels.get(name)))


def is_address(name: str) -> bool:
    """Whether it is an IP address: a prefix of one is no host."""
    return ":" in name or bool(re.fullmatch(r"[0-9.]+", name))


def without_port(name: str) -> str:
    """`Node-1:9100` as `node-1`, `[::1]:9400` as `::1`."""
    name = name.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    head, colon, tail = name.rpartition(":")
    return head if colon and tail.isdecimal() and ":" not in head else name


def quoted(text: str) -> str:
    """A string of PromQL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def one_of(label: str, values: Sequence[str]) -> str:
    """The matcher that a label has one of these values; absent counts as empty."""
    if len(values) == 1:
        return f"{label}={quoted(values[0])}"
    return f"{label}=~{quoted('|'.join(re.escape(value) for value in values))}"


def selector(name: str, matchers: Sequence[str]) -> str:
    """`NAME{a="b",…}`."""
    return f"{name}{{{','.join(matchers)}}}" if matchers else name


def ranged(selected: str, span: Span) -> str:
    """A range selector over a span, to be asked at its end. VictoriaMetrics and Prometheus 3 leave the
    begin out, so it starts a millisecond earlier."""
    return f"{selected}[{span.length_ms + 1}ms]"


def count_query(name: str, matchers: Sequence[str], span: Span) -> str:
    """How many samples each target has: small, however many there are."""
    return f"sum by ({', '.join(TARGET_LABELS)}) (count_over_time({ranged(selector(name, matchers), span)}))"


@dataclass(frozen=True, slots=True)
class Part:
    """One question: a metric of some targets over a span."""

    name: str
    matchers: tuple[str, ...]
    span: Span

    @property
    def selected(self) -> str:
        return selector(self.name, self.matchers)

    def halves(self) -> list[Part]:
        return [Part(self.name, self.matchers, half) for half in self.span.cut(2)]


def parts_of(
    name: str,
    samples: Mapping[str, int],
    matchers: Sequence[str],
    span: Span,
    *,
    is_all: bool,
    most_samples: int,
    most_characters: int,
) -> list[Part]:
    """The questions for one metric. `samples` counts them by instance; `is_all` where those instances are
    all that have the metric: then none need be named."""
    parts: list[Part] = []
    group: list[str] = []
    held = characters = 0
    total = sum(samples.values())
    if is_all and total <= most_samples:
        return [Part(name, tuple(matchers), span)]
    for instance in sorted(samples):
        size = len(re.escape(instance)) * 3  # every character percent-encoded
        if group and (held + samples[instance] > most_samples or characters + size > most_characters // 2):
            parts += _of_group(name, group, matchers, span, held, most_samples)
            group, held, characters = [], 0, 0
        group.append(instance)
        held += samples[instance]
        characters += size
    if group:
        parts += _of_group(name, group, matchers, span, held, most_samples)
    return parts


def _of_group(
    name: str, group: Sequence[str], matchers: Sequence[str], span: Span, held: int, most_samples: int
) -> list[Part]:
    chosen = (*matchers, one_of("instance", group))
    return [Part(name, chosen, piece) for piece in span.cut(math.ceil(held / most_samples))]
