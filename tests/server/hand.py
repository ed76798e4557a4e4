"""Captures on a clock that the test turns: ranks with the SDK's own capturer, an agent for each node."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.act.capture import Request
from stepscope.model.batch import Happened, Marks
from stepscope.model.order import Command, Orders, Upload
from stepscope.server.capture import Captures
from stepscope.server.feed import Feed
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.control import Command as Word
from tests.act.cluster import Rank
from tests.server.document_store import DocumentStore

MS = 1_000_000
STEP_NS = 500 * MS
KIND = {each.name: each.number for each in abi.KINDS}


class Node:
    """An agent with one rank: it fetches orders and ships what the rank said, `late_ns` after it was said."""

    def __init__(self, world: World, rank: int, late_ns: int) -> None:
        self.world, self.number, self.late_ns = world, rank, late_ns
        self.agent, self.ring = f"agent{rank}", f"rank{rank}-{rank}-a.ring"
        self.rank = Rank(step=10)
        self.after, self.num_records, self.is_away, self.sends = -1, 0, False, True
        self.refuses: str | None = None
        self.commands: list[Command] = []
        self.uploads: list[Upload] = []
        self.waiting: list[tuple[int, Any]] = []
        self.told: dict[int, str] = {}

    def marks(self, *rows: tuple[str, int, int, float], is_alive: bool = True) -> Marks:
        """Records of (kind, step, a, b)."""
        first, self.num_records = self.num_records, self.num_records + len(rows)
        at = [self.world.mono_ns] * len(rows)
        return Marks(
            agent=self.agent, seq=0, host=f"node{self.number}", ring=self.ring,
            identity={"job": "llm", "run": "r1", "rank": self.number, "world_size": len(self.world.nodes)},
            names=[], number=list(range(first, self.num_records)),
            record_kind=[KIND[each[0]] for each in rows],
            flags=[0] * len(rows), step=[each[1] for each in rows], mono_ns=at, real_ns=at,
            a=[each[2] for each in rows], b=[each[3] for each in rows], c=[np.nan] * len(rows),
            is_alive=is_alive,
        )  # fmt: skip

    def ask(self) -> None:
        if self.is_away:
            return
        answer: Orders = self.world.captures.orders(self.agent, self.after, 0.0)
        self.after = answer.next
        for order in answer.orders:
            if isinstance(order, Upload):
                self.uploads.append(order)
                if self.sends:
                    self.send(order.capture)
            elif isinstance(order, Command):
                self.commands.append(order)
                if self.refuses is not None and order.command == "propose":
                    self.ship(
                        Happened(
                            self.agent, 0, "h", 0, "capture_refused", self.refuses, order.capture,
                            labels={"ring": self.ring},
                        )
                    )  # fmt: skip
                else:
                    flags = sum(abi.CAPTURE_FLAGS[each] for each in order.flags)
                    self.rank.word = Word(
                        order.command, order.capture, order.first_step, order.num_steps, order.mode, flags
                    )

    def send(self, capture: int, **changes: Any) -> None:
        body = trace(**({"capture": capture, "rank": self.number} | changes))
        self.world.captures.take_trace(capture, self.ring, self.agent, [body])

    def ship(self, batch: Any) -> None:
        self.waiting.append((self.world.mono_ns + self.late_ns, batch))

    def look(self) -> None:
        """What the rank has answered since the last look, and the step that it is in."""
        rows: list[tuple[str, int, int, float]] = []
        for capture, said in self.rank.answers.items():
            if self.told.get(capture) != said:
                self.told[capture] = said
                rows.append(("answer", self.rank.step, capture, float(abi.ANSWERS.index(said))))
                if said == "done":
                    rows.insert(0, ("capture_end", self.rank.step, capture, 80.0 * MS))
        if rows:
            self.ship(self.marks(*rows))

    def deliver(self) -> None:
        due = [batch for at, batch in self.waiting if at <= self.world.mono_ns and not self.is_away]
        self.waiting = [each for each in self.waiting if each[0] > self.world.mono_ns or self.is_away]
        if due:
            self.world.feed.tell("batches", tuple(due))


class World:
    """Nodes, a server, and a clock."""

    def __init__(self, folder: Path, num: int = 2, late_ns: int = 300 * MS, **options: Any) -> None:
        self.mono_ns, self.real_ns = 10**12, 1_800_000_000_000_000_000
        self.store, self.feed = DocumentStore(folder), Feed()
        self.told: list[Any] = []
        self.feed.listen("capture", self.told.append)
        self.options = {"cooldown_s": 0.0, "folder": str(folder)} | options
        self.captures = self.made()
        self.nodes: list[Node] = []
        self.nodes += [Node(self, rank, late_ns) for rank in range(num)]
        self.next_ns = self.mono_ns
        self.run(3.0)

    def made(self) -> Captures:
        return Captures(
            self.store,
            self.feed,
            lambda: self.real_ns,
            mono_ns=lambda: self.mono_ns,
            **self.options,  # type: ignore[arg-type]
        )

    def run(self, seconds: float) -> None:
        """Let everything happen for so long."""
        end = self.mono_ns + int(seconds * 1e9)
        while self.mono_ns < end:
            self.mono_ns += 50 * MS
            self.real_ns += 50 * MS
            is_step = self.mono_ns >= self.next_ns
            self.next_ns += STEP_NS // 2 if is_step else 0
            for node in self.nodes:
                node.ask()
                if is_step:
                    before = node.rank.step
                    node.rank.move()
                    node.rank.export()
                    if node.rank.step != before:
                        node.ship(node.marks(("step_begin", node.rank.step, -1, 0.0)))
                node.look()
                node.deliver()
            self.captures.step()

    def ask(self, **given: Any) -> Any:
        return self.captures.ask("llm", "r1", Request(num_steps=3, **given), by="a person", why="slow")

    def ended(self, id: int, seconds: float = 120.0) -> Any:
        """The capture once it has ended."""
        for _ in range(int(seconds)):
            self.run(1.0)
            doc = self.captures.get(id)
            if doc is not None and doc.ended_ns is not None:
                return doc
        raise AssertionError(f"it never ended: {self.captures.get(id)}")


def trace(capture: int, rank: int, text: str = "a step", **more: Any) -> bytes:
    """A small trace, gzip JSON."""
    event = {"ph": "X", "cat": "cpu_op", "name": text, "pid": 1, "tid": 1, "ts": 1000.5, "dur": 7.25}
    told = {"distributedInfo": {"rank": rank}, "stepscope": {"capture": capture}, "traceEvents": [event]}
    return gzip.compress(json.dumps(told | more).encode())
