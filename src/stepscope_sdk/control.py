"""The control file beside a ring, as the training process sees it: an agent writes, one load a step reads.

Layout: `ring_abi.CONTROL`. As long as nothing is asked for a step costs the comparison of one word of mapped
memory with the last one seen; only a word that changed brings in the capturer, and with it everything else.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.profile_folder import Folder, folder_of

if TYPE_CHECKING:
    from stepscope_sdk.capture import Capturer

SEQ = abi.place(abi.CONTROL, "seq").offset >> 3
"""Word of the sequence in the mapped file."""
_WORDS = struct.Struct("<6q")
_FIRST, _END = abi.place(abi.CONTROL, "command").offset, abi.place(abi.CONTROL, "crc").offset
ALWAYS = -1
"""`seen` while something is under way: no sequence is equal to it, every step looks."""


class Command(NamedTuple):
    """What is asked of this process."""

    command: str
    capture: int
    first_step: int
    num_steps: int
    mode: str
    flags: int


class Control:
    """The mapped file. OSError where it cannot be made."""

    def __init__(self, ring_path: str, trace_dir: str) -> None:
        self.path = abi.control_path(ring_path)
        # The rights of the ring: who may write here may also cut the file, which would end this process.
        about = os.stat(ring_path)
        mode = stat.S_IMODE(about.st_mode)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if about.st_gid != os.getegid():
                os.fchown(file, -1, about.st_gid)
            os.fchmod(file, mode)
            os.posix_fallocate(file, 0, abi.CONTROL_BYTES)
            self._map = mmap.mmap(file, abi.CONTROL_BYTES)
        except OSError:
            os.unlink(self.path)
            raise
        finally:
            os.close(file)
        self.words = memoryview(self._map).cast("Q")
        struct.pack_into("<I", self._map, 8, abi.VERSION)
        at = abi.place(abi.CONTROL, "trace_dir")
        raw = trace_dir.encode("utf-8", "surrogateescape")
        if len(raw) < at.size:
            self._map[at.offset : at.offset + len(raw)] = raw
        self._map[0:8] = abi.CONTROL_MAGIC

    def read(self) -> Command | None:
        """The command as it stands, `None` while it is being written or where it makes no sense."""
        seq = self.words[SEQ]
        raw = self._map[_FIRST:_END]
        crc = self.words[_END >> 3]
        if not seq or seq % 2 or self.words[SEQ] != seq or crc != crc32(raw):
            return None
        command, capture, first_step, num_steps, mode, flags = _WORDS.unpack(raw)
        if not (0 <= command < len(abi.COMMANDS) and 0 <= mode < len(abi.MODES)):
            return None
        return Command(
            abi.COMMANDS[command], capture, first_step, num_steps, abi.MODES[mode], flags
        )  # fmt: skip

    def close(self) -> None:
        """Let go of the file; it stays beside its ring."""
        self.words.release()
        self._map.close()


class Watch:
    """What a monitor holds: it looks where `words[SEQ]` is not `seen`."""

    def __init__(
        self,
        control: Control,
        make: Callable[[], Capturer],
        about: dict[str, Any],
        folder: Folder,
        *,
        is_sampling: bool = False,
    ) -> None:
        """`make` gives the capturer, when there is something to do for the first time. `about` is what traces
        say of the process; whoever knows more puts it in."""
        self.words = control.words
        self.about, self.folder = about, folder
        self.seen = ALWAYS if is_sampling else 0
        self._pid = os.getpid()
        self._control = control
        self._make = make
        self._is_sampling = is_sampling
        self._capturer: Capturer | None = None
        self._last = 0

    def begin(self, step: int) -> int:
        """A step is about to begin: its flags."""
        try:
            return self._look(step, is_begin=True)
        except Exception:  # noqa: BLE001 - the wall between us and the training: a capture may fail, a step not
            self._fail()
            return 0

    def end(self, step: int) -> None:
        """A step has ended."""
        try:
            self._look(step, is_begin=False)
        except Exception:  # noqa: BLE001 - as above
            self._fail()

    def _look(self, step: int, *, is_begin: bool) -> int:
        if os.getpid() != self._pid:  # a fork has our memory, and neither our ring nor our profiler
            self.seen = self.words[SEQ]
            return 0
        seq = self.words[SEQ]
        if seq == self._last and self._capturer is None and not self._is_sampling:
            return 0
        if self._capturer is None:
            self._capturer = self._make()
        command = None
        if seq != self._last:
            command = self._control.read()
            if command is None:  # being written: the next look has it, and sees no change before
                return self._capturer.begin(step, None) if is_begin else self._capturer.end(step, None)
            self._last = seq
        if is_begin:
            flags = self._capturer.begin(step, command)
        else:
            flags = self._capturer.end(step, command)
        self.seen = ALWAYS if self._is_sampling or self._capturer.is_busy else self._last
        return flags

    def _fail(self) -> None:
        """Whatever was under way is given up."""
        try:
            if self._capturer is not None:
                self._capturer.give_up()
        except Exception:  # noqa: BLE001 - as above
            self._capturer = None
        self.seen = self._last = self.words[SEQ]

    def close(self) -> None:
        """The process ends: nothing is left running, what is being written gets a moment to finish."""
        try:
            if self._capturer is not None and os.getpid() == self._pid:
                self._capturer.close()
        except Exception:  # noqa: BLE001 - as above
            self._capturer = None


def watch(
    ring_path: str,
    write: Callable[..., object],
    environment: Mapping[str, str],
    *,
    sample_every: int | None = None,
) -> Watch | None:
    """The control file of this ring and what obeys it, `None` where the file cannot be made.

    `write` is the ring's; `sample_every`: a light capture of every so many-th step
    (`$STEPSCOPE_SAMPLE_EVERY`), off by default.
    """
    every = sample_every if sample_every is not None else number(environment, "STEPSCOPE_SAMPLE_EVERY")
    try:
        folder = folder_of(ring_path, environment)
        control = Control(ring_path, folder.path)
    except OSError:
        return None
    about: dict[str, Any] = {}

    def make() -> Capturer:
        from stepscope_sdk.capture import Capturer
        from stepscope_sdk.profile_sample import Sampler
        from stepscope_sdk.profile_torch import Torch

        return Capturer(
            write, Torch(folder, ring_path, about), sample=Sampler(every).due if every else lambda _: None
        )

    return Watch(control, make, about, folder, is_sampling=bool(every))


def number(environment: Mapping[str, str], name: str) -> int | None:
    """A count that an environment variable gives, `None` where it is not set, none or not positive."""
    text = environment.get(name, "").strip()
    return int(text) or None if text.isdecimal() else None
