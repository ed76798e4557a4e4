"""Wall times of progress bars, which state how long they have run and not since when.

A bar begins at one instant; every line with a time before or after one of its drawings limits it:

    time of a line before <= beginning + elapsed < time of a line after + 1 s (bars cut elapsed to seconds)

Besides, a bar begins after the line before its first drawing, and after the end of its last run, unless later
lines contradict. Where limits contradict each other, drawings stay in the order of the lines. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.sources.formats.log_time import NS
from stepscope.sources.log_bar import Bar

_NEAR_NS = 5 * NS
"""Limits no further apart leave the middle between them; of limits further apart one is taken."""
_LONGEST_SECONDS = 3e8
"""Ten years: no bar has run longer."""
_LEAST_DIGITS = 10
"""Keras prints whole numbers of a unit: fewer of it are too coarse to multiply."""
_FLOOR, _CEILING = -(1 << 62), 1 << 62


@dataclass(slots=True)
class Stamps:
    """Times of lines, by their place among the drawings of a file: the number of drawings before them."""

    num_drawn: int = 0
    is_wanted: bool = False
    """Whether a drawing without a time has been: before, only the last line's time is kept."""
    lines: list[tuple[int, int]] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)
    """Times when something began that a later line tells of, and that the drawings before it precede: a
    collective that a watchdog ended. A host may run ahead of its device: they limit beginnings only."""

    def add(self, at_ns: int) -> None:
        """A line with a time."""
        if not self.is_wanted:
            self.lines.clear()
        self.lines.append((self.num_drawn, at_ns))

    def add_before(self, at_ns: int) -> None:
        """A line with a time that stands before all drawings without one."""
        self.lines.insert(0, (-1, at_ns))

    def draw(self, bar: Bar) -> None:
        """A drawing; one with a time is a line as well, both before and after itself."""
        bar.place = self.num_drawn
        if bar.at_ns is None:
            self.is_wanted = True
        else:
            self.add(bar.at_ns)
        self.num_drawn += 1
        if bar.at_ns is not None:
            self.add(bar.at_ns)


@dataclass(frozen=True, slots=True)
class Timed:
    """`at_ns` of each drawing, `None` where nothing tells. `off_ns` is how far the beginnings may be off
    beside the second that bars cut, `None` where lines limit one from one side alone; `moved_ns` how far
    lines in between moved a drawing."""

    at_ns: list[int | None]
    off_ns: int | None = 0
    moved_ns: int = 0


@dataclass(slots=True)
class _Run:
    """Drawings of a bar from its beginning to its end. `guess` are nanoseconds elapsed at each."""

    bars: list[Bar]
    places: list[int]
    """In the given drawings."""
    guess: list[int]
    low: int = _FLOOR
    """The beginning is not before."""
    high: int = _CEILING
    """The beginning is not after."""
    after: int = _FLOOR
    """The time of the line before the first drawing."""
    is_followed: bool = True
    """Whether a line, not another run, says that it began no later."""


def timed(bars: Sequence[Bar], stamps: Stamps) -> Timed:
    """Wall times of the drawings of one bar, in the order of the file; they never fall, nor pass a line with
    a time."""
    at: list[int | None] = [bar.at_ns for bar in bars]
    lines = _in_order(stamps.lines)
    if not lines:
        return Timed(at)
    runs = _runs(bars)
    places = [place for place, _ in lines]
    for run in runs:
        _limit(run, lines, places, stamps.begun)
    for run, later in zip(runs[-2::-1], runs[:0:-1], strict=True):
        if later.high < _CEILING and later.high - run.guess[-1] < run.high:
            run.high, run.is_followed = later.high - run.guess[-1], False
    end, off, moved = _FLOOR, 0, 0
    is_open = False
    for run in runs:
        begin, uncertain = _beginning(run, end)
        if begin is None:
            continue
        is_open |= uncertain is None
        off = max(off, uncertain or 0)
        for bar, place, guess in zip(run.bars, run.places, run.guess, strict=True):
            before, after = _around(lines, places, bar.place)
            end, given = min(max(begin + guess, before, end), after), begin + guess
            moved = max(moved, abs(end - given))
            if at[place] is None:
                at[place] = end
    return Timed(at, None if is_open else off, moved)


def place(bars: Sequence[Bar], stamps: Stamps) -> list[tuple[str, int, str]]:
    """Gives the drawings of bars the times that lines around them tell; the note of it, if there were any."""
    by_key: dict[tuple[str, str, int | None], list[Bar]] = {}
    for bar in bars:
        by_key.setdefault(bar.key, []).append(bar)
    found = []
    for group in by_key.values():
        each = timed(group, stamps)
        for bar, at_ns in zip(group, each.at_ns, strict=True):
            bar.is_placed = bar.at_ns is None and at_ns is not None
            bar.at_ns = at_ns
        if any(bar.is_placed for bar in group):
            found.append(each)
    count = sum(bar.is_placed for bar in bars)
    return [("times_from_bar", count, _said(found))] if count else []


def _said(found: Sequence[Timed]) -> str:
    """How near the times are."""
    text = "elapsed times of bars were put on the wall clock by lines that state a time, to "
    if any(each.off_ns is None for each in found):
        text += "1 s and what passed between such a line and a bar's beginning: no line on its other side"
    else:
        text += f"{1 + max((each.off_ns or 0) / NS for each in found):.1f} s"
    moved = max((each.moved_ns for each in found), default=0)
    return text + (f"; moved by up to {moved / NS:.1f} s into the order of lines" if moved > NS else "")


def _in_order(lines: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most lines whose times never fall: a line that quotes an old time, or that was held back in a
    buffer, says nothing of the order. Of two that contradict each other the first is kept."""
    ends: list[int] = []
    at_end: list[int] = []
    after: list[int] = []
    for place in range(len(lines) - 1, -1, -1):  # from behind, times must not rise
        length = bisect_right(ends, -lines[place][1])
        after.append(at_end[length - 1] if length else -1)
        ends[length : length + 1] = [-lines[place][1]]
        at_end[length : length + 1] = [place]
    kept = []
    place = at_end[-1] if at_end else -1
    while place >= 0:
        kept.append(lines[place])
        place = after[len(lines) - 1 - place]
    return kept


def _elapsed(bar: Bar) -> tuple[float, float] | None:
    """(least, most) seconds that a bar has run, `None` where it does not say."""
    if bar.elapsed is not None:
        return (bar.elapsed, bar.elapsed + 1) if bar.elapsed < _LONGEST_SECONDS else None
    step = bar.stated.values.get("step_seconds")
    if bar.format != "keras" or step is None or step <= 0:
        return None
    unit = 1.0 if step >= 1 else 1e-3 if step >= 1e-3 else 1e-6
    if step < _LEAST_DIGITS * unit or bar.n * step > _LONGEST_SECONDS:
        return None
    return max(bar.n * (step - unit / 2), 0.0), bar.n * (step + unit / 2)


def _runs(bars: Sequence[Bar]) -> list[_Run]:
    found: list[_Run] = []
    last: Bar | None = None
    spans: list[list[tuple[float, float]]] = []
    for place, bar in enumerate(bars):
        span = _elapsed(bar)
        if span is None:
            continue
        if last is None or _begins_anew(bar, last, span[0], spans[-1][-1][0]):
            found.append(_Run([], [], []))
            spans.append([])
        found[-1].bars.append(bar)
        found[-1].places.append(place)
        spans[-1].append(span)
        last = bar
    for run, each in zip(found, spans, strict=True):
        run.guess = _guesses(run.bars, each)
    return found


def _begins_anew(bar: Bar, last: Bar, elapsed: float, elapsed_last: float) -> bool:
    """Not where another process, a little behind, draws into the same file."""
    if bar.epoch != last.epoch or (bar.n == 0 and last.n > 0):
        return True
    is_over = last.total is not None and last.n >= last.total
    return (elapsed < elapsed_last / 2 and elapsed + 1 < elapsed_last) or (is_over and bar.n < last.n / 2)


def _guesses(bars: Sequence[Bar], spans: Sequence[tuple[float, float]]) -> list[int]:
    """Nanoseconds elapsed at each drawing. Those that state one second are spread over it evenly; the last
    second, which may have been cut, as densely as the one before."""
    guess: list[int] = []
    start, num_before = 0, 1
    while start < len(spans):
        end = start + 1
        while end < len(spans) and spans[end] == spans[start]:
            end += 1
        least, most = spans[start]
        num = max(end - start, num_before) if end == len(spans) else end - start
        for each in range(start, end):
            share = 0.0 if bars[each].n == 0 and each == 0 else (each - start + 0.5) / num
            guess.append(round((least + share * (most - least)) * NS))
        start, num_before = end, end - start
    return guess


def _around(lines: Sequence[tuple[int, int]], places: Sequence[int], place: int) -> tuple[int, int]:
    """Times of the lines before and after a drawing. A line's place is the number of drawings before it."""
    after = bisect_right(places, place)
    return (lines[after - 1][1] if after else _FLOOR), (lines[after][1] if after < len(lines) else _CEILING)


def _limit(
    run: _Run, lines: Sequence[tuple[int, int]], places: Sequence[int], begun: Sequence[tuple[int, int]]
) -> None:
    """What lines say of the beginning of a run."""
    for bar in run.bars:
        span = _elapsed(bar)
        if span is None:
            continue
        before, after = _around(lines, places, bar.place)
        if before > _FLOOR:
            run.low = max(run.low, before - round(span[1] * NS))
        if after < _CEILING:
            run.high = min(run.high, after - round(span[0] * NS))
    run.after = _around(lines, places, run.bars[0].place)[0]
    last = run.bars[-1]
    span = _elapsed(last)
    for place, at_ns in begun:
        if span is not None and place > last.place:
            high = at_ns - round(span[0] * NS)
            if max(run.low, run.after) <= high:
                run.high = min(run.high, high)


def _beginning(run: _Run, end: int) -> tuple[int | None, int | None]:
    """When a run began, and how far that may be off; `None`, `None` where nothing limits it, and no second
    where it is limited from one side alone. `end` is when the run before ended."""
    soft = max(run.after, end)
    low = max(run.low, soft) if soft <= run.high else run.low
    if low == _FLOOR:
        return (run.high, None) if run.high < _CEILING else (None, None)
    if run.high == _CEILING:
        return low, None
    if low > run.high:
        return (soft if soft > _FLOOR else low), low - run.high
    if run.high - low <= _NEAR_NS:
        return (low + run.high) // 2, math.ceil((run.high - low) / 2)
    last = run.bars[-1]
    is_over = last.total is not None and last.n >= last.total
    return (run.high if is_over and run.is_followed else low), run.high - low
