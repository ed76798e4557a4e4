"""What all witnesses say together: one answer, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyse.stuck import flight, log, stack
from stepscope.analyse.stuck.word import ranks_en
from stepscope.model.log import Log
from stepscope.model.standing import Standing, elsewhere
from stepscope.model.stuck import STRONG, WITNESSES, Accused, Flight, Needs, Stack, Stuck


def stuck(
    stands: Sequence[Standing] = (),
    flights: Sequence[Flight] = (),
    stacks: Sequence[Stack] = (),
    logs: Sequence[Log] = (),
    ended: Sequence[int] = (),
) -> Stuck:
    """Who holds the job up. `ended` are ranks that said that they end while others live.

    Strong witnesses (a process that is gone, the flight recorder, stacks) must agree: where two of them
    accuse nobody in common, nobody is named. A weak one (marks, watchdogs) that says otherwise is told, and
    changes nothing; weak ones alone must agree, too.
    """
    ranks = [each.rank for each in stands if each.rank is not None]
    by_flight, blocked = flight.witness(flights)
    found = [
        each
        for each in (
            _gone(stands, ended),
            by_flight,
            stack.witness(stacks),
            _marks(stands),
            log.witness(logs, ranks),
        )
        if each is not None
    ]
    found.sort(key=lambda each: WITNESSES.index(each.by))
    accusing = [each for each in found if each.ranks]
    strong = [each for each in accusing if each.by in STRONG]
    named = _common(strong or accusing)
    disagrees = tuple(each for each in accusing if named and not set(named) & set(each.ranks))
    is_abstained = bool(accusing) and not named
    return Stuck(
        ranks=named,
        accused=tuple(found),
        disagrees=tuple(strong or accusing) if is_abstained else disagrees,
        absent=blocked.absent if blocked is not None else (),
        mismatched=blocked.mismatched if blocked is not None else (),
        has_flights=bool(flights),
        has_stacks=bool(stacks),
        needs="none" if named else _needs(flights, stacks, blocked),
    )


def _common(accusing: Sequence[Accused]) -> tuple[int, ...]:
    """Whom all of them accuse; empty where there is nobody."""
    if not accusing:
        return ()
    return tuple(sorted(set.intersection(*(set(each.ranks) for each in accusing))))


def _needs(flights: Sequence[Flight], stacks: Sequence[Stack], blocked: flight.Blocked | None) -> Needs:
    """What would settle it."""
    if not flights:
        return "flights" if stacks else "stacks"
    if blocked is not None and blocked.unknown:
        return "all-flights"
    return "none" if stacks else "stacks"


def _gone(stands: Sequence[Standing], ended: Sequence[int]) -> Accused | None:
    """Processes that are not there any more, where others live."""
    gone = [each.rank for each in stands if each.is_alive is False and each.rank is not None]
    if not any(each.is_alive for each in stands) or not (gone or ended):
        return None
    said = ranks_en([*gone, *ended])
    how_en = "said that it ends" if ended and not gone else "is gone without a word"
    how_zh = "已声明结束" if ended and not gone else "未声明结束即消失"
    ranks = tuple(sorted({*gone, *ended}))
    return Accused(
        "gone",
        ranks,
        f"marks: the process of {said} {how_en}, others live",
        f"标记：{said} 的进程{how_zh}，其余仍在",
    )


def _marks(stands: Sequence[Standing]) -> Accused | None:
    """Where the marks see the ranks; where one is gone that is told already."""
    living = [each for each in stands if each.is_alive is not False]
    odd = elsewhere(living)
    if not living or not any(each.is_alive for each in living):
        return None
    ranks = tuple(sorted(each.rank for each in odd if each.rank is not None))
    if len(living) < len(stands) or not ranks:
        return None
    return Accused(
        "marks",
        ranks,
        f"marks: {ranks_en(ranks)} elsewhere than the others",
        f"标记：{ranks_en(ranks)} 与其余不在同一处",
    )
