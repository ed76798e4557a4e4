"""The agent itself: what it costs, what it lost. For whoever asks whether the observer disturbs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from stepscope.agent import process
from stepscope.agent.context import Context
from stepscope.agent.job import AGENT
from stepscope.agent.source import Kind, Reading, Sample, Source
from stepscope.model.sample import Owner


class OwnSource:
    """This process."""

    name = "agent"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owner = Owner(kind="process", host=context.host, name=AGENT)

    def read(self) -> Sequence[Reading]:
        tally = self._context.tally
        reading = Reading(self._context.clock.real_ns(), lag_ns=0)
        own: dict[str, float] = {
            "agent_cpu_seconds_total": time.process_time(),
            "agent_samples_total": float(tally.num_samples),
            "agent_samples_dropped_total": float(tally.num_dropped),
            "agent_late_total": float(tally.num_late),
        }
        said = process.usage("/proc", os.getpid(), os.sysconf("SC_PAGE_SIZE"))
        if said is not None:
            own["agent_resident_bytes"] = float(said.resident_bytes)
        reading.samples = [Sample(self._owner, signal, value) for signal, value in own.items()]
        for signal, by_source in (
            ("agent_reads_total", tally.num_reads),
            ("agent_read_failures_total", tally.num_failed),
            ("agent_read_seconds_total", tally.read_seconds),
        ):
            for name, number in list(by_source.items()):
                reading.samples.append(Sample(self._owner, signal, float(number), (("source", name),)))
        return [reading]

    def close(self) -> None:
        """Nothing is held."""


def _make(context: Context) -> Sequence[Source]:
    return [OwnSource(context)]


SOURCE = Kind(
    name="own",
    title="The agent itself",
    gives="its CPU time and memory, samples read and lost, looks at each source and how long they took",
    make=_make,
    fixed_ns=10_000_000_000,
)
