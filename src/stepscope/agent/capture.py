"""Captures that the agent asks for, where there is no server to do it: on SIGUSR1, off by default, and within
a budget for each job.

The agreement over ranks, its budgets and its files are `act.capture`'s; here is only who asks.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from stepscope.act.capture import Budget, Outcome, Request, Spent, capture
from stepscope.act.capture.budget import HOUR_NS
from stepscope.agent.job import JobTable, LiveRank
from stepscope.model.error import InputError, RefusedError, StepscopeError
from stepscope.sources.ring import RingReader
from stepscope_sdk.ring_abi import kind_number

Job = tuple[str | None, str | None]
"""Name and run."""
_BEGIN, _END = kind_number("step_begin"), kind_number("step_end")


class Captures:
    """Asks for captures, and keeps for each job what they have cost in the last hour since the agent began.
    `tell` hears what came of each, and which one is refused."""

    def __init__(
        self,
        num_steps: int,
        budget: Budget,
        tell: Callable[[str, str], None],
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        ask: Callable[..., Outcome] = capture,
    ) -> None:
        self._num_steps, self._budget, self._tell = num_steps, budget, tell
        self._wall_ns, self._ask = wall_ns, ask
        self._spent: dict[Job, list[Spent]] = {}

    def now(self, job: Job, rings: Sequence[str], should_stop: Callable[[], bool]) -> None:
        """One agreement over the rings of one job; what came of it is told as an event."""
        at_ns = self._wall_ns()
        for each in list(self._spent):  # jobs come and go for as long as the agent runs
            self._spent[each] = [one for one in self._spent[each] if at_ns - one.at_ns < HOUR_NS]
            if not self._spent[each]:
                del self._spent[each]
        spent = self._spent.setdefault(job, [])
        try:
            outcome = self._ask(
                rings,
                Request(num_steps=self._num_steps),
                budget=self._budget,
                spent=spent,
                should_stop=should_stop,
                wall=self._wall_ns,
            )
        except RefusedError as error:
            self._tell("capture_refused", f"{_title(job)}: {error}")
            return
        except (StepscopeError, OSError) as error:
            self._tell("capture", f"no capture: {error}")
            return
        spent.append(_spent(at_ns, outcome))
        if outcome.is_done and outcome.first_step is not None:
            first, last = outcome.first_step, outcome.first_step + outcome.num_steps - 1
            self._tell("capture", f"steps {first} to {last} are recorded on {len(outcome.ranks)} ranks")
        else:
            self._tell("capture", f"no capture: {outcome.why}")


def on_signal(captures: Captures, jobs: JobTable, stack: ExitStack) -> threading.Thread:
    """Have every job on this node record steps whenever SIGUSR1 comes. In a thread of its own: an agreement
    takes as long as steps take."""
    asked, is_over = threading.Event(), threading.Event()

    def work() -> None:
        while True:
            asked.wait()
            asked.clear()
            if is_over.is_set():
                return
            for job, rings in by_job(jobs.living()).items():
                captures.now(job, rings, is_over.is_set)

    def end() -> None:
        is_over.set()
        asked.set()

    thread = threading.Thread(target=work, name="agent-capture", daemon=True)
    thread.start()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: asked.set())
    stack.callback(end)
    stack.callback(signal.signal, signal.SIGUSR1, before)
    return thread


def by_job(ranks: tuple[LiveRank, ...]) -> dict[Job, list[str]]:
    """Rings of each job and run."""
    found: dict[Job, list[str]] = {}
    for rank in ranks:
        found.setdefault((rank.identity.job, rank.identity.run), []).append(rank.ring)
    return found


def _title(job: Job) -> str:
    return f"job {job[0]}" if job[0] else "a job without a name"


def _spent(at_ns: int, outcome: Outcome) -> Spent:
    """What it cost: also one that came to nothing has held ranks up."""
    return Spent(
        at_ns,
        seconds=max((_seconds(each.ring, outcome) for each in outcome.ranks), default=0.0),
        bytes=sum(each.num_bytes or 0 for each in outcome.ranks),
        stall_ns=max((each.stall_ns or 0 for each in outcome.ranks), default=0),
    )


def _seconds(ring: str, outcome: Outcome) -> float:
    """How long the recorded steps took on one rank; 0 where none was recorded or the ring is gone."""
    if not outcome.is_done or outcome.first_step is None:
        return 0.0
    try:
        with RingReader(ring) as reader:
            rows = reader.poll().records
    except (InputError, OSError):
        return 0.0
    steps = (rows["step"] >= outcome.first_step) & (rows["step"] < outcome.first_step + outcome.num_steps)
    at_ns = rows["mono_ns"][steps & ((rows["kind"] == _BEGIN) | (rows["kind"] == _END))]
    return float(at_ns.max() - at_ns.min()) / 1e9 if len(at_ns) else 0.0
