"""The spool: every batch is on disk before it is shipped, and stays until a receiver has it or room is short.

What can be lost, and when. Killed (even by SIGKILL) at any moment: nothing that `append` returned for. The
machine loses power: what was appended in the last `sync_every_s` and not yet shipped. The disk is full or
fails: batches are kept in memory, the newest `memory_bytes` of them. Room is short: whole segments, those
that are acknowledged first, then the oldest. Whatever is given up is counted and told in a batch of its own.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from stepscope.agent.held import Held
from stepscope.agent.number import Numbers
from stepscope.agent.ring_read import RingsRead
from stepscope.agent.segment import Segments
from stepscope.agent.shipment import Shipment, SpoolState
from stepscope.agent.syncer import Syncer
from stepscope.model.batch import Batch, Happened
from stepscope.model.error import RefusedError, UsageError
from stepscope.sources.formats.frame import (
    Frame,
    Header,
    batch_of,
    is_agent_id,
    pack_frame,
    pack_header,
)

_FULL = (errno.ENOSPC, errno.EDQUOT)


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
        self.max_bytes = max_bytes
        self.sync_every_s, self.retry_every_s = sync_every_s, retry_every_s
        self._monotonic_s, self._now_ns, self._host = monotonic_s, now_ns, host
        self._lock = threading.RLock()
        self._segments = Segments(self.folder, min(segment_bytes, max(max_bytes // 4, 1)))
        self._held = Held(memory_bytes)
        self._notes: list[tuple[str, str, int]] = []
        self._num_dropped = self._num_damaged = 0
        self._why: str | None = None
        self._failed_s = 0.0
        self._synced_s = monotonic_s()
        self._is_dirty = False
        self._first_agent = agent or uuid.uuid4().hex
        self._numbers = Numbers(self.folder, self._first_agent)
        self._open()
        self.rings = RingsRead(self.folder)
        self._syncer = Syncer(self.sync, sync_every_s) if is_threaded else None

    @property
    def agent(self) -> str:
        return self._numbers.agent

    # ── beginning and end ──

    def _open(self) -> None:
        try:
            self._look()
            self._numbers.reserve()
        except OSError as error:
            self._fail(error)

    def _look(self) -> None:
        try:
            self._numbers.look(self._segments)
        finally:
            self._note_damage()
            if self._numbers.is_looked:
                self._number_held()

    def _number_held(self) -> None:
        """Batches that came before the folder could be looked into: of this agent, from this number on."""
        before = Header(self._first_agent, 0)
        for seq, raw in self._held.take():
            batch = batch_of(Frame(0, len(raw), seq, raw), before, str(self.folder))
            again = msgspec.structs.replace(batch, agent=self.agent, seq=self._numbers.next)
            self._hold(self._numbers.next, pack_frame(again))
            self._numbers.next += 1

    def close(self) -> None:
        """Everything on the disk that it takes, and the folder given back."""
        with self._lock:
            if self._host:
                self._tell()
            if self._held:
                self._drain()
            self.sync()
            self._segments.end()
            self._numbers.release(is_in_order=not self._held)
        if self._syncer is not None:
            self._syncer.stop()

    # ── in ──

    def append(self, batch: Batch) -> int:
        """Number it and keep it: its number. Of a batch too large for a frame (8 MB packed) only that is
        kept."""
        with self._lock:
            self._host = batch.host or self._host
            self._tell()
            seq = self._put(batch)
            self.rings.take(batch)
            if self._syncer is not None:
                self._syncer.wake()
            elif self._is_dirty and self._monotonic_s() - self._synced_s >= self.sync_every_s:
                self.sync()
            return seq

    def _put(self, batch: Batch) -> int:
        seq = self._numbers.next
        try:
            frame = pack_frame(msgspec.structs.replace(batch, agent=self.agent, seq=seq))
        except (ValueError, OverflowError, TypeError) as error:
            self._num_dropped += 1
            self._notes.append(("spool_gap", f"a batch could not be written: {error}", 1))
            return seq - 1
        self._numbers.next += 1
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
        self._numbers.reserve(seq)
        while self._segments.num_bytes + len(frame) > self.max_bytes and self._segments.can_drop():
            self._drop_oldest()
        while True:
            try:
                self._segments.write(self.agent, seq, frame)
                break
            except OSError as error:
                done = self._numbers.acknowledged
                if error.errno not in _FULL or not self._segments.can_drop(done):
                    raise
                self._drop_oldest()
        self._is_dirty = True

    def _drop_oldest(self) -> None:
        dropped = self._segments.drop_oldest(self._numbers.acknowledged)
        if dropped is not None:
            self._num_dropped += dropped.num_frames
            batches = f"batches {dropped.first_seq} to {dropped.last_seq}"
            text = f"no room: {batches} were given up before they were shipped"
            self._notes.append(("spool_gap", text, dropped.num_frames))

    # ── when the disk fails ──

    def _fail(self, error: OSError | RefusedError) -> None:
        why = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        if self._why is None:
            number = getattr(error, "errno", None) or 0
            self._notes.append(("spool_failed", f"{why}: batches are kept in memory", number))
        self._why = why
        self._failed_s = self._monotonic_s()

    def _hold(self, seq: int, frame: bytes) -> None:
        self._num_dropped += self._held.add(seq, frame)

    def _drain(self) -> None:
        """Try the disk again: what is held goes there, in order."""
        self._failed_s = self._monotonic_s()
        try:
            if not self._numbers.is_looked:
                self._look()
            self._numbers.claim()
            self._numbers.reserve()
            for seq, frame in list(self._held):
                self._write(seq, frame)
                self._held.pop()
        except (OSError, RefusedError) as error:
            self._fail(error)
            return
        self._notes.append(("spool_back", f"the disk takes batches again (it was: {self._why})", 0))
        self._why = None
        lost = self._held.lost()
        if lost is not None:
            first, last, count = lost
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
            rings = self.rings.copy() if self._why is None else None  # else some is in memory alone
        if file is None:
            return
        try:
            os.fsync(file)  # without the lock: a slow disk delays no append
            if rings is not None:
                self.rings.write(rings)
        except OSError as error:
            with self._lock:
                self._segments.end()  # what an fsync failed on is not to be trusted: go on in a new file
                self._fail(error)
        finally:
            os.close(file)

    # ── out ──

    def pending(self, most_bytes: int = 1 << 20) -> Shipment | None:
        """The oldest batches that are not acknowledged, `most_bytes` or one frame; `None` where all are."""
        with self._lock:
            done = self._numbers.acknowledged
            frames = [(frame.seq, frame.raw) for frame in self._segments.frames_after(done, most_bytes)]
            self._note_damage()
            left = most_bytes - sum(len(raw) for _, raw in frames)
            last_on_disk = frames[-1][0] if frames else done
            is_whole = not frames or last_on_disk >= self._segments.last_seq
            for seq, raw in self._held if is_whole else ():
                if (len(raw) > left and frames) or not self._numbers.may_leave(seq):
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
            is_news = self._numbers.acknowledge(seq)
            if is_news:
                self._held.drop_to(seq)
            return is_news

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
                self._numbers.next - 1,
                self._numbers.acknowledged,
                self._segments.num_bytes,
                len(self._held),
                self._num_dropped,
                self._num_damaged,
                self._why,
            )
