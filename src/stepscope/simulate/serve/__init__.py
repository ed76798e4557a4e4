"""A simulated job that goes on for hours, and what could be seen of it while it does.

    live       steps of all ranks, played when their time has come, then forgotten; faults that come and go
    window     a stretch of it as the counters' timeline
    exporter   a node's device and host counters, as text
    ring, mark, capture   what a monitor in each rank would leave, and its answers to a control file
    log        files that grow
    http       the only socket; `service` wires all of it, `turn` turns its time

Times are true nanoseconds (`config.START_NS` and on) until they are written: `clock` says what is shown.
"""

from __future__ import annotations

from stepscope.simulate.serve.clock import Clocks, Pace
from stepscope.simulate.serve.http import Server
from stepscope.simulate.serve.service import Service
from stepscope.simulate.serve.turn import Turn

__all__ = ["Clocks", "Pace", "Server", "Service", "Turn"]
