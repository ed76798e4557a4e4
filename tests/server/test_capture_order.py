"""Queues of orders: each order once, ascending over restarts, and nobody waits for long behind a beat."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.order import Stacks
from stepscope.server.capture_order import MOST_AGE_NS, MOST_ORDERS, OrderQueues
from tests.server.document_store import DocumentStore

NOW_NS = 1_800_000_000_000_000_000


def queues(store: DocumentStore, now_ns: int = NOW_NS, mono_ns: list[int] | None = None) -> OrderQueues:
    at = mono_ns or [0]
    return OrderQueues(store, lambda: now_ns, lambda: at[0])


def put(made: OrderQueues, agent: str, name: str) -> None:
    made.put(agent, lambda seq: Stacks(seq, (name,)))


def names(made: OrderQueues, agent: str, after: int) -> tuple[list[str], int]:
    found = made.take(agent, after, 0.0)
    return [each.rings[0] for each in found.orders if isinstance(each, Stacks)], found.next


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(("put a", "put b", "ask a", "ask b", "restart", "lost a"))))
def test_an_agent_gets_each_order_once_and_in_order_whatever_happens_between(acts: list[str]) -> None:
    store = DocumentStore(Path("unused"))
    made, now_ns = queues(store), NOW_NS
    given_: dict[str, list[str]] = {"a": [], "b": []}
    got: dict[str, list[str]] = {"a": [], "b": []}
    after = {agent: names(made, agent, -1)[1] for agent in "ab"}
    newest = made.newest
    for number, (act, _, agent) in enumerate(each.partition(" ") for each in acts):
        if act == "put":
            put(made, agent, f"{number}")
            given_[agent].append(f"{number}")
            assert made.newest > newest
            newest = made.newest
        elif act == "ask":
            found, after[agent] = names(made, agent, after[agent])
            got[agent] += found
        elif act == "lost":  # the answer was lost: what it held comes again
            names(made, agent, after[agent])
        else:  # what was not fetched is lost with the server; numbers go on, also where the clock went back
            now_ns -= 3_600_000_000_000
            made = queues(store, now_ns)
            given_ = {each: got[each] + [] for each in given_}
    for agent in "ab":
        got[agent] += names(made, agent, after[agent])[0]
        assert got[agent] == given_[agent]


def test_an_agent_that_begins_gets_nothing_old() -> None:
    made = queues(DocumentStore(Path("unused")))
    put(made, "a", "old")
    assert names(made, "a", -1) == ([], made.newest)
    assert names(made, "a", made.newest + 10**9) == ([], made.newest)  # of another server's store


def test_orders_that_nobody_fetches_are_bounded_in_number_and_age() -> None:
    mono_ns = [0]
    made = queues(DocumentStore(Path("unused")), mono_ns=mono_ns)
    for number in range(MOST_ORDERS + 5):
        put(made, "a", str(number))
    found, _ = names(made, "a", 0)
    assert (len(found), found[0]) == (MOST_ORDERS, "5")
    mono_ns[0] += MOST_AGE_NS + 1
    assert names(made, "a", 0)[0] == []


def test_who_waits_is_woken_by_an_order_of_its_own_alone() -> None:
    made = OrderQueues(DocumentStore(Path("unused")), time.time_ns, time.monotonic_ns)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(made.take("a", made.newest, 30.0).orders))
    thread.start()
    while made.heard_ns("a") is None:
        time.sleep(0.01)
    put(made, "b", "other")
    thread.join(0.1)
    assert thread.is_alive()
    put(made, "a", "own")
    thread.join(20)
    assert [each.rings for each in found[0]] == [("own",)]  # type: ignore[attr-defined]


def test_waiting_takes_no_thread_where_it_need_not() -> None:
    made = OrderQueues(DocumentStore(Path("unused")), time.time_ns, time.monotonic_ns)

    async def all_of_them() -> list[int]:
        waits = [asyncio.ensure_future(made.take_async(f"a{n}", made.newest, 30.0)) for n in range(200)]
        await asyncio.sleep(0.05)
        for n in range(200):
            put(made, f"a{n}", str(n))
        return [len((await each).orders) for each in waits]

    assert asyncio.run(all_of_them()) == [1] * 200


def test_an_agent_in_a_capture_is_answered_within_its_beat_and_all_are_when_the_server_ends() -> None:
    made = OrderQueues(DocumentStore(Path("unused")), time.time_ns, time.monotonic_ns)
    made.joined("a", 1)
    assert made._wait_s("a", 20.0) == 2.0
    made.joined("a", -1)
    assert made._wait_s("a", 20.0) == 20.0
    thread = threading.Thread(target=lambda: made.take("a", made.newest, 30.0))
    thread.start()
    made.close()
    thread.join(20)
    assert not thread.is_alive()
