"""Runs the application on a socket, in a thread of its own, until it is told to stop."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from stepscope.model.error import UsageError
from stepscope.server.app import guarded
from stepscope.server.parts import Parts
from stepscope.server.protocol import protocol

DRAIN_S = 5
"""For requests that are under way when the server stops."""
_BACKLOG = 1024


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. UsageError where it cannot."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, address = rows[0]
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "something listens there already" if taken else _why(error)
        raise UsageError(f"{host}:{port}: cannot be opened: {why}; give another --host or --port") from error
    return listener


def _why(error: OSError | UnicodeError) -> str:
    return ((error.strerror if isinstance(error, OSError) else None) or type(error).__name__).lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class Served:
    """A server that runs. `address` is its URL."""

    address: str
    port: int
    _server: uvicorn.Server
    _thread: threading.Thread
    _listener: socket.socket
    _end_streams: Callable[[], None]

    def stop(self) -> None:
        """Take nothing new, end what is under way within `DRAIN_S`, and return when it is over."""
        self._end_streams()
        self._server.should_exit = True
        self._thread.join(DRAIN_S + 5)
        self._listener.close()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()


def serve(parts: Parts, listener: socket.socket, err: Callable[[str], None]) -> Served:
    """Serve on that socket; when this returns it answers."""
    app, gate = guarded(parts, err)
    limits = parts.limits
    config = uvicorn.Config(
        gate,
        http=protocol(limits.head_s, limits.slow_read_s),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,  # whoever asks could say that he is somebody else
        limit_concurrency=limits.num_connections,
        timeout_keep_alive=int(limits.keep_alive_s),
        timeout_graceful_shutdown=DRAIN_S,
        h11_max_incomplete_event_size=64 << 10,
        backlog=_BACKLOG,
    )
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # a line of it may quote a request
        logging.getLogger(name).setLevel(logging.CRITICAL)
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, args=([listener],), name="stepscope-http", daemon=True
    )  # not the main thread: uvicorn leaves the signals alone
    thread.start()
    while thread.is_alive() and not server.started:
        thread.join(0.01)
    if not server.started:
        raise UsageError("the server did not start; see the lines before this one")
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return Served(f"http://{shown}:{port}", port, server, thread, listener, app.state.broadcast.close)
