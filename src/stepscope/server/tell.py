"""What a channel says of an incident: read from the store when it is sent, so that it is the newest."""

from __future__ import annotations

import msgspec

from stepscope.act.notify.channel import Settings
from stepscope.act.notify.outbox import Event
from stepscope.model.alarm import Alarm
from stepscope.model.incident import Incident
from stepscope.model.notice import Notice
from stepscope.model.report import Report, decode
from stepscope.store.contract import Store
from stepscope.views.markup import MARKUPS
from stepscope.views.notice import notice_of, text_of, title_of


class Composed:
    """`link` is the server's address as people reach it, `None` where it is not told."""

    def __init__(self, store: Store, link: str | None = None) -> None:
        self._store, self._link = store, link

    def notice(self, incident: str, event: Event, settings: Settings) -> Notice | None:
        """`None` where the incident is not there any more."""
        body = self._store.get("incident", incident)
        if body is None:
            return None
        found = msgspec.json.decode(body, type=Incident)
        alarms = [
            msgspec.json.decode(each, type=Alarm)
            for name in found.alarms
            if (each := self._store.get("alarm", name)) is not None
        ]
        link = None if self._link is None else f"{self._link.rstrip('/')}/api/v1/cards/{found.id}?format=html"
        return notice_of(
            found,
            alarms,
            self._report(found, settings),
            lang=settings.lang,
            link=link,
            has_ended=event == "ended",
        )

    def _report(self, incident: Incident, settings: Settings) -> Report | None:
        """In the channel's language where it was written in it, else in English."""
        if incident.report is None:
            return None
        names = (f"{incident.report}.{settings.lang}", incident.report)
        body = next((body for name in names if (body := self._store.get("report", name)) is not None), None)
        return None if body is None else decode(body)

    def text(self, notice: Notice, markup: str) -> tuple[str, str]:
        """Title and body."""
        return title_of(notice, MARKUPS[markup]), text_of(notice, MARKUPS[markup])
