"""The server's clock: the machine's, or one that follows simulated jobs whose time runs faster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples


class FollowingClock:
    """Shows the newest time that any agent has told, and goes on from there `scale` times as fast as the
    machine's clock. Never backwards."""

    def __init__(self, scale: float, mono_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._scale, self._mono = scale, mono_ns
        self._lock = threading.Lock()
        self._newest_ns: int | None = None
        self._since_ns = mono_ns()

    def heard(self, batches: Sequence[Batch]) -> None:
        """Batches that came just now."""
        newest = max((_newest(each) for each in batches), default=0)
        if newest > self():
            with self._lock:
                self._newest_ns, self._since_ns = newest, self._mono()

    def __call__(self) -> int:
        """Nanoseconds since the Unix epoch; 0 before any agent told a time."""
        with self._lock:
            if self._newest_ns is None:
                return 0
            return self._newest_ns + int((self._mono() - self._since_ns) * self._scale)


def _newest(batch: Batch) -> int:
    if isinstance(batch, Samples):
        return max((each.at_ns[-1] for each in batch.series if each.at_ns), default=0)
    if isinstance(batch, Marks):
        return max(batch.real_ns, default=0)
    if isinstance(batch, Lines):
        return max(batch.at_ns, default=0)
    return batch.at_ns if isinstance(batch, Happened) else 0
