"""One log while it is read: lines go to those who may know them, events go on the wall clock."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stepscope.model.log import LogEvent
from stepscope.model.xid import XIDS, severity_of
from stepscope.sources import log_pattern, log_progress
from stepscope.sources.catalog import log_error, log_kernel, log_nccl, log_phase
from stepscope.sources.formats import log_event
from stepscope.sources.formats.log_event import Prepared, clean, event, pci_bus_id, prepared
from stepscope.sources.formats.log_line import Head, head
from stepscope.sources.formats.log_time import NS, Clock
from stepscope.sources.log_step import of_json

_NCCL, _KERNEL, _ERROR, _PHASE = (
    prepared(each.ROWS) for each in (log_nccl, log_kernel, log_error, log_phase)
)
MAX_EVENTS = 1000
"""Events of one word that are kept; more are counted."""
_MOST_BACK = 200
"""Lines before an event among which its time is looked for."""
_AGAIN_WITHIN = 500
_AGAIN_NS = 10 * NS
"""Lines and time within which the same text again is the same event."""
_CLOCK = re.compile(r"\d\d:\d\d:\d\d|1\d{9}")
"""What every time holds: a quick look before a line's head is read."""
_FORM_LINES = 200
"""Lines of a file's beginning by which it is told whether it is a kernel log."""


@dataclass(slots=True)
class Reading:
    """One file while it is read."""

    clock: Clock
    pattern: re.Pattern[str] | None
    progress: log_progress.Reader = field(default_factory=log_progress.Reader)
    nccl: log_nccl.Reader = field(default_factory=log_nccl.Reader)
    events: list[LogEvent] = field(default_factory=list)
    anchors: list[tuple[float, int]] = field(default_factory=list)
    """(seconds since boot, wall time) of lines that state both."""
    uuids: dict[str, str] = field(default_factory=dict)
    formats: Counter[str] = field(default_factory=Counter)
    num_known: int = 0
    num_redacted: int = 0
    num_form: int = 0
    """Lines that begin as a kernel log's do, of the first 200."""
    is_zone_assumed: bool = False
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    before: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_BACK))
    seen: dict[tuple[str, str, int | None], tuple[int, int | None]] = field(default_factory=dict)
    tracebacks: set[str] = field(default_factory=set)
    """Streams whose traceback is open."""
    without: set[int] = field(default_factory=set)
    """Events, by their place in `events`, whose own line has no time."""
    is_looked_back: bool = False

    # ── one line ──

    def take(self, line: int, text: str, inherited: Head | None = None) -> None:
        """Reads one line. `inherited` is what a record around it said, of a line in JSON."""
        lower = text.lower()
        if inherited is None and self.progress.stamps.is_wanted:
            self._stamp(text)
        looks_json = text.lstrip().startswith("{") and text.endswith("}") and '"' in text
        if inherited is None and looks_json and self._json(line, text):
            return
        if ("nccl" in lower or "rccl" in lower) and self.nccl.feed(text):
            self.num_known += 1
            self.formats["nccl"] += 1
            if " warn " in lower:
                self._match(_NCCL, line, text, lower, inherited)
            return
        if self.pattern is not None:
            found = log_pattern.by_pattern(self.pattern, text, self.clock)
            if found is not None:
                stated, at_ns = found
                at = self._head(text, inherited)
                if at_ns is None:
                    at_ns = at.at_ns
                self.progress.rows.append(
                    log_progress.Row(line, at_ns, at.stream, stated.step or 0, stated, "pattern", text)
                )
                self.progress.known("pattern")
                return
        if self._kernel(line, text, lower, inherited):
            return
        if self._error(line, text, lower, inherited):
            return
        is_event = self._match(_PHASE, line, text, lower, inherited)
        if self.pattern is None and log_progress.is_worth(lower):
            at = self._head(text, inherited)
            is_progress = self.progress.feed(line, at.at_ns, _stream(at), at.body, lower)
            if self.progress.stamps.is_wanted and not self.is_looked_back:
                self.is_looked_back = True
                before = self._time_before()
                if before is not None:
                    self.progress.stamps.add_before(before)
            if is_progress:
                self._whose(at)
                return
        self.num_known += is_event

    def _stamp(self, text: str) -> None:
        """Keeps the time of a line, among which bars without one are put."""
        if _CLOCK.search(text, 0, 200) is None:
            return
        at = head(text, self.clock)
        if at.at_ns is not None:
            self.progress.stamps.add(at.at_ns)
            self.is_zone_assumed = self.is_zone_assumed or not at.has_zone

    def _head(self, text: str, inherited: Head | None) -> Head:
        """What stands before a line's text; a record around it knows better."""
        at = head(text, self.clock)
        if inherited is None:
            return at
        return replace(
            at,
            at_ns=inherited.at_ns if inherited.at_ns is not None else at.at_ns,
            has_zone=inherited.has_zone if inherited.at_ns is not None else at.has_zone,
            rank=at.rank if at.rank is not None else inherited.rank,
            host=at.host or inherited.host,
        )

    def _whose(self, at: Head) -> None:
        if at.rank is not None:
            self.ranks.add(at.rank)
        if at.host is not None:
            self.hosts.add(at.host)
        if at.at_ns is not None and not at.has_zone:
            self.is_zone_assumed = True

    def _json(self, line: int, text: str) -> bool:
        record = of_json(text.strip())
        if record is None:
            return False
        at_ns = self.clock.whole(record.time) if record.time is not None else None
        if at_ns is not None:
            self.progress.stamps.add(at_ns)
        has_zone = record.time is not None and (
            record.time[:1] == "1" or record.time.rstrip()[-1:] == "Z" or "+" in record.time
        )
        at = Head(
            at_ns,
            has_zone,
            None,
            record.rank,
            record.host,
            None,
            "" if record.rank is None else f"[rank{record.rank}]",
            text,
            text,
        )
        if record.stated.step is not None and self.pattern is None:
            if self.progress.take(line, at_ns, _stream(at), text, record.stated):
                self._whose(at)
            return True
        if record.text is not None:
            self.take(line, record.text.rstrip("\n"), at)
        return True

    # ── events ──

    def _kernel(self, line: int, text: str, lower: str, inherited: Head | None) -> bool:
        for needle, pattern in log_kernel.ANCHORS:
            if needle in lower and (found := pattern.search(text)):
                boot = head(text, self.clock).boot_seconds
                if boot is not None:
                    self.anchors.append((boot, round(float(found["epoch"]) * 1000) * 1_000_000))
        if "nvrm: gpu at" in lower and (found := log_kernel.UUID.search(text)):
            bus = pci_bus_id(found["pci"])
            if bus is not None:
                self.uuids[bus] = found["uuid"]
                self.num_known += 1
                self.formats["kernel"] += 1
            return True
        if self._match(_KERNEL, line, text, lower, inherited):
            self.num_known += 1
            self.formats["kernel"] += 1
            return True
        return False

    def _error(self, line: int, text: str, lower: str, inherited: Head | None) -> bool:
        if self._match(_ERROR, line, text, lower, inherited):
            self.num_known += 1
            self.formats["plain"] += 1
            self.tracebacks.discard(_stream(self._head(text, inherited))) if self.tracebacks else None
            return True
        if log_error.TRACEBACK in text:
            self.tracebacks.add(_stream(self._head(text, inherited)))
            return True
        if not self.tracebacks:
            return False
        at = self._head(text, inherited)
        stream = _stream(at)
        if stream not in self.tracebacks or at.inner.startswith((" ", "\t")):
            return False
        self.tracebacks.discard(stream)
        found = log_error.EXCEPTION.match(at.inner)
        if found is None:
            return False
        self.num_known += 1
        self.formats["plain"] += 1
        severity = "info" if found["name"].endswith(("KeyboardInterrupt", "SystemExit")) else "critical"
        self._add(
            LogEvent(
                "error", "error", at.inner, at.at_ns, line, severity, rank=at.rank, host=at.host, pid=at.pid
            ),
            at,
        )
        return True

    def _match(self, rows: Prepared, line: int, text: str, lower: str, inherited: Head | None) -> bool:
        found = log_event.match(rows, text, lower)
        if found is None:
            return False
        row, groups = found
        at = self._head(text, inherited)
        made = event(row, groups, text, line, at.at_ns, at)
        if made.what == "xid":
            made = _xid(made)
        elif made.what == "nccl_watchdog" and made.at_ns is not None and "ran_seconds" in made.numbers:
            began_ns = made.at_ns - round(made.numbers["ran_seconds"] * NS)
            self.progress.stamps.begun.append((self.progress.stamps.num_drawn, began_ns))
        elif made.what == "cuda_out_of_memory":
            made = replace(made, numbers={**made.numbers, **log_error.memory_numbers(text)})
        if row.tells_once and self._is_again((made.what, row.needles[0], made.rank), made):
            return True
        self._add(made, at)
        return True

    def _add(self, made: LogEvent, at: Head) -> None:
        """Keeps an event, without its secrets, with a time if it or a line before it has one."""
        text, count = clean(made.text)
        if made.kind in ("error", "oom", "exit") and made.what != "xid" and at.boot_seconds is None:
            # A traceback's last line is written again by launchers and loggers.
            sequence = made.numbers.get("sequence")  # of a collective: said again by each layer that ends
            key = (made.what, at.body[:200] if sequence is None else str(sequence), made.rank)
            if self._is_again(key, made):
                self._tell_more(made)
                return
        if self.kept[made.what] >= MAX_EVENTS:
            self.left_out[made.what] += 1
            return
        self.kept[made.what] += 1
        self.num_redacted += count
        self._whose(at)
        at_ns = made.at_ns
        if at_ns is None and at.boot_seconds is None:
            at_ns = self._time_before()
            self.without.add(len(self.events))
        self.events.append(replace(made, text=text, at_ns=at_ns))

    def _tell_more(self, made: LogEvent) -> None:
        """What the same event's next line states beside: a watchdog says how far its rank came after the
        collective that timed out."""
        for place in range(len(self.events) - 1, max(len(self.events) - _MOST_BACK, 0) - 1, -1):
            each = self.events[place]
            if (each.what, each.rank) == (made.what, made.rank):
                self.events[place] = replace(each, numbers={**made.numbers, **each.numbers})
                return

    def _is_again(self, key: tuple[str, str, int | None], made: LogEvent) -> bool:
        """Whether the same was said a few lines and seconds before."""
        last = self.seen.get(key)
        self.seen[key] = (made.line, made.at_ns)
        if last is None or made.line - last[0] > _AGAIN_WITHIN:
            return False
        return made.at_ns is None or last[1] is None or abs(made.at_ns - last[1]) <= _AGAIN_NS

    def _time_before(self) -> int | None:
        for text in reversed(self.before):
            at = head(text, self.clock)
            if at.at_ns is not None:
                self.is_zone_assumed = self.is_zone_assumed or not at.has_zone
                return at.at_ns
        return None

    # ── the whole ──

    def placed(self, drawn: Sequence[tuple[int, int]]) -> tuple[tuple[LogEvent, ...], int, int]:
        """Events on the wall clock, by the nearest anchor; how many it placed, and how many it could not.
        `drawn` are lines and times of bars: an event without a time is not before the last one before it."""
        done, num_placed, num_without = [], 0, 0
        lines = [line for line, _ in drawn]
        for place, each in enumerate(self.events):
            last = bisect_right(lines, each.line) - 1
            if place in self.without and last >= 0:
                drawn_ns = drawn[last][1]
                each = replace(each, at_ns=drawn_ns if each.at_ns is None else max(each.at_ns, drawn_ns))
            boot = each.numbers.get("boot_seconds")
            if each.at_ns is None and boot is not None:
                if self.anchors:
                    num_placed += 1
                    at_boot, at_ns = min(self.anchors, key=lambda anchor: abs(anchor[0] - boot))
                    each = replace(each, at_ns=at_ns + round((boot - at_boot) * NS))
                else:
                    num_without += 1
            done.append(each)
        return tuple(done), num_placed, num_without


def _stream(at: Head) -> str:
    return f"[rank{at.rank}]" if at.rank is not None else at.stream


_RECOVERY = re.compile(r"(?i)recovery action changed from \S+ \([^)]*\) to (?P<action>0x[0-9a-f]+)")
_NON_FATAL = re.compile(r"(?i)non-?fatal")


def _xid(made: LogEvent) -> LogEvent:
    """An Xid with its severity; the codes of NVLink 5 say in their text whether they are fatal."""
    code = made.code if made.code is not None else -1
    severity = severity_of(code)
    known = XIDS.get(code)
    if known is not None and known.is_severity_in_text:
        severity = "warning" if _NON_FATAL.search(made.text) else "critical"
    numbers: Mapping[str, float] = made.numbers
    action = _RECOVERY.search(made.text)
    if action is not None:
        numbers = {**numbers, "recovery_action": float(int(action["action"], 16))}
        severity = "warning" if int(action["action"], 16) else "info"
    return replace(made, severity=severity, numbers=numbers)
