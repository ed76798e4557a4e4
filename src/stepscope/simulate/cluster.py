"""A whole run: all ranks side by side, each as far as it comes without the others.

Times are true nanoseconds. Ranks meet in exchanges only. When those happen is found first, no row kept; then
each rank can be played again alone, with its rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from stepscope.simulate.config import Config
from stepscope.simulate.fault import Chosen, culprit_of
from stepscope.simulate.meeting import Key, Meetings
from stepscope.simulate.player import Player
from stepscope.simulate.row import Row


class Cluster:
    """A run whose exchanges are known: `rows` plays one rank again, alone."""

    def __init__(self, config: Config, faults: tuple[Chosen, ...] | None = None) -> None:
        self.config = config
        chosen = config.faults if faults is None else faults
        self.faults = tuple(
            (each, culprit_of(each, number, config.seed, config.ranks)) for number, each in enumerate(chosen)
        )
        self.meetings = Meetings()
        self.step_end_ns = self._meet()
        """(ranks, steps): end of the device's work of each step."""

    def _meet(self) -> list[list[int]]:
        players = [Player(self.config, rank, self.faults, self.meetings) for rank in range(self.config.ranks)]
        ready = deque(range(self.config.ranks))
        parked: dict[Key, list[int]] = {}
        while ready:
            rank = ready.popleft()
            waits = players[rank].run()
            if waits is not None:
                parked.setdefault(waits, []).append(rank)
            for key in self.meetings.finished:
                ready.extend(parked.pop(key, ()))
            self.meetings.finished.clear()
        if parked:
            key = next(iter(parked))
            raise AssertionError(f"ranks {parked[key]} wait for {key}, which nobody will join")
        return [player.step_end_ns for player in players]

    def rows(self, rank: int) -> list[Row]:
        """What happens on one rank, in true time, in the order in which its host issues it."""
        rows: list[Row] = []
        Player(self.config, rank, self.faults, self.meetings, rows).run()
        return rows

    def each(self) -> Iterator[tuple[int, list[Row]]]:
        """Every rank's rows, one rank after another."""
        for rank in range(self.config.ranks):
            yield rank, self.rows(rank)
