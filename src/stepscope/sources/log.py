"""Reads a log: training progress, errors, NCCL's topology, kernel events, in one pass.

What is known of each is in tables (`catalog/log_*.py`); here lines are handed round and put on one time axis.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

from stepscope.model.error import InputError
from stepscope.model.log import Log
from stepscope.sources import file, log_pattern
from stepscope.sources.catalog import log_kernel
from stepscope.sources.formats.log_event import clean
from stepscope.sources.formats.log_line import MAX_LINE, Text
from stepscope.sources.formats.log_time import Clock, first_dated_ns
from stepscope.sources.log_reading import MAX_EVENTS, Reading
from stepscope.sources.log_step import of_json

SUFFIXES = (".log", ".out", ".err", ".txt", ".jsonl", ".ndjson", ".dmesg", ".kmsg")
_MEND = (
    "give a training log that states steps, a NCCL log (NCCL_DEBUG=INFO) or a kernel log (dmesg), "
    "or a pattern of your own"
)


def read_log(
    path: str, *, data: bytes | None = None, name: str | None = None, pattern: str | None = None
) -> Log:
    """A log file, plain or gzip, or its bytes in `data`.

    `pattern` is a regular expression with named groups: `step`, and any of `time`, `total` and
    `PROGRESS_FIELDS`, in their units; of each line, 10,000 characters are tried. InputError where nothing
    known is in it, UsageError where the pattern cannot be used.
    """
    name = name or path
    made = log_pattern.own_pattern(pattern) if pattern is not None else None
    if data is None:
        data = file.read(path).data
    lines = Text(data)
    clock = Clock(_written_ns(path))
    clock.last_ns = first_dated_ns(data)
    reading = Reading(clock, made)
    num_seen = 0
    for number, text in lines:
        if num_seen < 200:
            num_seen += 1
            reading.num_form += any(form.match(text) for form in log_kernel.FORMS)
        reading.take(number, text)
        reading.before.append(text)
    return _log(reading, lines, name, num_seen)


def _written_ns(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return None


def _log(reading: Reading, lines: Text, name: str, num_seen: int) -> Log:
    found = reading.progress.found()
    events, num_placed, num_without = reading.placed(found.drawn)
    nccl = reading.nccl.found()
    is_kernel = num_seen > 0 and reading.num_form * 2 > num_seen
    if reading.pattern is not None and found.progress is None:
        raise InputError(
            name, "the log pattern matches no line that states a step", "try it on one line of the log"
        )
    if (
        found.progress is None
        and not events
        and not found.events
        and nccl is None
        and not reading.uuids
        and not is_kernel
    ):
        what = f"none of its {lines.num_lines:,} lines says anything known"
        raise InputError(name, what, _MEND)
    cleaned = []
    num_redacted = reading.num_redacted + reading.nccl.num_redacted
    for each in found.events:
        text, count = clean(each.text)
        num_redacted += count
        at_ns = each.at_ns
        cleaned.append(replace(each, text=text, at_ns=at_ns))
    formats = reading.formats + found.formats
    format_ = max(formats, key=lambda each: (formats[each], each != "plain")) if formats else "plain"
    if is_kernel and found.progress is None:
        format_ = "kernel"
    if found.progress is not None and format_ in ("plain", "kernel", "nccl") and found.formats:
        format_ = max(found.formats, key=lambda each: (found.formats[each], each != "plain"))
    if found.formats["hugging-face"] and format_ == "tqdm":
        format_ = "hugging-face"
    ranks, hosts = reading.ranks, reading.hosts
    rank = reading.nccl.rank() if not ranks else None
    host = reading.nccl.host() if not hosts else None
    return Log(
        name=name,
        format=format_,
        progress=found.progress,
        events=tuple(sorted((*events, *cleaned), key=lambda each: each.line)),
        nccl=nccl,
        rank=next(iter(ranks)) if len(ranks) == 1 else rank,
        host=next(iter(hosts)) if len(hosts) == 1 else host,
        uuids=dict(reading.uuids),
        is_zone_assumed=reading.is_zone_assumed,
        num_lines=lines.num_lines,
        num_known=reading.num_known + found.num_known,
        num_redacted=num_redacted,
        notes=(*found.notes, *_notes(reading, lines, num_placed, num_without)),
    )


def _notes(reading: Reading, lines: Text, num_placed: int, num_without: int) -> list[tuple[str, int, str]]:
    notes = []
    if num_without:
        text = (
            "times count from the host's start and no line gives a wall time: "
            "use dmesg --time-format=iso or journalctl -k"
        )
        notes.append(("no_wall_time", num_without, text))
    if num_placed:
        text = "times since the host's start were put on the wall clock by lines that state both"
        notes.append(("boot_anchor", num_placed, text))
    if reading.clock.num_without_year:
        text = "times without a year took the one nearest to what is known"
        notes.append(("year_assumed", reading.clock.num_without_year, text))
    if lines.num_cut:
        notes.append(
            (
                "long_lines",
                lines.num_cut,
                f"of lines longer than {MAX_LINE:,} characters the rest was not read",
            )
        )
    for what, count in sorted(reading.left_out.items()):
        notes.append(("events_left_out", count, f"more than {MAX_EVENTS:,} {what} events"))
    return notes


# ── discovery ──

_MARKS = re.compile(
    r"NCCL (?:INFO|WARN|version)|NVRM: |\bXid \(|Traceback \(most recent call last\)"
    r"|elapsed time per iteration|\[INFO\] \[\w+\.py:\d+:"
    r"|\d+%\|[^|]{0,80}\| \d+/\d+ \[|\{'loss': |\d+/\d+ \[=|━━|out of memory"
    r"|\bstep[ =:]+\d+\b[^\n]{0,200}\bloss\b"
    r"|\bloss\b[^\n]{0,200}\bstep[ =:]+\d+"
)
_NO_LOG = re.compile(
    r"\A\s*(?:\[\s*\{|<|# (?:HELP|TYPE) |\{\s*\"(?:schemaVersion|traceEvents|deviceProperties)\")"
    r"|\"traceEvents\""
)
_STEM = re.compile(
    r"(?:^|[._\-])(?:dmesg|kmsg|kern|messages|syslog|journal|nccl|slurm|stdout|stderr|train(?:ing)?"
    r"|log)(?:$|[._\-])"
)


def is_log(path: str, start: bytes) -> bool:
    """Whether a file is meant as a log, by its name and first bytes (unpacked; some kilobytes tell more)."""
    if b"\0" in start[:512] and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    text = start.decode("utf-8", "replace")
    if _NO_LOG.search(text[:4096]):
        return False
    base = os.path.basename(path).lower().removesuffix(".gz")
    suffix = os.path.splitext(base)[1]
    if suffix in (".jsonl", ".ndjson"):
        record = of_json(text.partition("\n")[0].strip())
        return record is not None and (record.stated.step is not None or record.text is not None)
    lines = [line for line in re.split(r"[\r\n]+", text) if line]
    known = _MARKS.search(text) is not None or any(
        form.match(line) for line in lines[:20] for form in log_kernel.FORMS
    )
    if suffix in (".log", ".out", ".err", ".dmesg", ".kmsg"):
        return True
    named = _STEM.search(base) is not None and suffix not in (
        ".json",
        ".csv",
        ".tsv",
        ".prom",
        ".yaml",
        ".yml",
        ".md",
    )
    return known if suffix in (*SUFFIXES, "") or named else False


__all__ = ["MAX_EVENTS", "is_log", "read_log"]
