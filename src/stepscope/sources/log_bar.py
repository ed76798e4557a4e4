"""Progress bars of a log: which of them counts training steps, and at which step it stands.

A log holds bars of many things (downloads, datasets, evaluations, epochs). The bar of the training is the one
whose total the log promises, else the one that runs longest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.sources.catalog import log_training as table
from stepscope.sources.formats.log_number import seconds
from stepscope.sources.log_step import Stated, of_text

_LEAST_FALL_SHARE = 0.5


@dataclass(slots=True)
class Bar:
    """One drawing of a bar. `elapsed` in seconds, `None` where the bar does not say it."""

    format: str
    desc: str
    n: int
    total: int | None
    elapsed: float | None
    epoch: int | None
    stated: Stated
    line: int
    at_ns: int | None
    stream: str
    is_eval: bool
    steps: bool
    """Whether it may count training steps."""
    text: str
    place: int = 0
    """Drawings of any bar before it."""
    is_placed: bool = False
    """Whether lines around it gave its time."""

    @property
    def key(self) -> tuple[str, str, int | None]:
        """What bars are one by."""
        return self.stream, re.sub(r"\d+", "#", self.desc), self.total

    def is_drawn_again_by(self, bar: Bar) -> bool:
        """Whether a drawing is of the same bar at the same place."""
        is_later = self.elapsed is None or bar.elapsed is None or bar.elapsed >= self.elapsed
        return (self.key, self.n, self.desc, self.epoch) == (bar.key, bar.n, bar.desc, bar.epoch) and is_later


_BEFORE = 210
"""Characters before a bar's mark in which its description and percentage lie."""


def bar_of(text: str, line: int, at_ns: int | None, stream: str, epoch: int | None) -> Bar | None:
    """The bar that a line draws, `None` where it draws none. `epoch` is of the line before a Keras bar."""
    for marks, name, pattern in table.BARS:
        place = next((found for mark in marks if (found := text.find(mark)) >= 0), -1)
        if place < 0:
            continue
        if name != "keras":  # no bar or percent sign is in a description
            place = max(place - _BEFORE, text.rfind("|", 0, place) + 1, text.rfind("%", 0, place) + 1, 0)
        match = pattern.match(text, 0 if name == "keras" else place)
        if match is None:
            continue
        group = match.groupdict()
        desc = (group["desc"] or "").strip(" :\t-")
        in_desc = table.EPOCH_IN_BAR.search(desc)
        stated = of_text(group["rest"] or "")
        unit = (group["unit"] or "").strip()
        rate = group["rate"]
        known = table.BAR_UNITS.get(unit)
        if known is not None and rate and rate != "?" and float(rate) > 0:
            stated.values.setdefault(known[0], float(rate) * known[1])
        if any(char.isdigit() for char in desc):  # `pbar.set_description(f"loss {loss}")`
            for field_, value in of_text(desc).values.items():
                if field_ != "epoch":
                    stated.values.setdefault(field_, value)
        is_eval = table.EVAL_BARS.search(desc) is not None
        counts = known is not None or unit in ("", "?") or unit.startswith("?")
        return Bar(
            format="lightning" if name == "tqdm" and "v_num=" in (group["rest"] or "") else name,
            desc=desc,
            n=int(group["n"]),
            total=int(group["total"]) if group.get("total") else None,
            elapsed=seconds(group["elapsed"]) if group.get("elapsed") else None,
            epoch=int(in_desc[1]) if in_desc else (epoch if name == "keras" else None),
            stated=stated,
            line=line,
            at_ns=at_ns,
            stream=stream,
            is_eval=is_eval,
            steps=counts
            and not is_eval
            and (not table.OTHER_BARS.search(desc) or in_desc is not None)
            and not table.EPOCHS_BAR.match(desc),
            text=text,
        )
    return None


@dataclass(slots=True)
class Placed:
    """Bars of the training with their steps, in order. `restarts` are places where a bar began anew before
    its end, with the step before."""

    bars: list[Bar] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    restarts: list[tuple[int, int]] = field(default_factory=list)
    counts_by_epoch: bool = False
    total: int | None = None


def placed(bars: Sequence[Bar], promised: int | None) -> Placed:
    """The bars that count training steps; empty where none does."""
    groups: dict[tuple[str, str, int | None], list[Bar]] = {}
    for bar in bars:
        if bar.steps:
            groups.setdefault(bar.key, []).append(bar)
    if not groups:
        return Placed()
    main = max(groups.values(), key=lambda group: _weight(group, promised))
    if max(bar.n for bar in main) == 0:
        return Placed()
    return _steps(main)


def _weight(group: list[Bar], promised: int | None) -> tuple[bool, bool, float, int]:
    elapsed = sum(_spans(group))
    has_loss = any("loss" in bar.stated.values for bar in group)
    return promised is not None and group[0].total == promised, has_loss, elapsed, max(bar.n for bar in group)


def _spans(group: list[Bar]) -> list[float]:
    """Seconds of every run of a bar."""
    spans, last = [], 0.0
    for bar in group:
        if bar.elapsed is None:
            continue
        if bar.elapsed < last:
            spans.append(last)
        last = bar.elapsed
    return [*spans, last]


def _steps(main: list[Bar]) -> Placed:
    found = Placed(total=main[0].total)
    epochs = {bar.epoch for bar in main if bar.epoch is not None}
    base = 0 if 0 in epochs else 1
    by_epoch = bool(epochs) and main[0].total is not None
    found.counts_by_epoch = by_epoch and max(epochs) > base
    offset = 0
    last: Bar | None = None
    for bar in main:
        if bar.n == 0 and (last is None or last.n == 0):
            continue
        total = bar.total or 0
        if by_epoch and bar.epoch is not None:
            step = (bar.epoch - base) * total + bar.n
        else:
            if last is not None and bar.n < last.n:
                is_over = last.total is not None and last.n >= last.total
                began_anew = bar.elapsed is None or last.elapsed is None or bar.elapsed + 2 < last.elapsed
                if not began_anew or (bar.elapsed is None and bar.n > last.n * _LEAST_FALL_SHARE):
                    continue  # another process draws into the same file
                if is_over:
                    offset += last.total or 0
                    found.counts_by_epoch = True
                else:
                    found.restarts.append((len(found.bars), offset + last.n))
                    offset = 0
            step = offset + bar.n
        last = bar
        if bar.n == 0:
            continue
        if found.steps and found.steps[-1] == step:
            _merge(found.bars[-1], bar)
            continue
        found.bars.append(bar)
        found.steps.append(step)
    if found.restarts and found.restarts[-1][0] >= len(found.bars):
        found.restarts.pop()
    if found.counts_by_epoch:
        found.total = None
    return found


def _merge(first: Bar, again: Bar) -> None:
    """The bar is drawn again at the same step: what is newer counts."""
    first.stated.values.update(again.stated.values)
    first.stated.vague.update(again.stated.vague)
    first.at_ns = again.at_ns if first.at_ns is None else first.at_ns
