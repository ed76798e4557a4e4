"""Marks of a training loop: steps, phases, waits for data, numbers."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from stepscope_sdk import control
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import NAN, Ring

if TYPE_CHECKING:
    from stepscope_sdk.profile_handler import Handler

Batch = TypeVar("Batch")
_STEP_BEGIN, _STEP_END = abi.kind_number("step_begin"), abi.kind_number("step_end")
_PHASE_BEGIN, _PHASE_END = abi.kind_number("phase_begin"), abi.kind_number("phase_end")
_VALUE = abi.kind_number("value")
_PHASE = {name: place for place, name in enumerate(abi.PHASES)}
_OTHER = _PHASE["other"]


def run_dir() -> str:
    """Where rings lie: `$STEPSCOPE_RUN_DIR`, else `/dev/shm/stepscope`."""
    return os.environ.get("STEPSCOPE_RUN_DIR") or "/dev/shm/stepscope"


class Monitor:
    """What a training loop marks with. Every method may be called anywhere, none raises."""

    def __init__(
        self, ring: Ring | None, watch: control.Watch | None = None, *, shadow_every: int | None = None
    ) -> None:
        """`shadow_every`: every second block of so many steps goes without inner marks, so that the run
        itself measures what they cost."""
        self._ring = self._inner = ring
        self._watch = watch
        self._shadow_every = shadow_every
        self._step = -1
        self._next = 0
        self._flags = 0

    def begin_step(self, number: int | None = None, *, tokens: int = -1, samples: float = NAN,
                   seq_len: float = NAN) -> None:  # fmt: skip
        """A step begins; by default it is numbered one higher than the last."""
        self._step = self._next if number is None else number
        self._next = self._step + 1
        watch = self._watch
        self._flags = 0
        if watch is not None and watch.words[control.SEQ] != watch.seen:
            self._flags = watch.begin(self._step)
        if self._shadow_every:
            is_shadow = (self._step // self._shadow_every) & 1
            self._inner = None if is_shadow else self._ring
            self._flags |= is_shadow and abi.FLAGS["shadow"]
        if self._ring is not None:
            self._ring.write(_STEP_BEGIN, self._flags, self._step, tokens, samples, seq_len)

    def end_step(self, *, tokens: int = -1, samples: float = NAN, seq_len: float = NAN) -> None:
        """The step ends."""
        if self._ring is not None:
            self._ring.write(_STEP_END, self._flags, self._step, tokens, samples, seq_len)
        watch = self._watch
        if watch is not None and watch.words[control.SEQ] != watch.seen:
            watch.end(self._step)
        self._step = -1

    @contextmanager
    def step(self, number: int | None = None, *, tokens: int = -1, samples: float = NAN,
             seq_len: float = NAN) -> Iterator[None]:  # fmt: skip
        """One step."""
        self.begin_step(number, tokens=tokens, samples=samples, seq_len=seq_len)
        try:
            yield
        finally:
            self.end_step()

    def begin_phase(self, name: str, *, sync: bool = False) -> None:
        """A phase begins; a name that is none of `PHASES` is `other` under that name."""
        if self._inner is not None:
            place = _PHASE.get(name)
            named = NAN if place is not None else float(self._inner.name(name))
            flags = self._flags | (abi.FLAGS["sync"] if sync else 0)
            self._inner.write(_PHASE_BEGIN, flags, self._step, _OTHER if place is None else place, named)

    def end_phase(self, name: str, *, sync: bool = False) -> None:
        """The phase ends."""
        if self._inner is not None:
            place = _PHASE.get(name)
            named = NAN if place is not None else float(self._inner.name(name))
            flags = self._flags | (abi.FLAGS["sync"] if sync else 0)
            self._inner.write(_PHASE_END, flags, self._step, _OTHER if place is None else place, named)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase: `checkpoint`, `eval`, `forward`, … or a name of one's own."""
        self.begin_phase(name)
        try:
            yield
        finally:
            self.end_phase(name)

    def data(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The loader's batches, each wait marked."""
        batches = iter(loader)
        while True:
            self.begin_phase("data")
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self.end_phase("data")
            yield batch

    def log(self, **values: float) -> None:
        """Numbers of this step: loss, grad_norm, loss_scale, …"""
        if self._inner is not None:
            for name, value in values.items():
                self._inner.write(_VALUE, self._flags, self._step, self._inner.name(name), float(value))

    def trace_handler(self, folder: str | None = None) -> Handler:
        """As `stepscope_sdk.on_trace_ready`, for this monitor."""
        from stepscope_sdk.profile_handler import Handler

        ring = self._ring
        path = (
            os.path.join(run_dir(), f"rank{_number('RANK')}-{os.getpid()}{abi.SUFFIX}")
            if ring is None
            else ring.path
        )
        about = {"rank": _number("RANK"), "world_size": _number("WORLD_SIZE")}
        return Handler(
            folder or control.trace_dir(path, os.environ),
            os.path.basename(abi.trace_place(path, 0)).removesuffix(".json.gz"),
            {name: value for name, value in about.items() if value != abi.ABSENT},
            lambda: self._next - 1,
            None if ring is None else ring.write,
        )


_monitor: Monitor | None = None


def monitor(*, sample_every: int | None = None, shadow_every: int | None = None) -> Monitor:
    """The monitor of this process. `sample_every`: a light capture of every so many-th step; `shadow_every`:
    every second block of so many steps without inner marks. Both are off by default."""
    global _monitor
    if _monitor is None:
        ring = _open()
        watch = None
        if ring is not None:
            about = {"rank": _number("RANK"), "world_size": _number("WORLD_SIZE")}
            watch = control.watch(ring, about, os.environ, sample_every=sample_every)
        every = shadow_every or control.number(os.environ, "STEPSCOPE_SHADOW_EVERY")
        _monitor = Monitor(ring, watch, shadow_every=every)
    return _monitor


def _number(name: str) -> int:
    value = control.number(os.environ, name)
    return 0 if os.environ.get(name) == "0" else abi.ABSENT if value is None else value


def _open() -> Ring | None:
    folder = run_dir()
    rank = int(os.environ.get("RANK", abi.ABSENT))
    try:
        os.makedirs(folder, exist_ok=True)
        name = f"rank{rank}-{os.getpid()}-{time.time_ns():x}{abi.SUFFIX}"
        world = int(os.environ.get("WORLD_SIZE", abi.ABSENT))
        identity: dict[str, str | int] = {"rank": rank, "world_size": world, "host": socket.gethostname()}
        identity |= {"local_rank": abi.ABSENT, "restart": abi.ABSENT}
        return Ring(os.path.join(folder, name), identity)
    except OSError:
        return None
