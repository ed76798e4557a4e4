"""`export speedscope`: every thread and stream of a report's traces for the speedscope viewer."""

from __future__ import annotations

from typing import BinaryIO

from stepscope.export.again import traces
from stepscope.offline import Diagnosed
from stepscope.views.speedscope import SpeedscopeFile


def write(done: Diagnosed, sink: BinaryIO) -> None:
    """Write every trace of the report; those on one clock keep their places against each other."""
    inputs = [done.report.inputs[source.place] for source in done.sources]
    starts = [each.start_ns for each in inputs if each.start_ns is not None]
    file = SpeedscopeFile(sink, ", ".join(each.name for each in inputs))
    for each in traces(done):
        is_far = ~each.linked.is_good & (each.trace.spans.dur_ns >= 0)
        good = each.trace.spans.ts_ns[~is_far]
        first = int(good.min()) if len(good) else 0
        # A trace without wall time begins where the others do: nobody knows how they lie.
        origin = first if each.trace.anchor == "none" else min([*starts, first])
        file.add_trace(each.trace, each.linked.activities, is_far, each.owner, origin)
        del each, is_far, good
    file.close()
