"""The socket of a live job: exporters to scrape, and faults to switch. Loopback unless told otherwise."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from stepscope.model.error import UsageError
from stepscope.simulate.serve.service import Service

TEXT, JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"
MOST_BODY_BYTES = 4096
IDLE_SECONDS = 30.0
"""After which a connection that says nothing is closed."""
_SCRAPE = re.compile(r"(?:/(?P<node>\d{1,4}))?(?P<host>/node)?/metrics")
PAGES = (
    ("GET", "/metrics, /N/metrics", "the device exporter of the first node, of node N (from 0)"),
    ("GET", "/node/metrics, /N/node/metrics", "its host's exporter"),
    ("GET", "/health", "`OK`, as dcgm-exporter's"),
    ("GET", "/faults", "what is on and the step that is played next, JSON"),
    ("POST", "/faults", "`NAME[#RANK][:SEVERITY]`, then `on` (or nothing) or `off`; `all off`"),
    (
        "POST",
        "/events",
        "`exporter-restart[#NODE]`, `vanish#RANK` (its device falls off the bus), `return#RANK`",
    ),
)
"""Method, paths and what is there."""
PATHS = "/metrics, /node/metrics, /N/metrics, /N/node/metrics, /health, /faults or /events"


class Server(ThreadingHTTPServer):
    """Answers for a live job; `catch_up` brings it to the present before each answer. Both are set by
    `answer_for`, before which nobody is answered."""

    daemon_threads = True
    block_on_close = False
    service: Service
    catch_up: Callable[[], None]

    def __init__(self, host: str, port: int) -> None:
        """UsageError where the port cannot be had; port 0 takes a free one."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._thread: threading.Thread | None = None
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(f"{host}:{port}: cannot be listened on: {why}; give another --port") from error

    def answer_for(self, service: Service, catch_up: Callable[[], None]) -> None:
        """Answer from now on, in a thread of its own."""
        self.service, self.catch_up = service, catch_up
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, and give the port back."""
        if self._thread is not None:
            self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Without asking a name server what this address is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is its own affair."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server_version, sys_version = "stepscope-simulate", ""

    def do_GET(self) -> None:
        """A page."""
        service, path = self.server.service, self.path.partition("?")[0]
        match = _SCRAPE.fullmatch(path)
        if path == "/health":
            self._answer(200, "KO" if service.is_over else "OK", TEXT)
        elif path == "/faults":
            self.server.catch_up()
            self._answer(200, json.dumps(service.faults()) + "\n", JSON)
        elif match is not None and int(match["node"] or 0) < len(service.nodes):
            self.server.catch_up()
            node = int(match["node"] or 0)
            self._answer(200, service.host(node) if match["host"] else service.devices(node), TEXT)
        else:
            self._answer(404, f"{path[:80]}: is not here; ask for {PATHS}\n", TEXT)

    def do_POST(self) -> None:
        """A switch."""
        service, path = self.server.service, self.path.partition("?")[0]
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Origin") is not None:
            # A page in a browser of this machine reaches the loopback too, and is nobody who may switch.
            self._refuse(403, "a request of a web page: is not answered; use curl\n")
        elif not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            self._refuse(413, f"a body of at most {MOST_BODY_BYTES} bytes with its length is needed\n")
        elif path not in ("/faults", "/events"):
            self._refuse(404, f"{path[:80]}: takes nothing; post to /faults or /events\n")
        else:
            text = self.rfile.read(int(length)).decode("utf-8", "replace")
            self.server.catch_up()
            try:
                told = service.switch(text) if path == "/faults" else service.event(text)
            except UsageError as error:
                self._answer(400, f"{error}\n", TEXT)
            else:
                self._answer(200, told, TEXT)

    def _refuse(self, status: int, text: str) -> None:
        self.close_connection = True  # what is left of the body would be taken for the next request
        self._answer(status, text, TEXT)

    def _answer(self, status: int, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: scrapes come every second."""
