"""A trace that is cut anywhere gives exactly the events before the cut, and says so."""

from __future__ import annotations

import gzip
import json

import pytest

from stepscope.model.error import InputError
from stepscope.trace.load import load_bytes
from tests.trace.parsers import CORPUS, PARSERS, codes


def ends_of(text: str) -> tuple[list[int], int]:
    """Offsets where each event ends, and where the array does."""
    at = text.index("[", text.index('"traceEvents"')) + 1 if '"traceEvents"' in text else 1
    decoder = json.JSONDecoder()
    ends = []
    while True:
        while text[at] in " \r\n\t,":
            at += 1
        if text[at] == "]":
            return ends, at + 1
        _, at = decoder.raw_decode(text, at)
        ends.append(at)


def small(layout: str) -> tuple[str, list[str]]:
    """A few events of the corpus in a layout, and their phases."""
    events = json.loads((CORPUS / "layout-array.json").read_text())
    chosen = [event for event in events if event["name" if "name" in event else "ph"] in CHOSEN]
    phases = [event["ph"] for event in chosen]
    if layout == "array":
        return json.dumps(chosen, separators=(",", ":")), phases
    document = {"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": chosen, "traceName": "a]b}"}
    return json.dumps(document, indent=1), phases


CHOSEN = ("void gemm<float>(int)", "inner", "E", "[memory]", "thread_name", "Memcpy HtoD")


@pytest.mark.parametrize("native", PARSERS)
@pytest.mark.parametrize("layout", ["indented", "array"])
def test_a_cut_at_every_byte_keeps_the_events_before_it(layout: str, native: bool) -> None:
    text, phases = small(layout)
    data = text.encode()
    ends, closed = ends_of(text)
    for cut in range(len(data)):
        before = sum(end <= cut for end in ends)
        try:
            trace = load_bytes(data[:cut], "cut.json", native=native)
        except InputError:
            trace = None
        if trace is None:
            # Without one whole event there is nothing to keep.
            assert before == 0, cut
            continue
        # A begin event whose end was cut off is no span, and neither is an end without begin.
        num_alone = abs(phases[:before].count("B") - phases[:before].count("E"))
        assert trace.num_events in (before, before - num_alone), cut
        assert len(trace.spans.index) == phases[:before].count("X") + min(
            phases[:before].count("B"), phases[:before].count("E")
        ), cut
        is_whole = layout == "array" and cut >= closed
        expected = set() if is_whole else {"truncated"}
        assert codes(trace) == expected | ({"malformed_events"} if num_alone else set()), cut


@pytest.mark.parametrize("native", PARSERS)
def test_a_cut_gzip_keeps_the_events_before_the_cut(native: bool) -> None:
    event = '{"ph": "X", "name": "n%d", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'
    text = '{"traceEvents": [' + ", ".join(event % (i * 7919 % 1000, i) for i in range(5000)) + "]}"
    packed = gzip.compress(text.encode())
    trace = load_bytes(packed[: len(packed) // 2], "cut.json.gz", native=native)
    assert "truncated" in codes(trace)
    assert 1000 < trace.num_events < 4000
    assert trace.spans.index.tolist() == list(range(trace.num_events))


@pytest.mark.parametrize("native", PARSERS)
def test_a_gzip_with_a_wrong_checksum_keeps_every_event_and_says_so(native: bool) -> None:
    packed = bytearray(gzip.compress((CORPUS / "layout-compact.json").read_bytes()))
    packed[-8] ^= 0xFF
    trace = load_bytes(bytes(packed), "crc.json.gz", native=native)
    assert trace.num_events == 22
    assert "truncated" in codes(trace)
