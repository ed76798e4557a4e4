"""Servers that do what no real one can be made to do: raw bytes on a loopback socket, and a proxy."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Handler = Callable[[socket.socket, str, dict[str, str]], None]
"""Answers one request on an open connection: its target, its headers in lower case."""


@dataclass
class Stub:
    """A server on loopback, and what it was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"prometheus+http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serving(handler: Handler, context: ssl.SSLContext | None = None) -> Iterator[Stub]:
    """A server that gives each request to the handler and then hangs up."""
    stub = Stub()
    over = threading.Event()

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError), connection:
            connection.settimeout(20)
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head and len(head) < 1 << 16:
                data = connection.recv(4096)
                if not data:
                    return
                head += data
            lines = head.decode("latin-1").split("\r\n")
            words = lines[0].split(" ")
            target = words[1] if len(words) > 1 else ""
            headers = {}
            for line in lines[1:]:
                name, colon, value = line.partition(":")
                if colon:
                    headers[name.strip().lower()] = value.strip()
            stub.asked.append(target)
            stub.headers.append(headers)
            handler(connection, target, headers)
            connection.close()

    def accept() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        listener.settimeout(0.1)
        stub.port = listener.getsockname()[1]
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield stub
        finally:
            over.set()
            thread.join()


def answer(status: int, body: bytes, *lines: str, length: int | None = None) -> bytes:
    """An HTTP answer with a Content-Length, its own unless another is given."""
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body) if length is None else length}", *lines]
    return "\r\n".join([*head, "Connection: close", "", ""]).encode() + body


def sends(*answers: bytes) -> Handler:
    """Each answer once, the last again and again."""
    left = list(answers)

    def handler(connection: socket.socket, target: str, headers: dict[str, str]) -> None:
        connection.sendall(left.pop(0) if len(left) > 1 else left[0])

    return handler


Change = Callable[[str, bytes], tuple[int, bytes] | None]
"""What to answer in place of a body, given the decoded target; `None`: the body as it is."""


@contextlib.contextmanager
def proxy(to_port: int, *, token: str | None = None, change: Change | None = None) -> Iterator[Stub]:
    """Stands before a real server, lets in who shows the token, and may change its answers."""
    stub = Stub()

    class Forward(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            stub.asked.append(self.path)
            stub.headers.append({k.lower(): v for k, v in self.headers.items()})
            if token is not None and self.headers.get("Authorization") != f"Bearer {token}":
                self._send(
                    401,
                    b'{"error": "no such token: %s"}' % (self.headers.get("Authorization") or "").encode(),
                )
                return
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{to_port}{self.path}", timeout=30) as real:
                    status, body = real.status, real.read()
            except urllib.error.HTTPError as error:
                status, body = error.code, error.read()
            changed = change(urllib.parse.unquote(self.path), body) if change else None
            self._send(*(changed or (status, body)))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        server.daemon_threads = True
        server.block_on_close = False  # a kept connection would hold the end of the test
        stub.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
