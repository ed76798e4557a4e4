"""What is true of a live job so far: for tests, and for whoever wants to know what was switched when."""

from __future__ import annotations

from typing import Any

from stepscope.simulate.counter.place import Place
from stepscope.simulate.serve.clock import Clocks
from stepscope.simulate.serve.live import BEGIN_NS, Live
from stepscope.simulate.serve.switch import listed

SCHEMA = "stepscope.live-truth/1"


def truth_of(live: Live, places: list[Place], clocks: Clocks, now_ns: int, scale: float) -> dict[str, Any]:
    """JSON values. Times are what the job's clocks show."""
    config = live.config
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "arguments": {
            "seed": config.seed,
            "ranks": config.ranks,
            "gpu": config.gpu,
            "model": config.model,
            "step_ms": config.step_ms,
            "layers": config.layers,
            "run_ahead": config.run_ahead,
            "time_scale": scale,
        },
        "start_ns": clocks.real(BEGIN_NS),
        "start_mono_ns": clocks.mono(BEGIN_NS),
        "now_ns": clocks.real(now_ns),
        "next_step": live.step,
        "ranks": [
            {
                "rank": place.rank,
                "host": place.host,
                "pid": place.pid,
                "device": {"index": place.index, "uuid": place.uuid, "pci_bus_id": place.pci_bus_id},
            }
            for place in places
        ],
        "faults": [listed(each) for each in live.board.all],
        "hangs": [
            {"start_ns": clocks.real(start), "end_ns": clocks.real(end), "rank": culprit}
            for start, end, culprit in live.hangs
        ],
    }
    if live.hang is not None:
        told["hangs_in_step"] = live.hang.step
    if live.dead_ns is not None:
        told["dead_ns"] = clocks.real(live.dead_ns)
    return told
