"""What agents send is kept once, acknowledged when it is, and refused whole where it is damaged."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.model.batch import Samples
from stepscope.server.auth import new_token
from stepscope.server.limit import Limits
from stepscope.sources.formats.frame import Header, pack_frame, pack_header
from stepscope.store.error import AnotherAgentError
from tests.agent.made import event, marked, node_second
from tests.server.memory_store import MemoryStore
from tests.server.served import Asked, body_of, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving() as asked:
        yield asked


def test_a_body_is_acknowledged_up_to_its_last_number_and_told_to_who_listens(server: Asked) -> None:
    heard: list[Any] = []
    end = server.parts.feed.listen("batches", heard.append)
    said = server.ingest(body_of(node_second(0), *marked([(0.1, 0.4)] * 3), event("hello"), agent="told"))
    end()
    assert (said.status, said.json) == (200, {"agent": "told", "seq": 3, "wait_s": 0.0})
    assert [type(each).__name__ for each in heard[0]] == ["Samples", "Marks", "Happened"]
    assert len([each for each in server.store.kept if each.agent == "told"]) == 3


def test_a_body_that_comes_twice_is_kept_once_and_acknowledged_twice(server: Asked) -> None:
    body = body_of(event("once"), event("and only once"), agent="twice")
    assert server.ingest(body).json == server.ingest(body).json == {"agent": "twice", "seq": 2, "wait_s": 0.0}
    assert len([each for each in server.store.kept if each.agent == "twice"]) == 2
    assert "stepscope_server_ingest_duplicate_batches_total 2" in server.get("/metrics").body.decode()


def test_a_packed_body_is_taken(server: Asked) -> None:
    body = gzip.compress(body_of(node_second(0), agent="packed"))
    assert server.ingest(body, Content_Encoding="gzip").json["seq"] == 1


def test_a_body_that_unpacks_to_too_much_is_refused(server: Asked) -> None:
    bomb = gzip.compress(bytes(64 << 20), 9)
    assert len(bomb) < 100_000
    assert server.ingest(bomb, Content_Encoding="gzip").status == 413


def test_batches_that_unpack_to_too_much_together_are_refused() -> None:
    big = event("x" * 2_000_000)
    with serving(limits=Limits(unpacked_bytes=4 << 20)) as server:
        assert len(body_of(big, big, big)) < 100_000
        assert server.ingest(body_of(big)).status == 200
        assert server.ingest(body_of(big, big, big, first=2)).status == 413
        assert server.store.last == {"agent-1": 1}


@pytest.mark.parametrize(
    ("break_", "word"),
    [
        (lambda body: body[:-3], "middle"),
        (lambda body: body[:100] + bytes([body[100] ^ 1]) + body[101:], "damaged"),
        (lambda body: b"\0" + body[1:], "no segment"),
        (lambda body: body[:40], "no segment"),
        (lambda body: body[:64], "no batch"),
        (lambda body: b"", "no segment"),
        (lambda body: body + body[64:], "out of order"),
    ],
    ids=["cut", "a bit", "magic", "half a head", "no frame", "empty", "numbers that fall"],
)
def test_a_damaged_body_is_refused_whole(server: Asked, break_: Any, word: str) -> None:
    said = server.ingest(break_(body_of(node_second(0), event("x"), agent="damaged")))
    assert said.status == 400
    assert word in said.json["error"]
    assert "damaged" not in server.store.last


def _wire(batch: dict[str, Any], seq: int = 1, agent: str = "strange") -> bytes:
    """A frame of any map, with its checksum."""
    from struct import pack
    from zlib import crc32

    payload = pack("<BQ", 0, seq) + msgspec.msgpack.encode({"agent": agent, "seq": seq, "host": "h"} | batch)
    length = len(payload).to_bytes(4, "little")
    return length + crc32(payload, crc32(length, crc32(agent.encode()))).to_bytes(4, "little") + payload


def test_a_kind_of_a_newer_agent_is_counted_and_acknowledged(server: Asked) -> None:
    known = msgspec.structs.replace(event("known"), agent="strange", seq=1)
    body = pack_header(Header("strange", 1)) + pack_frame(known) + _wire({"kind": "weather"}, 2)
    assert server.ingest(body).json["seq"] == 2
    assert "stepscope_server_ingest_unknown_batches_total 1" in server.get("/metrics").body.decode()


_MARK: dict[str, Any] = {
    "kind": "marks", "ring": "r", "identity": {}, "names": [], "number": [1], "record_kind": [1],
    "flags": [0], "step": [0], "mono_ns": [0], "real_ns": [0], "a": [0], "b": [0.0], "c": [0.0],
}  # fmt: skip


@pytest.mark.parametrize(
    "batch",
    [
        {"kind": "event"},
        {"kind": "event", "at_ns": -1, "what": "x", "text": "y"},
        {"kind": "event", "at_ns": 1 << 63, "what": "x", "text": "y"},
        {"kind": "lines", "log": "kernel", "name": "", "at_ns": [1, 2], "text": ["one"]},
        {"kind": "samples", "source": "x", "series": [
            {"signal": "power_watts", "owner": {}, "at_ns": [1], "value": [1.0, 2.0]}]},
        {"kind": "samples", "source": "x", "series": [
            {"signal": "power_watts", "owner": {}, "at_ns": [1 << 62], "value": [1.0]}]},
        {"kind": "marks", "ring": "r", "identity": {}, "names": [], "number": [1 << 63], "record_kind": [1],
         "flags": [0], "step": [0], "mono_ns": [0], "real_ns": [0], "a": [0], "b": [0.0], "c": [0.0]},
        _MARK | {"real_ns": [(1 << 63) - 1]},
        _MARK | {"identity": {"world_size": (1 << 63) - 1}},
        _MARK | {"ring": "../r"},
        _MARK | {"host": "a/b"},
        _MARK | {"identity": {"job": "j" * 1025}},
        {"kind": "lines", "log": "nccl", "name": "", "at_ns": [], "text": [], "labels": {"job": "j" * 1025}},
        {"kind": "samples", "source": "x", "series": [
            {"signal": "power_watts", "owner": {"index": 1 << 63}, "at_ns": [1], "value": [1.0]}]},
    ],
    ids=[
        "lacks", "before 1970", "beyond 64 bits", "lines", "columns", "time", "number", "year 2262",
        "a world", "a path", "a host", "a long job", "a label", "an index",
    ],
)  # fmt: skip
def test_a_batch_that_no_agent_can_have_read_is_refused(server: Asked, batch: dict[str, Any]) -> None:
    said = server.ingest(pack_header(Header("strange", 1)) + _wire(batch, 7))
    assert said.status == 400, said.body
    assert "byte 64" in said.json["error"]


def test_a_number_of_a_batch_beyond_62_bits_is_refused(server: Asked) -> None:
    event_ = {"kind": "event", "at_ns": 1, "what": "x", "text": "y"}
    said = server.ingest(pack_header(Header("strange", 1)) + _wire(event_, 1 << 63))
    assert (said.status, "number" in said.json["error"]) == (400, True)


def test_a_value_that_its_signal_cannot_have_is_told_as_missing(server: Asked) -> None:
    series = [
        {"signal": name, "owner": {"uuid": "GPU-1"}, "at_ns": [1, 2, 3], "value": value}
        for name, value in (("compute_busy_ratio", [-1e18, 0.5, 2.0]), ("power_watts", [1e308, 5.0, 6.0]))
    ]
    batch = {"kind": "samples", "source": "x", "series": series}
    heard: list[Any] = []
    end = server.parts.feed.listen("batches", heard.append)
    assert server.ingest(pack_header(Header("absurd", 1)) + _wire(batch, 1, "absurd")).status == 200
    end()
    ((told,),) = heard
    assert [(each.at_ns, each.value) for each in told.series] == [([2], [0.5]), ([2, 3], [5.0, 6.0])]
    assert told.missing == [("compute_busy_ratio", "out_of_range", 2), ("power_watts", "out_of_range", 1)]


def test_another_content_type_is_refused(server: Asked) -> None:
    assert server.ingest(body_of(event("x")), Content_Type="application/json").status == 415
    assert server.ingest(body_of(event("x")), Content_Encoding="br").status == 415


def test_a_store_that_takes_nothing_is_503_and_nothing_is_acknowledged() -> None:
    store = MemoryStore()
    with serving(store=store) as server:
        store.fails = OSError(28, "No space left on device", "/srv/data/secret-place")
        said = server.ingest(body_of(event("x")))
        assert said.status == 503
        assert int(said.headers["retry-after"]) >= 1
        assert b"secret-place" not in said.body
        store.fails = None
        assert server.ingest(body_of(event("x"))).json["seq"] == 1


def test_a_token_of_one_agent_ships_for_no_other() -> None:
    with serving(has_tokens=True, agent="agent-1") as server:
        assert server.ingest(body_of(event("x"), agent="agent-1"), role="agent").status == 200
        assert server.ingest(body_of(event("x"), agent="agent-2"), role="agent").status == 403
        assert server.ingest(body_of(event("x"), agent="agent-1"), role="viewer").status == 403
        assert server.ingest(body_of(event("x"), agent="agent-1")).status == 401


def test_no_unbound_token_ships_for_an_agent_that_has_one_of_its_own() -> None:
    with serving(has_tokens=True) as server:
        assert server.ingest(body_of(event("x"), agent="agent-1"), role="agent").status == 200
        _, bound = new_token("of-agent-1", "agent", 1, "agent-1")
        server.parts.auth.set_stored([*server.parts.auth._stored.values(), bound])
        said = server.ingest(body_of(event("y"), agent="agent-1", first=1 << 61), role="agent")
        assert (said.status, said.json["error"]) == (403, "this agent has a token of its own")
        assert server.ingest(body_of(event("x"), agent="agent-2"), role="agent").status == 200


def test_marks_that_another_agent_ships_wait() -> None:
    store = MemoryStore()
    with serving(store=store) as server:
        store.fails = AnotherAgentError("node")
        said = server.ingest(body_of(event("x")))
        assert (said.status, "another agent" in said.json["error"]) == (503, True)
        assert "retry-after" in said.headers


class _Slow(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.may_go = threading.Event()

    def keep(self, batches: Any) -> Any:
        self.may_go.wait(30)
        return super().keep(batches)


def test_beyond_the_queue_agents_are_turned_away_and_before_they_are_asked_to_wait() -> None:
    store = _Slow()
    with serving(store=store, limits=Limits(num_ingesting=1, num_ingest_waiting=4)) as server:
        answers: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda n=n: answers.append(server.ingest(body_of(event("x"), agent=f"agent-{n}")))
            )
            for n in range(4)
        ]
        for each in threads:
            each.start()
        until = time.monotonic() + 20
        while b"ingest_waiting 4" not in server.get("/metrics").body:
            assert time.monotonic() < until
            time.sleep(0.02)
        said = server.ingest(body_of(event("x"), agent="one-too-many"))
        assert said.status == 503
        assert "retry-after" in said.headers
        store.may_go.set()
        for each in threads:
            each.join(30)
        assert [each.status for each in answers] == [200] * 4
        assert max(each.json["wait_s"] for each in answers) > 0


def test_a_real_agents_spool_arrives_whole(server: Asked, tmp_path: Path) -> None:
    from stepscope.agent.ship import Shipper
    from stepscope.agent.spool import Spool

    spool = Spool(str(tmp_path / "spool"), host="node")
    for second in range(5):
        spool.append(node_second(second))
    shipper = Shipper(spool, f"http://127.0.0.1:{server.port}", lambda: None)
    shipper.start()
    until = time.monotonic() + 30
    while spool.state().acknowledged_seq < 5:
        assert time.monotonic() < until, shipper.state
        time.sleep(0.05)
    shipper.stop()
    kept = [each for each in server.store.kept if each.agent == spool.agent]
    assert [each.seq for each in kept] == [1, 2, 3, 4, 5]
    assert all(isinstance(each, Samples) and len(each.series) == 320 for each in kept)
    spool.close()
