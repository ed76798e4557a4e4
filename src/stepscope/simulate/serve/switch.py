"""Faults that are switched while a job runs, and the harmless events that jobs have."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stepscope.model.error import UsageError
from stepscope.simulate.config import Config
from stepscope.simulate.fault import FAULTS, Chosen, check, culprit_of, parse

GROWTH_NS = 120_000_000_000
"""What grows with the steps (a leak, a thrashing cache) is all there so long after it was switched on."""
FOR_EVER = 1_000_000_000
"""A step that no job comes to."""


@dataclass(frozen=True, slots=True)
class Switched:
    """A fault that is or was there: from step `first` to `last`, both included, `None` while it is on.

    `number` is how many were switched before it, `grown` the step in which it is as bad as it gets, `period`
    its own steps from one event to the next (0: the run's). `is_event` for what a healthy job does as well.
    """

    chosen: Chosen
    culprit: int | None
    number: int
    first: int
    last: int | None
    grown: int
    period: int = 0
    is_event: bool = False

    def is_on(self, step: int) -> bool:
        """Whether it is there in this step."""
        return step >= self.first and (self.last is None or step <= self.last)


EVENTS = (("eval:2", 60), ("checkpoint:1.5", 150))
"""With `--events`: what, and every how many steps."""
RATE_PERIOD, RATE_FACTOR = 400, 0.3
"""Steps from one fall of the learning rate to the next, and by what it is multiplied."""
RESTART_PERIOD = 900
"""Steps from one restart of the exporters to the next."""


class Switchboard:
    """All faults of a run, by when they were switched on."""

    def __init__(self, config: Config, has_events: bool = False) -> None:
        self._config = config
        self.all: list[Switched] = []
        self.has_events = has_events
        for chosen in config.faults:
            self._add(chosen, 0 if chosen.first is None else chosen.first, chosen.last)
        if has_events:
            for text, period in EVENTS:
                self.all.append(replace(self._made(parse(text), 0, None), period=period, is_event=True))

    def _made(self, chosen: Chosen, first: int, last: int | None) -> Switched:
        number, config = len(self.all), self._config
        grown = first + max(GROWTH_NS // config.step_ns, 1) if last is None else last
        plain = replace(chosen, first=None, last=None)  # when it is there is told here
        culprit = culprit_of(chosen, number, config.seed, config.ranks)
        return Switched(plain, culprit, number, first, last, grown)

    def _add(self, chosen: Chosen, first: int, last: int | None) -> Switched:
        made = self._made(chosen, first, last)
        self.all.append(made)
        return made

    def on(self, step: int) -> tuple[Switched, ...]:
        """Those that are there in a step."""
        return tuple(each for each in self.all if each.is_on(step))

    def switch_on(self, text: str, step: int) -> Switched:
        """From this step on; where the same fault of the same rank is there, this takes its place. Raises
        UsageError with what to write instead."""
        chosen = parse(text)
        config = self._config
        check(chosen, config.ranks, FOR_EVER, config.model, config.pipeline_stages)
        if chosen.first is not None:
            raise UsageError(f"fault {text}: begins with the next step; leave out @{chosen.first}:…")
        self._end(chosen, step, is_rank_told=chosen.rank is not None)
        return self._add(chosen, step, None)

    def switch_off(self, text: str, step: int) -> int:
        """The named fault (`all` for every one) ends with the step before this one; how many did. Raises
        UsageError where none is on."""
        if text.strip() == "all":
            return sum(self._end(each.chosen, step, is_rank_told=False) for each in self.on(step))
        chosen = parse(text)
        num = self._end(chosen, step, is_rank_told=chosen.rank is not None)
        if not num:
            names = ", ".join(str(each.chosen) for each in self.faults_on(step)) or "none"
            raise UsageError(f"fault {text}: is not on; on are: {names}")
        return num

    def faults_on(self, step: int) -> list[Switched]:
        """As `on`, without what a healthy job does too."""
        return [each for each in self.on(step) if not each.is_event]

    def _end(self, chosen: Chosen, step: int, is_rank_told: bool) -> int:
        num = 0
        for at, each in enumerate(self.all):
            is_same = each.chosen.name == chosen.name and not each.is_event
            if is_rank_told and each.culprit is not None and each.culprit != chosen.rank:
                is_same = False
            if is_same and each.first <= step and (each.last is None or each.last >= step):
                self.all[at] = replace(each, last=step - 1)
                num += 1
        return num


def listed(switched: Switched) -> dict[str, object]:
    """As JSON values: the name as it can be given back, and what the truth says of it."""
    row = FAULTS[switched.chosen.name]
    made: dict[str, object] = {
        "fault": str(replace(switched.chosen, rank=switched.culprit, first=None, last=None)),
        "name": row.name,
        "magnitude": switched.chosen.much,
        "unit": row.unit,
        "reason": row.reason,
        "first_step": switched.first,
    }
    if switched.culprit is not None:
        made["rank"] = switched.culprit
    if switched.last is not None:
        made["last_step"] = switched.last
    if switched.is_event:
        made["is_event"] = True
    return made
