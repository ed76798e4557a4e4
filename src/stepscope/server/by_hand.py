"""The report of a capture that a person asked for: made when its traces are here, whether or not anything is
wrong. It opens no incident and pages nobody."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from stepscope.model.capture import CaptureDocument
from stepscope.model.error import StepscopeError
from stepscope.model.text import Lang
from stepscope.offline.stored import Asked, window_of
from stepscope.server.feed import Feed
from stepscope.server.judge.handling import Diagnose
from stepscope.server.judge.look import is_short
from stepscope.store.contract import Store

WHY = "asked for by hand"
S = 1_000_000_000
BEFORE_NS, COUNTERS_NS = 60 * S, 6 * S
"""How far before the capture counters and marks are taken from; how long counters of its steps are waited
for."""
TAKEN_UP_NS = 3600 * S
"""So long after it was asked for, one that an earlier server left without a report is still given one."""


def place_of(capture: int) -> str:
    """The id of its report."""
    return f"capture-{capture}"


class ByHand:
    """`tick` from one thread, again and again; `heard` by the feed. Its report's id goes into the capture's
    document."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        diagnose: Diagnose,
        now_ns: Callable[[], int],
        lang: Lang = "en",
        thresholds: Callable[[], Mapping[str, Mapping[str, float]]] = dict,
    ) -> None:
        self._store, self._feed, self._diagnose, self._now_ns = store, feed, diagnose, now_ns
        self._lang, self._thresholds = lang, thresholds
        self._done: queue.SimpleQueue[CaptureDocument] = queue.SimpleQueue()
        self._waiting: list[CaptureDocument] = []
        self.stop = feed.listen("capture", self._heard)
        for each in store.documents("capture", start_ns=now_ns() - TAKEN_UP_NS, limit=100):
            with suppress(msgspec.MsgspecError):
                self._heard(msgspec.json.decode(each.body, type=CaptureDocument))

    def _heard(self, what: object) -> None:
        if (
            isinstance(what, CaptureDocument)
            and what.state == "done"
            and what.why == WHY
            and what.report is None
            and what.no_report is None
        ):
            self._done.put(what)

    def tick(self) -> None:
        """One report, where one is due."""
        with suppress(queue.Empty):
            while True:
                self._waiting.append(self._done.get_nowait())
        for doc in list(self._waiting):
            if self._is_due(doc):
                self._waiting.remove(doc)
                self._make(doc)
                return

    def _is_due(self, doc: CaptureDocument) -> bool:
        now = self._now_ns()
        if now - (doc.ended_ns or doc.asked_ns) >= COUNTERS_NS:
            return True
        return not is_short(window_of(self._store, doc.job, doc.run, doc.asked_ns - BEFORE_NS, now + 1))

    def _make(self, doc: CaptureDocument) -> None:
        now = self._now_ns()
        end = max((doc.ended_ns or now) + COUNTERS_NS, doc.asked_ns + 1)
        traces = self._store.traces(doc.job, doc.run, doc.id)
        window = window_of(self._store, doc.job, doc.run, doc.asked_ns - BEFORE_NS, min(end, now + 1), traces)
        try:
            report = self._diagnose(window, Asked(lang=self._lang, thresholds=self._thresholds() or None))
        except (StepscopeError, OSError) as error:
            made = msgspec.structs.replace(doc, no_report=str(error))
        else:
            body = msgspec.json.encode(report)
            self._store.put("report", place_of(doc.id), body, job=doc.job, run=doc.run, at_ns=now)
            made = msgspec.structs.replace(doc, report=place_of(doc.id))
        self._store.put(
            "capture", str(doc.id), msgspec.json.encode(made), job=doc.job, run=doc.run, at_ns=doc.asked_ns
        )
        self._feed.tell("capture", made)


__all__ = ["WHY", "ByHand", "place_of"]
