"""`--perfetto`: the traces of a report and its findings in one file for the Perfetto viewer.

Several ranks lie on one clock, as far as the report could align theirs; a rank that it could not keeps its
own times, and its tracks say so.
"""

from __future__ import annotations

from typing import BinaryIO

from stepscope.export.again import traces
from stepscope.model.text import Lang
from stepscope.offline import Diagnosed
from stepscope.views.label import joined
from stepscope.views.perfetto import PerfettoFile, Written
from stepscope.views.perfetto.clock import clock_note, clocks_of, moved_idle, moved_report, moved_trace


def write(done: Diagnosed, sink: BinaryIO, lang: Lang = "en") -> Written:
    """Write every trace of the report, then what the report says of them; `lang` is the report's."""
    file = PerfettoFile(sink)
    owners: list[str | None] = [None] * len(done.report.inputs)
    extents: list[tuple[int, int] | None] = [None] * len(done.report.inputs)
    clocks = clocks_of(done.report)
    for each in traces(done, with_analysis=True):
        rank = done.report.inputs[each.place].rank
        owner = joined((each.owner, clock_note(done.report.clocks, rank, lang)), lang)
        owners[each.place] = owner
        idle = [device.idle for analysis in each.analyses for device in analysis.devices if device.idle]
        clock = None if rank is None else clocks.get(rank)
        trace = each.trace
        if clock is not None:
            trace, idle = moved_trace(trace, clock), moved_idle(idle, clock)
        extents[each.place] = file.add_trace(trace, each.linked.activities, each.linked.is_far, owner)
        file.add_idle(idle, owner, lang)
        del each, trace, idle  # before the next one is read: the columns of two are twice the memory
    file.add_report(moved_report(done.report, clocks), owners, extents, lang)
    return file.written
