"""Trace files to columns: the one entry that the rest of stepscope uses.

The text is read in chunks. What stands before and behind the event array is metadata and optional; the
events in between go through the native parser, or the pure one where it is not built.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator
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
    chunks = _watched(text, opened.size or 0, progress)
    head, rest = _head(chunks, text, limits)
    parser, is_native = _parser(native, limits)
    tail, is_cut = _feed(parser, rest, chunks, limits)
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


def _watched(text: Text, size: int, progress: Progress | None) -> Iterator[bytes]:
    for chunk in text.chunks():
        yield chunk
        if progress is not None:
            progress(text.num_bytes, size)


def _head(chunks: Iterator[bytes], text: Text, limits: Limits) -> tuple[bytes, bytes]:
    """The text up to and with the event array's bracket, and what of the events was read with it."""
    head = bytearray()
    seen = 0
    for chunk in chunks:
        is_first = not head
        head += chunk
        if is_first:
            start = bytes(head[:4096]).removeprefix(BOM).lstrip()
            if start.startswith(b"["):
                at = head.index(b"[") + 1
                return bytes(head[:at]), bytes(head[at:])
            if start and not start.startswith(b"{"):
                _refuse(text, start)
        match = _EVENTS.search(head, max(0, seen - _KEY_AT_END))
        if match:
            return bytes(head[: match.end()]), bytes(head[match.end() :])
        seen = len(head)
        if seen > limits.max_header:
            raise InputError(text.name, f"no traceEvents in the first {seen >> 20} MB", _GIVE)
    _refuse(text, bytes(head).removeprefix(BOM).lstrip())


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


def _feed(parser: Parser, rest: bytes, chunks: Iterator[bytes], limits: Limits) -> tuple[bytes, bool]:
    """Put the events through the parser. Returns the text behind them, and whether they were cut.

    One buffer serves all chunks: what an event still needs is moved to its front. A buffer that has
    grown to the size one event may have gives that event up.
    """
    buffer = bytearray(max(2 * limits.chunk, len(rest)))
    view = memoryview(buffer)
    size = 0
    is_final = False
    pieces = _with(rest, chunks)
    while not is_final:
        piece = next(pieces, None)
        is_final = piece is None
        if piece is not None:
            if size + len(piece) > len(buffer):
                view.release()
                buffer = buffer + bytearray(size + len(piece))
                view = memoryview(buffer)
            view[size : size + len(piece)] = piece
            size += len(piece)
        done = parser.feed(view[:size], is_final, size > limits.max_event)
        state = parser.state() if is_final or done < size else None
        if state is not None and state.mixed_at >= 0:
            for _ in pieces:  # the rest is read, so that size and digest are the file's
                pass
            return b"", False
        if state is not None and state.is_closed:
            tail = bytearray(view[done:size])
            for more in pieces:
                if len(tail) < limits.max_header:
                    tail += more
            return bytes(tail), False
        view[: size - done] = bytes(view[done:size])
        size -= done
    return b"", True


def _with(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from others


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
