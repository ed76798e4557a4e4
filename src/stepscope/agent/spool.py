"""The spool: every batch is on disk before it is shipped, and stays until a receiver has it or room is short.

What can be lost, and when. Killed (even by SIGKILL) at any moment: nothing that `append` returned for. The
machine loses power: what was appended in the last `sync_every_s` and not yet shipped. The disk is full or
fails: batches are kept in memory, the newest `memory_bytes` of them. Room is short: whole segments, those
that are acknowledged first, then the oldest. Whatever is given up is counted and told in a batch of its own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stepscope.agent.position import Position, read_position, write_position
from stepscope.agent.segment import Segments
from stepscope.model.batch import Batch, Happened
from stepscope.model.error import RefusedError, UsageError
from stepscope.sources.formats.frame import Header, is_agent_id, pack_frame, pack_header

RESERVE = 1 << 20
"""Numbers that may leave the spool before its position must be written again."""
SKIP = 1 << 32
"""How far numbers skip where the position is lost: more than can have been in use behind the last segment."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Shipment:
    """Frames to ship, oldest first, as one body."""

    agent: str
    first_seq: int
    last_seq: int
    num_frames: int
    body: bytes


@dataclass(frozen=True, slots=True)
class SpoolState:
    """How a spool is. `why` it keeps batches in memory, `None` while its disk works. `num_dropped` batches
    were given up before a receiver had them, `num_damaged` places of old segments could not be read."""

    agent: str
    last_seq: int
    acknowledged_seq: int
    num_bytes: int
    num_held: int
    num_dropped: int
    num_damaged: int
    num_reserved: int
    why: str | None


class Spool:
    """One agent's spool in one folder. Safe over threads; one process at a time.

    `agent` is the id of a new spool (random by default); a folder that has one keeps it. Raises RefusedError
    where another process holds the folder, and for nothing else: a disk that fails is told, not raised.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        agent: str | None = None,
        host: str = "",
        max_bytes: int = 512 << 20,
        segment_bytes: int = 4 << 20,
        memory_bytes: int = 16 << 20,
        sync_every_s: float = 1.0,
        retry_every_s: float = 5.0,
        is_threaded: bool = True,
        monotonic_s: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        if agent is not None and not is_agent_id(agent):
            raise UsageError(f"agent id {agent!r}: 1 to 36 letters, digits, dots, dashes and underscores")
        self.folder = Path(folder)
        self.max_bytes, self.memory_bytes = max_bytes, memory_bytes
        self.sync_every_s, self.retry_every_s = sync_every_s, retry_every_s
        self._monotonic_s, self._now_ns, self._host = monotonic_s, now_ns, host
        self._lock = threading.RLock()
        self._segments = Segments(self.folder, min(segment_bytes, max(max_bytes // 4, 1)))
        self._held: deque[tuple[int, bytes]] = deque()
        self._held_bytes = 0
        self._lost: list[int] = []  # first, last and count of what memory had no room for
        self._notes: list[tuple[str, str, int]] = []
        self._num_dropped = self._num_damaged = 0
        self._why: str | None = None
        self._failed_s = 0.0
        self._holder: int | None = None
        self._synced_s = monotonic_s()
        self._is_dirty = False
        self._is_new = False
        self._position = Position(agent or uuid.uuid4().hex)
        self._next = 1
        self._open()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        if is_threaded:
            self._thread = threading.Thread(target=self._sync_forever, name="stepscope-spool", daemon=True)
            self._thread.start()

    @property
    def agent(self) -> str:
        return self._position.agent

    # ── beginning and end ──

    def _open(self) -> None:
        position, last_seq = None, 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._claim()
            position = read_position(self.folder)
            found = self._segments.find(position.agent if position is not None else None)
            last_seq = self._segments.last_seq
            self._note_damage()
            if position is None and found is not None:  # lost or damaged: numbers must not be used twice
                position = Position(found, reserved=last_seq + SKIP)
        except OSError as error:
            self._fail(error)
        self._is_new = position is None
        self._position = position or self._position
        self._next = max(self._position.reserved, self._position.acknowledged, last_seq) + 1
        if self._why is None:
            try:
                self._reserve()
            except OSError as error:
                self._fail(error)

    def _claim(self) -> None:
        if self._holder is not None:
            return
        file = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o640)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise RefusedError(
                f"{self.folder}: another agent writes this spool; end it, or name another folder"
            ) from None
        self._holder = file

    def _reserve(self) -> None:
        """Numbers up to `RESERVE` from here may leave. OSError where that cannot be written."""
        reserved = self._next - 1 + RESERVE
        self._position = write_position(
            self.folder, msgspec.structs.replace(self._position, reserved=reserved)
        )
        self._is_new = False

    def close(self) -> None:
        """Everything on the disk that it takes, and the folder given back."""
        with self._lock:
            if self._host:
                self._tell()
            if self._held:
                self._drain()
            self._stop.set()
            self._wake.set()
            self.sync()
            self._segments.end()
            if self._holder is not None:
                if not self._held:  # in order: the next one goes on with the next number
                    with contextlib.suppress(OSError):
                        write_position(
                            self.folder, msgspec.structs.replace(self._position, reserved=self._next - 1)
                        )
                os.close(self._holder)
                self._holder = None
        if self._thread is not None:
            self._thread.join(10)

    # ── in ──

    def append(self, batch: Batch) -> int:
        """Number it and keep it: its number. Of a batch too large for a frame (8 MB packed) only that is
        kept."""
        with self._lock:
            self._host = batch.host or self._host
            self._tell()
            seq = self._put(batch)
            if self._thread is not None:
                self._wake.set()
            elif self._is_dirty and self._monotonic_s() - self._synced_s >= self.sync_every_s:
                self.sync()
            return seq

    def _put(self, batch: Batch) -> int:
        seq = self._next
        try:
            frame = pack_frame(msgspec.structs.replace(batch, agent=self.agent, seq=seq))
        except (ValueError, OverflowError, TypeError) as error:
            self._num_dropped += 1
            self._notes.append(("spool_gap", f"a batch could not be written: {error}", 1))
            return seq - 1
        self._next += 1
        if self._why is None:
            try:
                self._write(seq, frame)
                return seq
            except OSError as error:
                self._fail(error)
        self._hold(seq, frame)
        if self._monotonic_s() - self._failed_s >= self.retry_every_s:
            self._drain()
        return seq

    def _write(self, seq: int, frame: bytes) -> None:
        if seq > self._position.reserved - RESERVE // 2 or self._is_new:
            self._reserve()
        while self._segments.num_bytes + len(frame) > self.max_bytes and self._segments.can_drop():
            self._drop_oldest()
        while True:
            try:
                self._segments.write(self.agent, seq, frame)
                break
            except OSError as error:
                done = self._position.acknowledged
                if error.errno not in _FULL or not self._segments.can_drop(done):
                    raise
                self._drop_oldest()
        self._is_dirty = True

    def _drop_oldest(self) -> None:
        dropped = self._segments.drop_oldest(self._position.acknowledged)
        if dropped is not None:
            self._num_dropped += dropped.num_frames
            batches = f"batches {dropped.first_seq} to {dropped.last_seq}"
            text = f"no room: {batches} were given up before they were shipped"
            self._notes.append(("spool_gap", text, dropped.num_frames))

    # ── when the disk fails ──

    def _fail(self, error: OSError) -> None:
        why = (error.strerror or str(error) or type(error).__name__).lower()
        if self._why is None:
            self._notes.append(("spool_failed", f"{why}: batches are kept in memory", error.errno or 0))
        self._why = why
        self._failed_s = self._monotonic_s()

    def _hold(self, seq: int, frame: bytes) -> None:
        self._held.append((seq, frame))
        self._held_bytes += len(frame)
        while self._held_bytes > self.memory_bytes and len(self._held) > 1:
            lost, dropped = self._held.popleft()
            self._held_bytes -= len(dropped)
            self._num_dropped += 1
            first, count = (self._lost[0], self._lost[2]) if self._lost else (lost, 0)
            self._lost = [first, lost, count + 1]

    def _drain(self) -> None:
        """Try the disk again: what is held goes there, in order."""
        self._failed_s = self._monotonic_s()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._claim()
            self._reserve()
            while self._held:
                seq, frame = self._held[0]
                self._write(seq, frame)
                self._held.popleft()
                self._held_bytes -= len(frame)
        except OSError as error:
            self._fail(error)
            return
        self._notes.append(("spool_back", f"the disk takes batches again (it was: {self._why})", 0))
        self._why = None
        if self._lost:
            first, last, count = self._lost
            self._lost = []
            text = f"the disk failed for too long: of batches {first} to {last} {count} were given up"
            self._notes.append(("spool_gap", text, count))

    def _note_damage(self) -> None:
        for name, fault in self._segments.damage:
            self._num_damaged += 1
            what = "ends in the middle of a batch, as after a kill" if fault.is_cut else "is damaged"
            text = f"{name} at byte {fault.start}: {what}; {fault.num_bytes} bytes were left out"
            self._notes.append(("spool_damage", text, fault.num_bytes))
        self._segments.damage.clear()

    def _tell(self) -> None:
        """What happened to the spool itself, as batches of its own."""
        notes, self._notes = self._notes, []
        for what, text, code in notes:
            self._put(Happened(self.agent, 0, self._host, self._now_ns(), what, text, code or None))

    # ── to the disk ──

    def sync(self) -> None:
        """What was appended is on the disk when this returns, unless the disk fails."""
        with self._lock:
            file = self._segments.descriptor() if self._is_dirty else None
            self._is_dirty = False
            self._synced_s = self._monotonic_s()
        if file is None:
            return
        try:
            os.fsync(file)  # without the lock: a slow disk delays no append
        except OSError as error:
            with self._lock:
                self._segments.end()  # what an fsync failed on is not to be trusted: go on in a new file
                self._fail(error)
        finally:
            os.close(file)

    def _sync_forever(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            self._stop.wait(self.sync_every_s)
            self.sync()

    # ── out ──

    def pending(self, most_bytes: int = 1 << 20) -> Shipment | None:
        """The oldest batches that are not acknowledged, `most_bytes` or one frame; `None` where all are."""
        with self._lock:
            done = self._position.acknowledged
            frames = [(frame.seq, frame.raw) for frame in self._segments.frames_after(done, most_bytes)]
            self._note_damage()
            left = most_bytes - sum(len(raw) for _, raw in frames)
            last_on_disk = frames[-1][0] if frames else done
            is_whole = not frames or last_on_disk >= self._segments.last_seq
            for seq, raw in self._held if is_whole else ():
                if (left <= 0 and frames) or (seq > self._position.reserved and not self._is_new):
                    break
                frames.append((seq, raw))
                left -= len(raw)
            if not frames:
                return None
            head = pack_header(Header(self.agent, frames[0][0]))
            body = b"".join((head, *(raw for _, raw in frames)))
            return Shipment(self.agent, frames[0][0], frames[-1][0], len(frames), body)

    def acknowledge(self, seq: int) -> bool:
        """A receiver has everything up to `seq`. False where that says nothing new, or cannot be."""
        with self._lock:
            if not self._position.acknowledged < seq < self._next:
                return False
            self._position = msgspec.structs.replace(self._position, acknowledged=seq)
            while self._held and self._held[0][0] <= seq:
                self._held_bytes -= len(self._held.popleft()[1])
            if not self._is_new:
                # A position that is lost costs shipping twice, which a receiver sees: no need to wait for it.
                with contextlib.suppress(OSError):
                    self._position = write_position(self.folder, self._position, is_synced=False)
            return True

    def give_up(self, seq: int, why: str) -> None:
        """A receiver will never take what is pending up to `seq`: go on behind it, and tell."""
        with self._lock:
            if self.acknowledge(seq):
                self._num_dropped += 1
                self._notes.append(("spool_gap", f"batch {seq} was given up: {why}", 1))

    def state(self) -> SpoolState:
        """How it is now."""
        with self._lock:
            return SpoolState(
                self.agent,
                self._next - 1,
                self._position.acknowledged,
                self._segments.num_bytes,
                len(self._held),
                self._num_dropped,
                self._num_damaged,
                self._position.reserved,
                self._why,
            )
