"""Captures that a server asks for: agreed over nodes, within budgets, told when they come to nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stepscope.act.capture import Budget, Limits
from stepscope.model.error import InputError
from stepscope.server.capture_trace import NotWanted, TooLarge
from tests.server.hand import MS, World, trace

S = 1_000_000_000
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def left_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_file())


def test_a_capture_is_done_when_all_nodes_have_sent_the_trace_of_the_same_steps(tmp_path: Path) -> None:
    world = World(tmp_path)
    doc = world.ended(world.ask().id)
    assert (doc.state, doc.ranks, doc.num_missing, doc.attempts) == ("done", (0, 1), 0, 1)
    first, last = doc.steps
    assert last == first + 2
    for node in world.nodes:
        assert node.rank.traces == {doc.capture: (first, first + 1, first + 2)}
    assert len(world.store.traces("llm", "r1", doc.id)) == 2
    assert (doc.stall_ns, doc.seconds) == (80 * MS, 1.5)
    assert [each.state for each in world.told] == ["agreeing", "agreeing", "recording", "sending", "done"]
    assert left_in(tmp_path) == []
    assert world.captures.num_ended == {("llm", "done"): 1}
    assert world.captures.cost["llm", "stall_ns"] == 80 * MS


def test_the_margin_begins_at_two_seconds_and_then_follows_what_orders_really_took(tmp_path: Path) -> None:
    world = World(tmp_path, late_ns=300 * MS)
    doc = world.ended(world.ask().id)
    assert doc.delay_ns == 2 * S
    again = world.ended(world.ask().id)
    assert 250 * MS <= again.delay_ns <= 900 * MS
    assert again.state == "done"


def test_a_rank_that_says_too_late_is_asked_again_with_twice_the_margin(tmp_path: Path) -> None:
    world = World(tmp_path, late_ns=1500 * MS, limits=Limits(least_margin_steps=1, attempts=4))
    for node in world.nodes:  # as if orders took no time
        for _ in range(8):
            world.captures._delays.note(node.agent, 0)
    doc = world.ended(world.ask().id)
    assert (doc.state, doc.attempts) == ("done", 3)
    steps = [each.first_step for each in world.nodes[0].commands if each.command == "propose"]
    assert len(steps) == 3
    assert doc.steps[0] == steps[-1]
    assert len({each.capture for each in world.nodes[0].commands}) == 3


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(captures_per_hour=1), "1 captures in the last hour, the budget is 1"),
        (Budget(overhead_ratio=0.00001), "2.22222e-05 of the time held up in the last hour"),
        (Budget(seconds=1.0), "1.5 seconds of captured steps in the last hour, the budget is 1"),
    ],
)
def test_what_goes_beyond_the_budget_of_the_hour_is_refused_and_said(
    tmp_path: Path, budget: Budget, why: str
) -> None:
    world = World(tmp_path, budget=budget)
    world.ended(world.ask().id)
    no = world.ask()
    assert no.state == "refused"
    assert why in no.refusal
    assert world.captures.get(no.id) == no
    assert no.hour.captures == 1
    world.real_ns += 3600 * S
    assert world.ask().state == "agreeing"


def test_one_capture_of_a_job_at_a_time_and_none_just_behind_another(tmp_path: Path) -> None:
    world = World(tmp_path, cooldown_s=30.0)
    first = world.ask()
    assert world.ask().refusal == f"capture {first.id} of this job is under way"
    ended = world.ended(first.id)
    no = world.ask()
    assert no.refusal.startswith("the last capture of this job has only just ended; ask again in ")
    world.run(31.0 - (world.real_ns - ended.ended_ns) / 1e9)
    assert world.ask().state == "agreeing"


def test_nothing_is_kept_when_an_agent_falls_silent_in_the_middle(tmp_path: Path) -> None:
    world = World(tmp_path)
    id = world.ask().id
    world.run(1.0)
    world.nodes[1].is_away = True
    doc = world.ended(id)
    assert (doc.state, doc.steps) == ("failed", None)
    assert doc.refusal == "rank 1 on node1 is on a node whose agent is silent"
    assert world.store.traces("llm", "r1", id) == ()
    world.run(10.0)
    assert world.nodes[0].rank.traces == {}
    assert [each.command for each in world.nodes[0].commands][-1] == "cancel"


def test_nothing_is_kept_when_one_trace_does_not_come(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.nodes[1].sends = False
    doc = world.ended(world.ask().id)
    assert (doc.state, doc.refusal) == ("failed", "rank 1 on node1: no trace has come in time")
    assert len(world.nodes[1].uploads) > 3  # asked again: an agent may have started anew
    assert (world.store.traces("llm", "r1", doc.id), left_in(tmp_path)) == ((), [])
    world.run(3.0)
    assert [node.rank.traces for node in world.nodes] == [{}, {}]


def test_a_node_that_refuses_ends_the_capture_with_its_own_words(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.nodes[0].refuses = "no capture: captures are switched off on this node (--no-capture)"
    doc = world.ended(world.ask().id)
    assert (doc.state, doc.attempts) == ("failed", 1)
    assert doc.refusal.startswith("rank 0 on node0: refused (no capture: captures are switched off")


def test_a_rank_that_ends_is_no_part_of_a_capture_and_ends_one_that_it_is_part_of(tmp_path: Path) -> None:
    world = World(tmp_path)
    id = world.ask().id
    world.run(0.5)
    gone = world.nodes[1]
    gone.rank.is_alive = False
    gone.ship(gone.marks(is_alive=False))
    assert world.ended(id).refusal == "rank 1 on node1 ended"
    assert world.captures.ask("llm", "r2", world_request(), by="x", why="y").refusal is not None


def world_request():  # type: ignore[no-untyped-def]
    from stepscope.act.capture import Request

    return Request()


def test_only_the_ranks_that_are_asked_for_record(tmp_path: Path) -> None:
    world = World(tmp_path, num=3)
    doc = world.ended(world.ask(ranks=frozenset({2})).id)
    assert (doc.state, doc.ranks, len(doc.parts)) == ("done", (2,), 1)
    assert world.nodes[0].commands == []


def test_a_server_that_starts_again_lets_ranks_go_of_what_was_under_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    id = world.ask().id
    while world.captures.get(id).state != "recording":
        world.run(0.1)
    newest = world.captures._queues.newest
    world.captures._end_listening()
    world.captures = world.made()
    doc = world.captures.get(id)
    assert (doc.state, doc.refusal) == ("failed", "the server was started again in the middle of it")
    world.run(10.0)
    assert all(node.rank.traces == {} for node in world.nodes)
    assert all(node.commands[-1].command == "cancel" for node in world.nodes)
    assert all(node.commands[-1].seq > newest for node in world.nodes)
    assert world.ended(world.ask().id).state == "done"


def test_a_capture_asked_for_before_all_ranks_have_shown_themselves_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.captures._end_listening()
    world.captures = world.made()
    assert world.ask().refusal == "no rank of it marks its steps now"
    world.nodes[0].ship(world.nodes[0].marks(("step_begin", 90, -1, 0.0)))
    world.run(0.35)
    world.captures._table._ranks.pop(world.nodes[1].ring, None)
    assert "only 1 ranks have shown themselves" in world.ask().refusal


# ── traces ──


@pytest.fixture
def sending(tmp_path: Path) -> World:
    """A capture that waits for both traces."""
    world = World(tmp_path, most_trace_bytes=1 << 20)
    for node in world.nodes:
        node.sends = False
    world.ask()
    while not world.told or world.told[-1].state != "sending":
        world.run(0.1)
    return world


def test_a_trace_is_taken_once_from_whom_it_was_asked_of_and_for_that_capture_alone(sending: World) -> None:
    doc, (one, two) = sending.told[-1], sending.nodes
    take = sending.captures.take_trace
    for capture, ring, agent in (
        (doc.capture + 1, one.ring, one.agent),
        (doc.capture, "rank7.ring", one.agent),
        (doc.capture, one.ring, two.agent),
        (doc.capture, "../../etc/passwd", one.agent),
    ):
        with pytest.raises(NotWanted):
            take(capture, ring, agent, [trace(doc.capture, 0)])
    one.send(doc.capture)
    with pytest.raises(NotWanted, match="is here already"):
        one.send(doc.capture)
    two.send(doc.capture)
    assert sending.ended(doc.id).state == "done"
    with pytest.raises(NotWanted):
        one.send(doc.capture)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", InputError),
        (b"\x1f\x8b\x08\x00nonsense that is no gzip", InputError),
        (gzip.compress(b'{"traceEvents": [')[:-4], InputError),
        (gzip.compress(b"<html>a login page</html>"), InputError),
        (gzip.compress(b"[" * 100_000), InputError),
        (gzip.compress(json.dumps({"a": {"b": [1]}}).encode()), InputError),
        (trace(1, 0), InputError),
        (gzip.compress(b" " * (200 << 20), 1)[: 1 << 20], InputError),
        (bytes(2 << 20), TooLarge),
    ],
    ids="empty no-gzip cut page deep no-trace another bomb large".split(),
)
def test_what_is_no_trace_of_this_capture_leaves_nothing_behind(
    sending: World, body: bytes, error: type[Exception]
) -> None:
    doc, node = sending.told[-1], sending.nodes[0]
    with pytest.raises(error):
        sending.captures.take_trace(doc.capture, node.ring, node.agent, [body])
    assert left_in(sending.store.folder) == []
    node.send(doc.capture)  # and the right one is still taken


def test_a_trace_of_another_rank_is_refused(sending: World) -> None:
    with pytest.raises(InputError, match="is of rank 1, not of rank 0"):
        sending.nodes[0].send(sending.told[-1].capture, rank=1)


def test_a_secret_in_a_trace_is_nowhere_in_the_store(sending: World) -> None:
    doc = sending.told[-1]
    for node in sending.nodes:
        node.send(doc.capture, text=f"clone https://x:{SECRET}@host/", hf_token=SECRET)
    assert sending.ended(doc.id).state == "done"
    for path in sending.store.traces("llm", "r1", doc.id):
        text = gzip.decompress(Path(path).read_bytes()).decode()
        assert SECRET not in text
        assert json.loads(text)["stepscope"]["capture"] == doc.capture
    assert not any(SECRET.encode() in each.body for each in sending.store.kept.values())
