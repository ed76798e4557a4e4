"""Rings that agents ship: who writes each, and which of its records are here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.model.batch import Marks
from stepscope.model.trace import I64
from stepscope.store.stretch import joined
from stepscope_sdk.ring_abi import kind_number

MOST_STRETCHES = 4096
_MOST_RANKS = 1 << 31
_EXIT = kind_number("exit")
_WORLD = kind_number("world")


class Ring(msgspec.Struct, omit_defaults=True):
    """One ring of one host. `held` are the numbers that are here: stretches, both ends included."""

    id: int
    ring: str
    host: str
    agent: str
    identity: dict[str, str | int | list[str]] = {}
    names: list[str] = []
    held: list[tuple[int, int]] = []
    first_ns: int | None = None
    last_ns: int | None = None
    last_step: int | None = None
    is_alive: bool | None = None
    exit_ns: int | None = None
    num_lost: int = 0
    came_ns: int | None = None
    """When it came here first, by the server's clock; `None` where an earlier version kept it."""

    def text(self, name: str) -> str | None:
        """A field of its identity, as a label would have it; `None` where it is not known."""
        value = self.identity.get(name)
        return None if value is None or isinstance(value, list) else str(value)

    def number(self, name: str) -> int | None:
        value = self.identity.get(name)
        return value if isinstance(value, int) else None

    @property
    def device_uuids(self) -> list[str]:
        value = self.identity.get("device_uuids")
        return [str(each) for each in value] if isinstance(value, list) else []

    @property
    def is_over(self) -> bool:
        """It said that it ends, or its writer is gone."""
        return self.exit_ns is not None or self.is_alive is False


def is_whole(batch: Marks) -> bool:
    """Whether all columns are of one length and fit into theirs."""
    columns: tuple[Sequence[float], ...] = (
        batch.number, batch.record_kind, batch.flags, batch.step, batch.mono_ns, batch.real_ns, batch.a,
        batch.b, batch.c,
    )  # fmt: skip
    if len({len(each) for each in columns}) != 1:
        return False
    most, least = 1 << 63, -(1 << 63)
    small = all(0 <= each < 1 << 31 for each in (*batch.record_kind, *batch.flags))
    return small and all(
        least <= each < most
        for column in (batch.number, batch.step, batch.mono_ns, batch.real_ns, batch.a)
        for each in column
    )


def fresh(ring: Ring, batch: Marks) -> npt.NDArray[np.bool_]:
    """Which records of the batch are not here yet, each once."""
    number = np.array(batch.number, dtype=np.int64)
    if not len(number):
        return np.zeros(0, dtype=np.bool_)
    is_new = np.ones(len(number), dtype=np.bool_)
    if ring.held and int(number.min()) <= ring.held[-1][1]:
        first, last = np.array(ring.held, dtype=np.int64).T
        place = np.searchsorted(first, number, side="right") - 1
        is_new &= (place < 0) | (number > last[np.maximum(place, 0)])
    if len(number) > 1 and not (np.diff(number) > 0).all():
        _, once = np.unique(number, return_index=True)
        is_first = np.zeros(len(number), dtype=np.bool_)
        is_first[once] = True
        is_new &= is_first
    return is_new


def take(ring: Ring, batch: Marks, is_new: npt.NDArray[np.bool_]) -> None:
    """The ring with the batch's fresh records in it."""
    ring.agent = batch.agent
    ring.identity = {**ring.identity, **batch.identity}
    if len(batch.names) > len(ring.names):
        ring.names = list(batch.names)
    ring.num_lost += batch.num_lost
    ring.is_alive = batch.is_alive if batch.is_alive is not None else ring.is_alive
    if not is_new.any():
        return
    number = np.sort(np.array(batch.number, dtype=np.int64)[is_new])
    ring.held = _joined(ring.held, number)
    kinds, real = np.array(batch.record_kind)[is_new], np.array(batch.real_ns, dtype=np.int64)[is_new]
    steps = np.array(batch.step, dtype=np.int64)[is_new]
    first, last = int(real.min()), int(real.max())
    ring.first_ns = first if ring.first_ns is None else min(ring.first_ns, first)
    ring.last_ns = last if ring.last_ns is None else max(ring.last_ns, last)
    if int(steps.max()) >= 0:
        ring.last_step = max(int(steps.max()), ring.last_step or 0)
    for place in np.flatnonzero(np.isin(kinds, (_EXIT, _WORLD))).tolist():
        row = int(np.flatnonzero(is_new)[place])
        if batch.record_kind[row] == _EXIT:
            ring.exit_ns = batch.real_ns[row]
        else:
            told = {"world_size": float(batch.a[row]), "rank": batch.b[row], "local_rank": batch.c[row]}
            known = {name: int(value) for name, value in told.items() if 0 <= value < _MOST_RANKS}
            ring.identity = {**ring.identity, **known}


def _joined(held: list[tuple[int, int]], number: I64) -> list[tuple[int, int]]:
    cuts = np.flatnonzero(np.diff(number) > 1) + 1
    found = joined(held, [(int(part[0]), int(part[-1])) for part in np.split(number, cuts)])
    if len(found) > MOST_STRETCHES:  # a ring so torn: the oldest gaps are given up, nothing comes into them
        cut = len(found) - MOST_STRETCHES
        found = [(found[0][0], found[cut][1]), *found[cut + 1 :]]
    return found
