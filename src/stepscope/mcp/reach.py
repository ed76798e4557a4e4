"""What lies at a path below a root, found without looking at anything outside of the roots.

A pattern that led through a link could tell what is there by finding it or not. So a link that leads out is
left out where it lies, and what it leads to is never asked for.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stepscope.trace.discover import MEMBER, SUFFIXES
from stepscope.trace.load import discover

GLOB = frozenset("*?[")
RootOf = Callable[[str], Path | None]


@dataclass(frozen=True, slots=True)
class Reached:
    """Names that the loader takes, sorted, and links that lead out or to nothing."""

    sources: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


def reached(start: str, root_of: RootOf) -> Reached:
    """What a file, directory, pattern or member of an archive is. Raises InputError where a file or archive
    is none; a directory or pattern may hold nothing."""
    if root_of(start.partition(MEMBER)[0]) is None:
        return Reached(strays=[start])
    found = Reached()
    if os.path.isdir(start):
        for entry in _below(start):
            if os.path.basename(entry).lower().endswith(SUFFIXES):
                _sort_in(entry, root_of, found)
    elif GLOB & set(start) and not os.path.exists(start):
        anchor, *parts = Path(start).parts
        for entry in _matching(anchor, tuple(parts), root_of, found.strays):
            _sort_in(entry, root_of, found)
    else:
        return Reached(discover([start]))
    return Reached(sorted(set(found.sources)), sorted(set(found.strays)))


def _sort_in(entry: str, root_of: RootOf, found: Reached) -> None:
    if os.path.islink(entry) and (root_of(entry) is None or not os.path.exists(entry)):
        found.strays.append(entry)
    elif os.path.isfile(entry):
        found.sources.append(entry)


def _below(folder: str) -> Iterator[str]:
    for inside, folders, names in os.walk(folder):
        # A link may call itself a file and lead to a folder.
        links = (name for name in folders if os.path.islink(os.path.join(inside, name)))
        yield from (os.path.join(inside, name) for name in (*names, *links))


def _matching(folder: str, parts: tuple[str, ...], root_of: RootOf, strays: list[str]) -> Iterator[str]:
    """Every entry that the parts of a pattern match, as `glob` understands them; `**` follows no links."""
    if not parts:
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        folders = [inside for inside, _, _ in os.walk(folder) if not _is_hidden(inside, folder)]
        for inside in folders:
            yield from _matching(inside, rest or ("*",), root_of, strays)
        return
    names = [part] if not GLOB & set(part) else _names(folder, part)
    for entry in (os.path.join(folder, name) for name in names):
        if not rest:
            if os.path.lexists(entry):
                yield entry
        elif os.path.islink(entry) and root_of(entry) is None and _is_below(entry, root_of):
            strays.append(entry)
        elif os.path.isdir(entry):
            yield from _matching(entry, rest, root_of, strays)


def _names(folder: str, pattern: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:  # a folder that may not be entered, as glob does
        return []
    return [
        name for name in fnmatch.filter(names, pattern) if not name.startswith(".") or pattern.startswith(".")
    ]


def _is_below(entry: str, root_of: RootOf) -> bool:
    """Whether an entry lies below a root: those above one are the way to it."""
    return root_of(os.path.dirname(entry)) is not None


def _is_hidden(inside: str, folder: str) -> bool:
    relative = os.path.relpath(inside, folder)
    return relative != "." and any(part.startswith(".") for part in Path(relative).parts)
