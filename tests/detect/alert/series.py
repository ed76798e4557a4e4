"""Series in one line: `0.95x300 _x12 0.5` is 300 seconds of 0.95, twelve of nothing, and one of 0.5."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stepscope.detect.watch import Watch
from stepscope.model.alarm import Alarm
from stepscope.model.batch import BatchOwner, BatchSeries, Samples

NS = 1_000_000_000
START_S = 1_700_000_000
HOST = "n1"
JOB = {"job": "llama", "run": "r1", "rank": "0"}


def values(notation: str) -> list[float]:
    """One a second, NaN where there is none."""
    found: list[float] = []
    for part in notation.split():
        value, _, times = part.partition("x")
        found += [math.nan if value == "_" else float(value)] * int(times or 1)
    return found


def owner(index: int = 0) -> BatchOwner:
    return BatchOwner(uuid=f"GPU-{index:04d}", index=index, host=HOST)


def second(at_s: int, told: Mapping[str, float], labels: Mapping[str, str], index: int = 0) -> Samples:
    """One second of one device: only what is known."""
    rows = [
        BatchSeries(name, owner(index), [(START_S + at_s) * NS], [value], dict(labels))
        for name, value in told.items()
        if not math.isnan(value)
    ]
    # Something always comes, so that time goes on: a source that says nothing at all is another case.
    rows.append(BatchSeries("memory_temperature_celsius", owner(index), [(START_S + at_s) * NS], [40.0]))
    rows.append(BatchSeries("compute_busy_ratio", owner(99), [(START_S + at_s) * NS], [0.9]))
    return Samples("a", at_s, HOST, "nvml", rows)


def told_by(
    series: Mapping[str, str],
    *,
    watch: Watch | None = None,
    labels: Mapping[str, str] = JOB,
    start_s: int = 0,
) -> list[tuple[int, Alarm]]:
    """(second, alarm) of all that a watch tells of these signals of one device, a tick a second."""
    watch = Watch() if watch is None else watch
    columns = {name: values(each) for name, each in series.items()}
    (length,) = {len(each) for each in columns.values()}
    found = []
    for at in range(length):
        told = {name: each[at] for name, each in columns.items()}
        watch.take([second(start_s + at, told, labels)])
        found += [(start_s + at, alarm) for alarm in watch.tick((START_S + start_s + at) * NS)]
    return found


def fired(alarms: list[tuple[int, Alarm]], condition: str) -> list[int]:
    """When it began to be told, by second; once an alarm."""
    seen: dict[str, int] = {}
    for at, each in alarms:
        if each.condition == condition and each.end_ns is None:
            seen.setdefault(each.id, at)
    return list(seen.values())
