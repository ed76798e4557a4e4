"""Brings to the disk what was appended, in a thread of its own: a slow disk delays no sample."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Syncer:
    """Calls `sync` within `every_s` of each `wake`, until `stop`."""

    def __init__(self, sync: Callable[[], None], every_s: float) -> None:
        self._sync, self._every_s = sync, every_s
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="stepscope-spool", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            self._stop.wait(self._every_s)
            self._sync()
