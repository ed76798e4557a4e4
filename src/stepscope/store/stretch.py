"""Numbers that are here, as stretches: both ends included, ascending, with a gap between each two."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Stretches = list[tuple[int, int]]


def has(held: Sequence[tuple[int, int]], number: int) -> bool:
    """Whether the number is in one of them."""
    if not held or number > held[-1][1]:
        return False
    place = bisect_right(held, (number, 1 << 64)) - 1
    return place >= 0 and number <= held[place][1]


def joined(held: Sequence[tuple[int, int]], runs: Iterable[tuple[int, int]]) -> Stretches:
    """Both together; `runs` ascend."""
    more = list(runs)
    if not more:
        return list(held)
    found: Stretches = []
    if held and more[0][0] > held[-1][1]:
        found = list(held)
    else:
        more = sorted([*held, *more])
    for first, last in more:
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def without_narrow(held: Stretches, most: int) -> Stretches:
    """At most so many, the narrowest gaps given up: nothing comes into them any more. A number far ahead
    keeps its gap, whoever sent it."""
    while len(held) > most:
        place = min(range(1, len(held)), key=lambda each: held[each][0] - held[each - 1][1])
        held = [*held[: place - 1], (held[place - 1][0], held[place][1]), *held[place + 1 :]]
    return held
