"""Jobs that mark their steps on this node, and the labels that they give to samples.

A label holds from the job's own begin to its own end. A device is a rank's where its UUID is the only one
that the process can see, or where the driver has the process on it; of several visible devices none is taken
by its place alone, unless the ranks of the run on this node fill the list exactly.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stepscope.agent.device import DeviceKey, DeviceTable
from stepscope.model.mark import Identity
from stepscope.model.sample import Owner

Labels = tuple[tuple[str, str], ...]
AGENT = "stepscope-agent"
"""Name of the process that is the agent itself: what it costs is no job's."""
_FROM_IDENTITY = (
    "job", "run", "rank", "restart", "pod", "pod_uid", "namespace", "container", "container_id",
    "scheduler_job", "task",
)  # fmt: skip
MOST_STEPS = 8192
"""Begins of steps that are remembered of a rank: more than a batch waits for, even of steps of 1 ms."""
MOST_CAPTURES = 64
"""Of one rank that are remembered."""
MOST_ENDED = 256
"""Ended ranks that are remembered, since samples of their time may still come."""


@dataclass(slots=True)
class LiveRank:
    """One ring: one process of one rank. Times are wall time; `end_ns` is `None` while it lives. `pid` is the
    process on the node, `None` where it is in a namespace that cannot be seen from here; `pids` are it and
    its children. `extra` are labels that its cgroup tells and its identity does not."""

    ring: str
    identity: Identity
    begin_ns: int
    end_ns: int | None = None
    pid: int | None = None
    pids: frozenset[int] = frozenset()
    extra: dict[str, str] = field(default_factory=dict)
    step_ns: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    captures: dict[int, tuple[int, int]] = field(default_factory=dict)
    """What captures cost here, by id: ns held up, bytes of the trace (0 until it is written)."""

    def labels(self) -> dict[str, str]:
        """What a sample of this rank is labelled with."""
        said = {name: getattr(self.identity, name) for name in _FROM_IDENTITY}
        return {**self.extra, **{name: str(value) for name, value in said.items() if value is not None}}

    def begin_step(self, at_ns: int, step: int) -> None:
        """Steps come in order of time."""
        self.step_ns.append(at_ns)
        self.step.append(step)
        if len(self.step) > MOST_STEPS:
            del self.step_ns[: MOST_STEPS // 2], self.step[: MOST_STEPS // 2]

    def end_capture(self, capture: int, stall_ns: int, num_bytes: int) -> None:
        """Captures come in order of their ids."""
        self.captures[capture] = (stall_ns, num_bytes)
        if len(self.captures) > MOST_CAPTURES:
            del self.captures[min(self.captures)]

    def steps(self, first_ns: int, last_ns: int) -> tuple[int, int] | None:
        """The first and the last step that ran within the window, `None` where none had begun by its end."""
        end = bisect_right(self.step_ns, last_ns)
        if not end:
            return None
        begin = max(bisect_right(self.step_ns, first_ns, 0, end) - 1, 0)
        ran = self.step[begin:end]
        return min(ran), max(ran)


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `begin_ns` up to `end_ns` (None: still) these labels hold; `ranks` are whose."""

    begin_ns: int
    end_ns: int | None
    labels: Labels
    ranks: tuple[LiveRank, ...]


class JobTable:
    """Written by the reader of rings, read by whoever packs samples."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranks: dict[str, LiveRank] = {}
        self._ended: list[LiveRank] = []
        self.version = 0

    def put(self, rank: LiveRank) -> None:
        """A rank that was found, or that is known better now."""
        with self._lock:
            self._ranks[rank.ring] = rank
            self.version += 1

    def end(self, ring: str, at_ns: int) -> None:
        """The rank ended then."""
        with self._lock:
            rank = self._ranks.pop(ring, None)
            if rank is not None:
                rank.end_ns = at_ns
                self._ended = [*self._ended, rank][-MOST_ENDED:]
                self.version += 1

    @property
    def is_busy(self) -> bool:
        """Whether any job marks its steps now."""
        return bool(self._ranks)

    def living(self) -> tuple[LiveRank, ...]:
        with self._lock:
            return tuple(self._ranks.values())

    def all(self, since_ns: int) -> tuple[LiveRank, ...]:
        """Every rank that lives, or lived at or after `since_ns`."""
        with self._lock:
            ended = (each for each in self._ended if each.end_ns is not None and each.end_ns >= since_ns)
            return (*self._ranks.values(), *ended)


def device_of(rank: LiveRank, ranks: Iterable[LiveRank], devices: DeviceTable) -> tuple[DeviceKey, ...]:
    """The devices of a rank, empty where it is not certain."""
    visible = rank.identity.device_uuids
    if len(visible) == 1:
        return (devices.key_of(visible[0]),)
    if rank.pids and (found := devices.of_pids(rank.pids)):
        return found
    place = rank.identity.local_rank
    if not visible or place is None:
        return ()
    same = [
        each.identity.local_rank
        for each in ranks
        if each.identity.run == rank.identity.run and each.identity.device_uuids == visible
    ]
    if sorted(-1 if each is None else each for each in same) == list(range(len(visible))):
        return (devices.key_of(visible[place]),)
    return ()


def stretches(
    owner: Owner, ranks: Sequence[LiveRank], of_device: dict[DeviceKey, list[LiveRank]]
) -> list[Stretch]:
    """Whose an owner was, in order of time, without overlap. Of several at a time a label holds all values,
    joined by commas; the host has the job's labels, not a rank's."""
    if owner.kind == "device":
        mine = of_device.get((owner.uuid or "", owner.mig), [])
        if not mine and owner.uuid and owner.mig is None:
            # what is read off the whole device is of whoever has its instances
            mine = [each for key, found in of_device.items() if key[0] == owner.uuid for each in found]
    elif owner.kind == "process" and owner.name == AGENT:
        mine = []
    elif owner.pid is not None:
        mine = [each for each in ranks if owner.pid in each.pids or owner.pid == each.pid]
    else:
        mine = list(ranks)
    if not mine:
        return []
    edges = sorted({each.begin_ns for each in mine} | {each.end_ns for each in mine if each.end_ns})
    found = []
    is_whole_host = owner.kind != "device" and owner.pid is None
    for begin, end in zip(edges, [*edges[1:], None], strict=True):
        here = [
            each for each in mine if each.begin_ns <= begin and (each.end_ns is None or each.end_ns > begin)
        ]
        if here:
            found.append(Stretch(begin, end, _together(here, is_whole_host), tuple(here)))
    return found


_OF_RANK = frozenset(("rank", "container_id", "pod", "pod_uid", "container"))


def _together(ranks: Sequence[LiveRank], is_whole_host: bool) -> Labels:
    values: dict[str, list[str]] = {}
    for each in ranks:
        for name, value in each.labels().items():
            if is_whole_host and name in _OF_RANK:
                continue
            known = values.setdefault(name, [])
            if value not in known and len(known) < 8:
                known.append(value)
    return tuple(sorted((name, ",".join(each)) for name, each in values.items()))


def by_device(ranks: Sequence[LiveRank], devices: DeviceTable) -> dict[DeviceKey, list[LiveRank]]:
    """The ranks on each device."""
    found: dict[DeviceKey, list[LiveRank]] = {}
    for rank in ranks:
        for key in device_of(rank, ranks, devices):
            found.setdefault(key, []).append(rank)
    return found
