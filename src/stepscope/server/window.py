"""A window of the store as a segment of a spool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from stepscope.model.batch import Batch, Happened
from stepscope.model.error import UsageError
from stepscope.server.moment import window_ns
from stepscope.server.parts import Parts
from stepscope.server.query_job import run_of
from stepscope.server.reply import Refusal
from stepscope.sources.formats.frame import Header, pack_frame, pack_header

MOST_HEADER = 512
HOUR_NS = 3_600_000_000_000
BESIDE_NS = 600_000_000_000
"""How far before a run's begin and behind its end a window goes that nobody bounds: what devices did then."""


def spool_of(
    parts: Parts, job: str | None, run: str | None, start: str | None, end: str | None
) -> tuple[bytes, dict[str, str]]:
    """The body, and the headers that say of which job it is where none was named: `Stepscope-Job`, and
    `Stepscope-Other-Jobs` with the newest others, both as in a URL. Refusal where there is no such run, or it
    is too large."""
    now_ns = parts.clock_ns()
    chosen: dict[str, str] = {}
    if job is None and run is not None:
        raise UsageError("a run is one of a job; give job too")
    if job is None and start is None and end is None:
        names = list(dict.fromkeys(row.job for row in parts.store.runs()))
        if not names:
            raise Refusal(404, "no job was ever seen here", "is an agent shipping to this server?")
        job = names[0]
        chosen = {"stepscope-job": quote(job)[:MOST_HEADER]}
        if names[1:]:
            chosen["stepscope-other-jobs"] = ",".join(quote(each)[:MOST_HEADER] for each in names[1:6])
            chosen["stepscope-num-other-jobs"] = str(len(names) - 1)
    if job is not None:
        row = run_of(parts, job, run)
        first_ns, last_ns = row.start_ns - BESIDE_NS, row.last_ns + BESIDE_NS
        end = end or str(max(last_ns, 1))
        start = start or (str(max(first_ns, last_ns - HOUR_NS - BESIDE_NS, 0)) if start is None else None)
    start_ns, end_ns = window_ns(start, end, now_ns, parts.limits, default_ns=HOUR_NS)
    if end_ns - start_ns > parts.limits.window_ns:
        hours = parts.limits.window_ns // HOUR_NS
        raise Refusal(413, f"a raw window of more than {hours} hours", "ask for a shorter one (start, end)")
    pieces: list[bytes] = []
    size = 0
    batches = parts.store.batches(job, run, start_ns, end_ns)
    notes = parts.store.notes(start_ns, end_ns)
    for batch in (*batches, *_told(batches, notes, start_ns)):
        if not pieces:
            pieces.append(pack_header(Header(batch.agent, batch.seq)))
        pieces.append(pack_frame(batch))
        size += len(pieces[-1])
        if size > parts.limits.window_bytes:
            most = parts.limits.window_bytes >> 20
            raise Refusal(413, f"a window of more than {most} MB", "ask for a shorter one (start, end)")
    if not pieces:
        raise Refusal(404, "nothing is kept of that window", "GET /api/v1/runs says when each run was")
    return b"".join(pieces), chosen


def _told(batches: Sequence[Batch], notes: Sequence[tuple[str, int, str]], at_ns: int) -> Iterator[Happened]:
    """What is damaged of the window, as events behind its last batch."""
    if not batches:
        return
    last = batches[-1]
    for seq, (code, num, detail) in enumerate(notes, last.seq + 1):
        yield Happened(last.agent, seq, "", at_ns, code, detail, num)
