"""What the HTTP side of the server is made of. What a part cannot do yet is `None`: its path answers 501."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stepscope.model.incident import Change, Incident
from stepscope.model.order import Orders
from stepscope.server.audit import Audit
from stepscope.server.auth import Auth
from stepscope.server.feed import Feed
from stepscope.server.limit import Limits
from stepscope.server.tally import Tally
from stepscope.store.contract import Store


class AskCapture(Protocol):
    """Asks for a capture now: the capture's document as it is answered (`id`, `state`, …). RefusedError where
    a budget or a cool-down says no, UsageError where there is no such run or rank."""

    def __call__(
        self, job: str, run: str | None, ranks: Sequence[int], num_steps: int, by: str
    ) -> dict[str, Any]: ...


class TakeTrace(Protocol):
    """Takes a trace that an agent uploads: `chunks` are the whole body in order, and gone when this returns.
    RefusedError where nobody asked for it, InputError where it is no trace."""

    def __call__(self, capture: int, ring: str, agent: str | None, chunks: Iterable[bytes]) -> None: ...


class IncidentActions(Protocol):
    """What people do to incidents: the incident afterwards. KeyError where there is none of that id,
    UsageError where its state does not allow it."""

    def acknowledge(self, id: str, by: str, note: str | None) -> Incident: ...

    def change(self, id: str, change: Change) -> Incident: ...

    def close(self, id: str, by: str, why: str | None) -> Incident: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All that `make_app` needs. `clock_ns` is wall time, `folder` where uploads lie for a moment (`None`:
    the system's own place)."""

    store: Store
    feed: Feed
    auth: Auth
    clock_ns: Callable[[], int]
    audit: Audit
    tally: Tally = field(default_factory=Tally)
    limits: Limits = field(default_factory=Limits)
    folder: Path | None = None
    is_ready: Callable[[], str | None] = lambda: None
    """Why the server cannot work now; `None` where it can."""
    ask_capture: AskCapture | None = None
    orders: Callable[[str, int, float], Orders] | None = None
    """(agent, after, wait_s): what is newer, waiting for it so long. Called in a thread."""
    orders_async: Callable[[str, int, float], Awaitable[Orders]] | None = None
    """The same on the loop, without a thread for each agent that waits: preferred where it is given."""
    take_trace: TakeTrace | None = None
    incidents: IncidentActions | None = None
    thresholds_changed: Callable[[], None] | None = None
    """Called after a site's thresholds were set."""
