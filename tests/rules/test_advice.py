"""Advice is gated by the fact that decides it."""

from __future__ import annotations

import pytest

from stepscope.analyse import features as f
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


def test_asynchronous_checkpoints_are_advised_only_where_a_checkpoint_was_seen() -> None:
    assert "checkpoint" not in advice(found("periodic-stall", {f.periodic_stall_share: 0.1}))
    seen = {f.periodic_stall_share: 0.1, f.idle_checkpoint_share: 0.08}
    assert "checkpoint" in advice(found("periodic-stall", seen))


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
