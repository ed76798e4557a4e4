"""Texts that rows point to by number: owners, sources, labels, names of signals.

A number is given once; it is written in the transaction of the row that needs it first, and let go of once
no row has it (`store.prune`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        self.texts: dict[str, dict[int, str]] = {kind: {} for kind in WHICH}
        self._fresh: list[tuple[str, int, str]] = []
        self._owners: dict[int, tuple[str, BatchOwner]] = {}
        self._labels: dict[int, dict[str, str]] = {}
        self._next = dict.fromkeys(WHICH, 0)
        self._forgotten: dict[str, set[int]] = {}

    def load(self, cursor: Cursor) -> None:
        """What the file knows, and nothing else."""
        self._reset()
        for kind, id_, text in cursor.execute("SELECT kind, id, text FROM name").fetchall():
            self._add(kind, id_, text)

    def _add(self, kind: str, id_: int, text: str) -> None:
        if kind == "owner":
            self._owners[id_] = msgspec.json.decode(text, type=tuple[str, BatchOwner])
        elif kind == "labels":
            self._labels[id_] = msgspec.json.decode(text, type=dict[str, str])
        self.texts[kind][id_] = text
        self.ids[kind][text] = id_
        self._next[kind] = max(self._next[kind], id_ + 1)

    def id(self, kind: str, text: str) -> int:
        """The number of a text, a new one where it has none."""
        found = self.ids[kind].get(text)
        if found is None:
            found = self._next[kind]
            self._add(kind, found, text)
            self._fresh.append((kind, found, text))
        return found

    def write(self, cursor: Cursor) -> None:
        """What is new, into the transaction that is open."""
        if self._fresh:
            columns = [list(each) for each in zip(*self._fresh, strict=True)]
            cursor.execute("INSERT INTO name SELECT unnest(?), unnest(?), unnest(?)", columns)
            self._fresh.clear()

    def forget(self, cursor: Cursor, gone: dict[str, set[int]]) -> None:
        """Let go of numbers that no row has, in the transaction that is open. What they meant is known until
        the next time: somebody may be reading rows that were there a moment ago."""
        for kind, numbers in self._forgotten.items():
            for meanings in (self.texts[kind], *self._meanings(kind)):
                for number in numbers:
                    meanings.pop(number, None)
        for kind, numbers in gone.items():
            cursor.execute(
                "DELETE FROM name WHERE kind = ? AND id IN (SELECT unnest(?))", [kind, sorted(numbers)]
            )
            for number in numbers:
                self.ids[kind].pop(self.texts[kind][number], None)
        self._forgotten = gone

    def _meanings(self, kind: str) -> list[dict[int, Any]]:
        return [self._owners] if kind == "owner" else [self._labels] if kind == "labels" else []

    def owner(self, id_: int) -> tuple[str, BatchOwner]:
        """(host of the agent, owner)."""
        return self._owners[id_]

    def owners(self) -> dict[int, tuple[str, BatchOwner]]:
        """All of them, by number; to be copied before it is gone through, since a request may add one."""
        return self._owners

    def labels(self) -> dict[int, dict[str, str]]:
        """All labels, by number; likewise."""
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
