"""One capture under way, over all ranks on all nodes: agreed, recorded, sent. Orders go into the queues of
agents, what comes of them is in the marks that they ship."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stepscope.act.capture import Limits, Request, Seen
from stepscope.act.capture.agreement import Agreement
from stepscope.act.capture.request import Order as Wanted
from stepscope.act.capture.shown import RankState
from stepscope.model.capture import CaptureDocument, CapturePart
from stepscope.model.order import Command, Upload
from stepscope.server.capture_order import OrderQueues

S = 1_000_000_000
FIRST_DELAY_NS, LEAST_DELAY_NS = 2 * S, S // 4
"""From an order to its answer beyond the rank's step: before it was measured, and at the least."""
QUIET_NS, LOST_NS = 4 * S, 6 * S
"""Of an agent that takes part and does not ask for orders (it should each `BEAT_S`): it may be why a capture
came to nothing; it is."""
SEND_NS, AGAIN_NS = 60 * S, 10 * S
"""For all traces to come, beside what their bytes take; until one that has not begun to is asked again."""
BYTES_PER_SECOND = 1_000_000
SILENT = "is on a node whose agent is silent"


class Delays:
    """How long orders took to be answered, of each agent the last few."""

    def __init__(self) -> None:
        self._of: dict[str, deque[int]] = {}

    def note(self, agent: str, delay_ns: int) -> None:
        """One more; the most of the last eight counts."""
        self._of.setdefault(agent, deque(maxlen=8)).append(max(delay_ns, LEAST_DELAY_NS))

    def of(self, agents: Iterable[str]) -> int:
        """For all of these to answer."""
        found = [max(self._of[each]) if each in self._of else FIRST_DELAY_NS for each in agents]
        return max(found, default=FIRST_DELAY_NS)


class Running:
    """One capture. Not for several threads. `doc` is how it stands."""

    def __init__(
        self,
        doc: CaptureDocument,
        request: Request,
        ranks: Sequence[RankState],
        queues: OrderQueues,
        delays: Delays,
        limits: Limits,
        mono_ns: int,
    ) -> None:
        self._ranks = {each.ring: each for each in ranks}
        self._request, self._queues, self._delays = request, queues, delays
        self.agents = sorted({each.agent for each in ranks})
        delay_ns = delays.of(self.agents)
        self._agreement = Agreement(
            tuple(self._ranks), request, capture=doc.id, delay_ns=delay_ns, limits=limits
        )
        self.doc = replace(doc, delay_ns=delay_ns, parts=self._parts(None))
        self._began_ns = mono_ns
        self._asked_ns: dict[int, int] = {}
        self._is_answered: set[tuple[int, str]] = set()
        self._deadline_ns = self._again_ns = 0
        self.is_sending: set[str] = set()
        """Rings whose traces are coming in just now."""
        self.traces: dict[str, str] = {}
        """Where those lie that are here."""
        for agent in self.agents:
            queues.joined(agent, 1)

    @property
    def missing(self) -> list[str]:
        """Rings whose traces are neither here nor coming."""
        return [each for each in self._ranks if each not in self.traces and each not in self.is_sending]

    def rank_of(self, ring: str) -> RankState | None:
        """One of its ranks."""
        return self._ranks.get(ring)

    def advance(self, mono_ns: int, now_ns: int) -> CaptureDocument | None:
        """Go on: the document where it has changed. Done is told when `traces` are complete: keeping them
        (`kept`) is the caller's."""
        before = self.doc
        if before.state == "sending":
            self._wait(mono_ns, now_ns)
        elif before.state in ("agreeing", "recording"):
            seen = self._seen(mono_ns)
            self._measure(mono_ns, seen)
            self._order(self._agreement.advance(mono_ns, seen), mono_ns)
            self._conclude(mono_ns, now_ns)
        return self.doc if self.doc != before else None

    def stop(self, why: str, now_ns: int) -> CaptureDocument:
        """End it: what ranks hold of it is let go."""
        self._cancel()
        return self._failed(why, now_ns)

    def kept(self, now_ns: int) -> CaptureDocument:
        """All traces are in the store."""
        return self._end(now_ns, state="done")

    # ── the agreement ──

    def _seen(self, mono_ns: int) -> dict[str, Seen]:
        lost = {agent for agent in self.agents if self._is_silent(agent, mono_ns)}
        return {ring: each.seen(SILENT if each.agent in lost else None) for ring, each in self._ranks.items()}

    def _is_silent(self, agent: str, mono_ns: int, since_ns: int = LOST_NS) -> bool:
        return mono_ns - max(self._queues.heard_ns(agent) or 0, self._began_ns) > since_ns

    def _measure(self, mono_ns: int, seen: dict[str, Seen]) -> None:
        for capture, asked_ns in self._asked_ns.items():
            for ring, each in seen.items():
                if capture in each.answers and (capture, ring) not in self._is_answered:
                    self._is_answered.add((capture, ring))
                    delay_ns = mono_ns - asked_ns - (each.step_ns or 0) // 2
                    self._delays.note(self._ranks[ring].agent, delay_ns)

    def _order(self, orders: Sequence[Wanted], mono_ns: int) -> None:
        request = self._request
        for each in orders:
            self._queues.put(
                self._ranks[each.ring].agent,
                lambda seq, each=each: Command(  # type: ignore[misc]
                    seq, each.ring, each.command, each.capture, each.first_step, request.num_steps,
                    request.mode, tuple(sorted(request.flags)),
                ),
            )  # fmt: skip
        if not orders:
            return
        first = orders[0]
        if first.command == "propose":
            self._asked_ns[first.capture] = mono_ns
            attempts = self.doc.attempts + 1
            self.doc = replace(
                self.doc, state="agreeing", capture=first.capture, steps=None, attempts=attempts
            )
        elif first.command == "commit":
            last = first.first_step + request.num_steps - 1
            self.doc = replace(self.doc, state="recording", steps=(first.first_step, last))

    def _conclude(self, mono_ns: int, now_ns: int) -> None:
        outcome = self._agreement.outcome
        if outcome is None:
            return
        if not outcome.is_done:
            why = outcome.why or "it came to nothing"
            quiet = {each for each in self.agents if self._is_silent(each, mono_ns, QUIET_NS)}
            rings = ", ".join(_stem(ring) for ring, each in self._ranks.items() if each.agent in quiet)
            self._failed(why if not quiet or SILENT in why else f"{why}; {rings} {SILENT}", now_ns)
            return
        self.doc = replace(self.doc, state="sending", parts=self._parts(outcome.capture))
        size = sum(each.bytes or 0 for each in self.doc.parts)
        self._deadline_ns = mono_ns + SEND_NS + size * S // BYTES_PER_SECOND
        self._ask_for_traces(mono_ns)

    # ── the traces ──

    def _ask_for_traces(self, mono_ns: int) -> None:
        self._again_ns = mono_ns + AGAIN_NS
        capture = self.doc.capture or 0
        for ring in self.missing:
            self._queues.put(
                self._ranks[ring].agent,
                lambda seq, ring=ring: Upload(seq, ring, capture),  # type: ignore[misc]
            )

    def _wait(self, mono_ns: int, now_ns: int) -> None:
        missing = self.missing
        if not missing and not self.is_sending:
            return
        why = self._hindrance(missing, mono_ns)
        if why is not None:
            self._cancel()
            self._failed(why, now_ns)
        elif missing and mono_ns > self._again_ns:
            self._ask_for_traces(mono_ns)

    def _hindrance(self, missing: Sequence[str], mono_ns: int) -> str | None:
        """Why the traces will not all come; `None` while they may."""
        for ring in missing:
            rank = self._ranks[ring]
            if rank.said.get(self.doc.capture or 0) is not None:
                return f"{_stem(ring)}: its trace was not sent"
            if self._is_silent(rank.agent, mono_ns):
                return f"{_stem(ring)} {SILENT}: its trace has not come"
        if mono_ns > self._deadline_ns:
            late = ", ".join(_stem(ring) for ring in missing or sorted(self.is_sending))
            return f"{late}: no trace has come in time"
        return None

    def _cancel(self) -> None:
        """Also behind their answer ranks then remove what they recorded."""
        capture, first = self.doc.capture, (self.doc.steps or (0, 0))[0]
        if capture is not None:
            self._order([Wanted(ring, "cancel", capture, first) for ring in self._ranks], 0)

    # ── the end ──

    def _failed(self, why: str, now_ns: int) -> CaptureDocument:
        for ring, each in self._ranks.items():
            name = (
                f"rank {each.rank} on {each.host}" if each.rank is not None else f"a process on {each.host}"
            )
            why = why.replace(_stem(ring), name)
        said = {text for each in self._ranks.values() if (text := each.said.get(self.doc.capture or 0))}
        why = " ".join((why, *(f"({text})" for text in sorted(said)[:3])))
        self._end(now_ns, state="failed", refusal=why, steps=None)
        for path in self.traces.values():
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.traces.clear()
        return self.doc

    def _end(self, now_ns: int, **changes: object) -> CaptureDocument:
        parts = self._parts(self.doc.capture)
        steps_ns = [each.step_ns for each in self._ranks.values() if each.step_ns is not None]
        was_recorded = any(each.stall_ns is not None for each in parts)
        self.doc = replace(
            self.doc,
            parts=parts,
            ended_ns=now_ns,
            seconds=max(steps_ns) * self._request.num_steps / 1e9 if steps_ns and was_recorded else None,
            stall_ns=max((each.stall_ns for each in parts if each.stall_ns is not None), default=None),
            bytes=sum(each.bytes or 0 for each in parts) if was_recorded else None,
            **changes,
        )
        for agent in self.agents:
            self._queues.joined(agent, -1)
        return self.doc

    def _parts(self, capture: int | None) -> tuple[CapturePart, ...]:
        at = -1 if capture is None else capture
        return tuple(
            CapturePart(
                ring=each.ring, agent=each.agent, host=each.host, rank=each.rank,
                answer=each.answers.get(at), stall_ns=each.stall_ns.get(at), bytes=each.num_bytes.get(at),
            )
            for each in self._ranks.values()
        )  # fmt: skip


def _stem(ring: str) -> str:
    return ring.removesuffix(".ring")
