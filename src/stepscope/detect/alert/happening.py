"""What agents tell of an instant: Xids, devices that vanish, watchdogs; into the book. It is over some time
after it was told last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stepscope.detect.alert.book import Book
from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.entry import Fired, Key, Member
from stepscope.detect.seen.column import Columns
from stepscope.detect.seen.second import Whose, device_key
from stepscope.model.alarm import AlarmSeverity
from stepscope.model.batch import Happened, Lines
from stepscope.model.redact import without_secrets
from stepscope.model.text import Text
from stepscope.model.xid import CONSEQUENCE_NS, CONSEQUENCES, MEMORY, severity_of, xid

OF_EVENT: Mapping[str, str] = {
    "xid": "xid",
    "device_vanished": "device-lost",
    "oom": "host-out-of-memory",
    "host_out_of_memory": "host-out-of-memory",
    "nvlink_error": "link-lost",
    "pcie_error": "link-lost",
    "nccl_watchdog": "collective-timeout",
}
"""What an agent calls it -> the condition."""
WATCHDOG = ("Watchdog caught collective operation timeout", "NCCL operations have failed or timed out")
RANK = re.compile(r"\[[Rr]ank ?(\d{1,7})\]")
"""How a watchdog says whose it is."""
MOST_TEXT = 200
AHEAD_NS, BEHIND_NS = 60_000_000_000, 86_400_000_000_000
"""What claims to be of later, or of days ago, has a clock that is wrong: it is of now."""


@dataclass(slots=True)
class _Past:
    key: Key
    member: Member
    at_ns: int
    lasts_ns: int
    heard_ns: int


class Happenings:
    """`take` an event or lines of a log; `tend` ends what is long past."""

    def __init__(self, table: Mapping[str, Condition], columns: Columns, book: Book) -> None:
        self._table, self._columns, self._book = table, columns, book
        self._past: dict[tuple[Key, Member], _Past] = {}

    def take(self, event: Happened) -> None:
        """An event of an agent."""
        if event.what == "device_found" and event.owner is not None:
            self._found(device_key(event.owner, event.host), event.at_ns)
            return
        id_ = OF_EVENT.get(event.what)
        if id_ is None:
            return
        owner = event.owner
        device = device_key(owner, event.host) if owner is not None and owner.kind == "device" else None
        rank = event.labels.get("rank", "")
        whose = Whose(
            event.labels.get("job"),
            event.labels.get("run"),
            int(rank) if rank.isdecimal() else None,
            event.host,
        )
        if id_ == "xid":
            if event.code is not None and event.code > 0:
                self._xid(event.code, device, whose, event.at_ns)
            return
        self._fire(id_, device or "", device, whose, event.at_ns, None, _told(event.text))

    def lines(self, batch: Lines) -> None:
        """Lines of a log in which a watchdog may speak."""
        if batch.log == "kernel":
            return
        for at_ns, text in zip(batch.at_ns, batch.text, strict=False):
            if any(each in text for each in WATCHDOG):
                told = RANK.search(text)
                rank = batch.labels.get("rank", "") or (told[1] if told else "")
                number = int(rank) if rank.isdecimal() else None
                whose = Whose(batch.labels.get("job"), batch.labels.get("run"), number, batch.host)
                self._fire("collective-timeout", "", None, whose, at_ns, None, _told(text))

    def gauge(self, row: int, code: int, at_ns: int) -> None:
        """The gauge of a device's last Xid changed."""
        self._xid(code, self._columns.key[row], self._columns.whose[row], at_ns)

    def _xid(self, code: int, device: str | None, whose: Whose, at_ns: int) -> None:
        if code in CONSEQUENCES and self._follows(whose, at_ns):
            return
        part = "memory" if code in MEMORY else str(code)
        meaning = xid(code).meaning
        detail = Text(f"Xid {code}: {meaning.en}", f"Xid {code}：{meaning.zh}")
        severity = severity_of(code)
        self._fire("xid", f"{part}@{device or ''}", device, whose, at_ns, severity, detail)

    def _follows(self, whose: Whose, at_ns: int) -> bool:
        """Whether another Xid of this job or host came just before: this one says nothing of a cause."""
        return any(
            each.key[0] == "xid"
            and abs(at_ns - each.at_ns) <= CONSEQUENCE_NS
            and (each.member.host == whose.host or (whose.job is not None and each.key[1] == whose.job))
            for each in self._past.values()
        )

    def _fire(
        self, id_: str, part: str, device: str | None, whose: Whose, at_ns: int,
        severity: AlarmSeverity | None, detail: Text,
    ) -> None:  # fmt: skip
        condition = self._table[id_]
        if not condition.is_on:
            return
        now_ns = self._book.now_ns
        at_ns = at_ns if now_ns - BEHIND_NS <= at_ns <= now_ns + AHEAD_NS else now_ns
        member = Member(whose.rank, device, whose.host)
        fired = Fired(
            condition=condition, member=member, onset_ns=at_ns, job=whose.job, run=whose.run, part=part,
            severity=condition.severity or severity or "warning",
            detail=detail,
            pages=condition.pages and (condition.severity or severity) != "info",
        )  # fmt: skip
        self._book.fire(fired)
        self._past[fired.key, member] = _Past(
            fired.key, member, at_ns, condition.clear_for_ns, self._book.now_ns
        )

    def _found(self, device: str, at_ns: int) -> None:
        """It is back."""
        for place, each in list(self._past.items()):
            if each.key[0] == "device-lost" and each.member.device == device:
                self._book.end(each.key, each.member, at_ns)
                del self._past[place]

    def tend(self) -> None:
        """End what was told long ago: by our own time, since nothing says that it is over."""
        for place, each in list(self._past.items()):
            if self._book.now_ns - each.heard_ns >= each.lasts_ns:
                self._book.end(each.key, each.member, each.at_ns + each.lasts_ns)
                del self._past[place]


def _told(text: str) -> Text:
    """A line of a log as it is, in both languages."""
    shown = without_secrets(text)[0][:MOST_TEXT].strip() or "?"
    return Text(shown, shown)
