"""Captures that the agent itself proposes, where there is no server to do it: on SIGUSR1, off by default.

The agreement over ranks, its budgets and its files are `act.capture`'s; here is only who asks.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack

from stepscope.agent.job import JobTable, LiveRank
from stepscope.model.error import StepscopeError


def on_signal(
    num_steps: int, jobs: JobTable, tell: Callable[[str, str], None], stack: ExitStack
) -> threading.Thread:
    """Have every job on this node record `num_steps` steps whenever SIGUSR1 comes. In a thread of its own:
    an agreement takes as long as steps take."""
    asked, is_over = threading.Event(), threading.Event()

    def work() -> None:
        while True:
            asked.wait()
            asked.clear()
            if is_over.is_set():
                return
            for rings in by_job(jobs.living()).values():
                capture_now(rings, num_steps, tell, is_over.is_set)

    def end() -> None:
        is_over.set()
        asked.set()

    thread = threading.Thread(target=work, name="agent-capture", daemon=True)
    thread.start()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: asked.set())
    stack.callback(end)
    stack.callback(signal.signal, signal.SIGUSR1, before)
    return thread


def by_job(ranks: tuple[LiveRank, ...]) -> dict[tuple[str | None, str | None], list[str]]:
    """Rings of each job and run."""
    found: dict[tuple[str | None, str | None], list[str]] = {}
    for rank in ranks:
        found.setdefault((rank.identity.job, rank.identity.run), []).append(rank.ring)
    return found


def capture_now(
    rings: list[str], num_steps: int, tell: Callable[[str, str], None], should_stop: Callable[[], bool]
) -> None:
    """One agreement over the rings of one job; what came of it is told as an event."""
    from stepscope.act.capture import Request, capture

    try:
        outcome = capture(rings, Request(num_steps=num_steps), should_stop=should_stop)
    except (StepscopeError, OSError) as error:
        tell("capture", f"no capture: {error}")
        return
    if outcome.is_done and outcome.first_step is not None:
        last = outcome.first_step + outcome.num_steps - 1
        tell("capture", f"steps {outcome.first_step} to {last} are recorded on {len(outcome.ranks)} ranks")
    else:
        tell("capture", f"no capture: {outcome.why}")
