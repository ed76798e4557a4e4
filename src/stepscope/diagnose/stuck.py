"""A job that stands still, in a report: who holds it up, what each witness says, and what would settle it.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from stepscope.diagnose.finding import Told
from stepscope.diagnose.standing import accused_ranks, where
from stepscope.model import report
from stepscope.model.standing import Standing
from stepscope.model.stuck import Accused, Flight, Stack, Stuck
from stepscope.model.text import Lang, Text
from stepscope.rules.capture import FLIGHTS
from stepscope.rules.rule import Question

BY_FLIGHT = frozenset({"collective-mismatch", "rank-not-in-collective"})
"""Rules that the flight recorder decides: its own words say more than where marks saw the ranks."""
STACKS = "stacks_of_ranks"
_PREFIX = (": ", "：", ", ", "，")


@dataclass(frozen=True, slots=True)
class Held:
    """What was taken while the job stood still: dumps of the flight recorder, and stacks."""

    flights: tuple[Flight, ...] = ()
    stacks: tuple[Stack, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.flights or self.stacks)


NOT_HELD = Held()


def numbers(stuck: Stuck) -> dict[str, float]:
    """What dumps and stacks say of the job, by feature's name; absent without them."""
    found: dict[str, float] = {}
    if stuck.has_flights:
        found["absent_ranks"] = float(len(stuck.absent))
        found["mismatched_ranks"] = float(len(stuck.mismatched))
    for each in stuck.accused:
        if each.by == "stacks":
            found["elsewhere_by_stacks"] = float(len(each.ranks))
    return found


def with_stuck(told: Sequence[Told], stands: Sequence[Standing], stuck: Stuck, lang: Lang) -> list[Told]:
    """The findings; those that a job does not go on with where its ranks are, and with the ranks that the
    others wait for as their subject."""
    result = []
    for each in told:
        if each.rule.is_standstill:
            said = _said(each.rule.id, stands, stuck)
            ranks = stuck.ranks if _is_held(stuck) else accused_ranks(stands)
            finding, subject = each.finding, each.finding.subject
            if said is not None:
                title = Text(en=f"{finding.title}; {said.en}", zh=f"{finding.title}；{said.zh}").in_(lang)
                finding = msgspec.structs.replace(finding, title=title)
            if ranks:
                finding = msgspec.structs.replace(
                    finding, subject=msgspec.structs.replace(subject, ranks=ranks)
                )
            each = replace(each, finding=finding, open=_open(each, stuck))
        result.append(each)
    return result


def _is_held(stuck: Stuck) -> bool:
    """Whether more than marks and logs tell of it."""
    return stuck.has_flights or stuck.has_stacks


def _open(told: Told, stuck: Stuck) -> tuple[Question, ...]:
    """What stays open of it: stacks that are here are not asked for."""
    if not stuck.has_stacks:
        return told.open
    return tuple(each for each in told.open if STACKS not in each.missing)


def _said(rule: str, stands: Sequence[Standing], stuck: Stuck) -> Text | None:
    """Where the ranks are, in the words of the witness that saw it best."""
    by_marks = where(stands)
    if not _is_held(stuck):
        return by_marks
    flight = next((each for each in stuck.accused if each.by == "flight"), None)
    if rule in BY_FLIGHT and flight is not None:
        return _text(flight)
    named = set(stuck.ranks)
    if by_marks is not None and (not named or named & set(accused_ranks(stands))):
        return by_marks
    first = next((each for each in stuck.accused if named & set(each.ranks)), None)
    return _text(first) if first is not None else by_marks


def _text(accused: Accused) -> Text:
    return Text(en=_without_name(accused.en), zh=_without_name(accused.zh))


def _without_name(text: str) -> str:
    """The sentence without its witness."""
    places = [place for mark in _PREFIX if (place := text.find(mark)) > 0]
    place = min(places, default=-1)
    return text[place:].lstrip(":：,， ") if 0 < place < 30 else text


def notes(told: Sequence[Told], stuck: Stuck, lang: Lang) -> dict[str, tuple[str, ...]]:
    """Rule id -> what each witness says, whether they agree, and what would settle it."""
    if not _is_held(stuck):
        return {}
    lines = [Text(en=each.en, zh=each.zh) for each in stuck.accused]
    if stuck.disagrees:
        names = ", ".join(_WITNESS[each.by].en for each in stuck.disagrees)
        names_zh = "、".join(_WITNESS[each.by].zh for each in stuck.disagrees)
        if stuck.ranks:
            lines.append(Text(en=f"{names} say otherwise", zh=f"{names_zh}的说法不同"))
        else:
            lines.append(
                Text(
                    en=f"{names} accuse different ranks: nobody is named",
                    zh=f"{names_zh}所指的 rank 不同：不作认定",
                )
            )
    if stuck.needs in _NEEDS:
        lines.append(_NEEDS[stuck.needs])
    said = tuple(line.in_(lang) for line in lines)
    return {each.rule.id: said for each in told if each.rule.is_standstill}


_WITNESS = {
    "gone": Text(en="the processes", zh="进程状态"),
    "flight": Text(en="the flight recorder", zh="飞行记录器"),
    "stacks": Text(en="stacks", zh="调用栈"),
    "marks": Text(en="marks", zh="标记"),
    "watchdog": Text(en="watchdogs", zh="看门狗"),
}
_NEEDS = {
    "stacks": Text(
        en="who holds it up the stacks of all ranks would settle (py-spy dump)",
        zh="是谁造成停顿，需要所有 rank 的调用栈（py-spy dump）才能确定",
    ),
    "flights": Text(
        en="who holds it up the flight recorder's dumps of all ranks would settle",
        zh="是谁造成停顿，需要所有 rank 的飞行记录器转储才能确定",
    ),
    "all-flights": Text(
        en="who holds it up the flight recorder's dumps of the ranks that lack one would settle",
        zh="是谁造成停顿，需要补齐缺少的飞行记录器转储才能确定",
    ),
}


def settled(
    open_: Sequence[report.Undecided], told: Sequence[Told], stuck: Stuck, lang: Lang
) -> tuple[report.Undecided, ...]:
    """What stays open: without stacks that are here, and with dumps where only they would settle it."""
    if not _is_held(stuck):
        return tuple(open_)
    kept = [each for each in open_ if not (stuck.has_stacks and STACKS in each.missing)]
    still = next((each for each in told if each.rule.is_standstill), None)
    if still is not None and stuck.needs in ("flights", "all-flights"):
        kept.insert(
            0,
            report.Undecided(
                rule=still.rule.id,
                missing=("flight_recorder_of_ranks",),
                would_settle=FLIGHTS.brief.in_(lang),
            ),
        )
    return tuple(kept)


def merged(
    notes_of: Mapping[str, tuple[str, ...]], more: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Notes of both, by rule."""
    return {rule: (*more.get(rule, ()), *notes_of.get(rule, ())) for rule in {**notes_of, **more}}
