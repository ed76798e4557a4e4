"""A server's orders: fetched in time, obeyed only for rings that the agent follows, traces sent clean."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.act.capture import Budget
from stepscope.act.capture.control import ControlWriter
from stepscope.agent.job import LiveRank
from stepscope.agent.obey import Obeyer
from stepscope.agent.order import OrderTaker
from stepscope.agent.source import Line, Reading
from stepscope.agent.upload import Uploader, trace_of, without_secrets
from stepscope.cli import main
from stepscope.model.error import InputError, RefusedError, ServiceError, UsageError
from stepscope.model.mark import Identity
from stepscope.model.order import Command, Order, Orders, Stacks, Upload
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.control import Control
from stepscope_sdk.ring import Ring

S = 1_000_000_000
TOKEN, SECRET = "only-a-test-token", "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def until(said: Callable[[], Any], seconds: float = 30.0) -> Any:
    ends = time.monotonic() + seconds
    while not (found := said()):
        assert time.monotonic() < ends
        time.sleep(0.01)
    return found


# ── a server ──


class Asked(ThreadingHTTPServer):
    """Answers from a list: (status, body, headers); the last one again and again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, bytes, dict[str, str]]] = [(200, orders(next=0), {})]
        self.wait_s, self.over = 0.0, threading.Event()
        self.asked: list[tuple[str, str, str | None, bytes]] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Asked

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization"), body))
        self.server.over.wait(self.server.wait_s)
        status, answer, headers = self.server.answers[0]
        if len(self.server.answers) > 1:
            del self.server.answers[0]
        with contextlib.suppress(OSError):
            self._say(status, answer, headers)

    def _say(self, status: int, answer: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_PUT = do_GET


def orders(*found: Order, next: int) -> bytes:
    return msgspec.json.encode(Orders(list(found), next))


@pytest.fixture
def server() -> Iterator[Asked]:
    asked = Asked()
    try:
        yield asked
    finally:
        asked.over.set()
        asked.shutdown()
        asked.server_close()


def taker(server: Asked, obey: Callable[[Order], None], path: str = "") -> OrderTaker:
    return OrderTaker("agent-1", server.url + path, lambda: TOKEN, obey, wait_s=1.0)


def test_orders_are_asked_for_from_where_the_last_answer_ended(server: Asked) -> None:
    first, second = Stacks(7, ("a.ring",)), Upload(8, "a.ring", 5)
    server.answers = [
        (200, orders(next=6), {}),
        (200, orders(first, second, next=8), {}),
        (200, orders(next=8), {}),
    ]
    got: list[Order] = []
    made = taker(server, got.append, "/api/v1/ingest")
    assert [made.step() < 0.1 for _ in range(3)] == [True] * 3
    assert got == [first, second]
    path = "/api/v1/agents/agent-1/orders"
    assert [each[1] for each in server.asked] == [f"{path}?after={n}&wait_s=1" for n in (-1, 6, 8)]
    assert {each[2] for each in server.asked} == {f"Bearer {TOKEN}"}
    made.stop()


@pytest.mark.parametrize(
    ("answer", "least_s", "word"),
    [
        ((500, b"", {}), 0.5, "the server fails (500)"),
        ((401, b"", {}), 60.0, "the server wants a token, or another one (401)"),
        ((307, b"", {"Location": "http://elsewhere/x?token=1"}), 0.5, "no redirect is followed"),
        ((200, b"<html>", {}), 0.5, "an answer that holds no orders"),
        ((200, b'{"orders": [{"kind": "shell", "seq": 1}], "next": 1}', {}), 0.5, "holds no orders"),
    ],
)
def test_an_answer_that_is_none_is_said_once_and_asked_again_later(
    server: Asked, answer: tuple[int, bytes, dict[str, str]], least_s: float, word: str
) -> None:
    server.answers = [answer]
    told: list[tuple[str, str]] = []
    made = taker(server, lambda order: None)
    made._outage.tell = lambda *what: told.append(what)
    waits = [made.step() for _ in range(3)]
    assert min(waits) >= least_s
    assert [what for what, _ in told] == ["orders_failing"]
    assert word in told[0][1]
    assert TOKEN not in told[0][1]
    server.answers = [(200, orders(next=3), {})]
    made.step()
    assert [what for what, _ in told] == ["orders_failing", "orders_back"]
    made.stop()


def test_a_receiver_that_knows_of_no_orders_is_left_alone(server: Asked) -> None:
    server.answers = [(404, b"", {})]
    told: list[Any] = []
    made = taker(server, lambda order: None)
    made._outage.tell = lambda *what: told.append(what)
    assert made.step() >= 30.0
    assert told == []
    made.stop()


def test_an_agent_that_ends_does_not_wait_for_the_server(server: Asked) -> None:
    made = OrderTaker("a", server.url, None, lambda order: time.sleep(0), wait_s=1.0)
    told: list[Any] = []
    server.wait_s = 20.0
    made.start(lambda *what: told.append(what))
    until(lambda: server.asked)
    start = time.monotonic()
    made.stop()
    assert time.monotonic() - start < 10
    assert told == []  # that it was cut is no outage


# ── orders ──


class Node:
    """A node with one ring, and what the agent was told to say."""

    def __init__(self, folder: Path, budget: Budget | None = Budget()) -> None:  # noqa: B008
        self.folder = folder
        self.ring = str(folder / "rank0-1-a.ring")
        self.traces = folder / "traces"
        self.made = Ring(self.ring, {"rank": 0}, num_records=64)
        self.control = Control(self.ring, str(self.traces))
        self.rank = LiveRank(self.ring, Identity(job="llm", run="r1", rank=0), 0, pid=4711)
        self.told: list[tuple[str, str, int | None, dict[str, str]]] = []
        self.readings: list[Reading] = []
        self.hurried: list[int] = []
        self.sent: list[tuple[str, int]] = []
        self.now_ns = 10 * S
        self.obeyer = Obeyer(
            lambda: [self.rank], self, lambda: self, self.stacks, budget=budget, wall_ns=lambda: self.now_ns
        )

    def tell(self, what: str, text: str, code: int | None = None, labels: Any = ()) -> None:
        self.told.append((what, text, code, dict(labels)))

    def take(self, source: str, reading: Reading) -> None:
        self.readings.append(reading)

    def hurry(self, source: str, period_ns: int, for_ns: int) -> None:
        self.hurried.append(for_ns)

    def send(self, ring: str, capture: int) -> None:
        if capture == 13:
            raise RefusedError("the server does not want it")
        self.sent.append((ring, capture))

    def stop(self) -> None:
        pass

    def stacks(self, pid: int, at_ns: int) -> list[Line]:
        return [Line("stacks", f"pid {pid}", at_ns, "Thread 1: forward")]

    def trace(self, capture: int, body: bytes) -> Path:
        path = self.traces / abi.trace_place(self.ring, capture)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(body))
        return path

    def command(self, command: Any, capture: int = 5, ring: str = "rank0-1-a.ring", **more: Any) -> None:
        self.obeyer(Command(1, ring, command, capture, 40, **({"num_steps": 3} | more)))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.obeyer.stop()


def test_a_command_is_written_into_the_control_file_of_that_ring(node: Node) -> None:
    node.command("propose", flags=("stacks",), mode="light")
    read = node.control.read()
    assert read is not None
    assert tuple(read) == ("propose", 5, 40, 3, "light", abi.CAPTURE_FLAGS["stacks"])
    node.command("commit")
    assert node.control.read().command == "commit"  # type: ignore[union-attr]
    assert node.hurried[1] > node.hurried[0] > 0
    assert node.told == []


@pytest.mark.parametrize(
    "ring", ["rank1-2-b.ring", "../rank0-1-a.ring", "/etc/passwd", "", "rank0-1-a.ring/../rank0-1-a.ring"]
)
def test_a_ring_that_the_agent_does_not_follow_is_never_written_to(node: Node, ring: str) -> None:
    node.command("propose", ring=ring)
    assert node.control.read() is None
    assert [(each[0], each[3]["ring"]) for each in node.told] == [("capture_refused", ring)]


@pytest.mark.parametrize(
    "more", [{"num_steps": 0}, {"num_steps": 10**9}, {"flags": ("rm",)}, {"capture": -1}]
)
def test_a_command_that_makes_no_sense_is_refused(node: Node, more: dict[str, Any]) -> None:
    node.command("propose", **more)
    assert node.control.read() is None
    assert node.told[0][0] == "capture_refused"


def test_a_node_that_takes_no_captures_says_so(tmp_path: Path) -> None:
    node = Node(tmp_path, None)
    node.command("propose")
    node.obeyer(Upload(2, "rank0-1-a.ring", 5))
    assert node.control.read() is None
    assert [each[0] for each in node.told] == ["capture_refused", "capture_not_sent"]
    assert all("--no-capture" in each[1] for each in node.told)
    assert node.told[0][2:] == (5, {"job": "llm", "run": "r1", "rank": "0", "ring": "rank0-1-a.ring"})


def test_the_nodes_own_budget_has_the_last_word(tmp_path: Path) -> None:
    node = Node(tmp_path, Budget(captures_per_hour=2, bytes=5000))
    for capture in (1, 2, 3):
        node.command("propose", capture)
        node.command("propose", capture)  # said twice, counted once
        if not node.told:
            node.command("commit", capture)
    assert [(each[0], each[2]) for each in node.told] == [("capture_refused", 3)] * 2
    assert "2 captures in the last hour, the budget is 2" in node.told[0][1]
    node.now_ns += 3601 * S
    node.command("propose", 4)
    assert len(node.told) == 2
    node.command("commit", 4)
    node.rank.end_capture(4, S // 10, 6000)
    node.command("propose", 5)
    assert "6000 bytes of traces in the last hour, the budget is 5000" in node.told[2][1]
    node.command("cancel", 4)
    assert node.control.read().command == "cancel"  # type: ignore[union-attr]  # never refused


def test_traces_and_stacks_are_sent_beside_and_what_fails_is_said(node: Node) -> None:
    node.obeyer.start()
    node.obeyer(Upload(1, "rank0-1-a.ring", 13))
    node.obeyer(Upload(2, "rank0-1-a.ring", 14))
    node.obeyer(Stacks(3, ("rank0-1-a.ring", "unknown.ring")))
    until(lambda: node.sent and node.readings and node.told)
    assert node.sent == [(node.ring, 14)]
    assert [(each[0], each[2]) for each in node.told] == [("capture_not_sent", 13)]
    (line,) = node.readings[0].lines
    assert dict(line.labels) == {"job": "llm", "run": "r1", "rank": "0", "ring": "rank0-1-a.ring"}


# ── traces ──


def test_a_trace_without_secrets_goes_as_it_lies_there(node: Node, server: Asked) -> None:
    path = node.trace(5, b'{"traceEvents": [{"name": "a"}]}')
    server.answers = [(204, b"", {})]
    Uploader("agent-1", server.url, lambda: TOKEN).send(node.ring, 5)
    ((method, target, token, body),) = server.asked
    assert (method, target) == ("PUT", "/api/v1/captures/5/traces/rank0-1-a.ring?agent=agent-1")
    assert token == f"Bearer {TOKEN}"
    assert body == path.read_bytes()


def test_a_secret_never_leaves_the_node(node: Node, server: Asked) -> None:
    node.trace(5, json.dumps({"traceEvents": [{"name": "a", "args": {"token": SECRET}}]}).encode())
    server.answers = [(503, b"", {}), (204, b"", {})]  # sent twice, from its beginning
    Uploader("agent-1", server.url, None, str(node.folder)).send(node.ring, 5)
    assert len(server.asked) == 2
    for *_, body in server.asked:
        text = gzip.decompress(body).decode()
        assert SECRET not in text
        assert json.loads(text)["traceEvents"][0]["name"] == "a"


@pytest.mark.parametrize(("status", "error"), [(409, RefusedError), (413, RefusedError), (422, RefusedError)])
def test_a_trace_that_the_server_will_not_take_is_not_sent_again(
    node: Node, server: Asked, status: int, error: type[Exception]
) -> None:
    node.trace(5, b'{"traceEvents": []}')
    server.answers = [(status, b"", {})]
    with pytest.raises(error):
        Uploader("a", server.url, None).send(node.ring, 5)
    assert len(server.asked) == 1


def test_a_server_that_is_away_is_asked_a_few_times(
    node: Node, server: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.agent.upload.WAITS_S", (0.0, 0.0))
    node.trace(5, b'{"traceEvents": []}')
    server.answers = [(500, b"", {})]
    with pytest.raises(ServiceError, match="it takes no trace: answer 500"):
        Uploader("a", server.url, None).send(node.ring, 5)
    assert len(server.asked) == 3


def test_only_the_rings_own_users_regular_file_is_a_trace(node: Node) -> None:
    with pytest.raises(InputError, match="no trace of capture 5"):
        trace_of(node.ring, 5)
    real = node.trace(6, b"{}")
    link = node.traces / abi.trace_place(node.ring, 5)
    link.parent.mkdir()
    link.symlink_to(real)
    with pytest.raises(InputError):
        trace_of(node.ring, 5)
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(InputError):
        trace_of(node.ring, 5)
    with trace_of(node.ring, 6) as file:
        assert gzip.decompress(file.read()) == b"{}"


def test_a_trace_that_is_too_large_stays(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.trace(5, os.urandom(2000))
    monkeypatch.setattr("stepscope.agent.upload.MOST_BYTES", 1000)
    with trace_of(node.ring, 5) as file, pytest.raises(RefusedError, match="record fewer steps"):
        without_secrets(file, "r")


def test_the_control_file_of_another_version_is_left_alone(node: Node) -> None:
    with open(abi.control_path(node.ring), "r+b") as file:
        file.seek(8)
        file.write(b"\x63")
    with pytest.raises(InputError):
        ControlWriter(node.ring)
    node.command("propose")
    assert node.told[0][0] == "capture_refused"


def test_no_capture_needs_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--once", "--no-capture"]) == 2
    assert "--no-capture is for --server" in capsys.readouterr().err
    with pytest.raises(UsageError):
        OrderTaker("a", "ftp://x", None, lambda order: None)
