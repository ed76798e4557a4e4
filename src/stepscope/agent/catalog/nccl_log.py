"""NCCL's log files: those that jobs name in `NCCL_DEBUG_FILE`, and those that the agent is told of.

Of a job's environment that one variable is read and no other. A file is read with more rights than its writer
may have, so it must belong to the job's user, must not be a link, and only NCCL's own lines leave the node.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence

from stepscope.agent import process
from stepscope.agent.context import Context
from stepscope.agent.follow import Follower
from stepscope.agent.job import LiveRank
from stepscope.agent.source import Kind, Line, Reading, Source

VARIABLE = "NCCL_DEBUG_FILE"
MOST_FILES = 256


class NcclLogSource:
    """Follows every file, from its beginning."""

    name = "nccl_log"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._proc = f"{context.root}/proc"
        self._files: dict[str, tuple[Follower, str, tuple[tuple[str, str], ...]]] = {}
        self._asked: set[str] = set()
        """Rings whose processes were asked for their variable."""

    def read(self) -> Sequence[Reading]:
        reading = Reading(self._context.clock.real_ns(), lag_ns=None)
        for pattern in self._context.nccl_logs:
            for path in glob.glob(_as_glob(pattern))[:MOST_FILES]:
                self._add(path, path, None, ())
        ranks = self._context.jobs.living()
        for rank in ranks:
            if rank.pid is not None and rank.ring not in self._asked:
                self._asked.add(rank.ring)
                for path, shown in self._of(rank):
                    labels = tuple(sorted(rank.labels().items()))
                    self._add(path, shown, self._uid(rank.pid), labels)
        self._asked &= {rank.ring for rank in ranks}
        for path, (follower, shown, labels) in list(self._files.items()):
            try:
                lines = follower.lines()
            except FileNotFoundError:
                continue  # not written yet
            except OSError:
                reading.missing[VARIABLE, "no_permission"] += 1
                del self._files[path]
                continue
            reading.lines += [
                Line("nccl", shown, reading.at_ns, line, labels) for line in lines if "NCCL" in line
            ]
        return [reading]

    def close(self) -> None:
        self._files.clear()

    def _add(self, path: str, shown: str, uid: int | None, labels: tuple[tuple[str, str], ...]) -> None:
        if path not in self._files and len(self._files) < MOST_FILES:
            self._files[path] = (Follower(path, owner_uid=uid), shown, labels)

    def _of(self, rank: LiveRank) -> Iterator[tuple[str, str]]:
        """(path as we see it, as the job does) of the file of each process of a rank. `%h` and `%p` are as
        the job itself sees its host and its pid."""
        for pid in sorted(rank.pids):
            named = process.environment(self._proc, pid, (VARIABLE,)).get(VARIABLE)
            if not named:
                continue
            inner = str(process.inner_pid(self._proc, pid))
            shown = named.replace("%h", rank.identity.host or "").replace("%p", inner)
            if "%" not in shown:
                base = "root" if shown.startswith("/") else "cwd"
                yield f"{self._proc}/{pid}/{base}/{shown.lstrip('/')}", shown

    def _uid(self, pid: int) -> int | None:
        try:
            return os.stat(f"{self._proc}/{pid}").st_uid
        except OSError:
            return -1  # nobody's: nothing is read of a process that is gone


def _as_glob(pattern: str) -> str:
    return pattern.replace("%h", "*").replace("%p", "*")


def _make(context: Context) -> Sequence[Source]:
    return [NcclLogSource(context)]


SOURCE = Kind(
    name="nccl_log",
    title="NCCL logs",
    gives="NCCL's own lines: transports, networks, warnings",
    make=_make,
    fixed_ns=2_000_000_000,
)
