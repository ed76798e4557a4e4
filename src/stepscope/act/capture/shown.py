"""What the marks that agents ship show of each rank, as an agreement on a capture needs it.

Marks come for every step of every rank, captures are rare: of a batch only the newest step is looked up, and
the rest of it only where it holds an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from stepscope.act.capture.request import Seen
from stepscope.model.batch import Batch, Happened, Marks
from stepscope_sdk import ring_abi as abi

BEGIN, ANSWER, END, EXIT = map(abi.kind_number, ("step_begin", "answer", "capture_end", "exit"))
SAID = frozenset(("capture_refused", "capture_not_sent"))
"""What an agent says of an order, with the capture's id and the ring's name."""
MOST_RINGS = 100_000
MOST_CAPTURES = 16
"""Of one rank that are remembered, the newest."""
USUAL = 33
"""The usual step is the median over so many batches."""


@dataclass(slots=True)
class RankState:
    """One rank: one process, by its ring's name."""

    ring: str
    agent: str
    host: str
    job: str = ""
    run: str = ""
    rank: int | None = None
    world_size: int | None = None
    is_over: bool = False
    newest: tuple[int, int] | None = None
    """The newest step that began, and when by the node's monotonic clock."""
    periods_ns: deque[int] = field(default_factory=lambda: deque(maxlen=USUAL))
    answers: dict[int, str] = field(default_factory=dict)
    stall_ns: dict[int, int] = field(default_factory=dict)
    num_bytes: dict[int, int] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)
    """What its agent says against a capture: why it is refused, or its trace not sent."""

    def seen(self, gone: str | None = None) -> Seen:
        """As an agreement takes it. `gone`: why it counts as ended though nobody saw it end."""
        return Seen(
            is_alive=not self.is_over and gone is None,
            newest_step=self.newest[0] if self.newest else None,
            step_ns=self.step_ns,
            answers=dict(self.answers),
            stall_ns=dict(self.stall_ns),
            num_bytes=dict(self.num_bytes),
            gone=gone if gone is not None and not self.is_over else "ended",
        )

    @property
    def step_ns(self) -> int | None:
        """The usual time of a step, `None` before there are two."""
        return int(median(self.periods_ns)) or None if self.periods_ns else None


class RankTable:
    """All ranks that agents ship marks of. Not for several threads."""

    def __init__(self) -> None:
        self._ranks: dict[str, RankState] = {}

    def take(self, batches: Sequence[Batch]) -> None:
        """What is new."""
        for batch in batches:
            if isinstance(batch, Marks):
                self._marks(batch)
            elif isinstance(batch, Happened) and batch.what in SAID and batch.code is not None:
                rank = self._ranks.get(batch.labels.get("ring", ""))
                if rank is None or rank.agent != batch.agent:
                    continue
                if batch.what == "capture_refused":
                    _put(rank.answers, batch.code, "refused")
                _put(rank.said, batch.code, batch.text)

    def of(self, job: str, run: str) -> list[RankState]:
        """The ranks of a run that have not ended, by rank."""
        found = [each for each in self._ranks.values() if each.run == run and each.job == job]
        return sorted(
            (each for each in found if not each.is_over), key=lambda each: (each.rank or 0, each.ring)
        )

    def get(self, ring: str) -> RankState | None:
        """One of them."""
        return self._ranks.get(ring)

    def _marks(self, batch: Marks) -> None:
        rank = self._ranks.get(batch.ring)
        if rank is None or rank.agent != batch.agent:
            rank = RankState(batch.ring, batch.agent, batch.host)
        # To the end: those that were heard of last stay.
        self._ranks.pop(batch.ring, None)
        self._ranks[batch.ring] = rank
        while len(self._ranks) > MOST_RINGS:
            del self._ranks[next(iter(self._ranks))]
        identity, kinds = batch.identity, batch.record_kind
        rank.job, rank.run = str(identity.get("job") or ""), str(identity.get("run") or "")
        rank.rank, rank.world_size = _number(identity.get("rank")), _number(identity.get("world_size"))
        if BEGIN in kinds:
            at = len(kinds) - 1 - kinds[::-1].index(BEGIN)
            _begun(rank, batch.step[at], batch.mono_ns[at])
        for at in (n for n, kind in enumerate(kinds) if kind in (ANSWER, END)):
            capture, value = batch.a[at], batch.b[at]
            if kinds[at] == END:
                _put(rank.stall_ns, capture, int(value) if value >= 0 else 0)
                if batch.c[at] >= 0:  # not so where it is NaN: not written yet
                    _put(rank.num_bytes, capture, int(batch.c[at]))
            elif 0 <= value < len(abi.ANSWERS):
                _put(rank.answers, capture, abi.ANSWERS[int(value)])
        rank.is_over = batch.is_alive is False or EXIT in kinds or (rank.is_over and batch.is_alive is None)


def _begun(rank: RankState, step: int, mono_ns: int) -> None:
    before = rank.newest
    if before is not None and step <= before[0]:
        return
    if before is not None and mono_ns > before[1]:
        rank.periods_ns.append((mono_ns - before[1]) // (step - before[0]))
    rank.newest = (step, mono_ns)


def _put(found: dict[int, str] | dict[int, int], capture: int, value: str | int) -> None:
    found[capture] = value  # type: ignore[assignment]
    if len(found) > MOST_CAPTURES:
        del found[min(found)]


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
