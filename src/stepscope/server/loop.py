"""What runs behind the paths: the watches, captures, incidents and their cards, channels, and what becomes of
a change. Each part is a thread that hears of the others by the feed."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from stepscope.act.capture.request import Request
from stepscope.act.notify.deliver import Line, Notices
from stepscope.detect.watch import Watch
from stepscope.model.error import UsageError
from stepscope.model.incident import Incident, Noted
from stepscope.model.text import Lang
from stepscope.server.after import After
from stepscope.server.by_hand import WHY, ByHand
from stepscope.server.capture import Captures
from stepscope.server.hourly import Hourly
from stepscope.server.judge import Judge, Settings, Worker
from stepscope.server.judge.record import amended
from stepscope.server.parts import Parts
from stepscope.server.reference import Reference
from stepscope.server.tell import Composed
from stepscope.server.watching import Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWanted:
    """What the loop is to be: `lines` are the channels, `link` the server's address as people reach it,
    `alerts` a site's thresholds of alarms, `key` that of pseudonyms in messages."""

    lines: Sequence[Line] = ()
    link: str | None = None
    alerts: Mapping[str, Any] | None = None
    lang: Lang = "en"
    key: bytes = b""


def closed_loop(parts: Parts, stack: ExitStack, wanted: LoopWanted, err: Callable[[str], None]) -> Parts:
    """Start every part; `stack` ends each, in the opposite order. The parts that the paths need are in what
    is returned. UsageError where thresholds make no sense."""
    store, feed, now_ns = parts.store, parts.feed, parts.clock_ns
    key = wanted.key or own_key(parts)
    watch = Watch(thresholds=wanted.alerts)
    captures = Captures(store, feed, now_ns, folder=str(parts.folder) if parts.folder else None)
    worker = Worker()
    after = After(store, feed, now_ns, amend=lambda id, act: amended(store, feed, id, act))
    reference = Reference(store, feed, captures, worker.diagnose, now_ns, wanted.lang)
    hourly = Hourly(store, worker.diagnose, now_ns, wanted.lang)
    by_hand = ByHand(
        store, feed, worker.diagnose, now_ns, wanted.lang, thresholds=lambda: thresholds_of(parts)
    )
    stack.callback(by_hand.stop)
    also = tuple(sorted({each.settings.lang for each in wanted.lines} - {wanted.lang}))
    judge = Judge(
        store,
        feed,
        captures,
        lambda window, asked: after.with_history(worker.diagnose(window, asked)),
        now_ns,
        Settings(lang=wanted.lang, also=also),
        thresholds=lambda: thresholds_of(parts),
        ticks=(by_hand.tick, reference.tick, hourly.tick),
        notes_of=reference.notes,
    )
    notices = Notices(
        store, wanted.lines, Composed(store, wanted.link), now_ns, key=key, say=err,
        told=lambda id, channel, at_ns: _told(parts, id, channel, at_ns),
        count=lambda channel, outcome: parts.tally.add(
            "stepscope_server_notices_total", channel=channel, outcome=outcome
        ),
    )  # fmt: skip
    stack.callback(worker.close)
    worker.start()
    for name, start, stop in (
        ("captures", captures.start, captures.stop),
        ("notices", notices.start, notices.stop),
        ("judge", judge.start, judge.stop),
    ):
        stack.callback(stop)
        if name == "notices":
            _listen(parts, notices, stack)
        start()
    watching = Watching(store, feed, now_ns, watch, say=err)
    stack.callback(watching.stop)
    watching.start()
    _run_after(after, stack, err)
    return replace(
        parts,
        ask_capture=lambda job, run, ranks, num_steps, by: _asked(
            parts, captures, job, run, ranks, num_steps, by
        ),
        orders=captures.orders,
        orders_async=captures.orders_async,
        take_trace=captures.take_trace,
        incidents=after,
    )


def own_key(parts: Parts) -> bytes:
    """The key of this store's pseudonyms, made once: a host keeps its name in all messages."""
    found = parts.store.get("key", "pseudonyms")
    if found is None:
        found = secrets.token_hex(32).encode()
        parts.store.put("key", "pseudonyms", found, at_ns=parts.clock_ns())
    return found


def thresholds_of(parts: Parts) -> dict[str, dict[str, float]]:
    """A site's own thresholds of rules, as they are now."""
    return {
        each.id: msgspec.json.decode(each.body, type=dict[str, float])
        for each in parts.store.documents("threshold")
    }


def _told(parts: Parts, id: str, channel: str, at_ns: int) -> None:
    """A channel took it: the first one makes it told."""

    def first(incident: Incident) -> Incident:
        return incident if incident.told_ns is not None else msgspec.structs.replace(incident, told_ns=at_ns)

    amended(parts.store, parts.feed, id, first, Noted(at_ns=at_ns, what=f"told over {channel}"))


def _listen(parts: Parts, notices: Notices, stack: ExitStack) -> None:
    """A card is told; of an incident only what becomes of it after its card."""
    known: set[str] = {each.id for each in parts.store.documents("incident") if b'"told_ns"' in each.body}

    def card(what: tuple[Incident, Any]) -> None:
        known.add(what[0].id)
        notices.take(what[0])

    def incident(what: Incident) -> None:
        if what.id in known:
            notices.take(what)

    stack.callback(parts.feed.listen("card", card))
    stack.callback(parts.feed.listen("incident", incident))


def _asked(
    parts: Parts,
    captures: Captures,
    job: str,
    run: str | None,
    ranks: Sequence[int],
    num_steps: int,
    by: str,
) -> dict[str, Any]:
    rows = parts.store.runs(job)
    if run is None and rows:
        run = rows[0].run
    if run is None or not any(row.run == run for row in rows):
        raise UsageError(f"job {job}: no such run; see /api/v1/runs")
    request = Request(num_steps=num_steps, ranks=frozenset(ranks) if ranks else None)
    made = captures.ask(job, run, request, by=by, why=WHY)
    found: dict[str, Any] = msgspec.to_builtins(made)
    return found


def _run_after(after: After, stack: ExitStack, err: Callable[[str], None]) -> None:
    stop = threading.Event()
    thread = threading.Thread(
        target=after.run, args=(stop,), kwargs={"err": err}, name="stepscope-after", daemon=True
    )
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(20)

    stack.callback(end)
