"""The next command, filled in with the inputs' real names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from stepscope.model import report


def quoted(name: str) -> str:
    """A name as one word of a shell; one that begins with a hyphen would be read as an option."""
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def folder(name: str) -> str:
    """The folder that a file lies in, `.` for the present one; of a member of an archive, the archive."""
    head, slash, _ = name.rpartition("/")
    return head or (slash or ".")


def with_trace(inputs: Sequence[report.Input]) -> str:
    """The command on a trace that is still to be recorded, with the telemetry and logs that were given."""
    options = {"telemetry": "--telemetry", "log": "--logs"}
    given = [f"{options[i.kind]} {quoted(i.name)}" for i in inputs if i.kind in options and i.error is None]
    return " ".join(["stepscope diagnose TRACE", *given[:4]])


def filled(command: str, inputs: Sequence[report.Input], rank: int | None = None) -> str:
    """The command with `{input}` and `{folder}` of the trace of `rank`, or else of the first trace."""
    traces = [i for i in inputs if i.kind == "trace"] or list(inputs)
    own = [i for i in traces if rank is not None and i.rank == rank]
    name = (own or traces)[0].name if traces else "."
    return command.replace("{input}", quoted(name)).replace("{folder}", quoted(folder(name)))
