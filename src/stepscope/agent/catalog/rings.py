"""Step rings: finds them, reads them, says when a rank begins and ends.

A ring whose lock nobody holds is a dead job's, whatever the numbers of its process say: that holds where the
process is in another namespace of pids. How: `docs/reference/step-ring.md`.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stepscope.agent import cgroup, process
from stepscope.agent.context import Context
from stepscope.agent.job import LiveRank
from stepscope.agent.source import Event, Kind, Reading, Source
from stepscope.model.batch import Marks
from stepscope.model.error import InputError
from stepscope.model.mark import Identity
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi

_BEGIN_STEP, _EXIT = abi.kind_number("step_begin"), abi.kind_number("exit")
_END_CAPTURE = abi.kind_number("capture_end")
MOST_RINGS = 4096
PATIENCE = 5
"""Looks at a file that is no ring yet, before it is told."""
OLD_NS = 3600 * 1_000_000_000
"""A dead ring that was silent for longer when it is first seen is left alone."""
FAMILY_NS = 10_000_000_000
"""How often the children of a rank are counted anew."""


@dataclass(slots=True)
class _Ring:
    reader: RingReader
    rank: LiveRank
    last_ns: int
    has_exit: bool = False
    was_alive: bool = False
    family_mono_ns: int | None = None


class RingSource:
    """Every ring of the run directories."""

    name = "rings"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rings: dict[str, _Ring] = {}
        self._refused: dict[str, int] = {}
        self._done: dict[str, int] = {}
        """Inodes of rings that are read to their end."""

    def read(self) -> Sequence[Reading]:
        clock = self._context.clock
        reading = Reading(clock.real_ns())
        there = set()
        for path, inode in _files(self._context.run_dirs):
            there.add(path)
            if path not in self._rings and self._done.get(path) != inode:
                self._open(path, inode, reading)
        for path, ring in list(self._rings.items()):
            self._follow(path, ring, path in there, reading)
        for known in (self._refused, self._done):
            for path in known.keys() - there:
                del known[path]
        return [reading]

    def close(self) -> None:
        for ring in self._rings.values():
            ring.reader.close()
        self._rings.clear()

    def _open(self, path: str, inode: int, reading: Reading) -> None:
        read = self._context.ring_read(os.path.basename(path))
        try:
            before = _before(path, read.next) if read is not None else None
            reader = RingReader(path, read.next if read is not None and before is not None else 0)
            _, created_ns = reader.created_ns()
            is_over = read is not None and before is not None and read.is_over
            is_old = not reader.is_alive() and (is_over or _is_old(path, reading.at_ns - OLD_NS))
        except (InputError, OSError) as error:
            tries = self._refused[path] = self._refused.get(path, 0) + 1
            if tries == PATIENCE:
                reading.events.append(Event(reading.at_ns, "ring_refused", str(error)))
            return
        self._refused.pop(path, None)
        if is_old:
            self._done[path] = inode
            reader.close()
            return
        rank = LiveRank(path, reader.identity(), created_ns)
        ring = self._rings[path] = _Ring(reader, rank, created_ns)
        if before is not None:
            _note(ring, before)
        self._context.jobs.put(rank)
        again = f", restart {rank.identity.restart}" if rank.identity.restart else ""
        text = f"{_title(rank.identity)} marks its steps{again}"
        reading.events.append(Event(created_ns, "start", text, labels=_pairs(ring.rank)))

    def _follow(self, path: str, ring: _Ring, is_there: bool, reading: Reading) -> None:
        # Asked before the records are read: what a dead one wrote is all there.
        is_there = is_there and not ring.reader.is_removed()
        is_alive = is_there and ring.reader.is_alive()
        part = ring.reader.poll()
        identity = ring.reader.identity()
        if identity != ring.rank.identity:
            ring.rank.identity = identity
            self._context.jobs.put(ring.rank)
        if is_alive:
            ring.was_alive = True
            self._attach(path, ring)
        records = part.records
        _note(ring, records)
        if len(records) or part.num_lost or not is_alive:
            reading.marks.append(
                self._marks(path, ring, part.number.tolist(), records, part.num_lost, is_alive)
            )
        if not is_alive:
            self._end(path, ring, is_there, reading)

    def _attach(self, path: str, ring: _Ring) -> None:
        """The rank's processes on this node, and what their control group tells."""
        now, rank = self._context.clock.mono_ns(), ring.rank
        if ring.family_mono_ns is not None and now - ring.family_mono_ns < FAMILY_NS:
            return
        ring.family_mono_ns = now
        proc = f"{self._context.root}/proc"
        if rank.pid is None:
            rank.pid = process.writer_of(proc, path, rank.identity.pid)
            if rank.pid is None:
                return
            rank.extra = cgroup.labels_of(cgroup.read(f"{proc}/{rank.pid}/cgroup"))
        rank.pids = process.family(proc, rank.pid)
        self._context.jobs.put(rank)

    def _end(self, path: str, ring: _Ring, is_there: bool, reading: Reading) -> None:
        title = _title(ring.rank.identity)
        if ring.has_exit:
            end_ns, text = ring.last_ns, f"{title} ended"
        elif is_there:
            # Of one that was dead when it was found nobody knows when it died: not before its last mark.
            end_ns = reading.at_ns if ring.was_alive else ring.last_ns
            text = f"{title} ended without saying so: it was killed, or it crashed"
        else:
            end_ns, text = reading.at_ns, f"the ring of {title} was removed"
        self._context.jobs.end(path, end_ns)
        reading.events.append(Event(end_ns, "exit", text, labels=_pairs(ring.rank)))
        if is_there:
            with contextlib.suppress(OSError):
                self._done[path] = os.stat(path).st_ino
        ring.reader.close()
        del self._rings[path]

    def _marks(
        self, path: str, ring: _Ring, number: list[int], rows: Any, num_lost: int, is_alive: bool
    ) -> Marks:
        identity = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(ring.rank.identity).items()
            if value is not None and value != ()
        }
        return Marks(
            agent=self._context.agent,
            seq=0,
            host=self._context.host,
            ring=os.path.basename(path),
            identity=identity,
            names=list(ring.reader.names()),
            number=number,
            record_kind=rows["kind"].tolist(),
            flags=rows["flags"].tolist(),
            step=rows["step"].tolist(),
            mono_ns=rows["mono_ns"].tolist(),
            real_ns=rows["real_ns"].tolist(),
            a=rows["a"].tolist(),
            b=rows["b"].tolist(),
            c=rows["c"].tolist(),
            num_lost=num_lost,
            is_alive=is_alive,
        )


def _note(ring: _Ring, records: Any) -> None:
    """What the records say of the rank itself: in which step it is, and whether it has ended."""
    if not len(records):
        return
    kinds, real_ns = records["kind"], records["real_ns"]
    begun = kinds == _BEGIN_STEP
    for at, step in zip(real_ns[begun].tolist(), records["step"][begun].tolist(), strict=True):
        ring.rank.begin_step(at, step)
    for row in records[kinds == _END_CAPTURE]:
        num_bytes = 0 if row["c"] != row["c"] else int(row["c"])
        ring.rank.end_capture(int(row["a"]), max(int(row["b"]), 0), num_bytes)
    ring.last_ns = int(real_ns[-1])
    ring.has_exit = ring.has_exit or bool((kinds == _EXIT).any())


def _before(path: str, num: int) -> Any:
    """Of the first `num` records those that are still there; `None` where the ring has not so many: it is
    another one."""
    with RingReader(path) as reader:
        part = reader.poll()
    if num and (not len(part.number) or int(part.number[-1]) + 1 < num):
        return None
    return part.records[part.number < num]


def _files(patterns: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(path, inode) of every ring. Only regular files: a pipe that was put there would hold us up, a link
    could lead anywhere."""
    seen: set[str] = set()
    for pattern in patterns:
        for folder in glob.glob(pattern) if glob.has_magic(pattern) else (pattern,):
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            for entry in entries:
                if entry.name.endswith(abi.SUFFIX) and entry.path not in seen and len(seen) < MOST_RINGS:
                    try:
                        said = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISREG(said.st_mode):
                        seen.add(entry.path)
                        yield entry.path, said.st_ino


def newest_ns(patterns: Sequence[str]) -> int | None:
    """When the newest living ring was made, in wall time; `None` where there is none."""
    found = []
    for path, _ in _files(patterns):
        try:
            with RingReader(path) as reader:
                if reader.is_alive():
                    found.append(reader.created_ns()[1])
        except (InputError, OSError):
            continue
    return max(found, default=None)


def _is_old(path: str, since_ns: int) -> bool:
    """Whether its last record is older. The file's own time does not tell: a mapped file keeps an old one."""
    with RingReader(path) as reader:
        records = reader.poll().records
    return not len(records) or int(records["real_ns"][-1]) < since_ns


def _title(identity: Identity) -> str:
    rank = "a process" if identity.rank is None else f"rank {identity.rank}"
    return f"{rank} of job {identity.job}" if identity.job else rank


def _pairs(rank: LiveRank) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(rank.labels().items()))


def _make(context: Context) -> Sequence[Source]:
    return [RingSource(context)]


SOURCE = Kind(
    name="rings",
    title="Step rings",
    gives="steps, phases and waits of every job that marks them; when it began, ended or was killed",
    make=_make,
    fixed_ns=1_000_000_000,
)
