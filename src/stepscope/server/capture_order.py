"""Orders that wait for their agents: a bounded queue each, and whoever waits at it.

Numbers of orders ascend over restarts: they begin at the clock's milliseconds, or above what was in use
before where the clock was set back.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from stepscope.model.order import Order, Orders
from stepscope.store.contract import Store

MOST_ORDERS = 1024
"""Of one agent: the oldest go first."""
MOST_AGE_NS = 120_000_000_000
"""An order that was not fetched for so long is not given out any more."""
MOST_AGENTS = 20_000
MOST_WAIT_S = 30.0
BEAT_S = 2.0
"""While an agent takes part in a capture it is to come back so often, so that its silence is noticed."""
_KIND, _ID, _BLOCK = "order", "next", 1000


@dataclass(slots=True)
class _Queue:
    orders: deque[tuple[int, Order]] = field(default_factory=deque)
    heard_ns: int | None = None
    wakes: list[Callable[[], None]] = field(default_factory=list)
    num_captures: int = 0


class OrderQueues:
    """Of all agents. Safe over threads. `mono_ns` is a monotonic clock, `now_ns` the wall's."""

    def __init__(self, store: Store, now_ns: Callable[[], int], mono_ns: Callable[[], int]) -> None:
        self._store, self._now_ns, self._mono_ns = store, now_ns, mono_ns
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        kept = store.get(_KIND, _ID)
        self._next = max(now_ns() // 1_000_000, int(kept) if kept is not None else 0)
        self._reserve()
        self._is_closed = False

    @property
    def newest(self) -> int:
        """The number of the last order."""
        return self._next

    def put(self, agent: str, make: Callable[[int], Order]) -> None:
        """One more order for an agent; `make` gets its number."""
        with self._lock:
            self._next += 1
            if self._next > self._reserved:
                self._reserve()
            queue = self._queue(agent)
            queue.orders.append((self._mono_ns(), make(self._next)))
            while len(queue.orders) > MOST_ORDERS:
                queue.orders.popleft()
            wakes = list(queue.wakes)
        for wake in wakes:
            wake()

    def joined(self, agent: str, num: int) -> None:
        """The agent takes part in one capture more (1) or less (-1)."""
        with self._lock:
            self._queue(agent).num_captures += num

    def heard_ns(self, agent: str) -> int | None:
        """When the agent last asked, by the monotonic clock; `None` where it never did."""
        with self._lock:
            queue = self._queues.get(agent)
            return queue.heard_ns if queue is not None else None

    def take(self, agent: str, after: int, wait_s: float) -> Orders:
        """What is newer than `after`; waits for it for so long."""
        event, after = threading.Event(), self._known(after)
        found, end = self._asked(agent, after, event.set)
        try:
            if not found.orders and after >= 0:
                event.wait(self._wait_s(agent, wait_s))
            return self._newer(agent, after)
        finally:
            end()

    async def take_async(self, agent: str, after: int, wait_s: float) -> Orders:
        """The same, without a thread for each agent that waits."""
        event, loop, after = asyncio.Event(), asyncio.get_running_loop(), self._known(after)
        found, end = self._asked(agent, after, lambda: _wake(loop, event))
        try:
            if not found.orders and after >= 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(event.wait(), self._wait_s(agent, wait_s))
            return self._newer(agent, after)
        finally:
            end()

    def close(self) -> None:
        """Let go of all that wait."""
        with self._lock:
            self._is_closed = True
            wakes = [wake for queue in self._queues.values() for wake in queue.wakes]
        for wake in wakes:
            wake()

    def _known(self, after: int) -> int:
        """A number that was never given out is of another server's store: the agent begins anew."""
        return after if after <= self._next else -1

    def _asked(self, agent: str, after: int, wake: Callable[[], None]) -> tuple[Orders, Callable[[], None]]:
        """What there is, and what ends the waiting that begins here."""
        with self._lock:
            queue = self._queue(agent)
            queue.heard_ns = self._mono_ns()
            queue.wakes.append(wake)
            if after >= 0:
                while queue.orders and queue.orders[0][1].seq <= after:
                    queue.orders.popleft()

        def end() -> None:
            with self._lock:
                queue.wakes.remove(wake)

        return self._newer(agent, after), end

    def _newer(self, agent: str, after: int) -> Orders:
        with self._lock:
            if after < 0:
                return Orders([], self._next)
            since = self._mono_ns() - MOST_AGE_NS
            orders = self._queue(agent).orders
            found = [order for put_ns, order in orders if order.seq > after and put_ns >= since]
            return Orders(found, found[-1].seq if found else self._next)

    def _wait_s(self, agent: str, asked_s: float) -> float:
        with self._lock:
            if self._is_closed:
                return 0.0
            most = BEAT_S if self._queue(agent).num_captures > 0 else MOST_WAIT_S
        return min(max(asked_s, 0.0), most)

    def _reserve(self) -> None:
        """What is given out from here on is below what a later server begins with."""
        self._reserved = self._next + _BLOCK
        self._store.put(_KIND, _ID, str(self._reserved).encode(), at_ns=self._now_ns())

    def _queue(self, agent: str) -> _Queue:
        queue = self._queues.get(agent)
        if queue is None:
            queue = self._queues[agent] = _Queue()
            if len(self._queues) > MOST_AGENTS:
                idle = (name for name, each in self._queues.items() if not each.wakes and each is not queue)
                self._queues.pop(next(idle, ""), None)
        return queue


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(event.set)
