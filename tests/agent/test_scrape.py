"""Exporters over real sockets: fine, slow, dead, dripping."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stepscope.agent.catalog.scrape import SOURCE, ScrapeSource
from stepscope.agent.clock import RealClock
from stepscope.agent.context import Context
from stepscope.agent.fetch import Page
from stepscope.agent.source import NotHere
from stepscope.model.error import InputError, ServiceError, UsageError
from tests.agent.agents import agent, in_thread, kind, until

UUID = "GPU-0f1e2d3c-1111-2222-3333-444455556666"
BODY = f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{UUID}",Hostname="n1"}} 300\n'


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever hangs up is part of the test."""


@contextmanager
def exporter(
    act: Callable[[BaseHTTPRequestHandler], None] | None = None, port: int = 0
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A page of one device, and the headers of whoever asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            asked.append(dict(self.headers.items()))
            if act is not None:
                act(self)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY.encode())

    server = _Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def silent() -> Iterator[str]:
    """A socket that takes a connection and never answers."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(16)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/metrics"


def source(url: str, *, is_wanted: bool = True, timeout: float = 5.0) -> ScrapeSource:
    return ScrapeSource(Context(host="n1", timeout_seconds=timeout), url, is_wanted=is_wanted)


def test_a_page_is_read_over_one_connection() -> None:
    with exporter() as (url, asked):
        made = source(url)
        first, second = made.read(), made.read()
        assert [len(each[0].samples) for each in (first, second)] == [1, 1]
        assert first[0].samples[0].value == 300.0
        assert len(asked) == 2
        made.close()


def test_an_exporter_that_let_the_connection_go_is_asked_again_at_once() -> None:
    def close(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}".encode())
        handler.close_connection = True

    with exporter(close) as (url, asked):
        made = source(url)
        made.read()
        made.read()
        assert len(asked) == 2
        made.close()


def test_a_dead_exporter_is_named_and_the_default_one_is_only_not_here() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/metrics"
    with pytest.raises(ServiceError, match="nothing listens there"):
        source(url).read()
    with pytest.raises(NotHere):
        source(url, is_wanted=False).read()


def test_the_time_is_that_of_the_whole_answer_and_not_of_each_byte() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(200):
            time.sleep(0.05)
            handler.wfile.write(b"#")

    with exporter(drip) as (url, _):
        before = time.monotonic()
        with pytest.raises(ServiceError, match=r"no whole answer within 0\.5 s"):
            source(url, timeout=0.5).read()
        assert time.monotonic() - before < 5.0


def test_a_page_that_never_answers_ends_at_its_time() -> None:
    with silent() as url, pytest.raises(ServiceError, match=r"no whole answer within 0\.3 s"):
        source(url, timeout=0.3).read()


def test_other_answers_are_named() -> None:
    with (
        exporter(lambda handler: handler.send_error(503)) as (url, _),
        pytest.raises(ServiceError, match="503"),
    ):
        source(url).read()

    def page(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    with exporter(page) as (url, _):
        made = source(url)
        with pytest.raises(InputError, match="no series of an exporter"):
            made.read()
        made.close()


def test_credentials_go_to_the_exporter_and_are_never_shown() -> None:
    with exporter() as (url, asked):
        made = source(url.replace("://", "://me:s3cr%40t@"))
        made.read()
        assert asked[0]["Authorization"] == "Basic bWU6czNjckB0"
        assert "s3cr" not in made.name
        made.close()
    with pytest.raises(ServiceError) as caught:
        made.read()
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ftp://h/metrics", "127.0.0.1:9400", "http://", "http://h:0x/m", "http://h:99999"]
)
def test_what_is_no_url_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(UsageError, match="no URL of an exporter"):
        Page(url, 1.0)


KILLED = f"""
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_GET(self):
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: {len(BODY)}\\r\\n\\r\\n" + {BODY.encode()!r})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def test_a_hung_and_a_killed_exporter_delay_no_other() -> None:
    clock = RealClock()
    dying = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert dying.stdout is not None
    killed_url = f"http://127.0.0.1:{dying.stdout.readline().strip()}/metrics"
    with exporter() as (fine_url, asked), silent() as hung_url:
        context = Context(host="n1", timeout_seconds=60.0)
        urls = (fine_url, hung_url, killed_url)
        fine, hung, killed = (ScrapeSource(context, url, is_wanted=True) for url in urls)
        fast = kind(least_ns=100_000_000, patience_ns=500_000_000)
        built = agent((fast, fine), (fast, hung), (fast, killed), clock=clock, profile="debug")

        def act() -> bool:
            assert until(lambda: built.loop.tally.num_reads.get(killed_url, 0) > 2)
            dying.kill()
            dying.wait(10)
            num = len(asked)
            begin = time.monotonic()
            assert until(lambda: len(asked) >= num + 20)
            assert time.monotonic() - begin < 15.0  # two seconds where nothing else runs
            return until(lambda: {"source_hung", "source_failed"} <= set(built.events()))

        try:
            assert in_thread(built, act)
        finally:
            dying.kill()
            dying.communicate(timeout=10)
    assert until(lambda: hung._page._connection is None)  # its socket is gone: now it ends


def test_the_default_exporter_is_asked_only_where_none_is_named() -> None:
    default = SOURCE.make(Context(host="n1", has_default_exporter=True))
    assert [each.name for each in default] == ["http://127.0.0.1:9400/metrics"]
    named = SOURCE.make(Context(host="n1", exporters=("http://h:1/m",)))
    assert [each.name for each in named] == ["http://h:1/m"]
