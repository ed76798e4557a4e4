"""Marks of a training loop: steps, phases, waits for data, numbers."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from time import monotonic_ns, time_ns
from typing import Any, TypeVar

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.block import Phase, Step
from stepscope_sdk.control import SEQ, Watch
from stepscope_sdk.data import Data
from stepscope_sdk.fact import facts
from stepscope_sdk.number import as_amount, as_count, as_float
from stepscope_sdk.pause import Pauses
from stepscope_sdk.ring import NAN, Ring, Write

Batch = TypeVar("Batch")
_START, _EXIT, _WORLD = abi.kind_number("start"), abi.kind_number("exit"), abi.kind_number("world")
_STEP_BEGIN, _STEP_END = abi.kind_number("step_begin"), abi.kind_number("step_end")
_PHASE_BEGIN, _PHASE_END = abi.kind_number("phase_begin"), abi.kind_number("phase_end")
_VALUE = abi.kind_number("value")
_SHADOW, _TILED = abi.FLAGS["shadow"], abi.FLAGS["tiled"]
_SYNC, _ERROR, _ASIDE = abi.FLAGS["sync"], abi.FLAGS["error"], abi.FLAGS["aside"]
_PHASE = {name: (place, NAN) for place, name in enumerate(abi.PHASES)}
MOST_BLOCKS = 256
_OTHER = abi.PHASES.index("other")

_monitors: weakref.WeakSet[Monitor] = weakref.WeakSet()


class Monitor:
    """What a training loop marks with. Every method may be called anywhere, from any thread; none raises."""

    def __init__(
        self,
        ring: Ring | None,
        reopen: Callable[[], Ring | None] | None = None,
        *,
        watch: Watch | None = None,
        shadow_every: int | None = None,
    ) -> None:
        """Mark into `ring`, or nowhere; `reopen` gives a forked child a ring of its own at its first mark.

        `watch` obeys the ring's control file. `shadow_every`: every second block of so many steps goes
        without inner marks, so that the run itself measures what they cost.
        """
        self._reopen = reopen
        self._watch = watch
        self._shadow_every = shadow_every
        self._step = -1
        self._next = 0
        self._flags = 0
        self._thread = get_ident()
        self._has_facts = False
        self._activations: Any = None
        self._pauses = Pauses(self)
        self._plain_step = Step(self, None, None, None, None)
        self._blocks: dict[tuple[str, bool], Phase] = {}
        self._use(ring)
        _monitors.add(self)

    is_tiled = False
    """Whether steps are found by the end of an optimizer's step: attach mode sets it."""

    def _use(self, ring: Ring | None) -> None:
        self._ring = ring
        self._places: dict[str, tuple[int, float]] = dict(_PHASE)
        self._begun: dict[tuple[int, str], int] = {}
        self._write: Write = _nowhere if ring is None else ring.write
        # What phases and values are written by: a step that leaves its inner marks out puts `_nowhere` here.
        self._write_inner: Write = self._write
        if ring is not None:
            self._write(_START, 0, -1)
            self._pauses.watch()

    @property
    def is_on(self) -> bool:
        """Whether marks go anywhere."""
        return self._ring is not None

    def begin_step(
        self,
        number: int | None = None,
        *,
        tokens: int | None = None,
        samples: float | None = None,
        seq_len: float | None = None,
    ) -> None:
        """A step begins; by default it is numbered one higher than the last."""
        try:
            step = self._next if number is None else as_count(number)
            if step < 0:  # no number, or one that lies on a device
                step = self._next
            self._step = step
            self._next = step + 1
            self._thread = get_ident()
            watch = self._watch
            self._flags = _TILED if self.is_tiled else 0
            if watch is not None and watch.words[SEQ] != watch.seen:  # one load of memory in most steps
                self._flags |= watch.begin(step)
            if self._shadow_every is not None:
                is_shadow = bool(step // self._shadow_every & 1)
                self._write_inner = _nowhere if is_shadow else self._write
                self._flags |= _SHADOW if is_shadow else 0
            if self._activations is not None:
                self._activations.begin_step(step)
            self._write(
                _STEP_BEGIN,
                self._flags,
                step,
                -1 if tokens is None else as_count(tokens),
                NAN if samples is None else as_amount(samples),
                NAN if seq_len is None else as_amount(seq_len),
            )
        except Exception:  # noqa: BLE001 - the outer wall: whatever goes wrong here, training goes on
            self._leave_out()

    def end_step(
        self,
        *,
        tokens: int | None = None,
        samples: float | None = None,
        seq_len: float | None = None,
        has_failed: bool = False,
    ) -> None:
        """The step ends; counts that were not known at its begin may be told now."""
        try:
            flags = self._flags | _ERROR if has_failed else self._flags
            if self._activations is not None:
                flags |= self._activations.end_step(self)
            self._write(
                _STEP_END,
                flags,
                self._step,
                -1 if tokens is None else as_count(tokens),
                NAN if samples is None else as_amount(samples),
                NAN if seq_len is None else as_amount(seq_len),
            )
            watch = self._watch
            if watch is not None and watch.words[SEQ] != watch.seen:
                watch.end(self._step)
            if not self._has_facts:
                self._tell_facts()
        except Exception:  # noqa: BLE001 - the outer wall
            self._leave_out()
        self._step = -1

    def step(
        self,
        number: int | None = None,
        *,
        tokens: int | None = None,
        samples: float | None = None,
        seq_len: float | None = None,
    ) -> Step:
        """One step: `with monitor.step(tokens=4096): …`."""
        if number is None and tokens is None and samples is None and seq_len is None:
            return self._plain_step
        return Step(self, number, tokens, samples, seq_len)

    def begin_phase(self, name: str, *, sync: bool = False) -> int:
        """A phase begins: one of `PHASES`, or a name of one's own. `sync`: all ranks meet in it.

        CLOCK_MONOTONIC in nanoseconds, 0 where nothing was marked.
        """
        try:
            place, named = self._places.get(name) or self._place(name)
            thread = get_ident()
            flags = self._flags | _SYNC if sync else self._flags
            if thread != self._thread:
                flags |= _ASIDE
            begun = self._write_inner(_PHASE_BEGIN, flags, self._step, place, named)
            self._begun[thread, name] = begun
            return begun
        except Exception:  # noqa: BLE001 - the outer wall
            self._leave_out()
            return 0

    def end_phase(self, name: str, *, sync: bool = False, has_failed: bool = False) -> None:
        """The phase ends, in the thread in which it began."""
        try:
            place, named = self._places.get(name) or self._place(name)
            thread = get_ident()
            begun = self._begun.pop((thread, name), 0)
            flags = self._flags | _SYNC if sync else self._flags
            if has_failed:
                flags |= _ERROR
            if thread != self._thread:
                flags |= _ASIDE
            ended = monotonic_ns()
            lasted = float(begun - ended) if begun else NAN
            self._write_inner(_PHASE_END, flags, self._step, place, named, lasted, (ended, time_ns()))
        except Exception:  # noqa: BLE001 - the outer wall
            self._leave_out()

    def phase(self, name: str, sync: bool = False) -> Phase:
        """A phase: `checkpoint`, `eval`, `forward`, … or a name of one's own."""
        try:
            return self._blocks[name, sync]  # a block keeps nothing: one serves for all of its name
        except (KeyError, TypeError):
            block = Phase(self, name, sync)
            if len(self._blocks) < MOST_BLOCKS and isinstance(name, str):
                self._blocks[name, sync] = block
            return block

    def data(self, loader: Iterable[Batch]) -> Data[Batch]:
        """The loader's batches, each wait marked; may be gone through again and again."""
        return Data(self, loader)

    def log(self, **values: Any) -> None:
        """Numbers of this step: loss, grad_norm, loss_scale, … What lies on a device is left out: to read it
        would make the loop wait for the device."""
        for name, value in values.items():
            try:
                if self._ring is None and self._reopen is None:
                    return
                number = as_float(value)
                if number is not None:
                    self._value(name, number)
            except Exception:  # noqa: BLE001 - the outer wall
                self._leave_out()

    def activations(self, module: Any, every: int = 100, names: Iterable[str] | None = None) -> None:
        """In every N-th step, the size and health of what modules put out; see `activation.py`."""
        try:
            if "torch" in sys.modules:
                from stepscope_sdk.activation import Activations

                self._activations = Activations(module, every, names)
        except Exception:  # noqa: BLE001 - the outer wall
            self._leave_out()

    def world(self, world_size: int, rank: int | None = None, local_rank: int | None = None) -> None:
        """The process group is known now."""
        try:
            told = {"world_size": world_size, "rank": rank, "local_rank": local_rank}
            known = {name: int(value) for name, value in told.items() if value is not None}
            self._write(_WORLD, 0, self._step, known["world_size"], *(
                float(known[name]) if name in known else NAN for name in ("rank", "local_rank")
            ))  # fmt: skip
            if self._ring is not None:
                self._ring.set(**known)
            if self._watch is not None:
                self._watch.about.update(known)
        except Exception:  # noqa: BLE001 - the outer wall
            self._leave_out()

    def close(self, *, has_failed: bool = False, was_interrupted: bool = False) -> None:
        """The process ends, or marks no more: in order, by an exception, or by Ctrl-C."""
        try:
            self._pauses.stop()
            if self._watch is not None:
                self._watch.close()
            if self._ring is not None:  # a child that never marked has no end to tell of either
                self._write(_EXIT, 0, self._step, 2 if was_interrupted else int(has_failed))
        except Exception:  # noqa: BLE001 - the outer wall
            pass
        self._write = self._write_inner = _nowhere

    def _value(self, name: str, value: float) -> None:
        place = int(self._name(name))
        if place >= 0:
            self._write_inner(_VALUE, self._flags, self._step, place, value)

    def _name(self, text: str) -> int:
        self._wake()
        return -1 if self._ring is None else self._ring.name(text)

    def _place(self, name: str) -> tuple[int, float]:
        """Of a phase with a name of its own; `other` without one where the table of names is full."""
        number = self._name(name)
        found = (_OTHER, float(number) if number >= 0 else NAN)
        if number >= 0:
            self._places[name] = found
        return found

    def _tell_facts(self) -> None:
        """After the first step: which framework, and which device is in use."""
        self._has_facts = True
        if self._ring is not None:
            self._ring.set(**facts(sys.modules))

    def _leave_out(self) -> None:
        """A mark failed: it is left out. In a forked child it may have been the parent's."""

    def _wake(self) -> None:
        """In a forked child, at its first mark: a ring of its own."""
        if self._ring is None and self._reopen is not None and self._write is not _nowhere:
            reopen, self._reopen = self._reopen, None
            self._use(reopen())
            self._reopen = reopen

    def _first(self, *record: Any, **options: Any) -> int:
        self._wake()
        return 0 if self._ring is None else self._write(*record, **options)

    def sleep(self) -> None:
        """Until the first mark there is no ring; it opens one, where there is a way."""
        self._ring = None
        self._watch = None
        self._places, self._begun = dict(_PHASE), {}
        self._write = self._write_inner = _nowhere if self._reopen is None else self._first

    def _after_fork(self) -> None:
        """In a child nothing of the parent's is written any more."""
        if self._write is not _nowhere:
            self.sleep()


def _nowhere(*record: Any, **options: Any) -> int:
    return 0
