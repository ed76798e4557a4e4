"""Tells people: takes what becomes of incidents, and sends it over every channel that wants it, in a thread
of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from stepscope.act.notify.channel import Message, Sender, Settings
from stepscope.act.notify.outbox import (
    AFTER_OPEN,
    HOUR_NS,
    Event,
    Queued,
    after_failure,
    events_of,
    merged,
    next_free_ns,
    queued,
)
from stepscope.act.notify.silence import Silence, silenced_by
from stepscope.model.incident import Incident
from stepscope.model.notice import Notice
from stepscope.model.redact import Identities, Pseudonyms, map_strings, without_secrets
from stepscope.store.contract import Store

KIND = "notice"
MOST_KEPT = 10_000
IDLE_S = 30.0


class Composer(Protocol):
    """Gives what there is to tell of an incident now, and its text: `views.notice`."""

    def notice(self, incident: str, event: Event, settings: Settings) -> Notice | None:
        """`None` where the incident is not there any more."""
        ...

    def text(self, notice: Notice, markup: str) -> tuple[str, str]:
        """Title and body."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One channel that is set up."""

    settings: Settings
    sender: Sender


def prepared(
    notice: Notice, key: str, line: Line, text: Callable[[Notice, str], tuple[str, str]], secret: bytes
) -> Message:
    """The message of one channel: without secrets, and without identities unless it may show them; `secret`
    is the key of their pseudonyms."""
    notice = map_strings(notice, lambda words: without_secrets(words)[0])
    if not line.settings.shows_identities:
        names = Pseudonyms(secret, Identities(hosts=frozenset(notice.hosts)))
        hosts = tuple(names.name("host", host) for host in notice.hosts)
        notice = msgspec.structs.replace(map_strings(notice, names.apply), hosts=hosts)
    title, body = text(notice, line.sender.markup)
    return Message(key, notice, title, body)


class Notices:
    """`take` from any thread; `start` and `stop` its own thread; or `step` by step, where a test turns the
    clock. `key` is that of the pseudonyms. `told` hears of an incident that a channel took, `say` of
    a message that was given up, and `count` (channel; sent, failed, silenced or held) of each."""

    def __init__(
        self,
        store: Store,
        lines: Sequence[Line],
        composer: Composer,
        now_ns: Callable[[], int],
        *,
        key: bytes,
        told: Callable[[str, str, int], None] = lambda incident, channel, at_ns: None,
        say: Callable[[str], None] = lambda line: None,
        count: Callable[[str, str], None] = lambda channel, outcome: None,
        random_: random.Random | None = None,
    ) -> None:
        self._store, self._composer, self._now_ns = store, composer, now_ns
        self._lines = {each.settings.name: each for each in lines}
        self._key, self._told, self._say, self._count = key, told, say, count
        self._random = random_ or random.Random()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._rows: dict[str, Queued] = {}
        self._limited: set[str] = set()
        self._before: dict[str, Incident] = {}
        self._repeats: dict[tuple[str, str], int] = {}
        for document in store.documents(KIND, limit=MOST_KEPT):
            row = msgspec.json.decode(document.body, type=Queued)
            self._rows[row.id] = row
        for row in self._rows.values():
            self._repeat(row)

    # ── what happens ──

    def take(self, incident: Incident) -> None:
        """An incident whose card is there, or that changed since. What was told is not told again."""
        with self._lock:
            before = self._before.get(incident.id)
            if before is None and any(row.incident == incident.id for row in self._rows.values()):
                before = self._as_told(incident)  # after a restart
            self._before[incident.id] = incident
            now = self._now_ns()
            for event in events_of(before, incident):
                for name, line in self._lines.items():
                    self._queue(incident, event, name, line.settings, now)
            if incident.state == "closed":
                self._before.pop(incident.id, None)
        self._wake.set()

    def _as_told(self, incident: Incident) -> Incident:
        """The incident as it was when it was last told: what the stored messages say of it."""
        events = {row.event for row in self._rows.values() if row.incident == incident.id}
        worst = max(
            (row.severity for row in self._rows.values() if row.incident == incident.id),
            key=("info", "warning", "critical").index,
        )
        told = incident.state if incident.state in events else "open"
        ended = incident.ended_ns if "ended" in events else None
        return msgspec.structs.replace(incident, state=told, severity=worst, ended_ns=ended)

    def _queue(self, incident: Incident, event: Event, name: str, settings: Settings, now_ns: int) -> None:
        row = queued(incident, event, name, now_ns)
        if row.id in self._rows:
            return
        was_told = any(
            each.incident == incident.id and each.channel == name and each.event in ("open", "worse")
            for each in self._rows.values()
        )
        if event in AFTER_OPEN and not was_told:
            return
        notice = self._composer.notice(incident.id, event, settings)
        if notice is not None and (settings.wants(notice) or event in AFTER_OPEN):
            self._keep(row)

    def _keep(self, row: Queued) -> None:
        self._store.put(KIND, row.id, msgspec.json.encode(row), at_ns=row.at_ns)
        self._rows[row.id] = row

    # ── sending ──

    def step(self) -> float:
        """Send what is due: seconds until there is more to do."""
        now = self._now_ns()
        for name, line in self._lines.items():
            self._send_due(name, line, now)
        self._send_repeats(now)
        self._forget(now)
        due = [row.due_ns for row in list(self._rows.values()) if row.state in ("waiting", "silenced")]
        due += list(self._repeats.values())
        return min([IDLE_S, *(max(at - self._now_ns(), 0) / 1e9 for at in due)])

    def _send_due(self, name: str, line: Line, now_ns: int) -> None:
        with self._lock:
            rows = [r for r in self._rows.values() if r.channel == name and r.due_ns <= now_ns]
        due = sorted((r for r in rows if r.state in ("waiting", "silenced")), key=lambda row: row.at_ns)
        while due:
            free_ns = next_free_ns(self._sent_ns(name), line.settings.per_hour, now_ns)
            if free_ns > now_ns:
                self._limited.add(name)
                for row in due:
                    self._keep(msgspec.structs.replace(row, due_ns=free_ns))
                return
            held: tuple[Queued, ...] = ()
            if name in self._limited and len(due) > 1:
                row, held = merged(due)
                due = []
            else:
                row = due.pop(0)
            self._limited.discard(name)
            self._send(row, held, line, now_ns)

    def _sent_ns(self, name: str) -> list[int]:
        return [r.sent_ns for r in list(self._rows.values()) if r.channel == name and r.sent_ns is not None]

    def _send(self, row: Queued, held: Sequence[Queued], line: Line, now_ns: int) -> None:
        notice = self._composer.notice(row.incident, row.event, line.settings)
        if notice is None:
            self._keep(msgspec.structs.replace(row, state="failed", why="the incident is not there any more"))
            return
        silence = self._silence(notice, now_ns)
        if silence is not None:
            # Told when the silence ends, if it still lasts then.
            is_over = notice.state in ("ended", "closed", "verified")
            if row.state != "silenced":
                self._count(row.channel, "silenced")
            due = silence.end_ns if not is_over else now_ns + 1000 * HOUR_NS
            self._keep(msgspec.structs.replace(row, state="silenced", silence=silence.id, due_ns=due))
            return
        if row.state == "silenced" and notice.state in ("ended", "closed", "verified"):
            self._keep(msgspec.structs.replace(row, due_ns=now_ns + 1000 * HOUR_NS))
            return
        if row.event in AFTER_OPEN:  # what happened, though more may have happened since
            notice = msgspec.structs.replace(notice, state=row.event)
        sent = line.sender.send(self.message(notice, row.id, line, len(held)))
        now_ns = self._now_ns()
        if not sent.is_sent:
            failed = after_failure(
                row, sent.why, sent.is_final, sent.retry_after_s, now_ns, self._random.random()
            )
            self._keep(failed)
            for each in held:
                self._keep(msgspec.structs.replace(each, due_ns=failed.due_ns))
            if held:
                self._limited.add(row.channel)
            if failed.state == "failed":
                self._count(row.channel, "failed")
                self._say(f"channel {row.channel}: a message was given up: {sent.why}")
            return
        done = msgspec.structs.replace(
            row, state="sent", sent_ns=now_ns, num_tries=row.num_tries + 1, why=None
        )
        self._keep(done)
        self._count(row.channel, "sent")
        for each in held:
            self._count(row.channel, "held")
            self._keep(msgspec.structs.replace(each, state="held"))
        self._repeat(done)
        if row.event == "open":
            self._told(row.incident, row.channel, now_ns)

    def message(self, notice: Notice, key: str, line: Line, num_held_back: int = 0) -> Message:
        """What is sent over one channel."""
        notice = msgspec.structs.replace(notice, num_held_back=num_held_back)
        return prepared(notice, key, line, self._composer.text, self._key)

    def _silence(self, notice: Notice, now_ns: int) -> Silence | None:
        silences = [msgspec.json.decode(each.body, type=Silence) for each in self._store.documents("silence")]
        found = silenced_by(notice, silences, now_ns)
        return next((each for each in silences if each.id == found), None)

    # ── Alertmanager forgets what is not repeated ──

    def _repeat(self, row: Queued) -> None:
        line = self._lines.get(row.channel)
        if line is None or line.sender.repeats_s is None or row.state != "sent":
            return
        key = (row.channel, row.incident)
        if row.event in ("ended", "closed", "verified"):
            self._repeats.pop(key, None)
        elif not any(
            each.incident == row.incident and each.event in ("ended", "closed", "verified")
            for each in self._rows.values()
        ):
            self._repeats[key] = (row.sent_ns or row.at_ns) + int(line.sender.repeats_s * 1e9)

    def _send_repeats(self, now_ns: int) -> None:
        for (name, incident), due_ns in list(self._repeats.items()):
            line = self._lines[name]
            if due_ns > now_ns:
                continue
            notice = self._composer.notice(incident, "open", line.settings)
            if notice is None or notice.ended_ns is not None or notice.state in ("closed", "verified"):
                del self._repeats[name, incident]
                continue
            if self._silence(notice, now_ns) is None:
                line.sender.send(self.message(notice, f"{incident}.repeat.{name}", line))
            self._repeats[name, incident] = now_ns + int((line.sender.repeats_s or IDLE_S) * 1e9)

    def _forget(self, now_ns: int) -> None:
        """Messages of incidents that are over for a month, as to memory; the store keeps its own bounds."""
        with self._lock:
            if len(self._rows) <= MOST_KEPT:
                return
            done = sorted(
                (r for r in self._rows.values() if r.state not in ("waiting", "silenced")),
                key=lambda row: row.at_ns,
            )
            for row in done[: len(self._rows) - MOST_KEPT]:
                del self._rows[row.id]

    # ── the thread ──

    def start(self) -> None:
        """Send until `stop`."""
        self._thread = threading.Thread(target=self._run, name="stepscope-notices", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                wait_s = self.step()
            except Exception as error:  # noqa: BLE001  a thread that ends would end all telling, in silence
                self._say(f"notices: a fault of stepscope ({type(error).__name__}: {error})")
                wait_s = 5.0
            self._wake.wait(max(wait_s, 0.05))

    def stop(self) -> None:
        """No more messages; what waits is told after the next start."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(20)
