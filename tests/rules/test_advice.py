"""Advice is gated by the fact that decides it."""

from __future__ import annotations

import pytest

from stepscope.analyse import features as f
from stepscope.analyse.features import communication, host
from stepscope.model.feature import Facts, Feature
from stepscope.rules import judge, load_catalog
from stepscope.rules.rule import Finding

CATALOG = load_catalog(others=())


def found(rule_id: str, facts: dict[Feature, float]) -> Finding:
    outcome = judge(CATALOG[rule_id], Facts(facts))
    assert isinstance(outcome, Finding)
    return outcome


def advice(finding: Finding) -> str:
    return " ".join(remedy.text.en for remedy in finding.remedies)


@pytest.mark.parametrize("link_share", [0.0, 0.01, 0.0999, None])
def test_overlap_is_never_advised_below_a_tenth_of_the_link_nor_at_an_unknown_rate(
    link_share: float | None,
) -> None:
    facts = {f.exposed_communication_share: 0.4}
    if link_share is not None:
        facts[f.bus_bandwidth_link_share] = link_share
    finding = found("exposed-communication", facts)
    assert "bucket" not in advice(finding)
    assert "no_sync" not in str([remedy.patch for remedy in finding.remedies])
    assert "traces of all ranks" in advice(finding)
    assert "NCCL_DEBUG" in str([remedy.patch for remedy in finding.remedies])
    assert not finding.is_settled
    assert "undecided" in finding.title.en


def test_overlap_is_advised_where_the_bytes_moved_at_a_plausible_rate() -> None:
    finding = found(
        "exposed-communication", {f.exposed_communication_share: 0.4, f.bus_bandwidth_link_share: 0.1}
    )
    assert "bucket" in advice(finding)
    assert finding.is_settled


def test_more_workers_are_advised_unless_the_cores_are_known_to_be_busy() -> None:
    assert "num_workers" in advice(found("input-starvation", {f.idle_input_share: 0.3}))
    busy = found("input-starvation", {f.idle_input_share: 0.3, f.host_cpu_busy: 0.95})
    assert "num_workers" not in advice(busy)
    assert "Decode on the device" in advice(busy)


def test_unrecorded_work_never_advises_to_remove_copies() -> None:
    finding = found(
        "unrecorded-work",
        {f.idle_share: 0.8, f.queued_or_unlaunched_idle_share: 0.98, f.host_copy_call_share: 0.9},
    )
    assert "cop" not in advice(finding)
    assert "consequence" in finding.title.en


def test_what_nothing_names_gets_no_advice_on_checkpoints_and_a_checkpoint_does() -> None:
    assert "checkpoint" not in advice(found("periodic-stall", {f.periodic_stall_share: 0.1}))
    once = found("checkpoint-stall", {f.idle_checkpoint_share: 0.08, host.checkpoint_steps: 1.0})
    assert "background" in advice(once)
    assert "less often" not in advice(once)
    twice = found("checkpoint-stall", {f.idle_checkpoint_share: 0.08, host.checkpoint_steps: 2.0})
    assert "less often" in advice(twice)


def test_a_warm_up_is_recorded_later_and_a_recompilation_is_not() -> None:
    warm = found("compile-in-window", {f.idle_compile_share: 0.4, host.recompiling_steps: 0.0})
    assert "Record after the warm-up" in advice(warm)
    assert "warm-up" in warm.title.en
    assert "dynamic" not in advice(warm)
    again = found("compile-in-window", {f.idle_compile_share: 0.4, host.recompiling_steps: 3.0})
    assert "Record after" not in advice(again)
    assert "dynamic" in advice(again)
    unmarked = found("compile-in-window", {f.idle_compile_share: 0.4})
    assert not unmarked.is_settled
    assert "dynamic" not in advice(unmarked)


def test_a_batch_is_pinned_and_a_scalar_is_made_on_the_device() -> None:
    facts = {f.copy_stall_share: 0.1, host.pageable_upload_stall_share: 0.09}
    assert "Pin the batches" in advice(found("pageable-copies", facts | {host.pageable_upload_bytes: 2e7}))
    small = advice(found("pageable-copies", facts | {host.pageable_upload_bytes: 8.0}))
    assert "Pin the batches" not in small
    assert "on the device" in small


def test_python_is_taken_out_of_the_loop_only_where_a_function_is_named() -> None:
    unnamed = found("python-stall", {host.python_stall_share: 0.3, host.python_named_share: 0.2})
    assert "out of the loop" not in advice(unnamed)
    assert not unnamed.is_settled
    named = found("python-stall", {host.python_stall_share: 0.3, host.python_named_share: 0.8})
    assert "out of the loop" in advice(named)
    assert named.is_settled


def test_one_exchange_for_an_update_is_not_told_to_be_made_one() -> None:
    facts = {f.exposed_communication_share: 0.4, f.bus_bandwidth_link_share: 0.2}
    assert "once per optimizer step" not in advice(found("exposed-communication", facts))
    four = found("exposed-communication", facts | {communication.gradient_syncs_per_update: 4.0})
    assert "once per optimizer step" in advice(four)
    once = found("exposed-communication", facts | {communication.gradient_syncs_per_update: 1.0})
    assert "once per optimizer step" not in advice(once)
    assert "bucket" in advice(once)


def test_a_compiled_model_is_not_told_to_compile() -> None:
    plain = found("launch-bound", {f.idle_launch_share: 0.4, f.compiled_launch_share: 0.0})
    assert "Compile the model" in advice(plain)
    assert "compiled already" not in advice(plain)
    compiled = found("launch-bound", {f.idle_launch_share: 0.4, f.compiled_launch_share: 0.6})
    assert "Compile the model" not in advice(compiled)
    assert "compiled already" in advice(compiled)


def test_an_optimizer_is_advised_only_where_there_is_a_backward_pass() -> None:
    assert "optimizer" not in advice(found("launch-bound", {f.idle_launch_share: 0.4}))
    infers = found("launch-bound", {f.idle_launch_share: 0.4, f.backward_share: 0.0})
    assert "optimizer" not in advice(infers)
    trains = found("launch-bound", {f.idle_launch_share: 0.4, f.backward_share: 0.004})
    assert "fused optimizer" in advice(trains)
