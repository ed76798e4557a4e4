"""What a Prometheus' labels say beyond the exporter's: which host it is, and which copy counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stepscope.sources.formats.metric import Metric
from stepscope.sources.prometheus.plan import HOST_LABELS, Target, is_address, target_of, without_port

REPLICA_LABELS = frozenset(
    ("replica", "prometheus_replica", "__replica__", "thanos_replica", "receive_replica")
)
"""By which two servers that scrape the same targets are told apart, as the manuals of Thanos and of the
Prometheus operator name it. Two jobs that scrape one address are two copies too."""
_COPY_LABELS = tuple(sorted(REPLICA_LABELS | {"job"}))
UNAME = "node_uname_info"
"""node-exporter's series whose label `nodename` is the host's name."""
_NAMING = frozenset(label.lower() for label in HOST_LABELS) - {"instance", "exported_instance"}


def with_hosts(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics, those whose `instance` is all that says where they are with a label `hostname`: the name
    that another exporter of the same address gives.

    So that a host's counters and those of its devices are of one host. An address with two names has none.
    """
    names: dict[str, set[str]] = {}
    for metric in metrics:
        name = _named(metric.labels)
        if name is not None:
            names.setdefault(without_port(metric.labels.get("instance", "")), set()).add(name)
    out = []
    for metric in metrics:
        known = names.get(without_port(metric.labels.get("instance", "")), set())
        if metric.labels.get("instance") and len(known) == 1 and _named(metric.labels) is None:
            metric = replace(metric, labels={**metric.labels, "hostname": min(known)})
        out.append(metric)
    return out


def _named(labels: Mapping[str, str]) -> str | None:
    """The host's name by any label that is there for it; an address is no name."""
    for label, value in labels.items():
        if label.lower() in _NAMING and value and not is_address(without_port(value)):
            return value
    return None


def without_replicas(metrics: Sequence[Metric]) -> tuple[list[Metric], int]:
    """One copy of each series where several servers, or jobs, scraped it; and how many were left out.

    Of each target the replica with the most samples is kept for all metrics, so that their times stay those
    of one scrape.
    """
    total: Counter[tuple[Target, tuple[str, ...]]] = Counter()
    for metric in metrics:
        total[_target(metric), _replica(metric.labels)] += len(metric)
    best: dict[tuple[str, tuple[tuple[str, str], ...]], Metric] = {}
    for metric in metrics:
        key = (metric.name, _plain(metric.labels))
        there = best.get(key)
        if there is None or _rank(total, metric) > _rank(total, there):
            best[key] = metric
    return list(best.values()), len(metrics) - len(best)


def _target(metric: Metric) -> Target:
    return target_of(dict(_plain(metric.labels)))


def _replica(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels.get(label, "") for label in _COPY_LABELS)


def _plain(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    copies = _COPY_LABELS if labels.get("instance") else REPLICA_LABELS
    return tuple(sorted((k, v) for k, v in labels.items() if k not in copies))


def _rank(total: Counter[tuple[Target, tuple[str, ...]]], metric: Metric) -> tuple[int, tuple[str, ...]]:
    replica = _replica(metric.labels)
    return total[_target(metric), replica], replica
