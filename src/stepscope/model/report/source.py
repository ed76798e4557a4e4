"""What wrote the report, what was given to it, and its one-line answer."""

from __future__ import annotations

from msgspec import field

from stepscope.model.report.base import InputKind, Part, VerdictClass


class Tool(Part, frozen=True, kw_only=True):
    """Who wrote the report."""

    name: str
    """Always `stepscope`."""
    version: str
    """Its version."""
    native_loader: bool | None = None
    """Whether the native parser was at hand; absent where the caller did not say."""


class Verdict(Part, frozen=True, kw_only=True):
    """The one-line answer: its class, and a sentence with the numbers."""

    class_: VerdictClass = field(name="class")
    """What the step waits for: the class of the largest finding of at least 5 % of its row; `undecided` where
    the data cannot tell."""
    text: str
    """The sentence, in the report's language."""
    row: int | None = None
    """The place in `accounting` of the row that the sentence speaks of."""


class Input(Part, frozen=True, kw_only=True):
    """One thing that was given to us, and whether it could be used."""

    kind: InputKind
    """What it is; so far traces, memory snapshots and tables of steps are read."""
    name: str
    """The path as it was given or found, without identities."""
    format: str | None = None
    """The format it was recognised as; absent where it could not be used."""
    bytes: int | None = None
    """Size of the file as it lies on disk, compressed or not; absent where unknown."""
    sha256: str | None = None
    """Digest of the file as it lies on disk; absent where it could not be read to its end."""
    rank: int | None = None
    """The rank that the trace, or a snapshot's name, states; absent where it states none or holds several
    processes."""
    world_size: int | None = None
    """How many ranks the job has; absent where the trace does not say."""
    events: int | None = None
    """How many events were kept; of a snapshot, blocks and entries of its history."""
    start_ns: int | None = None
    """Wall time of the first start; absent where the trace is not anchored in wall time."""
    end_ns: int | None = None
    """Wall time of the last end; absent where the trace is not anchored in wall time."""
    redacted: int | None = None
    """How many secrets were removed from it; 0 where it was searched and had none."""
    error: str | None = None
    """Only where it could not be used."""
