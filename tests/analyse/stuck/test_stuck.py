"""Who holds a job up, by each witness and by all together: worked examples."""

from __future__ import annotations

import pytest

from stepscope.analyse.stuck import stuck
from stepscope.analyse.stuck.flight import blocked
from stepscope.model.log import Log, LogEvent
from stepscope.model.standing import Standing
from stepscope.model.stuck import Call, CallState, Flight, Frame, Group, Stack, Thread

WORLD = Group("0", "default_pg", (0, 1, 2, 3))


def call(
    sequence: int,
    op: str = "all_reduce",
    state: CallState = "completed",
    size: int = 100,
    group: str = "0",
    at: int = 0,
) -> Call:
    return Call(
        group, sequence, op, state, created_ns=at or sequence, input_sizes=((size,),), input_types=("Float",)
    )


def flight(
    rank: int, *calls: Call, groups: tuple[Group, ...] = (WORLD,), enqueued: dict[str, int] | None = None
) -> Flight:
    return Flight(rank, "2.10", calls, {each.name: each for each in groups}, enqueued or {}, {})


def stack(rank: int, *frames: str) -> Stack:
    return Stack((Thread("MainThread", tuple(Frame(*frame.split("@")) for frame in frames)),), rank)


def standing(rank: int, phase: str, alive: bool | None = True) -> Standing:
    return Standing(rank, 9, 8, phase, 1, alive)


IN = ("all_reduce@torch/distributed/distributed_c10d.py", "step@train.py")
SLEEPS = ("fetch@data.py", "main@train.py")


def test_who_did_not_enter_the_collective_that_others_wait_in_is_named() -> None:
    flights = [flight(rank, call(1), call(2, state="started")) for rank in (0, 1, 3)] + [flight(2, call(1))]
    found = stuck((), flights)
    assert (found.ranks, found.absent, found.mismatched) == ((2,), (2,), ())
    assert (
        "rank 2 did not enter all_reduce #2 of group 0 (default_pg), ranks 0, 1, 3 wait in it"
        in found.accused[0].en
    )


@pytest.mark.parametrize(
    ("odd", "differs"),
    [(call(2, "broadcast", "started"), "op"), (call(2, state="started", size=99), "sizes")],
)
def test_who_calls_something_else_is_named(odd: Call, differs: str) -> None:
    flights = [flight(rank, call(1), call(2, state="started")) for rank in (0, 1, 2)] + [
        flight(3, call(1), odd)
    ]
    assert blocked(flights)[0].differs == differs
    found = stuck((), flights)
    assert (found.ranks, found.mismatched, found.absent) == ((3,), (3,), ())


def test_gathers_of_different_sizes_are_no_mismatch() -> None:
    flights = [flight(rank, call(1, "gather", "started", size=rank + 1)) for rank in range(4)]
    found = stuck((), flights)
    assert (found.ranks, found.mismatched) == ((), ())
    assert "all of ranks 0–3 entered gather #1" in found.accused[0].en


def test_of_two_halves_that_differ_nobody_is_accused_and_both_are_told() -> None:
    group = (Group("0", "", (0, 1)),)
    flights = [
        flight(0, call(1, state="started"), groups=group),
        flight(1, call(1, "broadcast", "started"), groups=group),
    ]
    found = stuck((), flights)
    assert (found.ranks, found.mismatched) == ((), (0, 1))
    assert "rank 0 calls all_reduce" in found.accused[0].en


def test_a_rank_without_a_dump_may_be_the_one_and_nobody_is_named() -> None:
    found = stuck((), [flight(rank, call(5, state="started")) for rank in (0, 1, 2)])
    assert (found.ranks, found.needs) == ((), "all-flights")
    assert "of rank 3 there is no dump" in found.accused[0].en


def test_a_buffer_that_was_used_again_still_tells_who_is_behind() -> None:
    """Rank 1 keeps calls up to 90; the others' oldest is 95. The status says what its entries do not."""
    ahead = [
        flight(r, *(call(n, state="completed" if n < 99 else "started") for n in range(95, 100)))
        for r in (0, 2, 3)
    ]
    behind = flight(1, *(call(n) for n in range(80, 91)), enqueued={"0": 98})
    assert stuck((), [*ahead, behind]).ranks == (1,)


PAIR = (WORLD, Group("1", "pair", (2, 3)))


@pytest.mark.parametrize("at", [30, 60])
def test_of_a_rank_that_waits_in_another_group_the_one_it_waits_for_is_named(at: int) -> None:
    """Ranks 0 and 1 wait for 2 and 3 in the world, 2 waits for 3 in a pair: 3 holds all of them up."""
    flights = [
        flight(0, call(4, state="started", at=at), groups=PAIR),
        flight(1, call(4, state="started", at=at), groups=PAIR),
        flight(2, call(3), call(7, state="started", group="1", at=40), groups=PAIR),
        flight(3, call(3), call(6, group="1", at=20), groups=PAIR),
    ]
    assert stuck((), flights).ranks == (3,)


def test_of_a_circle_the_collective_that_began_to_wait_first_counts() -> None:
    """Rank 2 waits for 3 in the pair, 3 for 2 in the world: they took the two in another order."""
    flights = [
        flight(0, call(4, state="started", at=50), groups=PAIR),
        flight(1, call(4, state="started", at=50), groups=PAIR),
        flight(2, call(3), call(7, state="started", group="1", at=40), groups=PAIR),
        flight(3, call(3), call(6, group="1", at=30), call(4, state="started", at=60), groups=PAIR),
    ]
    assert stuck((), flights).ranks == (3,)


def test_sends_and_receives_are_not_counted_as_collectives() -> None:
    send = Call("0", 3, "send 0->1", "started", is_p2p=True)
    assert blocked([flight(0, call(1), send), flight(1, call(1))]) == []


def test_stacks_name_who_is_not_in_the_collective() -> None:
    found = stuck((), (), [stack(0, *IN), stack(1, *SLEEPS), stack(2, *IN), stack(3, *IN)])
    assert found.ranks == (1,)
    assert found.accused[0].en == (
        "stacks: rank 1 is in its own code at fetch (data.py), "
        "ranks 0, 2, 3 are in a collective at step (train.py)"
    )


def test_stacks_that_are_all_in_one_place_name_nobody_and_ask_for_the_recorder() -> None:
    found = stuck((), (), [stack(rank, *IN) for rank in range(4)])
    assert (found.ranks, found.needs) == ((), "flights")


@pytest.mark.parametrize(
    ("frames", "doing"),
    [
        (
            ("_save@torch/serialization.py", "save@torch/serialization.py", "main@train.py"),
            "writing a checkpoint",
        ),
        (
            ("poll@python3.11/select.py", "_try_get_data@torch/utils/data/dataloader.py", "main@train.py"),
            "in its data loader",
        ),
        (("sleep@util.py", "main@train.py"), "asleep"),
        (("wait@threading.py", "get@queue.py", "main@train.py"), "waiting for a lock or a queue"),
        (("compile_fx@torch/_inductor/compile_fx.py", "main@train.py"), "compiling"),
    ],
)
def test_what_a_rank_does_is_read_off_its_frames(frames: tuple[str, ...], doing: str) -> None:
    found = stuck((), (), [stack(0, *IN), stack(1, *frames), stack(2, *IN)])
    assert f"rank 1 is {doing}" in found.accused[0].en


def test_a_gone_process_is_what_the_living_wait_for() -> None:
    stands = [standing(0, "backward"), standing(1, "backward", alive=False), standing(2, "backward")]
    found = stuck(stands, (), [stack(0, *IN), stack(2, *IN)])
    assert found.ranks == (1,)
    assert found.accused[0].by == "gone"


def test_a_rank_that_said_that_it_ends_is_what_the_living_wait_for() -> None:
    assert stuck([standing(0, "backward"), standing(2, "backward")], ended=[1]).ranks == (1,)


def test_marks_that_say_otherwise_than_the_recorder_are_told_and_change_nothing() -> None:
    stands = [
        standing(0, "backward"),
        standing(1, "forward"),
        standing(2, "backward"),
        standing(3, "backward"),
    ]
    flights = [flight(rank, call(2, state="started")) for rank in (0, 1, 3)] + [flight(2, call(1))]
    found = stuck(stands, flights)
    assert found.ranks == (2,)
    assert [each.by for each in found.disagrees] == ["marks"]


def test_where_recorder_and_stacks_accuse_different_ranks_nobody_is_named() -> None:
    flights = [flight(rank, call(2, state="started")) for rank in (0, 1, 3)] + [flight(2, call(1))]
    found = stuck((), flights, [stack(0, *IN), stack(1, *SLEEPS), stack(2, *IN), stack(3, *IN)])
    assert found.ranks == ()
    assert [each.by for each in found.disagrees] == ["flight", "stacks"]


def watchdog(rank: int, sequence: int, op: str = "ALLREDUCE", last: int | None = None) -> LogEvent:
    numbers = {"sequence": float(sequence)} | ({} if last is None else {"last_enqueued": float(last)})
    return LogEvent(
        "error",
        "nccl_watchdog",
        f"WorkNCCL(SeqNum={sequence}, OpType={op}, …)",
        1,
        1,
        rank=rank,
        numbers=numbers,
    )


@pytest.mark.parametrize(
    ("events", "accused"),
    [
        ([watchdog(0, 9, last=11), watchdog(1, 9, last=10), watchdog(2, 7, last=7)], (2,)),
        ([watchdog(0, 9), watchdog(1, 9, "ALLGATHER"), watchdog(2, 9)], (1,)),
        ([watchdog(0, 9), watchdog(2, 9)], (1,)),
        ([watchdog(0, 9), watchdog(1, 9), watchdog(2, 9)], ()),
    ],
)
def test_watchdogs_accuse_who_had_not_come_so_far(events: list[LogEvent], accused: tuple[int, ...]) -> None:
    stands = [standing(rank, "backward") for rank in range(3)]
    assert stuck(stands, logs=[Log("train.log", "plain", events=tuple(events))]).ranks == accused
