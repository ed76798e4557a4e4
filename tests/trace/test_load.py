"""Loading as a whole: layouts, compression, damage, refusals, and which files a path means."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.model.error import InputError, UsageError
from stepscope.model.trace import Trace
from stepscope.trace.discover import discover, rank_of
from stepscope.trace.limits import Limits
from stepscope.trace.load import load, load_bytes, native_available

BASE = 1_751_410_836_000_000_000
HEAD = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}}


def event(i: int, pid: int = 7, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "cpu_op", "name": f"aten::op{i}", "pid": pid, "tid": pid, "ts": 100 + i, "dur": 0.5,
        "args": {"External id": i}, **more,
    }  # fmt: skip


def document(events: list[Any], *, base: int | None = BASE, indent: int | None = None, **more: Any) -> bytes:
    tail = {"baseTimeNanoseconds": base} if base is not None else {}
    text = {**HEAD, **more, "traceEvents": events, "traceName": "t.json", **tail}
    return json.dumps(text, indent=indent).encode()


EVENTS = [event(i) for i in range(10)]
PARSERS = [
    pytest.param(
        True, id="native", marks=pytest.mark.skipif(not native_available(), reason="no native parser built")
    ),
    pytest.param(False, id="fallback"),
]


def codes(trace: Trace) -> list[str]:
    return [loss.code for loss in trace.losses]


@pytest.fixture(params=PARSERS)
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(document(EVENTS), id="compact"),
        pytest.param(document(EVENTS, indent=2), id="indented"),
        pytest.param(document(EVENTS, indent=1).replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(b"\xef\xbb\xbf" + document(EVENTS), id="BOM"),
        pytest.param(gzip.compress(document(EVENTS)), id="gzip"),
        pytest.param(
            gzip.compress(document(EVENTS)[:90]) + gzip.compress(document(EVENTS)[90:]), id="two gzip members"
        ),
        pytest.param(gzip.compress(document(EVENTS)) + b"\0" * 512, id="padded gzip"),
    ],
)
def test_every_layout_gives_the_same_table(data: bytes, native: bool) -> None:
    trace = load_bytes(data, "t", native=native)
    assert trace.losses == ()
    assert trace.anchor == "base"
    assert trace.spans.ts_ns.tolist() == [BASE + (100 + i) * 1000 for i in range(10)]
    assert set(trace.spans.dur_ns.tolist()) == {500}
    assert [trace.names[n] for n in trace.spans.name_id] == [e["name"] for e in EVENTS]
    assert trace.ops.external_id.tolist() == list(range(10))
    assert trace.metadata["traceName"] == "t.json"
    assert rank_of(trace) == (3, 8, None)


def test_a_bare_array_has_no_base(native: bool) -> None:
    trace = load_bytes(json.dumps(EVENTS).encode(), "t", native=native)
    assert len(trace.spans.ts_ns) == 10
    assert trace.anchor == "none"
    assert codes(trace) == ["no_anchor"]
    epoch = [event(i, ts=1_700_000_000_000_000 + i) for i in range(3)]
    assert load_bytes(json.dumps(epoch).encode(), "t", native=native).anchor == "epoch"


def test_the_unit_to_display_changes_no_time(native: bool) -> None:
    plain, ns = document(EVENTS), document(EVENTS, displayTimeUnit="ns")
    assert np.array_equal(
        load_bytes(plain, "t", native=native).spans.ts_ns, load_bytes(ns, "t", native=native).spans.ts_ns
    )


def test_begin_and_end_events_are_spans_in_file_order(native: bool) -> None:
    events = [
        {"ph": "B", "name": "outer", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1},
        event(1, pid=1),
        {"ph": "E", "pid": 1, "tid": 1, "ts": 200},
        {"ph": "B", "name": "alone", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 300},
    ]
    trace = load_bytes(document(events), "t", native=native)
    assert [trace.names[n] for n in trace.spans.name_id] == ["outer", "aten::op1"]
    assert trace.spans.dur_ns.tolist() == [199_000, 500]
    assert trace.ops.row.tolist() == [1]
    assert "1 begin or end events lack their other half" in trace.losses[0].detail


def test_a_cut_is_told_with_its_byte_and_keeps_what_came_before(native: bool) -> None:
    data = document(EVENTS, indent=1)
    at = data.index(b"aten::op6")
    trace = load_bytes(data[:at], "t", native=native)
    assert len(trace.spans.ts_ns) == 6
    loss = next(loss for loss in trace.losses if loss.code == "truncated")
    assert data[loss.first_byte :].lstrip(b" \n,").startswith(b"{")
    assert b"aten::op5" in data[: loss.first_byte]
    assert loss.bytes == at - loss.first_byte


def test_a_cut_behind_the_events_loses_none_but_is_told(native: bool) -> None:
    data = document(EVENTS)
    for end in (data.index(b'], "traceName"') + 1, data.index(b"baseTime") + 4):
        trace = load_bytes(data[:end], "t", native=native)
        assert len(trace.spans.ts_ns) == 10
        assert "truncated" in codes(trace)


def test_a_cut_gzip_stream_gives_the_events_before(native: bool) -> None:
    many = document([event(i) for i in range(5000)])
    packed = gzip.compress(many)
    trace = load_bytes(packed[: len(packed) // 2], "t.gz", native=native)
    assert 100 < len(trace.spans.ts_ns) < 5000
    assert "gzip stream ends too early" in trace.losses[0].detail


def test_a_wrong_checksum_is_told(native: bool) -> None:
    packed = bytearray(gzip.compress(document(EVENTS)))
    packed[-6] ^= 0xFF
    trace = load_bytes(bytes(packed), "t.gz", native=native)
    assert len(trace.spans.ts_ns) == 10
    assert codes(trace) == ["truncated"]


@pytest.mark.parametrize("share", [0.3, 0.4, 0.55, 0.7])
def test_of_two_ranks_in_one_file_the_first_is_kept(share: float, native: bool) -> None:
    first, second = document(EVENTS), document([event(i, pid=9) for i in range(10)])
    cut = int(len(first) * share)
    trace = load_bytes(first[:cut] + second, "t", native=native)
    assert {track.pid for track in trace.tracks} == {7}
    loss = next(loss for loss in trace.losses if loss.code == "mixed_writers")
    assert loss.first_byte == cut
    assert "put the rank in the file name" in loss.detail


def test_two_ranks_that_meet_between_events_are_recognised(native: bool) -> None:
    first, second = document(EVENTS), document([event(i, pid=9) for i in range(10)])
    cut = first.index(b'{"ph"', first.index(b"aten::op5")) - 1
    trace = load_bytes(first[:cut] + second, "t", native=native)
    assert len(trace.spans.ts_ns) == 6
    assert "mixed_writers" in codes(trace)


def test_a_second_document_behind_the_first_is_left_out(native: bool) -> None:
    trace = load_bytes(document(EVENTS) + document(EVENTS), "t", native=native)
    assert len(trace.spans.ts_ns) == 10
    assert codes(trace) == ["mixed_writers"]
    assert trace.anchor == "base"


def test_broken_metadata_costs_only_its_own_member(native: bool) -> None:
    data = document(EVENTS).replace(
        b'"traceName": "t.json"', b'"INFO": ["a "quoted" word"], "traceName": "t.json"'
    )
    trace = load_bytes(data, "t", native=native)
    assert len(trace.spans.ts_ns) == 10
    assert trace.anchor == "base"
    assert trace.metadata["traceName"] == "t.json"
    assert codes(trace) == ["malformed_events"]


def test_a_string_that_looks_like_json_stays_a_string(native: bool) -> None:
    odd = event(0, args={"External id": 1, "Call stack": '[a b]; "c"', "Input Dims": [[1, 2], []]})
    trace = load_bytes(document([odd]), "t", native=native)
    assert trace.texts[trace.ops.stack_id[0]] == '[a b]; "c"'
    assert trace.texts[trace.ops.dims_id[0]] == "[[1,2],[]]"


def test_pids_are_numbers_labels_or_too_large_for_numbers(native: bool) -> None:
    pids = [25738, "25738", "Traces", "1_0", " 7 ", -5, 10**20]
    trace = load_bytes(document([event(i, pid=p) for i, p in enumerate(pids)]), "t", native=native)
    assert [trace.tracks[t].pid for t in trace.spans.track_id] == [
        25738,
        25738,
        "Traces",
        "1_0",
        " 7 ",
        -5,
        str(10**20),
    ]


def test_a_time_beyond_any_clock_is_left_out(native: bool) -> None:
    for ts in ("9223372036854775808", "9.0e15", "1e400", "NaN"):
        text = document([event(0), event(1, ts=-77)]).replace(b"-77", ts.encode())
        trace = load_bytes(text, "t", native=native)
        assert len(trace.spans.ts_ns) == 1, ts
        assert codes(trace) == ["bad_timestamp"]


def test_ids_in_hexadecimal_are_ids(native: bool) -> None:
    trace = load_bytes(document([event(0, args={"stream": "0x1F", "device": 2})]), "t", native=native)
    assert trace.gpu.stream.tolist() == [31]


REFUSED = [
    (b"", "the file is empty"),
    (b"  \n", "the file is empty"),
    (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "is a PNG image"),
    (b"<!DOCTYPE html><html></html>", "is HTML"),
    (b"\x80\x05\x95", "is a pickle"),
    (b'{"a": 1, "b": 2}', r"has no key traceEvents \(its keys: a, b\)"),
    (b'{"rocprofiler-sdk-tool": []}', "rocprofv3"),
    (b"not json", "is no JSON"),
    (b"[1, 2, 3]", "holds no trace event"),
    (b'[{"a": 1}]', "holds no trace event"),
    (b'{"traceEvents": [', "breaks off before the first event"),
    (b'{"traceEvents": null, "x": 1}', "has no key traceEvents"),
]


@pytest.mark.parametrize(("data", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_no_trace_is_refused_in_one_line(data: bytes, said: str, native: bool) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load_bytes(data, "odd.json", native=native)
    assert str(caught.value).startswith("odd.json")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_no_events_at_all_is_an_empty_trace(native: bool) -> None:
    assert len(load_bytes(document([]), "t", native=native).spans.ts_ns) == 0


def test_a_decompression_bomb_is_refused() -> None:
    limits = Limits(ratio_from=1 << 20, max_ratio=100.0)
    bomb = gzip.compress(b'{"traceEvents": [' + b" " * (64 << 20))
    with pytest.raises(InputError, match="more than 100 to 1"):
        load_bytes(bomb, "bomb.gz", limits=limits)


def test_an_endless_event_is_given_up_and_what_follows_is_kept(native: bool) -> None:
    limits = Limits(max_event=1 << 16, max_string=1 << 14, chunk=1 << 12)
    torn = json.dumps(event(1))[:-1].encode() + b', "x": "' + b"y" * (1 << 17)
    data = (
        document([event(0)])[:-1].replace(
            b'], "traceName"',
            b", " + torn + b'", "z": 1}, ' + json.dumps(event(2)).encode() + b'], "traceName"',
        )
        + b"}"
    )
    trace = load_bytes(data, "t", native=native, limits=limits)
    assert [trace.names[n] for n in trace.spans.name_id] == ["aten::op0", "aten::op2"]
    assert "malformed_events" in codes(trace)


def test_small_chunks_change_nothing(native: bool) -> None:
    data = document([event(i) for i in range(200)], indent=2)
    whole = load_bytes(data, "t", native=native)
    for chunk in (7, 64, 333):
        parts = load_bytes(data, "t", native=native, limits=Limits(chunk=chunk))
        assert np.array_equal(parts.spans.ts_ns, whole.spans.ts_ns)
        assert parts.names == whole.names
        assert parts.metadata == whole.metadata


def test_size_and_digest_are_those_of_the_file(tmp_path: Path) -> None:
    import hashlib

    data = gzip.compress(document(EVENTS))
    path = tmp_path / "t.json.gz"
    path.write_bytes(data)
    seen: list[tuple[int, int]] = []
    trace = load(str(path), digest=True, progress=lambda done, size: seen.append((done, size)))
    assert trace.num_bytes == len(data)
    assert trace.sha256 == hashlib.sha256(data).hexdigest()
    assert seen[-1] == (len(data), len(data))


def test_paths_mean_files_directories_patterns_and_archives(tmp_path: Path) -> None:
    for name in ("b/rank1.json", "a/rank0.json.gz", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(document(EVENTS))
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("x/rank2.json")
        info.size = len(document(EVENTS))
        tar.addfile(info, io.BytesIO(document(EVENTS)))
    inside = [str(tmp_path / "a/rank0.json.gz"), str(tmp_path / "b/rank1.json")]
    assert discover([str(tmp_path)]) == inside
    assert discover([str(tmp_path / "*/rank*")]) == inside
    assert discover([inside[1], inside[1]]) == [inside[1]]
    member = discover([str(tmp_path / "all.tar.gz")])
    assert member == [str(tmp_path / "all.tar.gz") + "::x/rank2.json"]
    assert len(load(member[0]).spans.ts_ns) == 10
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no trace"):
        discover([str(tmp_path / "empty")])
    with pytest.raises(InputError, match="no file matches"):
        discover([str(tmp_path / "*.nothing")])
    with pytest.raises(InputError, match="no such file"):
        load(str(tmp_path / "missing.json"))
    if os.geteuid() != 0:
        (tmp_path / "b/rank1.json").chmod(0)
        with pytest.raises(InputError, match="no permission"):
            load(inside[1])


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank7.json", 7),
        ("rank-70.Mar_25.pt.trace.json.gz", 70),
        ("worker3.1623143089861.pt.trace.json.gz", 3),
        ("trace_5.json", 5),
        ("node_4242.1694128201556.pt.trace.json", None),
        ("trace.json", None),
    ],
)
def test_the_rank_is_read_from_the_name_where_the_trace_says_none(name: str, rank: int | None) -> None:
    data = json.dumps({"traceEvents": EVENTS}).encode()
    assert rank_of(load_bytes(data, f"/some/folder_9.d/{name}"))[0] == rank


def test_a_name_that_disagrees_with_the_trace_is_a_conflict() -> None:
    rank, world_size, conflict = rank_of(load_bytes(document(EVENTS), "rank5.json"))
    assert (rank, world_size) == (3, 8)
    assert conflict == "distributedInfo says rank 3, the file name says 5"


def test_remote_paths_name_the_extra_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    import stepscope.trace.discover as module

    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"stepscope\[remote\]"):
        load("s3://bucket/rank0.json")


def test_limits_are_positive() -> None:
    with pytest.raises(UsageError, match="max_string"):
        Limits(max_string=0)
