"""A spool to what the analysis takes: telemetry by host and source, logs, and the batches of marks.

A spool may hold several jobs. One is read: the one that is named, else the one that marked most; samples of
others are left out, and samples of nobody are taken from ten minutes before the job to ten minutes after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stepscope.model import batch as wire
from stepscope.model.error import InputError
from stepscope.model.log import Log
from stepscope.model.sample import Telemetry
from stepscope.model.stuck import Stack
from stepscope.sources.formats.spool import Content, batches_of, open_spool
from stepscope.sources.spool_column import FORMAT, Job, Whole, job_of
from stepscope.sources.spool_log import logs_of, stacks_of_lines


@dataclass(frozen=True, slots=True)
class SpoolRead:
    """One spool, read whole. `marks` are batches as they were: `sources.marks` puts them together. `job` is
    the one that was read, `None` where samples name none."""

    telemetry: tuple[Telemetry, ...]
    logs: tuple[Log, ...]
    marks: tuple[wire.Marks, ...]
    content: Content
    job: str | None
    jobs: tuple[str, ...]
    end_ns: int | None
    """When the agent saw anything last."""
    ends: tuple[wire.Happened, ...] = ()
    """What it said of ranks that ended."""
    stacks: tuple[Stack, ...] = ()
    """Of processes that it was asked for."""


class NoJob(InputError):
    """The job that was asked for is not in the spool: no other one is read in its place."""


def read_spool(path: str, *, job: str | None = None) -> SpoolRead:
    """A folder of segments, or one of them. InputError where it is none or holds nothing of use, NoJob
    where it holds jobs and not the one that is named."""
    content = open_spool(path)
    whole = Whole()
    for each in batches_of(content):
        whole.take(each)
    whole.close()
    if not content.num_batches:
        place, what = (f"byte {content.faults[0][1]}", content.faults[0][2]) if content.faults else (None, "")
        raise InputError(path, f"no batch in it {what}".strip(), "let the agent run for a while", place)
    chosen = _chosen(whole.jobs, job, path)
    found = whole.telemetry(path, chosen)
    logs = logs_of(whole.lines, path, chosen)
    stacks = tuple(stacks_of_lines(whole.lines, chosen))
    marks = tuple(each for each in whole.marks if chosen is None or job_of(each) in (None, chosen))
    notes = (*_notes(content), *_job_notes(whole.jobs, chosen, job), *whole.notes())
    if found:
        found[0] = replace(found[0], notes=(*notes, *found[0].notes))
    elif logs or marks or stacks:
        found = [Telemetry(path, FORMAT, (), "sample", notes=notes)] if notes else []
    else:
        what = "no samples, marks or logs that say anything"
        raise InputError(path, what, "let the agent run while a job does")
    ends = tuple(each for each in whole.events if each.what == "exit")
    return SpoolRead(
        tuple(found),
        tuple(logs),
        marks,
        content,
        chosen,
        tuple(sorted(whole.jobs)),
        whole.end_ns,
        ends,
        stacks,
    )


def _chosen(jobs: Mapping[str, Job], asked: str | None, path: str) -> str | None:
    if asked in jobs:
        return asked
    if asked is not None and jobs:
        more = f" and {len(jobs) - 10} more" if len(jobs) > 10 else ""
        raise NoJob(path, f"no job {asked} in the spool", f"there are: {', '.join(sorted(jobs)[:10])}{more}")
    return max(
        jobs,
        key=lambda name: (jobs[name].num_records, jobs[name].num_samples, jobs[name].end_ns or 0),
        default=None,
    )


def _notes(content: Content) -> list[tuple[str, int, str]]:
    notes = []
    for path, at, what, num_bytes in content.faults[:5]:
        name = path.replace("\\", "/").rpartition("/")[2]
        text = f"{name} at byte {at}: {what}; {num_bytes} bytes were left out, the rest is used"
        notes.append(("spool_damage", 1, text))
    if len(content.faults) > 5:
        more = len(content.faults) - 5
        notes.append(("spool_damage", more, f"and {more} more places"))
    if content.num_duplicates:
        text = "batches that were there twice; the first counts"
        notes.append(("spool_duplicate", content.num_duplicates, text))
    return notes


def _job_notes(jobs: Mapping[str, Job], chosen: str | None, asked: str | None) -> list[tuple[str, int, str]]:
    others = sorted(name for name in jobs if name != chosen)
    if not others:
        return []
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    names = ", ".join(others[:5])
    text = f"job {chosen} was read; there are also {names}{more}"
    return [("spool_jobs", len(others), text if asked is not None else f"{text}: choose by --job")]
