"""Traces on their way to the disk."""

import gzip
import json
import os

import pytest

from stepscope_sdk import profile_write
from stepscope_sdk.capture_job import Job
from stepscope_sdk.profile_folder import Folder, folder_of

BASE_NS = 1_800_000_000_000_000_000


def device_trace(num_kernels, *, has_steps):
    """Two steps of a device: each kernel lasts 5 µs, one every 10 µs, launched 2 µs before it begins."""
    events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}]
    half = num_kernels // 2
    if has_steps:
        for step, start in ((7, 0), (8, half * 10)):
            name = f"ProfilerStep#{step}"
            where = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1}
            events.append(where | {"ts": start, "dur": half * 10})
    for n in range(num_kernels):
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        kernel = {"ph": "X", "cat": "kernel", "name": f"k{n}", "pid": 0, "tid": 7}
        events.append(launch | {"ts": 10 * n, "dur": 1, "args": {"correlation": n}})
        events.append(
            kernel | {"ts": 10 * n + 2, "dur": 5, "args": {"correlation": n, "device": 0, "stream": 7}}
        )
        flow = {"cat": "ac2g", "id": n, "pid": 1, "tid": 1, "name": "ac2g"}
        events.append(flow | {"ph": "s", "ts": 10 * n})
        events.append(flow | {"ph": "f", "ts": 10 * n + 2})
    return {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "traceEvents": events, "traceName": "x.json"}


def written(tmp_path, trace, *, text=None, **options):
    raw, path = tmp_path / "raw.json", tmp_path / "rank0-1-a.json.gz"
    raw.write_text(json.dumps(trace, indent=2) if text is None else text)
    identity = {"rank": 0, "world_size": 2, "job": "j", "run": "", "restart": -1}
    head = profile_write.members(identity, profile_write.about(Job(5, 7, 2, "light", 0)))
    size = profile_write.write(str(raw), str(path), head, **options)
    assert size == path.stat().st_size
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rank0-1-a.json.gz", "raw.json"]
    return gzip.decompress(path.read_bytes())


def test_a_whole_trace_keeps_every_byte_behind_what_was_put_in_front(tmp_path):
    trace = device_trace(10, has_steps=True)
    got = json.loads(written(tmp_path, trace))
    assert got.pop("stepscope") == {
        "capture": 5,
        "first_step": 7,
        "num_steps": 2,
        "mode": "light",
        "job": "j",
    }
    assert got.pop("distributedInfo") == {"rank": 0, "world_size": 2}
    assert got == trace


def test_steps_are_numbered_as_the_run_numbers_them_also_over_the_edges_of_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(profile_write, "_CHUNK", 64)
    text = written(tmp_path, device_trace(10, has_steps=True), shift=1000)
    names = [each["name"] for each in json.loads(text)["traceEvents"] if each["name"].startswith("Prof")]
    assert names == ["ProfilerStep#1007", "ProfilerStep#1008"]


def test_a_light_trace_has_the_last_kernels_their_launches_and_the_steps_they_lie_in(tmp_path):
    got = json.loads(written(tmp_path, device_trace(600, has_steps=True), most=200))
    events = got["traceEvents"]
    kernels = [each["name"] for each in events if each.get("cat") == "kernel"]
    assert kernels == [f"k{n}" for n in range(400, 600)]
    assert sum(each.get("cat") == "cuda_runtime" for each in events) == 200
    assert sum(each["ph"] in "sf" for each in events) == 400
    (step,) = [each for each in events if each["name"].startswith("ProfilerStep")]
    assert (step["name"], step["ts"], step["ts"] + step["dur"]) == ("ProfilerStep#8", 4002.0, 6000.0)
    assert got["stepscope"]["trimmed"] == {"num_left_out": 400, "num_kept": 200, "cut_us": 4002.0}
    assert got["stepscope"]["cut_step"] == 8
    assert (got["baseTimeNanoseconds"], got["traceName"]) == (BASE_NS, "x.json")


def test_a_device_only_trace_gets_the_steps_that_were_clocked_beside_it(tmp_path):
    steps = [(7, BASE_NS, BASE_NS + 500_000), (8, BASE_NS + 500_000, BASE_NS + 1_000_000)]
    got = json.loads(written(tmp_path, device_trace(100, has_steps=False), most=200, steps=steps))
    found = [each for each in got["traceEvents"] if each["name"].startswith("ProfilerStep")]
    assert [(each["name"], each["ts"], each["dur"]) for each in found] == [
        ("ProfilerStep#7", 0.0, 500.0),
        ("ProfilerStep#8", 500.0, 500.0),
    ]
    assert "trimmed" not in got["stepscope"]


def test_what_is_no_json_is_kept_as_it_is(tmp_path):
    text = json.dumps(device_trace(10, has_steps=True))[:-40]
    assert written(tmp_path, None, text=text, most=2).endswith(text[1:].encode())


def test_the_oldest_captures_go_when_the_folder_is_full_and_nothing_else(tmp_path):
    for number in (1, 2, 3):
        folder = tmp_path / f"capture-{number}"
        folder.mkdir()
        (folder / "rank0-1-a.json.gz").write_bytes(b"x" * 100)
        os.utime(folder, (number, number))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "big").write_bytes(b"x" * 10_000)
    Folder(str(tmp_path), 250).make_room(keep=str(tmp_path / "capture-1"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["capture-1", "capture-3", "mine"]


def test_nothing_half_written_stays_where_writing_fails(tmp_path):
    with pytest.raises(OSError):
        profile_write.write(str(tmp_path / "none.json"), str(tmp_path / "a.json.gz"), {})
    assert list(tmp_path.iterdir()) == []


def test_what_the_trace_says_itself_of_its_rank_is_not_said_twice(tmp_path):
    trace = {"distributedInfo": {"rank": 0, "backend": "nccl"}} | device_trace(10, has_steps=True)
    text = written(tmp_path, trace)
    assert text.count(b"distributedInfo") == 1
    assert json.loads(text)["distributedInfo"]["backend"] == "nccl"


def test_where_all_users_write_each_has_a_folder_and_uses_no_other_ones(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    assert folder_of(str(run / "rank0-1-a.ring"), {}) == Folder(str(run / "traces"))
    run.chmod(0o1777)
    shared = folder_of(str(run / "rank0-1-a.ring"), {"STEPSCOPE_TRACE_BYTES": "1000"})
    assert shared == Folder(str(run / f"traces-{os.geteuid()}"), 1000, is_shared=True)
    shared.make(shared.path + "/capture-1")
    assert shared.has_room(1)
    os.rename(shared.path, run / "elsewhere")
    os.symlink(run / "elsewhere", shared.path)
    assert not shared.has_room(1)
    with pytest.raises(PermissionError):
        shared.make(shared.path + "/capture-1")
    assert folder_of("a.ring", {"STEPSCOPE_TRACE_DIR": "/data/traces"}) == Folder("/data/traces")
