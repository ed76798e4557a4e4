"""A store in memory: documents and traces alone, for parts of the server that need no more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Kept:
    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


class DocumentStore:
    """As `store.contract.Store`, as far as it goes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: dict[tuple[str, str], Kept] = {}

    def put(self, kind: str, id: str, body: bytes, *, job: Any = None, run: Any = None, at_ns: int) -> None:
        self.kept[kind, id] = Kept(kind, id, job, run, at_ns, body)

    def get(self, kind: str, id: str) -> bytes | None:
        found = self.kept.get((kind, id))
        return found.body if found is not None else None

    def documents(
        self, kind: str, *, job: Any = None, start_ns: Any = None, end_ns: Any = None, limit: int = 1000
    ) -> tuple[Kept, ...]:
        found = [
            each
            for each in self.kept.values()
            if each.kind == kind and job in (None, each.job) and each.at_ns >= (start_ns or 0)
        ]
        return tuple(sorted(found, key=lambda each: -each.at_ns)[:limit])

    def put_trace(self, job: str, run: str, capture: int, ring: str, rank: int | None, body: bytes) -> str:
        path = self.folder / str(capture) / f"{ring}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return str(path)

    def traces(self, job: str, run: str, capture: int) -> tuple[str, ...]:
        return tuple(sorted(map(str, (self.folder / str(capture)).glob("*"))))
