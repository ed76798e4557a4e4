"""A thread that takes one step after another until it is stopped, and that no fault of ours ends."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Turns:
    """`step()` gives the seconds until the next one; what it raises unexpectedly goes to `failed`, which
    gives them too; `cut` ends what is under way."""

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        failed: Callable[[Exception], float],
        cut: Callable[[], None],
    ) -> None:
        self._step, self._failed, self._cut = step, failed, cut
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stepscope-{name}", daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.is_set():
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                wait_s = self._step()
            except Exception as error:  # noqa: BLE001  a thread that ends would end all sending, in silence
                wait_s = self._failed(error)

    def hasten(self) -> None:
        """Take the next step now."""
        self._wake.set()

    def stop(self, flush_s: float) -> None:
        """No more steps; the one that is under way is cut after `flush_s`."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(flush_s)
            if self._thread.is_alive():
                self._cut()
                self._thread.join(flush_s)
        self._cut()
