"""Trace files to columns: the one entry that the rest of stepscope uses.

The text is read in chunks. What stands before and behind the event array is metadata and optional; the
events in between go through the native parser, or the pure one where it is not built.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from stepscope.model.error import InputError
from stepscope.model.trace import Loss, Trace
from stepscope.trace.assemble import assemble
from stepscope.trace.discover import Opened, discover, open_input, rank_of
from stepscope.trace.kineto_native import NativeParser, library
from stepscope.trace.limits import Limits
from stepscope.trace.parsed import Parser, State
from stepscope.trace.reader import Text

Progress = Callable[[int, int], None]
"""Called with bytes read so far and bytes in all (0 where unknown)."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY_AT_END = 64
"""Bytes kept back while the events are looked for: the key may be cut."""
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})')
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*(\{[^{}]*\})')
BOM = b"\xef\xbb\xbf"
_GIVE = "give the trace that torch.profiler exported (*.json or *.json.gz)"
_NO_SNAPSHOT = "a memory snapshot is not read here; give a trace (*.json or *.json.gz)"

# First bytes of what people give instead, and what to do.
_LOOKS_LIKE: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89PNG", "is a PNG image", _GIVE),
    (b"\xff\xd8\xff", "is a JPEG image", _GIVE),
    (b"%PDF", "is a PDF", _GIVE),
    (b"PK\x03\x04", "is a zip archive", "unpack it, and give the trace inside"),
    (b"\x80\x02", "is a pickle", _NO_SNAPSHOT),
    (b"\x80\x04", "is a pickle", _NO_SNAPSHOT),
    (b"\x80\x05", "is a pickle", _NO_SNAPSHOT),
    (b"SQLite format 3", "is an SQLite file", "Nsight Systems exports are not read yet; " + _GIVE),
    (b"BZh", "is bzip2-compressed", "decompress it with bunzip2"),
    (b"\xfd7zXZ", "is xz-compressed", "decompress it with unxz"),
    (b"\x7fELF", "is a program", _GIVE),
    (b"<", "is HTML or XML", "was it downloaded through a login page? give the trace itself"),
)


def native_available() -> bool:
    """Whether the native parser is built and loads here."""
    return library() is not None


def load(
    path: str,
    *,
    native: bool | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen, and the same for everyone
    progress: Progress | None = None,
    digest: bool = False,
) -> Trace:
    """One trace in columns. `path` is a file, a member of an archive (`a.tar::member`), or a URL.

    `native` chooses the parser, `None` the native one where it is built. `digest` adds the file's
    sha256. What had to be given up is in `Trace.losses`. Raises InputError where nothing can be read.
    """
    opened = open_input(path)
    try:
        return _load(opened, path, native, limits, progress, digest)
    finally:
        opened.close()


def load_bytes(
    data: bytes,
    name: str,
    *,
    native: bool | None = None,
    limits: Limits = Limits(),  # noqa: B008
    digest: bool = True,
) -> Trace:
    """The same from bytes in memory."""
    return _load(Opened(io.BytesIO(data), len(data)), name, native, limits, None, digest)


def _parser(native: bool | None, limits: Limits) -> tuple[Parser, bool]:
    is_native = native_available() if native is None else native
    if is_native:
        return NativeParser(limits.max_string, limits.max_nesting), True
    from stepscope.trace.kineto_fallback import FallbackParser

    return FallbackParser(limits.max_string, limits.max_nesting), False


def _load(
    opened: Opened, name: str, native: bool | None, limits: Limits, progress: Progress | None, digest: bool
) -> Trace:
    text = Text(opened.stream, name, limits, with_digest=digest)
    source = _Source(text, opened.size or 0, progress)
    buffer = _Buffer(source, limits.chunk)
    head = _head(buffer, text, limits)
    parser, is_native = _parser(native, limits)
    tail, is_cut = _feed(parser, buffer, limits)
    state = parser.state()
    if state.num_kept + state.num_lost + state.num_bad_time == 0 and not state.is_closed:
        what = text.damage or "breaks off before the first event"
        raise InputError(text.name, what, "copy it again, or record again", f"byte {len(head)}")
    metadata, losses = _metadata(head, tail)
    losses = [*_cut_losses(text, state, is_cut, len(head)), *losses]
    return assemble(
        parser.finish(),
        state,
        name=name,
        metadata=metadata,
        losses=losses,
        events_at=len(head),
        num_bytes=text.num_bytes,
        sha256=text.sha256,
        is_native=is_native,
    )


class _Source:
    """Text, plain or decompressed, written straight into a buffer."""

    def __init__(self, text: Text, size: int, progress: Progress | None) -> None:
        self._text = text
        self._size = size
        self._progress = progress
        self._pieces = text.open()
        self._piece = b""

    def read_into(self, view: memoryview) -> int:
        """Bytes written to the front of `view`, 0 at the end of the text."""
        if self._pieces is None:
            size = self._text.read_into(view)
        else:
            if not self._piece:
                self._piece = next(self._pieces, b"")
            size = min(len(self._piece), len(view))
            view[:size] = self._piece[:size]
            self._piece = self._piece[size:]
        if self._progress is not None:
            self._progress(self._text.num_bytes, self._size)
        return size


class _Buffer:
    """One piece of memory for all chunks: what is still needed lies at its front, the next text comes behind."""

    def __init__(self, source: _Source, chunk: int) -> None:
        self._source = source
        self._chunk = chunk
        self._bytes = bytearray(2 * chunk)
        self.size = 0

    @property
    def view(self) -> memoryview:
        """The text at hand."""
        return memoryview(self._bytes)[: self.size]

    def drop(self, size: int) -> None:
        """Forget so many bytes at the front."""
        left = self.size - size
        self._bytes[:left] = self._bytes[size : self.size]
        self.size = left

    def more(self) -> bool:
        """Read the next text behind what is there; False at the end."""
        if self.size + self._chunk > len(self._bytes):
            self._bytes += bytes(len(self._bytes))
        room = memoryview(self._bytes)[self.size : self.size + self._chunk]
        read = self._source.read_into(room)
        self.size += read
        return read > 0


def _head(buffer: _Buffer, text: Text, limits: Limits) -> bytes:
    """The text up to and with the event array's bracket; it is taken out of the buffer."""
    seen = 0
    while buffer.more():
        start = bytes(buffer.view[:4096]).removeprefix(BOM).lstrip()
        if start.startswith(b"["):
            return _taken(buffer, bytes(buffer.view).index(b"[") + 1)
        if start and not start.startswith(b"{"):
            _refuse(text, start)
        match = _EVENTS.search(buffer.view, max(0, seen - _KEY_AT_END))
        if match:
            end = match.end()
            # A match holds on to the buffer, which could not grow then.
            del match
            return _taken(buffer, end)
        seen = buffer.size
        if seen > limits.max_header:
            raise InputError(text.name, f"no traceEvents in the first {seen >> 20} MB", _GIVE)
    _refuse(text, bytes(buffer.view).removeprefix(BOM).lstrip())


def _taken(buffer: _Buffer, size: int) -> bytes:
    head = bytes(buffer.view[:size])
    buffer.drop(size)
    return head


def _refuse(text: Text, start: bytes) -> NoReturn:
    """Say what a file seems to be instead of a trace."""
    if text.damage is not None:
        raise InputError(text.name, text.damage, "copy it again, or record again", "its beginning")
    if not start:
        raise InputError(text.name, "the file is empty", "was the job ended while it exported? record again")
    for magic, what, mend in _LOOKS_LIKE:
        if start.startswith(magic):
            raise InputError(text.name, what, mend)
    if not start.startswith(b"{"):
        raise InputError(text.name, "is no JSON", _GIVE)
    if b'"rocprofiler-sdk-tool"' in start[:200]:
        raise InputError(text.name, "is a rocprofv3 result, which is not read yet", _GIVE)
    try:
        value = json.loads(start.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        what = "is JSON that breaks off or is damaged, without traceEvents"
        raise InputError(text.name, what, _GIVE) from None
    keys = ", ".join(list(value)[:5]) if isinstance(value, dict) and value else "none"
    raise InputError(text.name, f"has no key traceEvents (its keys: {keys})", _GIVE)


def _feed(parser: Parser, buffer: _Buffer, limits: Limits) -> tuple[bytes, bool]:
    """Put the events through the parser. Returns the text behind them, and whether they were cut.

    A buffer that has grown to the size one event may have gives that event up.
    """
    is_final = False
    while True:
        done = parser.feed(buffer.view, is_final, buffer.size > limits.max_event)
        if is_final or done < buffer.size:
            state = parser.state()
            if state.mixed_at >= 0:
                # The rest is read, so that size and digest are the file's.
                buffer.drop(buffer.size)
                while buffer.more():
                    buffer.drop(buffer.size)
                return b"", False
            if state.is_closed:
                buffer.drop(done)
                while buffer.more() and buffer.size < limits.max_header:
                    pass
                tail = bytes(buffer.view)
                while buffer.more():
                    buffer.drop(buffer.size)
                return tail, False
        buffer.drop(done)
        if is_final:
            return b"", True
        is_final = not buffer.more()


def _cut_losses(text: Text, state: State, is_cut: bool, events_at: int) -> list[Loss]:
    """What a broken end costs: the events behind it, nobody knows how many."""
    if is_cut and state.mixed_at < 0:
        why = text.damage or "the text breaks off inside the events"
        detail = f"{why}; the {state.num_kept:,} events before it are kept"
        return [Loss("truncated", 1, detail, events_at)]
    if text.damage is not None:
        return [Loss("truncated", 1, f"{text.damage}, behind the events: all of them are kept")]
    return []


def _metadata(head: bytes, tail: bytes) -> tuple[dict[str, Any], list[Loss]]:
    """Top-level keys around the events. A broken part is given up; the base time and the rank are sought."""
    metadata: dict[str, Any] = {}
    losses: list[Loss] = []
    before = _EVENTS.sub(b"", head.removeprefix(BOM).strip()).strip().lstrip(b"{[")
    behind = tail.strip()
    behind = behind[:-1] if behind.endswith(b"}") else behind
    for where, part in (("before", before), ("behind", behind)):
        members = part.strip().strip(b",").strip()
        if not members:
            continue
        try:
            value = json.loads(b"{" + members + b"}", strict=False)
        except (ValueError, RecursionError):
            value = _rescued(members)
            detail = f"metadata {where} the events is damaged and was given up"
            losses.append(Loss("malformed_events", 1, detail))
        metadata.update(value)
    return metadata, losses


def _rescued(part: bytes) -> dict[str, Any]:
    """What is needed most of metadata that does not parse."""
    found: dict[str, Any] = {}
    base = _BASE.search(part)
    if base:
        found["baseTimeNanoseconds"] = int(base[1])
    distributed = _DISTRIBUTED.search(part)
    if distributed:
        with contextlib.suppress(ValueError):
            found["distributedInfo"] = json.loads(distributed[1], strict=False)
    return found


__all__ = ["Limits", "discover", "load", "load_bytes", "native_available", "rank_of"]
