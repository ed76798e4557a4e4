"""Which device of the telemetry a traced one is; numbers that are equal by chance name nothing."""

from __future__ import annotations

import pytest

from stepscope.align.device import Assigned, OwnerFacts, TraceDevice, assign, pci_bus_id
from stepscope.model.sample import Owner
from tests.align.telemetry import Source, Work, aperiodic, periodic, traced

A = Owner(uuid="GPU-aaaa", index=0, pci_bus_id="0000:3b:00.0", host="n1", model="NVIDIA H100 80GB HBM3")
B = Owner(uuid="GPU-bbbb", index=1, pci_bus_id="0000:5e:00.0", host="n1", model="NVIDIA H100 80GB HBM3")
BOTH = [OwnerFacts(A), OwnerFacts(B)]


def one(side: TraceDevice, owners: list[OwnerFacts]) -> Assigned:
    (said,) = assign([side], owners)
    return said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("3b:00", "0000:3b:00.0"),
        ("3b000", "0000:3b:00.0"),
        ("101d0", "0000:10:1d.0"),
        ("100000000", "1000:00:00.0"),
        ("gpu0", None),
        (None, None),
    ],
)
def test_a_bus_id_is_one_however_it_is_written(text: str | None, expected: str | None) -> None:
    assert pci_bus_id(text) == expected


def test_a_uuid_decides_whatever_the_numbers_say() -> None:
    said = one(TraceDevice(rank=0, index=0, uuid="bbbb"), BOTH)
    assert (said.owner, said.method) == (B, "uuid")


def test_a_uuid_that_no_device_has_is_not_replaced_by_a_guess() -> None:
    said = one(TraceDevice(uuid="GPU-cccc"), [OwnerFacts(A)])
    assert said.owner is None
    assert "no device of UUID GPU-cccc" in said.why


def test_a_bus_id_decides() -> None:
    said = one(TraceDevice(pci_bus_id="00000000:5E:00.0"), BOTH)
    assert (said.owner, said.method) == (B, "pci_bus_id")


def test_device_0_of_a_process_that_sees_one_device_is_not_gpu_0() -> None:
    # CUDA_VISIBLE_DEVICES=1: the trace calls it 0.
    said = one(TraceDevice(rank=1, index=0), BOTH)
    assert (said.owner, said.method) == (None, "none")


def test_a_process_that_runs_on_one_device_names_it() -> None:
    owners = [OwnerFacts(A, frozenset({11})), OwnerFacts(B, frozenset({12}))]
    said = one(TraceDevice(index=0, pid=12), owners)
    assert (said.owner, said.method) == (B, "process")


def test_a_process_on_two_devices_names_neither() -> None:
    owners = [OwnerFacts(A, frozenset({11, 12})), OwnerFacts(B, frozenset({12}))]
    assert one(TraceDevice(index=0, pid=12), owners).owner is None


def test_a_pid_inside_a_container_is_no_pid_of_the_node() -> None:
    owners = [OwnerFacts(A, frozenset({4011})), OwnerFacts(B, frozenset({4012}))]
    assert one(TraceDevice(pid=12), owners).owner is None


def test_a_rank_s_nccl_log_names_its_device() -> None:
    said = one(TraceDevice(rank=3, nccl_pci_bus_id="5e000"), BOTH)
    assert (said.owner, said.method) == (B, "nccl")


def test_the_driver_s_number_counts_on_its_own_host_alone() -> None:
    other = OwnerFacts(Owner(uuid="GPU-x", index=1, host="n2"))
    side = TraceDevice(rank=3, host="n1.cluster.local", nccl_index=1)
    assert one(side, [*BOTH, other]).owner == B
    assert one(TraceDevice(rank=3, nccl_index=1), [*BOTH, other]).owner is None


def test_a_bus_id_of_another_host_is_another_device() -> None:
    far = Owner(uuid="GPU-ffff", pci_bus_id="0000:3b:00.0", host="n2")
    sides = [
        TraceDevice(rank=0, host="n1", pci_bus_id="3b:00.0"),
        TraceDevice(rank=8, host="n2", pci_bus_id="3b:00.0"),
        TraceDevice(rank=16, host="n3", pci_bus_id="3b:00.0"),
    ]
    said = assign(sides, [*BOTH, OwnerFacts(far)])
    assert [each.owner for each in said] == [A, far, None]


def test_a_label_of_the_job_names_the_rank() -> None:
    owners = [OwnerFacts(A, labels={"rank": "0"}), OwnerFacts(B, labels={"rank": "1"})]
    said = one(TraceDevice(rank=1), owners)
    assert (said.owner, said.method) == (B, "label")


def test_one_device_on_either_side_is_the_same() -> None:
    assert one(TraceDevice(rank=0, index=0), [OwnerFacts(A)]) == Assigned(
        A, "only", "The trace and the telemetry have one device each."
    )


def test_one_device_of_another_model_is_not() -> None:
    said = one(TraceDevice(model="NVIDIA A100-SXM4-80GB"), [OwnerFacts(A)])
    assert said.owner is None
    assert "another model" in said.why
    dashed = Owner(index=0, model="NVIDIA-H100-80GB-HBM3")
    assert one(TraceDevice(model="NVIDIA H100 80GB HBM3"), [OwnerFacts(dashed)]).owner == dashed


def test_instances_of_one_device_are_told_apart_by_their_process() -> None:
    first, second = (Owner(uuid="GPU-aaaa", mig=mig) for mig in ("1", "2"))
    owners = [OwnerFacts(first, frozenset({5})), OwnerFacts(second, frozenset({6}))]
    assert one(TraceDevice(uuid="GPU-aaaa"), owners).owner is None
    assert one(TraceDevice(uuid="GPU-aaaa", pid=6), owners).owner == second


def test_two_ranks_that_claim_one_device_are_both_unknown() -> None:
    sides = [TraceDevice(rank=0, uuid="GPU-aaaa"), TraceDevice(rank=1, uuid="aaaa")]
    assert [each.owner for each in assign(sides, BOTH)] == [None, None]


def facts(owner: Owner, work: Work, seed: int) -> OwnerFacts:
    source = Source(lag=1.0, owner=owner)
    return OwnerFacts(owner, series=(source.read(work, -30.0, 90.0, seed),))


@pytest.mark.parametrize("seed", range(5))
def test_devices_that_work_unlike_each_other_are_known_by_what_they_did(seed: int) -> None:
    works = [aperiodic(seed, 120.0), aperiodic(seed + 100, 120.0)]
    sides = [TraceDevice(rank=n, index=0, activity=traced(work, 0.0, 60.0)) for n, work in enumerate(works)]
    said = assign(sides, [facts(B, works[1], seed), facts(A, works[0], seed + 50)])
    assert [each.owner for each in said] == [A, B]
    assert {each.method for each in said} == {"activity"}


def test_devices_that_work_alike_are_not_known_by_what_they_did() -> None:
    work = periodic(3.1, 120.0)
    sides = [TraceDevice(rank=n, index=0, activity=traced(work, 0.0, 60.0)) for n in range(2)]
    said = assign(sides, [facts(A, work, 1), facts(B, work, 2)])
    assert [each.owner for each in said] == [None, None]
    assert "follow the trace as well" in said[0].why


@pytest.mark.parametrize("seed", range(5))
def test_one_trace_of_a_job_whose_devices_work_alike_is_of_none_of_them(seed: int) -> None:
    work = aperiodic(seed, 120.0)
    quiet = Source(lag=1.0, owner=A, noise=0.005).read(work, -30.0, 90.0, 1)
    owners = [OwnerFacts(A, series=(quiet,)), facts(B, work, 2)]
    side = TraceDevice(rank=0, index=0, activity=traced(work, 0.0, 60.0))
    assert one(side, owners).owner is None


def test_a_device_that_is_known_by_its_uuid_is_not_given_to_another_by_what_it_did() -> None:
    work = aperiodic(3, 120.0)
    owners = [facts(A, work, 1), facts(B, aperiodic(9, 120.0), 2)]
    sides = [TraceDevice(rank=0, uuid="aaaa"), TraceDevice(rank=1, activity=traced(work, 0.0, 60.0))]
    assert [each.owner for each in assign(sides, owners)] == [A, None]


def test_counters_of_other_work_are_no_device_of_the_trace() -> None:
    side = TraceDevice(rank=0, index=0, activity=traced(aperiodic(1, 120.0), 0.0, 60.0))
    said = one(side, [facts(A, aperiodic(77, 120.0), 1), facts(B, aperiodic(78, 120.0), 2)])
    assert said.owner is None
