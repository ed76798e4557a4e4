"""Odd traces in a Perfetto file: overlaps, bad times, several ranks, names of people and secrets."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from stepscope import offline
from stepscope.export import perfetto
from tests.cli.conftest import Run
from tests.views.perfetto.engine import Engine
from tests.views.perfetto.test_written import DEMO, check, complaints, written

BASE_NS = 1_780_000_000_000_000_000


def event(
    name: str, ts: float, dur: float | None, tid: int | str = 1, pid: int | str = 10, **more: Any
) -> dict:
    found = {"ph": "X", "name": name, "cat": "cpu_op", "pid": pid, "tid": tid, "ts": ts, **more}
    return found if dur is None else {**found, "dur": dur}


def trace_file(path: Path, events: list[dict], **metadata: Any) -> Path:
    whole = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, **metadata, "traceEvents": events}
    path.write_text(json.dumps(whole))
    return path


def kernel(name: str, ts: float, dur: float, correlation: int, device: int = 0) -> list[dict]:
    """A launch and its kernel."""
    args = {"correlation": correlation, "device": device, "stream": 7}
    return [
        event("cudaLaunchKernel", ts - 5, 2, cat="cuda_runtime", args={"correlation": correlation}),
        event(name, ts, dur, tid=7, pid=device, cat="kernel", args=args),
    ]


def test_overlaps_without_nesting_are_all_kept(tmp_path: Path) -> None:
    stairs = [event(f"op{i}", 1000 + i * 10, 25) for i in range(200)]
    check([trace_file(tmp_path / "a.json", stairs + kernel("k", 3000, 5, 1))], tmp_path / "out")


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    path = trace_file(tmp_path / "a.json", [event("op", 123456789.123, 0.001), event("op", 5.001, 7.999)])
    written([path], tmp_path / "out")
    with Engine(tmp_path / "out") as engine:
        assert engine.query("select ts, dur from slice where category = 'cpu_op' order by ts") == [
            (BASE_NS + 5_001, 7_999),
            (BASE_NS + 123_456_789_123, 1),
        ]


def test_a_negative_duration_is_a_slice_without_length_that_says_what_was_written(tmp_path: Path) -> None:
    path = trace_file(tmp_path / "a.json", [event("bad", 20, -3), event("good", 10, 40)])
    _, counts = written([path], tmp_path / "out")
    assert (counts.slices, counts.shortened, counts.left_out) == (2, 1, 0)
    with Engine(tmp_path / "out") as engine:
        assert engine.query(
            "select name, dur, display_value from slice join args using (arg_set_id) "
            "where key = 'debug.duration as written, ns'"
        ) == [("bad", 0, "-3000")]
        assert complaints(engine) == []


def test_times_that_the_health_report_calls_bad_are_left_out_and_counted(
    tmp_path: Path, stepscope: Run
) -> None:
    events = [event(f"op{i}", 7_200_000_000 + i * 10, 5) for i in range(20)]
    path = trace_file(tmp_path / "a.json", [*events, event("zero", 0, 5)])
    done = stepscope("diagnose", path, "--perfetto", tmp_path / "out")
    assert "1 events with times far from all others are left out" in done.err
    with Engine(tmp_path / "out") as engine:
        assert engine.query("select count(*) from slice where category = 'cpu_op'") == [(20,)]


def test_every_rank_has_its_own_processes_and_tracks(eight_ranks: Path, tmp_path: Path) -> None:
    done, counts = written(sorted(eight_ranks.glob("*.gz")), tmp_path / "out")
    assert len(done.sources) == 8
    with Engine(tmp_path / "out") as engine:
        names = [name for (name,) in engine.query("select name from process where name is not null")]
        per_rank = engine.query(
            "select count(*) from slice join thread_track on slice.track_id = thread_track.id "
            "join thread using (utid) where category = 'kernel' group by upid"
        )
        steps = engine.query(
            "select t.name, count(*) from slice s join track t on t.id = s.track_id "
            "where s.category = 'stepscope.step' group by 1"
        )
        assert complaints(engine) == []
        assert engine.query("select count(*) from flow") == [(counts.flows,)]
    assert sorted(names) == sorted(
        f"rank {rank}: python {part}" for rank in range(8) for part in ("CPU", "GPU 0")
    )
    assert per_rank == [(684,)] * 8
    assert steps == [(f"rank {rank}: steps", 6) for rank in range(8)]


def test_a_chosen_rank_is_alone_in_the_file(eight_ranks: Path, tmp_path: Path) -> None:
    done, _ = written([eight_ranks], tmp_path / "out", rank=3)
    assert [source.place for source in done.sources] == [3]
    with Engine(tmp_path / "out") as engine:
        names = engine.query("select name from process where name is not null")
    assert names == [("rank 3: python CPU",), ("rank 3: python GPU 0",)]


def test_only_traces_that_the_report_used_are_in_the_file(eight_ranks: Path, tmp_path: Path) -> None:
    """Not a copy, not what cannot be read, not a second file of a rank; places are those of the report."""
    for name, source in (("a", "rank2"), ("b", "rank2"), ("d", "rank5")):
        (tmp_path / f"{name}.json.gz").write_bytes((eight_ranks / f"{source}.json.gz").read_bytes())
    (tmp_path / "c.json").write_text("no trace")
    text = gzip.decompress((tmp_path / "d.json.gz").read_bytes()).replace(b'"dur": 1', b'"dur": 2', 1)
    (tmp_path / "e.json").write_bytes(text + b" ")
    done, _ = written(
        [tmp_path / f"{n}" for n in ("c.json", "a.json.gz", "b.json.gz", "d.json.gz", "e.json")],
        tmp_path / "out",
    )
    assert [Path(source.path).name for source in done.sources] == ["a.json.gz", "d.json.gz"]
    assert [done.report.inputs[source.place].rank for source in done.sources] == [2, 5]
    assert all(source.sha256 == done.report.inputs[source.place].sha256 for source in done.sources)


def test_our_tracks_speak_the_language_of_the_report(tmp_path: Path) -> None:
    done = offline.diagnosed(DEMO, lang="zh")
    with (tmp_path / "out").open("wb") as sink:
        perfetto.write(done, sink, "zh")
    with Engine(tmp_path / "out") as engine:
        names = {name for (name,) in engine.query("select name from track where name is not null")}
        assert {"诊断卡", "发现", "步", "空闲原因, device 0"} <= names
        assert engine.query("select name from slice where category glob 'stepscope.finding.*'") == [
            (f"严重：{done.report.findings[0].title}",)
        ]


def test_a_name_that_ends_in_gz_is_compressed_and_can_be_opened(stepscope: Run, tmp_path: Path) -> None:
    for name in ("a.pftrace", "a.pftrace.gz"):
        assert stepscope("diagnose", DEMO, "--perfetto", tmp_path / name).code == 0
    data = (tmp_path / "a.pftrace.gz").read_bytes()
    assert gzip.decompress(data) == (tmp_path / "a.pftrace").read_bytes()
    with Engine(tmp_path / "a.pftrace.gz") as engine:
        assert engine.query("select count(*) from slice where category = 'kernel'") == [(684,)]


def test_idle_slices_sum_to_the_accounting(tmp_path: Path) -> None:
    done, _ = written([DEMO], tmp_path / "out")
    row = next(row for row in done.report.accounting if row.scope == "trace")
    with Engine(tmp_path / "out") as engine:
        found = engine.query(
            "select name, sum(dur) from slice where category = 'stepscope.idle' group by 1 order by 1"
        )
        first, last = engine.query(
            "select min(ts), max(ts + dur) from slice where category in ('kernel', 'gpu_memcpy')"
        )[0]
        inside = engine.query(
            f"select sum(min(ts + dur, {last}) - max(ts, {first})) from slice "
            f"where category = 'stepscope.idle' and ts < {last} and ts + dur > {first}"
        )
    assert inside == [(row.idle_ns,)]
    assert "input" in dict(found)


def test_counters_of_memory_are_the_recorded_totals(tmp_path: Path) -> None:
    def allocated(ts: int, total: int) -> dict:
        args = {"Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": 512}
        args |= {"Total Allocated": total, "Total Reserved": 4096}
        return {
            "ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event",
            "pid": 10, "tid": 1, "ts": ts, "args": args,
        }  # fmt: skip

    events = [event("op", 0, 100), allocated(5, 512), allocated(50, 1024)]
    _, counts = written([trace_file(tmp_path / "a.json", events)], tmp_path / "out")
    assert counts.counters == 4
    with Engine(tmp_path / "out") as engine:
        assert engine.query(
            "select t.name, ts, value from counter c join track t on t.id = c.track_id order by 1, 2"
        ) == [
            ("memory of device 0, allocated", BASE_NS + 5_000, 512.0),
            ("memory of device 0, allocated", BASE_NS + 50_000, 1024.0),
            ("memory of device 0, reserved", BASE_NS + 5_000, 4096.0),
            ("memory of device 0, reserved", BASE_NS + 50_000, 4096.0),
        ]


TOKEN = "hf_" + "aBcDeFgHiJ" * 3 + "kLmN"


def told(path: Path) -> str:
    """Every readable text in a file."""
    return " ".join(match.decode() for match in re.findall(rb"[\x20-\x7e]{4,}", path.read_bytes()))


def test_no_secret_and_no_identity_leaves(tmp_path: Path, stepscope: Run) -> None:
    events = [
        event(f"/home/jsmithers/train.py: step --token={TOKEN}", 10, 5),
        event("load on gpunode17.example.com", 20, 5, cat="user_annotation"),
        event("jsmithers was here", 30, 5, tid="jsmithers worker"),
        {"ph": "M", "name": "process_name", "pid": 10, "tid": 1, "args": {"name": "python@gpunode17"}},
        {"ph": "i", "s": "t", "name": "jsmithers", "cat": "x", "pid": 10, "tid": 1, "ts": 12},
        event("op", 40, 2, args={"Input Dims": [[2, 2]], "Input type": ["jsmithers", TOKEN]}),
    ]
    path = trace_file(tmp_path / "a.json", events, host_name="gpunode17", user="jsmithers")
    done = stepscope("diagnose", path, "--perfetto", tmp_path / "out", "--format", "json")
    assert done.code in (0, 3), done.err
    text = told(tmp_path / "out")
    assert "[[2,2]]" in text.replace(" ", "")
    for hidden in (TOKEN, "jsmithers", "gpunode17"):
        assert hidden not in text
    pseudonyms = set(re.findall(r"user-[0-9a-f]{8}", text))
    assert len(pseudonyms) == 1
    stepscope("diagnose", path, "--perfetto", tmp_path / "open", "--no-redact")
    text = told(tmp_path / "open")
    assert "jsmithers" in text
    assert "gpunode17" in text
    assert TOKEN not in text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--perfetto", "."], "is a directory; give a file to --perfetto"),
        (["--perfetto", "nowhere/out"], "its directory does not exist"),
        (["--perfetto", "-"], "--perfetto writes a file; give its name"),
        (["--perfetto", "same", "-o", "same"], "is given to -o and to --perfetto"),
        (["--perfetto", "a.json"], "is an input"),
        (["--perfetto", "/dev/full"], "cannot be written: No space left on device; give another file"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    words: list[str], line: str, tmp_path: Path, stepscope: Run
) -> None:
    (tmp_path / "a.json").write_bytes(gzip.decompress(DEMO.read_bytes()))
    done = stepscope("diagnose", "a.json", *words, cwd=tmp_path)
    assert done.code == 2
    assert line in done.err
    assert len(done.err.splitlines()) == 1
    assert (tmp_path / "a.json").stat().st_size > 100_000


def test_a_pipe_is_refused_before_it_is_read(stepscope: Run, tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.json")
    done = stepscope("diagnose", tmp_path / "pipe.json", "--perfetto", tmp_path / "out")
    assert done.code == 2
    assert "a pipe can be read once" in done.err


def test_a_file_that_changes_meanwhile_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscope import offline
    from stepscope.cli import main

    path = tmp_path / "a.json.gz"
    path.write_bytes(DEMO.read_bytes())
    first = offline.diagnosed

    def changed(*words: Any, **more: Any) -> Any:
        done = first(*words, **more)
        path.write_bytes(DEMO.read_bytes() + b"\0")
        return done

    monkeypatch.setattr("stepscope.offline.diagnosed", changed)
    assert main(["diagnose", str(path), "--perfetto", str(tmp_path / "out")]) == 3
    assert [each.name for each in tmp_path.iterdir()] == ["a.json.gz"]
