"""Whose a sample is: ranks, devices, begins and ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepscope.agent.device import Device, DeviceTable
from stepscope.agent.job import AGENT, MOST_STEPS, LiveRank, by_device, device_of, stretches
from stepscope.model.mark import Identity
from stepscope.model.sample import Owner

GPUS = tuple(f"GPU-{n}" for n in range(4))


def rank(number: int, *uuids: str, begin: int = 0, end: int | None = None, **more: object) -> LiveRank:
    identity = Identity(job="j", run="r1", rank=number, local_rank=number, device_uuids=uuids)
    return LiveRank(f"{number}.ring", identity, begin, end, **more)  # type: ignore[arg-type]


def test_one_visible_device_is_the_ranks_own() -> None:
    first = rank(3, "GPU-2")
    assert device_of(first, [first], DeviceTable()) == (("GPU-2", None),)


def test_of_several_visible_devices_the_driver_says_which_by_the_process() -> None:
    table = DeviceTable()
    table.put_pids({("GPU-1", None): frozenset((7,)), ("GPU-3", None): frozenset((9,))})
    first = rank(0, *GPUS, pids=frozenset((8, 9)))
    assert device_of(first, [first], table) == (("GPU-3", None),)


def test_the_place_alone_says_nothing_unless_the_ranks_fill_the_list() -> None:
    some = [rank(n, *GPUS) for n in range(3)]
    assert [device_of(each, some, DeviceTable()) for each in some] == [(), (), ()]
    all_four = [rank(n, *GPUS) for n in range(4)]
    found = [device_of(each, all_four, DeviceTable()) for each in all_four]
    assert found == [((uuid, None),) for uuid in GPUS]


def test_a_rank_without_a_visible_device_has_none() -> None:
    first = rank(0)
    assert device_of(first, [first], DeviceTable()) == ()


def test_a_mig_instance_is_known_by_its_own_uuid() -> None:
    table = DeviceTable()
    table.put([Device(Owner(uuid="GPU-1", mig="5", index=1), "MIG-abc")])
    first = rank(0, "MIG-abc")
    assert device_of(first, [first], table) == (("GPU-1", "5"),)
    of_device = by_device([first], table)
    # power and clocks are the whole device's: they are of whoever has its instances
    assert stretches(Owner(uuid="GPU-1"), [first], of_device)[0].ranks == (first,)
    assert stretches(Owner(uuid="GPU-1", mig="6"), [first], of_device) == []


def test_two_jobs_one_after_the_other_on_a_device_share_no_label() -> None:
    first, second = rank(0, "GPU-0", begin=10, end=20), rank(0, "GPU-0", begin=30)
    second.identity = Identity(job="k", rank=0, device_uuids=("GPU-0",))
    found = stretches(Owner(uuid="GPU-0"), [first, second], by_device([first, second], DeviceTable()))
    assert [(each.begin_ns, each.end_ns, dict(each.labels)["job"]) for each in found] == [
        (10, 20, "j"),
        (30, None, "k"),
    ]


def test_two_at_a_time_are_both_told() -> None:
    ranks = [rank(0, "GPU-0"), rank(1, "GPU-0", begin=5)]
    found = stretches(Owner(uuid="GPU-0"), ranks, by_device(ranks, DeviceTable()))
    assert [dict(each.labels)["rank"] for each in found] == ["0", "0,1"]


def test_a_host_has_its_jobs_labels_and_no_rank() -> None:
    ranks = [rank(0, "GPU-0"), rank(1, "GPU-1")]
    (found,) = stretches(Owner(kind="host", host="n1"), ranks, {})
    assert dict(found.labels) == {"job": "j", "run": "r1"}


def test_a_process_is_of_the_rank_whose_child_it_is() -> None:
    ranks = [rank(0, pids=frozenset((10, 11))), rank(1, pids=frozenset((20,)))]
    (found,) = stretches(Owner(kind="process", host="n1", pid=11), ranks, {})
    assert dict(found.labels)["rank"] == "0"
    assert stretches(Owner(kind="process", host="n1", pid=99), ranks, {}) == []


def test_what_the_agent_costs_is_of_no_job() -> None:
    ranks = [rank(0, "GPU-0"), rank(1, pids=frozenset((20,)))]
    assert stretches(Owner(kind="process", host="n1", name=AGENT), ranks, {}) == []


times = st.integers(0, 100)


@given(st.lists(st.tuples(times, st.one_of(st.none(), times)), max_size=6), times)
def test_at_any_time_the_labels_are_those_of_who_lives_then(
    lives: list[tuple[int, int | None]], at: int
) -> None:
    ranks = [
        rank(n, "GPU-0", begin=begin, end=None if length is None else begin + length + 1)
        for n, (begin, length) in enumerate(lives)
    ]
    found = stretches(Owner(uuid="GPU-0"), ranks, {("GPU-0", None): ranks})
    here = [each for each in found if each.begin_ns <= at and (each.end_ns is None or at < each.end_ns)]
    living = {
        each.ring for each in ranks if each.begin_ns <= at and (each.end_ns is None or at < each.end_ns)
    }
    assert len(here) <= 1
    assert {each.ring for stretch in here for each in stretch.ranks} == living


def test_steps_of_a_window_are_those_that_ran_in_it() -> None:
    first = rank(0)
    for step in range(5):
        first.begin_step(100 * step, step)
    assert first.steps(-50, -1) is None
    assert first.steps(50, 50) == (0, 0)
    assert first.steps(150, 250) == (1, 2)
    assert first.steps(200, 200) == (2, 2)
    assert first.steps(450, 9000) == (4, 4)


def test_of_many_steps_the_last_are_remembered() -> None:
    first = rank(0)
    for step in range(3 * MOST_STEPS):
        first.begin_step(step, step)
    assert len(first.step) <= MOST_STEPS
    assert first.steps(3 * MOST_STEPS - 2, 3 * MOST_STEPS) == (3 * MOST_STEPS - 2, 3 * MOST_STEPS - 1)
