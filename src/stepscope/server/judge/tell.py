"""A verdict, written down and told: report and incident into the store, then the card to whoever listens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from stepscope.model.incident import Incident, Noted
from stepscope.model.report import HOST_KINDS, Report
from stepscope.model.text import Lang, Text
from stepscope.server.feed import Feed
from stepscope.server.judge.case import Case
from stepscope.server.judge.record import amended, incident_of
from stepscope.server.judge.verdict import Verdict, alone, with_card
from stepscope.store.contract import Store

NO_TRACE = Text(
    en="Without a trace, from marks and counters alone: {why}",
    zh="没有 trace，仅依据打点与计数器：{why}",
)


class Telling:
    """Counts what was told and what was dismissed. `notes_of` gives what a report is to say beside the
    verdict, such as operators that are slower than in the job's healthy trace; `others` the same report in
    the other languages in which people are told."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        lang: Lang,
        now_ns: Callable[[], int],
        notes_of: Callable[[Case, Report], Sequence[str]] = lambda case, report: (),
        others: Callable[[Case], Sequence[tuple[Lang, Report]]] = lambda case: (),
    ) -> None:
        self._store, self._feed, self._lang, self._now_ns = store, feed, lang, now_ns
        self._notes_of, self._others = notes_of, others
        self.num_told = self.num_dismissed = 0

    def verdict(
        self,
        case: Case,
        report: Report,
        verdict: Verdict,
        *,
        onset_step: int | None = None,
        no_trace: str | None = None,
    ) -> None:
        """The verdict of a case. What people were told before is corrected, never told again."""
        if verdict.outcome == "dismissed":
            self._dismiss(case, report, verdict)
            return
        notes = list(self._notes_of(case, report))
        if no_trace is not None:
            notes.append(NO_TRACE.in_(self._lang).format(why=no_trace))
        card = verdict.card.id if verdict.card is not None else None
        if card is not None:
            report = with_card(report, card, case.onset_ns, onset_step, notes)
        alarms = list(case.alarms.values())
        report = alone(report, verdict, alarms, self._lang)
        place = self._keep(case, report)
        for lang, other in self._others(case):
            other = alone(other, verdict, alarms, lang)
            if card is not None:
                other = with_card(other, card, case.onset_ns, onset_step, notes)
            self._put(case, f"{place}.{lang}", other)
        devices, hosts = self._places(case, verdict.ranks)
        devices = devices or tuple(each for each in verdict.devices if each not in HOST_KINDS)

        def decided(i: Incident) -> Incident:
            about = i.about
            if verdict.ranks:
                about = replace(
                    about,
                    ranks=verdict.ranks,
                    devices=devices or about.devices,
                    hosts=hosts or about.hosts,
                )
            return replace(
                case.stands(i),
                about=about,
                severity=verdict.severity,
                title=verdict.title.en,
                title_zh=verdict.title.zh,
                cause=verdict.cause,
                rule=verdict.rule,
                onset_ns=case.onset_ns,
                onset_step=onset_step if onset_step is not None else i.onset_step,
                report=place,
                card=card,
            )

        rule = verdict.rule or ""
        is_news = case.told is None or (rule != case.told and bool(rule))
        what = f"card: {verdict.rule} ({verdict.confidence})" if verdict.rule else f"told: {verdict.why}"
        case.told = rule if is_news else case.told
        told = amended(self._store, self._feed, case.id, decided, Noted(at_ns=self._now_ns(), what=what))
        if told is not None and is_news:
            self.num_told += 1
            self._feed.tell("card", (told, report))

    def widen(self, case: Case, verdict: Verdict) -> None:
        """The same cause on other ranks too."""
        if case.verdict is None or set(verdict.ranks) <= set(case.verdict.ranks):
            return
        ranks = tuple(sorted({*verdict.ranks, *case.verdict.ranks}))
        case.verdict = dataclasses.replace(case.verdict, ranks=ranks)
        devices, hosts = self._places(case, ranks)

        def wider(i: Incident) -> Incident:
            about = replace(
                i.about, ranks=ranks, devices=devices or i.about.devices, hosts=hosts or i.about.hosts
            )
            return replace(i, about=about)

        noted = Noted(at_ns=self._now_ns(), what=f"now on ranks {', '.join(map(str, ranks))}")
        amended(self._store, self._feed, case.id, wider, noted)

    def without_report(self, case: Case) -> None:
        """Alarms that cannot be diagnosed are told by themselves."""
        case.told = ""
        self.num_told += 1
        incident = incident_of(self._store, case.id)
        if incident is not None:
            self._feed.tell("card", (incident, None))

    def again(self, case: Case, incident: Incident) -> None:
        """A card that was written down and that no channel took before the server ended."""
        body = None if incident.report is None else self._store.get("report", incident.report)
        if body is not None:
            self._feed.tell("card", (incident, msgspec.json.decode(body, type=Report)))

    def _dismiss(self, case: Case, report: Report, verdict: Verdict) -> None:
        if case.told is not None:  # people know of it: only its history says what came later
            noted = Noted(at_ns=self._now_ns(), what=f"a later look: {verdict.why}")
            amended(self._store, self._feed, case.id, lambda i: i, noted)
            return
        self.num_dismissed += 1
        case.is_dismissed = True
        now = self._now_ns()
        place = self._keep(case, report)
        amended(
            self._store,
            self._feed,
            case.id,
            lambda i: replace(case.stands(i), severity="info", state="closed", closed_ns=now, report=place),
            Noted(at_ns=now, what=verdict.why),
        )
        if case.captured.id is not None and case.job is not None and case.run is not None:
            self._store.summarise_traces(case.job, case.run, case.captured.id)

    def _keep(self, case: Case, report: Report) -> str:
        case.num_reports += 1
        place = f"{case.id}-{case.num_reports}"
        self._put(case, place, report)
        return place

    def _put(self, case: Case, place: str, report: Report) -> None:
        body = msgspec.json.encode(report)
        self._store.put("report", place, body, job=case.job, run=case.run, at_ns=self._now_ns())

    def _places(self, case: Case, ranks: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Devices and hosts of these ranks, as the agents know them; empty where they do not."""
        if case.job is None or case.run is None:
            return (), ()
        rows = [row for row in self._store.ranks(case.job, case.run) if row.rank in ranks]
        devices = {row.device for row in rows if row.device is not None}
        return tuple(sorted(devices)), tuple(sorted({row.host for row in rows}))
