"""Lines that an agent followed, back to logs: each line under the time at which it was seen."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from datetime import datetime, timezone

from stepscope.model.batch import Lines
from stepscope.model.error import InputError
from stepscope.model.log import Log
from stepscope.model.stuck import Stack
from stepscope.sources.formats.py_spy import stacks_of_text
from stepscope.sources.log import read_log

_KMSG = re.compile(r"^(?:<\d+>)?\d{1,4},\d{1,18},\d{1,18},[^;]{1,8};")
_DATED = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:")
_LAST_NS = 253_402_300_800_000_000_000  # the year 10000
READ = ("kernel", "nccl")
"""Logs that are read again as logs; stacks become stacks."""
STACKS = "stacks"


def logs_of(batches: Sequence[Lines], path: str, job: str | None) -> list[Log]:
    """One log of each host and file; those that say nothing that is known are left out."""
    together: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    for each in batches:
        named = each.labels.get("job")
        if each.log not in READ or (job and named and job not in named.split(",")):
            continue
        rows = together.setdefault((each.host, each.log, each.name), [])
        rows += [row for row in zip(each.at_ns, each.text, strict=False) if 0 <= row[0] < _LAST_NS]
    logs = []
    for (host, kind, name), rows in sorted(together.items()):
        text = "\n".join(_line(at_ns, text, host, kind) for at_ns, text in sorted(rows))
        shown = f"{path} ({host}, {kind} log{f' {name}' if name and name != kind else ''})"
        with contextlib.suppress(InputError):
            logs.append(read_log("", data=text.encode("utf-8", "replace"), name=shown))
    return logs


def stacks_of_lines(batches: Sequence[Lines], job: str | None) -> list[Stack]:
    """The stacks of each process at each time at which it was looked into, oldest first. A batch names its
    rank in its labels."""
    together: dict[tuple[int, str, str, str | None], list[str]] = {}
    for each in batches:
        named = each.labels.get("job")
        if each.log != STACKS or (job and named and job not in named.split(",")):
            continue
        for at_ns, text in zip(each.at_ns, each.text, strict=False):
            together.setdefault((at_ns, each.host, each.name, each.labels.get("rank")), []).append(text)
    found: list[Stack] = []
    for (at_ns, host, name, rank), lines in sorted(together.items(), key=lambda row: row[0][0]):
        number = int(rank) if rank is not None and rank.isdecimal() else None
        found += stacks_of_text(lines, rank=number, host=host, at_ns=at_ns, name=name)
    return found


def _line(at_ns: int, text: str, host: str, kind: str) -> str:
    text = " ".join(text.splitlines())
    if _DATED.match(text):
        return text
    seconds, rest = divmod(at_ns, 1_000_000_000)
    day = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    when = f"{day}.{rest // 1000:06d}+00:00"
    if kind == "kernel":
        return f"{when} {host} kernel: {_KMSG.sub('', text)}"
    return f"{when} {text}"
