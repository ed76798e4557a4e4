"""The report `stepscope.report/1`: what every verb, server and page says, in one fixed shape.

Times are integer nanoseconds since the Unix epoch, shares and ratios are 0..1, step ranges are
inclusive. What is not known is `None` here and absent in JSON; a measured zero is always written.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

SCHEMA: Literal["stepscope.report/1"] = "stepscope.report/1"

VerdictClass = Literal[
    "waiting-for-data", "waiting-for-communication", "computing-slowly", "other-stall", "healthy", "undecided"
]
InputKind = Literal["trace", "telemetry", "log", "steps", "snapshot"]
HealthVerdict = Literal["ok", "degraded", "unusable"]
Effect = Literal["none", "degraded", "withheld"]
ClockMethod = Literal["collectives", "given", "none"]
LagStatus = Literal["found", "ambiguous", "declared", "unknown"]
StepUse = Literal["counted", "partial", "warm_up", "no_device_data", "marked"]
Scope = Literal["steps", "trace"]
WindowKind = Literal["host", "device"]
RowStatus = Literal["ok", "degraded", "withheld"]
Bound = Literal["compute", "memory", "unknown"]
Persistence = Literal["persistent", "moving", "stage", "unknown"]
EventKind = Literal["xid", "oom", "error", "checkpoint", "start", "exit", "capture", "change"]
Severity = Literal["info", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]
LayerName = Literal["hardware", "framework", "model", "business", "scheduling", "host"]
Origin = Literal["trace", "telemetry", "host", "job", "log"]
Op = Literal[">=", "<=", ">", "<"]
PatchKind = Literal["env", "code", "config", "command"]


def _written() -> tuple[()]:
    """An empty list that is written: msgspec leaves out a default `()`, but not one made by a function."""
    return ()


def _schema() -> Literal["stepscope.report/1"]:
    return SCHEMA


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the report: fields that equal their default are left out of the JSON."""


class Tool(_Part, frozen=True, kw_only=True):
    """Who wrote the report."""

    name: str
    version: str
    native_loader: bool | None = None


class Verdict(_Part, frozen=True, kw_only=True):
    """The one-line answer: its class, and a sentence with the numbers."""

    class_: VerdictClass = field(name="class")
    text: str
    row: int | None = None
    """The place in `accounting` of the row that the sentence speaks of."""


class Input(_Part, frozen=True, kw_only=True):
    """One thing that was given to us, and whether it could be used."""

    kind: InputKind
    name: str
    format: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    rank: int | None = None
    world_size: int | None = None
    events: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    redacted: int | None = None
    error: str | None = None
    """Only where it could not be used."""


class HealthIssue(_Part, frozen=True, kw_only=True):
    """Something wrong or noteworthy in the data; `affects` names the numbers it touches."""

    code: str
    count: int
    effect: Effect
    detail: str
    rank: int | None = None
    affects: tuple[str, ...] = ()


class Withheld(_Part, frozen=True, kw_only=True):
    """A number that is not given, why, and what would give it."""

    what: str
    why: str
    would_settle: str | None = None


class Health(_Part, frozen=True, kw_only=True):
    """Whether the data can carry a verdict."""

    verdict: HealthVerdict
    issues: tuple[HealthIssue, ...] = field(default_factory=_written)
    withheld: tuple[Withheld, ...] = field(default_factory=_written)


class RankClock(_Part, frozen=True, kw_only=True):
    """One rank's clock against the reference rank's."""

    rank: int
    method: ClockMethod
    component: int | None = None
    offset_ns: int | None = None
    drift_ppm: float | None = None
    drift_error_ppm: float | None = None
    residual_ns: int | None = None


class TelemetryClock(_Part, frozen=True, kw_only=True):
    """How far one telemetry source lags behind, and how well that is known."""

    source: str
    status: LagStatus
    window_ns: int | None = None
    lag_ns: int | None = None
    lag_range_ns: tuple[int, int] | None = None


class Clocks(_Part, frozen=True, kw_only=True):
    """The clocks of ranks and of telemetry."""

    reference_rank: int | None = None
    ranks: tuple[RankClock, ...] = field(default_factory=_written)
    telemetry: tuple[TelemetryClock, ...] = field(default_factory=_written)


class Representative(_Part, frozen=True, kw_only=True):
    """Whether the window looks like the rest of the run."""

    status: Literal["yes", "no", "unknown"]
    why: str


class Window(_Part, frozen=True, kw_only=True):
    """What time and which steps the report is about."""

    start_ns: int | None = None
    end_ns: int | None = None
    steps: tuple[int, int] | None = None
    representative: Representative | None = None


class Step(_Part, frozen=True, kw_only=True):
    """One step of one rank, and how it was used."""

    step: int
    start_ns: int
    end_ns: int
    dur_ns: int
    use: StepUse
    rank: int | None = None
    why: str | None = None
    input: int | None = None
    """The place in `inputs` of its file, where there are several and the file names no rank."""


class Device(_Part, frozen=True, kw_only=True):
    """An accelerator, or `kind: cpu` for a run without one."""

    index: int | None = None
    uuid: str | None = None
    kind: str | None = None
    name: str | None = None


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Idle device time by cause, in nanoseconds. All causes are always written."""

    queued_ns: int = 0
    input_ns: int = 0
    preprocess_ns: int = 0
    host_sync_ns: int = 0
    copy_wait_ns: int = 0
    allocator_ns: int = 0
    gc_ns: int = 0
    compile_ns: int = 0
    checkpoint_ns: int = 0
    eval_ns: int = 0
    logging_ns: int = 0
    launch_ns: int = 0
    peer_ns: int = 0
    profiler_ns: int = 0
    python_ns: int = 0
    unknown_ns: int = 0


IDLE_CAUSES: tuple[str, ...] = tuple(name.removesuffix("_ns") for name in Idle.__struct_fields__)


class Communication(_Part, frozen=True, kw_only=True):
    """Collectives of one device; the parts that need other ranks are absent without them."""

    total_ns: int
    hidden_ns: int
    transfer_ns: int | None = None
    wait_ns: int | None = None
    wait_exposed_ns: int | None = None


class HostShares(_Part, frozen=True, kw_only=True):
    """Host time as a share of host step time: beside the idle causes, not part of them."""

    loader_share: float | None = None
    sync_share: float | None = None
    copy_call_share: float | None = None
    launch_share: float | None = None


class Variation(_Part, frozen=True, kw_only=True):
    """How step times vary over the counted steps."""

    first_ns: int | None = None
    median_ns: int | None = None
    p95_ns: int | None = None
    slow_steps: tuple[int, ...] = field(default_factory=_written)
    period_steps: int | None = None


class Accounting(_Part, frozen=True, kw_only=True):
    """Where the time of one (rank, device) went: parts that sum to `total_ns` exactly."""

    device: Device
    scope: Scope
    window: WindowKind
    num_steps: int
    total_ns: int
    compute_ns: int
    communication_exposed_ns: int
    copy_exposed_ns: int
    idle_ns: int
    idle: Idle
    status: RowStatus
    rank: int | None = None
    communication: Communication | None = None
    host: HostShares | None = None
    variation: Variation | None = None
    input: int | None = None
    """The place in `inputs` of its file, where there are several and the file names no rank."""


class Operator(_Part, frozen=True, kw_only=True):
    """One op by name, with the device time of the kernels it launched."""

    name: str
    count: int
    device_ns: int
    rank: int | None = None
    class_: str | None = field(name="class", default=None)
    share: float | None = None
    tensor_core: bool | None = None
    flops: int | None = None
    achieved_flops_per_second: float | None = None
    peak_share: float | None = None
    bound: Bound | None = None


class Kernel(_Part, frozen=True, kw_only=True):
    """One kernel by name."""

    name: str
    count: int
    device_ns: int
    rank: int | None = None
    class_: str | None = field(name="class", default=None)
    share: float | None = None
    mean_ns: int | None = None
    p99_ns: int | None = None


class Collective(_Part, frozen=True, kw_only=True):
    """One kind of collective on one group."""

    kind: str
    count: int
    group: str | None = None
    bytes: int | None = None
    transfer_ns: int | None = None
    wait_ns: int | None = None
    last_rank: int | None = None
    bus_bytes_per_second: float | None = None
    link_share: float | None = None


class Straggler(_Part, frozen=True, kw_only=True):
    """A rank that others wait for."""

    rank: int
    lateness_ns: int
    cost_ns: int
    persistence: Persistence
    reason: str
    share: float | None = None


class SignalStep(_Part, frozen=True, kw_only=True):
    """One signal over one step."""

    step: int
    value: float
    samples: int


class SignalSummary(_Part, frozen=True, kw_only=True):
    """One signal of one device over the window."""

    device: Device
    signal: str
    unit: str
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    samples: int | None = None
    coverage: float | None = None
    by_step: tuple[SignalStep, ...] = ()


class Event(_Part, frozen=True, kw_only=True):
    """Something that happened at an instant."""

    at_ns: int
    kind: EventKind
    severity: Severity
    text: str
    code: int | None = None
    device: Device | None = None
    rank: int | None = None


class Subject(_Part, frozen=True, kw_only=True):
    """Whom a finding is about."""

    job: str | None = None
    ranks: tuple[int, ...] = field(default_factory=_written)
    devices: tuple[str, ...] = field(default_factory=_written)
    steps: tuple[int, int] | None = None
    row: int | None = None
    """The place in `accounting` of the row that it was judged by."""


class Cost(_Part, frozen=True, kw_only=True):
    """Time claimed by a finding; claims of one row never exceed what exists."""

    time_ns: int
    share: float
    of: str
    overlaps_with: tuple[str, ...] = ()
    num_steps: int | None = None
    """How many steps the time is the sum of; absent where the row is of no steps."""


class Named(_Part, frozen=True, kw_only=True):
    """Who was running during a finding's time. Names that call each other overlap: never sum them.

    `share` is of the time of the parts that the finding's cost is `of`; `span` is the event's index in its
    file; `start_ns` and `end_ns` are those of the longest single piece.
    """

    name: str
    time_ns: int
    share: float
    start_ns: int
    end_ns: int
    span: int | None = None


class Where(_Part, frozen=True, kw_only=True):
    """The place in the recording: `span` is the event's index in its file."""

    rank: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    span: int | None = None
    name: str | None = None


class Evidence(_Part, frozen=True, kw_only=True):
    """One measured number against one threshold."""

    from_: Origin = field(name="from")
    feature: str
    value: float
    unit: str
    op: Op | None = None
    threshold: float | None = None
    reference: str | None = None
    as_written: bool | None = None
    overridden: bool | None = None
    """True where the site's own threshold replaced the catalogue's."""
    where: Where | None = None


class RuledOut(_Part, frozen=True, kw_only=True):
    """A cause that was considered and is not it."""

    rule: str
    because: str


class Patch(_Part, frozen=True, kw_only=True):
    """A change ready to paste."""

    kind: PatchKind
    after: str
    before: str | None = None


class Remedy(_Part, frozen=True, kw_only=True):
    """What to change, what it can give and what would prove that it worked."""

    text: str
    patch: Patch | None = None
    gain_share: tuple[float, float] | None = None
    verify: str | None = None


class Finding(_Part, frozen=True, kw_only=True):
    """One rule that fired on one subject."""

    id: str
    rule: str
    cause: str
    layer: LayerName
    severity: Severity
    confidence: Confidence
    title: str
    subject: Subject
    onset_ns: int | None = None
    onset_step: int | None = None
    cost: Cost | None = None
    culprits: tuple[Named, ...] = ()
    """Who was running meanwhile, largest first; absent where nobody can be named."""
    evidence: tuple[Evidence, ...] = field(default_factory=_written)
    unknown: tuple[str, ...] = field(default_factory=_written)
    ruled_out: tuple[RuledOut, ...] = field(default_factory=_written)
    remedies: tuple[Remedy, ...] = field(default_factory=_written)
    explained_by: str | None = None
    """The id of the finding that this one is a consequence of; a consequence has no remedies of its own."""


class Card(_Part, frozen=True, kw_only=True):
    """One incident, for a person: what, since when, what to check in which order."""

    id: str
    title: str
    explanation: str | None = None
    findings: tuple[str, ...] = field(default_factory=_written)
    onset_ns: int | None = None
    onset_step: int | None = None
    checks: tuple[str, ...] = field(default_factory=_written)
    top_operators: tuple[Operator, ...] = field(default_factory=_written)
    ruled_out: tuple[RuledOut, ...] = field(default_factory=_written)
    unknown: tuple[str, ...] = field(default_factory=_written)
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the card, such as thresholds that the site set itself."""


class Undecided(_Part, frozen=True, kw_only=True):
    """A cause that the data cannot settle, why they cannot, and what would."""

    rule: str
    why: str | None = None
    missing: tuple[str, ...] = field(default_factory=_written)
    would_settle: str | None = None
    command: str | None = None


class Report(_Part, frozen=True, kw_only=True):
    """The whole report."""

    schema: Literal["stepscope.report/1"] = field(default_factory=_schema)
    tool: Tool
    verdict: Verdict
    health: Health
    inputs: tuple[Input, ...] = field(default_factory=_written)
    clocks: Clocks | None = None
    window: Window | None = None
    steps: tuple[Step, ...] = field(default_factory=_written)
    accounting: tuple[Accounting, ...] = field(default_factory=_written)
    operators: tuple[Operator, ...] = field(default_factory=_written)
    top_operators: tuple[Operator, ...] = field(default_factory=_written)
    kernels: tuple[Kernel, ...] = field(default_factory=_written)
    collectives: tuple[Collective, ...] = field(default_factory=_written)
    stragglers: tuple[Straggler, ...] = field(default_factory=_written)
    signals: tuple[SignalSummary, ...] = field(default_factory=_written)
    events: tuple[Event, ...] = field(default_factory=_written)
    findings: tuple[Finding, ...] = field(default_factory=_written)
    cards: tuple[Card, ...] = field(default_factory=_written)
    undecided: tuple[Undecided, ...] = field(default_factory=_written)
    next: str | None = None


def encode(report: Report) -> bytes:
    """The report as compact JSON in UTF-8, fields in the order of the schema's classes."""
    return msgspec.json.encode(report)


def decode(data: bytes | str) -> Report:
    """A report from its JSON; a field that does not fit raises `msgspec.ValidationError` with its path."""
    return msgspec.json.decode(data, type=Report)
