"""What a monitor in each rank's loop marks: the host's notes of a step as records of a step ring.

The loop that is simulated reads a number back at the end of its optimizer (a gradient norm, as clipping or a
scaler does), and so waits there for its device: that wait is part of the phase `optimizer`. Where it waits
for the very step that it is in (`run_ahead` 0), all ranks of a data-parallel job meet in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepscope.simulate.program import CLOSE, DRAIN, END_STEP, GC, LATE, LOAD, NODES, STEP, THREAD
from stepscope.simulate.serve.player import MARKED, READ_BACK, Note
from stepscope_sdk import ring_abi as abi

NAN = float("nan")
PHASE = {name: place for place, name in enumerate(abi.PHASES)}
KIND = {each.name: each.number for each in abi.KINDS}
OPTIMIZER = "Optimizer.step"
LEAST_WAIT_NS = 200_000
"""A wait for the device after a checkpoint or an evaluation that is shorter is not marked."""
LEAST_GC_NS = 1_000_000
"""A collection that is shorter is not marked."""


class Record(NamedTuple):
    """One record of a ring, at a true time."""

    at_ns: int
    kind: int
    flags: int
    step: int
    a: int = 0
    b: float = NAN
    c: float = NAN


class Stretch(NamedTuple):
    """A phase, by its name in `ring_abi.PHASES`."""

    name: str
    start_ns: int
    end_ns: int
    is_sync: bool = False


class StepCounts(NamedTuple):
    """Of one step of one rank: `tokens` -1 and `sequence_length` `None` for a model that has none."""

    tokens: int
    samples: int
    sequence_length: float | None


def stretches(notes: Sequence[Note], is_sync: bool) -> list[Stretch]:
    """The phases of a step, in the order in which they end. `is_sync`: its end waits for all ranks."""
    found: list[Stretch] = []
    pass_ns: list[int] = []  # where passes through the model begin, since the last backward pass
    backward_ns = optimizer_ns = -1
    has_marked = False
    for note in notes:
        if note.code == LOAD:
            found.append(Stretch("data", note.start_ns, note.end_ns))
        elif note.code == GC and note.end_ns - note.start_ns >= LEAST_GC_NS:
            found.append(Stretch("gc", note.start_ns, note.end_ns))
        elif note.code in (NODES, LATE):
            pass_ns.append(note.start_ns)
        elif note.code == THREAD and note.what == "1":
            if len(pass_ns) > 1:
                # The last of them is the backward pass, and what lies before it may be a late Python.
                late = [each.start_ns for each in notes if each.code == LATE and each.start_ns >= pass_ns[0]]
                end = min([pass_ns[-1], *late])
                found.append(Stretch("forward", pass_ns[0], end))
            pass_ns, backward_ns = [], note.start_ns
        elif note.code == THREAD and backward_ns >= 0:
            found.append(Stretch("backward", backward_ns, note.end_ns))
        elif note.code == CLOSE and note.what.startswith(OPTIMIZER):
            optimizer_ns = note.start_ns
            found.append(Stretch("optimizer", note.start_ns, note.end_ns, is_sync))
        elif note.code == DRAIN and note.what == READ_BACK[1]:
            at = next(n for n, each in enumerate(found) if each.name == "optimizer")
            found[at] = found[at]._replace(end_ns=note.end_ns)
        elif note.code == CLOSE and note.what in MARKED:
            has_marked = True
            found.append(Stretch(MARKED[note.what], note.start_ns, note.end_ns))
        elif note.code == END_STEP:
            if optimizer_ns >= 0 and not has_marked:
                at = next(n for n, each in enumerate(found) if each.name == "optimizer")
                found[at] = found[at]._replace(end_ns=note.end_ns)
            elif note.end_ns - note.start_ns >= LEAST_WAIT_NS:
                found.append(Stretch("optimizer", note.start_ns, note.end_ns))
    return found


def records(
    step: int,
    notes: Sequence[Note],
    flags: int,
    counts: StepCounts,
    values: Mapping[int, float],
    is_sync: bool,
) -> list[Record]:
    """A step's records, by time. `values` by the place of their name in the ring's table."""
    begin = next(note.start_ns for note in notes if note.code == STEP)
    end = next(note.end_ns for note in notes if note.code == END_STEP)
    length = NAN if counts.sequence_length is None else counts.sequence_length
    told = (counts.tokens, float(counts.samples), length)
    made = [Record(begin, KIND["step_begin"], flags, step, *told)]
    for stretch in stretches(notes, is_sync):
        made += of_stretch(stretch, step, flags)
    made += [Record(end, KIND["value"], flags, step, name, value) for name, value in values.items()]
    made.append(Record(end, KIND["step_end"], flags, step, *told))
    order = sorted(range(len(made)), key=lambda at: (made[at].at_ns, _rank(made[at]), at))
    return [made[at] for at in order]


def of_stretch(stretch: Stretch, step: int, flags: int) -> list[Record]:
    """Its begin and its end."""
    place = PHASE[stretch.name]
    flags |= abi.FLAGS["sync"] if stretch.is_sync else 0
    took = float(stretch.start_ns - stretch.end_ns)
    return [
        Record(stretch.start_ns, KIND["phase_begin"], flags, step, place, -1.0),
        Record(stretch.end_ns, KIND["phase_end"], flags, step, place, -1.0, took),
    ]


_ORDER = ("phase_end", "value", "step_end", "step_begin", "phase_begin")


def _rank(record: Record) -> int:
    """Of records at one moment, what comes first."""
    return _PLACE.get(record.kind, 0)


_PLACE = {KIND[name]: place for place, name in enumerate(_ORDER)}
