"""Processes on devices, as `nvidia-smi --query-compute-apps … --format=csv -l` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import numpy as np

from stepscope.simulate.config import START_NS
from stepscope.simulate.counter.device import State
from stepscope.simulate.counter.meter import BIN_NS
from stepscope.simulate.counter.place import Place
from stepscope.simulate.counter.timeline import STARTED_NS, Timeline

HEADER = "timestamp, gpu_name, gpu_bus_id, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
EVERY_NS = 5_000_000_000
OWN, FOREIGN = "/opt/conda/bin/python3.11", "/usr/local/bin/python3"


def text(timeline: Timeline, states: list[State], here: list[Place], skew_ns: int) -> Iterator[str]:
    """The list, again and again, a text a time; by the host's clock, which is UTC."""
    theirs = [pid_of_other(timeline.cluster.config.seed, place) for place in here]
    yield HEADER
    for at in range(int(EVERY_NS // 10 // BIN_NS), timeline.num_bins, int(EVERY_NS // BIN_NS)):
        true_ns = timeline.start_ns + at * BIN_NS
        is_on = START_NS - STARTED_NS <= true_ns < timeline.stop_ns
        yield listed(true_ns + skew_ns, states, here, theirs, at, is_on)


def pid_of_other(seed: int, place: Place) -> int:
    """Of the process that may share a rank's device."""
    return int(np.random.default_rng([seed, 28, place.rank]).integers(20_000, 60_000))


def listed(
    shown_ns: int, states: list[State], here: list[Place], theirs: list[int], at: int, is_on: bool
) -> str:
    """The list at one time of the host's clock, bin `at` of the states; `is_on`: the job's processes run."""
    stamp = datetime.fromtimestamp(shown_ns // 1_000_000 / 1000, tz=timezone.utc)
    shown = f"{stamp:%Y/%m/%d %H:%M:%S}.{stamp.microsecond // 1000:03d}"
    lines = []
    for number in sorted(range(len(here)), key=lambda each: here[each].index):
        place, state = here[number], states[number]
        own, foreign = state.of["own_bytes"][at], state.of["foreign_bytes"][at]
        head = f"{shown}, {state.gpu.name}, {place.pci_bus_id}, {place.uuid}"
        if is_on:
            lines.append(f"{head}, {place.pid}, {OWN}, {int(own) >> 20} MiB\n")
        if foreign > 0:
            lines.append(f"{head}, {theirs[number]}, {FOREIGN}, {int(foreign) >> 20} MiB\n")
    return "".join(lines)
