"""What the report says, as slices: steps with their use, findings with their severity, cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.views.detail_marks import marks_text
from stepscope.views.label import colon, word
from stepscope.views.label_signal import EVENT_KIND
from stepscope.views.shape import device_name

Extent = tuple[int, int]

TITLES = {
    "cards": Text(en="cards", zh="诊断卡"),
    "findings": Text(en="findings", zh="发现"),
    "steps": Text(en="steps", zh="步"),
    "idle": Text(en="idle causes", zh="空闲原因"),
    "events": Text(en="events", zh="事件"),
}
"""What our tracks are called. Categories and arguments are keys of the report, in English always."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One slice of ours; `notes` are its arguments."""

    start_ns: int
    end_ns: int
    name: str
    category: str
    notes: tuple[tuple[str, int | str], ...] = ()


def step_marks(report_: report.Report, place: int) -> list[Mark]:
    """The steps of the input at `place`, with how each was used."""
    return [
        Mark(
            step.start_ns,
            step.end_ns,
            f"step {step.step}: {step.use}",
            "stepscope.step",
            (("step", step.step), ("use", step.use), *((("why", step.why),) if step.why else ())),
        )
        for step in report_.steps
        if _place(report_, step.input, step.rank) == place
    ]


def finding_marks(report_: report.Report, extents: Sequence[Extent | None], lang: Lang) -> list[Mark]:
    """Every finding over the steps that it is about, else over its input."""
    marks = []
    for finding in report_.findings:
        when = _when(report_, finding, extents)
        if when is None:
            continue
        cost = finding.cost
        notes: list[tuple[str, int | str]] = [
            ("id", finding.id),
            ("rule", finding.rule),
            ("severity", finding.severity),
            ("confidence", finding.confidence),
        ]
        if cost is not None:
            notes += [("cost ns", cost.time_ns), ("cost share", f"{cost.share:.4f}"), ("cost of", cost.of)]
        if finding.explained_by is not None:
            notes.append(("explained by", finding.explained_by))
        name = f"{word(finding.severity, lang)}{colon(lang)}{finding.title}"
        marks.append(Mark(*when, name, f"stepscope.finding.{finding.severity}", tuple(notes)))
    return marks


def event_marks(report_: report.Report, lang: Lang) -> list[Mark]:
    """What telemetry and logs say happened, each an instant."""
    marks = []
    for event in report_.events:
        kind = EVENT_KIND[event.kind].in_(lang) + ("" if event.code is None else f" {event.code}")
        notes: list[tuple[str, int | str]] = [("severity", event.severity)]
        notes += [] if event.rank is None else [("rank", event.rank)]
        notes += [] if event.device is None else [("device", device_name(event.device))]
        name = f"{kind}{colon(lang)}{marks_text(event.text, lang)}"
        marks.append(Mark(event.at_ns, event.at_ns, name, f"stepscope.event.{event.kind}", tuple(notes)))
    return marks


def card_marks(report_: report.Report, extents: Sequence[Extent | None]) -> list[Mark]:
    """Every card from its onset to the end of the last of its findings."""
    of = {finding.id: finding for finding in report_.findings}
    marks = []
    for card in report_.cards:
        spans = [_when(report_, of[id_], extents) for id_ in card.findings if id_ in of]
        known = [span for span in spans if span is not None]
        if not known:
            continue
        start = min(first for first, _ in known)
        end = max(last for _, last in known)
        if card.onset_ns is not None:
            start = min(card.onset_ns, end)
        notes = [("id", card.id), ("findings", ", ".join(card.findings))]
        marks.append(Mark(start, end, card.title, "stepscope.card", tuple(notes)))
    return marks


def _place(report_: report.Report, input_: int | None, rank: int | None) -> int | None:
    """The place in `inputs` of what names an input or a rank."""
    if input_ is not None:
        return input_
    used = [i for i, each in enumerate(report_.inputs) if each.error is None]
    if len(used) == 1:
        return used[0]
    of_rank = [i for i in used if rank is not None and report_.inputs[i].rank == rank]
    return of_rank[0] if of_rank else None


def _when(report_: report.Report, finding: report.Finding, extents: Sequence[Extent | None]) -> Extent | None:
    row = finding.subject.row
    account = report_.accounting[row] if row is not None and row < len(report_.accounting) else None
    rank = account.rank if account is not None else next(iter(finding.subject.ranks), None)
    place = _place(report_, account.input if account is not None else None, rank)
    if finding.subject.steps is not None:
        first, last = finding.subject.steps
        mine = [
            step
            for step in report_.steps
            if first <= step.step <= last
            and (place is None or _place(report_, step.input, step.rank) == place)
        ]
        if mine:
            return min(step.start_ns for step in mine), max(step.end_ns for step in mine)
    if place is not None:
        return extents[place]
    known = [extent for extent in extents if extent is not None]
    return (min(a for a, _ in known), max(b for _, b in known)) if known else None
