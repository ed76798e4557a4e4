"""`--perfetto`: the traces of a report and its findings in one file for the Perfetto viewer.

Several ranks lie on one clock, as far as the report could align theirs; a rank that it could not keeps its
own times, and its tracks say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from stepscope.export.again import traces
from stepscope.model import redact
from stepscope.model.report import TelemetryClock
from stepscope.model.sample import Owner, Telemetry
from stepscope.model.text import Lang
from stepscope.offline import Diagnosed
from stepscope.views.label import joined
from stepscope.views.perfetto import PerfettoFile, Written
from stepscope.views.perfetto.clock import clock_note, clocks_of, moved_idle, moved_report, moved_trace


def write(done: Diagnosed, sink: BinaryIO, lang: Lang = "en", telemetry: Sequence[Telemetry] = ()) -> Written:
    """Write every trace of the report, its telemetry, then what the report says of them; `lang` is the
    report's. Telemetry is redacted here as the report was."""
    file = PerfettoFile(sink)
    owners: list[str | None] = [None] * len(done.report.inputs)
    extents: list[tuple[int, int] | None] = [None] * len(done.report.inputs)
    clocks = clocks_of(done.report)
    # Telemetry has a file of its own too; with neither, the lack of a trace is said.
    for each in traces(done, with_analysis=True) if done.sources or not telemetry else ():
        rank = done.report.inputs[each.place].rank
        owner = joined((each.owner, clock_note(done.report.clocks, rank, lang)), lang)
        owners[each.place] = owner
        idle = [device.idle for analysis in each.analyses for device in analysis.devices if device.idle]
        clock = None if rank is None else clocks.get(rank)
        trace = each.trace
        if clock is not None:
            trace, idle = moved_trace(trace, clock), moved_idle(idle, clock)
        extents[each.place] = file.add_trace(trace, each.linked.activities, each.linked.is_far, owner)
        file.add_idle(idle, owner, lang)
        del each, trace, idle  # before the next one is read: the columns of two are twice the memory
    shown = [_redacted(each, done.redaction) for each in telemetry]
    file.add_telemetry(shown, _lags(done), lang, _ranks(done))
    file.add_report(moved_report(done.report, clocks), owners, extents, lang)
    return file.written


def outside_line(count: int) -> str | None:
    """What is said of samples and events that are not in a file for their time; `None` where all are."""
    if not count:
        return None
    return f"{count:,} samples and events of telemetry and logs lie long before or after the traces: left out"


def _lags(done: Diagnosed) -> dict[str, TelemetryClock]:
    """What is known of the lag of each source, by its name in the report."""
    known = done.report.clocks.telemetry if done.report.clocks is not None else ()
    return {each.source: each for each in known}


def _ranks(done: Diagnosed) -> dict[str, int]:
    """The rank of each device whose UUID and rank are both known."""
    return {
        each.device.uuid: each.rank
        for each in done.report.signals
        if each.device.uuid is not None and each.rank is not None
    }


def _redacted(telemetry: Telemetry, redaction: redact.Redaction) -> Telemetry:
    """The source with its name and its owners' as they may leave."""
    if redaction.keep_identities:
        return telemetry
    hosts = frozenset(each.owner.host for each in telemetry.series if each.owner.host)
    pseudonyms = redact.Pseudonyms(redaction.key, redaction.known | redact.Identities(hosts=hosts))
    seen: dict[Owner, Owner] = {}

    def shown(owner: Owner) -> Owner:
        if owner not in seen:
            seen[owner] = redact.map_strings(owner, pseudonyms.apply, frozenset(("kind",)))
        return seen[owner]

    series = tuple(replace(each, owner=shown(each.owner)) for each in telemetry.series)
    return replace(telemetry, name=pseudonyms.apply(telemetry.name), series=series)
