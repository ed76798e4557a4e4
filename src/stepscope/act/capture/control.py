"""The control file as its writer sees it. Layout: `stepscope_sdk.ring_abi.CONTROL`."""

from __future__ import annotations

import mmap
import os
import struct
from zlib import crc32

from stepscope.model.error import InputError
from stepscope_sdk import ring_abi as abi

_WORDS = struct.Struct("<6q")
_SEQ = abi.place(abi.CONTROL, "seq").offset >> 3
_FIRST, _END = abi.place(abi.CONTROL, "command").offset, abi.place(abi.CONTROL, "crc").offset
_AGENT = abi.place(abi.CONTROL, "agent_mono_ns").offset >> 3


class ControlWriter:
    """One ring's control file, to write commands into. One writer at a time: the last one's word counts."""

    def __init__(self, ring_path: str) -> None:
        """InputError for what is no control file; OSError where it cannot be opened to write."""
        self.path = abi.control_path(ring_path)
        file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            head = os.pread(file, 12, 0)
            whole = os.fstat(file).st_size >= abi.CONTROL_BYTES and head[:8] == abi.CONTROL_MAGIC
            if not whole or struct.unpack("<I", head[8:])[0] != abi.VERSION:
                raise InputError(self.path, "no control file of this version", "update stepscope-sdk there")
            self._map = mmap.mmap(file, abi.CONTROL_BYTES)
        finally:
            os.close(file)
        self._words = memoryview(self._map).cast("Q")

    @property
    def capture(self) -> int:
        """The id of the last command, 0 before the first."""
        return int(_WORDS.unpack(self._map[_FIRST:_END])[1])

    @property
    def trace_dir(self) -> str | None:
        """The folder of traces as the training process sees it, `None` where its name was too long."""
        at = abi.place(abi.CONTROL, "trace_dir")
        raw = bytes(self._map[at.offset : at.offset + at.size]).split(b"\0", 1)[0]
        return raw.decode("utf-8", "surrogateescape") or None

    def write(
        self, command: str, capture: int, first_step: int, num_steps: int, mode: str, flags: frozenset[str]
    ) -> None:
        """Write one command: odd sequence, words, checksum, even sequence."""
        bits = sum(abi.CAPTURE_FLAGS[each] for each in flags)
        raw = _WORDS.pack(
            abi.COMMANDS.index(command), capture, first_step, num_steps, abi.MODES.index(mode), bits
        )
        seq = self._words[_SEQ] | 1
        self._words[_SEQ] = seq
        self._map[_FIRST:_END] = raw
        self._words[_END >> 3] = crc32(raw)
        self._words[_SEQ] = seq + 1

    def look(self, mono_ns: int) -> None:
        """Say that somebody is there."""
        self._words[_AGENT] = mono_ns

    def close(self) -> None:
        """Let go of the file."""
        self._words.release()
        self._map.close()
