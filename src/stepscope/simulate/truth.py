"""What is true of a simulated run: for tests of what was found in its traces, and never read by what finds
it."""

from __future__ import annotations

import dataclasses
from typing import Any

from stepscope.simulate.clock import clock_of
from stepscope.simulate.cluster import Cluster
from stepscope.simulate.config import START_NS, Config, Recording
from stepscope.simulate.counter.meter import BIN_NS
from stepscope.simulate.counter.place import Place, host_of, num_nodes, places
from stepscope.simulate.counter.scrape import Collected, scraped_ns
from stepscope.simulate.counter.timeline import Timeline
from stepscope.simulate.fault import FAULTS, Chosen, ranks_of
from stepscope.simulate.group import groups_in
from stepscope.simulate.logs.train import style_of

SCHEMA = "stepscope.truth/1"


def truth_of(cluster: Cluster) -> dict[str, Any]:
    """Clocks, faults, step times and who was last where, as JSON values. Times are true nanoseconds."""
    config = cluster.config
    without = Cluster(config, (), is_metered=False) if config.faults else cluster
    steps, healthy = _steps(cluster), _steps(without)
    for row, other in zip(steps, healthy, strict=False):  # a hang ends before
        if config.faults:
            row["dur_ns_without"] = other["dur_ns"]
    given = dataclasses.asdict(config)
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "arguments": {**given, "faults": [str(each) for each in config.faults]},
        "start_ns": START_NS,
        "ranks": [_rank(cluster, place) for place in places(config)],
        "faults": [
            {
                "name": chosen.name,
                "severity": chosen.severity if chosen.magnitude is None else None,
                "magnitude": chosen.much,
                "unit": FAULTS[chosen.name].unit,
                "steps": _fault_steps(config, chosen),
                "onset_ns": _onset_ns(cluster, _fault_steps(config, chosen)[0]),
                **_subject(config, ranks_of(chosen, culprit, config.ranks, config.pipeline_stages)),
                "reason": FAULTS[chosen.name].reason,
            }
            for chosen, culprit in cluster.faults
        ],
        "step_ns": _mean(steps),
        "steps": steps,
    }
    if config.faults:
        made["step_ns_without"] = _mean(healthy)
    if config.telemetry is not None:
        made["telemetry"] = _telemetry(cluster, config.telemetry)
    made["collectives"] = _collectives(cluster)
    return made


def _fault_steps(config: Config, chosen: Chosen) -> list[int]:
    """First and last step of a fault. A run that hangs does so in a step that nobody finishes."""
    if chosen.name == "hang" and config.hang_step is not None:
        return [config.hang_step, config.hang_step]
    last = config.steps - 1 if chosen.last is None else min(chosen.last, config.steps - 1)
    return [chosen.first or 0, last]


def _onset_ns(cluster: Cluster, step: int) -> int:
    """When the step before was done on the last device."""
    if not step:
        return START_NS
    return max(ends[min(step, len(ends)) - 1] for ends in cluster.step_end_ns)


def _subject(config: Config, ranks: list[int]) -> dict[str, Any]:
    """Ranks, and the devices and hosts that they are on."""
    where = places(config)
    return {
        "ranks": ranks,
        "devices": [where[rank].uuid for rank in ranks],
        "nodes": sorted({where[rank].host for rank in ranks}),
    }


def _telemetry(cluster: Cluster, recording: Recording) -> dict[str, Any]:
    """Of each host: how old its counters are when they are scraped, and the clock of what scrapes."""
    timeline = Timeline(cluster)
    nodes = []
    for number in range(num_nodes(cluster.config)):
        at = Collected.of(timeline, number, recording)
        lags = [at.lag_ns(true_ns) for true_ns in scraped_ns(timeline, number, recording)]
        known = [lag for lag in lags if lag is not None]
        nodes.append(
            {
                "node": number,
                "host": host_of(cluster.config, number),
                "lag_ns": round(sum(known) / max(len(known), 1)),
                "lag_range_ns": [min(known, default=0), max(known, default=0)],
                "skew_ns": round(1e6 * recording.skew_ms),
                "num_scrapes": len(known),
            }
        )
    return {
        "collect_ns": recording.collect_ms * 1_000_000,
        "scrape_ns": recording.scrape_ms * 1_000_000,
        "start_ns": timeline.start_ns,
        "steps_end_ns": timeline.end_ns,
        "end_ns": timeline.start_ns + timeline.num_bins * BIN_NS,
        "log_style": style_of(cluster.config),
        "nodes": nodes,
    }


def _mean(steps: list[dict[str, int]]) -> int:
    return round(sum(row["dur_ns"] for row in steps) / len(steps))


def _steps(cluster: Cluster) -> list[dict[str, int]]:
    """A step of the job ends when the last device has done it, and lasts from the end of the one before."""
    ends = [max(column) for column in zip(*cluster.step_end_ns, strict=True)]
    starts = [START_NS, *ends[:-1]]
    return [
        {"step": number, "end_ns": end, "dur_ns": end - start}
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _rank(cluster: Cluster, place: Place) -> dict[str, Any]:
    rank = place.rank
    clock, groups = clock_of(cluster.config, rank), groups_in(cluster.config, rank)
    return {
        "rank": rank,
        "offset_ns": clock.offset_ns,
        "drift_ppm": clock.drift_ppm,
        "base_ns": clock.base_ns,
        "stage": groups.stage,
        "replica": groups.replica,
        "host": place.host,
        "pid": place.pid,
        "device": {"index": place.index, "uuid": place.uuid, "pci_bus_id": place.pci_bus_id},
        "step_end_ns": cluster.step_end_ns[rank],
    }


def _collectives(cluster: Cluster) -> list[dict[str, Any]]:
    """One row each, by when the last rank came: `wait_ns` is of `ranks`, in their order."""
    rows = []
    for (lane, number), meeting in cluster.meetings.by_key.items():
        exchange, start = meeting.exchange, meeting.start_ns
        if meeting.step not in cluster.config.traced:
            continue
        latest = max(start.values())
        ranks = list(exchange.members)
        rows.append(
            {
                "group": exchange.group.name,
                "kind": "send_recv" if exchange.source is not None else exchange.kind,
                "lane": lane,
                "seq": number,
                "step": meeting.step,
                "bytes": 2 * max(exchange.num_in, exchange.num_out),
                "ranks": ranks,
                "last_rank": max(ranks, key=lambda rank: start[rank]),
                "last_start_ns": latest,
                "transfer_ns": meeting.transfer_ns,
                "wait_ns": [latest - start[rank] for rank in ranks],
            }
        )
    rows.sort(key=lambda row: (row["last_start_ns"], row["lane"]))
    return rows
