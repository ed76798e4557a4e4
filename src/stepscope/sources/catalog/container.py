"""cAdvisor (the kubelet's `/metrics/cadvisor`): what a container takes, and how often its quota stopped it.

A series without a container's name is of the pod or of the node, in which the containers are: left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.sample import Owner, Telemetry, TimeKind
from stepscope.sources.exporter import (
    exact_times,
    last_ns,
    rate,
    ratio_of_totals,
    same_times,
    scrape_interval_ns,
)
from stepscope.sources.field import Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import first, host, job_labels, lowered
from stepscope.sources.source import MetricSource

FORMAT = "cadvisor"
PERIODS = "container_cpu_cfs_periods_total"
THROTTLED = "container_cpu_cfs_throttled_periods_total"
CPU = "container_cpu_usage_seconds_total"
MEMORY = "container_memory_working_set_bytes"
_NAMES = ("exported_container", "container", "container_name", "name")


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    """Owners are of kind `process`: a container is a group of them, named `namespace/pod/container`."""
    gathering = Gathering(FORMAT)
    gathering.num_samples = sum(map(len, metrics))
    named: dict[Owner, dict[str, Metric]] = {}
    for metric in metrics:
        owner = _owner(metric)
        if owner is not None and len(metric) and metric.labels.get("cpu", "total") == "total":
            named.setdefault(owner, {}).setdefault(metric.name, metric)
            gathering.label(gathering.owner(owner), job_labels(metric.labels))
    for owner, of_owner in named.items():
        if MEMORY in of_owner:
            metric = of_owner[MEMORY]
            gathering.add(owner, Field("process_resident_bytes"), MEMORY, metric.at_ns, metric.value)
        if time == "none":
            continue
        if CPU in of_owner:
            gathering.add(
                owner, Field("process_cpu_cores"), CPU, *rate(gathering, *exact_times(of_owner[CPU]))
            )
        if PERIODS in of_owner and THROTTLED in of_owner:
            parts = [exact_times(of_owner[THROTTLED]), exact_times(of_owner[PERIODS])]
            at_ns, (throttled, periods) = same_times(parts)
            share = ratio_of_totals(gathering, at_ns, throttled, periods)
            gathering.add(owner, Field("cgroup_throttled_ratio"), THROTTLED, *share)
    return gathering.telemetry(name, time, window_ns=scrape_interval_ns(metrics), end_ns=last_ns(metrics))


def _owner(metric: Metric) -> Owner | None:
    lower = lowered(metric.labels)
    container = first(lower, _NAMES)
    if container is None or container == "POD":
        return None
    place = (
        first(lower, ("exported_namespace", "namespace")),
        first(lower, ("exported_pod", "pod")),
        container,
    )
    return Owner(kind="process", host=host(lower), name="/".join(each for each in place if each))


SOURCE = MetricSource(
    format=FORMAT,
    title="cAdvisor",
    claims=lambda name: name.startswith(("container_cpu_", "container_memory_", "container_spec_")),
    wants=frozenset((PERIODS, THROTTLED, CPU, MEMORY)).__contains__,
    read=read,
)
