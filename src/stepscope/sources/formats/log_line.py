"""Bytes of a log to lines, and what stands before a line's text: time, rank, host, process.

Escape sequences of terminals go, and a line that a progress bar wrote over is as many lines. Prefixes are a
table: launchers, schedulers, container runtimes and loggers each put their own.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stepscope.sources.formats.log_time import Clock

MAX_LINE = 10_000
"""Characters of a line that are read: the patterns take time that grows with a line's length."""

_ESCAPE = re.compile(
    r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|\x1b[@-_]"
    r"|[\x00-\x07\x0e-\x1f\x7f]"
)
_REDRAWN = re.compile(r"[\r\x08\x0b\x0c]+")


@dataclass(slots=True)
class Text:
    """A file's bytes as lines: `num_lines` and `num_cut` are filled while they are read."""

    data: bytes
    num_lines: int = 0
    num_cut: int = 0
    """Lines longer than `MAX_LINE`: what is beyond is not read."""

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """(number from 1, text) of each line that is not blank; parts of a line drawn over share a number."""
        data = _as_utf8(self.data)
        start, size = 0, len(data)
        while start < size:
            end = data.find(b"\n", start)
            end = size if end < 0 else end
            self.num_lines += 1
            raw = data[start:end]
            start = end + 1
            text = raw.decode("utf-8", "replace")
            if "\x1b" in text or not text.isprintable():
                for part in _REDRAWN.split(text):
                    part = _ESCAPE.sub("", part).rstrip()
                    if part:
                        yield self.num_lines, self._cut(part)
            elif text := text.rstrip():
                yield self.num_lines, self._cut(text)

    def _cut(self, text: str) -> str:
        if len(text) <= MAX_LINE:
            return text
        self.num_cut += 1
        return text[:MAX_LINE]


def _as_utf8(data: bytes) -> bytes:
    """PowerShell's `>` writes UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data.removeprefix(codecs.BOM_UTF8)


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before a line's own text; `None` where nothing says it.

    `boot_seconds` is a kernel's time since it started. `stream` names whose output it is where many processes
    write into one file. `inner` begins after that alone, `body` after all prefixes.
    """

    at_ns: int | None
    has_zone: bool
    boot_seconds: float | None
    rank: int | None
    host: str | None
    pid: int | None
    stream: str
    inner: str
    body: str


# Whose output it is: stands first. (pattern): groups rank, stream, pid.
STREAMS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<stream>\[rank(?P<rank>\d{1,7})\]):?\s?",  # torch.distributed, since 2.2
        r"(?P<stream>\[default(?P<local>\d{1,4})\]):\s?",  # torchrun --redirects
        r"(?P<stream>\[\d{1,7},(?P<rank>\d{1,7})\]<std(?:out|err)>):\s?",  # mpirun --tag-output, horovodrun
        r"\s{0,6}(?P<stream>\d{1,6}): (?!\d+: )",  # srun --label: a task, which may hold many ranks
        r"(?P<stream>\((?:[\w.:\-]{1,80} )?(?:rank=(?P<rank>\d{1,7}) )?pid=(?P<pid>\d{1,10})(?:, "
        r"ip=[\w.:]+)?\))\s?",
        r"(?P<stream>[\w.\-]{1,80}) {1,40}\| ",  # docker compose
        r"std(?:out|err) [FP] ",  # container runtimes
    )
)
_NO_POSITION = r"(?![^\]]*(?i:step|iter|batch|epoch)|\s*\d+\s*/)"
PREFIXES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[(?:PG [^\]]{0,80})?[Rr]ank[ :=]?(?P<rank>\d{1,7})\]:?\s?",
        r"\[\s*(?P<boot>\d{1,12}\.\d{6,9})\](?:\[\s*[TC]\d+\])?\s?",
        r"\d{1,4},\d{1,18},(?P<boot_us>\d{1,18}),[^;]{1,8};",  # /dev/kmsg
        r"<\d{1,4}>(?:\d )?",  # syslog priority
        r"[a-z]{2,9} {0,4}:[a-z]{2,9} {0,4}: ",  # dmesg --decode
        r"(?P<host>[\w.\-]{1,255}) (?=kernel: |kernel\[\d+\]: )",
        r"kernel(?:\[\d+\])?: ",
        r"std(?:out|err) [FP] ",
        rf"\[{_NO_POSITION}[\w .:/<>\-]{{1,80}}\]:?\s*",
        r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE)\b:?\s*",
        r"\[[A-Z]{4,8}\|[\w.\-]{1,80}:\d{1,6}\]\s*",  # Hugging Face: [INFO|trainer.py:2409] <time> >> …
        r"[\w.<>]{1,80}:[\w.<>]{1,80}:\d{1,6} - ",  # loguru
        r"[A-Za-z_][\w.]{0,80} - ",  # the logger's name
        r"[A-Za-z_][\w.]{0,80}\.(?:py|cc|cpp|h|cu):\d{1,6}[\]:]\s*",
        r"(?:[\-|:;,>]|>>)(?=\s)\s*",
        r"[\w.\-]{1,64}:? (?=\[?\d{4}-\d\d-\d\d[T ]\d\d:)",
    )
)
_DAEMON = re.compile(r"(?P<host>[\w.\-]{1,255}) [A-Za-z][\w./\-]{0,63}(?:\[(?P<pid>\d{1,10})\])?: ")


def head(text: str, clock: Clock) -> Head:
    """What stands before a line's text."""
    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    boot: float | None = None
    at_ns: int | None = None
    stream = ""
    place, has_zone = 0, False
    for pattern in STREAMS:
        match = pattern.match(text)
        if match is not None:
            group = match.groupdict()
            stream, place = group.get("stream") or "", match.end()
            rank = int(group["rank"]) if group.get("rank") else None
            pid = int(group["pid"]) if group.get("pid") else None
            break
    inner = place
    for _ in range(12):
        while text[place : place + 1] in (" ", "\t"):
            place += 1
        if at_ns is None:
            found = clock.at(text, place)
            if found is not None:
                at_ns, place, has_zone = found.at_ns, found.end, found.has_zone
                daemon = _DAEMON.match(text, place + 1) if found.form == "syslog" else None
                if daemon is not None:
                    host, place = daemon["host"], daemon.end()
                    pid = int(daemon["pid"]) if daemon["pid"] else pid
                continue
        for pattern in PREFIXES:
            match = pattern.match(text, place)
            if match is not None and match.end() > place:
                group = match.groupdict()
                rank = int(group["rank"]) if group.get("rank") and rank is None else rank
                host = group.get("host") or host
                if group.get("boot"):
                    boot = float(group["boot"])
                elif group.get("boot_us"):
                    boot = int(group["boot_us"]) / 1e6
                place = match.end()
                break
        else:
            break
    return Head(at_ns, has_zone, boot, rank, host, pid, stream, text[inner:], text[place:])
