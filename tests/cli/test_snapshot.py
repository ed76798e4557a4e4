"""A memory snapshot on the command line: alone, with a trace, hostile, and without anybody's home."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Run
from tests.sources.allocator import MB, TRAIN, Allocator
from tests.views.contract import broken

SECRET = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"[:34]


def failed(device: int = 0, frames: Any = TRAIN) -> dict[str, Any]:
    """A run whose last request failed: half of it lies free in pieces."""
    a = Allocator(41 * MB, device=device)
    blocks = [a.alloc(MB, frames) for _ in range(40)]
    for address in blocks[1::2]:
        assert address is not None
        a.free(address)
    assert a.alloc(4 * MB, frames) is None
    return a.snapshot()


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(failed()))
    return path


@pytest.mark.parametrize("kind", ["ops", "speedscope"])
def test_a_snapshot_alone_has_nothing_to_export(
    kind: str, stepscope: Run, snapshot: Path, tmp_path: Path
) -> None:
    done = stepscope("export", kind, snapshot, "-o", tmp_path / "out")
    assert done.code == 3
    assert done.err.startswith(f"stepscope: {snapshot}: no trace is among the inputs")
    assert len(done.err.splitlines()) == 1
    assert os.listdir(tmp_path) == ["snapshot.pickle"]


def test_a_snapshot_alone_has_no_perfetto_file(stepscope: Run, snapshot: Path, tmp_path: Path) -> None:
    words = ["--format", "json", "--perfetto", tmp_path / "out"]
    done = stepscope("diagnose", snapshot, *words)
    assert (done.code, done.report["memory"][0]["source"]) == (0, "snapshot")
    assert done.err == (
        f"stepscope: {tmp_path}/out: is not written: no trace and no telemetry is among the inputs; leave "
        "--perfetto out\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_snapshot_alone_gives_a_report(stepscope: Run, snapshot: Path) -> None:
    done = stepscope("diagnose", snapshot, "--format", "json")
    assert (done.code, done.err) == (0, "")
    report = done.report
    assert broken(report) == []
    (given,) = report["inputs"]
    assert (given["kind"], given["format"], given["bytes"], given["redacted"]) == (
        "snapshot",
        "pytorch-memory-snapshot",
        snapshot.stat().st_size,
        0,
    )
    # 40 blocks; 20 segments, 40 allocations, 20 frees and a failure.
    assert given["events"] == 40 + 20 + 40 + 20 + 1
    assert given["start_ns"] == 1_700_000_000_000_000_000
    assert report["verdict"]["class"] == "undecided"
    assert report["health"]["verdict"] == "ok"
    (row,) = report["memory"]
    assert (row["source"], row["unverified"], row["input"]) == ("snapshot", True, 0)
    assert row["out_of_memory"][0]["reason"] == "fragmented"
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"], finding["confidence"]) == (
        "out-of-memory",
        "critical",
        "medium",
    )
    assert "cost" not in finding
    assert {each["from"] for each in finding["evidence"]} == {"memory"}
    assert [remedy["patch"]["after"] for remedy in finding["remedies"] if "patch" in remedy] == [
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    ]
    assert report["undecided"] == []


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_people_are_told_what_was_asked_for_and_what_lay_free(
    stepscope: Run, snapshot: Path, form: str, lang: str
) -> None:
    done = stepscope("diagnose", snapshot, "--format", form, "--lang", lang)
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    for told in ("4.00 MiB", "20.0 MiB", "1.00 MiB", "train.py:42 forward"):
        assert told in text
    assert ("but in pieces" if lang == "en" else "但都是碎片") in text
    assert ("not yet compared with a real run" if lang == "en" else "尚未与真实运行的快照核对") in text


def test_fail_on_critical_counts_a_failed_request(stepscope: Run, snapshot: Path) -> None:
    assert stepscope("diagnose", snapshot, "--fail-on", "critical").code == 1


def test_with_a_trace_its_memory_is_of_the_traces_device(
    stepscope: Run, snapshot: Path, sample: Path
) -> None:
    alone = stepscope("diagnose", sample, "--format", "json").report
    report = stepscope("diagnose", sample, snapshot, "--format", "json").report
    assert broken(report) == []
    assert report["accounting"] == alone["accounting"]
    assert report["verdict"]["class"] == alone["verdict"]["class"]
    assert [each["kind"] for each in report["inputs"]] == ["trace", "snapshot"]
    (found,) = [each for each in report["findings"] if each["rule"] == "out-of-memory"]
    assert found["subject"]["row"] == 0
    assert report["memory"][-1]["input"] == 1


def test_a_snapshot_of_another_device_stands_alone(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(failed(device=5)))
    report = stepscope("diagnose", sample, path, "--format", "json").report
    (found,) = [each for each in report["findings"] if each["rule"] == "out-of-memory"]
    assert "row" not in found["subject"]
    assert found["subject"]["devices"] == ["cuda:5"]


def test_a_packed_snapshot_is_read_by_its_bytes_and_its_rank_by_its_name(
    stepscope: Run, tmp_path: Path
) -> None:
    path = tmp_path / "rank3_memory.bin"
    path.write_bytes(gzip.compress(pickle.dumps(failed())))
    report = stepscope("diagnose", path, "--format", "json").report
    assert report["memory"][0]["rank"] == 3
    assert stepscope("diagnose", path, "--rank", "3", "--format", "json").report["memory"]
    assert stepscope("diagnose", path, "--rank", "2", "--format", "json").report["memory"] == []


class Calls:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.proof}",)


def is_one_line(done: Done, *told: str) -> bool:
    (line,) = done.err.splitlines()
    return line.startswith("stepscope: ") and all(each in line for each in told)


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_pickle_is_refused_with_5_and_nothing_ran(
    stepscope: Run, tmp_path: Path, protocol: int
) -> None:
    path, proof = tmp_path / "evil.pickle", tmp_path / "proof"
    path.write_bytes(pickle.dumps({"segments": [Calls(proof)]}, protocol))
    done = stepscope("diagnose", path)
    assert (done.code, done.out) == (5, "")
    assert is_one_line(done, "evil.pickle", "asks to look up a name", "nothing of it was run")
    assert not proof.exists()


@pytest.mark.parametrize("kind", ["cut", "model", "empty"])
def test_what_is_no_snapshot_ends_with_3(stepscope: Run, tmp_path: Path, kind: str) -> None:
    whole = pickle.dumps(failed())
    content = {"cut": whole[: len(whole) // 2], "model": pickle.dumps({"weights": [1.0]}), "empty": b""}
    path = tmp_path / "x.pickle"
    path.write_bytes(content[kind])
    done = stepscope("diagnose", path)
    assert (done.code, done.out) == (3, "")
    assert is_one_line(done, "x.pickle")


def test_a_hostile_pickle_costs_the_trace_nothing(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps({"segments": [Calls(tmp_path / "proof")]}))
    done = stepscope("diagnose", sample, path, "--format", "json")
    assert done.code == 0
    refused = done.report["inputs"][1]
    assert refused["kind"] == "snapshot"
    assert "refused" in refused["error"]
    chinese = stepscope("diagnose", sample, path, "--lang", "zh").out
    assert "已拒绝" in chinese


def test_homes_and_secrets_in_stacks_do_not_leave(stepscope: Run, tmp_path: Path) -> None:
    frames = (("/home/grace-hopper/run/train.py", 3, f"load_token={SECRET}"),)
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(failed(frames=frames)))
    for form in ("text", "json", "markdown"):
        done = stepscope("diagnose", path, "--format", form)
        assert done.code == 0
        assert "grace-hopper" not in done.out
        assert SECRET not in done.out
        assert "train.py:3" in "".join(done.out.split())
    report = stepscope("diagnose", path, "--format", "json").report
    assert report["inputs"][0]["redacted"] >= 1
    kept = stepscope("diagnose", path, "--format", "json", "--no-redact").out
    assert "/home/grace-hopper/run" in kept
    assert SECRET not in kept
