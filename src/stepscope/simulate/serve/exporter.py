"""The counters of one node of a live job: what its exporters answer when they are scraped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from stepscope.simulate.config import Recording
from stepscope.simulate.counter import dcgm, node
from stepscope.simulate.counter.device import State, state_of
from stepscope.simulate.counter.host import QUANTITIES, HostState, host_of
from stepscope.simulate.counter.meter import BIN_NS, F64
from stepscope.simulate.counter.place import Place, ranks_of
from stepscope.simulate.counter.scrape import INSIDE_NS, Collected
from stepscope.simulate.serve.live import BEGIN_NS, Live
from stepscope.simulate.serve.window import Window

SECOND_NS = 1_000_000_000
LONGEST_NS = 2 * SECOND_NS
"""A window is no longer, however seldom the exporter collects."""
RESTART_NS = 3 * SECOND_NS
"""An exporter that restarts answers nothing for so long."""


class Node:
    """One node. Times are true; `advance` may be called as often as one likes, with ascending times."""

    def __init__(self, live: Live, number: int, places: list[Place], recording: Recording) -> None:
        self._live, self._recording = live, recording
        self._ranks = ranks_of(live.config, number)
        self.places = [places[rank] for rank in self._ranks]
        self._order = sorted(range(len(self.places)), key=lambda at: self.places[at].index)
        self._fields = dcgm.fields_of(live.config.device, recording)
        self.number = number
        self.edge_ns = BEGIN_NS  # of a bin
        """Up to there everything is counted."""
        self.states: list[State] = []
        self._series: list[dict[str, F64]] = [{} for _ in self.places]
        self._first_ns = BEGIN_NS
        """Of the first bin in `_series`."""
        self._window_ns = recording.collect_ms * 1_000_000
        phase = int(self._window_ns * np.random.default_rng([live.config.seed, 23, number]).random())
        self._due_ns = BEGIN_NS + phase
        self._previous_ns: int | None = None
        """Of the collection before."""
        self._bodies: deque[tuple[int, str]] = deque(maxlen=2)
        self._restarted_ns: int | None = None
        self.gone: set[int] = set()
        """Ranks whose devices fell off the bus."""
        self.host: HostState | None = None
        self.counted: Callable[[Node, int], None] | None = None
        """Called when a stretch of its time is known, with when that began."""
        self._summed = dict.fromkeys((*QUANTITIES, "disk_busy"), 0.0)
        self._part: dict[str, float] = {}
        self._loads = [1.0] * len(node.LOADS_S)

    @property
    def next_ns(self) -> int:
        """When it next has something to do."""
        return min(self._whole_ns, self.edge_ns + LONGEST_NS)

    @property
    def _whole_ns(self) -> int:
        """When the bin is over in which the exporter reads its devices next."""
        return -(-self._due_ns // BIN_NS) * BIN_NS

    def advance(self, true_ns: int) -> None:
        """Count and collect up to then. The job must have been played so far."""
        while self.next_ns <= true_ns:
            edge = self.next_ns
            self._count(edge)
            if edge == self._whole_ns:
                self._collect(self._due_ns)

    def restart(self, true_ns: int) -> None:
        """Its exporter is started again."""
        self._restarted_ns = true_ns
        self._previous_ns = None
        self._bodies.clear()
        self._due_ns = true_ns + RESTART_NS

    def devices(self, true_ns: int) -> str:
        """What the device exporter prints, "" where it has nothing yet."""
        self.advance(true_ns)
        known = [text for at, text in self._bodies if at <= true_ns - INSIDE_NS]
        return known[-1] if known else ""

    def metrics(self, true_ns: int, real_ns: int) -> str:
        """What the host's exporter prints; `real_ns` is what the host's clock shows."""
        self.advance(true_ns)
        self._count(true_ns // BIN_NS * BIN_NS)
        if self.host is None:
            return ""
        since = (true_ns - BEGIN_NS) / 1e9
        draw = np.random.default_rng([self._live.config.seed, 26, self.number])
        uptime = float(draw.integers(200_000, 6_000_000))
        loads = [np.array([value]) for value in self._loads]
        last = {name: values[-1:] for name, values in self.host.of.items()}
        host = HostState(
            self.number, self.host.num_cores, self.host.memory_bytes, self.host.num_ranks,
            self.host.num_workers, last,
        )  # fmt: skip
        name = self.places[0].host
        rows = node.rows_of(host, self._summed, uptime, uptime + since, 0, loads, name, real_ns / 1e9)
        return node.body(None, rows)

    def _count(self, edge_ns: int) -> None:
        """Make the window that ends there."""
        if edge_ns <= self.edge_ns:
            return
        window = Window.of(self._live, self.edge_ns, edge_ns, self._ranks)
        before: list[State | None] = [*self.states] or [None] * len(self.places)
        self.states = [state_of(window, rank, state) for rank, state in zip(self._ranks, before, strict=True)]
        self.host = host_of(window, self.number, self._recording)
        for name, values in self.host.of.items():
            self._summed[name] += float(values.sum()) * BIN_NS / 1e9
        for at, seconds in enumerate(node.LOADS_S):
            keep = float(np.exp(-BIN_NS / 1e9 / seconds))
            for value in self.host.of["running"].tolist():
                self._loads[at] = self._loads[at] * keep + value * (1 - keep)
        self._remember(window)
        if self.counted is not None:
            self.counted(self, self.edge_ns)
        self.edge_ns = edge_ns

    def _remember(self, window: Window) -> None:
        """Keep of each device what the next collection averages over."""
        keep = max(self._window_ns, SECOND_NS) // BIN_NS + 3
        for at, state in enumerate(self.states):
            new = dcgm.series_of(state)
            old = self._series[at]
            self._series[at] = {
                name: np.concatenate((old[name], values))[-keep:] if old else values[-keep:]
                for name, values in new.items()
            }
        num = len(self._series[0]["busy"])
        self._first_ns = window.first_ns + window.num * BIN_NS - num * BIN_NS

    def _collect(self, at_ns: int) -> None:
        """The exporter reads its devices."""
        num = len(self._series[0].get("busy", ()))
        if num:
            ends = [at_ns] if self._previous_ns is None else [self._previous_ns, at_ns]
            kept = Window.kept(self._live, self._first_ns, num)
            at = Collected(np.array(ends, dtype=np.int64), self._window_ns)
            self._bodies.append((at_ns, self._body(kept, at)))
            self._previous_ns = at_ns
        self._due_ns = at_ns + self._window_ns

    def _body(self, kept: Window, at: Collected) -> str:
        lines: list[str] = []
        model = self._live.config.device.name
        here = [number for number in self._order if self.places[number].rank not in self.gone]
        labels = {number: dcgm.labels_of(self.places[number], model, self._recording) for number in here}
        for field in self._fields:
            name = dcgm.name_of(field, self._recording)
            found = []
            for number in here:
                value = dcgm.printed(dcgm.collected(kept, self._series[number], field, at)[-1:], field)[0]
                if value:
                    found.append(f"{name}{{{labels[number]}}} {value}")
            if found:
                lines += [f"# HELP {name} {field.help}", f"# TYPE {name} {field.kind}", *found]
        return "\n".join(lines) + "\n" if lines else ""
