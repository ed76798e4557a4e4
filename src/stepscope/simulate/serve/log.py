"""The logs of a live job: files that grow, line by line, when the lines are due."""

from __future__ import annotations

import heapq
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from stepscope.simulate.clock import Clock
from stepscope.simulate.config import START_NS, Recording
from stepscope.simulate.counter.device import State
from stepscope.simulate.counter.meter import BIN_NS
from stepscope.simulate.counter.place import Place
from stepscope.simulate.counter.timeline import LOADED_NS
from stepscope.simulate.logs import kernel, nccl, train
from stepscope.simulate.record import kernel_path
from stepscope.simulate.serve.live import BEGIN_NS, Hang, Live
from stepscope.simulate.serve.switch import RATE_FACTOR, RATE_PERIOD
from stepscope.simulate.serve.window import View

LEAST_LINE_NS = 100_000_000
"""A training script with shorter steps writes a line only every so often."""
MOST_BYTES = 32 << 20
"""Of a training log: then it is begun anew, and the one before is kept beside it."""


class Logs:
    """All logs of the job, in a folder. `flush` writes what is due."""

    def __init__(
        self, live: Live, folder: Path, places: list[Place], clock: Clock, recording: Recording
    ) -> None:
        self._live, self._folder, self._places, self._clock = live, folder, places, clock
        self._style = train.style_of(live.config)
        self._figures = train.Figures.of(live.config)
        self._due: list[tuple[int, int, str, str]] = []
        self._num = 0
        self._last_end_ns, self._last_line_ns = START_NS, 0
        self._remapped = dict.fromkeys(range(live.config.ranks), 0.0)
        config = live.config
        self._later(BEGIN_NS, "train.log", self._worded(
            BEGIN_NS, f"Initializing process group: backend nccl, world size {config.ranks}"
        ))  # fmt: skip
        at = START_NS - LOADED_NS
        self._later(at, "train.log", self._worded(at, train.stated(config)))
        if config.ranks > 1:
            told: Any = SimpleNamespace(cluster=View(live))
            self._later(at, "nccl.log", "".join(nccl.lines(told, places)))
        for number in sorted({place.node for place in places}):
            line = kernel.written(clock, BEGIN_NS - 3_600_000_000_000, "info", kernel.LOADED)
            self._later(BEGIN_NS, _kernel(number), line)

    def step(self, step: int) -> train.Progress:
        """A step was played: what the script knows of it."""
        player, config = self._live.players[0], self._live.config
        plan, end = player.plans[-1], player.step_end_ns[-1]
        draw = np.random.default_rng([config.seed, 31, step])
        noise = (float(draw.standard_normal()), float(draw.random()))
        row = self._figures.progress(step, end, self._last_end_ns, plan.leaked, noise)
        if self._live.board.has_events:
            row = train.with_rate(row, RATE_FACTOR ** (step // RATE_PERIOD))
        self._last_end_ns = end
        if end - self._last_line_ns >= LEAST_LINE_NS:
            self._last_line_ns = end
            stamp = train.stamp_of(self._clock, row.at_ns)
            self._later(row.at_ns, "train.log", "\n".join(train.STYLES[self._style](row, stamp)) + "\n")
        happened = [each for each in player.happenings if each[3] == step]
        for at, text in train.phases_of(step, plan, end, happened):
            self._later(at, "train.log", self._worded(at, text))
        return row

    def devices(self, states: list[State], first_ns: int) -> None:
        """A stretch of devices' time, which begins then, was counted."""
        for state in states:
            rows, place = state.of["remapped"], self._places[state.rank]
            before = self._remapped[state.rank]
            for at in np.flatnonzero(np.diff(rows, prepend=before) > 0).tolist():
                when = first_ns + at * BIN_NS
                line = kernel.written(self._clock, when, "warn", kernel.remapped(place))
                self._later(when, _kernel(place.node), line)
            self._remapped[state.rank] = float(rows[-1])

    def died(self, hang: Hang, at_ns: int) -> None:
        """The watchdog ended the job."""
        config = self._live.config
        for at, text in train.watchdog(config, self._clock, at_ns, hang.step, hang.culprit, hang.waits_ns):
            self._later(at, "train.log", text + "\n")
        for place in self._places:
            when = at_ns + 150_000_000
            line = kernel.written(self._clock, when, "info", kernel.aborted(place))
            self._later(when, _kernel(place.node), line)

    def ended(self, at_ns: int, num_steps: int) -> None:
        """The job ends in order."""
        self._later(at_ns, "train.log", self._worded(at_ns, f"Training completed after {num_steps} steps"))

    def flush(self, now_ns: int) -> None:
        """Write every line that is due. OSError where that cannot be done."""
        ready: dict[str, list[str]] = {}
        while self._due and self._due[0][0] <= now_ns:
            _at, _num, name, text = heapq.heappop(self._due)
            ready.setdefault(name, []).append(text)
        for name, texts in ready.items():
            path = self._folder / name
            if path.exists() and path.stat().st_size > MOST_BYTES:
                path.replace(path.with_suffix(".log.1"))
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(texts))

    def _later(self, at_ns: int, name: str, text: str) -> None:
        self._num += 1
        heapq.heappush(self._due, (at_ns, self._num, name, text))

    def _worded(self, at_ns: int, text: str) -> str:
        return train.worded(self._style, self._clock, at_ns, text) + "\n"


def _kernel(number: int) -> str:
    return kernel_path(number).removeprefix("logs/")
