"""All ranks of a job, played step by step as time goes on. Nothing of it is kept longer than it is asked for.

A step is played when the first rank's host comes to it: what happens before that moment is then settled. A
job that hangs plays no step until the fault is switched off, or until its watchdog ends it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from stepscope.simulate.config import START_NS, Config
from stepscope.simulate.counter.timeline import STARTED_NS
from stepscope.simulate.meeting import Key, Meetings
from stepscope.simulate.serve.player import LivePlayer
from stepscope.simulate.serve.switch import Switchboard, Switched

LIVE_STEPS = 1_000_000
"""That a live job says it wants to do."""
BEGIN_NS = START_NS - STARTED_NS
"""When its processes start: they load for some seconds."""
FIRST_NS = START_NS + 1_000_000
"""The first step is played at once, for what is set by people is there before it."""


@dataclass(frozen=True, slots=True)
class Hang:
    """No rank finishes this step: `culprit` never comes to its next exchange, the others wait from
    `since_ns` on, and after `waits_ns` their watchdog ends the job."""

    step: int
    culprit: int
    since_ns: int
    waits_ns: int
    number: int


Played = Callable[[int, list[LivePlayer], tuple[Switched, ...]], None]


class Live:
    """A job. `before` is called with a step that is about to be played, `after` when it was; both with its
    number, the ranks and its faults."""

    def __init__(self, config: Config, board: Switchboard) -> None:
        self.config = replace(config, faults=(), steps=LIVE_STEPS, trace_steps=None)
        self.board = board
        self.meetings = Meetings()
        self.players = [LivePlayer(self.config, rank, self.meetings) for rank in range(config.ranks)]
        self.step = 0
        """The step that is played next."""
        self.hang: Hang | None = None
        self.dead_ns: int | None = None
        """When the watchdog ended it, `None` while it lives."""
        self.before: list[Played] = []
        self.after: list[Played] = []
        self.hung: list[Callable[[Hang, int | None], None]] = []
        """Called when a hang begins (with `None`) and when it is over (with when)."""
        self.hangs: deque[tuple[int, int, int]] = deque(maxlen=64)
        """The last hangs that were over: when each began and ended, and the culprit."""

    @property
    def next_ns(self) -> int:
        """When the first host comes to its next step."""
        return min(player.host_ns for player in self.players)

    def play(self, until_ns: int) -> None:
        """Everything that begins up to then."""
        while self.dead_ns is None:
            if self.hang is not None and not self._resumed(until_ns):
                return
            if self.next_ns > max(until_ns, FIRST_NS):
                return
            switched = self.board.on(self.step)
            stuck = next((each for each in switched if each.chosen.name == "hang" and self.step), None)
            for call in self.before:
                call(self.step, self.players, switched)
            if stuck is not None:
                self._hangs(stuck)
            else:
                self._play(switched)
                for call in self.after:
                    call(self.step, self.players, switched)
                self.step += 1

    def pause(self, until_ns: int) -> None:
        """Nobody does anything until then: the machine slept."""
        for player in self.players:
            player.wait(until_ns)

    def forget(self, before_ns: int) -> None:
        """Drop what no window that begins then will ask for."""
        for player in self.players:
            player.forget(before_ns)
        needed = set().union(*(player.needed() for player in self.players))
        by_key = self.meetings.by_key
        old = [key for key, row in by_key.items() if 0 < row.end_ns < before_ns and key not in needed]
        for key in old:
            del by_key[key]

    def _play(self, switched: tuple[Switched, ...]) -> None:
        for player in self.players:
            player.switched = switched
            player.allow(self.step)
        ready = deque(range(len(self.players)))
        parked: dict[Key, list[int]] = {}
        while ready:
            rank = ready.popleft()
            waits = self.players[rank].run()
            if waits is not None:
                parked.setdefault(waits, []).append(rank)
            for key in self.meetings.finished:
                ready.extend(parked.pop(key, ()))
            self.meetings.finished.clear()
        if parked:
            raise AssertionError(f"step {self.step}: ranks wait for {next(iter(parked))}, which nobody joins")
        for player in self.players:
            player.finish_rows()

    def _hangs(self, stuck: Switched) -> None:
        since = max(max(player.device_ns for player in self.players), self.next_ns)
        culprit = 0 if stuck.culprit is None else stuck.culprit
        self.hang = Hang(self.step, culprit, since, int(1e9 * stuck.chosen.much), stuck.number)
        for call in self.hung:
            call(self.hang, None)

    def _resumed(self, now_ns: int) -> bool:
        """Whether the hang is over now, and the job goes on."""
        hang = self.hang
        if hang is None:
            return True
        is_on = any(each.number == hang.number for each in self.board.on(self.step))
        over = hang.since_ns + hang.waits_ns
        if is_on and now_ns < over:
            return False
        at = min(now_ns, over) if is_on else max(now_ns, hang.since_ns)
        self.hangs.append((hang.since_ns, at, hang.culprit))
        for call in self.hung:
            call(hang, at)
        if is_on:
            self.dead_ns = at
            return False
        self.hang = None
        for player in self.players:
            player.switched = self.board.on(self.step)
            player.skip(at)
        self.step += 1
        return True
