"""Reads spools: a folder of segments, of one agent or of many, to the batches in them, each once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from stepscope.model.batch import Batch
from stepscope.model.error import InputError, RefusedError
from stepscope.sources.formats.frame import (
    HEADER_BYTES,
    MAGIC,
    SUFFIX,
    Fault,
    Header,
    batch_of,
    frames_of,
    header_of,
)

MOST_SEGMENT_BYTES = 1 << 30
"""Of one segment: the agent's own are some MB."""
_AGAIN = "was it written by the agent? copy it again"


@dataclass(slots=True)
class Content:
    """What was read so far. `faults` are (segment, byte, what, bytes lost); duplicates are batches that were
    there already; `num_unknown` batches whose kind or packing is not known here."""

    paths: tuple[str, ...]
    agents: set[str] = field(default_factory=set)
    faults: list[tuple[str, int, str, int]] = field(default_factory=list)
    num_batches: int = 0
    num_duplicates: int = 0
    num_unknown: int = 0
    num_bytes: int = 0
    digest: str = ""


def is_segment(head: bytes) -> bool:
    """Whether a file is a segment, by its first bytes."""
    return head.startswith(MAGIC)


def is_spool(path: str) -> bool:
    """Whether a folder holds segments itself, or a file is one."""
    if os.path.isdir(path):
        return bool(_segments_in(path))
    return path.endswith(SUFFIX) and _is_segment_file(path)


def _segments_in(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = (os.path.join(folder, name) for name in names if name.endswith(SUFFIX))
    return [path for path in paths if os.path.isfile(path)]


def _is_segment_file(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return is_segment(file.read(len(MAGIC)))
    except OSError:
        return False


def open_spool(path: str) -> Content:
    """The segments of a folder, or one of them, not read yet. InputError where there is none."""
    paths = _segments_in(path) if os.path.isdir(path) else [path]
    if not paths:
        raise InputError(path, "the folder holds no segment of a spool", "give the agent's --spool folder")
    return Content(tuple(paths))


def batches_of(content: Content) -> Iterator[Batch]:
    """Every batch once, by agent and number. A segment that is damaged gives what is whole of it; one that
    cannot be read at all is a fault too. InputError where not one segment can be read."""
    heads: list[tuple[str, int, str]] = []
    first_error: InputError | None = None
    for path in content.paths:
        try:
            header = _head(path)
        except InputError as error:
            first_error = first_error or error
            size = os.path.getsize(path) if os.path.exists(path) else 0
            content.faults.append((path, 0, error.what, size))
            continue
        heads.append((header.agent, header.first_seq, path))
        content.agents.add(header.agent)
    if not heads and first_error is not None:
        raise first_error
    seen: set[tuple[str, int]] = set()
    whole = sha256()
    for _, _, path in sorted(heads):
        try:
            data = _data(path)
            header = header_of(data, path)
        except InputError as error:
            if os.path.exists(path):  # else the agent made room meanwhile
                content.faults.append((path, 0, error.what, os.path.getsize(path)))
            continue
        whole.update(data)
        content.num_bytes += len(data)
        faults: list[Fault] = []
        for frame in frames_of(data, header, faults):
            if (header.agent, frame.seq) in seen:
                content.num_duplicates += 1
                continue
            seen.add((header.agent, frame.seq))
            try:
                batch = batch_of(frame, header, path)
            except InputError as error:
                content.num_unknown += 1
                content.faults.append((path, frame.start, error.what, frame.end - frame.start))
                continue
            content.num_batches += 1
            yield batch
        content.faults += [
            (
                path,
                fault.start,
                "ends in the middle of a batch" if fault.is_cut else "damaged",
                fault.num_bytes,
            )
            for fault in faults
        ]
    content.digest = whole.hexdigest()


def _head(path: str) -> Header:
    try:
        with open(path, "rb") as file:
            return header_of(file.read(HEADER_BYTES), path)
    except OSError as error:
        what = (error.strerror or type(error).__name__).lower()
        raise InputError(path, f"cannot be read: {what}", "check the path and its permissions") from error


def _data(path: str) -> bytes:
    try:
        if os.path.getsize(path) > MOST_SEGMENT_BYTES:
            size = MOST_SEGMENT_BYTES >> 20
            raise RefusedError(f"{path}: a segment of more than {size} MB: refused; {_AGAIN}")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        what = (error.strerror or type(error).__name__).lower()
        raise InputError(path, f"cannot be read: {what}", "check the path and its permissions") from error
