"""Whose rows: which labels, owners and rings belong to a job, a run, ranks, devices or hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model.batch import BatchOwner
from stepscope.store.keep import Keeper
from stepscope.store.name import device_name
from stepscope.store.ring import Ring


def names_of(label: str | None) -> list[str]:
    """The values of a label: an owner that several use has them all, joined by commas."""
    return label.split(",") if label else []


@dataclass(frozen=True, slots=True)
class Asked:
    """`None`: any."""

    job: str | None = None
    run: str | None = None
    ranks: tuple[int, ...] | None = None
    devices: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None

    def labels(self, keeper: Keeper) -> list[int] | None:
        """Numbers of the labels that fit; `None` where any does."""
        if self.job is None and self.run is None and self.ranks is None:
            return None
        ranks = None if self.ranks is None else {str(each) for each in self.ranks}
        return [
            number
            for number, labels in list(keeper.names.labels().items())
            if _has(labels, "job", self.job)
            and _has(labels, "run", self.run)
            and (ranks is None or "rank" not in labels or ranks & set(names_of(labels["rank"])))
        ]

    def owners(self, keeper: Keeper) -> list[int] | None:
        """Numbers of the owners that fit; `None` where any does."""
        if self.devices is None and self.hosts is None:
            return None
        return [
            number
            for number, (host, owner) in list(keeper.names.owners().items())
            if (self.hosts is None or (owner.host or host) in self.hosts or host in self.hosts)
            and (
                self.devices is None or (owner.kind == "device" and device_name(host, owner) in self.devices)
            )
        ]

    def rings(self, keeper: Keeper) -> list[Ring]:
        """Rings that fit, of ranks whose device is asked for too."""
        ranks = None if self.ranks is None else set(self.ranks)
        return [
            ring
            for ring in list(keeper.rings.values())
            if (self.job is None or ring.text("job") == self.job)
            and (self.run is None or ring.text("run") in (None, self.run))
            and (ranks is None or ring.number("rank") in ranks)
            and (self.hosts is None or ring.host in self.hosts)
            and (self.devices is None or set(ring.device_uuids) & set(self.devices))
        ]


def _has(labels: dict[str, str], name: str, value: str | None) -> bool:
    if value is None:
        return True
    if name == "run" and "run" not in labels:
        return True
    return value in names_of(labels.get(name))


def nobodys(keeper: Keeper) -> list[int]:
    """Numbers of labels that name no job."""
    return [number for number, labels in list(keeper.names.labels().items()) if not labels.get("job")]


def owners_on(keeper: Keeper, hosts: Sequence[str]) -> list[int]:
    """Numbers of all owners of these hosts' agents."""
    there = set(hosts)
    return [number for number, (host, _) in list(keeper.names.owners().items()) if host in there]


def in_list(column: str, numbers: Sequence[int] | None) -> str:
    """An SQL condition; all where `None`, none where empty."""
    if numbers is None:
        return "TRUE"
    if not numbers:
        return "FALSE"
    return f"{column} IN ({', '.join(map(str, numbers))})"


def owner_host(host: str, owner: BatchOwner) -> str:
    return owner.host or host
