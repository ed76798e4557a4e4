"""Secrets out of a trace's text, piece by piece: what leaves a node, and what enters a server.

The text is walked member by member and event by event. What holds no secret goes on as it stands, byte for
byte; an event or member that holds one is written anew, its numbers with their own digits: the loader makes
the same of it but for the text that was a secret.
"""

from __future__ import annotations

import codecs
import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from stepscope.model.redact import is_secret_name, tree_without_secrets, without_secrets
from stepscope.model.redact.environment import ENVIRONMENT_NAME
from stepscope.model.redact.secret import NEEDLES

MOST_CHARACTERS = 64 << 20
"""Of one event or member: as the loader's."""
MOST_KNOWN = 1 << 17
"""Texts whose judgement is remembered: names and shapes come again and again."""
_PIECE = 1 << 18
_GAP = re.compile(r"[\s,:\ufeff]*")
_SPEAKING = (str, dict, list)
_NEAR_END = 64
"""What is wrong so near to the end of the text at hand may be cut only."""
_plain = json.JSONDecoder(strict=False)


class _Number(float):
    """A number that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> _Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


_exact = json.JSONDecoder(strict=False, parse_float=_Number, parse_int=_Number, parse_constant=_Number)


class SecretsRemoved:
    """Pieces of a trace's text (UTF-8, not compressed) without secrets; so far `num` were removed.

    Where the text is damaged (no JSON) the rest of it is taken line by line, as a log is.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.num = 0
        self._pieces = iter(pieces)
        # Bytes that are no UTF-8 come out as they went in.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text, self._at, self._is_ended = "", 0, False
        self._known: dict[str, bool] = {}

    def __iter__(self) -> Iterator[bytes]:
        held: list[str] = []
        size = 0
        try:
            for part in self._parts():
                held.append(part)
                size += len(part)
                if size >= _PIECE:
                    yield _bytes(held)
                    held, size = [], 0
        except (ValueError, RecursionError):
            yield _bytes(held)
            held = []
            for line in self._lines():
                yield _bytes([self._counted(*without_secrets(line))])
        if held:
            yield _bytes(held)

    # ── the walk ──

    def _parts(self) -> Iterator[str]:
        yield self._gap()
        opening = self._text[self._at : self._at + 1]
        if opening not in ("{", "["):
            raise ValueError("no object")
        yield self._take(1)
        yield from self._events() if opening == "[" else self._members()
        yield self._gap()
        if self._at < len(self._text):
            raise ValueError("something follows")

    def _members(self) -> Iterator[str]:
        yield self._gap()
        while not self._is_at("}"):
            key, raw_key = self._value()
            if not isinstance(key, str):
                raise ValueError("a name that is no text")
            raw_key += self._gap()
            if key == "traceEvents" and self._is_at("["):
                yield raw_key + self._take(1)
                yield from self._events()
            else:
                yield self._member(key, raw_key, self._value()[1])
            yield self._gap()
        yield self._take(1)

    def _events(self) -> Iterator[str]:
        yield self._gap()
        while not self._is_at("]"):
            yield self._event(*self._value())
            yield self._gap()
        yield self._take(1)

    # ── what is found ──

    def _event(self, plain: Any, raw: str) -> str:
        if type(plain) not in _SPEAKING or not self._is_suspect(plain):
            return raw
        value, num = tree_without_secrets(_exact.decode(raw))
        return _written(self._counted(value, num)) if num else raw

    def _is_suspect(self, value: Any) -> bool:
        """Whether a closer look may find a secret in it."""
        kind = type(value)
        if kind is dict:
            return any(
                _is_telling(name) or (type(each) in _SPEAKING and self._is_suspect(each))
                for name, each in value.items()
            )
        if kind is str:
            key = value
        elif any(type(each) is str for each in value):
            key = repr(value)  # of words beside each other one may say what the next one is
        else:
            return any(type(each) in _SPEAKING and self._is_suspect(each) for each in value)
        is_suspect = self._known.get(key)
        if is_suspect is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            is_suspect = self._known[key] = tree_without_secrets(value)[1] > 0
        return is_suspect

    def _member(self, key: str, raw_key: str, raw: str) -> str:
        lowered = f"{key} {raw}".lower()
        if not any(needle in lowered for needle in NEEDLES) and not ENVIRONMENT_NAME.match(key):
            return raw_key + raw
        clean, num = tree_without_secrets({key: _exact.decode(raw)})
        ((clean_key, value),) = self._counted(clean, num).items()
        return f"{json.dumps(clean_key)}: {_written(value)}" if num else raw_key + raw

    def _counted(self, value: Any, num: int) -> Any:
        self.num += num
        return value

    # ── the text at hand ──

    def _value(self) -> tuple[Any, str]:
        """The next value and its text. ValueError where there is none."""
        while True:
            try:
                value, end = _plain.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _NEAR_END
                if not is_cut or not self._more():
                    raise
                continue
            # A number may go on.
            if end < len(self._text) or not self._more():
                return value, self._take(end - self._at)

    def _gap(self) -> str:
        found = ""
        while True:
            match = _GAP.match(self._text, self._at)
            found += self._take(match.end() - self._at if match is not None else 0)
            if self._at < len(self._text) or not self._more():
                return found

    def _is_at(self, char: str) -> bool:
        if self._at == len(self._text) and not self._more():
            raise ValueError("it breaks off")
        return self._text[self._at] == char

    def _take(self, size: int) -> str:
        self._at += size
        return self._text[self._at - size : self._at]

    def _more(self) -> bool:
        """Read on, as much again as is at hand; False at the end. ValueError where that is too much."""
        if self._is_ended:
            return False
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > MOST_CHARACTERS:
            raise ValueError("too long")
        parts, size = [self._text], 0
        while size <= len(self._text):
            piece = next(self._pieces, None)
            parts.append(self._decoder.decode(piece or b"", final=piece is None))
            size += len(parts[-1])
            if piece is None:
                self._is_ended = True
                break
        self._text = "".join(parts)
        return size > 0 or not self._is_ended

    def _lines(self) -> Iterator[str]:
        """The rest, line by line; a line without end in parts."""
        while True:
            *whole, rest = self._text[self._at :].splitlines(keepends=True) or [""]
            yield from whole
            if len(rest) > _PIECE or (self._is_ended and rest):
                yield rest
                rest = ""
            self._text, self._at = rest, 0
            if self._is_ended:
                return
            piece = next(self._pieces, None)
            self._is_ended = piece is None
            self._text += self._decoder.decode(piece or b"", final=piece is None)


@functools.lru_cache(MOST_KNOWN)
def _is_telling(name: str) -> bool:
    """Whether a name says that its value is, or may be, a secret."""
    is_key = name.lower() == "key" or is_secret_name(name) or ENVIRONMENT_NAME.match(name) is not None
    return is_key or without_secrets(name)[1] > 0


def _bytes(parts: list[str]) -> bytes:
    return "".join(parts).encode("utf-8", "surrogateescape")


def _written(value: Any) -> str:
    """A JSON value as text, each number as it stood."""
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value)


__all__ = ["MOST_CHARACTERS", "SecretsRemoved"]
