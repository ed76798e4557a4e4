"""A trace on its way to the server: found by the ring's own name, freed of secrets, sent once it is wanted.

Nothing of where it lies comes from the server; and what the training process says of it is believed only as
far as the file is its own user's, as its ring is.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO
from urllib.parse import quote

from stepscope.act.capture.control import ControlWriter
from stepscope.act.post import Poster, parts_of
from stepscope.agent.order import base_of
from stepscope.model.error import InputError, RefusedError, ServiceError
from stepscope.trace.packed import packed, unpacked
from stepscope.trace.secret import SecretsRemoved
from stepscope_sdk import ring_abi as abi

MOST_BYTES = 512 << 20
"""Of a trace as it lies on the disk."""
IN_MEMORY = 16 << 20
CHUNK = 1 << 20
TIMEOUT_S = 600.0
TRIES = 5
WAITS_S = (0.5, 1.0, 2.0, 4.0)
GONE = frozenset((404, 409, 410))
"""Answers of a server that does not want it (any more)."""
WRONG = frozenset((400, 413, 415, 422))
"""Answers of a server that will never take it."""


def trace_of(ring: str, capture: int) -> BinaryIO:
    """The trace of this capture, open to read. InputError where there is none that may be sent."""
    control = ControlWriter(ring)
    try:
        told = control.trace_dir
    finally:
        control.close()
    owner = os.stat(ring).st_uid
    beside = os.path.join(os.path.dirname(os.path.abspath(ring)), abi.TRACES)
    for folder in (told, beside):
        if folder is None:
            continue
        path = os.path.join(folder, abi.trace_place(ring, capture))
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        said = os.fstat(file)
        if stat.S_ISREG(said.st_mode) and said.st_uid == owner:
            return os.fdopen(file, "rb")
        os.close(file)
    raise InputError(os.path.basename(ring), f"has no trace of capture {capture} that can be read here",
                     "STEPSCOPE_TRACE_DIR must be a folder that the agent sees too")  # fmt: skip


def without_secrets(file: BinaryIO, name: str, folder: str | None = None) -> tuple[BinaryIO, int]:
    """(the trace as it may leave, secrets that were removed): the file itself where it holds none.

    InputError for what is no trace; RefusedError for what is too large.
    """
    size = os.fstat(file.fileno()).st_size
    if size > MOST_BYTES:
        raise RefusedError(
            f"{name}: {size >> 20} MB, at most {MOST_BYTES >> 20} are sent; record fewer steps"
        )
    text = SecretsRemoved(unpacked(_chunks(file), name))
    for _ in text:
        pass
    if not text.num:
        return file, 0
    clean: BinaryIO = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=folder)  # type: ignore[assignment]  # noqa: SIM115  the caller's
    for piece in packed(SecretsRemoved(unpacked(_chunks(file), name))):
        clean.write(piece)
    return clean, text.num


class Uploader:
    """Sends traces to one server. Not for several threads."""

    def __init__(
        self, agent: str, url: str, token: Callable[[], str | None] | None, folder: str | None = None
    ) -> None:
        self._agent, self._url, self._token, self._folder = agent, base_of(url), token, folder
        self._poster: Poster | None = None
        self._is_over = False

    def send(self, ring: str, capture: int) -> None:
        """The trace of this ring (a path) and capture. InputError, RefusedError, ServiceError, OSError."""
        name = os.path.basename(ring)
        with ExitStack() as stack:
            file = stack.enter_context(trace_of(ring, capture))
            body, _ = without_secrets(file, name, self._folder)
            if body is not file:
                stack.enter_context(body)
            self._put(
                body, f"/api/v1/captures/{capture}/traces/{quote(name, safe='')}?agent={quote(self._agent)}"
            )

    def _put(self, body: BinaryIO, place: str) -> None:
        size = body.seek(0, os.SEEK_END)
        headers = {
            "Content-Type": "application/gzip", "Content-Length": str(size), "Accept": "application/json",
        }  # fmt: skip
        self._poster = poster = Poster(self._url, self._token, timeout_s=TIMEOUT_S)
        try:
            for wait_s in (*WAITS_S, None):
                why = self._tried(poster, place, body, headers)
                if why is None:
                    return
                if wait_s is None or self._is_over:
                    raise ServiceError(poster.shown, f"it takes no trace: {why}", "look at the server's log")
                time.sleep(wait_s)
        finally:
            poster.cut()

    @staticmethod
    def _tried(poster: Poster, place: str, body: BinaryIO, headers: dict[str, str]) -> str | None:
        """Why it was not taken, `None` where it was. RefusedError where it never will be."""
        target = parts_of(poster.shown).path.rstrip("/") + place
        try:
            answer = poster.ask("PUT", target, body, headers)
        except (OSError, UnicodeError) as error:
            return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        if 200 <= answer.status < 300:
            return None
        if answer.status in GONE:
            raise RefusedError(f"{place}: the server does not want it any more ({answer.status})")
        if answer.status in WRONG:
            raise RefusedError(f"{place}: the server refuses it ({answer.status})")
        return f"answer {answer.status}"

    def stop(self) -> None:
        """From any thread: what is under way ends."""
        self._is_over = True
        if self._poster is not None:
            self._poster.cut()


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk
