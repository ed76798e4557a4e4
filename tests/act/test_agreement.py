"""The agreement over ranks that are not there: worked examples, and laws over any order of events."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.act.capture.request import Limits
from tests.act.cluster import Cluster, Rank


def test_all_ranks_record_the_agreed_steps_and_no_other():
    cluster = Cluster([Rank(10), Rank(12), Rank(11)], num_steps=3, delay_ns=40_000_000)
    outcome = cluster.finish()
    # The foremost is at step 12; 3 steps, and twice 40 ms of steps of 20 ms ahead of it.
    assert outcome.is_done
    assert outcome.first_step == 12 + 3 + 2 * 2
    assert [rank.traces for rank in cluster.ranks.values()] == [{1: (19, 20, 21)}] * 3
    assert [each.answer for each in outcome.ranks] == ["done"] * 3


def test_captured_steps_and_those_that_were_held_up_say_so():
    cluster = Cluster([Rank(0)], num_steps=2, delay_ns=0)
    cluster.finish()
    flags = cluster.ranks["rank0.ring"].flags
    # T = 3: the warm-up holds up step 2, the start 3, the end of 4 and what is written then holds up 5.
    assert [flags.get(step) for step in range(1, 6)] == [0, 4, 2 | 4, 2, 4]


def test_nothing_is_recorded_without_a_commit():
    cluster = Cluster([Rank(0), Rank(0)])
    cluster.look()
    for rank in cluster.ranks.values():
        for _ in range(40):
            rank.move()
    assert [rank.answers for rank in cluster.ranks.values()] == [{1: "cancelled"}] * 2
    assert [rank.traces for rank in cluster.ranks.values()] == [{}, {}]


def test_a_rank_that_has_passed_the_step_cancels_all_and_doubles_the_margin():
    ranks = [Rank(0), Rank(0)]
    cluster = Cluster(ranks, delay_ns=0)
    cluster.look()
    for _ in range(8):
        ranks[1].move()  # it is at step 4 before it sees that T = 3 was meant
    ranks[0].move()
    cluster.look()
    assert [order.command for order in cluster.orders[2:]] == ["cancel"] * 2
    outcome = cluster.finish()
    assert outcome.is_done
    assert (outcome.attempts, outcome.capture) == (2, 2)
    second = next(order for order in cluster.orders if order.capture == 2)
    assert second.first_step - 3 * 2 >= 4
    assert {tuple(rank.traces) for rank in ranks} == {(2,)}


def test_a_commit_that_one_rank_sees_too_late_leaves_no_trace_in_any():
    ranks = [Rank(0), Rank(0)]
    cluster = Cluster(ranks, delay_ns=0, limits=Limits(attempts=1))
    cluster.look()
    for rank in ranks:
        rank.move()
    cluster.look()  # all armed: commit
    assert cluster.orders[-1].command == "commit"
    for _ in range(7):
        ranks[0].move()  # rank 0 records T = 3 already
    held = ranks[1].word
    ranks[1].word = ranks[1].last  # rank 1 does not see the commit before its step 2 begins
    for _ in range(4):
        ranks[1].move()
    ranks[1].word = held
    outcome = cluster.finish()
    assert not outcome.is_done
    assert outcome.why == "rank1: cancelled"
    assert [rank.traces for rank in ranks] == [{}, {}]


def test_another_profiler_in_one_rank_is_refused_at_once_and_not_tried_again():
    ranks = [Rank(0), Rank(0, refuses="busy")]
    outcome = Cluster(ranks).finish()
    assert (outcome.is_done, outcome.why, outcome.attempts) == (False, "rank1: busy", 1)
    assert ranks[0].answers == {1: "cancelled"}


def test_a_rank_that_dies_between_armed_and_commit_cancels_the_others():
    ranks = [Rank(0), Rank(0)]
    cluster = Cluster(ranks)
    cluster.look()
    for rank in ranks:
        rank.move()
    ranks[1].is_alive = False
    outcome = cluster.finish()
    assert (outcome.is_done, outcome.why) == (False, "rank1 ended")
    assert ranks[0].answers == {1: "cancelled"}
    assert ranks[0].traces == {}


def test_a_rank_that_hangs_ends_the_agreement_within_its_deadline():
    ranks = [Rank(0), Rank(0)]
    ranks[1].is_stuck = True
    cluster = Cluster(ranks, limits=Limits(answer_ns=2_000_000_000))
    outcome = cluster.finish()
    assert not outcome.is_done
    assert cluster.now < 10_000_000_000
    assert [rank.traces for rank in ranks] == [{}, {}]


def test_a_trace_that_was_written_goes_when_another_rank_failed_to_write_its_own():
    ranks = [Rank(0), Rank(0, fails=("write",))]
    outcome = Cluster(ranks).finish()
    assert (outcome.is_done, outcome.why) == (False, "rank1: failed")
    assert [rank.traces for rank in ranks] == [{}, {}]


def test_a_trace_that_is_being_written_goes_when_another_rank_failed():
    ranks = [Rank(0), Rank(0, fails=("stop",))]
    cluster = Cluster(ranks, delay_ns=0)
    while ranks[0].thread is None or ranks[1].answers.get(1) != "failed":
        for rank in ranks:
            rank.move()
        cluster.look()
    for _ in range(3):
        ranks[0].move()  # it sees the cancel, and its trace is not written yet
    assert ranks[0].answers == {1: "armed"}
    ranks[0].export()
    assert (ranks[0].answers, ranks[0].traces) == ({1: "cancelled"}, {})


def test_sixty_four_ranks_agree():
    cluster = Cluster([Rank(100 + n % 3) for n in range(64)])
    assert cluster.finish().is_done
    assert {tuple(rank.traces.values()) for rank in cluster.ranks.values()} == {((109, 110, 111),)}


EVENT = st.one_of(
    st.tuples(st.just("move"), st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("all move"), st.just(0), st.integers(1, 4)),
    st.tuples(st.sampled_from(["export", "kill", "hang", "go on"]), st.integers(0, 3), st.just(1)),
    st.tuples(st.just("look"), st.sampled_from([1_000_000, 50_000_000, 3_000_000_000]), st.just(1)),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    starts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    fails=st.lists(
        st.sampled_from(["", "", "", "prepare", "start", "stop", "write"]), min_size=4, max_size=4
    ),
    events=st.lists(EVENT, max_size=120),
    num_steps=st.integers(1, 4),
)
def test_in_any_order_of_events_all_living_ranks_hold_the_same_steps_or_none_holds_any(
    starts, fails, events, num_steps
):
    ranks = [Rank(step, fails=[bad]) for step, bad in zip(starts, fails, strict=False)]
    cluster = Cluster(ranks, num_steps=num_steps, delay_ns=0)
    for what, value, times in events:
        if what == "look":
            cluster.look(value)
            continue
        rank = ranks[value % len(ranks)]
        if what in ("move", "all move"):
            for _ in range(times):
                for each in ranks if what == "all move" else [rank]:
                    each.move()
        elif what == "export":
            rank.export()
        elif what == "kill":
            rank.is_alive = len(ranks) > 1 and rank.is_alive and rank is not ranks[-1]
        else:
            rank.is_stuck = what == "hang"
    outcome = cluster.finish()
    assert outcome is not None
    living = [rank for rank in ranks if rank.is_alive]
    if outcome.is_done:
        first = outcome.first_step
        steps = tuple(range(first, first + num_steps))
        assert [rank.traces for rank in living] == [{outcome.capture: steps}] * len(living)
    else:
        assert [rank.traces for rank in living] == [{}] * len(living)
    assert all(said == ["armed"] * len(ranks) for said in cluster.committed)
