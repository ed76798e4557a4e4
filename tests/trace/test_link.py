"""Device and stream of device rows, from their own arguments or from their track's labels."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stepscope.trace.category import span_kinds
from stepscope.trace.link import link
from stepscope.trace.load import load_bytes


def streams(*tids: int | str) -> list[int]:
    """The stream of one kernel on each of these tracks, in their order."""
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": tid, "ts": i, "dur": 1}
        for i, tid in enumerate(tids)
    ]
    trace = load_bytes(json.dumps({"traceEvents": events}).encode(), "t.json")
    nowhere = np.full(len(trace.tracks), -1, dtype=np.int32)
    activities = link(trace, span_kinds(trace), nowhere, np.zeros(len(events), dtype=bool))
    return [int(stream) for stream in activities.stream]


def test_a_label_that_ends_in_a_number_is_that_stream() -> None:
    assert streams(7, "stream 20", "20") == [7, 20, 20]


@pytest.mark.parametrize("labels", [("ab", "ba"), ("compute", "copy", "compute"), ("stream ²", "stream x")])
def test_other_labels_are_streams_of_their_own(labels: tuple[str, ...]) -> None:
    found = streams(*labels, 0, 1)
    assert [labels.index(label) for label in labels] == [found.index(stream) for stream in found[:-2]]
    assert max(found[:-2]) < -1
