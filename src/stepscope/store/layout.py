"""How the series of a source's batch lie in rows: the same every second, so that it is found out once.

An agent sends the same signals of the same owners with the same labels again and again; only times and values
are new. A layout is what was the same. Whether it still holds is asked in a few comparisons of whole lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.batch import BatchOwner, BatchSeries
from stepscope.model.signal import SIGNALS
from stepscope.store.schema import KINDS

I64 = npt.NDArray[np.int64]
END_NS = 1 << 63
_KIND = {**{kind: kind for kind in KINDS}, "disk": "link"}
_NAMES = {name: name for name in SIGNALS}


@dataclass(frozen=True, slots=True)
class Part:
    """What goes into one table. `series` are places in the batch, `slot` the column and `group` the rows of
    each; `leaders` is the first series of each group, whose owner, labels and times are all its members'."""

    kind: str
    signals: tuple[str, ...]
    series: list[int]
    slot: I64
    group: I64
    leaders: list[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Of all the series of a batch, in their order."""

    signals: list[str]
    owners: list[BatchOwner]
    labels: list[dict[str, str]]
    leader: list[int]
    """Of each series, the first of its group."""
    leaders: list[int]
    parts: tuple[Part, ...]

    def fits(self, series: Sequence[BatchSeries]) -> bool:
        """Whether these series lie so: signals, owners and labels are the same, those of a group have the
        same times, and no column is of another length."""
        if len(series) != len(self.signals):
            return False
        at_ns = [each.at_ns for each in series]
        return (
            [each.signal for each in series] == self.signals
            and [len(each.value) for each in series] == list(map(len, at_ns))
            and at_ns == [at_ns[place] for place in self.leader]
            and all(_are_times(at_ns[place]) for place in self.leaders)
            and [each.labels for each in series] == self.labels
            and [each.owner for each in series] == self.owners
        )


def usable(series: Sequence[BatchSeries], unknown: dict[str, int]) -> Sequence[BatchSeries]:
    """Those that can be rows. `unknown` counts samples of the others by signals that are not known, or whose
    columns make no sense (`""`)."""
    found = []
    for each in series:
        num = len(each.value)
        if each.signal in SIGNALS and num and len(each.at_ns) == num and _are_times(each.at_ns):
            found.append(each)
        elif num:
            name = "" if each.signal in SIGNALS else each.signal
            if name not in unknown and len(unknown) >= MOST_UNKNOWN:
                name = ""
            unknown[name] = unknown.get(name, 0) + num
    return found


MOST_UNKNOWN = 1000
"""Names of signals that are not known and remembered."""


def layout_of(series: Sequence[BatchSeries]) -> Layout:
    """How these lie, all of which can be rows."""
    groups: dict[object, list[tuple[int, set[str]]]] = {}
    owners: dict[BatchOwner, BatchOwner] = {}
    labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    leader: list[int] = []
    mine: list[dict[str, str]] = []
    for place, each in enumerate(series):
        pairs, at_ns = tuple(each.labels.items()), each.at_ns
        mine.append(labels.setdefault(pairs, each.labels))
        alike = groups.setdefault((each.owner, pairs, at_ns[0], at_ns[-1], len(at_ns)), [])
        owners.setdefault(each.owner, each.owner)
        for first, signals in alike:
            if each.signal not in signals and series[first].at_ns == at_ns:
                signals.add(each.signal)
                leader.append(first)
                break
        else:
            alike.append((place, {each.signal}))
            leader.append(place)
    return Layout(
        signals=[_NAMES[each.signal] for each in series],
        owners=[owners[each.owner] for each in series],
        labels=mine,
        leader=leader,
        leaders=[place for place, first in enumerate(leader) if place == first],
        parts=tuple(_parts(series, leader)),
    )


def _parts(series: Sequence[BatchSeries], leader: Sequence[int]) -> list[Part]:
    by_kind: dict[str, list[int]] = {}
    for place, each in enumerate(series):
        by_kind.setdefault(_KIND.get(each.owner.kind, "link"), []).append(place)
    found = []
    for kind, places in by_kind.items():
        slots: dict[str, int] = {}
        slot = [slots.setdefault(series[place].signal, len(slots)) for place in places]
        leaders = [place for place in places if leader[place] == place]
        number = {place: n for n, place in enumerate(leaders)}
        group = [number[leader[place]] for place in places]
        found.append(Part(kind, tuple(slots), places, np.array(slot), np.array(group), leaders))
    return found


def _are_times(at_ns: Sequence[int]) -> bool:
    return min(at_ns, default=-1) >= 0 and max(at_ns) < END_NS
