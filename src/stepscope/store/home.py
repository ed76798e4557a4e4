"""Whose hosts and rings are whose: what an agent says of another agent's host counts for nothing.

An agent is of the host that it named first. A ring goes on under another agent of its host (a new spool after
the old one was lost) once the one before is silent; while both are heard, the one before counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepscope.model.batch import Batch, Marks
from stepscope.store.error import AnotherAgentError
from stepscope.store.retention import SECOND_NS
from stepscope.store.ring import Ring

SILENT_NS = 30 * SECOND_NS
"""After which an agent that is not heard has lost its rings to the next one of its host."""

MOST_WAITING = 10_000


class Homes:
    """Remembers hosts of agents, and when each was heard. Under the lock of whoever writes."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._host: dict[str, str] = {}
        self._agents: dict[str, set[str]] = {}
        self._heard_ns: dict[str, int] = {}
        self._since_ns: dict[tuple[str, str, str], int] = {}

    def load(self, rings: Iterable[Ring]) -> None:
        """What the file says of agents."""
        for ring in sorted(rings, key=lambda each: each.id):
            self._settle(ring.agent, ring.host)

    def hear(self, agent: str, host: str) -> None:
        """It sent something, of this host first."""
        self._settle(agent, host)
        self._heard_ns[agent] = self._now_ns()

    def _settle(self, agent: str, host: str) -> None:
        if agent not in self._host:
            self._host[agent] = host
            self._agents.setdefault(host, set()).add(agent)

    def forget(self, agents: Iterable[str]) -> None:
        for agent in agents:
            host = self._host.pop(agent, None)
            self._agents.get(host or "", set()).discard(agent)
            self._heard_ns.pop(agent, None)

    def admits(self, batch: Batch, ring: Ring | None) -> bool:
        """Whether the batch is its agent's to send; `ring` is the one it is of, where that is known. Raises
        AnotherAgentError where it is not known yet."""
        if self._host.get(batch.agent) != batch.host and self._agents.get(batch.host):
            return False
        if not isinstance(batch, Marks) or ring is None or ring.agent == batch.agent:
            return True
        now, key = self._now_ns(), (batch.host, batch.ring, batch.agent)
        if len(self._since_ns) > MOST_WAITING:
            self._since_ns.clear()
        since = min(self._since_ns.setdefault(key, now), now)
        if self._heard_ns.get(ring.agent, since) > since:
            del self._since_ns[key]
            return False
        if now - since < SILENT_NS:
            raise AnotherAgentError(batch.host)
        return True
