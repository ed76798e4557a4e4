"""Reports of real traces against the contract as it was written down by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.model.error import StepscopeError
from stepscope.views.json import render
from tests.real.test_answers import TRACES, diagnosed
from tests.views.contract import broken

HTA, TL, DLRM = "holistictraceanalysis", "tracelens", "param/dlrm_kineto"
# Every trace of the shared data: the class of its verdict, or the error where it is no trace that we read.
ALL = {
    f"{HTA}/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": "undecided",
    f"{HTA}/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz": "undecided",
    f"{HTA}/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": "other-stall",
    f"{HTA}/critical_path/cuda_event_sync/event_sync_trace.json.gz": "waiting-for-data",
    f"{HTA}/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz": "other-stall",
    f"{HTA}/critical_path/end_to_end/simple_add/input/trace.json.gz": "other-stall",
    f"{HTA}/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz": "undecided",
    f"{HTA}/df_index_resolver/df_index_resolver.json.gz": "other-stall",
    f"{HTA}/distributed_info_unavailable/distributed_info_not_found.json.gz": "undecided",
    f"{HTA}/execution_trace/benchmark_simple_add_trace.json.gz": "other-stall",
    f"{HTA}/large_integer_trace__rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz": "waiting-for-communication",
    f"{HTA}/mtia_trace_single_rank/mtia_rank_0.json.gz": "undecided",
    f"{HTA}/negative_queue_length_values_check/rank0.json.gz": "undecided",
    f"{HTA}/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": "healthy",
    f"{HTA}/rank_unavailable/rank_not_found.json.gz": "undecided",
    f"{HTA}/timeline_analysis/sampled_rank-0.json.gz": "waiting-for-communication",
    f"{HTA}/trace_diff/control/control.json.gz": "waiting-for-communication",
    f"{HTA}/trace_diff/test/test.json.gz": "other-stall",
    f"{HTA}/trace_filter/sampled_rank-1.json.gz": "waiting-for-communication",
    f"{HTA}/triton_example/triton_example.json.gz": "other-stall",
    f"{HTA}/with_gpu_user_annotation__step_based_trace_2543932.json.gz": "other-stall",
    "kineto/be239c04/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz": "waiting-for-data",
    "kineto/be239c04/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz": "other-stall",
    f"{DLRM}/worker0_step_12.1694128201545.pt.trace.json.gz": "waiting-for-communication",
    f"{DLRM}/worker1_step_12.1694128201556.pt.trace.json.gz": "waiting-for-communication",
    f"{DLRM}/worker2_step_12.1694128201554.pt.trace.json.gz": "other-stall",
    f"{DLRM}/worker3_step_12.1694128201557.pt.trace.json.gz": "waiting-for-communication",
    f"{DLRM}/worker4_step_12.1694128201547.pt.trace.json.gz": "waiting-for-communication",
    f"{DLRM}/worker5_step_12.1694128201549.pt.trace.json.gz": "other-stall",
    f"{DLRM}/worker6_step_12.1694128201553.pt.trace.json.gz": "other-stall",
    f"{DLRM}/worker7_step_12.1694128201553.pt.trace.json.gz": "other-stall",
    f"{TL}/b200/eager_trace.json.gz": "other-stall",
    f"{TL}/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "computing-slowly",
    f"{TL}/h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz": "waiting-for-data",
    f"{TL}/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz": "undecided",
    f"{TL}/inference/vllm_decode_full/graph_execution.json.gz": "healthy",
    f"{TL}/mi210/gpu_only_trace/gpu_only_trace.json.gz": "computing-slowly",
    f"{TL}/mi300/jax08_gemm/tw003.xplane.pb": "UnusableError",
    f"{TL}/mi300/jax_conv_minimal_08/tw003.xplane.pb": "UnusableError",
    f"{TL}/mi300/resnet_act_checkpoint.json.gz": "waiting-for-communication",
    f"{TL}/perf_model/normalization/normalization_layer_test.json.gz": "undecided",
    f"{TL}/rocprof/908_results.json.gz": "UnusableError",
    f"{TL}/torch_compile_triton/trace.json.gz": "healthy",
}
READ = {name for name, answer in ALL.items() if not answer.endswith("Error")}
MAY_BE_NEGATIVE = {"offset_ns", "drift_ppm", "lag_ns", "lag_range_ns", "value", "threshold"}
SUM_ERROR = 1e-9


@cache
def written(path: Path) -> Any:
    return json.loads(render(diagnosed(path)))


def test_every_trace_is_in_the_table(shared_data: Path) -> None:
    folder = shared_data / "traces"
    endings = (".json", ".json.gz", ".pb")
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.name.endswith(endings)}
    assert found == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_trace_has_its_verdict_or_its_error(shared_data: Path, name: str) -> None:
    try:
        answer = written(shared_data / "traces" / name)["verdict"]["class"]
    except StepscopeError as error:
        answer = type(error).__name__ if Path(name).name in str(error) else str(error)
    assert answer == ALL[name]


@pytest.mark.parametrize("name", sorted(READ))
def test_every_report_holds_the_contract(shared_data: Path, name: str) -> None:
    assert broken(written(shared_data / "traces" / name)) == []


def numbers(value: Any, at: str = "report", name: str = "") -> Iterator[tuple[str, str, float]]:
    """Every number with its place and its field's name."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, f"{at}.{key}", key)
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from numbers(each, f"{at}[{place}]", name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, name, value


@pytest.mark.parametrize("name", sorted(READ))
def test_no_number_is_nan_or_negative(shared_data: Path, name: str) -> None:
    """In the structs: JSON has no word for what is no number."""
    made = msgspec.to_builtins(diagnosed(shared_data / "traces" / name))
    found = list(numbers(made))
    assert len(found) > 10
    assert [each for each in found if not math.isfinite(each[2])] == []
    assert [each for each in found if each[2] < 0 and each[1] not in MAY_BE_NEGATIVE] == []


@pytest.mark.parametrize("name", sorted(READ))
def test_the_shares_of_a_table_are_parts_of_one_whole(shared_data: Path, name: str) -> None:
    made = written(shared_data / "traces" / name)
    for table in ("operators", "operator_shapes", "kernels"):
        by_rank: dict[int | None, float] = {}
        for row in made[table]:
            by_rank[row.get("rank")] = by_rank.get(row.get("rank"), 0.0) + row.get("share", 0.0)
        ranks = 1 if made["inputs"][0].get("rank") is not None else max(len(made["accounting"]), 1)
        assert all(whole <= ranks + SUM_ERROR for whole in by_rank.values()), (table, by_rank)
    roots = sum(row.get("share", 0.0) for row in made["modules"] if "/" not in row["path"])
    assert roots <= max(len(made["accounting"]), 1) + SUM_ERROR


@pytest.mark.parametrize("name", sorted(TRACES))
def test_what_was_not_recorded_is_absent_and_not_zero(shared_data: Path, name: str) -> None:
    made = written(shared_data / "traces" / TRACES[name])
    codes = {issue["code"] for issue in made["health"]["issues"]}
    if "no_host_rows" in codes:
        ruled_out = {out["rule"] for finding in made["findings"] for out in finding["ruled_out"]}
        assert not {"input-starvation", "host-preprocessing"} & ruled_out
        assert {"input-starvation", "host-preprocessing"} <= {each["rule"] for each in made["undecided"]}
    for each in made["collectives"]:
        # One rank's trace cannot tell a transfer from a wait.
        assert not {"transfer_ns", "wait_ns", "last_rank"} & set(each)
    if not any(step["use"] == "counted" for step in made["steps"]):
        assert "steps" not in made.get("window", {})
