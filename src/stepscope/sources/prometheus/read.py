"""Makes telemetry of what a Prometheus has of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stepscope.model.error import InputError, UsageError
from stepscope.model.sample import Telemetry
from stepscope.sources.prometheus.fetch import Fetch, Found
from stepscope.sources.prometheus.gap import down, silent
from stepscope.sources.prometheus.http import Limits, Service
from stepscope.sources.prometheus.label import UNAME, with_hosts, without_replicas
from stepscope.sources.prometheus.plan import Span, span_of
from stepscope.sources.prometheus.url import Endpoint, endpoint_of
from stepscope.sources.source import metric_sources
from stepscope.sources.telemetry import merged, telemetry_of

MARGIN_NS = 600 * 1_000_000_000
"""Read on both sides of a trace: lag is estimated over minutes, and a short trace is held against them."""
_MOST_NAMED = 3
_MOST_GAPS = 20

Note = tuple[str, int, str]


def read_parts_of_prometheus(
    url: str,
    *,
    start_ns: int | None,
    end_ns: int | None,
    margin_ns: int = MARGIN_NS,
    hosts: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> list[Telemetry]:
    """Every sample of the metrics we know in [start − margin, end + margin], one `Telemetry` an exporter, the
    one of most samples first.

    `start_ns` and `end_ns` are the trace's window, `None` without a trace: then the address must give one
    (`start=`, `end=`); where it does it is taken as it is, without margin. `hosts` restricts to the
    exporters of these hosts, where the address names none (`host=`). `environment` is where the address'
    `token_env` and `password_env` are looked up.

    UsageError: the address or its matchers; ServiceError: it cannot be reached, lets us not in or fails;
    InputError: it is no Prometheus or has nothing of ours; RefusedError: too much is asked.
    """
    endpoint = endpoint_of(url, environment)
    found = fetch(endpoint, window(endpoint, start_ns, end_ns, margin_ns), is_wanted, hosts, limits)
    metrics, num_copies = without_replicas(with_hosts(found.metrics))
    parts = telemetry_of(metrics, name=endpoint.shown, time="given" if found.are_times_steps else "scrape")
    if not parts:  # names that are asked for and hold nothing by themselves
        raise InputError(
            endpoint.shown,
            f"has nothing of devices or hosts in {found.span}",
            "does it scrape dcgm-exporter?",
        )
    return [replace(parts[0], notes=(*notes(found, num_copies), *parts[0].notes)), *parts[1:]]


def read_prometheus(
    url: str,
    *,
    start_ns: int | None,
    end_ns: int | None,
    margin_ns: int = MARGIN_NS,
    hosts: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Telemetry:
    """As `read_parts_of_prometheus`, all exporters as one source."""
    return merged(
        read_parts_of_prometheus(
            url, start_ns=start_ns, end_ns=end_ns, margin_ns=margin_ns, hosts=hosts, environment=environment,
            limits=limits,
        )
    )  # fmt: skip


def is_wanted(name: str) -> bool:
    """Whether a series of that name is read by an exporter's source, or says whose address it is."""
    return name == UNAME or any(
        source.claims(name) and (source.wants is None or source.wants(name)) for source in metric_sources()
    )


def fetch(
    endpoint: Endpoint,
    span: Span,
    known: Callable[[str], bool],
    hosts: Sequence[str] = (),
    limits: Limits | None = None,
) -> Found:
    """The samples of the metrics that `known` says are ours, as the server has them. Errors as above."""
    service = Service(endpoint, limits or Limits())
    try:
        return Fetch(service, span, known).all(endpoint.hosts or hosts)
    finally:
        service.close()


def window(endpoint: Endpoint, start_ns: int | None, end_ns: int | None, margin_ns: int) -> Span:
    """What to read: the address' own window, else the trace's with its margin."""
    first = endpoint.start_ns if endpoint.start_ns is not None else start_ns
    last = endpoint.end_ns if endpoint.end_ns is not None else end_ns
    if first is None or last is None:
        raise UsageError(
            f"{endpoint.shown}: no trace says which window to read: "
            "add ?start=2026-01-31T12:00:00Z&end=2026-01-31T12:10:00Z, or give a trace"
        )
    first -= margin_ns if endpoint.start_ns is None else 0
    last += margin_ns if endpoint.end_ns is None else 0
    if first >= last:
        raise UsageError(f"{endpoint.shown}: the window ends before it starts: let start be before end")
    return span_of(max(first, 0), last, 0)


def notes(found: Found, num_copies: int = 0) -> tuple[Note, ...]:
    """What is not as it should be with the answer: (code, count, detail), as in `Telemetry.notes`."""
    out: list[Note] = []
    if found.doubts:
        first = next(iter(found.doubts))
        out.append(
            ("partial_answer", len(found.doubts), f"the server says that its answer may lack some: {first}")
        )
    if found.refused:
        names = list(found.refused)
        few = ", ".join(names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
        out.append(("partial_answer", len(names), f"not read: {few} ({found.refused[names[0]]})"))
    if found.steps_of_ms is not None:
        what = f"read at steps of {found.steps_of_ms / 1e3:g} s, not sample by sample"
        if found.are_times_steps:
            what += ": times are those of the steps, up to a scrape interval or more after the sample"
        out.append(("resampled", 1, what))
    known = down(found.up)
    gaps = [*known, *silent(found.metrics, known)]
    out += [("telemetry_gap", gap.num_scrapes, str(gap)) for gap in gaps[:_MOST_GAPS]]
    if more := gaps[_MOST_GAPS:]:
        out.append(("telemetry_gap", sum(gap.num_scrapes for gap in more), f"and {len(more)} more"))
    if num_copies:
        out.append(("replica", num_copies, "series that several servers scraped are read once"))
    return tuple(out)
