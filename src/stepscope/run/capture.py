"""A capture in the run itself, where the marks alone cannot say why it is slow.

After some steps the marks so far are diagnosed beside the running command, in a thread of low priority. A
verdict that stays undecided, or a stall that only a trace can name, is reason to ask for the least capture
that settles it: once in a run.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from stepscope.model.error import StepscopeError
from stepscope.model.text import Lang, Text
from stepscope.run.answer import fault_of
from stepscope.run.keep import Keeper

if TYPE_CHECKING:
    from stepscope.act.capture import Outcome, Request
    from stepscope.model.report import Report

LOOKS = (20, 60, 200, 1000)
"""Ended steps after which the marks are looked at. The first steps are a warm-up and say little."""
PATIENCE_SECONDS = 10.0
"""How long the end of the command waits for a trace that is being written."""
NICE = 5

FAILED = Text(
    en="no trace was captured: {why}; take one with torch.profiler where the marks leave it open",
    zh="没有采集到 trace：{why}；若打点无法判定，请用 torch.profiler 采集一份",
)


def wanted(report: Report) -> Request | None:
    """The least capture that settles what the marks leave open, `None` where they decide."""
    from stepscope.act.capture.need import wanted as needed

    return needed(report)


class Watch:
    """Decides and captures beside the running command. `steps`: -1 where the marks cannot decide, `None`
    never, else so many steps in any case. `diagnosed` gives the report of the marks so far."""

    def __init__(self, keeper: Keeper, steps: int | None, diagnosed: Callable[[], Report]) -> None:
        self._keeper, self._steps, self._diagnosed = keeper, steps, diagnosed
        self._looks = list(LOOKS if steps is not None else ())
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self.outcome: Outcome | None = None
        self.fault: str | None = None

    def tick(self) -> None:
        """Called again and again while the command runs."""
        if not self._looks or self._keeper.num_steps < self._looks[0]:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        while self._looks and self._keeper.num_steps >= self._looks[0]:
            self._looks.pop(0)
        self._keeper.flush()
        self._thread = threading.Thread(target=self._look, name="stepscope-capture", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The command has ended: what is not done by now is given up."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_SECONDS)

    def line(self, lang: Lang) -> str | None:
        """Why a capture that was asked for gave nothing; `None` where it gave one, or none was asked for."""
        why = self.fault
        if why is None and self.outcome is not None and not self.outcome.is_done:
            why = self.outcome.why
        return None if why is None else FAILED.in_(lang).format(why=why)

    def _look(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            request = self._request()
            if request is not None and not self._is_over.is_set():
                self._looks.clear()
                self._capture(request)
        except (StepscopeError, OSError) as error:
            self.fault = " ".join(str(error).split()) or type(error).__name__
        except Exception as error:  # noqa: BLE001  a thread's wall: its fault is a line, not a traceback
            self.fault = fault_of(error)

    def _request(self) -> Request | None:
        from stepscope.act.capture import Request

        if self._steps is None or self._steps > 0:
            return Request(num_steps=(self._steps or 0) + 1)  # the first one is left out by the analysis
        return wanted(self._diagnosed())

    def _capture(self, request: Request) -> None:
        from stepscope.act.capture import capture

        rings = self._keeper.alive
        if rings:
            self.outcome = capture(rings, request, should_stop=self._is_over.is_set)
