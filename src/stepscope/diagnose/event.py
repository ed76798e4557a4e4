"""Events of logs and counters, each once, and what Xids say of a device. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.diagnose.signal import device_of
from stepscope.model import report
from stepscope.model.log import Log, LogEvent
from stepscope.model.sample import Mark, Owner, Telemetry
from stepscope.model.xid import Incident, incidents

MOST_EVENTS = 200
"""Events of a report: the gravest, then the latest."""
_SEVERITY = {"critical": 0, "warning": 1, "info": 2}


AFTER_NS = 600_000_000_000
"""A fault that ends a job is logged up to so long after what was last seen of it."""


def xid_incidents(
    telemetry: Sequence[Telemetry], logs: Sequence[Log], during: tuple[int, int] | None = None
) -> tuple[Incident, ...]:
    """Xids of all sources, those that belong together as one. A kernel log goes back to the host's start:
    what lies outside of `during`, or has no time to tell, is history, and left out."""
    seen: list[Mark | LogEvent] = [mark for source in telemetry for mark in source.marks]
    seen += [event for log in logs for event in log.events]
    return tuple(each for each in incidents(seen) if during is None or _is_during(each, during))


def _is_during(told: Incident, during: tuple[int, int]) -> bool:
    if told.start_ns is None or told.end_ns is None:
        return False
    return told.end_ns >= during[0] and told.start_ns <= during[1] + AFTER_NS


def events_of(
    told: Sequence[Incident],
    telemetry: Sequence[Telemetry],
    logs: Sequence[Log],
    owners: Sequence[Owner] = (),
    named: Mapping[tuple[str | int | None, ...], report.Device] = {},
) -> tuple[report.Event, ...]:
    """What happened, in order of time; `told` are the Xids,
    `named` how the report names the devices of owners. One that may be old is none of this time's."""
    found: list[report.Event] = []
    for each in told:
        if each.start_ns is not None and each.is_new:
            owner = next((o for o in owners if is_of(each, o)), None)
            found.append(
                report.Event(
                    at_ns=each.start_ns,
                    kind="xid",
                    severity=each.severity,
                    text=each.text,
                    code=each.code,
                    device=named.get(owner.key, device_of(owner)) if owner is not None else None,
                )
            )
    for log in logs:
        for event in log.events:
            if event.what != "xid" and event.at_ns is not None:
                found.append(
                    report.Event(
                        at_ns=event.at_ns,
                        kind=event.kind,  # type: ignore[arg-type]
                        severity=event.severity,  # type: ignore[arg-type]
                        text=event.text,
                        code=event.code,
                        rank=event.rank if event.rank is not None else log.rank,
                    )
                )
    for source in telemetry:
        for mark in source.marks:
            if mark.kind != "xid" and mark.is_new:
                found.append(
                    report.Event(
                        at_ns=mark.at_ns,
                        kind=mark.kind,  # type: ignore[arg-type]
                        severity="warning",
                        text=mark.text,
                        code=mark.code,
                        device=named.get(mark.owner.key, device_of(mark.owner))
                        if mark.owner is not None
                        else None,
                    )
                )
    gravest = sorted(found, key=lambda event: (_SEVERITY[event.severity], -event.at_ns))[:MOST_EVENTS]
    return tuple(sorted(gravest, key=lambda event: event.at_ns))


def xid_numbers(told: Sequence[Incident], owner: Owner, is_told: bool) -> dict[str, float]:
    """`grave_xids` and `milder_xids` of one device; absent where nothing would have told of one."""
    mine = [each for each in told if each.is_new and is_of(each, owner)]
    if not is_told and not mine:
        return {}
    grave = sum(each.severity == "critical" for each in mine)
    milder = sum(each.severity == "warning" for each in mine)
    return {"grave_xids": float(grave), "milder_xids": float(milder)}


def is_of(told: Incident, owner: Owner) -> bool:
    """Whether an incident hit this device first: consequences on others are none of theirs."""
    if not told.devices or (told.host and owner.host and told.host != owner.host):
        return False
    names = (owner.pci_bus_id, owner.uuid, f"gpu{owner.index}" if owner.index is not None else None)
    return told.devices[0] in names
