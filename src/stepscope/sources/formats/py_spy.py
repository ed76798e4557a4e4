"""The text of `py-spy dump`: processes, their threads, their frames. The rest is passed over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stepscope.model.stuck import Frame, Stack, Thread

_PROCESS = re.compile(r"^Process (\d{1,10})(?::|$)")
_THREAD = re.compile(r"^Thread (?:0x)?[0-9A-Fa-f]{1,20} \(([^)]{1,40})\)(?:: \"(.{0,200})\")?")
_FRAME = re.compile(r"^\s+(\S.{0,300}?) \(([^()]{1,500}?)(?::(\d{1,9}))?\)$")
_RANK = re.compile(r"(?:^|[^a-z0-9])rank[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE)
MOST_FRAMES, MOST_THREADS, MOST_PROCESSES = 200, 500, 100_000
FORMAT = "py-spy"
MAIN = "MainThread"
_HOME = re.compile(r"^/(?:home|Users)/[^/]*/")
_IN_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/|^.*/lib/python3\.\d+/")


def is_stacks(head: str) -> bool:
    """Whether a text that begins so is what py-spy prints."""
    lines = [line for line in head.splitlines()[:40] if line.strip()]
    return any(_PROCESS.match(line) for line in lines) and any(_THREAD.match(line) for line in lines)


def stacks_of_text(
    lines: Iterable[str],
    *,
    rank: int | None = None,
    host: str | None = None,
    at_ns: int | None = None,
    name: str = "",
) -> list[Stack]:
    """The processes of a text, each with its main thread first. `rank` of a text of one process; without it
    that which `name` states (`rank3`)."""
    if rank is None and (found := _RANK.search(name)) is not None:
        rank = int(found[1])
    stacks: list[Stack] = []
    threads: list[Thread] = []
    frames: list[Frame] = []

    def end_thread() -> None:
        if threads:
            threads[-1] = replace(threads[-1], frames=tuple(frames[:MOST_FRAMES]))
        frames.clear()

    def end_process() -> None:
        end_thread()
        if stacks:
            ordered = sorted(threads[:MOST_THREADS], key=lambda each: each.name != MAIN)
            stacks[-1] = replace(stacks[-1], threads=tuple(ordered))
        threads.clear()

    for line in lines:
        if (process := _PROCESS.match(line)) is not None:
            end_process()
            if len(stacks) >= MOST_PROCESSES:
                return [each for each in stacks if each.threads]
            stacks.append(Stack((), rank, int(process[1]), host, at_ns))
        elif stacks and (thread := _THREAD.match(line)) is not None:
            end_thread()
            threads.append(Thread(thread[2] or "", (), "idle" in thread[1]))
        elif threads and (frame := _FRAME.match(line)) is not None:
            frames.append(Frame(frame[1], short(frame[2]), int(frame[3]) if frame[3] else None))
    end_process()
    found_ = [each for each in stacks if each.threads]
    if len(found_) > 1:  # one number cannot be of several
        found_ = [replace(each, rank=None) for each in found_]
    return found_


def short(file: str) -> str:
    """A file's path from its package on; a script of one's own by its last two parts."""
    file = file.replace("\\", "/")
    inside = _IN_PACKAGES.sub("", file)
    if inside != file:
        return inside
    parts: Sequence[str] = _HOME.sub("", file).split("/")
    return "/".join(parts[-2:])
