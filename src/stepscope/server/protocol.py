"""uvicorn's HTTP/1.1, with an end to those that begin a request and do not go on, or do not read answers."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def protocol(head_s: float, slow_read_s: float) -> type[H11Protocol]:
    """The protocol with these times."""

    class Protocol(H11Protocol):
        _head: asyncio.TimerHandle | None = None
        _slow: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head = self.loop.call_later(head_s, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:  # half a head: the rest of it has to come
                if self._head is None and self.timeout_keep_alive_task is None:
                    self._head = self.loop.call_later(head_s, self.transport.abort)
            elif self._head is not None:
                self._head.cancel()
                self._head = None

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._slow is None:
                self._slow = self.loop.call_later(slow_read_s, self.transport.abort)

        def resume_writing(self) -> None:
            self._calm()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._calm()
            if self._head is not None:
                self._head.cancel()
                self._head = None
            super().connection_lost(exc)

        def _calm(self) -> None:
            if self._slow is not None:
                self._slow.cancel()
                self._slow = None

    return Protocol
