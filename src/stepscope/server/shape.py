"""What the server answers, as structs: the API's description is made from them. What is not known is absent.

Times are int64 nanoseconds since 1970. `next` of a list is what to give as `after` for what follows; absent
at its end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.act.notify.silence import Silence
from stepscope.model.alarm import Alarm
from stepscope.model.incident import Incident


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Every answer: what is absent is not known."""


class Job(Answer, frozen=True, kw_only=True):
    """One job, by its newest run."""

    job: str
    run: str
    num_runs: int
    start_ns: int
    last_ns: int
    is_over: bool
    world_size: int | None = None


class Jobs(Answer, frozen=True, kw_only=True):
    items: list[Job]
    next: str | None = None


class Run(Answer, frozen=True, kw_only=True):
    """One run of a job: a restart is a new one. `labels` need the role operator where they are of its
    configuration."""

    job: str
    run: str
    start_ns: int
    last_ns: int
    is_over: bool
    world_size: int | None = None
    hosts: tuple[str, ...] = ()
    labels: dict[str, str] = {}


class Runs(Answer, frozen=True, kw_only=True):
    items: list[Run]
    next: str | None = None


class Rank(Answer, frozen=True, kw_only=True):
    rank: int
    host: str
    ring: str
    agent: str
    device: str | None = None
    pid: int | None = None
    last_step: int | None = None
    last_ns: int | None = None
    is_alive: bool | None = None


class Ranks(Answer, frozen=True, kw_only=True):
    job: str
    run: str
    items: list[Rank]


class Device(Answer, frozen=True, kw_only=True):
    """`device` is a UUID, with `/MIG` behind where it is an instance; else `host:index`."""

    device: str
    host: str
    model: str | None = None
    index: int | None = None
    first_ns: int
    last_ns: int


class Devices(Answer, frozen=True, kw_only=True):
    items: list[Device]
    next: str | None = None


class Node(Answer, frozen=True, kw_only=True):
    """One node over all jobs: how often it was slow and how often it failed, each in how many jobs."""

    host: str
    first_ns: int
    last_ns: int
    num_jobs: int
    num_slow: int
    num_slow_jobs: int
    num_failed: int
    num_failed_jobs: int
    last_slow_ns: int | None = None
    last_failed_ns: int | None = None


class Nodes(Answer, frozen=True, kw_only=True):
    items: list[Node]
    next: str | None = None


class NodeAlone(Answer, frozen=True, kw_only=True):
    """One node, its devices, and its newest alarms."""

    node: Node
    devices: list[Device] = []
    alarms: list[Alarm] = []


class Line(Answer, frozen=True, kw_only=True):
    """One series in two columns of equal length. `resolution`: raw, minute, hour, day or week."""

    signal: str
    unit: str
    owner: str
    labels: dict[str, str] = {}
    resolution: str
    at_ns: list[int]
    value: list[float]


class Series(Answer, frozen=True, kw_only=True):
    """At most two points a pixel of each line: the least and the most of it."""

    start_ns: int
    end_ns: int
    lines: list[Line]
    notes: list[str] = []
    """Files of the window that are damaged or gone: what they held is left out."""


class StepColumns(Answer, frozen=True, kw_only=True):
    """Steps of one rank, by start, in columns of equal length; a number that is not known is null, a column
    of which nothing is known absent."""

    rank: int | None = None
    step: list[int]
    start_ns: list[int]
    end_ns: list[int]
    tokens: list[float | None] | None = None
    samples: list[float | None] | None = None
    sequence_length: list[float | None] | None = None
    is_captured: list[bool] | None = None
    open_step: int | None = None
    open_phase: str | None = None
    open_since_ns: int | None = None
    exit_ns: int | None = None


class Steps(Answer, frozen=True, kw_only=True):
    job: str
    run: str
    start_ns: int
    end_ns: int
    ranks: list[StepColumns]
    is_cut: bool = False
    """Older steps of the window were left out."""
    notes: list[str] = []
    """As of series; and ranks whose clock is ahead."""


class Event(Answer, frozen=True, kw_only=True):
    """An instant. `text` needs the role operator where it is a line of a log."""

    at_ns: int
    host: str
    what: str
    text: str | None = None
    code: int | None = None
    device: str | None = None
    labels: dict[str, str] = {}


class Events(Answer, frozen=True, kw_only=True):
    items: list[Event]
    next: str | None = None


class Alarms(Answer, frozen=True, kw_only=True):
    items: list[Alarm]
    next: str | None = None


class Incidents(Answer, frozen=True, kw_only=True):
    items: list[Incident]
    next: str | None = None


class CardOf(Answer, frozen=True, kw_only=True):
    """A card, and where it stands: `report` and `incident` are ids. `card` has the form of
    docs/reference/report.md."""

    report: str
    incident: str | None = None
    job: str | None = None
    run: str | None = None
    at_ns: int
    card: dict[str, Any]


class Cards(Answer, frozen=True, kw_only=True):
    items: list[CardOf]
    next: str | None = None


class FindingOf(Answer, frozen=True, kw_only=True):
    """A finding, and the report that it stands in. `finding` has the form of docs/reference/report.md."""

    report: str
    job: str | None = None
    run: str | None = None
    at_ns: int
    finding: dict[str, Any]


class Findings(Answer, frozen=True, kw_only=True):
    items: list[FindingOf]
    next: str | None = None


class Listed(Answer, frozen=True, kw_only=True):
    """A document of the store."""

    id: str
    job: str | None = None
    run: str | None = None
    at_ns: int
    body: dict[str, Any]


class Documents(Answer, frozen=True, kw_only=True):
    items: list[Listed]
    next: str | None = None


class ReportOf(Answer, frozen=True, kw_only=True):
    """One report without its tables: GET it by its id for all of it."""

    id: str
    job: str | None = None
    run: str | None = None
    at_ns: int
    verdict: dict[str, Any] = {}
    cards: tuple[str, ...] = ()
    """Their titles."""


class Reports(Answer, frozen=True, kw_only=True):
    items: list[ReportOf]
    next: str | None = None


class Threshold(Answer, frozen=True, kw_only=True):
    """What a rule decides by. `is_own`: the site set it."""

    feature: str
    op: str
    threshold: float
    unit: str
    is_own: bool = False


class RuleOf(Answer, frozen=True, kw_only=True):
    id: str
    title: str
    cause: str
    layer: str
    thresholds: list[Threshold]


class Rules(Answer, frozen=True, kw_only=True):
    items: list[RuleOf]


class Silences(Answer, frozen=True, kw_only=True):
    items: list[Silence]
    next: str | None = None


class TokenShown(Answer, frozen=True, kw_only=True):
    """A token without itself."""

    id: str
    name: str
    role: str
    made_ns: int
    agent: str | None = None


class Tokens(Answer, frozen=True, kw_only=True):
    items: list[TokenShown]


class TokenMade(Answer, frozen=True, kw_only=True):
    """A new token: shown once, kept nowhere."""

    id: str
    name: str
    role: str
    token: str
    agent: str | None = None


class Ready(Answer, frozen=True, kw_only=True):
    """Whether the server can work now, and why not."""

    is_ready: bool
    why: str | None = None
