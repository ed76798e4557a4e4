"""What may happen to an incident, and what its history says of it."""

from __future__ import annotations

import pytest

from stepscope.act.incident import life
from stepscope.model.alarm import About
from stepscope.model.error import UsageError
from stepscope.model.incident import Change, Gain, Incident

S = 10**9


def incident(**given: object) -> Incident:
    return Incident(
        id="i1", about=About(job="j", run="r1"), severity="info", title="slow", onset_ns=S, opened_ns=2 * S,
        **given,  # type: ignore[arg-type]
    )  # fmt: skip


def change(**given: object) -> Change:
    return Change(at_ns=4 * S, what="num_workers 2 to 8", by="ann", **given)  # type: ignore[arg-type]


BETTER = Gain(verdict="better", predicted=(0.1, 0.3), realised=0.21, noise=0.02)


def test_the_whole_life_is_in_its_history() -> None:
    one = life.acknowledged(incident(), "ann", 3 * S)
    one = life.changed(one, change(commit="0123456789abcdef"))
    one = life.judged(one, BETTER, 5 * S)
    one = life.closed(one, "ann", 6 * S, "done")
    assert (one.state, one.closed_ns, one.gain, one.change) == (
        "closed", 6 * S, BETTER, change(commit="0123456789abcdef"),
    )  # fmt: skip
    assert [(line.at_ns // S, line.by, line.what) for line in one.history] == [
        (3, "ann", "acknowledged"),
        (4, "ann", "changed: num_workers 2 to 8 (commit 0123456789ab)"),
        (5, "stepscope", "the change worked, realised 21.0 % ±2.0 %"),
        (6, "ann", "closed: done"),
    ]


@pytest.mark.parametrize(("verdict", "state"), [("same", "not_verified"), ("worse", "not_verified")])
def test_a_change_that_won_nothing_is_not_verified(verdict: str, state: str) -> None:
    gain = Gain(verdict=verdict, realised=-0.04, noise=0.02)  # type: ignore[arg-type]
    one = life.judged(life.changed(incident(), change()), gain, 5 * S)
    assert one.state == state
    assert one.history[-1].what == "the change did not work, realised −4.0 % ±2.0 %"


def test_what_cannot_be_told_leaves_it_changed() -> None:
    one = life.judged(life.changed(incident(), change()), Gain(verdict="unknown", why="3 steps"), 5 * S)
    assert one.state == "changed"
    assert one.history[-1].what == "not judged yet: 3 steps"


def test_a_second_change_begins_anew() -> None:
    one = life.judged(life.changed(incident(), change()), Gain(verdict="same"), 5 * S)
    again = life.changed(one, Change(at_ns=6 * S, what="pin_memory", by="bob"))
    assert (again.state, again.gain) == ("changed", None)


def test_what_comes_back_is_open_without_its_change() -> None:
    one = life.closed(life.judged(life.changed(incident(), change()), BETTER, 5 * S), "ann", 6 * S)
    back = life.reopened(one, "stepscope", 7 * S, "the alarm is back")
    assert (back.state, back.change, back.gain, back.closed_ns) == ("open", None, None, None)
    assert back.history[-1].what == "opened again: the alarm is back"


def test_a_step_that_does_not_fit_is_refused_with_those_that_do() -> None:
    over = life.closed(incident(), "ann", 3 * S)
    with pytest.raises(UsageError, match="i1: is closed and cannot become changed; it can become open"):
        life.changed(over, change())
    with pytest.raises(UsageError, match="is open and cannot become verified; it can become acknowledged"):
        life.judged(incident(), BETTER, 3 * S)
    with pytest.raises(UsageError, match="is open and cannot become open"):
        life.reopened(incident(), "ann", 3 * S)


def test_every_step_of_the_table_is_possible_and_no_other() -> None:
    acts = {
        "acknowledged": lambda each: life.acknowledged(each, "a", 1),
        "changed": lambda each: life.changed(each, change()),
        "verified": lambda each: life.judged(each, BETTER, 1),
        "not_verified": lambda each: life.judged(each, Gain(verdict="same"), 1),
        "closed": lambda each: life.closed(each, "a", 1),
        "open": lambda each: life.reopened(each, "a", 1),
    }
    for state, follows in life.FOLLOWS.items():
        for target, act in acts.items():
            before = incident(state=state)
            if target in follows:
                assert act(before).state == target
            else:
                with pytest.raises(UsageError):
                    act(before)


def test_secrets_in_what_people_write_are_gone() -> None:
    token = "hf_abcdefghijklmnopqrstuvwxyz012345"
    one = life.changed(
        incident(),
        Change(at_ns=1, what=f"set HF_TOKEN={token}", by="ann", config={"args": (None, f"--token {token}")}),
    )
    assert token not in repr(one)
