"""The traces are what the profiler writes: they load without loss, and what is planted in them is found."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope import offline
from stepscope.model.error import UsageError
from stepscope.model.hardware import hardware_of
from stepscope.model.report import Report
from stepscope.simulate import Config, parse, simulate, write
from stepscope.simulate.gpu import GPUS, gpu_of
from stepscope.trace.category import Kind, span_kinds
from stepscope.trace.kernel_class import classify

WHERE_FAULTS_SHOW: dict[str, tuple[str, str]] = {
    "loader-stall": ("input-starvation", "input"),
    "host-sync:severe": ("hidden-sync", "host_sync"),
    "pageable-copy": ("pageable-copies", "copy"),
    "launch-bound": ("launch-bound", "launch"),
    "gc": ("garbage-collection", "gc"),
    "checkpoint": ("checkpoint-stall", "checkpoint"),
    "eval": ("eval-stall", "eval"),
}


def diagnosed(folder: Path, *faults: str, **given: Any) -> Report:
    config = Config(faults=tuple(parse(fault) for fault in faults), **given)
    write(config, folder / "run")
    return offline.diagnose(folder / "run")


@pytest.mark.parametrize("model", ["transformer", "resnet", "moe"])
def test_a_healthy_run_on_one_device_has_no_health_issue_and_no_stall(model: str, tmp_path: Path) -> None:
    report = diagnosed(tmp_path, model=model, steps=5)
    assert report.health.issues == ()
    assert report.health.verdict == "ok"
    (row,) = (row for row in report.accounting if row.scope == "steps")
    assert row.num_steps == 5
    assert row.compute_ns / row.total_ns > 0.9
    assert {finding.rule for finding in report.findings} <= {"compute-bound", "unfused-elementwise"}


@pytest.mark.parametrize("model", ["transformer", "moe"])
def test_a_healthy_job_of_ranks_and_stages_has_no_health_issue(model: str, tmp_path: Path) -> None:
    report = diagnosed(tmp_path, model=model, steps=3, ranks=4, pipeline_stages=2)
    assert report.health.issues == ()
    assert [given.rank for given in report.inputs] == [0, 1, 2, 3]
    assert {given.world_size for given in report.inputs} == {4}
    assert {row.kind for row in report.collectives} == {"all_reduce", "send", "recv"} | (
        {"all_to_all"} if model == "moe" else set()
    )


@pytest.mark.parametrize("fault", list(WHERE_FAULTS_SHOW))
def test_what_is_planted_is_found(fault: str, tmp_path: Path) -> None:
    rule, cause = WHERE_FAULTS_SHOW[fault]
    report = diagnosed(tmp_path, fault, steps=10)
    assert report.health.issues == ()
    assert report.findings[0].rule == rule
    (row,) = (row for row in report.accounting if row.scope == "steps")
    idle = {name: getattr(row.idle, f"{name}_ns") or 0 for name in ("input", "host_sync", "launch", "gc")}
    idle |= {name: getattr(row.idle, f"{name}_ns") or 0 for name in ("checkpoint", "eval", "python")}
    idle["copy"] = row.copy_exposed_ns
    assert max(idle, key=lambda name: idle[name]) == cause


def test_every_event_is_read_and_every_kernel_has_a_class(tmp_path: Path) -> None:
    for model in ("transformer", "resnet", "moe"):
        config = Config(model=model, ranks=2, steps=2, layers=4)
        write(config, tmp_path / model)
        texts = dict(simulate(config))
        for rank in (0, 1):
            path = tmp_path / model / f"rank{rank}.json.gz"
            assert gzip.decompress(path.read_bytes()) == texts[rank]
            trace = offline.load(path)
            events = json.loads(texts[rank])["traceEvents"]
            assert trace.losses == ()
            assert trace.anchor == "base"
            assert len(trace.spans.ts_ns) == sum(event["ph"] == "X" for event in events)
            kernels = np.flatnonzero(span_kinds(trace) == Kind.KERNEL)
            names = Counter(trace.names[i] for i in trace.spans.name_id[kernels])
            others = [name for name in names if classify(name)[0] == "other"]
            assert others == []


def test_ops_have_shapes_and_no_kernel_is_faster_than_its_device(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, steps=3, layers=2)
    rates = {row.name: row.peak_share for row in report.operators if row.peak_share is not None}
    assert {"aten::mm", "aten::addmm", "aten::_flash_attention_forward"} <= set(rates)
    assert 0.5 < rates["aten::mm"] < 0.7
    assert max(rates.values()) <= 1


def test_a_step_takes_about_as_long_as_asked_for(tmp_path: Path) -> None:
    for step_ms, layers in ((60.0, 12), (200.0, 1)):
        report = diagnosed(tmp_path / f"{layers}", steps=4, step_ms=step_ms, layers=layers)
        (row,) = (row for row in report.accounting if row.scope == "steps")
        assert row.total_ns / row.num_steps == pytest.approx(1e6 * step_ms, rel=0.05)


def test_a_collective_is_written_as_the_framework_does() -> None:
    text = dict(simulate(Config(ranks=2, steps=1, layers=2, buckets=2)))[1]
    read = json.loads(text)
    assert read["distributedInfo"]["rank"] == 1
    assert read["distributedInfo"]["world_size"] == 2
    assert read["distributedInfo"]["pg_config"] == [
        {
            "pg_name": "0",
            "pg_desc": "default_pg",
            "backend_config": "cuda:nccl",
            "pg_size": 2,
            "ranks": [0, 1],
        }
    ]
    assert read["deviceProperties"][0]["name"] == "NVIDIA H100 80GB HBM3"
    events = read["traceEvents"]
    kernels = [event for event in events if event["name"].startswith("ncclDevKernel")]
    recorded = [event for event in events if event["name"] == "record_param_comms"]
    assert [event["args"]["Seq"] for event in kernels] == list(range(1, len(kernels) + 1))
    for kernel, op in zip(kernels, recorded, strict=True):
        arguments = kernel["args"]
        assert arguments["External id"] == op["args"]["External id"]
        assert (arguments["Collective name"], arguments["dtype"]) == ("allreduce", "BFloat16")
        assert arguments["Process Group Ranks"] == "[0, 1]"
        assert arguments["In msg nelems"] == arguments["Out msg nelems"] == op["args"]["In msg nelems"]
        assert kernel["tid"] == arguments["stream"] != 7
        (launch,) = (
            event
            for event in events
            if event.get("cat") == "cuda_runtime" and event["args"]["correlation"] == arguments["correlation"]
        )
        assert launch["name"] == "cudaLaunchKernelExC"
    flows = Counter(event["ph"] for event in events if event.get("cat") == "ac2g")
    assert flows["s"] == flows["f"]


def test_the_two_ends_of_a_transfer_name_each_other() -> None:
    config = Config(ranks=2, steps=1, layers=2, pipeline_stages=2, micro_batches=2)
    ends: list[list[tuple[Any, ...]]] = []
    for _, text in simulate(config):
        found = [event["args"] for event in json.loads(text)["traceEvents"] if "SendRecv" in event["name"]]
        ends.append([(a["Collective name"], a["Src Rank"], a["Dst Rank"], a["In msg nelems"]) for a in found])
    other = {"send": "recv", "recv": "send"}
    assert sorted(ends[0]) == sorted((other[kind], *rest) for kind, *rest in ends[1])
    assert Counter(end[0] for end in ends[0]) == {"send": 2, "recv": 2}


@pytest.mark.parametrize("name", GPUS)
def test_an_accelerator_is_known_by_its_drivers_name(name: str) -> None:
    known = hardware_of(gpu_of(name.lower()).name)
    assert known is not None
    assert gpu_of(name).peak_flops == known.peak_flops["bf16"]


def test_the_truth_lies_where_no_diagnosis_looks(tmp_path: Path) -> None:
    truth_path = write(Config(ranks=2, steps=1, layers=1), tmp_path / "run")
    assert truth_path == tmp_path / "run.truth.json"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.truth.json"]
    assert json.loads(truth_path.read_text())["schema"] == "stepscope.truth/1"
    # Not even where the folder above is given.
    report = offline.diagnose(tmp_path)
    assert [given.rank for given in report.inputs] == [0, 1]
    assert {given.error for given in report.inputs} == {None}


def test_a_folder_with_anything_else_in_it_is_left_alone(tmp_path: Path) -> None:
    write(Config(ranks=2, steps=1, layers=1), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    write(Config(ranks=2, steps=1, layers=1), tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    with pytest.raises(UsageError, match=r"run: holds rank1\.json\.gz, which is not of this run"):
        write(Config(ranks=1, steps=1, layers=1), tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: is a file; give a folder to --out"):
        write(Config(steps=1, layers=1), tmp_path / "file")
    with pytest.raises(UsageError, match="cannot be written: not a directory"):
        write(Config(steps=1, layers=1), tmp_path / "file" / "below")
