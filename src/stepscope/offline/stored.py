"""A report of a window that a store holds: marks of all ranks, counters, logs and traces in one diagnosis.

`window_of` takes what the store has, `diagnose_window` makes the report of it: the latter needs no store, and
so can run in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

import msgspec

from stepscope.model import redact
from stepscope.model.error import InputError
from stepscope.model.log import ABSENT_NS, Log
from stepscope.model.mark import RankMarks
from stepscope.model.report import Input
from stepscope.model.sample import Telemetry
from stepscope.model.stuck import Stack
from stepscope.model.text import Lang
from stepscope.offline.beside import hosts_of_log, hosts_of_telemetry, tidy
from stepscope.offline.joined import Diagnosed, Joining, joined
from stepscope.offline.read import Read, Wanted, read_all
from stepscope.store.contract import Store

FORMAT = "stored"


@dataclass(frozen=True, slots=True)
class Window:
    """What a store holds of one run of a job in [start, end). `traces` are paths."""

    job: str
    run: str
    start_ns: int
    end_ns: int
    telemetry: tuple[Telemetry, ...] = ()
    marks: tuple[RankMarks, ...] = ()
    logs: tuple[Log, ...] = ()
    traces: tuple[str, ...] = ()
    stacks: tuple[Stack, ...] = ()
    seen_ns: int | None = None
    """When anything of it was last heard; `None` where nothing was."""

    @property
    def name(self) -> str:
        """What it is called in a report."""
        start, end = (
            datetime.fromtimestamp(at // 1_000_000_000, timezone.utc) for at in (self.start_ns, self.end_ns)
        )
        return f"job {self.job}, run {self.run}, {start:%Y-%m-%dT%H:%M:%S} to {end:%H:%M:%S} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How the report is to be: as `stepscope.offline.diagnose` takes it."""

    lang: Lang = "en"
    thresholds: Mapping[str, Mapping[str, float]] | None = None
    steps: tuple[int, int] | None = None
    keep_identities: bool = True
    redact_key: str | None = None


def window_of(
    store: Store, job: str, run: str, start_ns: int, end_ns: int, traces: Sequence[str] = ()
) -> Window:
    """What the store holds of a run in [start, end)."""
    telemetry = store.telemetry(job, run, start_ns, end_ns)
    marks = tuple(map(from_here_on, store.marks(job, run, start_ns, end_ns)))
    logs = store.logs(job, run, start_ns, end_ns)
    heard = [int(series.at_ns[-1]) for part in telemetry for series in part.series if len(series)]
    heard += [each.last_ns for each in marks if each.last_ns is not None]
    heard += [event.at_ns for log in logs for event in log.events if event.at_ns is not None]
    stacks = store.stacks(job, run, start_ns, end_ns)
    heard += [each.at_ns for each in stacks if each.at_ns is not None]
    return Window(
        job, run, start_ns, end_ns, telemetry, marks, logs, tuple(traces), stacks, max(heard, default=None)
    )


def from_here_on(marks: RankMarks) -> RankMarks:
    """Records from before a window are not missing from it, nor what began before it and ends in it odd."""
    return marks if marks.gaps_ns else replace(marks, num_lost=0, num_missing=0, num_unmatched=0)


def diagnose_window(window: Window, asked: Asked, now_ns: Callable[[], int] = time.time_ns) -> Diagnosed:
    """The joint diagnosis of a window. InputError where the store holds nothing of it."""
    from stepscope.rules import load_catalog
    from stepscope.trace.load import discover

    if not (window.marks or window.telemetry or window.logs or window.traces):
        raise InputError(window.name, "nothing of it is stored", "give a time in which the job ran")
    catalog = load_catalog()
    if asked.thresholds:
        catalog = catalog.with_thresholds({rule: dict(row) for rule, row in asked.thresholds.items()})
    reads = read_all(window.traces, Wanted(asked.steps), 1, None, discover)
    if window.marks or window.telemetry or window.logs or window.stacks:
        reads.append(_read(window))
    return joined(
        reads,
        Joining(
            catalog=catalog,
            job=window.job,
            lang=asked.lang,
            steps=asked.steps,
            keep_identities=asked.keep_identities,
            redact_key=asked.redact_key,
            now_ns=now_ns(),
        ),
    )


def diagnose_stored(
    store: Store,
    job: str,
    run: str,
    start_ns: int,
    end_ns: int,
    *,
    traces: Sequence[str] = (),
    **asked: Any,
) -> Diagnosed:
    """The report of a stored window: as `stepscope.offline.diagnosed` on a spool of the same time. `asked` as
    `Asked` has it. InputError where nothing of it is stored."""
    return diagnose_window(window_of(store, job, run, start_ns, end_ns, traces), Asked(**asked))


def _read(window: Window) -> Read:
    """A window as one input, as a spool is."""
    parts = tuple(tidy(part) for part in window.telemetry)
    times = [int(at) for part in parts for s in part.series if len(s) for at in (s.at_ns[0], s.at_ns[-1])]
    times += [each.start_ns for each in window.marks if each.start_ns is not None]
    times += [each.last_ns for each in window.marks if each.last_ns is not None]
    known = hosts_of_telemetry(parts)
    known = known | redact.Identities(
        hosts=frozenset(each.identity.host for each in window.marks if each.identity.host)
    )
    for log in window.logs:
        known = known | hosts_of_log(log)
        if log.progress is not None:
            times += [int(at) for at in log.progress.at_ns if at != ABSENT_NS]
    given = Input(
        kind="telemetry",
        format=FORMAT,
        name=window.name,
        sha256=sha256(msgspec.json.encode([window.name, window.seen_ns])).hexdigest(),
        events=sum(part.num_samples for part in parts)
        + sum(len(each.steps) + len(each.phases) for each in window.marks),
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        redacted=sum(part.num_redacted for part in parts),
    )
    return Read(
        given,
        window.name,
        telemetry=parts,
        logs=window.logs,
        marks=window.marks,
        stacks=window.stacks,
        read_ns=window.seen_ns,
        known=known,
    )
