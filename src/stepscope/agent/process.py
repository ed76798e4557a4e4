"""Processes of the node: which are a job's, what they take, which files they have open."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from stepscope.agent.cgroup import read

MOST_PROCESSES = 512
MOST_FILES = 2000


class Usage(NamedTuple):
    """Sums since the process began; `resident_bytes` and `num_threads` are of now."""

    cpu_ticks: int
    major_faults: int
    resident_bytes: int
    num_threads: int


def writer_of(proc: str, path: str, inner_pid: int | None) -> int | None:
    """The process that has a file open and calls itself `inner_pid` in its own namespace, by its number here;
    `None` where it cannot be seen from here. A lock of an open file does not tell whose it is."""
    if inner_pid is None:
        return None
    try:
        said = os.stat(path)
        pids = [int(name) for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return None
    pids.sort(key=lambda pid: pid != inner_pid)  # most often it is the same number
    for pid in pids:
        if (
            pid != os.getpid()
            and _inner_pid(proc, pid) == inner_pid
            and _has_open(proc, pid, (said.st_dev, said.st_ino))
        ):
            return pid
    return None


def _inner_pid(proc: str, pid: int) -> int | None:
    """The number of a process in the innermost namespace that it is in."""
    for line in read(f"{proc}/{pid}/status").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def inner_pid(proc: str, pid: int) -> int:
    """The number that a process has for itself."""
    found = _inner_pid(proc, pid)
    return pid if found is None else found


def _has_open(proc: str, pid: int, file: tuple[int, int]) -> bool:
    place = f"{proc}/{pid}/fd"
    try:
        names = os.listdir(place)
    except OSError:
        return False
    for name in names:
        try:
            said = os.stat(f"{place}/{name}")
        except OSError:
            continue
        if (said.st_dev, said.st_ino) == file:
            return True
    return False


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
