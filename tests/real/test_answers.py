"""Real traces from other people's machines, and what a performance engineer concludes from each.

The general behaviour is wanted, not the file: figures carry the tolerance that the conclusion needs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import stepscope
from stepscope.model import report

HTA = "holistictraceanalysis"
TRACES = {
    "workers_0": "kineto/be239c04/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "workers_4": "kineto/be239c04/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    "timesformer": "tracelens/h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "mi300": "tracelens/mi300/resnet_act_checkpoint.json.gz",
    "b200": "tracelens/b200/eager_trace.json.gz",
    "negative_queue": f"{HTA}/negative_queue_length_values_check/rank0.json.gz",
    "ns_resolution": f"{HTA}/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "df_index": f"{HTA}/df_index_resolver/df_index_resolver.json.gz",
    "qwen": "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "mi210": "tracelens/mi210/gpu_only_trace/gpu_only_trace.json.gz",
    "sglang": "tracelens/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    "alexnet": f"{HTA}/critical_path/alexnet",
    "vllm": "tracelens/inference/vllm_decode_full/graph_execution.json.gz",
    "mtia": f"{HTA}/mtia_trace_single_rank/mtia_rank_0.json.gz",
    "cpu_only": f"{HTA}/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
}


@cache
def diagnosed(path: Path) -> report.Report:
    return stepscope.diagnose(path)


@pytest.fixture
def answer(shared_data: Path):  # type: ignore[no-untyped-def]
    return lambda name: diagnosed(shared_data / "traces" / TRACES[name])


def row_of(r: report.Report, scope: str | None = None) -> report.Accounting:
    """The row that decides: over steps where there are any."""
    rows = [a for a in r.accounting if scope is None or a.scope == scope]
    return rows[0]


def share(row: report.Accounting, *parts: str) -> float:
    def ns(part: str) -> int:
        of = row.idle if part.startswith("idle.") else row
        return getattr(of, f"{part.removeprefix('idle.')}_ns")

    return sum(ns(part) for part in parts) / row.total_ns


def rules_of(r: report.Report) -> list[str]:
    return [f.rule for f in r.findings]


def issue(r: report.Report, code: str) -> report.HealthIssue | None:
    return next((i for i in r.health.issues if i.code == code), None)


def words_of(finding: report.Finding) -> str:
    """Everything a finding says, in one lower-case text."""
    texts = [finding.title]
    for remedy in finding.remedies:
        texts.append(remedy.text)
        if remedy.patch is not None:
            texts += [remedy.patch.before or "", remedy.patch.after or ""]
    return " ".join(texts).lower()


def late_share_of_idle(row: report.Accounting) -> float:
    return 1 - (row.idle.queued_ns + row.idle.unknown_ns) / row.idle_ns


def test_a_loader_without_workers_starves_the_device(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("workers_0")
    row = row_of(r, "steps")
    assert rules_of(r)[0] == "input-starvation"
    assert r.verdict.class_ == "waiting-for-data"
    assert 0.30 <= share(row, "idle.input") <= 0.37
    assert 0.38 <= row.host.loader_share <= 0.42
    assert row.variation.median_ns == pytest.approx(176e6, abs=1e6)


def test_with_workers_the_loader_is_not_blamed_and_slow_steps_are_told(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("workers_4")
    row = row_of(r, "steps")
    assert "input-starvation" not in rules_of(r)
    assert share(row, "idle.input") <= 0.03
    assert row.variation.median_ns == pytest.approx(127e6, abs=1e6)
    slow = {s.step: s.dur_ns for s in r.steps if s.step in row.variation.slow_steps}
    assert sorted(round(ns / 1e6) for ns in slow.values()) == pytest.approx([163, 182], abs=1)


def test_preprocessing_on_the_host_is_named_by_function(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("timesformer")
    row = row_of(r, "steps")
    first = r.findings[0]
    assert first.rule == "host-preprocessing"
    assert row.idle.preprocess_ns == pytest.approx(220e6, abs=5e6)
    assert row.total_ns == pytest.approx(382e6, abs=1e6)
    assert share(row, "idle") > 0.5
    named = " ".join(c.name for c in first.culprits)
    for function in ("preprocess", "normalize", "read_video"):
        assert function in named
    assert "tqdm" not in named


def test_exposed_communication_far_below_the_link_is_undecided_from_one_rank(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("mi300")
    assert share(row_of(r, "trace"), "communication_exposed") == pytest.approx(0.64, abs=0.02)
    large = next(c for c in r.collectives if c.bytes is not None and 17e6 < c.bytes < 18e6)
    assert 3.3e9 <= large.bus_bytes_per_second <= 3.6e9
    assert large.link_share < 0.01
    finding = next(f for f in r.findings if f.rule == "exposed-communication")
    assert "late peer or wrong transport" in finding.title
    assert "undecided from one rank" in finding.title
    for word in ("overlap", "bucket", "no_sync"):
        assert word not in words_of(finding)
    assert "25 % of kernels" in issue(r, "missing_launch").detail
    assert any(u.rule == "exposed-communication" for u in r.undecided)


def test_an_eager_decode_is_launch_bound_and_symmetric_memory_communicates(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("b200")
    row = row_of(r)
    assert rules_of(r)[0] == "launch-bound"
    assert share(row, "idle") == pytest.approx(0.86, abs=0.01)
    assert late_share_of_idle(row) >= 0.985
    kernels = sum(k.device_ns for k in r.kernels)
    symmetric = sum(k.device_ns for k in r.kernels if "multimem_all_reduce" in k.name)
    assert all(k.class_ == "communication" for k in r.kernels if "multimem_all_reduce" in k.name)
    assert symmetric / kernels == pytest.approx(0.20, abs=0.02)


def test_idle_time_behind_issued_work_has_no_host_cause(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("negative_queue")
    whole = row_of(r, "trace")
    assert share(whole, "idle") == pytest.approx(0.64, abs=0.01)
    assert late_share_of_idle(whole) <= 0.15
    steps = row_of(r, "steps")
    host_ns = sum(s.dur_ns for s in r.steps if s.use == "counted")
    assert steps.host.copy_call_share * host_ns == pytest.approx(760e6, abs=10e6)
    assert r.verdict.class_ == "undecided"
    assert r.findings[0].rule == "unrecorded-work"
    assert "consequence" in r.findings[0].title
    assert not {"exposed-copy", "hidden-sync"} & set(rules_of(r))
    for word in ("pin_memory", "non_blocking", ".item()"):
        assert word not in " ".join(words_of(f) for f in r.findings)


def test_a_run_that_computes_all_the_time_is_healthy(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("ns_resolution")
    row = row_of(r, "trace")
    assert r.verdict.class_ == "healthy"
    assert share(row, "compute", "copy_exposed") == pytest.approx(0.98, abs=0.01)
    assert {f.severity for f in r.findings} <= {"info"}
    assert row_of(r, "steps").window == "device"


def test_unhidden_all_reduces_beside_a_late_host(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("df_index")
    row = row_of(r, "trace")
    assert row.communication.hidden_ns == 0
    assert share(row, "communication_exposed") == pytest.approx(0.206, abs=0.01)
    assert share(row, "idle") == pytest.approx(0.42, abs=0.01)
    assert late_share_of_idle(row) == pytest.approx(0.97, abs=0.01)


def test_no_duration_is_negative_and_busy_is_exact(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("qwen")
    row = row_of(r, "trace")
    assert share(row, "compute", "copy_exposed") == pytest.approx(0.92, abs=0.005)
    assert min(k.device_ns for k in r.kernels) > 0
    assert min(k.mean_ns for k in r.kernels) > 0


def test_device_rows_and_launches_only_leave_host_time_unknown(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("mi210")
    row = row_of(r)
    assert share(row, "compute") == pytest.approx(0.89, abs=0.01)
    assert row.idle.queued_ns / row.idle_ns == pytest.approx(0.06, abs=0.01)
    assert row.idle.launch_ns / row.idle_ns == pytest.approx(0.27, abs=0.02)
    assert row.idle.unknown_ns == row.idle_ns - row.idle.queued_ns - row.idle.launch_ns
    assert issue(r, "no_host_rows") is not None


def test_a_replayed_graph_is_busy(answer) -> None:  # type: ignore[no-untyped-def]
    r = answer("vllm")
    row = row_of(r)
    assert share(row, "compute", "communication_exposed", "copy_exposed") == pytest.approx(0.998, abs=0.001)
    assert rules_of(r) == ["compute-bound"]


@pytest.mark.parametrize("name", ["mtia", "cpu_only"])
def test_device_work_that_cannot_be_seen_is_not_judged(answer, name: str) -> None:  # type: ignore[no-untyped-def]
    r = answer(name)
    assert r.verdict.class_ == "undecided"
    assert r.findings == ()
    assert issue(r, "no_device_data") is not None
    assert "cannot be seen" in issue(r, "no_device_data").detail
    assert all(a.device.kind == "cpu" for a in r.accounting)
    if name == "mtia":
        assert "mtia_ccp_events" in issue(r, "no_device_data").detail
        assert all(a.status == "withheld" for a in r.accounting)


@pytest.mark.parametrize("name", sorted(TRACES))
def test_every_row_adds_up(answer, name: str) -> None:  # type: ignore[no-untyped-def]
    for row in answer(name).accounting:
        parts = row.compute_ns + row.communication_exposed_ns + row.copy_exposed_ns + row.idle_ns
        assert parts == row.total_ns
        assert sum(getattr(row.idle, f) for f in row.idle.__struct_fields__) == row.idle_ns


def test_work_issued_half_a_second_before_it_starts_is_no_launch_bound_run(answer) -> None:  # type: ignore[no-untyped-def]
    """One gap of 463 ms: its kernel was launched at its beginning, the host sat in a copy that waited too."""
    r = answer("sglang")
    assert rules_of(r)[0] == "late-start"
    assert "launch-bound" not in rules_of(r)
    assert r.verdict.class_ == "undecided"
    assert all(remedy.gain_share is None for f in r.findings for remedy in f.remedies)


def test_seconds_of_start_up_are_not_sold_as_a_steady_cause(answer) -> None:  # type: ignore[no-untyped-def]
    """A cudaFree of 6 s in the first convolution: once, in a trace without steps."""
    r = answer("alexnet")
    assert "may be start-up" in r.verdict.text
    assert "critical" not in {f.severity for f in r.findings}
