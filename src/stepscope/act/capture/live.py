"""A capture of a running job: rings are read, control files written, until the agreement has ended."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from stepscope.act.capture import budget as budgets
from stepscope.act.capture.agreement import Agreement
from stepscope.act.capture.control import ControlWriter
from stepscope.act.capture.request import Limits, Outcome, RankOutcome, Request, Seen
from stepscope.model.error import InputError
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi

POLL_S = 0.05
LITTLE, USUAL = Request(), Limits()
_KIND = {each.name: each.number for each in abi.KINDS}
_USUAL = 33
"""The usual step is the median of so many starts."""


class Rank:
    """One rank as its ring has shown it so far, and the way to order it about."""

    def __init__(self, ring: str) -> None:
        self.ring = ring
        self.reader = RingReader(ring)
        self.control = ControlWriter(ring)
        identity = self.reader.identity()
        self.rank = identity.rank
        self._starts: deque[tuple[int, int]] = deque(maxlen=_USUAL)
        self._answers: dict[int, str] = {}
        self._stall_ns: dict[int, int] = {}
        self._num_bytes: dict[int, int] = {}
        self.trace_dir = self.control.trace_dir
        self._is_over = False

    def look(self, mono_ns: int) -> Seen:
        """Read what is new."""
        self.control.look(mono_ns)
        try:
            is_alive = self.reader.is_alive()
        except OSError:
            is_alive = False  # its file is gone
        records = self.reader.poll().records  # behind the look for life: what a dead one said last counts
        begun = records[records["kind"] == _KIND["step_begin"]]
        self._starts.extend(zip(begun["step"].tolist(), begun["mono_ns"].tolist(), strict=True))
        self._is_over |= bool((records["kind"] == _KIND["exit"]).any())
        for row in records[np.isin(records["kind"], (_KIND["answer"], _KIND["capture_end"]))]:
            capture = int(row["a"])
            if row["kind"] == _KIND["capture_end"]:
                self._stall_ns[capture] = int(row["b"])
                if not np.isnan(row["c"]):
                    self._num_bytes[capture] = int(row["c"])
            elif 0 <= row["b"] < len(abi.ANSWERS):
                self._answers[capture] = abi.ANSWERS[int(row["b"])]
        periods = np.diff([at for _, at in self._starts])
        return Seen(
            is_alive=is_alive and not self._is_over,
            newest_step=self._starts[-1][0] if self._starts else None,
            step_ns=int(np.median(periods)) or None if len(periods) else None,
            answers=dict(self._answers),
            stall_ns=dict(self._stall_ns),
            num_bytes=dict(self._num_bytes),
        )

    def trace(self, capture: int) -> str | None:
        """The file of this capture, `None` where it cannot be seen from here."""
        beside = os.path.join(os.path.dirname(os.path.abspath(self.ring)), abi.TRACES)
        places = (
            os.path.join(at, abi.trace_place(self.ring, capture)) for at in (self.trace_dir, beside) if at
        )
        return next((each for each in places if os.path.exists(each)), None)

    def close(self) -> None:
        """Let go of the files."""
        self.control.close()
        self.reader.close()


def capture(
    rings: Sequence[str],
    request: Request = LITTLE,
    *,
    budget: budgets.Budget | None = None,
    spent: Sequence[budgets.Spent] = (),
    limits: Limits = USUAL,
    delay_ns: int | None = None,
    now: Callable[[], int] = time.monotonic_ns,
    wall: Callable[[], int] = time.time_ns,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Agree on steps over the rings of one job, have them recorded, and give the traces.

    `spent` (by `wall`) is what `budget` is held against: RefusedError where it is used up. `should_stop` ends
    it early: what was asked is cancelled. InputError where a ring or its control file is none, or no ring is
    of the ranks that the request names.
    """
    if budget is not None:
        budgets.require(budget, spent, wall())
    ranks: dict[str, Rank] = {}
    try:
        for ring in rings:
            rank = Rank(ring)
            if request.ranks is None or rank.rank in request.ranks:
                ranks[ring] = rank
            else:
                rank.close()
        if not ranks:
            raise InputError(
                ", ".join(rings) or "rings", "no rank to capture", "give the rings of a running job"
            )
        return _agree(ranks, request, limits, delay_ns, now, wall, sleep, poll_s, should_stop)
    finally:
        for rank in ranks.values():
            rank.close()


def _agree(
    ranks: dict[str, Rank],
    request: Request,
    limits: Limits,
    delay_ns: int | None,
    now: Callable[[], int],
    wall: Callable[[], int],
    sleep: Callable[[float], None],
    poll_s: float,
    should_stop: Callable[[], bool],
) -> Outcome:
    # Ids ascend over writers that know nothing of each other: by the clock, in milliseconds.
    first = max(wall() // 1_000_000, *(rank.control.capture + 1 for rank in ranks.values()))
    delay = int(2e9 * poll_s) if delay_ns is None else delay_ns
    agreement = Agreement(tuple(ranks), request, capture=first, delay_ns=delay, limits=limits)
    while agreement.outcome is None:
        seen = {ring: rank.look(now()) for ring, rank in ranks.items()}
        for order in agreement.stop(now(), seen) if should_stop() else agreement.advance(now(), seen):
            ranks[order.ring].control.write(
                order.command, order.capture, order.first_step, request.num_steps, request.mode, request.flags
            )
        if agreement.outcome is None:
            sleep(poll_s)
    return _with_traces(agreement.outcome, ranks)


def _with_traces(outcome: Outcome, ranks: dict[str, Rank]) -> Outcome:
    rows: list[RankOutcome] = []
    for row in outcome.ranks:
        rank = ranks[row.ring]
        path = rank.trace(outcome.capture)
        if path is not None and not outcome.is_done and row.answer == "done":
            with suppress(OSError):  # its process ended before it could see that the others failed
                os.unlink(path)
            path = None
        rows.append(replace(row, rank=rank.rank, path=path))
    return replace(outcome, ranks=tuple(rows))
