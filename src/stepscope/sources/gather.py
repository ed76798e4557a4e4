"""From columns of a source's fields to one `Telemetry`: the laws that hold for every source.

Blanks and impossible values are left out and counted; copies of one series (time slicing, a device's value on
each of its MIG instances) are kept once; parts are summed; series that end before the source does are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from stepscope.model import redact
from stepscope.model.sample import F64, Mark, Missing, Owner, Series, Telemetry, TimeKind, Topology
from stepscope.model.signal import SIGNALS, Signal
from stepscope.model.trace import I64
from stepscope.sources.blank import reasons
from stepscope.sources.field import Field

MIG_MOST = 8.0
"""A ratio of a MIG instance may read above 1 (DCGM#152): up to this it is clipped, above it is none."""
_LATE = 1.5
"""Of its own intervals a series may lack at the end of the source before it counts as vanished."""
_MANY_NAMES = 8

Key = tuple[str | int | None, ...]


@dataclass(slots=True)
class _Column:
    at_ns: I64
    value: F64
    name: str


@dataclass(slots=True)
class Gathering:
    """What a source has said so far. One is made for each source, filled, and asked once for its
    telemetry."""

    format: str
    owners: dict[Key, Owner] = field(default_factory=dict)
    columns: dict[tuple[Key, str, str, int], list[_Column]] = field(default_factory=dict)
    """By owner, signal, part and rank."""
    marks: list[Mark] = field(default_factory=list)
    labels: dict[Key, dict[str, str]] = field(default_factory=dict)
    num_samples: int = 0
    num_redacted: int = 0
    names: dict[tuple[Key, str], str] = field(default_factory=dict)
    """The vendor's name of a signal of an owner, as first seen."""
    _told: set[tuple[int, str, int | None, Key | None]] = field(default_factory=set)
    _cleaned: dict[Owner, Owner] = field(default_factory=dict)
    _missing: Counter[tuple[str, str | None, str, Key | None]] = field(default_factory=Counter)
    _notes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def owner(self, owner: Owner) -> Owner:
        """The owner as first seen, with what later sights add, and without secrets in its names."""
        owner = self._clean(owner)
        known = self.owners.get(owner.key)
        if known is None:
            self.owners[owner.key] = owner
            return owner
        added = {
            name: value
            for name in ("index", "pci_bus_id", "model", "host", "name")
            if getattr(known, name) is None and (value := getattr(owner, name)) is not None
        }
        if added and replace(known, **added).key == known.key:
            known = self.owners[owner.key] = replace(known, **added)
        return known

    def _clean(self, owner: Owner) -> Owner:
        clean = self._cleaned.get(owner)
        if clean is None:
            clean = self._cleaned[owner] = self._without_secrets(owner)
        return clean

    def _without_secrets(self, owner: Owner) -> Owner:
        changed: dict[str, str] = {}
        for name in ("name", "model", "host"):
            text = getattr(owner, name)
            if text:
                kept, count = redact.without_secrets(text)
                self.num_redacted += count
                if count:
                    changed[name] = kept
        return replace(owner, **changed) if changed else owner  # type: ignore[arg-type]

    def label(self, owner: Owner, labels: Mapping[str, str]) -> None:
        """Labels of the job that the owner works for. Another value beside one is kept too: `a,b`."""
        if not labels:
            return
        clean, count = redact.tree_without_secrets(dict(labels))
        self.num_redacted += count
        kept = self.labels.setdefault(self.owner(owner).key, {})
        for name, value in clean.items():
            there = kept.get(name)
            names = there.split(",") if there else []
            if value and value not in names and len(names) < _MANY_NAMES:
                kept[name] = ",".join([*names, value])

    def mark(self, mark: Mark) -> None:
        """The same instant told twice (a device's Xid on each of its instances) is one."""
        text, count = redact.without_secrets(mark.text)
        owner = self.owner(mark.owner) if mark.owner else None
        is_told = (mark.at_ns, mark.kind, mark.code, owner.key if owner else None)
        if is_told not in self._told:
            self._told.add(is_told)
            self.num_redacted += count
            self.marks.append(replace(mark, text=text, owner=owner))

    def note(self, code: str, count: int, detail: str) -> None:
        if count:
            before = self._notes.get(code, (0, detail))
            self._notes[code] = (before[0] + count, before[1])

    def missing(self, name: str, signal: str | None, reason: str, count: int, owner: Owner | None) -> None:
        if count:
            self._missing[name, signal, reason, owner.key if owner else None] += count

    def add(self, owner: Owner, field: Field, name: str, at_ns: I64, value: F64) -> None:
        """One field's column as the source has it: sentinels and the vendor's unit still in it."""
        signal = SIGNALS[field.signal]
        if signal.is_whole_device and owner.mig is not None:
            owner = replace(owner, mig=None)
        owner = self.owner(owner)
        is_value, why = reasons(value, field.blank)
        for reason, count in why.items():
            self.missing(name, signal.name, reason, count, owner)
        value = _scaled(np.where(is_value, value, 0.0), field.factor)
        value, can_be = self._possible(signal, owner, value, is_value)
        self.missing(name, signal.name, "out_of_range", int(np.count_nonzero(is_value & ~can_be)), owner)
        kept = is_value & can_be
        if kept.any():
            self.names.setdefault((owner.key, signal.name), name)
            column = _Column(at_ns[kept], value[kept], name)
            self.columns.setdefault((owner.key, signal.name, field.part, field.rank), []).append(column)

    def _possible(
        self, signal: Signal, owner: Owner, value: F64, is_value: np.ndarray
    ) -> tuple[F64, np.ndarray]:
        if signal.unit == "ratio" and owner.mig is not None:
            above = is_value & (value > 1.0) & (value <= MIG_MOST)
            what = "a ratio above 1 on a MIG instance, clipped to 1 (a known fault of the counter)"
            self.note("unit_suspect", int(np.count_nonzero(above)), what)
            value = np.where(above, 1.0, value)
        can_be = np.ones(len(value), np.bool_)
        if signal.least is not None:
            can_be &= value >= signal.least
        if signal.most is not None:
            can_be &= value <= signal.most
        return value, can_be

    def telemetry(
        self,
        name: str,
        time: TimeKind,
        *,
        window_ns: int | None = None,
        collect_ns: int | None = None,
        lag_ns: int | None = None,
        end_ns: int | None = None,
        topology: Topology | None = None,
    ) -> Telemetry:
        """All of it. `end_ns` is when the source was read last, where that is later than its last sample."""
        series = self._series()
        series, vanished = self._vanished(series, time, end_ns)
        self._restarts(series)
        order = sorted(self.marks, key=lambda mark: (mark.at_ns, str(mark.owner), mark.code or 0))
        missing = [
            Missing(field_name, signal, reason, count, self.owners.get(key) if key else None)
            for (field_name, signal, reason, key), count in self._missing.items()
        ]
        clean_name, count = redact.without_secrets(name)
        return Telemetry(
            name=clean_name,
            format=self.format,
            series=tuple(series),
            time=time,
            window_ns=window_ns,
            collect_ns=collect_ns,
            lag_ns=lag_ns,
            missing=(*missing, *vanished),
            marks=tuple(replace(mark, owner=self._known(mark.owner)) for mark in order),
            notes=tuple((code, count, detail) for code, (count, detail) in self._notes.items()),
            labels={
                self.owners[key]: kept for key, kept in self.labels.items() if kept and key in self.owners
            },
            topology=topology,
            num_samples=self.num_samples,
            num_redacted=self.num_redacted + count,
        )

    def _known(self, owner: Owner | None) -> Owner | None:
        return self.owners.get(self._clean(owner).key, owner) if owner else None

    def _series(self) -> list[Series]:
        by_owner: dict[tuple[Key, str], dict[str, dict[int, list[_Column]]]] = {}
        for (key, signal, part, rank), columns in self.columns.items():
            by_owner.setdefault((key, signal), {}).setdefault(part, {})[rank] = columns
        series = []
        for (key, signal), parts in by_owner.items():
            each = [self._once(ranks[min(ranks)], signal, key) for ranks in parts.values()]
            at_ns, value = each[0] if len(each) == 1 else _sum(each)
            if not len(at_ns):
                continue
            falls = int(np.count_nonzero(np.diff(value) < 0)) if SIGNALS[signal].kind == "counter" else 0
            series.append(Series(signal, self.owners[key], at_ns, value, falls))
        return series

    def _once(self, columns: list[_Column], signal: str, key: Key) -> tuple[I64, F64]:
        """One series of several columns: at each time the first column's value."""
        at_ns = np.concatenate([column.at_ns for column in columns])
        value = np.concatenate([column.value for column in columns])
        times, first = np.unique(at_ns, return_index=True)  # the first occurrence in the order given
        if num_copies := len(at_ns) - len(times):
            self.missing(columns[-1].name, signal, "duplicate", num_copies, self.owners[key])
        return times, value[first]

    def _vanished(
        self, series: list[Series], time: TimeKind, end_ns: int | None
    ) -> tuple[list[Series], list[Missing]]:
        """Series that end before the source does, and a mark where a device has none left."""
        lasting = [each for each in series if each.owner.kind != "process"]
        if not lasting:
            return series, []
        last = {id(each): int(each.at_ns[-1]) for each in lasting}
        times = np.unique(np.concatenate([each.at_ns for each in lasting]))
        usual_ns = int(np.median(np.diff(times))) if len(times) > 1 else 0
        source_end = max(int(times[-1]), end_ns or int(times[-1]))
        host_end: dict[str | None, int] = {}
        for each in lasting:
            host_end[each.owner.host] = max(host_end.get(each.owner.host, 0), last[id(each)])
        missing: list[Missing] = []
        gone: dict[Key, list[Series]] = {}
        for each in lasting:
            own_ns = int(np.median(np.diff(each.at_ns))) if len(each) > 1 else usual_ns
            # In whole numbers: a time of today as a float is off by a hundred nanoseconds.
            slack_ns = int(_LATE * max(own_ns, usual_ns))
            # Within one scrape all times are one, so one that lacks there was not there.
            within_scrape = time == "scrape" and last[id(each)] < host_end[each.owner.host]
            if within_scrape or last[id(each)] < source_end - slack_ns:
                absent = int(np.count_nonzero(times > last[id(each)]))
                name = self.names[each.owner.key, each.signal]
                missing.append(Missing(name, each.signal, "vanished", max(absent, 1), each.owner))
                gone.setdefault(each.owner.key, []).append(each)
        for key, ended in gone.items():
            owner = self.owners[key]
            if owner.kind == "device" and len(ended) == sum(each.owner.key == key for each in lasting):
                at_ns = max(last[id(each)] for each in ended)
                after = (source_end - at_ns) / 1e9
                text = f"every series of the device ends here, {after:g} s before the source does"
                self.mark(Mark(at_ns, "exit", text, owner=owner))
        return series, missing

    def _restarts(self, series: list[Series]) -> None:
        """A mark where the energy counter of a device falls: the driver was loaded again."""
        for each in series:
            if each.signal == "energy_joules_total" and each.num_resets:
                for place in np.flatnonzero(np.diff(each.value) < 0) + 1:
                    text = "the energy counter fell: the driver was loaded again"
                    self.mark(Mark(int(each.at_ns[place]), "start", text, owner=each.owner))


def _scaled(value: F64, factor: float) -> F64:
    """95 per cent are 0.95 and not 0.95 and a little: a factor of one over a whole number divides by it."""
    over = round(1 / factor)
    return value / over if factor < 1 and 1 / over == factor else value * factor


def _sum(parts: list[tuple[I64, F64]]) -> tuple[I64, F64]:
    """The sum of the parts at the times that all of them have."""
    common = parts[0][0]
    for at_ns, _ in parts[1:]:
        common = np.intersect1d(common, at_ns, assume_unique=True)
    total = np.zeros(len(common))
    for at_ns, value in parts:
        total += value[np.searchsorted(at_ns, common)]
    return common, total
