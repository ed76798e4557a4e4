"""What was given as one side of a comparison: a saved report, traces, rings, a spool, or a server's window.

`RESOLVERS` are asked in order: the first that knows a name reads it. Everything ends as a `Side`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from stepscope.analyse.compare.side import Side, as_accounted, cut, side_of
from stepscope.diagnose.command import quoted
from stepscope.model import redact
from stepscope.model.comparison import Comparison
from stepscope.model.error import InputError, UsageError
from stepscope.model.report import Step
from stepscope.model.text import Lang

Steps = tuple[int | None, int | None]
"""First and last step, both included; `None`: open on that side."""
_URL = re.compile(r"^https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a side: which steps, which job of a spool or server, in which language."""

    steps: Steps | None = None
    job: str | None = None
    lang: Lang = "en"
    keep_identities: bool = False
    redact_key: str | None = None
    jobs: int = 1


Resolver = Callable[[str, Wish], Side | None]
"""The side of a name, `None` where it is not this one's to read."""


def resolved(given: str, wish: Wish) -> Side:
    """The side that is meant. StepscopeError where it cannot be read, or none of its steps is asked for."""
    if not given:
        raise UsageError("a side is an empty name; give a trace, a report, a folder or a server's window")
    for resolver in RESOLVERS:
        side = resolver(given, wish)
        if side is not None:
            return replace(side, name=redact.without_secrets(side.name)[0])
    raise InputError(given, "is nothing that can be compared", "give a trace, a report, a ring or a spool")


def redacted(told: Comparison, base: Side, new: Side, wish: Wish) -> Comparison:
    """The comparison as it may leave: names of sides and settings like the reports that they are of."""
    inputs = [*base.report.inputs, *new.report.inputs]
    known = redact.identities_in_path(told.base.name) | redact.identities_in_path(told.new.name)
    key = (
        wish.redact_key.encode()
        if wish.redact_key
        else redact.key_of_inputs(each.sha256 or each.name for each in inputs)
    )
    return redact.redact_report(told, key=key, known=known, keep_identities=wish.keep_identities)


def saved_report(given: str, wish: Wish) -> Side | None:
    """A report as `diagnose --format json` writes it."""
    from stepscope.offline.saved import is_saved, read

    if not os.path.isfile(given) or not is_saved(given):
        return None
    report = read(given, redact_key=wish.redact_key, keep_identities=wish.keep_identities)
    side = side_of(given, report)
    if wish.steps is None:
        return side
    part = cut(side, *wish.steps)
    if not part.report.steps:
        raise _no_steps(given, wish.steps, [step.step for step in report.steps])
    return part


def window(given: str, wish: Wish) -> Side | None:
    """A window that a server stores: `http://HOST:9500?job=J&start=…&end=…`."""
    if not _URL.match(given):
        return None
    parts = urlsplit(given)
    options = parse_qsl(parts.query, keep_blank_values=True)
    job = next((value for name, value in options if name == "job"), wish.job)
    rest = urlencode([each for each in options if each[0] != "job"])
    return _diagnosed(urlunsplit(parts._replace(query=rest)), replace(wish, job=job), is_telemetry=True)


def spool(given: str, wish: Wish) -> Side | None:
    """An agent's spool."""
    from stepscope.sources.formats.spool import is_spool

    if not os.path.exists(given) or not is_spool(given):
        return None
    return _diagnosed(given, wish, is_telemetry=True)


def recorded(given: str, wish: Wish) -> Side | None:
    """Traces, rings or tables of steps: a file, a directory, an archive or a pattern."""
    return _diagnosed(given, wish, is_telemetry=False)


RESOLVERS: tuple[Resolver, ...] = (window, saved_report, spool, recorded)


def _diagnosed(given: str, wish: Wish, *, is_telemetry: bool) -> Side:
    from stepscope.offline import diagnosed
    from stepscope.offline.read import OPEN

    steps = None
    if wish.steps is not None:
        first, last = wish.steps
        steps = (-OPEN if first is None else first, OPEN if last is None else last)
    done = diagnosed(
        () if is_telemetry else given,
        telemetry=given if is_telemetry else (),
        steps=steps,
        job=wish.job,
        lang=wish.lang,
        keep_identities=wish.keep_identities,
        redact_key=wish.redact_key,
        jobs=wish.jobs,
    )
    every: list[Step] = []
    analyses = {id(row.observed.rank): row.observed.rank for row in done.rows}
    for analysis in analyses.values():
        took = [
            ((analysis.rank, None), {n: of["total_ns"] for n, of in device.by_step.items()})
            for device in analysis.devices
            if device.accounting.window == "device"
        ]
        every += as_accounted([msgspec.structs.replace(each, input=None) for each in analysis.steps], took)
    side = side_of(given, done.report, steps=every or None, settings=done.settings)
    option = "--telemetry " if is_telemetry else ""
    job = "" if wish.job is None else f" --job {quoted(wish.job)}"
    return replace(side, command=f"stepscope diagnose {option}{quoted(given)}{job}")


def _no_steps(given: str, steps: Steps, there: list[int]) -> UsageError:
    first, last = (("" if each is None else str(each)) for each in steps)
    known = f"there are {min(there)} to {max(there)}" if there else "it has no steps"
    return UsageError(f"{given}: none of its steps is in {first}:{last}; {known}")
