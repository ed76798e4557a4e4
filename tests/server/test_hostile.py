"""Requests that mean no good, or are broken: each gets one line of JSON, or an end of its connection; none
gets a traceback, a path of the machine, or what somebody sent."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stepscope.server.limit import Limits, depth_of
from stepscope.sources.formats.frame import CONTENT_TYPE
from tests.agent.made import event
from tests.server.memory_store import MemoryStore
from tests.server.served import TOKENS, Asked, Said, body_of, serving

SECRET = "hunter2-never-to-be-seen"
LIMITS = Limits(head_s=0.6, body_s=0.6, slow_read_s=0.6, keep_alive_s=1.0, body_bytes=1 << 16)


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving(limits=LIMITS) as asked:
        yield asked


@pytest.fixture(scope="module")
def guarded() -> Iterator[Asked]:
    with serving(has_tokens=True, limits=Limits(refused_burst=500)) as asked:
        yield asked


def check(said: Said, status: int) -> None:
    assert said.status == status, said.body
    assert set(said.json) == {"error", "mend"}
    assert all(isinstance(each, str) and each and "\n" not in each for each in said.json.values())
    shown = said.body.decode().lower()
    for word in (SECRET, "traceback", "/work", "/home", "/usr", "site-packages", ".py"):
        assert word not in shown


def raw(server: Asked, data: bytes, *, until_s: float = 20) -> bytes:
    """What comes back, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=until_s) as connection:
        connection.sendall(data)
        got = b""
        try:
            while piece := connection.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
        return got


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/reports/..%2f..%2f..%2fetc%2fpasswd",
        "/api/v1/reports/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/v1/incidents/%00",
        "/api/v1/nodes/..%5c..%5cwindows",
        "/../../../../etc/passwd",
        "/static/../../etc/passwd",
        "/api/v1/../../etc/passwd",
        f"/api/v1/{SECRET}",
        "/api/v1/reports/" + "x" * 5000,
        "/" + "a/" * 2000,
    ],
)
def test_no_path_of_a_client_leads_anywhere(server: Asked, path: str) -> None:
    said = server.get(path)
    check(said, 400 if "xxxx" in path else 404)
    assert b"root:" not in said.body


@pytest.mark.parametrize("ring", ["..%2f..%2fx", "%2e%2e", "a%00b", ".hidden", "x" * 300, "a%2fb"])
def test_a_trace_is_taken_under_no_name_but_a_rings(ring: str) -> None:
    taken: list[Any] = []
    with serving(more=lambda parts: _with(parts, take_trace=lambda *words: taken.append(words[1]))) as server:
        said = server.ask("PUT", f"/api/v1/captures/1/traces/{ring}", b"{}")
        assert said.status in (400, 404)
        assert not taken
        assert server.ask("PUT", "/api/v1/captures/1/traces/rank0.ring?agent=a", b"{}").status == 204
        assert taken == ["rank0.ring"]


def _with(parts: Any, **more: Any) -> Any:
    from dataclasses import replace

    return replace(parts, **more)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"job":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"job": "x", "why": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
    ],
)
def test_json_that_nests_deep_is_refused_before_it_is_decoded(server: Asked, body: bytes) -> None:
    check(server.ask("POST", "/api/v1/silences", body), 400)


def test_brackets_within_strings_are_no_depth() -> None:
    assert depth_of(rb'{"a": "[[[[[[{{{{\"]]", "b": [1, {"c": 2}]}') == 3
    assert depth_of(b"[" * 1000) == 1000
    assert depth_of(b"") == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe\x00",
        b'{"for_s": 1e999, "why": "x", "job": "y"}',
        b'{"for_s": -1, "why": "x", "job": "y"}',
        b'{"for_s": 10, "why": "", "job": "y"}',
        b'{"for_s": 10, "why": "x"}',
        b'{"for_s": 10, "why": "x", "job": "y", "hunter2-never-to-be-seen": 1}',
        b'{"for_s": "hunter2-never-to-be-seen", "why": "x", "job": "y"}',
        b'{"for_s": 99999999999999999999999999, "why": "x", "job": "y"}',
    ],
)
def test_a_body_that_is_none_is_refused_and_not_shown(server: Asked, body: bytes) -> None:
    check(server.ask("POST", "/api/v1/silences", body), 400)


def test_a_huge_body_is_refused_by_its_length_before_it_comes(server: Asked) -> None:
    for path, kind in (("/api/v1/silences", "application/json"), ("/api/v1/ingest", CONTENT_TYPE)):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
        got = raw(server, f"{head}Content-Length: 999999999999\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in got.lower()


def test_a_huge_body_without_a_length_is_refused_where_it_becomes_too_large(server: Asked) -> None:
    head = b"POST /api/v1/silences HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    assert raw(server, head + b"Content-Type: application/json\r\n\r\n" + 5 * chunk).startswith(
        b"HTTP/1.1 413"
    )


def test_a_body_that_does_not_come_is_not_waited_for(server: Asked) -> None:
    for path, kind in (("/api/v1/silences", "application/json"), ("/api/v1/ingest", CONTENT_TYPE)):
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 9\r\n\r\n{{"
        )
        assert raw(server, head.encode()).startswith(b"HTTP/1.1 408")


def test_a_head_that_does_not_come_ends_the_connection(server: Asked) -> None:
    assert raw(server, b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0") == b""
    assert raw(server, b"") == b""


def test_a_head_that_drips_ends_the_connection(server: Asked) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        until = time.monotonic() + 20
        with pytest.raises(OSError):  # noqa: PT012  the second request never ends
            while time.monotonic() < until:
                connection.sendall(b"G")
                connection.settimeout(0.2)
                try:
                    if connection.recv(65536) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    continue
        assert time.monotonic() < until


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\r\nhello\r\n\r\n",
        b"GET /api/v1/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET /api/v1/jobs HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=["tls", "version", "noise", "lengths", "header", "chunk", "upgrade"],
)
def test_what_is_not_http_harms_nobody(server: Asked, data: bytes) -> None:
    got = raw(server, data)
    assert b"Traceback" not in got
    assert not got.startswith(b"HTTP/1.1 5")
    assert server.get("/-/healthy").status == 200


@pytest.mark.parametrize("query", ["limit=1&limit=2&nonsense=1", f"{SECRET}=1", "a=b", "job=x&run=y&zone=z"])
def test_a_question_that_is_not_known_is_refused_and_not_shown(server: Asked, query: str) -> None:
    check(server.get(f"/api/v1/runs?{query}"), 400)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=1001", "limit=-1", "limit=x", "limit=1e9", "after=../..", f"after={SECRET}",
        "after=99999999999999999999999", "job=" + "x" * 2000,
    ],
)  # fmt: skip
def test_a_question_out_of_bounds_is_refused(server: Asked, query: str) -> None:
    check(server.get(f"/api/v1/runs?{query}"), 400)


@pytest.mark.parametrize(
    "query",
    [
        "signal=power_watts&start=now&end=now-1h", "signal=power_watts&start=0",
        "signal=power_watts&start=-5",
        "signal=power_watts&start=yesterday", "signal=power_watts&start=2026-13-45T00:00:00Z",
        "signal=power_watts&start=now-99999999999999h", f"signal={SECRET}", "signal=power_watts&pixels=0",
        "signal=power_watts&pixels=99999999", "", "signal=power_watts&rank=x",
        "&".join(["signal=power_watts"] * 100), "signal=power_watts&start=9999999999999999999",
    ],
)  # fmt: skip
def test_a_picture_out_of_bounds_is_refused(server: Asked, query: str) -> None:
    check(server.get(f"/api/v1/series?{query}"), 400)


def test_a_wrong_token_is_told_from_none_and_neither_is_shown(guarded: Asked) -> None:
    for authorization in (
        f"Bearer {SECRET}",
        SECRET,
        "Bearer ",
        "Basic aHVudGVyMg==",
        "Bearer " + "x" * 10_000,
    ):
        said = guarded.get("/api/v1/jobs", Authorization=authorization)
        check(said, 401)
        assert said.headers["www-authenticate"] == "Bearer"
    check(guarded.get("/api/v1/jobs"), 401)
    check(guarded.get(f"/api/v1/jobs?token={TOKENS['admin']}"), 401)


def test_somebody_who_tries_tokens_is_slowed_down() -> None:
    with serving(has_tokens=True, limits=Limits(refused_burst=5)) as server:
        codes = [server.get("/api/v1/jobs", Authorization=f"Bearer guess-{n}").status for n in range(8)]
        assert codes == [401] * 5 + [429] * 3
        said = server.get("/api/v1/jobs", Authorization="Bearer guess-9")
        check(said, 429)
        assert int(said.headers["retry-after"]) >= 1
        assert server.get("/api/v1/jobs", role="admin").status == 200  # whoever shares the address
        assert server.get("/-/ready").status == 200


def test_too_many_requests_are_told_to_wait() -> None:
    with serving(limits=Limits(requests_per_s=0.5, burst=10)) as server:
        codes = [server.get("/api/v1/jobs").status for _ in range(12)]
        assert codes[:10] == [200] * 10
        said = server.get("/api/v1/jobs")
        check(said, 429)
        assert 1 <= int(said.headers["retry-after"]) <= 3


def test_a_page_of_the_web_cannot_ask_in_its_readers_name(server: Asked) -> None:
    check(server.get("/api/v1/jobs", Host="evil.example.com"), 403)
    body = b'{"for_s": 60, "why": "x", "matchers": [{"field": "job", "value": "y"}]}'
    check(server.ask("POST", "/api/v1/silences", body, Origin="https://evil.example.com"), 403)
    own = f"http://127.0.0.1:{server.port}"
    assert server.ask("POST", "/api/v1/silences", body, Origin=own).status == 201


def test_no_more_streams_than_there_may_be() -> None:
    with serving(limits=Limits(num_streams=2)) as server:
        held = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(2)]
        for each in held:
            each.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"200" in each.recv(4096)
        check(server.get("/api/v1/stream"), 503)
        for each in held:
            each.close()


def test_a_fault_of_the_server_shows_one_line_outside_and_one_inside() -> None:
    class Broken(MemoryStore):
        def runs(self, job: str | None = None) -> Any:
            raise ZeroDivisionError(f"password={SECRET} at /work/secret")

    with serving(store=Broken()) as server:
        check(server.get("/api/v1/jobs"), 500)
        assert len(server.lines) == 1
        assert "ZeroDivisionError" in server.lines[0]
        assert SECRET not in server.lines[0]
        assert b"faults_total 1" in server.get("/metrics").body


def test_an_answer_to_somebody_who_does_not_read_is_given_up() -> None:
    """Its connection ends, and the others are served."""

    class Wide(MemoryStore):
        def get(self, kind: str, id: str) -> bytes | None:
            return b'"' + b"x" * (64 << 20) + b'"'

    with serving(store=Wide(), limits=LIMITS) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(b"GET /api/v1/reports/r HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            connection.recv(100)
            time.sleep(2)  # three times as long as a reader may rest
            assert server.get("/-/healthy").status == 200
            got = 0
            try:
                while piece := connection.recv(1 << 20):
                    got += len(piece)
            except ConnectionResetError:
                pass
        assert got < 64 << 20


def test_a_silent_error_is_json_on_every_path(guarded: Asked) -> None:
    paths = json.loads(guarded.get("/openapi.json").body)["paths"]
    assert len(paths) > 25
    for path in paths:
        if path in ("/-/healthy", "/-/ready"):
            continue
        shown = path.replace("{capture}", "1").replace("{agent}", "a").replace("{ring}", "r")
        check(guarded.get(shown), 401)
    for role in ("viewer", "agent"):
        check(guarded.get("/api/v1/audit", role=role), 403)
    check(guarded.ask("DELETE", "/api/v1/jobs", role="admin"), 405)
    assert guarded.ingest(body_of(event("x")), role="agent").status == 200


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"for_s": 60, "why": "x"}, "(matchers is missing)"),
        ({"for_s": 60, "why": "x", "matchers": [{"field": SECRET, "value": "y"}]}, "(matchers[0].field)"),
        (
            {"for_s": 60, "why": "x", "matchers": [{"field": "job", "value": "y"}], SECRET: 1},
            "(a field of the body that it does not have)",
        ),
        ({"for_s": 0, "why": "x", "matchers": []}, "(for_s)"),
    ],
)
def test_a_body_that_is_none_is_told_which_field_is_wrong(
    server: Asked, body: dict[str, Any], word: str
) -> None:
    said = server.post("/api/v1/silences", body)
    check(said, 400)
    assert word in said.json["error"]


def test_a_remedy_that_no_rule_gives_is_refused(server: Asked) -> None:
    for remedy in ("nope#1", "input-starvation#0", "input-starvation#99"):
        said = server.post("/api/v1/incidents/i1/change", {"what": "x", "remedy": remedy})
        check(said, 400)
        assert said.json["error"].startswith("remedy")
    said = server.post("/api/v1/incidents/i1/change", {"what": "x", "remedy": "input-starvation#1"})
    check(said, 501)  # a server without incidents: it came through
