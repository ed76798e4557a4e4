"""`export ops`: the summary by op and kernel of every trace of a report."""

from __future__ import annotations

import gzip
from typing import BinaryIO

import msgspec

from stepscope.analyse.summary import summary_of
from stepscope.export.again import traces
from stepscope.model.summary import OpSummary, TraceSummary
from stepscope.offline import Diagnosed
from stepscope.version import VERSION

SHARE = 10
"""Of its trace's size, both compressed, a summary takes at most one in so many."""
LEAST_BYTES = 10_000
"""What a summary may take of a trace that is hardly larger itself."""
_TEXT_RATIO = 20
"""By how much profilers' JSON shrinks under gzip (10 to 35 times in real traces), for one that was not."""
_COMPRESSED = (".gz", ".zst")


def summary(done: Diagnosed) -> OpSummary:
    """Every trace of the report, summed."""
    found: list[TraceSummary] = []
    for each in traces(done, with_analysis=True):
        given = done.report.inputs[each.place]
        steps = [step for analysis in each.analyses for step in analysis.steps]
        if done.steps is not None:
            steps = [step for step in steps if done.steps[0] <= step.step <= done.steps[1]]
        size = each.trace.num_bytes // (1 if given.name.endswith(_COMPRESSED) else _TEXT_RATIO)
        most = None
        while True:
            made = summary_of(each.trace, each.linked, steps, given.name, given.rank, most)
            if len(compressed(msgspec.json.encode(made))) <= max(size // SHARE, LEAST_BYTES) or most == 1:
                break
            most = max(1, max(len(made.ops.name), len(made.kernels.name)) * 3 // 4)
        found.append(made)
        del each
    return OpSummary(version=VERSION, traces=tuple(found))


def write(done: Diagnosed, sink: BinaryIO) -> str | None:
    """Write it as JSON. What was left out is said."""
    made = summary(done)
    sink.write(msgspec.json.encode(made) + b"\n")
    count = sum(each.left_out or 0 for each in made.traces)
    return f"{count:,} events with a zero, negative or far-off time are left out" if count else None


def compressed(data: bytes) -> bytes:
    """As it is kept: the same bytes for the same summary."""
    return gzip.compress(data, 9, mtime=0)
