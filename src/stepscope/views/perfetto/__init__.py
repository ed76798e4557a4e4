"""Traces and what was found in them as one Perfetto trace (protobuf), for the Perfetto viewer.

    file = PerfettoFile(sink)
    for each input: file.add_trace(trace, …)      its events, as recorded
    file.add_report(report, …)                    steps, findings and cards on tracks of our own

Packets are written as they are made: memory holds one trace's columns and one batch of packets. What is
left out is counted (`Written`) and never silent.
"""

from stepscope.views.perfetto.file import PerfettoFile, Written

__all__ = ["PerfettoFile", "Written"]
