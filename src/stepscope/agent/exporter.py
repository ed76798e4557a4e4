"""Pages of exporters to samples, look after look.

Lines of DCGM's fields are most of such a page and always the same but for their numbers: what each says is
worked out when it is first seen, and then costs one look-up and one float. All other lines are kept for a
while and read together with the last page before them, by the readers of `sources/`: a counter's rate needs
both its ends, and reading many pages at a time costs little more than reading one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from stepscope.agent.repeat import Repeats
from stepscope.agent.source import Event, Reading, Sample
from stepscope.model import redact
from stepscope.model.sample import Owner, Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.sources import owner as owners
from stepscope.sources.blank import reasons
from stepscope.sources.dcgm_field import BY_NAME
from stepscope.sources.field import Field
from stepscope.sources.formats.exposition import SCRAPED_AT, read_exposition
from stepscope.sources.gather import MIG_MOST
from stepscope.sources.telemetry import telemetry_of

DCGM = "dcgm-exporter"
GONE_PAGES = 3
"""So many pages in a row lack a device that is gone: an exporter that starts anew lacks some in its first."""
EMPTY_PAGES = 60
"""So many where the page has no device at all: so is that of an exporter that starts, or waits for its
library."""
_LEAST_SENTINEL = 2147483632.0
_SLOW_SIGNALS = frozenset(("xid",))
"""Signals whose samples are edges: read with what was before."""
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Row:
    """What one line says. `order` is (part, rank, place): of one signal of one owner parts are summed, and
    of a part the first of the lowest rank counts."""

    name: str
    field: Field
    owner: Owner
    own: Mapping[str, str]
    is_alone: bool = True
    labels: Labels = ()
    most: float = float("inf")
    least: float = float("-inf")


class Exporter:
    """One exporter. `host` is where it runs, for series that name no host; `hold_ns` how long lines other
    than DCGM's may wait."""

    def __init__(self, *, shown: str, host: str, hold_ns: int) -> None:
        self._shown, self._host, self._hold_ns = shown, host, hold_ns
        self._rows: dict[str, _Row | None] = {}
        self._num_rows, self._has_left = 0, False
        self.is_known = False
        """Whether any of its series is of an exporter that is known."""
        self._waiting: list[tuple[int, str]] = []
        self._told_ns = 0
        """Up to here everything that waited is told."""
        self._owners: set[Owner] = set()
        self._lacking: dict[Owner, list[int]] = {}
        self._gone: set[Owner] = set()
        """Those of which it was told."""
        self._is_empty = False
        """Devices that the last pages lacked, each with when."""
        self._energy: dict[Owner, float] = {}
        self._changed = Repeats()

    def page(self, text: str, at_ns: int) -> list[Reading]:
        """What a page that was fetched at `at_ns` adds."""
        reading = Reading(at_ns, source=DCGM)
        others = self._lines(text, reading)
        self._changed.look(reading, at_ns)
        reading.collect_ns = reading.window_ns = self._changed.collect_ns
        self._compare(reading)
        readings = [reading] if reading.samples or reading.events or reading.missing else []
        self.is_known = self.is_known or bool(readings)
        if others:
            self._waiting.append((at_ns, others))
            if at_ns - max(self._waiting[0][0], self._told_ns) >= self._hold_ns or len(self._waiting) == 1:
                readings += self._others()
                self.is_known = self.is_known or bool(readings)
        return readings

    # ── DCGM's lines ──

    def _lines(self, text: str, reading: Reading) -> str:
        """The lines that are not DCGM's, as a text; what DCGM's say goes into the reading."""
        rows, others = self._rows, list[str]()
        lines = text.split("\n")
        heads = [line.rpartition(" ") for line in lines]
        unknown = [
            head
            for line, (head, _, _) in zip(lines, heads, strict=True)
            if head not in rows and line and not line.startswith("#")
        ]
        if unknown or self._has_left:
            # What has left the page (a pod that ended) says no longer whose the device is.
            here = {head for head, _, _ in heads}
            self._rows = rows = {head: row for head, row in rows.items() if head in here}
            for head in unknown:
                self._learn(head)
            self._settle()
        several: dict[tuple[Owner, str], dict[str, tuple[int, float, _Row]]] = {}
        samples, num_rows = reading.samples, 0
        for line, (head, _, last) in zip(lines, heads, strict=True):
            row = rows.get(head)
            if row is None:
                if line:
                    others.append(line)
                continue
            num_rows += 1
            try:
                value = float(last)
            except ValueError:
                reading.missing[row.name, "blank"] += 1
                continue
            known = self._value(row, value, reading)
            if known is None:
                continue
            if row.is_alone:
                samples.append(Sample(row.owner, row.field.signal, known, row.labels))
                continue
            parts = several.setdefault((row.owner, row.field.signal), {})
            before = parts.get(row.field.part)
            if before is None or row.field.rank < before[0]:
                parts[row.field.part] = (row.field.rank, known, row)
        for (owner, signal), parts in several.items():
            first = next(iter(parts.values()))[2]
            samples.append(Sample(owner, signal, sum(value for _, value, _ in parts.values()), first.labels))
        self._has_left = num_rows < self._num_rows
        return "\n".join(others) if any(not line.startswith("#") for line in others) else ""

    def _learn(self, head: str) -> None:
        self._rows[head] = None
        name, brace, _ = head.partition("{")
        known = BY_NAME.get(name.strip().lower())
        if (
            known is None
            or known.field.signal in _SLOW_SIGNALS
            or not (brace and head.rstrip().endswith("}"))
        ):
            return
        metrics = read_exposition(f"{head} 1\n").metrics
        if len(metrics) != 1:
            return
        labels = metrics[0].labels
        lower = owners.lowered(labels)
        if any(lower.get(each) for each in ("nvswitch", "nvlink", "cpu", "cpucore")):
            return
        owner, signal = owners.device(labels), SIGNALS[known.field.signal]
        if signal.is_whole_device and owner.mig is not None:
            owner = replace(owner, mig=None)
        if owner.host is None:
            owner = replace(owner, host=self._host)
        own, _ = redact.tree_without_secrets(dict(owners.job_labels(labels)))
        row = self._rows[head] = _Row(name.strip(), known.field, owner, own)
        row.least = float("-inf") if signal.least is None else signal.least
        row.most = float("inf") if signal.most is None else signal.most

    def _settle(self) -> None:
        """One owner a device, its job's labels over all its lines, and which lines say the same."""
        rows = [row for row in self._rows.values() if row is not None]
        first: dict[tuple[str | int | None, ...], Owner] = {}
        labels: dict[Owner, dict[str, list[str]]] = {}
        count: dict[tuple[Owner, str], int] = {}
        for row in rows:
            row.owner = first.setdefault(row.owner.key, row.owner)
            of_owner = labels.setdefault(row.owner, {})
            for name, value in row.own.items():
                values = of_owner.setdefault(name, [])
                if value not in values and len(values) < 8:
                    values.append(value)
            count[row.owner, row.field.signal] = count.get((row.owner, row.field.signal), 0) + 1
        joined = {
            owner: [(name, ",".join(values)) for name, values in each.items()]
            for owner, each in labels.items()
        }
        for row in rows:
            row.is_alone = count[row.owner, row.field.signal] == 1
            row.labels = tuple(sorted([*joined[row.owner], ("dcgm", row.name)]))
        self._num_rows = len(rows)

    @staticmethod
    def _value(row: _Row, value: float, reading: Reading) -> float | None:
        if value != value or value >= _LEAST_SENTINEL or value < 0:
            is_value, why = reasons(np.array([value]), row.field.blank)
            if not is_value[0]:
                reading.missing.update({(row.name, reason): count for reason, count in why.items()})
                return None
        value = value / 100 if row.field.factor == 0.01 else value * row.field.factor
        if row.owner.mig is not None and 1.0 < value <= MIG_MOST and row.most == 1.02:
            value = 1.0  # a known fault of the counter on MIG (DCGM#152)
        if not row.least <= value <= row.most:
            reading.missing[row.name, "out_of_range"] += 1
            return None
        return value

    def _compare(self, reading: Reading) -> None:
        """Devices that went or came, and drivers that were loaded again."""
        now = {each.owner for each in reading.samples}
        if self._is_empty == bool(now):  # the first empty page, or the first after some
            self._is_empty = not now
            self._lacking.clear()
        enough = GONE_PAGES if now else EMPTY_PAGES
        self._lacking = {owner: self._lacking.get(owner, []) for owner in self._owners - now}
        for owner, since in list(self._lacking.items()):
            since.append(reading.at_ns)
            if len(since) < enough:
                now.add(owner)
                continue
            text = f"every series of device {owner.uuid or owner.index} is gone from {self._shown}"
            reading.events.append(Event(since[0], "device_vanished", text, None, owner))
            del self._lacking[owner]
            self._gone.add(owner)
        for owner in now - self._owners:
            if self._owners or owner in self._gone:
                text = f"device {owner.uuid or owner.index} is in {self._shown} now"
                reading.events.append(Event(reading.at_ns, "device_found", text, None, owner))
        self._owners = now
        self._gone -= now
        for each in reading.samples:
            if each.signal == "energy_joules_total":
                if each.value < self._energy.get(each.owner, 0.0):
                    text = "the energy counter fell: the driver was loaded again"
                    reading.events.append(Event(reading.at_ns, "driver_back", text, None, each.owner))
                self._energy[each.owner] = each.value

    # ── all others ──

    def _others(self) -> list[Reading]:
        waiting = self._waiting
        text = "".join(f"{SCRAPED_AT} {at_ns}\n{lines}\n" for at_ns, lines in waiting)
        self._waiting = waiting[-1:]
        since_ns, self._told_ns = self._told_ns, waiting[-1][0]
        scraped = read_exposition(text)
        parts = telemetry_of(scraped.metrics, name=self._shown, time=scraped.time)
        return [self._reading(part, since_ns) for part in parts]

    def _reading(self, part: Telemetry, since_ns: int) -> Reading:
        reading = Reading(
            self._told_ns,
            window_ns=part.window_ns,
            collect_ns=part.collect_ns,
            lag_ns=part.lag_ns,
            source=part.format,
        )
        for series in part.series:
            owner, labels = series.owner, part.labels.get(series.owner, {})
            if owner.host is None:
                owner = replace(owner, host=self._host)
            pairs = tuple(sorted(labels.items()))
            reading.samples += [
                Sample(owner, series.signal, value, pairs, at)
                for at, value in zip(series.at_ns.tolist(), series.value.tolist(), strict=True)
                if at > since_ns
            ]
        reading.samples.sort(key=lambda each: each.at_ns or 0)
        reading.events = [
            Event(mark.at_ns, mark.kind, mark.text, mark.code, mark.owner)
            for mark in part.marks
            if mark.at_ns > since_ns and mark.is_new
        ]
        for each in part.missing:
            if each.reason != "vanished":
                reading.missing[each.field, each.reason] += 1
        return reading
