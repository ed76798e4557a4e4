"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


class Pattern:
    """A regular expression of which a command pays the compilation only where some text calls for it.

    Compiling all of the patterns of this folder takes 20 ms, a tenth of a whole `diagnose` of a small trace.
    """

    __slots__ = ("_compiled", "_flags", "_source")

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source, self._flags = source, flags
        self._compiled: re.Pattern[str] | None = None

    def _get(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._source, self._flags)
        return self._compiled

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._get().match(text, at)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._get().fullmatch(text)

    def search(self, text: str, at: int = 0, end: int | None = None) -> re.Match[str] | None:
        return self._get().search(text, at, len(text) if end is None else end)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._get().finditer(text)

    def sub(self, change: Callable[[re.Match[str]], str], text: str) -> str:
        return self._get().sub(change, text)
