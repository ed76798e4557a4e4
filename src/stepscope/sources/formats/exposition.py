"""Prometheus and OpenMetrics text: one scrape or many, one after another, in one file.

Where a scrape begins: at a `# scraped_at_ns N` comment, after `# EOF`, or, in a file with neither, where the
first series of the scrape stands a second time (bodies appended to one file). Where its time comes from: the
samples' own timestamps, the comment, the time in the file's name, or nowhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.model.sample import TimeKind
from stepscope.sources.formats.line import without_cut_line
from stepscope.sources.formats.metric import Metric
from stepscope.sources.formats.moment import EPOCH_NS, GRID_NS, is_plausible

PIECE = 8 << 20
"""Characters that are split into lines at a time: a file of a gigabyte is never a list of lines."""
_NO_TIME = np.iinfo(np.int64).min
MAX_SERIES = 2_000_000
SCRAPED_AT = "# scraped_at_ns"
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:.]*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN])")


@dataclass(frozen=True, slots=True)
class Exposition:
    """A file of scrapes.

    `metrics` are its series over all scrapes, in order of first sight; families declared without a sample
    come last, with length 0. `time` says where `at_ns` comes from. `faults` are (code, count, detail).
    """

    metrics: list[Metric]
    time: TimeKind
    num_scrapes: int
    num_samples: int
    faults: tuple[tuple[str, int, str], ...] = ()


class _Reading:
    """The state of one pass: a column of series numbers and one of values, cut into scrapes."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.same: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        """The number of a series by its meaning: two spellings of one series are one."""
        self.named: list[tuple[str, dict[str, str]]] = []
        self.ids: list[int] = []
        self.values: list[float] = []
        self.stamps: list[float | None] = []
        """Timestamps as written, of as many samples as `ids` has; empty while none has one."""
        self.starts: list[int] = [0]
        self.scrape_ns: list[int | None] = [None]
        self.types: dict[str, str] = {}
        self.is_open = False
        self.first_line = ""
        self.malformed = 0
        self.first_malformed = 0

    def begin(self, at_ns: int | None) -> None:
        """A new scrape; the one before it is used again where it holds nothing."""
        if len(self.ids) == self.starts[-1]:
            self.scrape_ns[-1] = at_ns
        else:
            self.starts.append(len(self.ids))
            self.scrape_ns.append(at_ns)
        self.first_line = ""

    def bad(self, line_number: int) -> None:
        self.malformed += 1
        self.first_malformed = self.first_malformed or line_number


def read_exposition(text: str, *, given_ns: int | None = None) -> Exposition:
    """Every series of the text. `given_ns` is when it was scraped, where the caller knows (one scrape)."""
    reading = _Reading()
    has_markers = SCRAPED_AT in text
    is_open = text.rstrip().endswith("# EOF") or "\n# EOF\n" in text
    reading.is_open = is_open
    line_number = 0
    text, is_cut = without_cut_line(text)
    for lines in _pieces(text):
        _lines(reading, lines, line_number, can_repeat=not (has_markers or is_open))
        line_number += len(lines)
    return _joined(reading, given_ns, is_cut)


def _pieces(text: str) -> Iterator[list[str]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start + PIECE)
        end = len(text) if end < 0 else end + 1
        lines = text[start:end].split("\n")
        if not lines[-1]:
            lines.pop()
        yield lines
        start = end


def _lines(reading: _Reading, lines: list[str], line_number: int, can_repeat: bool) -> None:
    """The hot loop: a line whose series is known costs one split, one look-up and one float."""
    number, ids, values, stamps = reading.number, reading.ids, reading.values, reading.stamps
    known = number.get
    for line in lines:
        line_number += 1
        head, _, last = line.rpartition(" ")
        if stamps:
            stamp = last
            head, _, last = head.rpartition(" ")
        series = known(head)
        try:
            if series is None or "_" in line[len(head) :]:  # float() reads 1_0 as ten
                raise ValueError
            value = float(last)
            if stamps:
                stamps.append(float(stamp))
        except ValueError:
            _slow(reading, line, line_number, can_repeat)
            continue
        if can_repeat and head == reading.first_line and not stamps:
            reading.begin(None)
        reading.first_line = reading.first_line or head
        ids.append(series)
        values.append(value)


def _slow(reading: _Reading, line: str, line_number: int, can_repeat: bool) -> None:
    """A line of any kind: a comment, a new series, a sample with a timestamp."""
    line = line.strip("\r\t \ufeff")
    if not line:
        return
    if line[0] == "#":
        _comment(reading, line)
        return
    sample = _sample(reading, line)
    if sample is None:
        reading.bad(line_number)
        return
    head, series, value, stamp = sample
    if can_repeat and head == reading.first_line and stamp is None:
        reading.begin(None)
    if not reading.first_line:
        reading.first_line = head
    if stamp is not None and not reading.stamps:
        reading.stamps.extend([None] * len(reading.ids))
        reading.stamps.append(stamp)
    elif reading.stamps:
        reading.stamps.append(stamp)
    reading.ids.append(series)
    reading.values.append(value)


def _comment(reading: _Reading, line: str) -> None:
    if line.startswith("# TYPE "):
        words = line.split()
        if len(words) >= 4:
            reading.types[words[2]] = words[3].lower()
    elif line.startswith(SCRAPED_AT):
        text = line[len(SCRAPED_AT) :].strip(" :=")
        reading.begin(int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None)
    elif line == "# EOF":
        reading.begin(None)


def _sample(reading: _Reading, line: str) -> tuple[str, int, float, float | None] | None:
    """(text of the series, its number, value, timestamp or None); `None` where the line is malformed."""
    brace = line.find("{")
    end = -1
    if brace >= 0 and not any(letter in line[:brace].rstrip() for letter in " \t"):
        end = _end_of_labels(line, brace)
        if end < 0:
            return None
    head, rest = (line[:end], line[end:]) if end > 0 else _without_labels(line)
    words = rest.split("#", 1)[0].split()  # what follows `#` is an exemplar
    if not 1 <= len(words) <= 2 or not _NUMBER.fullmatch(words[0]):
        return None
    value, stamp = float(words[0]), None
    if len(words) == 2:
        if not _NUMBER.fullmatch(words[1]):
            return None
        stamp = float(words[1])
        if not np.isfinite(stamp):
            return None
    series = reading.number.get(head)
    if series is None:
        parsed = _series(head)
        if parsed is None:
            return None
        name, labels = parsed
        key = (name, frozenset(labels.items()))
        series = reading.same.setdefault(key, len(reading.named))
        if series == len(reading.named):
            if series >= MAX_SERIES:
                return None
            reading.named.append(parsed)
        reading.number[head] = series
    return head, series, value, stamp


def _without_labels(line: str) -> tuple[str, str]:
    name, _, rest = line.replace("\t", " ").partition(" ")
    return name, rest


def _end_of_labels(line: str, brace: int) -> int:
    """The place after the closing brace, -1 where it is missing: a value may hold braces and quotes."""
    place = line.find('"', brace)
    while True:
        closing = line.find("}", brace)
        if closing < 0:
            return -1
        if place < 0 or closing < place:
            return closing + 1
        after = place + 1
        while True:
            after = line.find('"', after)
            if after < 0:
                return -1
            slashes = len(line[:after]) - len(line[:after].rstrip("\\"))
            if slashes % 2 == 0:
                break
            after += 1
        brace, place = after, line.find('"', after + 1)


def _series(head: str) -> tuple[str, dict[str, str]] | None:
    name, brace, rest = head.partition("{")
    name = name.strip()
    if not _NAME.fullmatch(name):
        return None
    labels: dict[str, str] = {}
    place = 0
    if not brace:
        return name, labels
    while rest[place:].lstrip() != "}":
        found = _LABEL.match(rest, place)
        if not found:
            return None
        labels[found[1]] = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], found[2])
        place = found.end()
    return name, labels


def _joined(reading: _Reading, given_ns: int | None, is_cut: bool) -> Exposition:
    ids = np.array(reading.ids, np.int64)
    values = np.array(reading.values, np.float64)
    num_samples = len(ids)
    if len(ids) == reading.starts[-1] and len(reading.starts) > 1:
        reading.starts.pop()
        reading.scrape_ns.pop()
    bounds = np.array([*reading.starts, len(ids)])
    scrape = np.repeat(np.arange(len(reading.starts)), np.diff(bounds))
    at_ns, time, faults = _times(reading, scrape, given_ns)
    known = at_ns != _NO_TIME
    ids, values, at_ns = ids[known], values[known], at_ns[known]
    num_repeats = 0
    metrics: list[Metric] = []
    order = np.lexsort((np.arange(len(ids)), at_ns, ids))
    ids, at_ns, values = ids[order], at_ns[order], values[order]
    edges = np.searchsorted(ids, np.arange(len(reading.named) + 1))
    for number, (name, labels) in enumerate(reading.named):
        rows = slice(edges[number], edges[number + 1])
        times = at_ns[rows]
        num_repeats += int(np.count_nonzero(times[1:] == times[:-1]))
        kind = reading.types.get(name) or reading.types.get(name.removesuffix("_total"))
        metrics.append(Metric(name, labels, times, values[rows], kind))
    seen = {name for name, _ in reading.named}
    empty = np.empty(0, np.int64)
    metrics += [
        Metric(name, {}, empty, np.empty(0), kind) for name, kind in reading.types.items() if name not in seen
    ]
    if num_repeats:
        faults["duplicate_samples"] += num_repeats
    details = {
        "malformed_lines": f"the first at line {reading.first_malformed}" if reading.first_malformed else "",
        "duplicate_samples": "the same series twice at one time: the first counts",
        "truncated": "the last line has no end: its number may be cut, it is left out",
        "unit_suspect": "timestamps in another unit than the format's: read by their size",
    }
    faults["malformed_lines"] += reading.malformed
    faults["truncated"] = int(is_cut)
    return Exposition(
        metrics,
        time,
        len(reading.starts),
        num_samples,
        tuple((code, count, details[code]) for code, count in faults.items() if count),
    )


def _times(
    reading: _Reading, scrape: np.ndarray, given_ns: int | None
) -> tuple[np.ndarray, TimeKind, Counter[str]]:
    """When each sample was taken. Prometheus text has milliseconds, OpenMetrics seconds; some write the
    other, which is seen by the size: 1.7e9 is no time in milliseconds, nor 1.7e12 one in seconds."""
    faults: Counter[str] = Counter()
    count = len(reading.starts)
    known = [at for at in reading.scrape_ns if at is not None]
    time: TimeKind
    if len(known) == count and known:
        scrape_at, time = np.array(known, np.int64), "scrape"
    elif given_ns is not None and count == 1:
        scrape_at, time = np.array([given_ns], np.int64), "given"
    else:
        scrape_at, time = np.arange(count, dtype=np.int64) * GRID_NS, "none"
        if known:
            faults["malformed_lines"] += count - len(known)
    at_ns = scrape_at[scrape] if len(scrape) else np.empty(0, np.int64)
    if not reading.stamps:
        return at_ns, time, faults
    stamps = np.array([np.nan if each is None else each for each in reading.stamps], np.float64)
    has = ~np.isnan(stamps)
    scale = 1e9 if reading.is_open else 1e6
    middle = float(np.median(stamps[has]))
    if not is_plausible(middle * scale):
        for other in (1e9, 1e6, 1e3, 1.0):
            if is_plausible(middle * other):
                scale = other
                faults["unit_suspect"] += int(np.count_nonzero(has))
                break
    # In milliseconds first: whole ones, and seconds of three decimals, are exact; nanoseconds would not be.
    whole = np.round(stamps[has] * (scale / 1e6)) if scale >= 1e6 else stamps[has] * (scale / 1e6)
    inside = np.abs(whole) < EPOCH_NS / 1e6
    exact = np.where(inside, whole, 0.0).astype(np.float64)
    stamp_ns = np.trunc(exact).astype(np.int64) * 1_000_000
    stamp_ns += np.round((exact - np.trunc(exact)) * 1e6).astype(np.int64)
    at_ns = at_ns.copy()
    at_ns[has] = np.where(inside, stamp_ns, _NO_TIME)
    faults["malformed_lines"] += int(np.count_nonzero(~inside))
    return at_ns, "sample" if has.all() or time == "none" else time, faults
