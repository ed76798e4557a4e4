"""Which files may be read: those under the roots given on the command line, links followed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.trace.discover import MEMBER
from stepscope.trace.load import discover

MAX_FILES = 1_024
MAX_BYTES = 64 << 30
"""Of all files of one call as they lie on disk: a mistaken root is no reason to read for an hour."""
_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Found:
    """One trace to read: its real path (with the member of an archive behind `::`), the name to show, and
    what tells that it has changed."""

    path: str
    name: str
    mtime_ns: int
    size: int


class Roots:
    """The folders that may be read."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Raises UsageError for what is no folder."""
        for folder in folders:
            if not os.path.isdir(folder):
                raise UsageError(f"{folder}: is no directory; give an existing one to --root")
        self._roots = [Path(os.path.realpath(folder)) for folder in folders]
        written = {str(root) for root in self._roots} | set(map(os.path.abspath, folders))
        # The root `/` is the beginning of every path: there is nothing to leave off.
        longest_first = sorted((re.escape(each) for each in written - {os.sep}), key=len, reverse=True)
        self._written = re.compile(
            rf"(?:{'|'.join(longest_first) or '(?!)'})(?:(?P<below>{os.sep})|(?![\w.-]))"
        )

    @property
    def folders(self) -> list[str]:
        """Their real paths."""
        return list(map(str, self._roots))

    def relative(self, text: str) -> str:
        """The text with the paths of the roots left off: a path under one begins there."""
        return self._written.sub(lambda match: "" if match["below"] else ".", text)

    def files(self, paths: Sequence[str]) -> list[Found]:
        """The traces that these paths name. Raises RefusedError for anything outside, whether it is there or
        not, and InputError where nothing is found."""
        found: dict[str, Found] = {}
        for path in paths:
            for each in self._files(path):
                found[each.path] = each
        if len(found) > MAX_FILES:
            raise RefusedError(f"{len(found)} files: more than {MAX_FILES} a call; name some of them")
        size = sum({each.path.partition(MEMBER)[0]: each.size for each in found.values()}.values())
        if size > MAX_BYTES:
            what = f"{size >> 30} GB of traces: more than {MAX_BYTES >> 30} a call"
            raise RefusedError(f"{what}; name some of the files")
        return list(found.values())

    def _files(self, path: str) -> list[Found]:
        self._check_words(path)
        is_under = False
        for root in self._roots:
            start = root / path
            if self._root_of(_fixed_part(str(start))) is None:
                continue
            is_under = True
            # A missing file, or a folder on the way that may not be entered: the next root may have it.
            with contextlib.suppress(InputError, OSError):
                return [self._found(path, source) for source in discover([str(start)])]
        if is_under:
            raise RefusedError(f"{path}: no trace there; name a file, directory or pattern under a root")
        raise self._outside(path)

    def _found(self, path: str, source: str) -> Found:
        file, mark, member = source.partition(MEMBER)
        real = os.path.realpath(file)
        root = self._root_of(real)
        if root is None:
            raise self._outside(path)
        state = os.stat(real)
        if not stat.S_ISREG(state.st_mode):
            raise RefusedError(f"{path}: is no regular file")
        name = f"{os.path.relpath(real, root)}{mark}{member}"
        return Found(f"{real}{mark}{member}", name, state.st_mtime_ns, state.st_size)

    def _check_words(self, path: str) -> None:
        if "\0" in path or "://" in path:
            raise RefusedError(f"no path of a file here: {path[:80]!r}")
        if ".." in Path(path).parts and _GLOB & set(path):
            raise RefusedError(f"{path}: a pattern may not hold '..'")

    def _root_of(self, path: str) -> Path | None:
        real = Path(os.path.realpath(path))
        return next((root for root in self._roots if real == root or root in real.parents), None)

    def _outside(self, path: str) -> RefusedError:
        return RefusedError(f"outside of the folders that may be read (--root): {path}")


def _fixed_part(path: str) -> str:
    """The path up to the first pattern or member."""
    path = path.partition(MEMBER)[0]
    parts = Path(path).parts
    kept = []
    for part in parts:
        if _GLOB & set(part):
            break
        kept.append(part)
    return str(Path(*kept))
