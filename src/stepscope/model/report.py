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
    """Always `stepscope`."""
    version: str
    """Its version."""
    native_loader: bool | None = None
    """Whether the native parser was at hand; absent where the caller did not say."""


class Verdict(_Part, frozen=True, kw_only=True):
    """The one-line answer: its class, and a sentence with the numbers."""

    class_: VerdictClass = field(name="class")
    """What the step waits for: the class of the largest finding of at least 5 % of its row; `undecided` where
    the data cannot tell."""
    text: str
    """The sentence, in the report's language."""
    row: int | None = None
    """The place in `accounting` of the row that the sentence speaks of."""


class Input(_Part, frozen=True, kw_only=True):
    """One thing that was given to us, and whether it could be used."""

    kind: InputKind
    """What it is; so far only traces are read."""
    name: str
    """The path as it was given or found, without identities."""
    format: str | None = None
    """The format it was recognised as; absent where it could not be used."""
    bytes: int | None = None
    """Size of the file as it lies on disk, compressed or not; absent where unknown."""
    sha256: str | None = None
    """Digest of the file as it lies on disk; absent where it could not be read to its end."""
    rank: int | None = None
    """The rank that the trace names; absent where it names none or holds several processes."""
    world_size: int | None = None
    """How many ranks the job has; absent where the trace does not say."""
    events: int | None = None
    """How many events were kept."""
    start_ns: int | None = None
    """Wall time of the first start; absent where the trace is not anchored in wall time."""
    end_ns: int | None = None
    """Wall time of the last end; absent where the trace is not anchored in wall time."""
    redacted: int | None = None
    """How many secrets were removed from it; 0 where it was searched and had none."""
    error: str | None = None
    """Only where it could not be used."""


class HealthIssue(_Part, frozen=True, kw_only=True):
    """Something wrong or noteworthy in the data; `affects` names the numbers it touches."""

    code: str
    """What is wrong: the codes are in [health](health.md)."""
    count: int
    """How many events, steps or inputs it is about."""
    effect: Effect
    """What it does to the numbers in `affects`: nothing, less confidence, or they are not given."""
    detail: str
    """One sentence with the numbers, in English."""
    rank: int | None = None
    """Whose data; absent where the issue is of the whole job or of a file without a rank."""
    affects: tuple[str, ...] = ()
    """Names of the numbers that it touches."""


class Withheld(_Part, frozen=True, kw_only=True):
    """A number that is not given, why, and what would give it."""

    what: str
    """The number's name."""
    why: str
    """Why the data cannot carry it, in English."""
    would_settle: str | None = None
    """The recording that would give it; absent where none is known."""


class Health(_Part, frozen=True, kw_only=True):
    """Whether the data can carry a verdict."""

    verdict: HealthVerdict
    """`unusable` where nothing was timed, `degraded` where any number is degraded or withheld."""
    issues: tuple[HealthIssue, ...] = field(default_factory=_written)
    """Everything noted, over all inputs."""
    withheld: tuple[Withheld, ...] = field(default_factory=_written)
    """Numbers that are not given."""


class RankClock(_Part, frozen=True, kw_only=True):
    """One rank's clock against the reference rank's."""

    rank: int
    """Whose clock."""
    method: ClockMethod
    """How it was aligned."""
    component: int | None = None
    """The group of ranks that could be aligned with each other; absent where none could."""
    offset_ns: int | None = None
    """What to add to this rank's times to have the reference rank's."""
    drift_ppm: float | None = None
    """How fast the offset grows, in nanoseconds a millisecond (parts per million)."""
    drift_error_ppm: float | None = None
    """One standard error of `drift_ppm`."""
    residual_ns: int | None = None
    """How far aligned times still disagree: no smaller lateness can be told."""


class TelemetryClock(_Part, frozen=True, kw_only=True):
    """How far one telemetry source lags behind, and how well that is known."""

    source: str
    """The telemetry's name."""
    status: LagStatus
    """How well the lag is known."""
    window_ns: int | None = None
    """The time over which the source averages; absent where unknown."""
    lag_ns: int | None = None
    """How much later than the trace it shows the same thing; absent unless found or declared."""
    lag_range_ns: tuple[int, int] | None = None
    """The least and the largest lag that fit as well."""


class Clocks(_Part, frozen=True, kw_only=True):
    """The clocks of ranks and of telemetry."""

    reference_rank: int | None = None
    """The rank whose clock the others are given in."""
    ranks: tuple[RankClock, ...] = field(default_factory=_written)
    """One entry a rank."""
    telemetry: tuple[TelemetryClock, ...] = field(default_factory=_written)
    """One entry a source."""


class Representative(_Part, frozen=True, kw_only=True):
    """Whether the window looks like the rest of the run."""

    status: Literal["yes", "no", "unknown"]
    """Whether it does."""
    why: str
    """By what this was judged."""


class Window(_Part, frozen=True, kw_only=True):
    """What time and which steps the report is about."""

    start_ns: int | None = None
    """Start of the first counted or marked step, else of the first input."""
    end_ns: int | None = None
    """End of the last counted or marked step, else of the last input."""
    steps: tuple[int, int] | None = None
    """First and last counted or marked step; absent where no step was marked."""
    representative: Representative | None = None
    """Absent where there is no rest of the run to compare with."""


class Step(_Part, frozen=True, kw_only=True):
    """One step of one rank, and how it was used."""

    step: int
    """Its number, as the profiler wrote it."""
    start_ns: int
    """When its annotation begins."""
    end_ns: int
    """When the next step begins, else when its own annotation ends."""
    dur_ns: int
    """`end_ns - start_ns`."""
    use: StepUse
    """Whether the accounting counts it; why not is in `why`."""
    rank: int | None = None
    """Absent where the trace names none."""
    why: str | None = None
    """Why it is not simply counted; absent for counted steps."""
    input: int | None = None
    """The place in `inputs` of its file, where there are several and the file names no rank."""


class Device(_Part, frozen=True, kw_only=True):
    """An accelerator, or `kind: cpu` for a run without one."""

    index: int | None = None
    """Its number within its process's node, as in the trace."""
    uuid: str | None = None
    """Absent where the trace does not say."""
    kind: str | None = None
    """`cpu` for a run without an accelerator; absent for an accelerator."""
    name: str | None = None
    """What the driver calls it; absent where the trace does not say."""


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Idle device time by cause, in nanoseconds. All causes are always written."""

    queued_ns: int = 0
    """Its next work had been issued before the device ran dry: no host cause."""
    input_ns: int = 0
    """The loader was fetching."""
    preprocess_ns: int = 0
    """Host work at the start of a step, before its first launch."""
    host_sync_ns: int = 0
    """The host waited, or had waited, for the device (stream, event and device synchronisation)."""
    copy_wait_ns: int = 0
    """The host was blocked in a copy."""
    allocator_ns: int = 0
    """Device memory was allocated or freed through the driver."""
    gc_ns: int = 0
    """Python's garbage collection."""
    compile_ns: int = 0
    """Compilation, autotuning or lazy loading of kernels."""
    checkpoint_ns: int = 0
    """An annotated checkpoint."""
    eval_ns: int = 0
    """An annotated evaluation."""
    logging_ns: int = 0
    """Logging and progress bars."""
    launch_ns: int = 0
    """The host was issuing ops and launches."""
    peer_ns: int = 0
    """The host waited for another rank (host collectives, barriers, stores)."""
    profiler_ns: int = 0
    """The profiler's own overhead."""
    python_ns: int = 0
    """Other Python code between ops."""
    unknown_ns: int = 0
    """No cause can be told; all idle time of a row whose `status` is `withheld`."""


IDLE_CAUSES: tuple[str, ...] = tuple(name.removesuffix("_ns") for name in Idle.__struct_fields__)


class Communication(_Part, frozen=True, kw_only=True):
    """Collectives of one device; the parts that need other ranks are absent without them."""

    total_ns: int
    """Time in which any collective runs on the device."""
    hidden_ns: int
    """The part of it beside compute."""
    transfer_ns: int | None = None
    """The part in which every rank had arrived; absent without the other ranks."""
    wait_ns: int | None = None
    """The part spent waiting for a later rank; absent without the other ranks."""
    wait_exposed_ns: int | None = None
    """The part of `wait_ns` that no compute hides; absent without the other ranks."""


class HostShares(_Part, frozen=True, kw_only=True):
    """Host time as a share of host step time: beside the idle causes, not part of them."""

    loader_share: float | None = None
    """Main thread fetching a batch; absent where only calls were recorded."""
    sync_share: float | None = None
    """Main or autograd threads in calls that wait for the device."""
    copy_call_share: float | None = None
    """Main or autograd threads in copies that block the host."""
    launch_share: float | None = None
    """Main or autograd threads in launch calls, blocking copies apart."""


class Variation(_Part, frozen=True, kw_only=True):
    """How step times vary over the counted steps."""

    first_ns: int | None = None
    """The first counted step."""
    median_ns: int | None = None
    """The median counted step."""
    p95_ns: int | None = None
    """The 95th percentile of the counted steps; absent with fewer than two."""
    slow_steps: tuple[int, ...] = field(default_factory=_written)
    """Numbers of the counted and marked steps longer than 1.2 times the median."""
    period_steps: int | None = None
    """The distance at which slow steps come; absent unless three or more come at equal distances above 1."""


class Accounting(_Part, frozen=True, kw_only=True):
    """Where the time of one (rank, device) went: parts that sum to `total_ns` exactly."""

    device: Device
    """The device the row is of."""
    scope: Scope
    """`steps`: the counted and marked steps; `trace`: from the first to the last device activity (of a run
    without devices: the host's)."""
    window: WindowKind
    """Whether steps were cut by the host's step annotations or by the end of their device work."""
    num_steps: int
    """How many steps the row sums; 0 for `scope: trace`."""
    total_ns: int
    """All time of the row; the parts below sum to it."""
    compute_ns: int
    """Time in which any compute kernel runs."""
    communication_exposed_ns: int
    """Time in which a collective runs and no compute kernel."""
    copy_exposed_ns: int
    """Time in which a copy or set runs and neither of the two."""
    idle_ns: int
    """The rest."""
    idle: Idle
    """`idle_ns` by cause."""
    status: RowStatus
    """Whether the idle causes can be believed: with `withheld` all of them are `unknown_ns`."""
    rank: int | None = None
    """Absent where the trace names none."""
    communication: Communication | None = None
    """Absent where no collective ran."""
    host: HostShares | None = None
    """Absent where no thread of the host was recorded."""
    variation: Variation | None = None
    """Absent for `scope: trace` and without a counted step."""
    input: int | None = None
    """The place in `inputs` of its file, where there are several and the file names no rank."""


class Operator(_Part, frozen=True, kw_only=True):
    """One op by name, with the device time of the kernels it launched."""

    name: str
    """The op's name; of work that no op issued, its kernel's."""
    count: int
    """How often the op was called and issued device work."""
    device_ns: int
    """Sum of the durations of the device activities (kernels, copies, sets) it issued; of parallel streams
    both count."""
    rank: int | None = None
    """Absent where the trace names none."""
    class_: str | None = field(name="class", default=None)
    """What it computes: by its own name, else the class of most of its device time."""
    share: float | None = None
    """`device_ns` of the summed durations of all device activities of the rank's counted and marked steps (of
    the whole trace where there are none); absent where that sum is 0."""
    tensor_core: bool | None = None
    """Whether a kernel of it ran on tensor cores; absent where their names do not tell."""
    flops: int | None = None
    """Floating-point operations that the recorded shapes of all its calls imply, a multiply-add as two;
    absent where shapes do not tell."""
    bytes: int | None = None
    """The least traffic to memory that they imply: every operand read once, every result written once."""
    achieved_flops_per_second: float | None = None
    """`flops` over `device_ns`."""
    achieved_bytes_per_second: float | None = None
    """`bytes` over `device_ns`."""
    peak_share: float | None = None
    """Of a matrix product, a convolution or attention: the time its arithmetic takes at the device's peak for
    that type, of `device_ns`; absent where the peak is unknown."""
    memory_peak_share: float | None = None
    """The time its traffic takes at the memory's peak rate, of `device_ns`; absent where that is unknown or
    above 1, the data then came out of a cache."""
    bound: Bound | None = None
    """Which limit of the roofline it is nearer to."""


class Kernel(_Part, frozen=True, kw_only=True):
    """One kernel by name."""

    name: str
    """The kernel's name, as in the trace."""
    count: int
    """How often it ran."""
    device_ns: int
    """Sum of its durations."""
    rank: int | None = None
    """Absent where the trace names none."""
    class_: str | None = field(name="class", default=None)
    """What it computes, by its name."""
    share: float | None = None
    """`device_ns` of the summed durations of all kernels (no copies or sets) of the rank's counted and marked
    steps, of the whole trace where there are none; absent where that sum is 0."""
    mean_ns: int | None = None
    """Its mean duration."""
    p99_ns: int | None = None
    """The 99th percentile of its durations."""


class Collective(_Part, frozen=True, kw_only=True):
    """One kind of collective on one group."""

    kind: str
    """`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `reduce`, `send`, `recv`,
    `send_recv`, `barrier` or `other`."""
    count: int
    """How often it ran with this message size, over the whole trace."""
    group: str | None = None
    """The process group's name; absent where it was not recorded."""
    bytes: int | None = None
    """Size of one message: the larger of what goes in and out of this rank, not the sum; absent where it was
    not recorded."""
    transfer_ns: int | None = None
    """The part in which every rank had arrived; absent without the other ranks."""
    wait_ns: int | None = None
    """The part spent waiting for a later rank; absent without the other ranks."""
    last_rank: int | None = None
    """The rank that arrives last; absent without the other ranks."""
    bus_bytes_per_second: float | None = None
    """Median bus bandwidth as nccl-tests defines it, waiting included: a lower bound of what the link did;
    absent where kind, size or group do not allow one, or where it is more than the link carries."""
    link_share: float | None = None
    """`bus_bytes_per_second` of one direction of the device's link; absent where the device is not in our
    table."""


class Straggler(_Part, frozen=True, kw_only=True):
    """A rank that others wait for."""

    rank: int
    """Who is late."""
    lateness_ns: int
    """The median lateness against the median rank, over the steps in which it is late."""
    cost_ns: int
    """What the others wait for it, over the window: the last start less the second-last."""
    persistence: Persistence
    """Whether it is the same rank always, a different one each step, or a pipeline stage."""
    reason: str
    """A cause of `idle` without `_ns`, `slower_kernels`, `more_work` or `unknown`."""
    share: float | None = None
    """`cost_ns` of the window."""


class SignalStep(_Part, frozen=True, kw_only=True):
    """One signal over one step."""

    step: int
    """The step's number."""
    value: float
    """The mean over the step, in the signal's unit."""
    samples: int
    """How many samples lie in the step."""


class SignalSummary(_Part, frozen=True, kw_only=True):
    """One signal of one device over the window."""

    device: Device
    """Whose signal."""
    signal: str
    """The signal's name, which ends in its unit."""
    unit: str
    """`ratio` is 0..1."""
    mean: float | None = None
    """Over the samples of the window."""
    min: float | None = None
    """The least sample."""
    max: float | None = None
    """The largest sample."""
    samples: int | None = None
    """How many samples lie in the window."""
    coverage: float | None = None
    """The share of the window that samples cover."""
    by_step: tuple[SignalStep, ...] = ()
    """Its values a step; absent where no steps are known."""


class Event(_Part, frozen=True, kw_only=True):
    """Something that happened at an instant."""

    at_ns: int
    """When it happened."""
    kind: EventKind
    """What happened."""
    severity: Severity
    """How bad it is."""
    text: str
    """What it says."""
    code: int | None = None
    """The driver's number, as of an Xid; absent where it has none."""
    device: Device | None = None
    """Absent where it is of no device."""
    rank: int | None = None
    """Absent where it is of no rank."""


class Subject(_Part, frozen=True, kw_only=True):
    """Whom a finding is about."""

    job: str | None = None
    """The run's name, as the caller gave it."""
    ranks: tuple[int, ...] = field(default_factory=_written)
    """Empty where the trace names none."""
    devices: tuple[str, ...] = field(default_factory=_written)
    """Each as uuid, `cuda:0` or `cpu`."""
    steps: tuple[int, int] | None = None
    """First and last step in which the cause reaches its threshold; where steps do not tell, of all counted
    and marked ones."""
    row: int | None = None
    """The place in `accounting` of the row that it was judged by."""


class Cost(_Part, frozen=True, kw_only=True):
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
    num_steps: int | None = None
    """How many steps the time is the sum of; absent where the row is of no steps."""


class Named(_Part, frozen=True, kw_only=True):
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


class Where(_Part, frozen=True, kw_only=True):
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


class Evidence(_Part, frozen=True, kw_only=True):
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
    """True where the value is the trace's own and was not computed by us."""
    overridden: bool | None = None
    """True where the site's own threshold replaced the catalogue's."""
    where: Where | None = None
    """Absent where the number is of no single place."""


class RuledOut(_Part, frozen=True, kw_only=True):
    """A cause that was considered and is not it."""

    rule: str
    """The rule's id."""
    because: str
    """The clause that decided, with its number."""


class Patch(_Part, frozen=True, kw_only=True):
    """A change ready to paste."""

    kind: PatchKind
    """Where it goes: an environment variable, code, configuration, or a command."""
    after: str
    """The text to have."""
    before: str | None = None
    """The text it replaces; absent where there is none."""


class Remedy(_Part, frozen=True, kw_only=True):
    """What to change, what it can give and what would prove that it worked."""

    text: str
    """What to do."""
    patch: Patch | None = None
    """Absent where it cannot be written out."""
    gain_share: tuple[float, float] | None = None
    """Least and most of the row's time that the change brings if it works, as shares; absent where that
    cannot be bounded."""
    verify: str | None = None
    """What would prove that it worked; absent for a look that changes nothing."""


class Finding(_Part, frozen=True, kw_only=True):
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
    where the cause is not known."""
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
    evidence: tuple[Evidence, ...] = field(default_factory=_written)
    """What fired, what agrees, and what is shown beside it."""
    unknown: tuple[str, ...] = field(default_factory=_written)
    """Clauses that could not be checked, in words."""
    ruled_out: tuple[RuledOut, ...] = field(default_factory=_written)
    """Other causes that were considered for the same device."""
    remedies: tuple[Remedy, ...] = field(default_factory=_written)
    """What to change, best first."""
    explained_by: str | None = None
    """The id of the finding that this one is a consequence of; a consequence has no remedies of its own."""


class Card(_Part, frozen=True, kw_only=True):
    """One incident, for a person: what, since when, what to check in which order."""

    id: str
    """The id of its rule."""
    title: str
    """The incident as one line."""
    explanation: str | None = None
    """What it means; absent where the rule has none."""
    findings: tuple[str, ...] = field(default_factory=_written)
    """Ids of its findings, consequences included."""
    onset_ns: int | None = None
    """When `onset_step` began."""
    onset_step: int | None = None
    """The earliest onset of its findings; absent where steps do not tell."""
    onset_holds: bool | None = None
    """Whether at least 80 % of the steps after `onset_step` reach the threshold too."""
    checks: tuple[str, ...] = field(default_factory=_written)
    """What to check, in this order."""
    top_operators: tuple[Operator, ...] = field(default_factory=_written)
    """The five hottest ops of the rank it is about."""
    ruled_out: tuple[RuledOut, ...] = field(default_factory=_written)
    """Causes that are ruled out for all of its findings."""
    unknown: tuple[str, ...] = field(default_factory=_written)
    """Clauses that could not be checked, in words."""
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the card, such as thresholds that the site set itself."""


class Undecided(_Part, frozen=True, kw_only=True):
    """A cause that the data cannot settle, why they cannot, and what would."""

    rule: str
    """The rule's id."""
    why: str | None = None
    """Why the data cannot settle it; absent where `missing` says all."""
    missing: tuple[str, ...] = field(default_factory=_written)
    """Names of the numbers that would decide."""
    would_settle: str | None = None
    """The least recording that would bring them; absent where nothing is missing."""
    command: str | None = None
    """The command on that recording."""


class Report(_Part, frozen=True, kw_only=True):
    """The whole report."""

    schema: Literal["stepscope.report/1"] = field(default_factory=_schema)
    """The version of this shape."""
    tool: Tool
    """Who wrote it."""
    verdict: Verdict
    """The one-line answer."""
    health: Health
    """Whether the data can carry it."""
    inputs: tuple[Input, ...] = field(default_factory=_written)
    """Everything given, also what could not be used."""
    clocks: Clocks | None = None
    """Absent where no clocks were aligned."""
    window: Window | None = None
    """What time it is about; absent where the inputs have no wall time and no steps."""
    steps: tuple[Step, ...] = field(default_factory=_written)
    """Every step of every rank, also those not counted."""
    accounting: tuple[Accounting, ...] = field(default_factory=_written)
    """For every rank and device a row over steps, where there are any, and one over the trace."""
    operators: tuple[Operator, ...] = field(default_factory=_written)
    """Up to 50 a rank, hottest first."""
    top_operators: tuple[Operator, ...] = field(default_factory=_written)
    """The five hottest of the rank of the largest finding, else of the row that the verdict speaks of."""
    kernels: tuple[Kernel, ...] = field(default_factory=_written)
    """Up to 50 a rank, hottest first."""
    collectives: tuple[Collective, ...] = field(default_factory=_written)
    """By kind, group and message size, by total time."""
    stragglers: tuple[Straggler, ...] = field(default_factory=_written)
    """Empty while ranks are judged alone."""
    signals: tuple[SignalSummary, ...] = field(default_factory=_written)
    """Empty without telemetry."""
    events: tuple[Event, ...] = field(default_factory=_written)
    """Empty without logs."""
    findings: tuple[Finding, ...] = field(default_factory=_written)
    """Consequences after causes, then by cost."""
    cards: tuple[Card, ...] = field(default_factory=_written)
    """One an incident, in the order of their first finding."""
    ruled_out: tuple[RuledOut, ...] = field(default_factory=_written)
    """Causes that no device of any rank has; `because` is the first device's."""
    undecided: tuple[Undecided, ...] = field(default_factory=_written)
    """Questions that stay open."""
    next: str | None = None
    """The next command to run."""


def encode(report: Report) -> bytes:
    """The report as compact JSON in UTF-8, fields in the order of the schema's classes."""
    return msgspec.json.encode(report)


def decode(data: bytes | str) -> Report:
    """A report from its JSON; a field that does not fit raises `msgspec.ValidationError` with its path."""
    return msgspec.json.decode(data, type=Report)
