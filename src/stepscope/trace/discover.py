"""Which traces a path means: a file, a directory, a pattern, the members of an archive, a URL."""

from __future__ import annotations

import importlib.util
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from stepscope.model.error import InputError, UsageError
from stepscope.model.trace import Trace

SUFFIXES = (".json", ".json.gz", ".json.zst")
MEMBER = "::"
"""Between an archive's path and the name of a member."""
_ARCHIVE = re.compile(r"\.(tar|tgz|tar\.(gz|bz2|xz))$", re.IGNORECASE)
_URL = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[]")
_OWN = re.compile(rb'\s*\{\s*"(schema"\s*:\s*"stepscope\.|\$schema"[^{}]*"exporter"\s*:\s*"stepscope@)')
"""How what stepscope writes itself begins: a report or ops beside the traces they are of."""
RANK_IN_NAME = (
    re.compile(r"(?:^|[^a-z0-9])(?:rank|worker)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE),
    # The profiler's own handler names a file host_pid.time: its pid is no rank.
    re.compile(r"_(\d{1,3})\.(?!\d{10})"),
)


MAX_RANKS = 1 << 31
"""More ranks than any job has: a number beyond is none of a rank."""


def discover(paths: Iterable[str], also: Callable[[str], bool] | None = None) -> list[str]:
    """Names that `load` takes, in a fixed order: files as given, directories and patterns sorted.

    `also` says which files of other names are meant in a directory.

    Raises InputError where a directory, pattern or archive holds no trace. A plain file is not looked
    into: whether it is a trace is found when it is read.
    """
    found: list[str] = []
    for path in paths:
        found += [name for name in _expand(path, also) if name not in found]
    return found


def _expand(path: str, also: Callable[[str], bool] | None) -> list[str]:
    if _URL.match(path):
        return [path]
    if os.path.isdir(path):
        inside = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if (name.lower().endswith(SUFFIXES) or (also is not None and also(os.path.join(folder, name))))
            and _is_meant(os.path.join(folder, name))
        )
        if not inside:
            mend = f"traces end in {', '.join(SUFFIXES)}; name the file if yours is called otherwise"
            raise InputError(path, "the directory holds no trace", mend)
        return inside
    if not os.path.exists(path):
        archive, _, member = path.partition(MEMBER)
        if member and os.path.isfile(archive):
            return [path]
        if _PATTERN.search(path):
            import glob

            matched = sorted(p for p in glob.glob(path, recursive=True) if os.path.isfile(p) and _is_meant(p))
            if not matched:
                raise InputError(
                    path, "no file matches", "check the pattern (quote it, so that the shell leaves it alone)"
                )
            return matched
    if _ARCHIVE.search(path) and os.path.isfile(path):
        members = _members(path)
        if not members:
            raise InputError(path, "the archive holds no trace", f"traces end in {', '.join(SUFFIXES)}")
        return [f"{path}{MEMBER}{name}" for name in members]
    return [path]


def _is_meant(path: str) -> bool:
    """Whether a file found in a folder can be a trace.

    A pipe, socket or device cannot: nobody meant it, and opening it may wait for ever. Nor can what
    stepscope wrote there before, such as the report that the next run replaces.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(512)
        if start.startswith(b"\x1f\x8b"):
            start = zlib.decompressobj(31).decompress(start, 512)
    except (OSError, zlib.error):
        return True  # reading it will say why
    return _OWN.match(start.removeprefix(b"\xef\xbb\xbf")) is None


def _members(path: str) -> list[str]:
    import tarfile

    try:
        with tarfile.open(path) as archive:
            names = [m.name for m in archive if m.isfile() and m.name.lower().endswith(SUFFIXES)]
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(path, f"is no readable archive ({error})", "unpack it, or give its files") from error
    return sorted(names)


class Opened:
    """An open input: a binary stream and its size in bytes, `None` where unknown. Closes what it opened."""

    def __init__(self, stream: BinaryIO, size: int | None, *others: object) -> None:
        self.stream = stream
        self.size = size
        self._others = others

    def close(self) -> None:
        """Close the stream and what lies under it."""
        self.stream.close()
        for other in self._others:
            close = getattr(other, "close", None)
            if close is not None:
                close()


def open_input(name: str) -> Opened:
    """Open a file, an archive member or a URL for reading. Raises InputError or UsageError with the mend."""
    if _URL.match(name):
        return _open_url(name)
    try:
        if MEMBER in name and not os.path.exists(name):
            return _open_member(name)
        if os.path.isdir(name):
            raise InputError(name, "is a directory", "give the directory alone, or one of its files")
        return Opened(open(name, "rb", buffering=0), os.path.getsize(name))
    except FileNotFoundError as error:
        raise InputError(name, "no such file", "check the path") from error
    except PermissionError as error:
        raise InputError(
            name, "no permission to read it", f"ask its owner, or run: chmod a+r {name}"
        ) from error
    except OSError as error:
        raise InputError(name, error.strerror or "cannot be read", "check the path and the disk") from error


def _open_member(name: str) -> Opened:
    """A file inside a tar archive."""
    import tarfile  # costs as much as the rest of this module, and few inputs are archives

    path, _, member = name.partition(MEMBER)
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - closed with the stream
        info = archive.getmember(member)
        stream = archive.extractfile(info)
    except (KeyError, tarfile.TarError, EOFError) as error:
        raise InputError(name, "is not in the archive", f"list its members with tar -tf {path}") from error
    if stream is None:
        archive.close()
        raise InputError(name, "is no file in the archive", f"list its members with tar -tvf {path}")
    return Opened(stream, info.size, archive)  # type: ignore[arg-type]


def _open_url(name: str) -> Opened:
    if importlib.util.find_spec("fsspec") is None:
        raise UsageError(f"{name}: remote paths need an extra; pip install 'stepscope[remote]'")
    import fsspec

    try:
        file = fsspec.open(name, "rb")
        stream = file.open()
    except Exception as error:  # a remote file system raises what it likes
        raise InputError(name, f"cannot be opened ({error})", "check the address and your access") from error
    return Opened(stream, getattr(stream, "size", None))


def rank_of(trace: Trace) -> tuple[int | None, int | None, str | None]:
    """(rank, world size, conflict) of a trace.

    The rank comes from `distributedInfo`, then other metadata, then the file's name (`rank7`, `worker7`,
    `_7.`); the conflict names sources that disagree with the one that counts, `None` where none does.
    """
    info = trace.metadata.get("distributedInfo")
    stated = info if isinstance(info, Mapping) else {}
    found: list[tuple[str, int]] = []
    for source, mapping in (("distributedInfo", stated), ("metadata", trace.metadata)):
        value = _count(mapping.get("rank"))
        if value is not None:
            found.append((source, value))
    in_name = rank_in_name(trace.name)
    if in_name is not None:
        found.append(("the file name", in_name))
    world = stated.get("world_size", trace.metadata.get("world_size"))
    world_size = _count(world) or None
    if not found:
        return None, world_size, None
    source, rank = found[0]
    others = [f"{s} says {r}" for s, r in found[1:] if r != rank]
    if world_size is not None and rank >= world_size:
        others.append(f"the world has {world_size} ranks")
    return rank, world_size, f"{source} says rank {rank}, {', '.join(others)}" if others else None


def rank_in_name(name: str) -> int | None:
    """The rank that a file's name (`rank7`, `worker7`, `_7.`) states, `None` where it states none."""
    base = os.path.basename(name.rpartition(MEMBER)[2])
    found = (pattern.search(base) for pattern in RANK_IN_NAME)
    return next((int(match[1]) for match in found if match), None)


def _count(value: Any) -> int | None:
    """A whole number that a job may have of ranks, `None` for anything else."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < MAX_RANKS else None
