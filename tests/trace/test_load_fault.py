"""Inputs that broke other tools, by the number they have in the project's list; and our own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.model.error import InputError
from stepscope.model.trace import ABSENT_I64, Loss, Trace
from stepscope.trace.load import load_bytes
from tests.trace.parsers import CORPUS, PARSERS, codes, names

BASE = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Fault:
    """What a file of the corpus must give: span names, and health codes."""

    file: str
    names: tuple[str, ...]
    codes: tuple[str, ...] = ()


MENDED, LOST = ("malformed_events",), ("malformed_events",)
FAULTS = {
    "T01": Fault("T01-backslash", ("ok", "C:\\users\\qtemp", "after"), MENDED),
    "T02": Fault("T02-windows-path", ("ok", "D:\\work\\x.py(3): f", "after"), MENDED),
    "T03": Fault("T03-quote-in-name", ("ok", "after"), LOST),
    "T04": Fault("T04-broken-metadata", ("ok", "x", "after"), MENDED),
    "T05": Fault("T05-raw-newline", ("ok", "two\ufffdlines", "after"), MENDED),
    "T06": Fault("T06-control", ("ok", "re\ufffdlu", "after"), MENDED),
    "T08": Fault("T08-invalid-utf8", ("ok", "n\ufffd\ufffdname", "after"), MENDED),
    "T11": Fault("T11-text-ts", ("ok", "ok", "after")),
    "T11-nan": Fault("T11-nan-counter", ("ok", "after")),
    "T12": Fault("T12-na-token", ("ok", "ok", "after"), MENDED),
    "T12-comma": Fault("T12-stray-comma", ("ok", "ok", "after"), MENDED),
    "T22": Fault("T22-zero-dur", ("ok", "ok", "after")),
    "T23": Fault("T22-zero-dur", ("ok", "ok", "after")),
    "T29": Fault("T29-bracket-in-trace-name", ("ok", "x", "after")),
    "T30": Fault("T30-cut-in-string", ("ok", "x"), ("truncated",)),
    "T31": Fault("T31-no-closing", ("ok", "x", "after"), ("truncated",)),
    "T36": Fault("T36-negative-dur", ("ok", "ok", "after")),
    "T37": Fault("T37-zero-ts", ("ok", "ok", "after")),
    "T41": Fault("T41-device-properties", ("ok", "x", "after")),
    "T42": Fault("T42-args-array", ("ok", "ok", "after")),
    "name-with-brackets": Fault("bracket-in-name", ("ok", "a ] } [ {", "after")),
    "too-deep": Fault("deep", ("ok", "after"), LOST),
    "last-event-broken": Fault("last-event-broken", ("ok", "after"), LOST),
    "no-phase": Fault("no-phase", ("ok", "after"), LOST),
    "not-an-object": Fault("not-an-object", ("ok", "after"), LOST),
    "unclosed-array": Fault("unclosed-array", ("ok", "after"), LOST),
    "no-duration": Fault("no-dur", ("ok", "a", "after"), MENDED),
    "ts-beyond-64-bits": Fault("bad-ts", ("ok", "after"), ("bad_timestamp",)),
    "ts-infinite": Fault("inf-ts", ("ok", "after"), ("bad_timestamp",)),
    "no-ts": Fault("no-ts", ("ok", "after"), ("bad_timestamp",)),
    "duplicate-keys": Fault("duplicate-keys", ("ok", "last", "after")),
    "exponent": Fault("exponent", ("ok", "ok", "after")),
    "below-a-nanosecond": Fault("sub-ns", ("ok", "ok", "after")),
}
# Entries that are not the loader's: what the analysis makes of sound events, and one of size.
ELSEWHERE = "T15 T16 T17 T20 T21 T25 T26 T27 T40 T44".split()
OWN_TEST = "T09 T13 T33".split()


def read(file: str, native: bool) -> Trace:
    return load_bytes((CORPUS / f"{file}.json").read_bytes(), f"{file}.json", native=native)


def loss_of(trace: Trace, code: str) -> Loss:
    (loss,) = (loss for loss in trace.losses if loss.code == code)
    return loss


@pytest.mark.parametrize("native", PARSERS)
@pytest.mark.parametrize("id", FAULTS)
def test_what_can_be_kept_is_kept_and_the_rest_is_counted(id: str, native: bool) -> None:
    fault = FAULTS[id]
    trace = read(fault.file, native)
    assert names(trace) == list(fault.names)
    assert codes(trace) == set(fault.codes)
    assert all(loss.count > 0 for loss in trace.losses if loss.code in fault.codes)


def test_every_entry_of_the_list_has_a_test(shared_data: Path) -> None:
    listed = {entry["id"] for entry in json.loads((shared_data / "input-faults.json").read_text())}
    assert listed == {id for id in FAULTS if id[1:].isdigit()} | set(ELSEWHERE) | set(OWN_TEST)


@pytest.mark.parametrize("native", PARSERS)
def test_T09_a_name_of_garbage_bytes_keeps_its_event(native: bool) -> None:
    trace = read("T09-garbage-name", native)
    assert len(trace.spans.ts_ns) == 3
    assert "\ufffd" in names(trace)[1]


@pytest.mark.parametrize("native", PARSERS)
def test_T13_a_number_beyond_64_bits_is_absent_and_its_event_kept(native: bool) -> None:
    trace = read("T13-big-int", native)
    assert names(trace) == ["ok", "ok", "after"]
    assert 1 not in trace.correlations.row.tolist()


@pytest.mark.parametrize("native", PARSERS)
def test_T15_the_missing_key_is_named_with_those_there_are(native: bool) -> None:
    with pytest.raises(InputError, match=r"traceEvents.*its keys: a, b"):
        load_bytes(b'{"a": 1, "b": []}', "x.json", native=native)


@pytest.mark.parametrize("native", PARSERS)
def test_T33_a_negative_thread_is_a_thread(native: bool) -> None:
    trace = read("T33-negative-tid", native)
    assert -1234567 in [track.tid for track in trace.tracks]


@pytest.mark.parametrize("native", PARSERS)
def test_times_are_exact_beyond_what_a_double_holds(native: bool) -> None:
    assert read("exponent", native).spans.ts_ns[1] == BASE + 1_500_000
    assert read("sub-ns", native).spans.ts_ns[1] == BASE + 7_001
    assert read("duplicate-keys", native).spans.ts_ns[1] == BASE + 3_000
    assert read("T11-text-ts", native).spans.ts_ns[1] == BASE + 12_500


@pytest.mark.parametrize("native", PARSERS)
@pytest.mark.parametrize("file", ["mixed-writers", "mixed-at-boundary", "mixed-in-args"])
def test_two_ranks_in_one_file_keep_the_first_up_to_the_byte(file: str, native: bool) -> None:
    data = (CORPUS / f"{file}.json").read_bytes()
    second = data.index(b'{\n  "schemaVersion"', 10)
    trace = load_bytes(data, f"{file}.json", native=native)
    loss = loss_of(trace, "mixed_writers")
    assert loss.first_byte == second
    assert str(second) in loss.detail
    assert "put the rank in the file name" in loss.detail
    assert trace.metadata["distributedInfo"]["rank"] == 3
    whole = load_bytes((CORPUS / "layout-native.json").read_bytes(), "x", native=native)
    n = len(trace.spans.ts_ns)
    assert np.array_equal(trace.spans.ts_ns, whole.spans.ts_ns[:n])
    assert trace.num_events < whole.num_events


@pytest.mark.parametrize("native", PARSERS)
def test_begin_and_end_are_joined_by_track_in_file_order(native: bool) -> None:
    trace = read("layout-compact", native)
    spans = {name: i for i, name in enumerate(names(trace))}
    outer, inner = spans["outer"], spans["inner"]
    assert (trace.spans.dur_ns[outer], trace.spans.dur_ns[inner]) == (5_500, 1_000)
    assert trace.spans.index.tolist() == sorted(trace.spans.index.tolist())


@pytest.mark.parametrize("native", PARSERS)
def test_an_absent_argument_is_absent(native: bool) -> None:
    trace = read("layout-compact", native)
    row = trace.python.row.tolist().index(names(trace).index("torch/nn.py(3): forward"))
    assert trace.python.parent_id[row] == ABSENT_I64
    assert "" not in [track.process_name for track in trace.tracks]


@pytest.mark.parametrize("native", PARSERS)
@pytest.mark.parametrize("value", [None, {}, 3, "x", []])
def test_a_file_without_any_event_is_refused_or_empty(value: Any, native: bool) -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": value}).encode()
    if value == []:
        assert load_bytes(data, "x", native=native).num_events == 0
    else:
        with pytest.raises(InputError):
            load_bytes(data, "x", native=native)
