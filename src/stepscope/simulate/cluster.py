"""A whole run: all ranks side by side, each as far as it comes without the others.

Times are true nanoseconds. Ranks meet in exchanges only. When those happen is found first, no row kept; then
each rank can be played again alone, with its rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from stepscope.simulate.config import Config
from stepscope.simulate.counter.meter import Activity, Meter
from stepscope.simulate.fault import Chosen, culprit_of
from stepscope.simulate.meeting import Key, Meetings
from stepscope.simulate.plan import Plan
from stepscope.simulate.player import Player
from stepscope.simulate.row import Row


class Cluster:
    """A run whose exchanges are known: `rows` plays one rank again, alone."""

    def __init__(
        self, config: Config, faults: tuple[Chosen, ...] | None = None, *, is_metered: bool | None = None
    ) -> None:
        if is_metered is None:
            is_metered = config.telemetry is not None
        self.config = config
        chosen = config.faults if faults is None else faults
        self.faults = tuple(
            (each, culprit_of(each, number, config.seed, config.ranks)) for number, each in enumerate(chosen)
        )
        self.meetings = Meetings()
        self.activity: list[Activity] = []
        """What each rank's device did, on a grid: of a run that is recorded (`Config.telemetry`) only."""
        self.plans: list[list[Plan]] = []
        """(ranks, steps): what each step was like. As `activity`."""
        self.happenings: list[list[tuple[str, int, int, int]]] = []
        """What each rank's host did for long: kind, start, end, step. As `activity`."""
        self.step_end_ns = self._meet(is_metered)
        """(ranks, steps): end of the device's work of each step."""

    def _meet(self, is_metered: bool) -> list[list[int]]:
        config, meetings = self.config, self.meetings
        meters = [
            Meter(config.device, rank, meetings) if is_metered else None for rank in range(config.ranks)
        ]
        players = [
            Player(config, rank, self.faults, meetings, meter=meter) for rank, meter in enumerate(meters)
        ]
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
        if is_metered:
            self.activity = [meter.activity() for meter in meters if meter is not None]
            self.plans = [player.plans for player in players]
            self.happenings = [player.happenings for player in players]
        return [player.step_end_ns for player in players]

    def rows(self, rank: int) -> list[Row]:
        """What happens on one rank, in true time, in the order in which its host issues it."""
        rows: list[Row] = []
        Player(self.config, rank, self.faults, self.meetings, rows, last=self.config.traced.stop - 1).run()
        return rows

    def each(self) -> Iterator[tuple[int, list[Row]]]:
        """Every rank's rows, one rank after another."""
        for rank in range(self.config.ranks):
            yield rank, self.rows(rank)
