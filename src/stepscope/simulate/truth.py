"""What is true of a simulated run: for tests of what was found in its traces, and never read by what finds
it."""

from __future__ import annotations

import dataclasses
from typing import Any

from stepscope.simulate.clock import clock_of
from stepscope.simulate.cluster import Cluster
from stepscope.simulate.config import START_NS
from stepscope.simulate.fault import FAULTS, ranks_of
from stepscope.simulate.group import groups_in

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
        "ranks": [_rank(cluster, rank) for rank in range(config.ranks)],
        "faults": [
            {
                "name": chosen.name,
                "severity": chosen.severity,
                "magnitude": chosen.much,
                "unit": FAULTS[chosen.name].unit,
                "steps": [
                    chosen.first or 0,
                    config.steps - 1 if chosen.last is None else min(chosen.last, config.steps - 1),
                ],
                "ranks": ranks_of(chosen, culprit, config.ranks, config.pipeline_stages),
                "reason": FAULTS[chosen.name].reason,
            }
            for chosen, culprit in cluster.faults
        ],
        "step_ns": _mean(steps),
        "steps": steps,
    }
    if config.faults:
        made["step_ns_without"] = _mean(healthy)
    made["collectives"] = _collectives(cluster)
    return made


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


def _rank(cluster: Cluster, rank: int) -> dict[str, Any]:
    clock, groups = clock_of(cluster.config, rank), groups_in(cluster.config, rank)
    return {
        "rank": rank,
        "offset_ns": clock.offset_ns,
        "drift_ppm": clock.drift_ppm,
        "base_ns": clock.base_ns,
        "stage": groups.stage,
        "replica": groups.replica,
        "step_end_ns": cluster.step_end_ns[rank],
    }


def _collectives(cluster: Cluster) -> list[dict[str, Any]]:
    """One row each, by when the last rank came: `wait_ns` is of `ranks`, in their order."""
    rows = []
    for (lane, number), meeting in cluster.meetings.by_key.items():
        exchange, start = meeting.exchange, meeting.start_ns
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
