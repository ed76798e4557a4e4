"""Marks from rings, and from batches of an agent: records in, `RankMarks` out.

A record says when and what; here beginnings meet their ends. Nothing is assumed of order over threads: where
an end carries its own start that counts, elsewhere the latest open beginning of the same phase and name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from stepscope.model import batch
from stepscope.model.error import InputError
from stepscope.model.mark import PHASES, Capture, Identity, Phases, RankMarks, Steps, Value
from stepscope.model.trace import I64
from stepscope.sources.ring import FIRST_NS, LAST_NS, RECORD, RingReader
from stepscope_sdk import ring_abi as abi

FORMAT = "step-ring"
_KIND = {each.name: each.number for each in abi.KINDS}
JUMP_NS, JUMP_SHARE = 50_000_000, 1e-3
"""The wall clock jumped where it moved so far against the monotonic one, and by more than this share of the
time between: what slews a clock moves it by 500 parts per million, and a thread that is put off between its
two looks at the clocks sees a few milliseconds. Nothing that is put beside marks is so exact."""
_CTRL_C = 2
MOST_LOOKS = 64
"""Looks at one ring: each takes what lies before a record that was being written."""


def marks_of_ring(path: str) -> RankMarks:
    """Everything that a ring holds now. InputError where it is none, OSError where it cannot be opened."""
    reader = RingReader(path)
    parts = []
    for _ in range(MOST_LOOKS):
        part = reader.poll()
        if not len(part.records):
            break
        parts.append(part)
    if not parts and reader.has_damage():
        raise InputError(
            path, "a damaged step ring: none of its records is whole", "give a copy that is whole"
        )
    records = np.concatenate([each.records for each in parts]) if parts else np.empty(0, dtype=RECORD)
    found = marks_of_records(
        records,
        reader.identity(),
        reader.names(),
        number=np.concatenate([each.number for each in parts]) if parts else None,
        num_lost=sum(each.num_lost - each.num_damaged for each in parts),
        is_alive=reader.is_alive(),
    )
    return replace(found, num_damaged=sum(each.num_damaged for each in parts))


def marks_of_batches(batches: Sequence[batch.Marks], ends: Sequence[batch.Happened] = ()) -> list[RankMarks]:
    """The rings that these batches are of, in the order in which they are first named. A record that came
    twice counts once; one that never came is counted as lost. `ends` are what the agent said of ranks that
    ended: when it saw that a writer was gone."""
    rings: dict[tuple[str, str], list[batch.Marks]] = {}
    for each in batches:
        rings.setdefault((each.host, each.ring), []).append(each)
    found = [(host, _of_ring(sorted(mine, key=lambda each: each.seq))) for (host, _), mine in rings.items()]
    return [replace(marks, gone_ns=_gone_ns(marks, host, ends)) for host, marks in found]


_SAYS_WHO = ("job", "run", "rank", "restart")


def _gone_ns(marks: RankMarks, host: str, ends: Sequence[batch.Happened]) -> int | None:
    """When the agent of this host saw that it was gone: the first such time after its last mark."""
    if marks.is_alive is not False or marks.last_ns is None:
        return None
    said = {name: value for name in _SAYS_WHO if (value := getattr(marks.identity, name)) is not None}
    times = [
        each.at_ns
        for each in ends
        if each.host == host
        and each.at_ns >= marks.last_ns
        and all(each.labels.get(name) == str(value) for name, value in said.items())
    ]
    return min(times, default=None)


def _of_ring(batches: Sequence[batch.Marks]) -> RankMarks:
    number = np.array([n for each in batches for n in each.number], dtype=np.int64)
    records = np.zeros(len(number), dtype=RECORD)
    for column, name in (
        ("kind", "record_kind"), ("flags", "flags"), ("step", "step"), ("mono_ns", "mono_ns"),
        ("real_ns", "real_ns"), ("a", "a"), ("b", "b"), ("c", "c"),
    ):  # fmt: skip
        records[column] = [value for each in batches for value in getattr(each, name)]
    number, first = np.unique(number, return_index=True)
    known: dict[str, object] = {}
    for each in batches:
        known |= each.identity
    # What was lost before the first batch is in none: numbers begin at 0. Of what is not here the agent
    # counted what the ring had overwritten before it looked; the rest it read, and its batches never came.
    absent = int(number[-1]) + 1 - len(number) if len(number) else 0
    num_lost = min(absent, sum({each.seq: each.num_lost for each in batches}.values()))
    told = [each.is_alive for each in batches if each.is_alive is not None]
    found = marks_of_records(
        records[first],
        _identity(known),
        max((tuple(each.names) for each in batches), key=len, default=()),
        number=number,
        num_lost=num_lost,
        is_alive=told[-1] if told else None,
    )
    return replace(found, num_missing=absent - num_lost)


def _identity(known: Mapping[str, object]) -> Identity:
    names = {each.name for each in fields(Identity)}
    chosen = {name: value for name, value in known.items() if name in names}
    uuids = chosen.pop("device_uuids", ())
    return Identity(**chosen, device_uuids=tuple(uuids))  # type: ignore[arg-type]


def marks_of_records(
    records: npt.NDArray[np.void],
    identity: Identity,
    names: tuple[str, ...] = (),
    *,
    number: I64 | None = None,
    num_lost: int = 0,
    is_alive: bool | None = None,
) -> RankMarks:
    """Records (dtype `sources.ring.RECORD`) of one ring in the order of their numbers, as marks. `number` of
    each, where some are not here: nothing that was open where they are missing goes on behind."""
    offset = _offset(records)
    jumps = _jumps(records)
    follows = np.zeros(len(records), dtype=bool)
    if number is not None:
        follows[1:] = np.diff(number) > 1
    # A mark of a thread that found the ring taken is written a little later than its time.
    order = np.argsort(records["mono_ns"], kind="stable")
    records, follows = records[order], follows[order]
    at = records["mono_ns"] + np.int64(offset or 0)
    paired = _Pairing(names)
    rows = zip(
        *(records[name].tolist() for name in ("kind", "flags", "step", "a", "b", "c")),
        at.tolist(),
        follows.tolist(),
        strict=True,
    )
    last = 0
    for kind, flags, step, a, b, c, when, is_behind_gap in rows:
        if is_behind_gap:
            paired.forget(last, when)
        paired.take(kind, flags, step, a, b, c, when)
        last = when
    open_ = paired.open()
    return RankMarks(
        identity=replace(identity, **paired.world),  # type: ignore[arg-type]
        steps=paired.step_columns(),
        phases=paired.phase_columns(),
        names=names,
        values=_values(records, at, names),
        captures=tuple(paired.captures.values()),
        start_ns=paired.start_ns,
        last_ns=int(at[-1]) if len(at) else None,
        exit_ns=paired.exit_ns,
        has_failed=paired.has_failed,
        was_interrupted=paired.was_interrupted,
        open_step=paired.step[0] if paired.step is not None else None,
        open_phase=open_[0] if open_ is not None else None,
        open_since_ns=open_[1] if open_ is not None else paired.step[1] if paired.step is not None else None,
        is_alive=is_alive,
        num_lost=num_lost,
        clock_steps_ns=jumps,
        offset_ns=offset,
        num_unmatched=paired.num_unmatched,
        gaps_ns=tuple(paired.gaps_ns),
    )


def _offset(records: npt.NDArray[np.void]) -> int | None:
    """Wall time less monotonic time of the first record that tells a time at all."""
    real = records["real_ns"]
    told = np.flatnonzero((real >= FIRST_NS) & (real < LAST_NS))
    first = int(told[0]) if len(told) else 0
    return int(real[first]) - int(records["mono_ns"][first]) if len(records) else None


def _jumps(records: npt.NDArray[np.void]) -> tuple[int, ...]:
    if len(records) < 2:
        return ()
    apart = np.diff(records["real_ns"] - records["mono_ns"])
    between = np.abs(np.diff(records["mono_ns"]))
    is_jump = np.abs(apart) > np.maximum(JUMP_NS, JUMP_SHARE * between)
    return tuple(apart[is_jump].tolist())


def _values(records: npt.NDArray[np.void], at: I64, names: tuple[str, ...]) -> dict[str, Value]:
    mine = records["kind"] == _KIND["value"]
    place, step, value, when = records["a"][mine], records["step"][mine], records["b"][mine], at[mine]
    found = {}
    for n in np.unique(place).tolist():
        if 0 <= n < len(names):
            chosen = place == n
            found[names[n]] = Value(step[chosen].copy(), when[chosen], value[chosen].copy())
    return found


Begun = tuple[int, int, int, int]
"""When (wall), step, flags, and how many steps had begun."""


@dataclass(slots=True)
class _Row:
    """One step: number, start, end, tokens, samples, length, flags."""

    step: int
    start_ns: int
    end_ns: int
    tokens: float
    samples: float
    length: float
    flags: int


class _Pairing:
    """Beginnings that wait for their ends, record by record."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.steps: list[_Row] = []
        self.phases: list[tuple[int, int, int, int, int, int]] = []
        self.captures: dict[int, Capture] = {}
        self.world: dict[str, int] = {}
        self.step: tuple[int, int, int, float, float, float] | None = None
        self.start_ns: int | None = None
        self.exit_ns: int | None = None
        self.has_failed = self.was_interrupted = False
        self.num_unmatched = 0
        self.gaps_ns: list[tuple[int, int]] = []
        self._num_begun = 0
        self._open: dict[tuple[int, int], list[Begun]] = {}

    def forget(self, from_ns: int, to_ns: int) -> None:
        """Records are missing between these: what was open may have ended in the meantime, and what it was in
        at the last record is not known from before."""
        self.gaps_ns.append((from_ns, to_ns))
        self.step = None
        self._open.clear()

    def take(self, kind: int, flags: int, step: int, a: int, b: float, c: float, at: int) -> None:
        """One record, `at` wall time."""
        if kind == _KIND["phase_begin"]:
            self._open.setdefault((a, _place(b)), []).append((at, step, flags, self._num_begun))
        elif kind == _KIND["phase_end"]:
            self._end_phase(flags, step, a, _place(b), c, at)
        elif kind == _KIND["step_begin"]:
            if self.step is not None:  # where steps tile nobody needs to end one
                self._end_step(self.step[0], 0, -1, np.nan, np.nan, at)
            self.step = (step, at, flags, _count(a), b, c)
            self._num_begun += 1
        elif kind == _KIND["step_end"]:
            self._end_step(step, flags, a, b, c, at)
        elif kind == _KIND["start"]:
            self.start_ns = at if self.start_ns is None else self.start_ns
        elif kind == _KIND["exit"]:
            self.exit_ns, self.was_interrupted, self.has_failed = at, a == _CTRL_C, a not in (0, _CTRL_C)
        elif kind == _KIND["world"]:
            told = {"world_size": float(a), "rank": b, "local_rank": c}
            self.world = {name: int(value) for name, value in told.items() if value == value and value >= 0}
        elif kind == _KIND["capture_begin"]:
            mode = abi.MODES[int(b)] if b in range(len(abi.MODES)) else "full"
            self.captures[a] = Capture(a, at, step, mode=mode)
        elif kind == _KIND["capture_end"]:
            self._end_capture(step, a, b, c, at)

    def _end_phase(self, flags: int, step: int, phase: int, name: int, back: float, at: int) -> None:
        waiting = self._open.get((phase, name), [])
        start: int | None = None
        if back == back and back <= 0:  # NaN where it does not say
            start = at + int(back)
            mine = next((n for n, each in enumerate(waiting) if abs(each[0] - start) <= 1_000), None)
            if mine is not None:
                step, flags = waiting[mine][1], flags | waiting[mine][2]
                start = waiting.pop(mine)[0]
        elif waiting:
            start, step, begun, _ = waiting.pop()
            flags |= begun
        if start is None or not 0 <= phase < len(PHASES):
            self.num_unmatched += 1
            return
        self.phases.append((phase, name, step, start, at, flags))

    def _end_step(self, step: int, flags: int, a: int, b: float, c: float, at: int) -> None:
        if self.step is None or self.step[0] != step:
            self.num_unmatched += 1
            return
        number, start, begun, tokens, samples, length = self.step
        self.step = None
        # The end says it where the beginning could not know yet.
        tokens = _count(a) if a >= 0 else tokens
        samples, length = (b if b == b else samples), (c if c == c else length)
        self.steps.append(_Row(number, start, at, tokens, samples, length, flags | begun))

    def _end_capture(self, step: int, capture: int, stall: float, num_bytes: float, at: int) -> None:
        begun = self.captures.get(capture)
        if begun is None:
            self.num_unmatched += 1
            return
        is_first = begun.end_ns is None
        self.captures[capture] = replace(
            begun,
            end_ns=at if is_first else begun.end_ns,
            last_step=(step if step >= 0 else None) if is_first else begun.last_step,
            stall_ns=int(stall) if stall == stall else begun.stall_ns,
            num_bytes=int(num_bytes) if num_bytes == num_bytes else begun.num_bytes,
        )

    def open(self) -> tuple[str, int] | None:
        """(phase, since) of what it was in at the last record; what began steps ago and never ended is
        none."""
        found: tuple[str, int] | None = None
        for (phase, name), waiting in self._open.items():
            for at, _, _, num_begun in waiting:
                is_fresh = num_begun >= self._num_begun - (1 if self.step is None else 0)
                if not (is_fresh and 0 <= phase < len(PHASES)):
                    self.num_unmatched += 1
                elif found is None or at > found[1]:
                    found = (self.names[name] if 0 <= name < len(self.names) else PHASES[phase], at)
        return found

    def step_columns(self) -> Steps:
        """The whole steps, by start."""
        rows = self.steps
        flags = np.array([row.flags for row in rows], dtype=np.int64)

        def column(name: str, kind: npt.DTypeLike) -> npt.NDArray:  # type: ignore[type-arg]
            return np.array([getattr(row, name) for row in rows], dtype=kind)

        return Steps(
            step=column("step", np.int64),
            start_ns=column("start_ns", np.int64),
            end_ns=column("end_ns", np.int64),
            tokens=column("tokens", np.float64),
            samples=column("samples", np.float64),
            sequence_length=column("length", np.float64),
            is_shadow=(flags & abi.FLAGS["shadow"]) != 0,
            is_captured=(flags & abi.FLAGS["captured"]) != 0,
            is_stalled=(flags & abi.FLAGS["stalled"]) != 0,
            is_tiled=(flags & abi.FLAGS["tiled"]) != 0,
        )

    def phase_columns(self) -> Phases:
        """The whole phases, by start."""
        table = np.array(self.phases, dtype=np.int64).reshape(len(self.phases), 6)
        table = table[np.lexsort((-table[:, 4], table[:, 3]))]
        phase, name, step, start, end, flags = (column.copy() for column in table.T)
        return Phases(
            phase=phase.astype(np.int32),
            name=name.astype(np.int32),
            step=step,
            start_ns=start,
            end_ns=end,
            is_sync=(flags & abi.FLAGS["sync"]) != 0,
        )


def _place(value: float) -> int:
    """A place in the table of names, -1 for none."""
    return int(value) if value == value and value >= 0 else -1


def _count(value: int) -> float:
    return float(value) if value >= 0 else np.nan
