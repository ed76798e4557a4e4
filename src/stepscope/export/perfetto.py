"""`--perfetto`: the traces of a report and its findings in one file for the Perfetto viewer."""

from __future__ import annotations

from typing import BinaryIO

from stepscope.export.again import traces
from stepscope.model.text import Lang
from stepscope.offline import Diagnosed
from stepscope.views.perfetto import PerfettoFile, Written


def write(done: Diagnosed, sink: BinaryIO, lang: Lang = "en") -> Written:
    """Write every trace of the report, then what the report says of them; `lang` is the report's."""
    file = PerfettoFile(sink)
    owners: list[str | None] = [None] * len(done.report.inputs)
    extents: list[tuple[int, int] | None] = [None] * len(done.report.inputs)
    for each in traces(done, with_analysis=True):
        owners[each.place] = each.owner
        extents[each.place] = file.add_trace(
            each.trace, each.linked.activities, each.linked.is_far, each.owner
        )
        idle = [device.idle for analysis in each.analyses for device in analysis.devices if device.idle]
        file.add_idle(idle, each.owner, lang)
        del each, idle  # before the next one is read: the columns of two are twice the memory
    file.add_report(done.report, owners, extents, lang)
    return file.written
