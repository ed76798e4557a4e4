"""One rank's process as its marks tell of it, record by record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stepscope.model.batch import Marks
from stepscope.model.mark import ASIDE, PHASES, RECORD_KINDS
from stepscope.model.standing import Standing

_START, _STEP_BEGIN, _STEP_END = (RECORD_KINDS[name] for name in ("start", "step_begin", "step_end"))
_PHASE_BEGIN, _PHASE_END = RECORD_KINDS["phase_begin"], RECORD_KINDS["phase_end"]
_CAPTURE_BEGIN, _CAPTURE_END = RECORD_KINDS["capture_begin"], RECORD_KINDS["capture_end"]
_WORLD, _EXIT = RECORD_KINDS["world"], RECORD_KINDS["exit"]
_CTRL_C = 2
OF_STEPS = frozenset({"data", "forward", "backward", "optimizer", "communication", "logging", "gc"})
"""Phases of any step: no longer than the step. Others have a history of their own."""
STEP = "step"
"""What the history of a step without such phases is called."""
Learn = Callable[[str, int, int], None]
"""(phase or `STEP`, nanoseconds, owner): one more that came to its end."""


@dataclass(slots=True)
class Open:
    """A phase that is not over: `mono_ns` of its begin on the rank's clock, `real_ns` on the host's."""

    phase: int
    name: str
    mono_ns: int
    real_ns: int

    @property
    def is_of_step(self) -> bool:
        return self.name in OF_STEPS


@dataclass(slots=True)
class RankSeen:
    """Times are on the host's clock but for `_mono`. `progress_ns` is the last begin or end of a step, or the
    end of a phase with a history of its own; `last_ns` the last record of any kind."""

    agent: str
    host: str
    ring: str
    owner: int
    job: str | None = None
    run: str | None = None
    restart: int | None = None
    rank: int | None = None
    world_size: int | None = None
    start_ns: int | None = None
    progress_ns: int | None = None
    last_ns: int | None = None
    step: int | None = None
    last_step: int | None = None
    num_steps: int = 0
    open: list[Open] = field(default_factory=list)
    num_capturing: int = 0
    exit_code: int | None = None
    is_alive: bool | None = None
    gone_ns: int | None = None
    """When its agent saw that nobody holds the ring any more, by the host's clock."""
    _number: int = -1
    _begun_mono: int | None = None
    _apart_ns: int = 0
    """Of the time since the last step began, what phases with a history of their own took."""

    @property
    def has_ended(self) -> bool:
        """It said so, or it is gone."""
        return self.exit_code is not None or self.is_alive is False

    @property
    def phase(self) -> Open | None:
        """The innermost phase that is open."""
        return max(self.open, key=lambda each: each.mono_ns, default=None)

    @property
    def apart(self) -> Open | None:
        """The innermost open phase that has a history of its own."""
        mine = [each for each in self.open if not each.is_of_step]
        return max(mine, key=lambda each: each.mono_ns, default=None)

    def standing(self) -> Standing:
        """Where it is."""
        inner = self.phase
        since = inner.real_ns if inner is not None else self.progress_ns
        is_alive = False if self.has_ended else self.is_alive
        return Standing(
            self.rank, self.step, self.last_step, None if inner is None else inner.name, since, is_alive
        )

    def take(self, batch: Marks, learn: Learn) -> None:
        """Records of its ring, and whether somebody holds it."""
        rows = zip(
            batch.number, batch.record_kind, batch.flags, batch.step, batch.mono_ns, batch.real_ns,
            batch.a, batch.b, batch.c, strict=False,
        )  # fmt: skip
        for number, kind, flags, step, mono, real, a, b, c in rows:
            if number <= self._number:
                continue
            if number != self._number + 1 and self._number >= 0:
                self._forget()
            self._number = number
            self._take(kind, flags, step, mono, real, a, b, c, batch.names, learn)
            self.last_ns = real
        if batch.is_alive is not None:
            self.is_alive = batch.is_alive

    def _forget(self) -> None:
        """Records are missing: what was open may be over."""
        self.open.clear()
        self.step, self._begun_mono, self._apart_ns = None, None, 0

    def _take(
        self,
        kind: int,
        flags: int,
        step: int,
        mono: int,
        real: int,
        a: int,
        b: float,
        c: float,
        names: list[str],
        learn: Learn,
    ) -> None:
        if kind == _PHASE_BEGIN:
            if not flags & ASIDE and 0 <= a < len(PHASES):
                self.open.append(Open(a, _name(a, b, names), mono, real))
        elif kind == _PHASE_END:
            self._end_phase(flags, a, _name(a, b, names), c, mono, real, learn)
        elif kind == _STEP_BEGIN:
            self._begin_step(step, mono, real, learn)
        elif kind == _STEP_END:
            if self.step == step:
                self.num_steps += 1
            self.last_step, self.step, self.progress_ns = step, None, real
        elif kind == _START:
            self.start_ns = real if self.start_ns is None else self.start_ns
        elif kind == _CAPTURE_BEGIN:
            self.num_capturing += 1
        elif kind == _CAPTURE_END:
            self.num_capturing = max(self.num_capturing - 1, 0)
        elif kind == _WORLD:
            self.world_size = a if a >= 0 else self.world_size
            self.rank = int(b) if b == b and b >= 0 else self.rank
        elif kind == _EXIT:
            self.exit_code = a

    def _begin_step(self, step: int, mono: int, real: int, learn: Learn) -> None:
        if self.step is not None:  # where steps tile nobody ends one
            self.last_step = self.step
            self.num_steps += 1
        if self._begun_mono is not None:
            learn(STEP, mono - self._begun_mono - self._apart_ns, self.owner)
        self.step, self.progress_ns = step, real
        self._begun_mono, self._apart_ns = mono, 0
        # A phase that began before the last step and was never ended is none.
        self.open = [each for each in self.open if not each.is_of_step]

    def _end_phase(
        self, flags: int, phase: int, name: str, back: float, mono: int, real: int, learn: Learn
    ) -> None:
        if flags & ASIDE:
            return
        mine = [each for each in self.open if (each.phase, each.name) == (phase, name)]
        begun = max(mine, key=lambda each: each.mono_ns, default=None)
        if begun is not None:
            self.open.remove(begun)
        took = -int(back) if back == back and back <= 0 else None
        if took is None and begun is not None:
            took = mono - begun.mono_ns
        if took is None or name in OF_STEPS:
            return
        learn(name, took, self.owner)
        if not any(not each.is_of_step for each in self.open):  # else it is part of what is open around it
            self._apart_ns += took
            self.progress_ns = real


def _name(phase: int, place: float, names: list[str]) -> str:
    """A name of the loop's own, else the phase's."""
    if place == place and 0 <= place < len(names):
        return names[int(place)]
    return PHASES[phase] if 0 <= phase < len(PHASES) else "other"
