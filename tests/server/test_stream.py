"""Events reach who listens, those who come back hear what they missed, and slow readers are let go."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stepscope.model.alarm import About, Alarm
from stepscope.model.incident import Change, Incident
from stepscope.server import stream as streams
from tests.server.served import TOKENS, Asked, serving


def alarm(number: int, job: str = "llama") -> Alarm:
    return Alarm(
        id=f"a{number}", condition="hot", level="resource", severity="warning", about=About(job=job),
        onset_ns=number, seen_ns=number + 1, text=f"alarm {number}",
    )  # fmt: skip


def incident(**more: Any) -> Incident:
    return Incident(
        id="i1", about=About(job="llama"), severity="warning", title="hot", onset_ns=1, opened_ns=2, **more
    )


@contextlib.contextmanager
def reading(server: Asked, query: str = "", **headers: str) -> Iterator[Any]:
    """Events, each (id, topic, data), as an iterator that waits."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", f"/api/v1/stream{query}", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"

    def events() -> Iterator[tuple[str, str, Any]]:
        told: dict[str, str] = {}
        while line := answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if not name and "data" in told:
                yield told["id"], told["event"], json.loads(told["data"])
                told = {}
            elif name:
                told[name] = value

    try:
        yield events()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving() as asked:
        yield asked


def test_what_happens_is_told_as_it_happens(server: Asked) -> None:
    feed = server.parts.feed
    with reading(server, "?job=llama") as events:
        feed.tell("alarm", alarm(1))
        feed.tell("alarm", alarm(2, job="other"))
        feed.tell("card", (incident(report="r1"), None))
        feed.tell("run", ("llama", "r1"))
        feed.tell("capture", {"id": 7, "job": "llama", "state": "done"})
        got = [next(events) for _ in range(4)]
    assert [topic for _, topic, _ in got] == ["alarm", "card", "run", "capture"]
    assert got[0][2]["text"] == "alarm 1"
    assert got[1][2]["report"] == "r1"
    assert got[2][2] == {"job": "llama", "run": "r1"}
    assert got[3][2]["state"] == "done"


def test_who_comes_back_hears_what_it_missed_and_no_more(server: Asked) -> None:
    feed = server.parts.feed
    with reading(server, "?topic=alarm") as events:
        feed.tell("alarm", alarm(10))
        last, _, _ = next(events)
    feed.tell("alarm", alarm(11))
    feed.tell("run", ("llama", "r2"))
    feed.tell("alarm", alarm(12))
    with reading(server, "?topic=alarm", **{"Last-Event-ID": last}) as events:
        assert [next(events)[2]["id"] for _ in range(2)] == ["a11", "a12"]
    for strange in ("another-life-of-it-1", "x", "-", f"{last}9999999999999999999999"):
        with reading(server, "?topic=alarm", **{"Last-Event-ID": strange}) as events:
            assert next(events)[1] == "alarm"


def test_a_viewer_hears_no_configuration() -> None:
    change = Change(at_ns=1, what="workers", by="ada", config={"workers": ("2", "8")})
    with serving(has_tokens=True) as server:
        for role, sees in (("viewer", False), ("operator", True)):
            with reading(server, Authorization=f"Bearer {TOKENS[role]}") as events:  # type: ignore[index]
                server.parts.feed.tell("incident", incident(change=change))
                assert ("config" in next(events)[2]["change"]) is sees


def test_a_heartbeat_keeps_a_quiet_stream_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_S", 0.05)
    with serving() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", "/api/v1/stream")
        answer = connection.getresponse()
        until = time.monotonic() + 30
        while answer.readline() != b": beat\n":
            assert time.monotonic() < until
        connection.close()


def test_a_reader_that_falls_behind_is_let_go_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_QUEUED", 4)
    big = msgspec.structs.replace(alarm(1), text="x" * 200_000)
    with serving() as server, reading(server) as slow:
        heard: list[Any] = []

        def hear() -> None:
            with reading(server) as quick:
                for each in quick:
                    heard.append(each)
                    if each[2]["id"] == "a999":
                        return

        thread = threading.Thread(target=hear)
        thread.start()
        until = time.monotonic() + 30
        while b"streams 2" not in server.get("/metrics").body:
            assert time.monotonic() < until
            time.sleep(0.02)
        while b"streams_dropped_total" not in server.get("/metrics").body:
            assert time.monotonic() < until
            server.parts.feed.tell("alarm", big)
            time.sleep(0.02)
        server.parts.feed.tell("alarm", alarm(999))
        thread.join(30)
        assert heard[-1][2]["id"] == "a999"
        del slow


def test_an_unknown_topic_is_refused(server: Asked) -> None:
    assert server.get("/api/v1/stream?topic=weather").status == 400


def test_a_server_that_stops_ends_its_streams_at_once() -> None:
    with serving() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", "/api/v1/stream")
        answer = connection.getresponse()
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert b"retry" in answer.read()
    connection.close()
