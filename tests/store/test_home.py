"""Rings and hosts are their agents' alone, and a number far ahead keeps nothing out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.batch import Marks
from stepscope.store.error import AnotherAgentError
from stepscope.store.retention import SECOND_NS
from stepscope.store.store import Store
from stepscope.store.stretch import has, joined, without_narrow
from tests.store.made import RETENTION, START_NS, event, marks, samples


def of(agent: str, host: str, seq: int, first: int, last: int, ring: str = "b.ring") -> Marks:
    return msgspec.structs.replace(marks(seq, first, last, ring), agent=agent, host=host)


def opened(folder: Path, now: list[int]) -> Store:
    return Store.open(str(folder), now_ns=lambda: now[0], retention=RETENTION)


def numbers(store: Store) -> list[int]:
    found = store.batches("llama", None, START_NS, START_NS + 3600 * SECOND_NS)
    return sorted(n for each in found if isinstance(each, Marks) for n in each.number)


def test_what_an_agent_says_of_another_agents_host_is_left_out_and_told(tmp_path: Path) -> None:
    now = [START_NS]
    store = opened(tmp_path, now)
    store.keep([of("A1", "hA", 1, 0, 4, "a.ring")])
    store.keep([of("B1", "hB", 1, 0, 6)])
    kept = store.keep([of("A1", "hB", 2, 6, 10), of("A1", "hB", 3, 0, 9, "other.ring")])
    assert (kept.seq, kept.fresh) == (3, ())
    assert store.keep([msgspec.structs.replace(event(4), agent="A1", host="hB")]).fresh == ()
    (fresh,) = store.keep([of("B1", "hB", 2, 6, 10)]).fresh
    assert isinstance(fresh, Marks)
    assert fresh.number == [6, 7, 8, 9]
    assert sorted(each.ring for each in store.ranks("llama", "r1")) == ["a.ring", "b.ring"]
    ((code, num, text),) = store.notes()
    assert (code, num, "A1" in text, "hB" in text) == ("store_foreign", 3, True, True)
    store.close()
    store = opened(tmp_path, now)  # whose host is whose is known after a restart too
    assert store.keep([of("A1", "hB", 5, 10, 12)]).fresh == ()
    store.close()


def test_a_ring_goes_on_under_a_new_agent_of_its_host_once_the_old_one_is_silent(tmp_path: Path) -> None:
    now = [START_NS]
    store = opened(tmp_path, now)
    store.keep([of("B1", "hB", 1, 0, 6)])
    with pytest.raises(AnotherAgentError):
        store.keep([of("B2", "hB", 1, 0, 8)])
    now[0] += 31 * SECOND_NS
    (fresh,) = store.keep([of("B2", "hB", 1, 0, 8)]).fresh
    assert isinstance(fresh, Marks)
    assert fresh.number == [6, 7]  # nothing was lost, nothing is there twice
    assert numbers(store) == list(range(8))
    assert [each.agent for each in store.ranks("llama", "r1")] == ["B2"]
    store.close()


def test_of_two_living_agents_of_one_host_the_first_one_counts(tmp_path: Path) -> None:
    now = [START_NS]
    store = opened(tmp_path, now)
    store.keep([of("B1", "hB", 1, 0, 6)])
    now[0] += SECOND_NS
    with pytest.raises(AnotherAgentError):
        store.keep([of("B2", "hB", 1, 0, 8)])
    now[0] += SECOND_NS
    store.keep([of("B1", "hB", 2, 6, 7)])
    kept = store.keep([of("B2", "hB", 1, 0, 8)])
    assert (kept.seq, kept.fresh) == (1, ())
    assert numbers(store) == list(range(7))
    store.close()


def test_a_number_far_ahead_keeps_no_later_batch_out(tmp_path: Path) -> None:
    now = [START_NS]
    store = opened(tmp_path, now)
    store.keep([event(1)])
    store.keep([event((1 << 62) - 1)])
    assert len(store.keep([event(2), samples(3)]).fresh) == 2
    assert store.keep([event(2), samples(3)]).fresh == ()
    store.close()
    store = opened(tmp_path, now)
    assert store.keep([event(1), event(2), event((1 << 62) - 1)]).fresh == ()
    assert len(store.keep([event(4)]).fresh) == 1
    store.close()


def test_a_run_whose_clock_is_ahead_is_not_the_newest_for_ever(tmp_path: Path) -> None:
    now = [START_NS]
    store = opened(tmp_path, now)
    hour = 3600 * SECOND_NS
    ahead = marks(1, 0, 4, "ahead.ring")
    identity = {**ahead.identity, "run": "ahead"}
    times = [each + hour for each in ahead.real_ns]
    store.keep([msgspec.structs.replace(ahead, identity=identity, real_ns=times)])
    now[0] += 60 * SECOND_NS
    later = marks(2, 6, 10, "later.ring")
    store.keep([msgspec.structs.replace(later, identity={**later.identity, "run": "later"})])
    assert [each.run for each in store.runs("llama")] == ["later", "ahead"]
    store.close()


NUMBERS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=8), max_size=12)


@given(NUMBERS)
def test_stretches_hold_what_was_put_into_them_and_nothing_else(parts: list[list[int]]) -> None:
    held: list[tuple[int, int]] = []
    for part in parts:
        held = joined(held, [(each, each) for each in sorted(set(part))])
    there = {each for part in parts for each in part}
    assert {number for number in range(62) if has(held, number)} == there
    assert all(a[1] + 1 < b[0] for a, b in pairwise(held))
    fewer = without_narrow(held, 2)
    assert len(fewer) <= 2
    assert all(has(fewer, each) for each in there)


def test_the_widest_gap_is_given_up_last() -> None:
    held = [(1, 9), (11, 12), (1 << 62, 1 << 62), ((1 << 62) + 2, (1 << 62) + 2)]
    assert without_narrow(held, 2) == [(1, 12), (1 << 62, (1 << 62) + 2)]
