"""One rank's marks as they come: steps that are over, the phase that is open, values. Record by record.

Durations are differences of the monotonic clock, and so are `begin_ns` and `open_since_ns`: plus one offset
for the whole ring they are wall time, and a clock that is set moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.detect.seen import record
from stepscope.model.batch import Marks
from stepscope.model.mark import PHASES

DATA, COMMUNICATION = PHASES.index("data"), PHASES.index("communication")
SET_ASIDE = frozenset(
    PHASES.index(name) for name in ("init", "checkpoint", "eval", "compile", "profiler")
)  # a step with one of these is not judged
STILL = frozenset(PHASES.index(name) for name in ("init", "checkpoint", "eval"))
"""Phases in which a job is meant to make no step."""
CHECKPOINT = PHASES.index("checkpoint")
PAUSES = frozenset(PHASES.index(name) for name in ("checkpoint", "eval"))
"""Phases that come again and again, and whose share of the time is the job's own choice."""
LOSSES = ("loss", "train_loss", "train/loss")
MOST_MEETINGS = 64
"""Of one step that are told apart."""


@dataclass(slots=True)
class Step:
    """A step that is over: from its begin to the next one's. `data_ns` `None` where its phases were left out;
    `meetings` are (phase and name, how long) of those in which ranks meet, in order."""

    step: int
    begin_ns: int
    took_ns: int
    is_clean: bool
    data_ns: int | None
    meetings: tuple[tuple[int, int], ...]
    tokens: int | None
    pause_ns: int = 0
    """Of it, in evaluations and checkpoints."""


@dataclass(slots=True)
class Loss:
    """What was logged last: `num_same` steps with the very same number, the first of them at `since_ns`."""

    value: float
    at_ns: int
    step: int
    since_ns: int
    num_same: int = 1
    every_steps: int = 0
    """The most steps from one log to the next, 0 where there was but one."""


@dataclass(slots=True)
class RankSeen:
    """One ring. `fresh` are steps that nobody has taken yet. Times of the wall clock."""

    ring: str
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    device: str | None = None
    fresh: list[Step] = field(default_factory=list)
    last_step: int | None = None
    last_ns: int | None = None
    has_exit: bool = False
    is_alive: bool | None = None
    loss: Loss | None = None
    marked: list[tuple[int, int]] = field(default_factory=list)
    """Stretches that are set aside: evaluations, checkpoints, captures; the last few."""
    longest_checkpoint_ns: int = 0
    num_lost: int = 0
    _next: int = 0
    _offset_ns: int | None = None
    _begun: tuple[int, int] | None = None
    _flags: int = 0
    _tokens: int = -1
    _data_ns: int = 0
    _pause_ns: int = 0
    _meetings: list[tuple[int, int]] = field(default_factory=list)
    _is_set_aside: bool = False
    _open: dict[tuple[int, int], int] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)

    @property
    def open_phase(self) -> tuple[int, int] | None:
        """(phase, since when) of what is open and set aside by itself (`STILL`); `None` for nothing."""
        found = [(phase, at) for (phase, _), at in self._open.items() if phase in STILL]
        if not found:
            return None
        phase, at = max(found, key=lambda each: each[1])
        return phase, at + (self._offset_ns or 0)

    def take(self, batch: Marks) -> None:
        """Records of its ring; what came before is left out, and over a gap nothing goes on."""
        self._names = batch.names if len(batch.names) > len(self._names) else self._names
        if batch.is_alive is not None:
            self.is_alive = batch.is_alive
        if self._offset_ns is None and batch.mono_ns:
            self._offset_ns = batch.real_ns[0] - batch.mono_ns[0]
        rows = zip(
            batch.number, batch.record_kind, batch.flags, batch.step, batch.mono_ns, batch.a, batch.b,
            batch.c, strict=False,
        )  # fmt: skip
        last_mono = None
        for number, kind, flags, step, mono_ns, a, b, c in rows:
            if number < self._next:
                continue
            if number > self._next and self._next:
                self._skip(number - self._next)
            self._next = number + 1
            last_mono = mono_ns
            if kind == record.PHASE_END:
                self._end_phase(flags, a, b, c, mono_ns)
            elif kind == record.PHASE_BEGIN:
                if not flags & record.ASIDE:  # the step does not wait for it
                    self._open[a, _place(b)] = mono_ns
            elif kind == record.STEP_BEGIN:
                self._begin(step, flags, a, mono_ns)
            elif kind == record.STEP_END:
                self._flags |= flags
                self._tokens = a if a >= 0 else self._tokens
            elif kind == record.VALUE:
                self._value(a, b, step, mono_ns)
            elif kind == record.WORLD:
                self.world_size = a if a > 0 else self.world_size
                self.rank = int(b) if b == b and b >= 0 else self.rank
            elif kind == record.EXIT:
                self.has_exit = True
            elif kind in (record.CAPTURE_BEGIN, record.CAPTURE_END):
                self._is_set_aside = True
        if last_mono is not None:
            self.last_ns = last_mono + (self._offset_ns or 0)

    def _skip(self, num: int) -> None:
        self.num_lost += num
        self._begun = None
        self._open.clear()

    def _begin(self, step: int, flags: int, tokens: int, mono_ns: int) -> None:
        if self._begun is not None:
            self._close(mono_ns)
        self._begun = (step, mono_ns)
        self.last_step = step
        self._flags, self._tokens = flags, tokens
        self._data_ns, self._pause_ns, self._meetings, self._is_set_aside = 0, 0, [], False

    def _close(self, mono_ns: int) -> None:
        """The step that was begun ends where the next one begins."""
        assert self._begun is not None
        number, begin_ns = self._begun
        offset = self._offset_ns or 0
        is_clean = not (self._is_set_aside or self._flags & (record.CAPTURED | record.STALLED | record.ERROR))
        if not is_clean:
            self._set_aside(begin_ns + offset, mono_ns + offset)
        is_shadow = bool(self._flags & record.SHADOW)
        self.fresh.append(
            Step(
                number,
                begin_ns + offset,
                mono_ns - begin_ns,
                is_clean,
                None if is_shadow else self._data_ns,
                () if is_shadow else tuple(self._meetings),
                self._tokens if self._tokens >= 0 else None,
                min(self._pause_ns, mono_ns - begin_ns),
            )
        )

    def _end_phase(self, flags: int, phase: int, name: float, back_ns: float, mono_ns: int) -> None:
        if flags & record.ASIDE:
            return
        begun = self._open.pop((phase, _place(name)), None)
        if back_ns == back_ns and back_ns <= 0:  # NaN where it does not say
            begun = mono_ns + int(back_ns)
        if begun is None:
            return
        if phase in SET_ASIDE:
            self._is_set_aside = True
            offset = self._offset_ns or 0
            self._set_aside(begun + offset, mono_ns + offset)
            if phase == CHECKPOINT:
                self.longest_checkpoint_ns = max(self.longest_checkpoint_ns, mono_ns - begun)
        if phase == DATA:
            self._data_ns += mono_ns - begun
        elif phase in PAUSES:
            self._pause_ns += mono_ns - begun
        if (flags & record.SYNC or phase == COMMUNICATION) and len(self._meetings) < MOST_MEETINGS:
            self._meetings.append(((phase << 8) + _place(name) + 1, mono_ns - begun))

    def _set_aside(self, begin_ns: int, end_ns: int) -> None:
        self.marked = [*self.marked[-15:], (begin_ns, end_ns)]

    def _value(self, place: int, value: float, step: int, mono_ns: int) -> None:
        if not 0 <= place < len(self._names) or self._names[place] not in LOSSES:
            return
        at = mono_ns + (self._offset_ns or 0)
        before = self.loss
        every = 0 if before is None else max(before.every_steps, step - before.step)
        if before is not None and (
            before.value == value or (before.value != before.value and value != value)
        ):
            before.at_ns, before.num_same = at, before.num_same + (step != before.step)
            before.step, before.every_steps = step, every
        else:
            self.loss = Loss(value, at, step, at, every_steps=every)


def _place(value: float) -> int:
    """A place in the table of names, -1 for none."""
    return int(value) if value == value and value >= 0 else -1
