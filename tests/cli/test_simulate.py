"""`stepscope simulate`, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_run_is_written_and_diagnosed(stepscope: Run, tmp_path: Path) -> None:
    words = "--seed 4 --ranks 2 --gpu H200 --model transformer --steps 12 --layers 12 --buckets 3".split()
    faults = ["--fault", "loader-stall:severe@2:11", "--fault", "straggler#1:mild"]
    clocks = "--clock-offset-ms 2 --clock-drift-ppm 20 --base-spread-s 100".split()
    done = stepscope("simulate", "--out", tmp_path / "run", *words, *faults, *clocks)
    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert said.startswith("Wrote 2 ranks with 12 steps each to ")
    assert "beside it, in run.truth.json." in said
    assert done.out.splitlines()[-1] == f"Next: stepscope diagnose {tmp_path / 'run'}"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    truth = json.loads((tmp_path / "run.truth.json").read_text())
    assert truth["arguments"]["faults"] == ["loader-stall:severe@2:11", "straggler#1:mild"]
    assert [fault["ranks"] for fault in truth["faults"]] == [[0, 1], [1]]
    assert truth["step_ns"] > 1.5 * truth["step_ns_without"]
    assert len({row["offset_ns"] for row in truth["ranks"]}) == 2
    report = stepscope("diagnose", tmp_path / "run", "--format", "json").report
    assert report["verdict"]["class"] == "waiting-for-data"
    assert report["health"]["verdict"] == "ok"


def test_two_processes_write_the_same_bytes(stepscope: Run, tmp_path: Path) -> None:
    words = "--seed 9 --ranks 2 --model moe --steps 2 --layers 2 --tail 0.01 --fault expert-imbalance".split()
    for seed in ("1", "2"):
        done = stepscope("simulate", "--out", tmp_path / seed / "run", *words, env={"PYTHONHASHSEED": seed})
        assert done.code == 0, done.err
    for name in ("run/rank0.json.gz", "run/rank1.json.gz", "run.truth.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_what_cannot_be_is_one_line_and_the_code_is_2(stepscope: Run, tmp_path: Path) -> None:
    for words, says in (
        (["--fault", "loader-stall:1.5"], "must be above 0 and below 0.97 of a step"),
        (["--trace-steps", "3:12"], "trace-steps 3:12: the run has steps 0 to 9"),
        (["--telemetry", "--collect-ms", "50"], "collect-ms 50: must be between 100 and"),
        (["--fault", "nothing"], "no such fault; take one of"),
        (["--gpu", "abacus"], "gpu abacus: is not simulated; take one of"),
        (["--ranks", "0"], "ranks 0: must be between 1 and"),
        (["--model", "mlp"], "--model"),
    ):
        done = stepscope("simulate", "--out", tmp_path / "run", *words)
        assert (done.code, done.out) == (2, "")
        assert says in done.err
        assert done.err.count("\n") == 1
        assert not (tmp_path / "run").exists()
    assert stepscope("simulate").code == 2
