"""A host's kernel log, as `dmesg --time-format iso` prints it: what the driver said, and little else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import numpy as np

from stepscope.simulate.clock import Clock, clock_of
from stepscope.simulate.config import START_NS
from stepscope.simulate.counter.device import State
from stepscope.simulate.counter.meter import BIN_NS
from stepscope.simulate.counter.place import DRIVER, Place
from stepscope.simulate.counter.timeline import BEFORE_NS, Timeline
from stepscope.simulate.logs.train import out_of_memory

LOADED = f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Mon Feb  3 12:00:00 UTC 2025"


def remapped(place: Place) -> str:
    """A device has a new row to remap."""
    return (
        f"NVRM: Xid (PCI:{place.short_bus_id}): 63, pid='<unknown>', name=<unknown>, Row Remapper: "
        f"New row marked for remapping, reset gpu to activate."
    )


def aborted(place: Place) -> str:
    """A rank's process ends by its own abort."""
    return f"python3.11 pt_autograd_0[{place.pid}]: exited on signal 6 (core dumped)"


def written(clock: Clock, at_ns: int, level: str, text: str) -> str:
    """A line."""
    local = int(clock.local_ns(np.array([at_ns], dtype=np.int64))[0])
    shown = datetime.fromtimestamp(local // 1000 / 1e6, tz=timezone.utc)
    return f"kern  :{level.ljust(5)} : {shown:%Y-%m-%dT%H:%M:%S},{shown.microsecond:06d}+00:00 {text}\n"


def lines(timeline: Timeline, states: list[State], here: list[Place]) -> Iterator[str]:
    """The log of one host, line by line. `here` are its places."""
    clock = clock_of(timeline.cluster.config, here[0].rank)
    found: list[tuple[int, str, str]] = [(START_NS - BEFORE_NS - 3_600_000_000_000, "info", LOADED)]
    dead = set(out_of_memory(timeline))
    for state, place in zip(states, here, strict=True):
        rows = state.of["remapped"]
        for at in np.flatnonzero(np.diff(rows) > 0).tolist():
            found.append((timeline.start_ns + at * BIN_NS, "warn", remapped(place)))
        if timeline.hang is not None or place.rank in dead:
            found.append((timeline.stop_ns + 150_000_000, "info", aborted(place)))
    found.sort()
    for at, level, text in found:
        yield written(clock, at, level, text)
