"""One step of one device as a picture: what ran when on its streams and host threads, and why it idled."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from stepscope.model.report.base import Part, written

LaneKind = Literal["stream", "thread", "idle"]


class Lane(Part, frozen=True, kw_only=True):
    """Pieces of one class or cause: lists of one length, in order of time, that never touch.

    Neighbours nearer than the timeline's `resolution_ns` are one piece.
    """

    kind: LaneKind
    """A stream of the device, a thread of the host, or the device's idle time."""
    what: str
    """The class of the kernels of a stream; the cause of a thread's rows or of idle time, without `_ns`."""
    stream: int | None = None
    """The stream's number; absent for other kinds."""
    thread: str | None = None
    """The thread's name, else its number; absent for other kinds."""
    start_ns: tuple[int, ...] = field(default_factory=written)
    """Start of each piece, from the timeline's `start_ns` on."""
    dur_ns: tuple[int, ...] = field(default_factory=written)
    """Length of each piece, small holes inside it included."""
    busy_ns: tuple[int, ...] = field(default_factory=written)
    """The part of each length that is no hole."""
    count: tuple[int, ...] = field(default_factory=written)
    """How many activities, or stretches of a thread or of idle time, each piece is merged from."""
    name: tuple[int, ...] = ()
    """The place in the timeline's `names` of the longest event in each piece; absent for idle time."""
    span: tuple[int, ...] = ()
    """The index in its file of that event; absent for idle time."""


class Timeline(Part, frozen=True, kw_only=True):
    """The longest counted step of a row, or the whole trace where no step counts."""

    start_ns: int
    """Where the window begins, in which the accounting of this step was made."""
    dur_ns: int
    """How long the window is."""
    resolution_ns: int
    """Holes smaller than this are filled: a thousandth of the window, or more where that is too much to
    show."""
    row: int | None = None
    """The place in `accounting` of its row."""
    step: int | None = None
    """The step's number; absent for the whole trace."""
    lanes: tuple[Lane, ...] = field(default_factory=written)
    """Streams, then threads, those that drive the step first, then idle time."""
    names: tuple[str, ...] = field(default_factory=written)
    """Names of events; `…` stands for those that would have made the report too large."""
    num_left_out: int | None = None
    """How many streams and threads with less in them are not shown; absent where none."""
