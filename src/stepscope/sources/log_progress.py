"""Lines of a training log to its progress: rows of one counter, in the order of the file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.model.log import ABSENT_NS, PROGRESS_FIELDS, LogEvent, Progress
from stepscope.sources import log_bar, log_bar_time
from stepscope.sources.catalog import log_training as table
from stepscope.sources.formats.log_number import whole
from stepscope.sources.log_bar import Bar
from stepscope.sources.log_bar_time import Stamps
from stepscope.sources.log_step import Stated, of_text

_GATE = ("step", "iter", "num_updates", "update", "epoch", "batch", "train: ")
_WORTH = (
    *_GATE,
    "%|",
    "it [",
    "ba [",
    "] - ",
    "━",
    "'loss'",
    " - ",
    "    train ",
    "\ttrain ",
    "train ",
    "'grad_norm'",
)
_LEAST_EXPLICIT = 3
"""Steps that lines state by name, from which they count and bars do not."""


def is_worth(lower: str) -> bool:
    """Whether a line, in lower case, may state progress: a quick look before its head is read."""
    return any(gate in lower for gate in _WORTH)


@dataclass(slots=True)
class Row:
    """One line that states a step."""

    line: int
    at_ns: int | None
    stream: str
    step: int
    stated: Stated
    format: str
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the lines say together. `formats` counts lines; `total` lines that said something of progress;
    `drawn` are (line, time) of drawings whose time lines around them gave, in order."""

    progress: Progress | None
    events: tuple[LogEvent, ...]
    formats: Counter[str]
    notes: tuple[tuple[str, int, str], ...]
    num_known: int
    drawn: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Reader:
    """Collects lines: `feed` each, then `found`."""

    rows: list[Row] = field(default_factory=list)
    items: list[Bar | Row] = field(default_factory=list)
    """Bars, and dictionaries without a step of their own (`Row.step` -1), in order."""
    named: list[tuple[Row, Bar]] = field(default_factory=list)
    """Rows of bars that name the step of the job."""
    stamps: Stamps = field(default_factory=Stamps)
    events: list[LogEvent] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    num_known: int = 0
    promised: int | None = None
    _block: Row | None = None
    _epoch: int | None = None

    def feed(self, line: int, at_ns: int | None, stream: str, body: str, lower: str) -> bool:
        """Takes one line; whether it says something of progress."""
        if self._block is not None:
            if table.BLOCK_LINE.match(body) or body.startswith("Train "):
                _add(self._block.stated, of_text(body.strip().removeprefix("Train ")))
                return self.known("plain")
            self._block = None
        bar = log_bar.bar_of(body, line, at_ns, stream, self._epoch)
        if bar is not None:
            self._feed_bar(bar, body)
            behind = table.HUGGING_FACE.search(body)
            if behind is None:
                return True
            body = body[behind.start() :]  # written into the bar's line
        if "'" in body and table.HUGGING_FACE.search(body):
            stated = of_text(body)
            if "'eval_loss'" not in body and (stated.says_something or stated.not_finite):
                kept = Row(line, at_ns, stream, -1, stated, "hugging-face", body)
                if stated.step is None:
                    self.items.append(kept)
                else:
                    kept.step = stated.step
                    self.rows.append(kept)
                return self.known("hugging-face")
            return False
        if not any(gate in lower for gate in _GATE):
            return False
        return self._feed_text(line, at_ns, stream, body)

    def _feed_bar(self, bar: Bar, body: str) -> bool:
        self.stamps.draw(bar)
        explicit = bar.stated.step
        if explicit is not None and bar.steps:  # NeMo: the step of the job in the bar of an epoch
            row = Row(bar.line, bar.at_ns, bar.stream, explicit, bar.stated, bar.format, body)
            self.rows.append(row)
            self.named.append((row, bar))
            return self.known(bar.format)
        last = self.items[-1] if self.items else None
        if isinstance(last, Bar) and last.is_drawn_again_by(bar):
            last.stated.values.update(bar.stated.values)
            last.stated.not_finite = bar.stated.not_finite or last.stated.not_finite
        else:
            self.items.append(bar)
        if bar.is_eval and (bar.n == 0 or (bar.total is not None and bar.n >= bar.total)):
            what = "eval_start" if bar.n == 0 else "eval_end"
            if not (self.events and self.events[-1].what == what):
                self.events.append(_event("change", what, bar.text, bar.at_ns, bar.line))
        return self.known(bar.format)

    def _feed_text(self, line: int, at_ns: int | None, stream: str, body: str) -> bool:
        block = table.BLOCK.search(body) if "batch=" in body else None
        if block is not None:
            stated = Stated(step=int(block["n"]), total=int(block["total"]))
            self._block = Row(line, at_ns, stream, int(block["n"]), stated, "plain", body)
            self.rows.append(self._block)
            return self.known("plain")
        epoch = table.EPOCH_LINE.match(body.strip()) if len(body) < 40 else None
        if epoch is not None:
            self._epoch = int(epoch[1])
            return False
        promised = table.PROMISED.search(body) if "ptimization" in body else None
        if promised is not None:
            self.promised = whole(promised["total"])
        return self.take(line, at_ns, stream, body, of_text(body))

    def take(self, line: int, at_ns: int | None, stream: str, body: str, stated: Stated) -> bool:
        """Takes what a line states; whether it counts."""
        is_deepspeed = "skipped=" in body and "learning_rate" in stated.values
        if stated.step is None or not (stated.says_something or stated.is_eval or is_deepspeed):
            return False
        if stated.is_eval and not (stated.says_something or is_deepspeed):
            self.events.append(_event("change", "eval_end", body, at_ns, line, step=stated.step))
            self.num_known += 1
            return True
        format_ = next((name for name, mark in table.FRAMEWORKS if mark in body), "plain")
        if format_ == "plain" and "tps" in body and table.TITAN.search(body):
            format_ = "torchtitan"
        self.rows.append(Row(line, at_ns, stream, stated.step, stated, format_, body))
        return self.known(format_)

    def known(self, format_: str) -> bool:
        """Counts a line that said something."""
        self.formats[format_] += 1
        self.num_known += 1
        return True

    def found(self) -> Found:
        """The progress of the whole log."""
        notes: list[tuple[str, int, str]] = []
        events = list(self.events)
        notes += log_bar_time.place([bar for _, bar in self.named], self.stamps)
        for row, bar in self.named:
            row.at_ns = bar.at_ns
        rows, num_others = _one_stream(self.rows)
        if num_others:
            notes.append(("other_ranks", num_others, "lines of other processes' progress are left out"))
        total = next((row.stated.total for row in reversed(rows) if row.stated.total is not None), None)
        by_bars, bar_total, bar_notes, bar_events = self._of_bars()
        if len({row.step for row in rows}) >= _LEAST_EXPLICIT or (rows and not by_bars):
            rows, total, more = _through_epochs(rows, total)
            notes += more
            rows = _merged(rows)
            restarts = _restarts(rows, events)
        else:
            rows, total, restarts = by_bars, bar_total, []
            notes, events = notes + bar_notes, events + bar_events
        if not rows:
            return Found(None, tuple(events), self.formats, tuple(notes), self.num_known, self._drawn())
        rows, more = _without_sums(rows)
        notes += more
        events += restarts
        events += _not_finite(rows)
        values = {
            name: column
            for name in PROGRESS_FIELDS
            if not np.isnan(column := np.array([row.stated.values.get(name, math.nan) for row in rows])).all()
        }
        progress = Progress(
            at_ns=np.array([ABSENT_NS if row.at_ns is None else row.at_ns for row in rows], np.int64),
            step=np.array([row.step for row in rows], np.int64),
            values=values,
            total=self.promised or total,
        )
        return Found(progress, tuple(events), self.formats, tuple(notes), self.num_known, self._drawn())

    def _drawn(self) -> tuple[tuple[int, int], ...]:
        bars = [*(each for each in self.items if isinstance(each, Bar)), *(bar for _, bar in self.named)]
        return tuple(sorted((bar.line, bar.at_ns) for bar in bars if bar.is_placed and bar.at_ns is not None))

    def _of_bars(self) -> tuple[list[Row], int | None, list[tuple[str, int, str]], list[LogEvent]]:
        """Rows of the bar that counts training steps, and of dictionaries beside it."""
        bars = [each for each in self.items if isinstance(each, Bar)]
        placed = log_bar.placed(bars, self.promised)
        key = placed.bars[0].key if placed.bars else None
        notes = log_bar_time.place([bar for bar in bars if bar.steps and bar.key == key], self.stamps)
        step_of = {id(bar): step for bar, step in zip(placed.bars, placed.steps, strict=True)}
        rows: list[Row] = []
        num_unplaced = 0
        items = self.items
        for place, each in enumerate(items):
            if isinstance(each, Bar):
                step = step_of.get(id(each))
                if step is not None:
                    rows.append(
                        Row(each.line, each.at_ns, each.stream, step, each.stated, each.format, each.text)
                    )
                continue
            bar = _beside(items, place, step_of)
            if bar is not None:
                at_ns = each.at_ns if each.at_ns is not None else bar.at_ns
                step = step_of[id(bar)]
                rows.append(Row(each.line, at_ns, each.stream, step, each.stated, each.format, each.text))
            else:
                num_unplaced += 1
        if num_unplaced:
            text = "lines without a step stand beside no bar and are left out: run python -u"
            notes.append(("lines_without_step", num_unplaced, text))
        if placed.counts_by_epoch:
            notes.append(_EPOCHS)
        events = [
            _restart(
                placed.bars[place].text,
                placed.bars[place].at_ns,
                placed.bars[place].line,
                placed.steps[place],
                before,
            )
            for place, before in placed.restarts
        ]
        return _merged(rows), placed.total, notes, events


def _beside(items: Sequence[Bar | Row], place: int, step_of: Mapping[int, int]) -> Bar | None:
    """The drawing whose step a line that was written beside it is of.

    tqdm draws the bar again right after a line that it writes: then that is exact, while the drawing before
    may be a tenth of a second old. In a log that kept few drawings the one before is the nearer.
    """
    before = items[place - 1] if place else None
    after = items[place + 1] if place + 1 < len(items) else None
    if isinstance(before, Row) or isinstance(after, Row):
        return None  # output was buffered: several lines came at once
    near = [each for each in (after, before) if isinstance(each, Bar) and id(each) in step_of]
    if len(near) == 2 and isinstance(after, Bar) and isinstance(before, Bar):
        is_now = None not in (after.elapsed, before.elapsed) and after.elapsed - before.elapsed <= 1  # type: ignore[operator]
        return after if is_now else before
    return near[0] if near else None


_EPOCHS = ("steps_of_epochs", 1, "the log counts steps anew in each epoch: they are counted through")


def _event(kind: str, what: str, text: str, at_ns: int | None, line: int, *, severity: str = "info",
           step: int | None = None, numbers: Mapping[str, float] | None = None) -> LogEvent:  # fmt: skip
    return LogEvent(kind, what, text.strip(), at_ns, line, severity, step=step, numbers=numbers or {})


def _restart(text: str, at_ns: int | None, line: int, step: int, before: int) -> LogEvent:
    return _event("start", "restart", text, at_ns, line, severity="warning", step=step,
                  numbers={"from_step": float(before)})  # fmt: skip


def _add(stated: Stated, more: Stated) -> None:
    for name, value in more.values.items():
        stated.values.setdefault(name, value)
    for name, value in more.vague.items():
        stated.vague.setdefault(name, value)
    stated.not_finite += [name for name in more.not_finite if name not in stated.not_finite]


def _one_stream(rows: list[Row]) -> tuple[list[Row], int]:
    """Rows of the process that states the most, and how many lines of others there are."""
    counts = Counter(row.stream for row in rows)
    if len(counts.keys() - {""}) < 2:  # loggers of one process need not all say whose it is
        return rows, 0
    most = max(counts.values())
    best = min((stream for stream, count in counts.items() if count == most), key=_stream_order)
    kept = [row for row in rows if row.stream == best]
    return kept, len(rows) - len(kept)


def _stream_order(stream: str) -> tuple[int, str]:
    digits = re.findall(r"\d+", stream)
    return (int(digits[-1]) if digits else -1), stream


def _through_epochs(
    rows: list[Row], total: int | None
) -> tuple[list[Row], int | None, list[tuple[str, int, str]]]:
    """Steps that are counted anew in each epoch, counted through."""
    if any(row.stated.epoch_base is not None for row in rows):
        for row in rows:
            if row.stated.epoch_base is not None and row.stated.total is not None:
                row.step += (int(row.stated.values["epoch"]) - row.stated.epoch_base) * row.stated.total
        return rows, None, [_EPOCHS]
    offset, last, is_anew = 0, None, False
    for row in rows:
        epoch = row.stated.values.get("epoch")
        if (
            last is not None
            and epoch is not None
            and last[1] is not None
            and row.step < last[0]
            and epoch > last[1]
        ):
            offset += last[2] if last[2] is not None and last[2] >= last[0] else last[0]
            is_anew = True
        last = row.step, epoch if epoch is not None else (last[1] if last else None), row.stated.total
        row.step += offset
    return rows, None if is_anew else total, [_EPOCHS] if is_anew else []


def _merged(rows: Sequence[Row]) -> list[Row]:
    """Lines of one step that follow each other are one row."""
    merged: list[Row] = []
    for row in rows:
        if merged and merged[-1].step == row.step:
            _add(merged[-1].stated, row.stated)
            merged[-1].at_ns = row.at_ns if merged[-1].at_ns is None else merged[-1].at_ns
        else:
            merged.append(row)
    return merged


def _restarts(rows: list[Row], events: Sequence[LogEvent]) -> list[LogEvent]:
    """Steps that fall: a restart, unless lines of several processes are mixed."""
    steps = np.array([row.step for row in rows])
    rises = np.diff(steps)
    interval = float(np.median(rises[rises > 0])) if (rises > 0).any() else 1.0
    found = []
    for place in np.flatnonzero(rises < 0).tolist():
        before, now = rows[place], rows[place + 1]
        after = rows[place + 2].step if place + 2 < len(rows) else None
        fall = before.step - now.step
        if fall <= interval and after is not None and after >= before.step:
            continue
        found.append(_restart(now.text, now.at_ns, now.line, now.step, before.step))
    return found


def _without_sums(rows: list[Row]) -> tuple[list[Row], list[tuple[str, int, str]]]:
    """Times that may be of a step or since the start: kept where they do not only grow."""
    times = [row.stated.vague["step_seconds"] for row in rows if "step_seconds" in row.stated.vague]
    grows = len(times) >= 4 and bool((np.diff(times) > 0).all())
    if grows and times[-1] > 2.5 * times[0]:
        return rows, [("time_since_start", len(times), "the times only grow: they are no times of steps")]
    for row in rows:
        for name, value in row.stated.vague.items():
            row.stated.values.setdefault(name, value)
    return rows, []


def _not_finite(rows: Sequence[Row]) -> list[LogEvent]:
    """Where a number stops being finite."""
    events, bad = [], set[str]()
    for row in rows:
        for name in row.stated.not_finite:
            if name not in bad:
                # With loss scaling an infinite gradient is looked for: its step is skipped.
                severity = "critical" if name == "loss" else "info"
                kind = "error" if name == "loss" else "change"
                events.append(
                    _event(
                        kind, "non_finite", row.text, row.at_ns, row.line, severity=severity, step=row.step
                    )
                )
        bad = (bad | set(row.stated.not_finite)) - set(row.stated.values)
    return events
