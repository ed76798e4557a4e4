"""Captures of running jobs, asked for by the server: one at a time for each job, within its budget, agreed
over all ranks on all nodes, and the traces taken in.

Nothing here waits for a network: orders lie in queues that agents ask at, answers come with the marks that
they ship anyway.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from stepscope.act.capture import Budget, Limits, Request, Spent, refusal
from stepscope.act.capture.budget import HOUR_NS
from stepscope.act.capture.shown import RankState, RankTable
from stepscope.model.capture import UNDER_WAY, CaptureDocument, CaptureHour, CapturePart
from stepscope.model.error import StepscopeError
from stepscope.model.order import Command, Orders, Stacks
from stepscope.server.capture_order import OrderQueues
from stepscope.server.capture_run import Delays, Running
from stepscope.server.capture_trace import NotWanted, received
from stepscope.server.feed import Feed
from stepscope.store.contract import Store

KIND = "capture"
COOLDOWN_S = 60.0
"""After one capture of a job has ended, until the next one."""
MOST_TRACE_BYTES = 512 << 20
LOOK_S = 0.05
YOUNG_NS = 10_000_000_000
"""So long after its start the server may not have heard of all ranks yet."""
AGAIN = "the server was started again in the middle of it"
_DAY_NS = 24 * HOUR_NS
_USUAL_BUDGET, _USUAL_LIMITS = Budget(), Limits()
_decoder = msgspec.json.Decoder(CaptureDocument)
_encoder = msgspec.json.Encoder()


class Captures:
    """All captures that this server asks for. Safe over threads.

    `folder` is where traces lie until all of a capture are here. `num_ended` counts captures by (job, state),
    and `cost` what they cost: seconds of captured steps, bytes of traces, ns that ranks were held up, since
    the server's start.
    """

    def __init__(
        self,
        store: Store,
        feed: Feed,
        now_ns: Callable[[], int] = time.time_ns,
        *,
        mono_ns: Callable[[], int] = time.monotonic_ns,
        budget: Budget = _USUAL_BUDGET,
        cooldown_s: float = COOLDOWN_S,
        limits: Limits = _USUAL_LIMITS,
        most_trace_bytes: int = MOST_TRACE_BYTES,
        folder: str | None = None,
    ) -> None:
        self._store, self._feed = store, feed
        self._now_ns, self._mono_ns = now_ns, mono_ns
        self._budget, self._cooldown_ns, self._limits = budget, int(cooldown_s * 1e9), limits
        self._most_trace_bytes, self._folder = most_trace_bytes, folder
        self._lock = threading.RLock()
        self._table, self._delays = RankTable(), Delays()
        self._queues = OrderQueues(store, now_ns, mono_ns)
        self._running: dict[int, Running] = {}
        self._last_id, self._began_ns = 0, mono_ns()
        self.num_ended: Counter[tuple[str, str]] = Counter()
        self.cost: Counter[tuple[str, str]] = Counter()
        self._fresh: queue.SimpleQueue[Sequence[Any]] = queue.SimpleQueue()
        self._news, self._is_over = threading.Event(), False
        self._thread = threading.Thread(target=self._work, name="stepscope-captures", daemon=True)
        self._end_listening = feed.listen("batches", self._heard)
        self._end_old()

    # ── who asks ──

    def ask(self, job: str, run: str, request: Request, *, by: str, why: str) -> CaptureDocument:
        """Begin a capture: its document, `refused` where it may not be."""
        with self._lock:
            self._hear()
            now_ns = self._now_ns()
            ranks = self._table.of(job, run)
            num_missing = max((each.world_size or 0 for each in ranks), default=0) - len(ranks)
            if request.ranks is not None:
                ranks, num_missing = [each for each in ranks if each.rank in request.ranks], 0
            doc = CaptureDocument(
                id=self._new_id(ranks), job=job, run=run, state="agreeing", by=by, why=why, asked_ns=now_ns,
                num_steps=request.num_steps, mode=request.mode, flags=tuple(sorted(request.flags)),
                ranks=tuple(sorted(each.rank for each in ranks if each.rank is not None)),
                num_missing=max(num_missing, 0),
            )  # fmt: skip
            spent = self._spent(job, now_ns)
            no = self._refusal(doc, ranks, spent, now_ns)
            if no is None and doc.num_missing and self._mono_ns() - self._began_ns < YOUNG_NS:
                no = f"only {len(ranks)} ranks have shown themselves since the server began; ask again"
            if no is not None:
                doc = replace(doc, state="refused", refusal=no, ended_ns=now_ns, hour=self._hour(spent))
            else:
                running = Running(
                    doc, request, ranks, self._queues, self._delays, self._limits, self._mono_ns()
                )
                doc = running.doc
                self._running[doc.id] = running
            doc = self._told(doc)
        self._feed.tell("capture", doc)
        self._news.set()
        return doc

    def ask_stacks(self, job: str, run: str, ranks: Iterable[int] | None = None) -> tuple[int, ...]:
        """Have the agents read the Python stacks of these ranks (all of them by default): the ranks that were
        asked. They come as `Lines` of the log `stacks`, labelled."""
        wanted = None if ranks is None else frozenset(ranks)
        by_agent: dict[str, list[RankState]] = {}
        with self._lock:
            self._hear()
            for each in self._table.of(job, run):
                if wanted is None or each.rank in wanted:
                    by_agent.setdefault(each.agent, []).append(each)
        for agent, found in by_agent.items():
            rings = tuple(each.ring for each in found)
            self._queues.put(agent, lambda seq, rings=rings: Stacks(seq, rings))  # type: ignore[misc]
        return tuple(
            sorted(each.rank for found in by_agent.values() for each in found if each.rank is not None)
        )

    def get(self, id: int) -> CaptureDocument | None:
        """One capture."""
        with self._lock:
            running = self._running.get(id)
            if running is not None:
                return running.doc
        body = self._store.get(KIND, str(id))
        return _decoder.decode(body) if body is not None else None

    # ── agents ──

    def orders(self, agent: str, after: int, wait_s: float) -> Orders:
        """What is newer than `after` for this agent; blocks for up to `wait_s` where there is nothing."""
        return self._queues.take(agent, after, wait_s)

    async def orders_async(self, agent: str, after: int, wait_s: float) -> Orders:
        """The same, without a thread for each agent that waits."""
        return await self._queues.take_async(agent, after, wait_s)

    def take_trace(self, capture: int, ring: str, agent: str | None, chunks: Iterable[bytes]) -> None:
        """A trace that was asked for, gzip JSON. NotWanted (409), TooLarge (413), InputError (422)."""
        with self._lock:
            running = next((each for each in self._running.values() if each.doc.capture == capture), None)
            rank = running.rank_of(ring) if running is not None else None
            if running is None or rank is None or running.doc.state != "sending":
                raise NotWanted(f"{ring}: nobody asked for a trace of capture {capture}")
            if agent is not None and agent != rank.agent:
                raise NotWanted(f"{ring}: it is not of agent {agent}")
            if ring in running.traces or ring in running.is_sending:
                raise NotWanted(f"{ring}: its trace of capture {capture} is here already")
            running.is_sending.add(ring)
        path = None
        try:
            path = received(chunks, ring, capture, rank.rank, self._folder, self._most_trace_bytes)
        finally:
            with self._lock:
                running.is_sending.discard(ring)
                is_wanted = running.doc.state == "sending"
                if path is not None and is_wanted:
                    running.traces[ring] = path
            if path is not None and not is_wanted:
                os.unlink(path)
            self._news.set()
        if not is_wanted:
            raise NotWanted(f"{ring}: capture {capture} has ended meanwhile")

    # ── the thread ──

    def start(self) -> None:
        """Drive captures until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End those that are under way, and let go of all agents that wait."""
        self._end_listening()
        self._is_over = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(10)
        with self._lock:
            ended = [each.stop("the server ended", self._now_ns()) for each in self._running.values()]
            self._running.clear()
            for doc in ended:
                self._told(doc)
        self._queues.close()

    def step(self) -> None:
        """Hear what is new and go on with every capture: what the thread does again and again."""
        changed: list[CaptureDocument] = []
        with self._lock:
            self._hear()
            for running in list(self._running.values()):
                doc = running.advance(self._mono_ns(), self._now_ns())
                if running.doc.state == "sending" and not running.missing and not running.is_sending:
                    doc = self._keep(running)
                if doc is not None:
                    changed.append(self._told(doc))
        for doc in changed:
            self._feed.tell("capture", doc)

    def _work(self) -> None:
        while not self._is_over:
            self._news.wait(LOOK_S * 5 if self._running else 1.0)
            self._news.clear()
            try:
                self.step()
            except Exception as error:  # noqa: BLE001  the thread must live; the capture does not
                self._give_up(f"a fault of stepscope ({type(error).__name__}: {error})")
            if self._running:
                time.sleep(LOOK_S)  # batches of thousands of agents are taken together

    def _heard(self, batches: Sequence[Any]) -> None:
        self._fresh.put(batches)
        if self._running or self._fresh.qsize() > 100:
            self._news.set()

    def _hear(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._table.take(self._fresh.get_nowait())

    def _give_up(self, why: str) -> None:
        with self._lock:
            for id, running in list(self._running.items()):
                del self._running[id]
                with contextlib.suppress(Exception):
                    self._told(running.stop(why, self._now_ns()))

    # ── documents ──

    def _keep(self, running: Running) -> CaptureDocument:
        doc = running.doc
        try:
            for ring, path in running.traces.items():
                rank = running.rank_of(ring)
                body = Path(path).read_bytes()
                self._store.put_trace(
                    doc.job, doc.run, doc.id, ring, rank.rank if rank is not None else None, body
                )
        except (OSError, StepscopeError) as error:
            return running.stop(f"its traces cannot be kept: {error}", self._now_ns())
        for path in running.traces.values():
            with contextlib.suppress(OSError):
                os.unlink(path)
        return running.kept(self._now_ns())

    def _told(self, doc: CaptureDocument) -> CaptureDocument:
        """Put it into the store; of one that has ended what it cost."""
        if doc.state not in UNDER_WAY:
            self.num_ended[doc.job, doc.state] += 1
            if doc.state != "refused":
                self._running.pop(doc.id, None)
                for name, cost in (
                    ("seconds", doc.seconds),
                    ("bytes", doc.bytes),
                    ("stall_ns", doc.stall_ns),
                ):
                    self.cost[doc.job, name] += cost or 0  # type: ignore[assignment]
                spent = [*self._spent(doc.job, self._now_ns(), but=doc.id), _spent(doc)]
                doc = replace(doc, hour=self._hour(spent))
        self._store.put(KIND, str(doc.id), _encoder.encode(doc), job=doc.job, run=doc.run, at_ns=doc.asked_ns)
        return doc

    def _refusal(
        self, doc: CaptureDocument, ranks: Sequence[RankState], spent: Sequence[Spent], now_ns: int
    ) -> str | None:
        if not ranks:
            return "no rank of it marks its steps now"
        young = next((each for each in ranks if each.step_ns is None), None)
        if young is not None:
            return f"rank {young.rank} on {young.host} has not marked two steps yet"
        other = next((each.doc for each in self._running.values() if each.doc.job == doc.job), None)
        if other is not None:
            return f"capture {other.id} of this job is under way"
        why = refusal(self._budget, spent, now_ns)
        if why is not None:
            return why
        ended = [each.ended_ns or each.asked_ns for each in self._documents(doc.job, now_ns)]
        left_ns = max(ended, default=0) + self._cooldown_ns - now_ns
        if ended and left_ns > 0:
            return f"the last capture of this job has only just ended; ask again in {left_ns / 1e9:.0f} s"
        return None

    def _spent(self, job: str, now_ns: int, but: int | None = None) -> list[Spent]:
        return [_spent(each) for each in self._documents(job, now_ns) if each.id != but]

    def _documents(self, job: str, now_ns: int) -> list[CaptureDocument]:
        """Captures of the last hour that were not refused."""
        kept = self._store.documents(KIND, job=job, start_ns=now_ns - HOUR_NS)
        return [each for doc in kept if (each := _decoder.decode(doc.body)).state != "refused"]

    def _hour(self, spent: Sequence[Spent]) -> CaptureHour:
        return CaptureHour(
            captures=len(spent),
            seconds=sum(each.seconds for each in spent),
            bytes=sum(each.bytes for each in spent),
            held_up_ratio=sum(each.stall_ns for each in spent) / HOUR_NS,
            most_captures=self._budget.captures_per_hour,
            most_seconds=self._budget.seconds,
            most_bytes=self._budget.bytes,
            most_held_up_ratio=self._budget.overhead_ratio,
        )

    def _new_id(self, ranks: Sequence[RankState]) -> int:
        """Above all that these ranks know, with room for one number an attempt."""
        known = max((max(each.answers, default=0) for each in ranks), default=0)
        self._last_id = max(self._now_ns() // 1_000_000, self._last_id + self._limits.attempts + 1, known + 1)
        return self._last_id

    def _end_old(self) -> None:
        """What an earlier server left in the middle: ranks let go of it."""
        now_ns = self._now_ns()
        for kept in self._store.documents(KIND, start_ns=now_ns - _DAY_NS):
            doc = _decoder.decode(kept.body)
            if doc.state not in UNDER_WAY:
                continue
            for part in doc.parts if doc.capture is not None else ():
                self._queues.put(part.agent, lambda seq, part=part, doc=doc: _cancel(seq, part, doc))  # type: ignore[misc]
            self._told(replace(doc, state="failed", refusal=AGAIN, ended_ns=now_ns, steps=None))


def _cancel(seq: int, part: CapturePart, doc: CaptureDocument) -> Command:
    first = doc.steps[0] if doc.steps is not None else 0
    return Command(seq, part.ring, "cancel", doc.capture or 0, first, doc.num_steps, doc.mode, doc.flags)


def _spent(doc: CaptureDocument) -> Spent:
    return Spent(doc.asked_ns, doc.seconds or 0.0, doc.bytes or 0, doc.stall_ns or 0)
