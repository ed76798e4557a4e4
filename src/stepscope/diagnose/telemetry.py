"""Telemetry and logs beside the ranks: who is who, on one time axis, and every device's numbers. Pure.

Devices of which only counters are known become rows of their own: rules judge what they can of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec
import numpy as np

from stepscope.align import representative as of_window
from stepscope.align.device import OwnerFacts, TraceDevice, assign, is_on, pci_bus_id
from stepscope.align.lag import Lag, lag_of
from stepscope.analyse.telemetry import beside, check, device, host, jitter, rest
from stepscope.analyse.telemetry import log as of_log
from stepscope.analyse.telemetry.scope import scope, without
from stepscope.analyse.telemetry.table import Rows, Samples, samples_of
from stepscope.diagnose.event import events_of, xid_incidents, xid_numbers
from stepscope.diagnose.memory import observed_device
from stepscope.diagnose.progress import Progressed, progressed
from stepscope.diagnose.signal import device_of, named_as, summaries
from stepscope.diagnose.source_issue import LOG_ELSEWHERE, called, issues_of
from stepscope.model import report
from stepscope.model.activity import Activity
from stepscope.model.analysis import DeviceAnalysis, RankAnalysis
from stepscope.model.feature import Observed
from stepscope.model.hardware import hardware_of
from stepscope.model.log import Log
from stepscope.model.peer import PeerTable
from stepscope.model.sample import Owner, Series, Telemetry
from stepscope.model.trace import I64
from stepscope.model.xid import Incident

Key = tuple[str | int | None, ...]
NEAR_NS = 60_000_000_000
NEAR_PERIODS = 5
"""Readings no further from the trace than this are of the same run."""
SLOWDOWNS = ("matrix_slowdown", "other_slowdown")
ENOUGH_ROWS = 5
"""Readings within the trace from which on it is judged by them alone, and not by the whole recording."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device's counters: which place (analysis, device) of the traces it is, `None` where that is not
    known, and the rows that are judged."""

    samples: Samples
    place: tuple[int, int] | None
    rows: Rows
    """Of the traced time, else of the run."""
    run: Rows
    """Of the run."""
    before: Rows
    """Before the first step; none of a device that a trace tells of, for a trace is of steps."""
    source: str
    how: str = ""
    apart_ns: int = 0
    """How far its readings lie from the trace of its rank: then they say nothing of it."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What telemetry and logs add to a report; everything empty without them."""

    analyses: tuple[RankAnalysis, ...]
    """The analyses, their devices with further numbers."""
    alone: tuple[Observed, ...] = ()
    """Devices of which only counters are known."""
    devices: tuple[Device, ...] = ()
    clocks: tuple[report.TelemetryClock, ...] = ()
    lags: Mapping[str, Lag] = field(default_factory=dict)
    signals: tuple[report.SignalSummary, ...] = ()
    events: tuple[report.Event, ...] = ()
    progress: tuple[report.Progress, ...] = ()
    representative: report.Representative | None = None
    issues: tuple[report.HealthIssue, ...] = ()
    has_any: bool = False


def beside_ranks(
    analyses: Sequence[RankAnalysis],
    telemetry: Sequence[Telemetry],
    logs: Sequence[Log],
    tables: Sequence[PeerTable] = (),
    of_job: Mapping[str, float] = MappingProxyType({}),
) -> Beside:
    """Join telemetry and logs to the ranks. Without either nothing is changed. `of_job` are further numbers
    that hold for every rank."""
    if not telemetry and not logs and not of_job:
        return Beside(tuple(analyses))
    doubted = scope(telemetry)
    telemetry = without(telemetry, doubted)
    found = samples_of(telemetry, ("device",))
    hosts = samples_of(telemetry, ("host",))
    assigned = _assigned(analyses, found, telemetry, logs, tables)
    lags = {source.name: _lag(source, analyses, found, assigned) for source in telemetry}
    end = max((int(each.at_ns[-1]) for each in (*found, *hosts) if len(each)), default=None)
    steps = progressed(analyses, logs, end)
    begin = min((int(each.at_ns[0]) for each in (*found, *hosts) if len(each)), default=None)
    is_elsewhere = steps.is_apart(*_extent_of(analyses, begin, end))
    if is_elsewhere:
        steps = Progressed(rows=steps.rows)
    devices = [
        _device(each, assigned.get(each.owner.key), analyses, telemetry, lags, steps) for each in found
    ]
    hosts = [_with_lag(each, telemetry, lags) for each in hosts]
    means = {n: mean for n, each in enumerate(devices) if (mean := _busy_mean(each)) is not None}
    peers = beside.below_peers(means)
    job = of_log.numbers(logs, end if not steps.is_over and not is_elsewhere else None)
    job |= beside.silence(steps.last_step_ns, steps.until_ns, steps.checkpoints, steps.evaluations)
    job |= of_job
    xids = xid_incidents(telemetry, logs, _extent(analyses, begin, end, steps))
    highest = _highest_clocks(devices)
    own = frozenset(pid for analysis in analyses for pid in analysis.pids)
    every = [
        _numbers(n, each, analyses, telemetry, hosts, steps, job, own, peers, xids, highest)
        | doubted.numbers(each.samples.owner)
        for n, each in enumerate(devices)
    ]
    result, alone = _given(analyses, devices, every, job, xids, logs, hosts)
    of_hosts = {h.owner.key: source.name for h in hosts if (source := _source_of(h, telemetry)) is not None}
    clocks = tuple(_clock(source, lags[source.name]) for source in telemetry)
    return Beside(
        analyses=result,
        alone=alone,
        devices=tuple(devices),
        clocks=clocks,
        lags=lags,
        signals=summaries(devices, hosts, analyses, of_hosts),
        events=events_of(
            xids, telemetry, logs, [each.samples.owner for each in devices], _named(devices, result)
        ),
        progress=steps.rows,
        representative=_representative(analyses, devices, telemetry, steps),
        issues=(
            *doubted.issues(),
            *issues_of(telemetry, devices, every, analyses, logs),
            *((LOG_ELSEWHERE,) if is_elsewhere else ()),
        ),
        has_any=True,
    )


Place = tuple[int, int]


def _assigned(
    analyses: Sequence[RankAnalysis],
    found: Sequence[Samples],
    telemetry: Sequence[Telemetry],
    logs: Sequence[Log],
    tables: Sequence[PeerTable],
) -> dict[Key, tuple[Place, str]]:
    """Owner -> the place (analysis, device) of the traces that it is, and by what that is known."""
    hosts = {table.rank: table.host for table in tables}
    nccl = [log.nccl for log in logs if log.nccl is not None]
    bus = {rank: bus for each in nccl for rank, bus in each.devices.items()}
    index = {rank: number for each in nccl for rank, number in each.device_index.items()}
    places: list[Place] = []
    sides: list[TraceDevice] = []
    for n, analysis in enumerate(analyses):
        for m, each in enumerate(analysis.devices):
            if each.accounting.device.kind == "cpu" or (each.tells is not None and len(analysis.uuids) != 1):
                continue
            # A process with several devices names none of them, nor does its only bus id.
            is_only = len(analysis.devices) == 1
            rank = analysis.rank
            places.append((n, m))
            sides.append(
                TraceDevice(
                    rank=rank,
                    index=each.accounting.device.index,
                    host=hosts.get(rank) if each.tells is None else analysis.host,
                    uuid=analysis.uuids[0] if len(analysis.uuids) == 1 and is_only else None,
                    model=each.accounting.device.name,
                    pid=analysis.pids[0] if len(analysis.pids) == 1 and is_only else None,
                    nccl_pci_bus_id=bus.get(rank) if rank is not None and is_only else None,
                    nccl_index=index.get(rank) if rank is not None and is_only else None,
                    activity=each.activity,
                )
            )
    told = assign(sides, [_facts(each.owner, telemetry) for each in found])
    return {
        each.owner.key: (place, each.method)
        for place, each in zip(places, told, strict=True)
        if each.owner is not None
    }


def _facts(owner: Owner, telemetry: Sequence[Telemetry]) -> OwnerFacts:
    """What the telemetry knows of one device: its processes, labels and series."""
    pids: set[int] = set()
    labels: dict[str, str] = {}
    series: list[Series] = []
    for source in telemetry:
        for each in source.series:
            if each.owner.key == owner.key:
                series.append(each)
            elif each.owner.kind == "process" and each.owner.pid is not None and is_on(each.owner, owner):
                pids.add(each.owner.pid)
        for other, told in source.labels.items():
            if other.key == owner.key:
                labels |= told
    return OwnerFacts(owner, frozenset(pids), labels, tuple(series))


def _lag(
    source: Telemetry,
    analyses: Sequence[RankAnalysis],
    found: Sequence[Samples],
    assigned: Mapping[Key, tuple[Place, str]],
) -> Lag:
    """The lag of one source against all devices of the traces that it speaks of."""
    activities: dict[Owner, Activity] = {}
    for each in found:
        if each.owner.key in assigned:
            activity = _of(analyses, assigned[each.owner.key][0]).activity
            if activity is not None:
                activities[each.owner] = activity
    return lag_of(source, activities)


def _named(
    devices: Sequence[Device], analyses: Sequence[RankAnalysis]
) -> dict[tuple[str | int | None, ...], report.Device]:
    """Owner -> how the report names its device, of those that are of a trace."""
    return {
        each.samples.owner.key: named_as(each.samples.owner, _of(analyses, each.place).accounting.device)
        for each in devices
        if each.place is not None
    }


def _of(analyses: Sequence[RankAnalysis], place: tuple[int, int]) -> DeviceAnalysis:
    return analyses[place[0]].devices[place[1]]


def _source_of(samples: Samples, telemetry: Sequence[Telemetry]) -> Telemetry | None:
    """The source with most readings of an owner."""

    def count(source: Telemetry) -> int:
        return max((len(s) for s in source.series if s.owner.key == samples.owner.key), default=0)

    best = max(telemetry, key=count, default=None)
    return best if best is not None and count(best) else None


def _with_lag(samples: Samples, telemetry: Sequence[Telemetry], lags: Mapping[str, Lag]) -> Samples:
    """The samples on the trace's axis, as far as the lag of their source is known."""
    source = _source_of(samples, telemetry)
    if source is None:
        return samples
    lag = lags[source.name]
    return replace(
        samples,
        lag_ns=lag.used_ns,
        window_ns=lag.window_ns or 0,
        # Of lags a period apart the one that a collect interval allows is used; the report says so.
        is_lag_known=lag.status in ("found", "declared")
        or (lag.status == "ambiguous" and bool(lag.window_ns) and 2 * lag.slack_ns < (lag.window_ns or 0)),
    )


def _device(
    samples: Samples,
    who: tuple[Place, str] | None,
    analyses: Sequence[RankAnalysis],
    telemetry: Sequence[Telemetry],
    lags: Mapping[str, Lag],
    steps: Progressed,
) -> Device:
    source = _source_of(samples, telemetry)
    samples = _with_lag(samples, telemetry, lags)
    place, how = who if who is not None else (None, "")
    rows = np.ones(len(samples), dtype=bool)
    if steps.first_step_ns is not None:
        during = samples.middle_ns >= steps.first_step_ns
        if steps.is_over and steps.last_step_ns is not None:
            during &= samples.middle_ns <= steps.last_step_ns
        rows = np.asarray(during, dtype=bool) if during.sum() >= ENOUGH_ROWS else rows
    run, apart = rows, 0
    activity = _of(analyses, place).activity if place is not None else None
    is_traced = activity is not None and place is not None and _of(analyses, place).tells is None
    before = np.zeros(len(samples), dtype=bool)
    if steps.first_step_ns is not None and not is_traced:
        before = np.asarray(samples.middle_ns < steps.first_step_ns, dtype=bool)
    if activity is not None and len(samples):
        middle = samples.middle_ns
        away = np.maximum(np.maximum(activity.start_ns - middle, middle - activity.end_ns), 0)
        apart = int(away.min())
        slack = max(NEAR_NS, NEAR_PERIODS * samples.period_ns)
        if apart > slack:
            place = None
        else:
            # Those in the trace, else the nearest ones: what happened elsewhere in the run is not the
            # trace's.
            apart = 0
            nearest = np.sort(away)[min(ENOUGH_ROWS, len(away)) - 1]
            rows = np.asarray(away <= min(int(nearest), slack), dtype=bool)
    return Device(samples, place, rows, run, before, source.name if source else "", how, apart)


def _highest_clocks(devices: Sequence[Device]) -> dict[str | None, float]:
    """Model -> the highest clock that any of several devices of it was seen at: what a peer reaches."""
    seen: dict[str | None, list[float]] = {}
    for each in devices:
        clock = each.samples.column("sm_clock_hertz")
        if not np.isnan(clock).all():
            seen.setdefault(each.samples.owner.model, []).append(float(np.nanpercentile(clock, 95)))
    return {model: max(clocks) for model, clocks in seen.items() if len(clocks) > 1}


def _busy_mean(each: Device) -> float | None:
    value = device.busy(each.samples)[each.rows]
    known = value[~np.isnan(value)]
    return float(known.mean()) if len(known) else None


def _host_of(samples: Samples, hosts: Sequence[Samples]) -> Samples | None:
    """The host that a device is in: by name, or the only one there is."""
    named = [each for each in hosts if each.owner.host == samples.owner.host]
    if len(named) == 1:
        return named[0]
    return hosts[0] if len(hosts) == 1 else None


def _numbers(
    which: int,
    each: Device,
    analyses: Sequence[RankAnalysis],
    telemetry: Sequence[Telemetry],
    hosts: Sequence[Samples],
    steps: Progressed,
    job: Mapping[str, float],
    own: frozenset[int],
    peers: Mapping[int, Mapping[str, float]],
    xids: Sequence[Incident],
    clocks: Mapping[str | None, float],
) -> dict[str, float]:
    """Every number of one device, by feature's name."""
    samples = each.samples
    referred = device.with_reference(samples, clocks.get(samples.owner.model))
    found = (
        dict(job) | device.numbers(referred, each.rows, each.run) | jitter.numbers(samples.take(each.rows))
    )
    found |= dict(peers.get(which, {}))
    known = hardware_of(samples.owner.model)
    least = samples.take(rest.rest(samples, each.run, each.before))
    found |= rest.numbers(least)
    stepping = steps.steps if steps.last_step_ns is not None else None
    if not steps.is_over:
        found |= beside.standstill(samples, steps.first_step_ns, steps.last_step_ns)
    found |= beside.quiet(least, stepping, steps.checkpoints, steps.evaluations, steps.first_step_ns)
    found |= beside.processes(telemetry, samples, own, device.memory_present(samples))
    found |= xid_numbers(xids, samples.owner, any(s.signal == "xid" for t in telemetry for s in t.series))
    for source in telemetry:
        if source.topology is not None:
            found |= beside.across_sockets(source.topology)
    mine = _host_of(samples, hosts)
    if mine is not None:
        found |= host.numbers(mine, _same_time(mine, samples, each.rows))
    found |= beside.way(found, known.link_bytes_per_second if known else None)
    if each.place is None:
        return found
    analysis = _of(analyses, each.place)
    found |= check.numbers(samples, analysis.activity, analysis.accounting)
    if found.get("counter_is_broken") == 1.0:
        found = {n: v for n, v in found.items() if not n.startswith(("compute_busy", "quiet_", "busy_"))}
    found |= {n: v for n, v in analysis.numbers.items() if n in SLOWDOWNS}
    if mine is not None and analysis.activity is not None:
        waits = check.predicted(samples, analysis.activity, "idle_input")
        found |= beside.faults_with_loader(mine, samples, waits)
        found |= beside.written_in(mine, *_slow(analysis))
    found |= beside.clock_numbers(found, analysis.accounting)
    return found | beside.contention(found, analysis.accounting)


def _slow(analysis: DeviceAnalysis) -> tuple[I64, I64]:
    """(starts, ends) of the windows of slow steps."""
    activity, variation = analysis.activity, analysis.accounting.variation
    none = np.empty(0, dtype=np.int64)
    if activity is None or activity.step_number is None or variation is None:
        return none, none
    start, end = activity.step_start_ns, activity.step_end_ns
    rows = np.isin(activity.step_number, variation.slow_steps)
    return (none, none) if start is None or end is None else (start[rows], end[rows])


def _same_time(other: Samples, samples: Samples, rows: Rows) -> Rows:
    """The readings of another owner in the time of these rows; all where they have none in common."""
    times = samples.middle_ns[rows]
    if not len(times):
        return np.ones(len(other), dtype=bool)
    slack = max(samples.period_ns, other.period_ns)
    inside = other.within(int(times[0]) - slack, int(times[-1]) + slack + 1)
    return inside if inside.any() else np.ones(len(other), dtype=bool)


def _extent_of(
    analyses: Sequence[RankAnalysis], begin: int | None, end: int | None
) -> tuple[int | None, int | None]:
    """The time of counters, else of the traces' steps."""
    if begin is not None:
        return begin, end
    steps = [step for analysis in analyses for step in analysis.steps]
    return (
        min((step.start_ns for step in steps), default=None),
        max((step.end_ns for step in steps), default=None),
    )


def _extent(
    analyses: Sequence[RankAnalysis], begin: int | None, end: int | None, steps: Progressed
) -> tuple[int, int] | None:
    """The time that is judged: of traces, counters and steps together; `None` where nothing has any."""
    starts = [step.start_ns for analysis in analyses for step in analysis.steps[:1]]
    ends = [step.end_ns for analysis in analyses for step in analysis.steps[-1:]]
    for each in (begin, end, steps.first_step_ns, steps.last_step_ns):
        if each is not None:
            starts.append(each)
            ends.append(each)
    return (min(starts), max(ends)) if starts else None


def _given(
    analyses: Sequence[RankAnalysis],
    devices: Sequence[Device],
    every: Sequence[Mapping[str, float]],
    job: Mapping[str, float],
    xids: Sequence[Incident],
    logs: Sequence[Log],
    hosts: Sequence[Samples],
) -> tuple[tuple[RankAnalysis, ...], tuple[Observed, ...]]:
    """The analyses with the numbers of their devices, and devices of which only counters are known.

    What logs say of the job holds for every device, a fault for the one that NCCL's log names by its bus id.
    Beside traces a device that is none of theirs says nothing of them: it is only shown.
    """
    of_place = {each.place: found for each, found in zip(devices, every, strict=True) if each.place}
    bus = {rank: bus for log in logs if log.nccl is not None for rank, bus in log.nccl.devices.items()}
    result = []
    for n, analysis in enumerate(analyses):
        told = pci_bus_id(bus.get(analysis.rank)) if analysis.rank is not None else None
        owner = Owner(pci_bus_id=told)
        faults = xid_numbers(xids, owner, False) if told and len(analysis.devices) == 1 else {}
        around = _of_its_host(analysis, hosts) if not devices or _is_marked(analysis) else {}
        mine = tuple(
            replace(each, numbers={**each.numbers, **of_place.get((n, m), {**job, **faults, **around})})
            for m, each in enumerate(analysis.devices)
        )
        result.append(replace(analysis, devices=mine))
    if analyses:
        return tuple(result), ()
    alone = [
        observed_device(device_of(each.samples.owner), found, None)
        for each, found in zip(devices, every, strict=True)
    ]
    if not devices:
        alone = [observed_device(report.Device(), job, None)] if job else []
        for name in dict.fromkeys(each.devices[0] for each in xids if each.devices and each.is_new):
            faults = xid_numbers(xids, Owner(pci_bus_id=name), True)
            alone.append(observed_device(report.Device(name=name), faults, None))
    return tuple(result), tuple(alone)


def _is_marked(analysis: RankAnalysis) -> bool:
    return any(each.tells is not None for each in analysis.devices)


def _of_its_host(analysis: RankAnalysis, hosts: Sequence[Samples]) -> dict[str, float]:
    """What the counters of its host say of a rank of which no counters of a device are known: the one of its
    name, or the only one."""
    if len(analysis.devices) != 1:
        return {}
    named = [each for each in hosts if analysis.host is not None and each.owner.host == analysis.host]
    chosen = named if named else list(hosts)
    activity = analysis.devices[0].activity
    if len(chosen) != 1:
        return {}
    mine, steps = chosen[0], analysis.steps
    inside = mine.within(steps[0].start_ns, steps[-1].end_ns) if steps else np.zeros(len(mine), dtype=bool)
    if steps and not inside.any() and not _is_marked(analysis):
        # A trace may be shorter than the time between two readings: then those next to it.
        inside = mine.within(steps[0].start_ns - mine.period_ns, steps[-1].end_ns + mine.period_ns)
    if not inside.any():
        return {}
    found = host.numbers(mine, inside)
    if activity is not None:
        found |= beside.faults_with_loader(mine, mine, check.predicted(mine, activity, "idle_input"))
        found |= beside.written_in(mine, *_slow(analysis.devices[0]))
    return found


def with_telemetry(
    clocks: report.Clocks | None, telemetry: tuple[report.TelemetryClock, ...]
) -> report.Clocks | None:
    """The clocks with those of telemetry; `None` where there is neither."""
    if not telemetry:
        return clocks
    return msgspec.structs.replace(clocks or report.Clocks(), telemetry=telemetry)


def _representative(
    analyses: Sequence[RankAnalysis],
    devices: Sequence[Device],
    telemetry: Sequence[Telemetry],
    steps: Progressed,
) -> report.Representative | None:
    """Whether the traced time looks like up to an hour around it, by the counters of the traces' devices;
    `None` where no device of a trace has counters."""
    times = [
        activity
        for each in devices
        if each.place is not None and (activity := _of(analyses, each.place).activity) is not None
    ]
    if not times:
        return None
    window = (min(each.start_ns for each in times), max(each.end_ns for each in times))
    told = []
    for each in devices:
        if each.place is not None:
            lag = each.samples.lag_ns + each.samples.window_ns // 2
            named = {
                f"{series.signal} of {called(each.samples.owner)}": series
                for source in telemetry
                for series in source.series
                if series.owner.key == each.samples.owner.key
            }
            told.append(of_window.representative(named, window, lag_ns=lag, during=steps.steps))
    differing = [each for each in told if each.status == "no"]
    chosen = (differing or [each for each in told if each.status == "yes"] or told)[0]
    return report.Representative(status=chosen.status, why=chosen.why)


def _clock(source: Telemetry, lag: Lag) -> report.TelemetryClock:
    return report.TelemetryClock(
        source=source.name,
        status=lag.status,
        window_ns=lag.window_ns,
        lag_ns=lag.lag_ns,
        lag_range_ns=lag.range_ns,
    )
