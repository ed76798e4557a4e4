"""What one rank contributes to a replay: events, what each waits for, and how long, under every scenario.

A program is small: a run of activities of one stream between two points that matter to anybody else is one
event (`build.contracted`). Definitions and assumptions: docs/reference/replay.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.report import COMPUTE_KINDS, IDLE_CAUSES, RowStatus
from stepscope.model.trace import I32, I64

PARTS = (*(f"compute.{kind}" for kind in COMPUTE_KINDS), "communication", "copy", *IDLE_CAUSES)
"""What an edge can consist of."""
COMMUNICATION, COPY = PARTS.index("communication"), PARTS.index("copy")
FIRST_CAUSE = PARTS.index(IDLE_CAUSES[0])
"""Place of the first idle cause: the others follow in the report's order."""
QUEUED, LAUNCH, UNKNOWN = (PARTS.index(cause) for cause in ("queued", "launch", "unknown"))
HOST_SYNC, COPY_WAIT = PARTS.index("host_sync"), PARTS.index("copy_wait")

BASE, INPUT, NO_LAUNCH, OVERLAP = "base", "input", "launch", "communication"
STRAGGLER, IMBALANCE = "straggler", "imbalance"
NEVER = -(2**60)
"""Weight of an edge that does not hold in a scenario: beyond any time, and far from overflow."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What edges consist of beside their rest: rows (edge, place in `PARTS`, nanoseconds)."""

    edge: I32
    part: I32
    ns: I64


@dataclass(frozen=True, slots=True)
class Changes:
    """Weights that differ from the untouched ones: rows (scenario, edge, nanoseconds)."""

    scenario: npt.NDArray[np.int8]
    edge: I32
    ns: I64


@dataclass(frozen=True, slots=True)
class Program:
    """One device of one rank over consecutive steps, on the rank's own clock.

    `step` (n,) numbers; `host_ns`, `device_ns` (n + 1,) when each step began and the last one ended, by the
    host and by the end of all work issued before; `host_node`, `device_node` the events of these instants.
    `scenarios[0]` is the untouched one, with the weights `untouched` (edges,); `changes` are those that other
    scenarios have instead. An edge of `NEVER` does not hold.

    Of each edge: `rest` is the place in `PARTS` of what `parts` does not name; `segment` the position of the
    next collective to be issued; `host_part_ns` its host work and `host_edge` the host edge which that is
    part of (-1 for none); `device_part_ns` its computing and copying.

    Collectives are in the order in which they were issued: `collective_row` their rows among the device's
    communication activities by start, `ready` and `done` the events, `own_edge` the edge between.
    """

    rank: int | None
    window: str
    step: I64
    host_ns: I64
    device_ns: I64
    host_node: I64
    device_node: I64
    scenarios: tuple[str, ...]
    begin: I64
    source: I32
    target: I32
    untouched: I64
    changes: Changes
    rest: I32
    parts: Composition
    segment: I32
    host_part_ns: I64
    host_edge: I32
    device_part_ns: I64
    collective_row: I64
    collective_start_ns: I64
    collective_stream: I64
    ready: I32
    done: I32
    own_edge: I32
    unexplained_share: float = 0.0
    """Of the time of the steps, what the device waited for nobody knows what: it stays in every scenario."""
    status: RowStatus = "ok"
    """As the accounting's: `withheld` where nobody knows what the device waited for."""

    @property
    def num_nodes(self) -> int:
        """Events."""
        return len(self.begin)

    def weight(self) -> I64:
        """(scenarios, edges) nanoseconds."""
        full = np.tile(self.untouched, (len(self.scenarios), 1))
        full[self.changes.scenario, self.changes.edge] = self.changes.ns
        return full

    @property
    def recorded_ns(self) -> I64:
        """Length of each step in the windows that the accounting uses."""
        return np.diff(self.host_ns if self.window == "host" else self.device_ns)
