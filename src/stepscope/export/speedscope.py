"""`export speedscope`: every thread and stream of a report's traces for the speedscope viewer."""

from __future__ import annotations

from typing import BinaryIO

from stepscope.export.again import far_line, traces
from stepscope.offline import Diagnosed
from stepscope.views.speedscope import SpeedscopeFile


def write(done: Diagnosed, sink: BinaryIO) -> str | None:
    """Write every trace of the report; those on one clock keep their places against each other. What was
    left out is said."""
    inputs = [done.report.inputs[source.place] for source in done.sources]
    starts = [each.start_ns for each in inputs if each.start_ns is not None]
    file = SpeedscopeFile(sink, ", ".join(each.name for each in inputs))
    for each in traces(done):
        near = each.trace.spans.ts_ns[~each.linked.is_far]
        first = int(near.min()) if len(near) else 0
        # A trace without wall time begins where the others do: nobody knows how they lie.
        origin = first if each.trace.anchor == "none" else min([*starts, first])
        file.add_trace(each.trace, each.linked.activities, each.linked.is_far, each.owner, origin)
        del each, near
    file.close()
    return far_line(file.left_out)
