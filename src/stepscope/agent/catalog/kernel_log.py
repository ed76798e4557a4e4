"""The kernel's log from now on: Xids, NVLink, PCIe errors, out-of-memory kills and whatever else is known.

Only lines that say something known leave the node, as they are and as events. Their times count from the
host's start; the wall clock of now is put to them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone

from stepscope.agent.context import Context
from stepscope.agent.source import Event, Kind, Line, NotHere, Reading, Source
from stepscope.model.error import InputError
from stepscope.model.log import LogEvent
from stepscope.model.sample import Owner
from stepscope.sources.log import read_log

_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
MOST_RECORDS = 4096
"""Of one look."""
_BYTES = 8192


class KernelLogSource:
    """`/dev/kmsg`, opened once and read as far as it goes."""

    name = "kernel_log"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._path = f"{context.root}/dev/kmsg"
        self._file: int | None = None

    def read(self) -> Sequence[Reading]:
        clock = self._context.clock
        if self._file is None:
            self._open()
        reading = Reading(clock.real_ns(), lag_ns=0)
        boot_ns = reading.at_ns - clock.mono_ns()
        dated = [(boot_ns + int(us) * 1000, text) for us, text in self._records()]
        if dated:
            self._known(dated, reading)
        return [reading]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self.close()
            raise NotHere(f"{self._path}: {(error.strerror or 'no reason given').lower()}") from error

    def _records(self) -> list[tuple[str, str]]:
        """(microseconds since the host's start, text) of each new record."""
        assert self._file is not None
        found = []
        for _ in range(MOST_RECORDS):
            try:
                data = os.read(self._file, _BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten before they were read: the next one is there
            except OSError:
                self.close()
                raise
            if not data:
                break
            for line in data.decode("utf-8", "replace").split("\n"):
                if record := _RECORD.match(line):
                    found.append((record[1], record[2]))
        return found

    def _known(self, dated: list[tuple[int, str]], reading: Reading) -> None:
        lines = [f"{_iso(at_ns)} {text}" for at_ns, text in dated]
        try:
            log = read_log(self._path, data="\n".join(lines).encode())
        except InputError:
            return  # nothing that is known
        told = set()
        for event in log.events:
            at_ns = dated[event.line - 1][0]
            reading.events.append(self._event(event, at_ns))
            if event.line not in told:
                told.add(event.line)
                reading.lines.append(Line("kernel", self._path, at_ns, lines[event.line - 1]))

    def _event(self, event: LogEvent, at_ns: int) -> Event:
        owner = None
        if event.pci_bus_id is not None:
            owner = self._context.devices.owner_at(event.pci_bus_id)
            owner = owner or Owner(pci_bus_id=event.pci_bus_id, host=self._context.host)
        elif event.pid is not None:
            owner = Owner(kind="process", host=self._context.host, pid=event.pid)
        what = event.kind if event.kind in ("xid", "oom") else event.what
        return Event(at_ns, what, event.text, event.code, owner, (("log", "kernel"),))


def _iso(at_ns: int) -> str:
    """As `dmesg --time-format=iso` writes it."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    when = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{when:%Y-%m-%dT%H:%M:%S},{rest // 1000:06d}+00:00"


def _make(context: Context) -> Sequence[Source]:
    return [KernelLogSource(context)]


SOURCE = Kind(
    name="kernel_log",
    title="Kernel log",
    gives="Xids, NVLink and PCIe errors, out-of-memory kills, lockups, storage and link faults",
    make=_make,
    fixed_ns=1_000_000_000,
)
