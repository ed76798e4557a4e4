"""Findings and cards."""

from __future__ import annotations

from msgspec import field

from stepscope.model.report.base import Confidence, LayerName, Op, Origin, Part, PatchKind, Severity, written
from stepscope.model.report.table import Operator


class Subject(Part, frozen=True, kw_only=True):
    """Whom a finding is about."""

    job: str | None = None
    """The run's name, as the caller gave it."""
    ranks: tuple[int, ...] = field(default_factory=written)
    """Empty where the trace names none."""
    devices: tuple[str, ...] = field(default_factory=written)
    """Each as uuid, `cuda:0` or `cpu`."""
    steps: tuple[int, int] | None = None
    """First and last step in which the cause reaches its threshold; where steps do not tell, of all counted
    and marked ones."""
    row: int | None = None
    """The place in `accounting` of the row that it was judged by."""


class Cost(Part, frozen=True, kw_only=True):
    """Time claimed by a finding; claims of one row never exceed what exists."""

    time_ns: int
    """Time that this finding alone claims."""
    share: float
    """`time_ns` of the row's `total_ns`."""
    of: str
    """The parts of the row it claims, joined by `+` (`idle.input`); `steps` for the time of slow steps beyond
    the median."""
    overlaps_with: tuple[str, ...] = ()
    """Ids of findings that claimed some of the same parts first."""
    is_bound: bool | None = None
    """True where the time is the most that a change can win, and not time in which something waited."""
    num_steps: int | None = None
    """How many steps the time is the sum of; absent where the row is of no steps."""
    steps_share: float | None = None
    """`time_ns` of the time of the steps of `subject.steps`; only where the cause holds in these and hardly
    in the row's other steps, so that `share` does not tell how bad it was."""


class Named(Part, frozen=True, kw_only=True):
    """Who was running during a finding's time. Names that call each other overlap: never sum them.

    `share` is of the time of the parts that the finding's cost is `of`; `span` is the event's index in its
    file; `start_ns` and `end_ns` are those of the longest single piece.
    """

    name: str
    """The Python function, annotation, op, call, collective or copy."""
    time_ns: int
    """Time of the finding that it covers."""
    share: float
    """`time_ns` of the time of the parts that the finding's cost is `of`."""
    start_ns: int
    """Start of the longest single piece."""
    end_ns: int
    """End of the longest single piece."""
    span: int | None = None
    """The event's index in its file; absent where it is no single event."""


class Where(Part, frozen=True, kw_only=True):
    """The place in the recording: `span` is the event's index in its file."""

    rank: int | None = None
    """Absent where the trace names none."""
    start_ns: int | None = None
    """When it begins."""
    end_ns: int | None = None
    """When it ends."""
    span: int | None = None
    """The event's index in its file."""
    name: str | None = None
    """The event's name."""


class Evidence(Part, frozen=True, kw_only=True):
    """One measured number against one threshold."""

    from_: Origin = field(name="from")
    """The layer that was measured."""
    feature: str
    """The number's name; its meaning is in [rules](rules.md)."""
    value: float
    """The number, in `unit`."""
    unit: str
    """`ratio` is 0..1, `ns` nanoseconds."""
    op: Op | None = None
    """How `value` stands to `threshold`; absent for a number shown without threshold."""
    threshold: float | None = None
    """In `unit`; absent for a number shown without threshold."""
    reference: str | None = None
    """Where the threshold comes from; absent for a number shown without threshold."""
    as_written: bool | None = None
    """True where the threshold is the specification's wording, which is shown and decides nothing."""
    overridden: bool | None = None
    """True where the site's own threshold replaced the catalogue's."""
    where: Where | None = None
    """Absent where the number is of no single place."""


class RuledOut(Part, frozen=True, kw_only=True):
    """A cause that was considered and is not it."""

    rule: str
    """The rule's id."""
    because: str
    """The clause that decided, with its number."""


class Patch(Part, frozen=True, kw_only=True):
    """A change ready to paste."""

    kind: PatchKind
    """Where it goes: an environment variable, code, configuration, or a command."""
    after: str
    """The text to have."""
    before: str | None = None
    """The text it replaces; absent where there is none."""


class RemedyHistory(Part, frozen=True, kw_only=True):
    """What came of a remedy at this site, by the incidents in which it was tried."""

    num_tried: int
    """In how many incidents it was tried and what came of it could be told."""
    num_worked: int
    """In how many of them steps became faster beyond the noise."""
    success_share: float
    """How often it may be expected to work: `num_worked` of `num_tried` and of two more, of which one did."""
    realised_share: float | None = None
    """What it won where it worked, the mean, as a share of the step; absent where it never did."""
    gain_ratio: float
    """What is won of what was promised, drawn towards 1 where little is known: `gain_share` is corrected by
    it."""
    gain_share_before: tuple[float, float] | None = None
    """`gain_share` as it was before; absent where none was promised."""


class Remedy(Part, frozen=True, kw_only=True):
    """What to change, what it can give and what would prove that it worked."""

    id: str | None = None
    """`rule#number`: the same in every report, and what a recorded change names; absent in reports of
    earlier versions."""

    text: str
    """What to do."""
    patch: Patch | None = None
    """Absent where it cannot be written out."""
    gain_share: tuple[float, float] | None = None
    """Least and most of the row's time that the change brings if it works, as shares; absent where that
    cannot be bounded."""
    verify: str | None = None
    """What would prove that it worked; absent for a look that changes nothing."""
    history: RemedyHistory | None = None
    """What came of it at this site; absent where it was never tried, or no history is at hand."""


class Finding(Part, frozen=True, kw_only=True):
    """One rule that fired on one subject."""

    id: str
    """The same for the same inputs: rule, rank and device."""
    rule: str
    """The rule's id."""
    cause: str
    """The cause in a few words, in English."""
    layer: LayerName
    """Which part of the system the cause lives in."""
    severity: Severity
    """By cost: under 5 % of the row `info`, under 20 % `warning`, from there `critical`; at most `warning`
    where the cause is not known. Of what costs no time, its rule says it."""
    confidence: Confidence
    """`high` where two independent layers agree, `low` where the data are degraded."""
    title: str
    """The finding as one line."""
    subject: Subject
    """Whom and which steps it is about."""
    onset_ns: int | None = None
    """When `onset_step` began; absent where steps do not tell."""
    onset_step: int | None = None
    """The first counted step in which the cause reaches its threshold; absent where steps do not tell."""
    onset_holds: bool | None = None
    """Whether at least 80 % of the steps after `onset_step` reach the threshold too."""
    cost: Cost | None = None
    """Absent where the rule costs nothing."""
    culprits: tuple[Named, ...] = ()
    """Who was running meanwhile, largest first; absent where nobody can be named."""
    evidence: tuple[Evidence, ...] = field(default_factory=written)
    """What fired, what agrees, and what is shown beside it."""
    unknown: tuple[str, ...] = field(default_factory=written)
    """Clauses that could not be checked, in words."""
    ruled_out: tuple[RuledOut, ...] = field(default_factory=written)
    """Other causes that were considered for the same device."""
    remedies: tuple[Remedy, ...] = field(default_factory=written)
    """What to change, best first."""
    explained_by: str | None = None
    """The id of the finding that this one is a consequence of; a consequence has no remedies of its own."""


class Card(Part, frozen=True, kw_only=True):
    """One incident, for a person: what, since when, what to check in which order."""

    id: str
    """The id of its rule."""
    title: str
    """The incident as one line."""
    explanation: str | None = None
    """What it means; absent where the rule has none."""
    findings: tuple[str, ...] = field(default_factory=written)
    """Ids of its findings, consequences included."""
    onset_ns: int | None = None
    """When `onset_step` began."""
    onset_step: int | None = None
    """The earliest onset of its findings; absent where steps do not tell."""
    onset_holds: bool | None = None
    """Whether at least 80 % of the steps after `onset_step` reach the threshold too."""
    checks: tuple[str, ...] = field(default_factory=written)
    """What to check, in this order."""
    top_operators: tuple[Operator, ...] = field(default_factory=written)
    """The five hottest ops of the rank it is about."""
    ruled_out: tuple[RuledOut, ...] = field(default_factory=written)
    """Causes that are ruled out for all of its findings."""
    unknown: tuple[str, ...] = field(default_factory=written)
    """Clauses that could not be checked, in words."""
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the card, such as thresholds that the site set itself."""


class Undecided(Part, frozen=True, kw_only=True):
    """A cause that the data cannot settle, why they cannot, and what would."""

    rule: str
    """The rule's id."""
    why: str | None = None
    """Why the data cannot settle it; absent where `missing` says all."""
    missing: tuple[str, ...] = field(default_factory=written)
    """Names of the numbers that would decide."""
    would_settle: str | None = None
    """The least recording that would bring them; absent where nothing is missing."""
    command: str | None = None
    """The command on that recording."""
