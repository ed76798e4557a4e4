"""Samples: what a telemetry source says, in columns, in neutral signals and units.

A source file becomes one `Telemetry`. A sample that was not measured (a blank, a sentinel, a series that
vanished) is not in its series; how many and why is in `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]

TimeKind = Literal["sample", "scrape", "given", "none"]
"""Where times come from: the source's own per sample; when it was scraped; the caller or the file's name;
or nowhere (`at_ns` then counts from the first row, by the interval that the source states)."""


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Whose series. Two owners are one where their `key` is: a device by UUID and MIG instance where there
    is a UUID, else by host and PCI bus id, else by host and index, which renumbers.

    `kind` device, host, process, link or disk; `name` the process (or container), mount point, interface or
    link.
    """

    kind: str = "device"
    uuid: str | None = None
    mig: str | None = None
    """GPU instance id, `None` of a whole device."""
    index: int | None = None
    """The driver's number on its host. It renumbers: never an identity across hosts or restarts."""
    pci_bus_id: str | None = None
    """Lower case, `0000:3b:00.0`."""
    model: str | None = None
    host: str | None = None
    pid: int | None = None
    name: str | None = None

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """What it is one by."""
        if self.kind == "host":
            return ("host", self.host)
        device: tuple[str | int | None, ...]
        if self.uuid:
            device = (self.uuid, self.mig)
        elif self.pci_bus_id:
            device = (self.host, self.pci_bus_id, self.mig)
        else:
            device = (self.host, self.index, self.mig)
        return (self.kind, *device, self.pid, self.name)


@dataclass(frozen=True, slots=True)
class Series:
    """One signal of one owner: `at_ns` ascending, no two alike; `value` finite, in the signal's unit.

    Of a source without its own timestamps `at_ns` is when it was read: the value is of an earlier window.
    `num_resets` of a counter: it fell that often; the interval of a fall says nothing.
    """

    signal: str
    owner: Owner
    at_ns: I64
    value: F64
    num_resets: int = 0

    def __len__(self) -> int:
        return len(self.at_ns)


@dataclass(frozen=True, slots=True)
class Missing:
    """Values that are not there, and why: `field` is the vendor's name."""

    field: str
    signal: str | None
    """`None` where the field maps to nothing we use."""
    reason: str
    """One of `REASONS`."""
    count: int
    owner: Owner | None = None


REASONS = (
    "blank",  # the source says that it has no value
    "not_supported",  # the device has no such field
    "no_permission",  # the source may not read it
    "not_found",
    "out_of_range",  # no such value can be: a fault of the source
    "vanished",  # the series ended before the source did
    "duplicate",  # a copy of another series (time slicing): the first counts
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something the source says at an instant: an edge of an Xid gauge, a restart, a series' end.

    `is_new` is false where it may be old: the first value of a gauge that stays.
    """

    at_ns: int
    kind: str
    """`xid`, `start`, `exit`, …: of `report.EventKind`."""
    text: str
    code: int | None = None
    owner: Owner | None = None
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One source, read whole.

    `window_ns` is what a value averages over, `collect_ns` how often the source itself reads the device,
    `lag_ns` what it declares of its lag; `None` where it says nothing of it (`align.lag` then infers them).
    `notes` are faults of the source for the health report: (code, count, detail).
    `labels` are of the job, as the source carries them: `pod`, `namespace`, `container`, `job`, `rank`, … by
    owner. `node_topology` is filled by `nvidia-smi topo -m` alone.
    """

    name: str
    format: str
    series: tuple[Series, ...]
    time: TimeKind
    window_ns: int | None = None
    collect_ns: int | None = None
    lag_ns: int | None = None
    missing: tuple[Missing, ...] = ()
    marks: tuple[Mark, ...] = ()
    notes: tuple[tuple[str, int, str], ...] = ()
    labels: Mapping[Owner, Mapping[str, str]] = field(default_factory=dict)
    topology: Topology | None = None
    num_samples: int = 0
    """Samples in the file, those left out too."""
    num_redacted: int = 0

    def of(self, signal: str) -> tuple[Series, ...]:
        """Every series of a signal."""
        return tuple(each for each in self.series if each.signal == signal)


@dataclass(frozen=True, slots=True)
class Topology:
    """How devices and NICs of a node are joined, as `nvidia-smi topo -m` prints it.

    `links` maps (row, column) names to `NV18`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`, …; `cpu_affinity` and
    `numa` are by device name, absent where not printed.
    """

    names: tuple[str, ...]
    links: Mapping[tuple[str, str], str]
    cpu_affinity: Mapping[str, str] = field(default_factory=dict)
    numa: Mapping[str, int] = field(default_factory=dict)
