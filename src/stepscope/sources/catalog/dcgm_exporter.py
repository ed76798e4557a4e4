"""dcgm-exporter, of any version: DCGM's fields by name, every series of a device or a MIG instance.

It prints no times and holds the newest of its own samples, taken every 30 s unless told otherwise: `at_ns` is
the scrape, and neither window nor lag is known from the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.sample import Owner, Telemetry, TimeKind
from stepscope.sources.dcgm_field import BY_NAME, BYTES, CYCLES, ELAPSED_NAME
from stepscope.sources.exporter import (
    add_by_table,
    exact_times,
    first_ns,
    last_ns,
    rate,
    ratio_of_totals,
    same_times,
    xid_count,
    xid_gauge,
)
from stepscope.sources.field import Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import device, job_labels, lowered
from stepscope.sources.source import MetricSource

FORMAT = "dcgm-exporter"
XID_COUNTS = ("DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_XID_ERRORS_COUNT", "DCGM_FI_DEV_XID_ERRORS_ACTIVE")
"""How often each Xid came within a window, one series a code; three names over the years."""
_ENTITIES = ("nvswitch", "nvlink", "cpu", "cpucore")
_RAW = {ELAPSED_NAME, *(name for name, _ in (*CYCLES.values(), *BYTES.values()))}


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    """Series of a GPU; those of one link, a switch or a Grace CPU are left out."""
    gathering = Gathering(FORMAT)
    of_devices = [metric for metric in metrics if not _is_of_part(metric)]
    gathering.num_samples += sum(map(len, metrics)) - sum(map(len, of_devices))
    add_by_table(gathering, of_devices, _field, _owner)
    gauges = [(_owner(m), m) for m in of_devices if len(m) and (f := _field(m)) and f.signal == "xid"]
    xid_gauge(gathering, gauges)
    start_ns = first_ns(metrics)
    for metric in of_devices:
        if metric.name in XID_COUNTS and len(metric):
            labels = lowered(metric.labels)
            code = labels.get("xid", "")
            if code.isascii() and code.isdigit() and len(code) < 6:
                owner = gathering.owner(_owner(metric))
                xid_count(gathering, owner, int(code), metric.at_ns, metric.value, start_ns)
                gathering.label(owner, job_labels(metric.labels))
    if time != "none":
        _raw_counters(gathering, of_devices)
    return gathering.telemetry(name, time, end_ns=last_ns(metrics))


def _field(metric: Metric) -> Field | None:
    row = BY_NAME.get(metric.name.lower())
    return row.field if row else None


def _owner(metric: Metric) -> Owner:
    return device(metric.labels)


def _is_of_part(metric: Metric) -> bool:
    labels = lowered(metric.labels)
    return any(labels.get(name) for name in _ENTITIES)


def _raw_counters(gathering: Gathering, metrics: Sequence[Metric]) -> None:
    """Cycles and bytes since the driver was loaded, of 4.6: exact over the scrape interval. They count
    where the averages of DCGM are not there."""
    raw: dict[tuple[Owner, str], Metric] = {}
    for metric in metrics:
        if metric.name in _RAW and len(metric) > 1:
            raw.setdefault((_owner(metric), metric.name), metric)
    for (owner, name), metric in raw.items():
        elapsed = raw.get((owner, ELAPSED_NAME))
        for active_name, signal in CYCLES.values():
            if name == active_name and elapsed is not None:
                at_ns, (part, whole) = same_times([exact_times(metric), exact_times(elapsed)])
                times, value = ratio_of_totals(gathering, at_ns, part, whole)
                gathering.add(owner, Field(signal, blank="none", rank=2), name, times, value)
        for bytes_name, signal in BYTES.values():
            if name == bytes_name:
                times, value = rate(gathering, *exact_times(metric))
                gathering.add(owner, Field(signal, blank="none", rank=2), name, times, value)


def _claims(name: str) -> bool:
    return name.startswith(("DCGM_FI_", "DCGM_EXP_", "dcgm_fi_")) or name.lower() in BY_NAME


def _wants(name: str) -> bool:
    return name.lower() in BY_NAME or name in XID_COUNTS or name in _RAW


SOURCE = MetricSource(format=FORMAT, title="dcgm-exporter", claims=_claims, wants=_wants, read=read)
