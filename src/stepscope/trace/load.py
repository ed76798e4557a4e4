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
from dataclasses import dataclass
from typing import Any

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
_QUOTE = re.compile(r'(?<!\\)"')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})')
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*(\{[^{}]*\})')
_DECODER = json.JSONDecoder(strict=False)
_SEPARATOR = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_MEMBER = re.compile(r',\s*("[A-Za-z_][A-Za-z0-9_ ]*"\s*:)')
"""Where the next member of damaged metadata may begin."""
BOM = b"\xef\xbb\xbf"
_GIVE = "give the trace that torch.profiler exported (*.json or *.json.gz)"
_NO_SNAPSHOT = "a memory snapshot is read only from a file of its own; give a trace (*.json or *.json.gz)"

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
    fed = _feed(parser, buffer, limits)
    state = parser.state()
    if state.num_kept + state.num_bad_time == 0 and (state.num_lost or not state.is_closed):
        what = (
            "holds no trace event" if state.num_lost else text.damage or "breaks off before the first event"
        )
        raise InputError(text.name, what, "copy it again, or record again", f"byte {len(head)}")
    is_whole = state.is_closed and not head.removeprefix(BOM).lstrip().startswith(b"[")
    metadata, losses = _metadata(head, fed.tail, is_whole=is_whole)
    losses = [*_cut_losses(text, state, fed, len(head)), *losses]
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
    """One piece of memory for all chunks: what is still needed lies at its front, the next text comes
    behind."""

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
            raise _refusal(text, start)
        match = _EVENTS.search(buffer.view, max(0, seen - _KEY_AT_END))
        if match:
            end = match.end()
            # A match holds on to the buffer, which could not grow then.
            del match
            return _taken(buffer, end)
        seen = buffer.size
        if seen > limits.max_header:
            raise InputError(text.name, f"no traceEvents in the first {seen >> 20} MB", _GIVE)
    raise _refusal(text, bytes(buffer.view).removeprefix(BOM).lstrip())


def _taken(buffer: _Buffer, size: int) -> bytes:
    head = bytes(buffer.view[:size])
    buffer.drop(size)
    return head


def _refusal(text: Text, start: bytes) -> InputError:
    """Say what a file seems to be instead of a trace."""
    if text.damage is not None:
        return InputError(text.name, text.damage, "copy it again, or record again", "its beginning")
    if not start:
        return InputError(text.name, "the file is empty", "was the job ended while it exported? record again")
    for magic, what, mend in _LOOKS_LIKE:
        if start.startswith(magic):
            return InputError(text.name, what, mend)
    if not start.startswith(b"{"):
        return InputError(text.name, "is no JSON", _GIVE)
    if b'"rocprofiler-sdk-tool"' in start[:200]:
        return InputError(text.name, "is a rocprofv3 result, which is not read yet", _GIVE)
    try:
        value = json.loads(start.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        what = "is JSON that breaks off or is damaged, without traceEvents"
        return InputError(text.name, what, _GIVE)
    keys = ", ".join(list(value)[:5]) if isinstance(value, dict) and value else "none"
    return InputError(text.name, f"has no key traceEvents (its keys: {keys})", _GIVE)


@dataclass(frozen=True, slots=True)
class _Fed:
    """How the events ended: the text behind them, or where they were cut.

    `cut_at` is the offset (in the event text) of the first byte that no event was made of, `None` where
    the array ends; `left` how many such bytes there are.
    """

    tail: bytes
    cut_at: int | None = None
    left: int = 0


def _feed(parser: Parser, buffer: _Buffer, limits: Limits) -> _Fed:
    """Put the events through the parser. A buffer that has grown to the size one event may have gives
    that event up."""
    is_final, at = False, 0
    while True:
        done = parser.feed(buffer.view, is_final, buffer.size > limits.max_event)
        at += done
        if is_final or done < buffer.size:
            state = parser.state()
            if state.mixed_at >= 0:
                # The rest is read, so that size and digest are the file's.
                buffer.drop(buffer.size)
                while buffer.more():
                    buffer.drop(buffer.size)
                return _Fed(b"")
            if state.is_closed:
                buffer.drop(done)
                while buffer.more() and buffer.size < limits.max_header:
                    pass
                tail = bytes(buffer.view)
                while buffer.more():
                    buffer.drop(buffer.size)
                return _Fed(tail)
        buffer.drop(done)
        if is_final:
            return _Fed(b"", at, buffer.size)
        is_final = not buffer.more()


def _cut_losses(text: Text, state: State, fed: _Fed, events_at: int) -> list[Loss]:
    """What a broken end costs: the events behind it, nobody knows how many."""
    if fed.cut_at is not None and state.mixed_at < 0:
        why = text.damage or "the text breaks off inside the events"
        byte = events_at + fed.cut_at
        detail = (
            f"{why}, at byte {byte}; the {state.num_kept:,} events before it are kept; "
            "device work of any step may be among the others: its accounting is withheld"
        )
        return [Loss("truncated", 1, detail, byte, fed.left, is_cut=True)]
    if text.damage is not None:
        return [Loss("truncated", 1, f"{text.damage}, behind the events: all of them are kept")]
    return []


def _metadata(head: bytes, tail: bytes, *, is_whole: bool) -> tuple[dict[str, Any], list[Loss]]:
    """Top-level members around the events. What is broken is given up member by member.

    `is_whole`: the events ended inside an object, whose other members and closing brace must follow.
    """
    losses: list[Loss] = []
    before = _EVENTS.sub(b"", head.removeprefix(BOM).strip()).strip().lstrip(b"{[")
    metadata, num_before, _ = _members(before)
    behind, num_behind, rest = _members(tail, may_be_cut=True) if is_whole else ({}, 0, b"")
    metadata.update(behind)
    if num_before + num_behind:
        count = num_before + num_behind
        losses.append(
            Loss("malformed_events", count, f"{count} members of the metadata are damaged and were given up")
        )
    if is_whole and not rest.startswith(b"}"):
        losses.append(Loss("truncated", 1, "the text breaks off behind the events: all of them are kept"))
    elif _EVENTS.search(rest):
        detail = "another trace follows in the same file and was left out: two ranks wrote one file; "
        losses.append(Loss("mixed_writers", 1, detail + "put the rank in the file name"))
    return metadata, losses


def _members(part: bytes, *, may_be_cut: bool = False) -> tuple[dict[str, Any], int, bytes]:
    """Members of an object without its opening brace: those that parse, how many do not, and the text
    behind them. A last one that the end of the text cuts is no damage of its own (`may_be_cut`)."""
    text = part.decode("utf-8", "replace")
    found: dict[str, Any] = {}
    at, num_bad = 0, 0
    while True:
        at = _SEPARATOR.match(text, at).end()  # type: ignore[union-attr]
        if not text.startswith('"', at):
            break
        try:
            key, at_value = _DECODER.raw_decode(text, at)
            value, end = _DECODER.raw_decode(text, _COLON.match(text, at_value).end())  # type: ignore[union-attr]
        except (ValueError, AttributeError, RecursionError):
            num_bad += 1
            following = _MEMBER.search(text, at + 1)
            if following is None:
                # A brace inside a string that was never closed is none.
                is_whole = text.rstrip().endswith("}") and len(_QUOTE.findall(text, at)) % 2 == 0
                num_bad -= may_be_cut and not is_whole
                return {**_rescued(part), **found}, num_bad, b"}" if is_whole else b""
            at = following.start(1)
            continue
        if isinstance(key, str):
            found[key] = value
        at = end
    return found, num_bad, text[at:].encode("utf-8", "replace")


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
