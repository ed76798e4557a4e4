"""Traces for speedscope: well nested, in order of time, and every slice there."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope import offline
from stepscope.analyse.linked import link_trace
from stepscope.export import perfetto, speedscope
from stepscope.trace.load import load, load_bytes
from stepscope.views.speedscope import SpeedscopeFile
from tests.cli.conftest import Run
from tests.export.nest import check
from tests.views.perfetto.test_file import BASE_NS, event, trace_file

FAR = "events with times far from all others are left out"
ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "src/stepscope/demo/demo.pt.trace.json.gz"


def exported(*paths: Path) -> dict[str, Any]:
    sink = io.BytesIO()
    speedscope.write(offline.diagnosed(paths), sink)
    file: dict[str, Any] = json.loads(sink.getvalue())
    return file


def test_the_sample_has_a_profile_for_each_thread_and_stream() -> None:
    file = exported(DEMO)
    assert check(file) == len(load(str(DEMO)).spans.ts_ns)
    assert [profile["name"] for profile in file["profiles"]] == [
        "python CPU, thread 4242 (python)",
        "python CPU, thread 4310 (pt_autograd_0)",
        "python GPU 0, stream 7",
    ]
    assert file["profiles"][0]["startValue"] == 0


def test_ranks_keep_their_places_against_each_other(eight_ranks: Path) -> None:
    file = exported(*sorted(eight_ranks.glob("*.gz")))
    check(file)
    assert Counter(profile["name"].partition(":")[0] for profile in file["profiles"]) == {
        f"rank {rank}": 3 for rank in range(8)
    }
    assert len({profile["startValue"] for profile in file["profiles"] if "4242" in profile["name"]}) == 1


@pytest.mark.parametrize(
    "name",
    [
        "holistictraceanalysis/negative_queue_length_values_check/rank0.json.gz",
        "tracelens/mi300/resnet_act_checkpoint.json.gz",
        "kineto/be239c04/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    ],
)
def test_a_real_trace_is_there_slice_by_slice(shared_data: Path, name: str) -> None:
    path = shared_data / "traces" / name
    trace = load(str(path))
    file = exported(path)
    assert check(file) == len(trace.spans.ts_ns)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    opened = Counter(
        names[event["frame"]]
        for profile in file["profiles"]
        for event in profile["events"]
        if event["type"] == "O"
    )
    assert opened == Counter(trace.names[i] for i in trace.spans.name_id.tolist())


EVENTS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(-2, 30), st.integers(0, 2), st.sampled_from(["a", "b"])),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(EVENTS)
def test_any_events_make_a_sound_file(events: list[tuple[int, int, int, str]]) -> None:
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": 1000 + ts, "dur": dur}
        for ts, dur, tid, name in events
    ]
    trace = load_bytes(json.dumps({"traceEvents": rows}).encode(), "x.json")
    linked = link_trace(trace)
    sink = io.BytesIO()
    file = SpeedscopeFile(sink, "x")
    file.add_trace(trace, linked.activities, linked.is_far, "", int(trace.spans.ts_ns.min()))
    file.close()
    assert check(json.loads(sink.getvalue())) == len(events) - int(linked.is_far.sum()) == len(events)


@pytest.mark.parametrize("dur", [-1, 0, 5, None])
@pytest.mark.parametrize("cat", ["cpu_op", "kernel", "user_annotation", "of nobody's kind"])
@pytest.mark.parametrize("ts", [0, -1.7e15, 9e14])
def test_an_event_far_from_all_others_is_left_out_and_said(
    ts: float, cat: str, dur: float | None, tmp_path: Path
) -> None:
    """Whatever its kind and duration: it would stretch the file over years."""
    near = [event(f"op{i}", 7_200_000_000 + i * 10, 5) for i in range(20)]
    path = trace_file(tmp_path / "a.json", [*near, event("far", ts, dur, cat=cat)])
    done = offline.diagnosed(path)
    sink = io.BytesIO()
    said = speedscope.write(done, sink)
    file = json.loads(sink.getvalue())
    (profile,) = file["profiles"]
    assert (profile["startValue"], profile["endValue"], len(profile["events"])) == (0, 195_000, 40)
    assert said == f"1 {FAR}"
    written = perfetto.write(done, io.BytesIO())
    assert (written.slices, written.left_out) == (20, 1)
    assert done.report.inputs[0].start_ns == BASE_NS + 7_200_000_000_000


def test_what_is_left_out_is_said_on_stderr(tmp_path: Path, stepscope: Run) -> None:
    near = [event(f"op{i}", 7_200_000_000 + i * 10, 5) for i in range(20)]
    path = trace_file(tmp_path / "a.json", [*near, event("far", 0, -1), event("short", 7_200_000_005, -1)])
    done = stepscope("export", "speedscope", path, "-o", tmp_path / "out")
    assert (done.code, done.err) == (0, f"stepscope: {tmp_path}/out: 1 {FAR}\n")
    done = stepscope("diagnose", path, "--perfetto", tmp_path / "out.pftrace")
    assert (done.code, done.err) == (0, f"stepscope: {tmp_path}/out.pftrace: 1 {FAR}\n")
    done = stepscope("export", "ops", path, "-o", tmp_path / "ops.json")
    line = "2 events with a zero, negative or far-off time are left out"
    assert (done.code, done.err) == (0, f"stepscope: {tmp_path}/ops.json: {line}\n")
    assert json.loads((tmp_path / "ops.json").read_text())["traces"][0]["left_out"] == 2
