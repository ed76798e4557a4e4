"""How often an exporter looks at its devices, seen from values that stay the same."""

from __future__ import annotations

import numpy as np

from stepscope.agent.source import Reading
from stepscope.model.sample import Owner


class Repeats:
    """How often an exporter looks at its devices, from how long its noisiest values stay the same.

    `collect_ns` is `None` until it is known, and where every page brings new values: then it looks at least
    as often as it is asked.
    """

    SIGNAL = "power_watts"
    LEAST = 3

    def __init__(self) -> None:
        self.collect_ns: int | None = None
        self._before: dict[Owner, float] = {}
        self._before_ns: int | None = None
        self._changed_ns: int | None = None
        self._widths: list[int] = []
        self._pages: list[int] = []

    def look(self, reading: Reading, at_ns: int) -> None:
        now = {each.owner: each.value for each in reading.samples if each.signal == self.SIGNAL}
        if not now:
            return
        is_changed = any(value != self._before.get(owner, value) for owner, value in now.items())
        if self._before_ns is not None:
            self._pages = [*self._pages, at_ns - self._before_ns][-32:]
        if is_changed:
            if self._changed_ns is not None:
                self._widths = [*self._widths, at_ns - self._changed_ns][-32:]
            self._changed_ns = at_ns
            self._settle()
        self._before, self._before_ns = now, at_ns

    def _settle(self) -> None:
        if len(self._widths) < self.LEAST:
            return
        width, page = float(np.median(self._widths)), float(np.median(self._pages))
        num_pages = round(width / page)
        # The mean, since pages and collections are not in step: 30 s seen by pages of 7 s are 28 and 35.
        mean = float(np.mean(self._widths))
        if num_pages < 2:
            self.collect_ns = None
        elif self.collect_ns is None or abs(mean - self.collect_ns) > 0.2 * self.collect_ns:
            self.collect_ns = round(mean / 1e9 * 2) * 500_000_000 or round(mean)
