"""Where ranks meet: every exchange of a run, who came to it when, and when it was over."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.simulate.group import Exchange


@dataclass(slots=True)
class Meeting:
    """One exchange: who came when, and when it was over. `end_ns` is 0 until all have come."""

    exchange: Exchange
    step: int
    start_ns: dict[int, int]
    transfer_ns: int = 0
    end_ns: int = 0
    tail_ns: dict[int, int] | None = None


Key = tuple[str, int]


class Meetings:
    """All exchanges of a run, by lane and number."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Meeting] = {}
        self.finished: list[Key] = []
        """Those that became complete since this was last emptied."""

    def arrive(
        self, key: Key, exchange: Exchange, step: int, rank: int, start: int, takes: int, tail: int
    ) -> None:
        """A rank's kernel begins; it will leave `tail` later than the transfer ends."""
        meeting = self.by_key.get(key)
        if meeting is None:
            meeting = self.by_key[key] = Meeting(exchange, step, {}, tail_ns={})
        if rank in meeting.start_ns or meeting.tail_ns is None:
            if meeting.start_ns[rank] != start:
                raise AssertionError(f"rank {rank} comes to {key} at another time when it is played again")
            return
        meeting.start_ns[rank] = start
        meeting.tail_ns[rank] = tail
        meeting.transfer_ns = max(meeting.transfer_ns, takes)
        if len(meeting.start_ns) == len(exchange.members):
            meeting.end_ns = max(meeting.start_ns.values()) + meeting.transfer_ns
            self.finished.append(key)

    def end_ns(self, key: Key, rank: int) -> int:
        """When it ends on this rank, 0 where not all have come."""
        meeting = self.by_key[key]
        if not meeting.end_ns or meeting.tail_ns is None:
            return 0
        return meeting.end_ns + meeting.tail_ns[rank]
