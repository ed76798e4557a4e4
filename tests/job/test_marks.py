"""What is planted in marks is what is found: causes, ranks, steps, and nothing in healthy runs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analyse.marked.made import MS, job, judged, named
from tests.views.contract import broken as departures

PLAIN = "d1 f10 b20 o5"
NUM = 60


def lines(num=NUM, *, every=1, slow=PLAIN, plain=PLAIN, first=0, last=None):
    """Steps, of which those from `first` to `last` at a distance of `every` are slow."""
    last = num - 1 if last is None else last
    return [slow if first <= n <= last and (n - first) % every == 0 else plain for n in range(num)]


def wobbling(seed, num=NUM, ranks=1, share=0.05):
    """Ordinary steps whose phases vary by a few percent."""
    random = np.random.default_rng(seed)

    def one():
        d, f, b, o = (value * (1 + share * random.standard_normal()) for value in (1.0, 10.0, 20.0, 5.0))
        return f"d{d:.3f} f{f:.3f} b{b:.3f} o{o:.3f}"

    return [[one() for _ in range(num)] for _ in range(ranks)]


@pytest.mark.parametrize(
    ("slow", "rule"),
    [
        ("d30 f10 b20 o5", "input-starvation"),
        ("d1 _30 f10 b20 o5", "host-preprocessing"),
        ("d1 f10 _30 b20 o5", "python-stall"),
        ("d1 f10 b20 o5 l30", "logging-stall"),
        ("d1 f40(g30) b20 o5", "garbage-collection"),
    ],
)
def test_a_cause_of_every_step_is_named(slow, rule):
    told = judged(job([lines(slow=slow)]))
    assert named(told) == [(rule, ())]


@pytest.mark.parametrize(
    ("slow", "rule"),
    [("d1 f10 b20 o5 c400", "checkpoint-stall"), ("d1 f10 b20 o5 e400", "eval-stall")],
)
def test_what_comes_at_intervals_and_is_marked_has_its_own_name(slow, rule):
    told = judged(job([lines(100, every=20, first=19, slow=slow)]))
    assert named(told) == [(rule, ())]


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_pause_after_every_20th_step_is_periodic_and_not_the_loader(num_ranks):
    pausing = lines(120, every=20, first=20, slow="_1000 " + PLAIN)
    told = judged(job([pausing] * num_ranks, jitter_ns=300_000))
    ranks = [()] if num_ranks == 1 else [(0,), (1,)]
    assert sorted(named(told)) == [("periodic-stall", each) for each in ranks]
    assert told.stragglers == ()


@pytest.mark.parametrize(
    ("slow", "plain", "rule", "reason", "where"),
    [
        ("_50 d1 f10 b20 o5", PLAIN, "python-stall", "python", "between steps"),
        ("d1 _50 f10 b20 o5", PLAIN, "host-preprocessing", "preprocess", "before forward"),
        ("d1 f10 _50 b20 o5", PLAIN, "python-stall", "python", "after forward"),
        ("d1 _50 | f10 b20 o5", "d1 | f10 b20 o5", "python-stall", "python", "between steps"),
        ("d1 | _50 f10 b20 o5", "d1 | f10 b20 o5", "host-preprocessing", "preprocess", "before forward"),
        ("d1 | f10 _50 b20 o5", "d1 | f10 b20 o5", "python-stall", "python", "after forward"),
        ("d51 f10 b20 o5", PLAIN, "input-starvation", "input", "data"),
        ("d1 f60(g50) b20 o5", PLAIN, "garbage-collection", "gc", "gc"),
        ("d1 c50 f10 b20 o5", PLAIN, "checkpoint-stall", "checkpoint", "checkpoint"),
        ("d1 f60 b20 o5", PLAIN, "slow-rank", "unknown", "forward"),
    ],
)
@pytest.mark.parametrize("every", [1, 2])
def test_50_ms_of_one_rank_have_the_same_cost_wherever_they_lie_and_their_own_phase(
    slow, plain, rule, reason, where, every
):
    told = judged(job([lines(plain=plain), lines(slow=slow, plain=plain, every=every)], jitter_ns=300_000))
    (late,) = told.stragglers
    assert (late.rank, late.reason, late.culprit, late.persistence) == (1, reason, where, "persistent")
    assert late.cost_ns == pytest.approx(50 * MS * NUM / every, rel=0.2)
    assert named(told) == [(rule, (1,))]  # the one that waits is not named
    assert departures(_json(told)) == []


def test_a_late_rank_that_changes_each_step_is_moving():
    ranks = [lines() for _ in range(4)]
    for n in range(NUM):
        ranks[n % 4][n] = "d1 f10 _50 b20 o5"
    told = judged(job(ranks, jitter_ns=300_000))
    assert {each.persistence for each in told.stragglers} == {"moving"}
    assert sorted(each.rank for each in told.stragglers) == [0, 1, 2, 3]


def test_ranks_of_two_hosts_are_held_against_each_other_whatever_their_clocks():
    told = judged(
        job(
            [lines(), lines(slow="d1 f10 _50 b20 o5"), lines()],
            hosts=["a", "b", "b"], apart_ns=[0, 7 * 10**9, 7 * 10**9], jitter_ns=300_000,
        )
    )  # fmt: skip
    (late,) = told.stragglers
    assert (late.rank, late.reason) == (1, "python")
    assert late.cost_ns == pytest.approx(50 * MS * NUM, rel=0.2)


def test_where_the_host_does_not_wait_nobody_is_held_against_others():
    told = judged(job([lines(), lines(slow="d1 f10 _50 b20 o5")], meets=""))
    assert told.stragglers == ()
    assert any(each.what == "straggler" for each in told.health.withheld)
    assert named(told) == [("python-stall", (1,))]


@pytest.mark.parametrize(("first", "last"), [(120, 180), (120, 140), (0, 40), (340, 399)])
def test_a_loader_that_was_slow_for_a_while_is_found_with_those_steps(first, last):
    mine = lines(400, slow="d25 f10 b20 o5", plain="d2 f10 b20 o5", first=first, last=last)
    told = judged(job([mine]))
    (found,) = [each for each in told.findings if each.rule == "input-starvation"]
    assert found.subject.steps == (first, last)
    assert found.onset_step == first
    assert found.onset_ns == next(step.start_ns for step in told.steps if step.step == first)
    assert found.cost.time_ns == (last - first + 1) * 25 * MS
    assert found.cost.steps_share == pytest.approx(25 / 60)
    assert found.cost.share < 0.10 < found.cost.steps_share
    assert found.onset_holds is (last == 399)
    assert told.verdict.class_ == "waiting-for-data"
    assert f"steps {first} to {last}" in told.verdict.text
    assert departures(_json(told)) == []


def test_a_rank_that_was_late_for_a_while_is_found_with_those_steps():
    slow = lines(400, slow="d1 f10 _50 b20 o5", first=120, last=180)
    told = judged(job([lines(400), slow], jitter_ns=300_000))
    (late,) = told.stragglers
    assert (late.rank, min(late.late_steps), max(late.late_steps)) == (1, 120, 180)
    (found,) = [each for each in told.findings if each.explained_by is None and each.severity != "info"]
    assert (found.rule, found.subject.steps, found.subject.ranks) == ("python-stall", (120, 180), (1,))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_a_healthy_run_has_nothing_above_a_note(seed, num_ranks):
    told = judged(job(wobbling(seed, 200 if num_ranks == 1 else 60, num_ranks), jitter_ns=300_000, seed=seed))
    assert named(told) == []
    assert told.stragglers == ()
    assert told.verdict.class_ == "undecided"


def test_marks_say_clear_only_of_what_they_can_see():
    told = judged(job([lines()]))
    out = {each.rule for each in told.ruled_out}
    assert {"input-starvation", "python-stall", "host-preprocessing", "periodic-stall"} <= out
    assert not out & {
        "small-kernels",
        "launch-bound",
        "hidden-sync",
        "checkpoint-stall",
        "garbage-collection",
        "compute-bound",
        "tensor-cores-unused",
        "exposed-copy",
        "logged-out-of-memory",
        "memory-leak",
        "exposed-communication",
    }
    opened = {each.rule: each for each in told.undecided}
    assert {"launch-bound", "hidden-sync", "checkpoint-stall"} <= set(opened)
    assert opened["launch-bound"].would_settle


@pytest.mark.parametrize("flag", ["captured", "stalled", "shadow"])
def test_our_own_captures_are_no_finding(flag):
    slow = lines(slow="d900 f10 b20 o5", first=20, last=27)
    told = judged(job([slow], flags=dict.fromkeys(range(20, 28), flag)))
    assert named(told) == []


def _json(told):
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(told))
