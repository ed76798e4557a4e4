"""Texts that rows point to by number: owners, sources, labels, names of signals.

A number is given once and never again; it is written in the transaction of the row that needs it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.model.batch import BatchOwner

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

WHICH = ("owner", "source", "labels", "missing", "signal")


class Names:
    """All of them. Not safe by itself: the store's lock holds whoever writes."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.ids: dict[str, dict[str, int]] = {kind: {} for kind in WHICH}
        self.texts: dict[str, list[str]] = {kind: [] for kind in WHICH}
        self._fresh: list[tuple[str, int, str]] = []
        self._owners: list[tuple[str, BatchOwner]] = []
        self._labels: list[dict[str, str]] = []

    def load(self, cursor: Cursor) -> None:
        """What the file knows, and nothing else."""
        self._reset()
        for kind, id_, text in cursor.execute("SELECT kind, id, text FROM name ORDER BY kind, id").fetchall():
            self.ids[kind][text] = id_
            self.texts[kind].append(text)

    def id(self, kind: str, text: str) -> int:
        """The number of a text, a new one where it has none."""
        ids = self.ids[kind]
        found = ids.get(text)
        if found is None:
            found = ids[text] = len(ids)
            self.texts[kind].append(text)
            self._fresh.append((kind, found, text))
        return found

    def write(self, cursor: Cursor) -> None:
        """What is new, into the transaction that is open."""
        if self._fresh:
            columns = [list(each) for each in zip(*self._fresh, strict=True)]
            cursor.execute("INSERT INTO name SELECT unnest(?), unnest(?), unnest(?)", columns)
            self._fresh.clear()

    def owner(self, id_: int) -> tuple[str, BatchOwner]:
        """(host of the agent, owner)."""
        for text in self.texts["owner"][len(self._owners) :]:
            self._owners.append(msgspec.json.decode(text, type=tuple[str, BatchOwner]))
        return self._owners[id_]

    def owners(self) -> list[tuple[str, BatchOwner]]:
        """All of them, by number."""
        if self.texts["owner"]:
            self.owner(0)
        return self._owners

    def labels(self) -> list[dict[str, str]]:
        """All labels, by number."""
        for text in self.texts["labels"][len(self._labels) :]:
            self._labels.append(msgspec.json.decode(text, type=dict[str, str]))
        return self._labels


def text_of(value: object) -> str:
    """As JSON, in one way only."""
    return msgspec.json.encode(value).decode()


def device_name(host: str, owner: BatchOwner) -> str:
    """A device as `model.alarm.About.devices` has it."""
    if owner.uuid:
        return f"{owner.uuid}/{owner.mig}" if owner.mig else owner.uuid
    return f"{owner.host or host}:{owner.index if owner.index is not None else owner.pci_bus_id}"


def owner_name(host: str, owner: BatchOwner) -> str:
    """Any owner in words that are stable."""
    if owner.kind == "device":
        return device_name(host, owner)
    of = owner.host or host
    if owner.kind == "host":
        return of
    return " ".join(str(each) for each in (of, owner.kind, owner.pid, owner.name) if each is not None)
