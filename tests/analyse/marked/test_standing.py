"""Which rank is elsewhere, when a job stands still."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.marked.standing import Standing, elsewhere, standings
from tests.analyse.marked.made import MS, job


def stand(rank: int, step: int | None, phase: str | None, since_ns: int = 0, **more: object) -> Standing:
    given = {"last_step": 95, "is_alive": True} | more
    return Standing(rank=rank, step=step, phase=phase, since_ns=since_ns, **given)  # type: ignore[arg-type]


def ranks(of: tuple[Standing, ...]) -> list[int | None]:
    return [each.rank for each in of]


def test_of_two_ranks_the_one_that_came_less_far_is_elsewhere() -> None:
    # Rank 0 left the forward pass at 30 ms, in which rank 1 has been since 10 ms.
    assert ranks(elsewhere([stand(0, 96, "optimizer", 30 * MS), stand(1, 96, "forward", 10 * MS)])) == [1]
    # A rank that is a step behind is so although it went into its phase later.
    assert ranks(elsewhere([stand(0, 96, "forward", 5), stand(1, 95, "backward", 9)])) == [1]
    # Between steps 95 and 96 is behind step 96.
    assert ranks(elsewhere([stand(0, 96, "forward"), stand(1, None, None)])) == [1]


def test_of_many_ranks_those_outside_of_the_largest_group_are_elsewhere() -> None:
    many = [stand(n, 96, "backward", 20) for n in range(8)]
    assert elsewhere(many) == ()
    many[3] = stand(3, 96, "checkpoint", 30)
    assert ranks(elsewhere(many)) == [3]
    many[5] = stand(5, 96, "data", 10)
    assert ranks(elsewhere(many)) == [3, 5]


def test_a_rank_that_is_gone_is_the_one_that_the_living_wait_for() -> None:
    assert ranks(elsewhere([stand(0, 96, "backward"), stand(1, 96, "backward", is_alive=False)])) == [1]
    # Where all are gone, their places tell.
    both = [stand(0, 96, "optimizer", 9, is_alive=False), stand(1, 96, "forward", 5, is_alive=False)]
    assert ranks(elsewhere(both)) == [1]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("dfb"), st.integers(0, 9)), max_size=9))
def test_never_all_ranks_are_elsewhere_and_order_does_not_matter(of: list[tuple[int, str, int]]) -> None:
    stands = [stand(n, step, phase, since) for n, (step, phase, since) in enumerate(of)]
    odd = elsewhere(stands)
    assert len(odd) < max(len(stands), 1)
    assert set(ranks(elsewhere(stands[::-1]))) == set(ranks(odd))


def test_who_said_that_it_ends_stands_nowhere() -> None:
    first, second = job([["f10 b20"] * 3] * 2)
    second = replace(second, exit_ns=None, open_step=3, open_phase="forward", open_since_ns=second.last_ns)
    (found,) = standings([replace(first, exit_ns=first.last_ns), second])
    assert (found.rank, found.step, found.last_step, found.phase) == (1, 3, 2, "forward")
