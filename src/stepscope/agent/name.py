"""What a series is called outside: dcgm-exporter's names and labels where it has one, else `stepscope_*`.

Dashboards and alerts that know dcgm-exporter go on working, whatever the agent read the device by. Our own
names are those of `model/signal.py`: base units, `_total` of counters alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stepscope.model.batch import BatchOwner, BatchSeries
from stepscope.model.signal import SIGNALS
from stepscope.sources.dcgm_field import BY_NAME, FIELDS, DcgmField

DCGM = "dcgm"
"""A label of a series by which a source tells the vendor's name of the field; it is never shown as one."""
PREFIX = "stepscope_"
_BY_SIGNAL: Mapping[str, DcgmField] = {
    row.field.signal: row
    for row in sorted(FIELDS.values(), key=lambda row: (-row.field.rank, -row.id))
    # Parts are added up into one signal, and 449 is a rate in a unit of its own.
    if not row.field.part and row.id != 449
}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_]")

Key = tuple[str, tuple[tuple[str, str], ...]]
MetricType = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Named:
    """A series as it goes out: a value of ours times `factor` is the value shown, whole if `is_whole`."""

    name: str
    labels: tuple[tuple[str, str], ...]
    type: MetricType
    help: str
    factor: float = 1.0
    is_whole: bool = False

    @property
    def key(self) -> Key:
        """What makes it one series."""
        return (self.name, self.labels)


def named(series: BatchSeries, host: str) -> Named:
    """What a series is called."""
    signal = SIGNALS.get(series.signal)
    is_counter = signal.kind == "counter" if signal is not None else series.signal.endswith("_total")
    type_: MetricType = "counter" if is_counter else "gauge"
    help_ = (
        signal.meaning if signal is not None else OWN.get(series.signal, (None, "A value of a source."))[1]
    )
    given = series.labels.get(DCGM)
    field = BY_NAME.get(given.lower()) if given else None
    if field is None and _is_nvidia(series.owner):
        field = _BY_SIGNAL.get(series.signal)
    own = {name: value for name, value in series.labels.items() if name != DCGM and value}
    if field is None or (given is None and field.field.signal != series.signal):
        name = series.signal if series.signal.startswith(PREFIX) else PREFIX + series.signal
        return Named(_NOT_NAME.sub("_", name), _pairs(_labels(series.owner, host), own), type_, help_)
    return Named(
        given or field.names[0],
        _pairs(_dcgm_labels(series.owner, host), own),
        type_,
        help_,
        1.0 / field.field.factor,
        field.field.blank == "int64",
    )


class Namer:
    """`named`, each series once: the same ones come again every second."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._known: dict[tuple[object, ...], Named] = {}

    def __call__(self, series: BatchSeries, host: str) -> Named:
        key = (series.signal, series.owner, host, *series.labels.items())
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[key] = named(series, host)
        return found


def _is_nvidia(owner: BatchOwner) -> bool:
    return owner.kind == "device" and (owner.uuid or "").startswith(("GPU-", "MIG-"))


def _pairs(of_owner: Mapping[str, str], own: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """In order of their names; what can be no name of a label, or is kept for servers, is left out."""
    whole = {**own, **of_owner}
    return tuple(
        (name, whole[name])
        for name in sorted(whole)
        if _NAME.fullmatch(name) and not name.startswith("__") and whole[name]
    )


def _labels(owner: BatchOwner, host: str) -> dict[str, str]:
    """Ours: whose series it is."""
    index = "" if owner.index is None else str(owner.index)
    pid = "" if owner.pid is None else str(owner.pid)
    found = {
        "host": owner.host or host,
        "gpu": index,
        "uuid": owner.uuid or "",
        "mig": owner.mig or "",
        "model": owner.model or "",
        "pid": pid,
    }
    if owner.name:
        found[{"process": "process", "disk": "disk", "link": "link"}.get(owner.kind, "name")] = owner.name
    return found


def _dcgm_labels(owner: BatchOwner, host: str) -> dict[str, str]:
    """As dcgm-exporter writes them."""
    index = "" if owner.index is None else str(owner.index)
    bus = owner.pci_bus_id or ""
    return {
        "gpu": index,
        "UUID": owner.uuid or "",
        "pci_bus_id": f"0000{bus}".upper() if bus else "",
        "device": f"nvidia{index}" if index else "",
        "modelName": owner.model or "",
        "Hostname": owner.host or host,
        "GPU_I_ID": owner.mig or "",
    }


OWN: Mapping[str, tuple[MetricType, str]] = {
    "stepscope_agent_cpu_seconds_total": ("counter", "Processor time that the agent has used."),
    "stepscope_agent_resident_bytes": ("gauge", "Memory that the agent holds."),
    "stepscope_agent_samples_total": ("counter", "Samples that the agent has taken."),
    "stepscope_agent_spool_bytes": ("gauge", "Bytes of the spool on its disk."),
    "stepscope_agent_spool_held_batches": ("gauge", "Batches in memory, since the spool's disk fails."),
    "stepscope_agent_spool_failing": ("gauge", "1 while the spool's disk fails."),
    "stepscope_agent_dropped_total": ("counter", "Batches given up before a receiver had them."),
    "stepscope_agent_last_seq": ("gauge", "Number of the newest batch."),
    "stepscope_agent_acknowledged_seq": ("gauge", "Number up to which a receiver has every batch."),
    "stepscope_agent_shipped_bytes_total": ("counter", "Bytes sent to the server, those sent again too."),
    "stepscope_agent_ship_failures_total": ("counter", "Requests that the server did not take."),
    "stepscope_agent_ship_failing": ("gauge", "1 while the server does not take what is sent."),
    "stepscope_agent_ship_status": ("gauge", "HTTP status of the server's last answer; absent without one."),
    "stepscope_step": ("gauge", "Step that the rank is in, or did last."),
}
"""What the agent says of itself, and the step: (type, help)."""
