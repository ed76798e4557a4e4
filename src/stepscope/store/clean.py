"""Batches without secrets. An agent takes them out already; a store believes no agent."""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.model import redact
from stepscope.model.batch import Batch, BatchOwner, Happened, Lines, Marks, Samples

_MOST = 100_000


class Cleaner:
    """Remembers what it has looked at: the same labels and owners come every second."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str] | None] = {}
        self._owners: dict[BatchOwner, BatchOwner | None] = {}
        self._open: dict[tuple[str, str, str, str], redact.Open] = {}

    def __call__(self, batch: Batch, is_known: bool = False) -> Batch:
        """The same batch where there is nothing to remove. `is_known`: its series have owners and labels of
        which it is known that they hold none."""
        if isinstance(batch, Samples):
            return self._samples(batch, is_known)
        changed: dict[str, Any] = {"host": self.text(batch.host), "labels": None}
        if isinstance(batch, Marks):
            del changed["labels"]
            changed["ring"] = self.text(batch.ring)
            changed["names"] = [self.text(each) for each in batch.names]
            changed["identity"] = redact.tree_without_secrets(batch.identity)[0]
        else:
            changed["labels"] = self.labels(batch.labels)
            if isinstance(batch, Lines):
                changed["name"], changed["log"] = self.text(batch.name), self.text(batch.log)
                state = self._state((batch.agent, batch.host, batch.log, batch.name))
                changed["text"] = redact.lines_without_secrets(batch.text, state)[0]
            elif isinstance(batch, Happened):
                changed["what"] = self.text(batch.what)
                changed["text"] = redact.without_secrets(batch.text)[0]
                if batch.owner is not None:
                    changed["owner"] = self.owner(batch.owner)
        changed = {name: value for name, value in changed.items() if getattr(batch, name) != value}
        return msgspec.structs.replace(batch, **changed) if changed else batch

    def _state(self, key: tuple[str, str, str, str]) -> redact.Open:
        """What goes on from the lines of this log that came before: a key is shipped as it was written."""
        if key not in self._open and len(self._open) > _MOST:
            self._open.clear()
        return self._open.setdefault(key, redact.Open())

    def text(self, text: str) -> str:
        """A text that comes again and again."""
        found = self._texts.get(text)
        if found is None:
            if len(self._texts) > _MOST:
                self._texts.clear()
            found = self._texts[text] = redact.without_secrets(text)[0]
        return found

    def labels(self, labels: dict[str, str]) -> dict[str, str]:
        """The same labels where there is nothing to remove."""
        if not labels:
            return labels
        key = tuple(labels.items())
        if key not in self._labels:
            if len(self._labels) > _MOST:
                self._labels.clear()
            clean, count = redact.tree_without_secrets(labels)
            self._labels[key] = clean if count else None
        return self._labels[key] or labels

    def owner(self, owner: BatchOwner) -> BatchOwner:
        """The same owner where there is nothing to remove."""
        if owner not in self._owners:
            if len(self._owners) > _MOST:
                self._owners.clear()
            texts = {
                name: clean
                for name in ("kind", "uuid", "mig", "pci_bus_id", "model", "host", "name")
                if (text := getattr(owner, name)) and (clean := redact.without_secrets(text)[0]) != text
            }
            self._owners[owner] = msgspec.structs.replace(owner, **texts) if texts else None
        return self._owners[owner] or owner

    def _samples(self, batch: Samples, is_known: bool) -> Samples:
        changed: dict[str, Any] = {"host": self.text(batch.host), "source": self.text(batch.source)}
        if batch.missing:
            changed["missing"] = [(self.text(name), self.text(why), num) for name, why, num in batch.missing]
        dirty: dict[int, Any] = {}
        for place, each in enumerate(() if is_known else batch.series):
            labels, owner = self.labels(each.labels), self.owner(each.owner)
            if labels is not each.labels or owner is not each.owner:
                dirty[place] = msgspec.structs.replace(each, labels=labels, owner=owner)
        if dirty:
            changed["series"] = [dirty.get(place, each) for place, each in enumerate(batch.series)]
        changed = {name: value for name, value in changed.items() if getattr(batch, name) != value}
        return msgspec.structs.replace(batch, **changed) if changed else batch
