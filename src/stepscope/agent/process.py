"""Processes of the node: which are a job's, what they take, which files they have open."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

from stepscope.agent.cgroup import read

MOST_PROCESSES = 512
MOST_FILES = 2000
_FLOCK = "hhqqi4x"


class Usage(NamedTuple):
    """Sums since the process began; `resident_bytes` and `num_threads` are of now."""

    cpu_ticks: int
    major_faults: int
    resident_bytes: int
    num_threads: int


def lock_holder(path: str) -> tuple[bool, int | None]:
    """(whether a process holds the file's lock, its pid as seen from here or None where it cannot be seen).

    Holds over namespaces of pids: a writer in another is alive, without a number.
    """
    with open(path, "rb") as file:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    is_held = kind != fcntl.F_UNLCK
    return is_held, pid if is_held and pid > 0 else None


def usage(proc: str, pid: int, page_bytes: int) -> Usage | None:
    """What a process takes, `None` where there is none of this number."""
    text = read(f"{proc}/{pid}/stat")
    words = text.rpartition(")")[2].split()  # a name may hold blanks and brackets
    if len(words) < 22:
        return None
    return Usage(int(words[11]) + int(words[12]), int(words[9]), int(words[21]) * page_bytes, int(words[17]))


def family(proc: str, pid: int) -> frozenset[int]:
    """The process and its descendants."""
    found = {pid}
    waiting = [pid]
    while waiting and len(found) < MOST_PROCESSES:
        place = f"{proc}/{waiting.pop()}/task"
        try:
            tasks = os.listdir(place)
        except OSError:
            continue
        for task in tasks:
            for word in read(f"{place}/{task}/children").split():
                if word.isdigit() and (child := int(word)) not in found:
                    found.add(child)
                    waiting.append(child)
    return frozenset(found)


def environment(proc: str, pid: int, names: Iterable[str]) -> dict[str, str]:
    """Of a process's environment at its start these names and no others."""
    wanted = {f"{name}=".encode(): name for name in names}
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            data = file.read(1 << 20)
    except OSError:
        return {}
    found = {}
    for entry in data.split(b"\0"):
        for start, name in wanted.items():
            if entry.startswith(start):
                found[name] = entry[len(start) :].decode("utf-8", "replace")
    return found


def open_files(proc: str, pid: int) -> set[str]:
    """Regular files that a process has open, and its working folder, as paths of its own file system."""
    found = set()
    place = f"{proc}/{pid}/fd"
    try:
        links = [f"{place}/{name}" for name in os.listdir(place)[:MOST_FILES]]
    except OSError:
        links = []
    for link in (*links, f"{proc}/{pid}/cwd"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/sys/", "/memfd:")):
            found.add(target.removesuffix(" (deleted)"))
    return found
