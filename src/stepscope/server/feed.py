"""What happens, told to whoever listens within the server: the stream of events of the API, channels, and
the parts of the loop among themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

Topic = Literal["batches", "alarm", "incident", "card", "capture", "run", "silence"]
"""`batches`: a tuple of fresh `model.batch.Batch`; `alarm`: a `model.alarm.Alarm` that is new or ended;
`incident`: a `model.incident.Incident` after each of its changes; `card`: (Incident, Report) when its report
is there, (Incident, None) where there will be none; `capture`: a `server` capture document; `run`: (job, run)
that began or ended."""
Listener = Callable[[Any], None]


class Feed:
    """Tells each listener of a topic, in the thread of who tells. A listener must be quick (put it into a
    queue) and must not raise."""

    def __init__(self) -> None:
        self._listeners: dict[Topic, list[Listener]] = {}
        self._lock = threading.Lock()

    def listen(self, topic: Topic, listener: Listener) -> Callable[[], None]:
        """Hear of a topic from now on; what is returned ends it."""
        with self._lock:
            self._listeners.setdefault(topic, []).append(listener)

        def end() -> None:
            with self._lock:
                self._listeners[topic].remove(listener)

        return end

    def tell(self, topic: Topic, what: Any) -> None:
        """Tell all that listen."""
        with self._lock:
            listeners = tuple(self._listeners.get(topic, ()))
        for listener in listeners:
            listener(what)
