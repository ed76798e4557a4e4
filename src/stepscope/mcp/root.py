"""Which files may be read: those under the roots given on the command line, links followed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.mcp.reach import GLOB, reached
from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.trace.discover import MEMBER

MAX_FILES = 1_024
MAX_BYTES = 64 << 30
"""Of all files of one call as they lie on disk: a mistaken root is no reason to read for an hour."""


@dataclass(frozen=True, slots=True)
class Found:
    """One trace to read: its real path (with the member of an archive behind `::`), the name to show, and
    what tells that it has changed."""

    path: str
    name: str
    mtime_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class Files:
    """What paths name: traces to read, and links among them (from their root on) that lead out of the roots
    or to nothing, whichever."""

    traces: tuple[Found, ...]
    strays: tuple[str, ...] = ()


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

    def files(self, paths: Sequence[str]) -> Files:
        """The traces that these paths name. Raises RefusedError for anything outside, whether it is there or
        not, and where nothing is found."""
        found: dict[str, Found] = {}
        strays: dict[str, None] = {}
        for path in paths:
            traces, left_out = self._files(path)
            found |= {each.path: each for each in traces}
            strays |= dict.fromkeys(left_out)
        if len(found) > MAX_FILES:
            raise RefusedError(f"{len(found)} files: more than {MAX_FILES} a call; name some of them")
        size = sum({each.path.partition(MEMBER)[0]: each.size for each in found.values()}.values())
        if size > MAX_BYTES:
            what = f"{size >> 30} GB of traces: more than {MAX_BYTES >> 30} a call"
            raise RefusedError(f"{what}; name some of the files")
        return Files(tuple(found.values()), tuple(strays))

    def _files(self, path: str) -> tuple[list[Found], list[str]]:
        self._check_words(path)
        is_under = False
        strays: list[str] = []
        for root in self._roots:
            start = os.path.join(root, path)
            if self.root_of(_fixed_part(start)) is None:
                continue
            is_under = True
            # A missing file, or a folder on the way that may not be entered: the next root may have it.
            with contextlib.suppress(InputError, OSError):
                found = reached(start, self.root_of)
                strays += (os.path.relpath(each, root) for each in found.strays)
                traces = [self._found(path, source) for source in found.sources]
                if traces:
                    return traces, strays
        if not is_under:
            raise self._outside(path)
        if strays:
            what = "only links there that lead out of the folders that may be read (--root), or to nothing"
            raise RefusedError(f"{path}: {what}")
        raise RefusedError(f"{path}: no trace there; name a file, directory or pattern under a root")

    def _found(self, path: str, source: str) -> Found:
        file, mark, member = source.partition(MEMBER)
        real = os.path.realpath(file)
        root = self.root_of(real)
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
        if ".." in Path(path).parts and GLOB & set(path):
            raise RefusedError(f"{path}: a pattern may not hold '..'")

    def root_of(self, path: str) -> Path | None:
        """The root that a path leads into, whether or not anything is there; `None` for outside."""
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
        if GLOB & set(part):
            break
        kept.append(part)
    return str(Path(*kept))
