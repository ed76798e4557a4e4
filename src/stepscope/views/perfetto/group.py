"""Which tracks a trace has in the viewer: processes, their threads and streams, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.model.trace import Track

MAX_ID = 2**31 - 1
"""The format keeps process and thread ids in 32 bits."""


@dataclass(slots=True)
class Group:
    """One process as the trace wrote it: a host process, or a device whose streams are its threads."""

    name: str
    tracks: list[int] = field(default_factory=list)
    """Track ids in the order of the trace."""
    pid: int = 0
    is_device: bool = False


def groups_of(tracks: Sequence[Track], devices: frozenset[int], owner: str) -> list[Group]:
    """The processes, hosts before devices; `devices` are tracks with device work, `owner` whose trace it is.

    What has no more than an id is called by it.
    """
    found: dict[int | str, Group] = {}
    for i, track in enumerate(tracks):
        group = found.setdefault(track.pid, Group(""))
        group.tracks.append(i)
        group.is_device = group.is_device or i in devices
        if not group.name:
            kind = "device" if group.is_device else "process"
            known = [track.process_name, track.process_labels]
            told = " ".join(part for part in known if part) or f"{kind} {track.pid}"
            group.name = f"{owner}: {told}" if owner else told
        if isinstance(track.pid, int) and 0 < track.pid <= MAX_ID and not group.is_device:
            group.pid = track.pid
    return sorted(found.values(), key=lambda group: group.is_device)


def track_name(track: Track, is_device: bool) -> str:
    """What a thread or stream is called."""
    kind = "stream" if is_device else "thread"
    if isinstance(track.tid, str):
        return track.thread_name or track.tid
    return track.thread_name or f"{kind} {track.tid}"


class Pids:
    """Process ids for the viewer: the recorded one where it is free, else one that nobody has.

    Ranks of several hosts may have one pid, devices are numbered from 0, and the viewer joins what has the
    same id.
    """

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._next = MAX_ID

    def of(self, group: Group) -> int:
        """The id to write for this process."""
        if group.pid and group.pid not in self._used:
            self._used.add(group.pid)
            return group.pid
        while self._next in self._used:
            self._next -= 1
        self._used.add(self._next)
        return self._next
