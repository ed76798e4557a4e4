"""A step ring as a monitor would write it, with the times that it is told, and its control file.

It knows the table of the layout only, not the monitor's code: what reads rings is tested against two writers.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from stepscope.simulate.serve.mark import Record
from stepscope_sdk import ring_abi as abi

_WRITTEN = abi.place(abi.HEADER, "num_written").offset
_SEQ = abi.place(abi.CONTROL, "seq").offset
_FIRST, _CRC = abi.place(abi.CONTROL, "command").offset, abi.place(abi.CONTROL, "crc").offset
_HEAD, _BODY = struct.Struct("<QHH"), struct.Struct("<qqqqdd")


class Command(NamedTuple):
    """What a control file asks for."""

    command: str
    capture: int
    first_step: int
    num_steps: int
    mode: str
    flags: int


class RingFile:
    """One rank's ring and the control file beside it; both are held until `close`."""

    def __init__(
        self, path: str, identity: Mapping[str, str | int], mono_ns: int, real_ns: int, trace_dir: str
    ) -> None:
        """OSError where they cannot be made."""
        self.path = path
        size = abi.HEADER_BYTES + abi.NUM_RECORDS * abi.RECORD_BYTES
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        os.posix_fallocate(self._file, 0, size)
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._map = mmap.mmap(self._file, size)
        self._num = 0
        self._names: dict[str, int] = {}
        self.set(
            version=abi.VERSION, header_bytes=abi.HEADER_BYTES, record_bytes=abi.RECORD_BYTES,
            num_records=abi.NUM_RECORDS, created_mono_ns=mono_ns, created_real_ns=real_ns, has_crc=1,
            **identity,
        )  # fmt: skip
        self._map[0:8] = abi.MAGIC
        self.control_path = abi.control_path(path)
        control = os.open(self.control_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660)
        os.posix_fallocate(control, 0, abi.CONTROL_BYTES)
        self._control = mmap.mmap(control, abi.CONTROL_BYTES)
        os.close(control)
        struct.pack_into("<I", self._control, abi.place(abi.CONTROL, "version").offset, abi.VERSION)
        at = abi.place(abi.CONTROL, "trace_dir")
        raw = trace_dir.encode("utf-8", "surrogateescape")
        if len(raw) < at.size:
            self._control[at.offset : at.offset + len(raw)] = raw
        self._control[0:8] = abi.CONTROL_MAGIC
        self._looked = 0

    def set(self, **values: str | int) -> None:
        """Write fields of the header. Text that is too long is cut."""
        for name, value in values.items():
            at = abi.place(abi.HEADER, name)
            if at.kind == "s":
                text = str(value).encode()[: at.size - 1]
                self._map[at.offset : at.offset + at.size] = text.ljust(at.size, b"\0")
            else:
                struct.pack_into("<" + at.kind, self._map, at.offset, int(value))

    def name(self, text: str) -> int:
        """The place of a name in the table of names."""
        if text not in self._names:
            number = self._names[text] = len(self._names)
            at = abi.place(abi.HEADER, "names").offset + number * abi.NAME_BYTES
            self._map[at : at + abi.NAME_BYTES] = text.encode()[: abi.NAME_BYTES - 1].ljust(
                abi.NAME_BYTES, b"\0"
            )
            self.set(num_names=number + 1)
        return self._names[text]

    def write(self, record: Record, mono_ns: int, real_ns: int) -> None:
        """One record, with the times that its clocks showed."""
        seq = 2 * self._num + 2
        at = abi.HEADER_BYTES + self._num % abi.NUM_RECORDS * abi.RECORD_BYTES
        head = _HEAD.pack(seq, record.kind, record.flags)
        body = _BODY.pack(record.step, mono_ns, real_ns, record.a, record.b, record.c)
        crc = crc32(body, crc32(head))
        self._map[at : at + 8] = (seq - 1).to_bytes(8, "little")
        self._map[at + 8 : at + abi.RECORD_BYTES] = head[8:] + crc.to_bytes(4, "little") + body
        self._map[at : at + 8] = seq.to_bytes(8, "little")
        self._num += 1
        self._map[_WRITTEN : _WRITTEN + 8] = self._num.to_bytes(8, "little")

    def command(self) -> Command | None:
        """What the control file asks for since it was last looked at; `None` for nothing new, or nothing
        whole yet."""
        (seq,) = struct.unpack_from("<Q", self._control, _SEQ)
        if seq == self._looked or seq % 2:
            return None
        words = bytes(self._control[_FIRST:_CRC])
        (crc,) = struct.unpack_from("<Q", self._control, _CRC)
        (again,) = struct.unpack_from("<Q", self._control, _SEQ)
        if again != seq or crc32(words) != crc:
            return None
        self._looked = seq
        command, capture, first_step, num_steps, mode, flags = struct.unpack("<6q", words)
        if not 0 <= command < len(abi.COMMANDS) or not 0 <= mode < len(abi.MODES):
            return None
        return Command(abi.COMMANDS[command], capture, first_step, num_steps, abi.MODES[mode], flags)

    def close(self, is_removed: bool = False) -> None:
        """Let go of it. The ring stays for whoever reads it, unless it is removed."""
        self._map.close()
        self._control.close()
        os.close(self._file)
        if is_removed:
            for path in (self.path, self.control_path):
                os.unlink(path)
