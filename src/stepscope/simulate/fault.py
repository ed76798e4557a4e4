"""The faults: a table. Each row changes the plan of a rank's step, by how much its severity says."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stepscope.model.error import UsageError

SEVERITIES = ("mild", "medium", "severe")
DEFAULT_SEVERITY = "medium"
PERIOD = 5
"""Steps from one checkpoint or evaluation to the next."""
GC_PERIOD = 8
"""Steps from one full collection of a rank to its next."""
WITH_TELEMETRY = (
    "page-cache-miss", "thermal-throttle", "power-cap", "clock-lock", "foreign-process", "fragmentation",
    "memory-leak", "cpu-contention", "hang",
)  # fmt: skip
"""Faults whose sign is not in a trace alone: they come with simulated telemetry."""
NOT_YET = ("unfused", "no-tensor-core", "misaligned")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fault as asked for: from `first` to `last` step, both included, `None` for all; on `rank` where that
    was said."""

    name: str
    severity: str = DEFAULT_SEVERITY
    rank: int | None = None
    first: int | None = None
    last: int | None = None

    def is_on(self, step: int) -> bool:
        """Whether it is there in this step."""
        return (self.first is None or step >= self.first) and (self.last is None or step <= self.last)

    def __str__(self) -> str:
        rank = "" if self.rank is None else f"#{self.rank}"
        steps = "" if self.first is None else f"@{self.first}:{self.last}"
        return f"{self.name}{rank}:{self.severity}{steps}"


@dataclass(slots=True)
class Plan:
    """What one step of one rank is like. Faults change it; as made, nothing is wrong.

    `compute` and `host` multiply the durations of kernels and of host work; `transfer` those of exchanges,
    `bandwidth` caps their bytes per second. `lengths` is each micro-batch's sequence length.
    """

    loader_ns: int
    lengths: tuple[int, ...]
    compute: float = 1.0
    host: float = 1.0
    transfer: float = 1.0
    bandwidth: float | None = None
    load: float = 1.0
    """Tokens of this rank's experts against an equal share."""
    is_tiny: bool = False
    """Whether the model is cut down to kernels of a few microseconds."""
    sync_ns: int | None = None
    """Host work after an `.item()` in every layer, `None` without one."""
    pageable_ns: int = 0
    """How long a copy of the batch from pageable memory takes, 0 where it is pinned."""
    sleep_ns: int = 0
    """Between forward and backward, Python launches nothing until the device has been idle for so long."""
    gc_ns: int = 0
    checkpoint_ns: int = 0
    eval_batches: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault is applied. `culprit` is the rank that the fault is on, `step_ns` a healthy step,
    `host_ns` the host's part of it; `draw(n)` are n standard normal numbers of this fault, rank and step."""

    rank: int
    step: int
    culprit: int
    num_ranks: int
    stage: int
    num_stages: int
    step_ns: int
    host_ns: int
    length: int
    seed: int
    number: int

    def draw(self, num: int) -> list[float]:
        """Standard normal numbers."""
        made = np.random.default_rng([self.seed, 7, self.number, self.rank, self.step])
        return [float(z) for z in made.standard_normal(num)]


Apply = Callable[[Plan, float, Place], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the catalogue. `magnitudes` are mild, medium and severe, in `unit`; `reason` is what a
    report should say of whoever is late for it; `who` is "rank" (one, by number or by seed), "any" (every
    rank, or one by number) or "all" (nobody can be chosen)."""

    name: str
    text: str
    magnitudes: tuple[float, float, float]
    unit: str
    reason: str
    who: str
    apply: Apply
    models: tuple[str, ...] = ()
    least_ranks: int = 1
    is_piped: bool = False

    def magnitude(self, severity: str) -> float:
        """How much of it."""
        return self.magnitudes[SEVERITIES.index(severity)]


def _straggler(plan: Plan, much: float, at: Place) -> None:
    plan.compute *= much


def _straggler_python(plan: Plan, much: float, at: Place) -> None:
    plan.sleep_ns += int(much * at.step_ns)


def _moving_straggler(plan: Plan, much: float, at: Place) -> None:
    if at.step % at.num_ranks == at.rank:
        plan.sleep_ns += int(1e6 * much)


def _loader_stall(plan: Plan, much: float, at: Place) -> None:
    # The loader adds to the host's own work: together they are as long as the step becomes.
    plan.loader_ns = max(int(at.step_ns / (1 - much)) - at.host_ns, int(much * at.step_ns))


def _host_sync(plan: Plan, much: float, at: Place) -> None:
    plan.sync_ns = int(1000 * much)


def _pageable_copy(plan: Plan, much: float, at: Place) -> None:
    plan.pageable_ns = int(much * at.step_ns)


def _launch_bound(plan: Plan, much: float, at: Place) -> None:
    plan.is_tiny = True
    plan.host *= much


def _slow_link(plan: Plan, much: float, at: Place) -> None:
    plan.transfer *= much


def _wrong_transport(plan: Plan, much: float, at: Place) -> None:
    plan.bandwidth = 1e9 * much


def _sequence_imbalance(plan: Plan, much: float, at: Place) -> None:
    drawn = at.draw(len(plan.lengths))
    wanted = [at.length * math.exp(much * z - much * much / 2) for z in drawn]
    plan.lengths = tuple(max(min(64 * round(n / 64), 2 * at.length), 64) for n in wanted)


def _stage_imbalance(plan: Plan, much: float, at: Place) -> None:
    if at.stage == at.num_stages - 1:
        plan.compute *= much


def _expert_imbalance(plan: Plan, much: float, at: Place) -> None:
    if at.culprit // at.num_ranks != at.stage:
        return
    # What one rank's experts get more, those of the others in its group get less.
    others = max((at.num_ranks - much) / max(at.num_ranks - 1, 1), 0.05)
    plan.load = much if at.rank == at.culprit else round(others, 3)


def _gc(plan: Plan, much: float, at: Place) -> None:
    order = np.random.default_rng([at.seed, 8, at.number]).permutation(max(at.num_ranks, GC_PERIOD))
    if at.step % GC_PERIOD == int(order[at.rank]) % GC_PERIOD:
        plan.gc_ns += int(1e6 * much)


def _checkpoint(plan: Plan, much: float, at: Place) -> None:
    if at.step % PERIOD == PERIOD - 1:
        plan.checkpoint_ns = int(much * at.step_ns)


def _eval(plan: Plan, much: float, at: Place) -> None:
    if at.step % PERIOD == PERIOD - 1:
        plan.eval_batches = int(much)


_ROWS = (
    Fault("straggler", "one rank's kernels take longer, by this factor", (1.1, 1.3, 2.0), "times",
          "slower_kernels", "rank", _straggler, least_ranks=2),
    Fault("straggler-python", "after forward, one rank launches nothing until its device has idled that long",
          (0.1, 0.3, 1.0), "of a step", "python", "rank", _straggler_python, least_ranks=2),
    Fault("moving-straggler", "rank n mod R is late in step n by so much: the same, moving on",
          (20, 50, 150), "ms", "python", "all", _moving_straggler, least_ranks=2),
    Fault("loader-stall", "the next batch is late: the device idles for about this share of the step",
          (0.15, 0.35, 0.6), "of a step", "input", "any", _loader_stall),
    Fault("host-sync", "an .item() in every layer, and host work of this length after each",
          (100, 400, 1000), "µs", "host_sync", "any", _host_sync),
    Fault("pageable-copy", "batches come from pageable memory, and a copy takes this share of the step",
          (0.08, 0.2, 0.4), "of a step", "copy_wait", "any", _pageable_copy),
    Fault("launch-bound", "kernels of a few microseconds, and a host that takes this factor longer",
          (1.0, 2.0, 4.0), "times", "launch", "all", _launch_bound),
    Fault("slow-link", "every exchange takes longer, by this factor", (2, 4, 10), "times",
          "unknown", "all", _slow_link, least_ranks=2),
    Fault("wrong-transport", "exchanges go over a path of this bandwidth", (10, 6, 3), "GB/s",
          "unknown", "all", _wrong_transport, least_ranks=2),
    Fault("sequence-imbalance", "sequence lengths differ by rank, step and micro-batch, with this deviation",
          (0.15, 0.3, 0.6), "of a length", "more_work", "all", _sequence_imbalance,
          ("transformer", "moe"), 2),
    Fault("stage-imbalance", "the kernels of the pipeline's last stage take longer, by this factor",
          (1.15, 1.4, 2.0), "times", "slower_kernels", "all", _stage_imbalance, least_ranks=2, is_piped=True),
    Fault("expert-imbalance", "the experts of one rank get this many times their share of the tokens",
          (1.3, 1.8, 3.0), "times", "more_work", "rank", _expert_imbalance, ("moe",), 2),
    Fault("gc", "Python collects garbage for so long, each rank in every eighth step, at steps of its own",
          (100, 200, 500), "ms", "gc", "any", _gc),
    Fault("checkpoint", "every fifth step ends with a marked checkpoint of this length", (0.5, 2, 10),
          "steps", "checkpoint", "any", _checkpoint),
    Fault("eval", "every fifth step ends with a marked evaluation of so many batches", (2, 5, 10),
          "batches", "eval", "any", _eval),
)  # fmt: skip
FAULTS: Mapping[str, Fault] = {row.name: row for row in _ROWS}

_FORM = re.compile(
    r"(?P<name>[a-z-]+)(?:#(?P<rank>\d{1,6}))?(?::(?P<severity>[a-z]+))?(?:@(?P<first>\d{1,9}):(?P<last>\d{1,9}))?"
)
_MEND = "give NAME[#RANK][:mild|medium|severe][@A:B]"


def parse(text: str) -> Chosen:
    """A fault as it is written on the command line. Raises UsageError with what to write instead."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"fault {text}: is not understood; {_MEND}")
    name, severity = match["name"], match["severity"] or DEFAULT_SEVERITY
    if name in WITH_TELEMETRY:
        raise UsageError(f"fault {name}: comes with simulated telemetry; traces alone do not show it")
    if name in NOT_YET:
        raise UsageError(f"fault {name}: is not simulated yet; take one of {', '.join(FAULTS)}")
    if name not in FAULTS:
        raise UsageError(f"fault {name}: no such fault; take one of {', '.join(FAULTS)}")
    if severity not in SEVERITIES:
        raise UsageError(f"fault {text}: no such severity; take mild, medium or severe")
    rank, first, last = (None if match[g] is None else int(match[g]) for g in ("rank", "first", "last"))
    if first is not None and last is not None and last < first:
        raise UsageError(
            f"fault {text}: the last step lies before the first; give @A:B with A no larger than B"
        )
    return Chosen(name, severity, rank, first, last)


def check(chosen: Chosen, ranks: int, steps: int, model: str, stages: int) -> None:
    """Refuse a fault that cannot show in a run of this shape."""
    row = FAULTS.get(chosen.name)
    if row is None or chosen.severity not in SEVERITIES:
        raise UsageError(f"fault {chosen}: no such fault; take one of {', '.join(FAULTS)}")
    if row.models and model not in row.models:
        raise UsageError(f"fault {chosen}: {model} cannot have it; take --model {' or '.join(row.models)}")
    if row.is_piped and stages < 2:
        raise UsageError(f"fault {chosen}: there is no pipeline; add --pipeline-stages 2 or more")
    if ranks < row.least_ranks:
        raise UsageError(
            f"fault {chosen}: one rank cannot have it; ask for --ranks {row.least_ranks} or more"
        )
    if chosen.rank is not None and row.who == "all":
        raise UsageError(f"fault {chosen}: is on no single rank; leave out #{chosen.rank}")
    if chosen.rank is not None and chosen.rank >= ranks:
        raise UsageError(f"fault {chosen}: the last rank is {ranks - 1}; choose one up to that")
    if chosen.first is not None and chosen.first >= steps:
        raise UsageError(f"fault {chosen}: the last step is {steps - 1}; begin no later")


def culprit_of(chosen: Chosen, number: int, seed: int, ranks: int) -> int | None:
    """The rank that a fault is on: the chosen one, else one by seed; `None` where it is on several."""
    if chosen.rank is not None or FAULTS[chosen.name].who != "rank":
        return chosen.rank
    return int(np.random.default_rng([seed, 9, number]).integers(ranks))


def apply(plan: Plan, chosen: Chosen, culprit: int | None, place: Place) -> None:
    """Change a plan where the fault is on for this rank and step."""
    row = FAULTS[chosen.name]
    is_here = culprit is None or culprit == place.rank or row.apply is _expert_imbalance
    if chosen.is_on(place.step) and is_here:
        row.apply(plan, row.magnitude(chosen.severity), place)


def ranks_of(chosen: Chosen, culprit: int | None, ranks: int, stages: int) -> list[int]:
    """The ranks that a fault is on."""
    if culprit is not None:
        return [culprit]
    if chosen.name == "stage-imbalance":
        return list(range(ranks - ranks // stages, ranks))
    return list(range(ranks))
