"""Jobs that make no steps any more, seen as they stop. Pure: batches and the time come in, alarms go out.

    watch = HangWatch()
    watch.take(batches)                # of any number of agents, each in the order of its numbers
    alarms = watch.tick(now_ns)        # what began and what ended since the last call

Silence is counted on the clock of the host that marks: an agent that says nothing makes nobody silent.
"""

from __future__ import annotations

from stepscope.detect.hang.limit import HangLimits
from stepscope.detect.hang.watch import HangWatch

__all__ = ["HangLimits", "HangWatch"]
