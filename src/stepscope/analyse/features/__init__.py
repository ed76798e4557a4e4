"""Named numbers of one (rank, device) that rules are written in.

Shares are of the accounting row's total, so they add up like the row does. A row whose idle causes are
withheld gives none of them; a run without a device gives only what is true of its host. What needs telemetry
is declared here too and absent until telemetry is there: a rule can then say what telemetry would add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from stepscope.analyse.variation import LEAST_STEPS
from stepscope.model import report
from stepscope.model.analysis import Culprit
from stepscope.model.feature import Facts, Feature, Observed
from stepscope.model.hardware import hardware_of

# ── parts of the accounting ────────────────────────────────────────────────────────────────────────


def part_ns(row: report.Accounting, part: str) -> int:
    """One part of an accounting row in nanoseconds: `compute`, `compute.gemm`, `idle`, `idle.input`, …"""
    head, _, cause = part.partition(".")
    if not cause:
        return int(getattr(row, f"{head}_ns"))
    whole = row.idle if head == "idle" else row.compute
    return int(getattr(whole, f"{cause}_ns")) if whole is not None else 0


def has_device(observed: Observed) -> bool:
    """Whether the row is about an accelerator, and not about the host of a run without one."""
    return observed.device.accounting.device.kind not in report.HOST_KINDS


def is_marked(observed: Observed) -> bool:
    """Whether the row is of a training loop that only its own marks tell of."""
    return observed.device.tells is not None


def tells(observed: Observed, parts: Iterable[str]) -> bool:
    """Whether a row of marks knows these parts."""
    return observed.device.tells is not None and observed.device.tells.issuperset(parts)


def _share(*parts: str, on_host: bool = False) -> Callable[[Observed], float | None]:
    def value(observed: Observed) -> float | None:
        row = observed.device.accounting
        if row.total_ns <= 0:
            return None
        if is_marked(observed):
            return (
                sum(part_ns(row, part) for part in parts) / row.total_ns if tells(observed, parts) else None
            )
        # Without device events a device may still have been there, unseen: then nothing is known of it.
        if not has_device(observed) and not (on_host and observed.rank.accelerator == "cpu"):
            return None
        return sum(part_ns(row, part) for part in parts) / row.total_ns

    return value


def _idle(cause: str, help: str, *, on_host: bool = False) -> Feature:
    name = f"idle_{cause}_share"
    return Feature(name, "ratio", help, _share(f"idle.{cause}", on_host=on_host), of=(f"idle.{cause}",))


busy_share = Feature(
    "busy_share",
    "ratio",
    "Time in which a compute kernel ran, as a share of the step. Busy is not efficient.",
    _share("compute"),
    of=("compute",),
)
exposed_communication_share = Feature(
    "exposed_communication_share",
    "ratio",
    "Time in which communication ran and no compute kernel did, as a share of the step.",
    _share("communication_exposed"),
    of=("communication_exposed",),
)
copy_exposed_share = Feature(
    "copy_exposed_share",
    "ratio",
    "Time in which a copy or set ran and neither compute nor communication did, as a share of the step.",
    _share("copy_exposed"),
    of=("copy_exposed",),
)
idle_share = Feature(
    "idle_share",
    "ratio",
    "Time in which nothing ran on the device, as a share of the step.",
    _share("idle"),
    of=("idle",),
)

idle_queued_share = _idle("queued", "Device idle although its next work was issued, as a share of the step.")
idle_input_share = _idle(
    "input", "Device idle while the loader was working, as a share of the step.", on_host=True
)
idle_preprocess_share = _idle(
    "preprocess",
    "Device idle at the start of a step while the host prepares the batch, as a share of the step.",
    on_host=True,
)
idle_host_sync_share = _idle(
    "host_sync", "Device idle for run-ahead lost in synchronising calls, as a share of the step."
)
idle_copy_wait_share = _idle(
    "copy_wait", "Device idle for run-ahead lost in blocking copies, as a share of the step."
)
idle_allocator_share = _idle(
    "allocator", "Device idle while the host allocates or frees device memory, as a share of the step."
)
idle_gc_share = _idle("gc", "Device idle while Python collects garbage, as a share of the step.")
idle_compile_share = _idle("compile", "Device idle while code is compiled or tuned, as a share of the step.")
idle_checkpoint_share = _idle(
    "checkpoint", "Device idle during a checkpoint, as a share of the step.", on_host=True
)
idle_eval_share = _idle("eval", "Device idle during an evaluation, as a share of the step.", on_host=True)
idle_logging_share = _idle(
    "logging", "Device idle while the host writes logs, as a share of the step.", on_host=True
)
idle_launch_share = _idle(
    "launch", "Device idle while the host is issuing ops and launches, as a share of the step."
)
idle_peer_share = _idle("peer", "Device idle while the host waits for other ranks, as a share of the step.")
idle_profiler_share = _idle("profiler", "Device idle for the profiler's own work, as a share of the step.")
idle_python_share = _idle("python", "Device idle while Python code without ops runs, as a share of the step.")
idle_unknown_share = _idle("unknown", "Device idle for an unknown cause, as a share of the step.")


def _preprocess_named(observed: Observed) -> float | None:
    whole = observed.device.accounting.idle.preprocess_ns
    named = observed.device.culprits.get("preprocess", ())
    return max((each.time_ns for each in named), default=0) / whole if whole > 0 else None


preprocess_named_share = Feature(
    "preprocess_named_share",
    "ratio",
    "What covers most of the host work at the start of the step (a function, an annotation): its share.",
    _preprocess_named,
)
copy_stall_share = Feature(
    "copy_stall_share",
    "ratio",
    "Copies that nothing hides, and idle time lost in blocking copy calls, as a share of the step.",
    _share("copy_exposed", "idle.copy_wait"),
    of=("copy_exposed", "idle.copy_wait"),
)

# ── further numbers of the analysis ────────────────────────────────────────────────────────────────


def _number(name: str, unit: str, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: observed.device.numbers.get(name))


bus_bandwidth_link_share = _number(
    "bus_bandwidth_link_share",
    "ratio",
    "Bus bandwidth implied by exposed collectives, against one direction of the device's link.",
)
bus_bytes_per_second = _number(
    "bus_bytes_per_second",
    "B/s",
    "Bus bandwidth implied by exposed collectives.",
)


def _periodic_stall(observed: Observed) -> float | None:
    share = observed.device.numbers.get("periodic_stall_share")
    return None if share == 0 and observed.device.accounting.num_steps < LEAST_STEPS else share


periodic_stall_share = Feature(
    "periodic_stall_share",
    "ratio",
    "Time of regularly slow steps beyond the median, as a share of the window.",
    _periodic_stall,
)
periodic_stall_steps = _number("periodic_stall_steps", "steps", "How many steps lie between two slow ones.")
queued_or_unlaunched_idle_share = _number(
    "queued_or_unlaunched_idle_share",
    "ratio",
    "Idle time before work already issued or without a recorded launch, as a share of idle time.",
)
unlaunched_device_share = _number(
    "unlaunched_device_share",
    "ratio",
    "Device time without a recorded launch, as a share of device time.",
)
kernel_median_ns = _number("kernel_median_ns", "ns", "Median duration of a compute kernel.")
launches_per_step = _number("launches_per_step", "launches", "Launch calls in a step.")
pageable_copy_share = _number(
    "pageable_copy_share", "ratio", "Copies from or to pageable memory, as a share of copy time."
)
to_device_copy_share = _number(
    "to_device_copy_share",
    "ratio",
    "Copies from the host, as a share of what copies cost that are not uploads of pageable memory.",
)
from_device_copy_share = _number(
    "from_device_copy_share",
    "ratio",
    "Copies to the host, as a share of what copies cost that are not uploads of pageable memory.",
)
within_device_copy_share = _number(
    "within_device_copy_share",
    "ratio",
    "Copies within a device or between devices, as a share of what copies cost that are not uploads of "
    "pageable memory.",
)


def _backward(observed: Observed) -> float | None:
    total = sum(operator.device_ns for operator in observed.rank.operators)
    back = sum(o.device_ns for o in observed.rank.operators if "backward" in o.name.lower())
    return back / total if total else None


backward_share = Feature(
    "backward_share",
    "ratio",
    "Device time of ops named after a backward pass, as a share of all; 0 where the run only infers.",
    _backward,
)

COMPILED = ("CompiledFunction", "Torch-Compiled Region")
"""What regions of a compiled model are called in a trace (AOTAutograd, torch.compile)."""


def _compiled(observed: Observed) -> float | None:
    named = observed.device.culprits.get("launch", ())
    whole = observed.device.accounting.idle.launch_ns
    # Regions may nest: the largest stands for all.
    return max(c.time_ns * c.name.startswith(COMPILED) for c in named) / whole if named and whole else None


compiled_launch_share = Feature(
    "compiled_launch_share",
    "ratio",
    "Idle time while the host issues ops of a compiled region, as a share of all idle time for launches.",
    _compiled,
)


def _late_start(observed: Observed) -> float | None:
    account = observed.device.accounting
    if not has_device(observed):
        return None
    time, total = observed.device.numbers.get("late_start_ns"), account.total_ns
    if account.idle.launch_ns == 0:
        return 0.0
    return time / total if time is not None and total else None


late_start_share = Feature(
    "late_start_share",
    "ratio",
    "Idle time from a launch to the start of its work, where that is over 1 ms, as a share of the step.",
    _late_start,
    of=("idle.launch",),
)


def _late_of_launch(observed: Observed) -> float | None:
    time, whole = observed.device.numbers.get("late_start_ns"), observed.device.accounting.idle.launch_ns
    return time / whole if time is not None and whole else None


late_start_launch_share = Feature(
    "late_start_launch_share",
    "ratio",
    "Idle time from a launch to the start of its work, where that is over 1 ms, as a share of all idle time "
    "for launches.",
    _late_of_launch,
    of=("idle.launch",),
)


def _unexplained_idle(observed: Observed) -> float | None:
    idle = idle_share.value(observed)
    share = queued_or_unlaunched_idle_share.value(observed)
    return None if idle is None or share is None else idle * share


unexplained_idle_share = Feature(
    "unexplained_idle_share",
    "ratio",
    "Idle time before work already issued or without a recorded launch, as a share of the step.",
    _unexplained_idle,
    of=("idle.queued", "idle.unknown"),
    needs_causes=False,
)


def _host(name: str, help: str) -> Feature:
    def value(observed: Observed) -> float | None:
        host = observed.device.accounting.host
        share: float | None = getattr(host, name) if host is not None else None
        return share

    return Feature(f"host_{name}", "ratio", help, value)


host_loader_share = _host("loader_share", "Host time in the loader, as a share of host step time.")
host_sync_share = _host("sync_share", "Host time in synchronising calls, as a share of host step time.")
host_copy_call_share = _host("copy_call_share", "Host time in blocking copies, as a share of host step time.")
host_launch_share = _host("launch_share", "Host time in launch calls, as a share of host step time.")

host_late_share = Feature(
    "host_late_share",
    "ratio",
    "Device idle while the host is busy with the loader, the batch, ops, launches or Python, as a share of "
    "the step.",
    _share("idle.input", "idle.preprocess", "idle.launch", "idle.python", "idle.unknown", on_host=True),
    of=("idle.input", "idle.preprocess", "idle.launch", "idle.python", "idle.unknown"),
)

# ── of telemetry; absent without it ────────────────────────────────────────────────────────────────


def _measured(name: str, unit: str, origin: report.Origin, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: observed.device.numbers.get(name), origin=origin)


host_cpu_busy = _measured("host_cpu_busy", "ratio", "host", "Busy share of the host's processor cores.")
sm_active_mean = _measured(
    "sm_active_mean", "ratio", "telemetry", "Mean over time and multiprocessors of having work."
)
pcie_receive_link_share = _measured(
    "pcie_receive_link_share", "ratio", "telemetry", "Bytes received over PCIe against the link's capacity."
)
nvlink_link_share = _measured(
    "nvlink_link_share", "ratio", "telemetry", "Bytes over NVLink against one direction of the link."
)
memory_used_share = _measured(
    "memory_used_share", "ratio", "telemetry", "Device memory in use against device memory present."
)
disk_written_share = _measured(
    "disk_written_share", "ratio", "host", "Share of the slow steps in which this node wrote to disk."
)

# ── facts of one device ────────────────────────────────────────────────────────────────────────────


def facts(observed: Observed, features: Iterable[Feature]) -> Facts:
    """The facts of one device for these features; a withheld or unmeasured one is absent."""
    values: dict[Feature, float] = {}
    where: dict[Feature, report.Where] = {}
    for feature in () if observed.rank.is_cut else features:
        is_unknown = _is_touched(observed, feature, "withheld") or _is_unseen(observed, feature)
        value = None if is_unknown else feature.value(observed)
        # A NaN is a fault of the feature, but it must never decide: every comparison with it is false.
        if value is None or not math.isfinite(value):
            continue
        values[feature] = float(value)
        place = culprit(observed, feature)
        if place is not None:
            where[feature] = place
    degraded = frozenset(f for f in values if _is_touched(observed, f, "degraded"))
    return Facts(values, degraded, where)


def culprits(observed: Observed, feature: Feature) -> list[Culprit]:
    """Who was running during a feature's time, over its parts, largest first."""
    named = [
        candidate
        for part in feature.blame or feature.of
        for candidate in observed.device.culprits.get(part.removeprefix("idle."), ())
    ]
    return sorted(named, key=lambda candidate: -candidate.time_ns)


def culprit(observed: Observed, feature: Feature) -> report.Where | None:
    """Where in the recording the largest piece of a feature's time is, `None` where nobody is named."""
    worst = next(iter(culprits(observed, feature)), None)
    if worst is None:
        return None
    return report.Where(
        rank=observed.rank.rank,
        start_ns=worst.start_ns,
        end_ns=worst.end_ns,
        span=worst.span,
        name=worst.name,
    )


Absence = Literal[
    "cut",
    "marks",
    "no_device",
    "withheld",
    "no_host_rows",
    "unknown_device",
    "unmeasured",
    "no_steps",
    "few_steps",
]
"""Why a feature has no value; what lacks most of the data comes first."""


def absence(observed: Observed, feature: Feature) -> Absence:
    """Why the trace gives no value for a feature."""
    row = observed.device.accounting
    if observed.rank.is_cut:
        return "cut"
    if is_marked(observed) and feature is not periodic_stall_share:
        return "marks"
    if not is_marked(observed) and not has_device(observed):
        return "no_device"
    if _is_touched(observed, feature, "withheld"):
        return "withheld"
    if _is_unseen(observed, feature):
        return "no_host_rows"
    if feature.needs_peaks and hardware_of(row.device.name) is None:
        return "unknown_device"
    if feature is periodic_stall_share:
        return "no_steps" if row.scope == "trace" else "few_steps"
    return "unmeasured"


_BY_ROWS = frozenset(
    f"idle.{cause}"
    for cause in (
        "input",
        "preprocess",
        "gc",
        "compile",
        "checkpoint",
        "eval",
        "logging",
        "profiler",
        "python",
    )
)
"""Idle causes that only ops, annotations and Python functions tell; the others come from calls."""


def _is_unseen(observed: Observed, feature: Feature) -> bool:
    """Whether the feature speaks of host work in a trace that recorded calls only: then 0 is not measured."""
    if not any(issue.code == "no_host_rows" for issue in observed.rank.issues):
        return False
    return feature is host_loader_share or bool(_BY_ROWS.intersection(feature.of))


def _is_touched(observed: Observed, feature: Feature, effect: report.Effect) -> bool:
    """Whether the row's status or a health issue of this effect touches the feature's parts.

    The row's status speaks of its idle causes: the union of compute needs no launches, their causes do.
    """
    parts = feature.of if feature.needs_causes else ("idle",)
    if observed.device.accounting.status == effect and any(part.startswith("idle.") for part in parts):
        return True
    # Without steps, warm-up cannot be told from steady state: the causes hold, their weight may not.
    is_unsettled = effect == "degraded" and observed.device.accounting.scope == "trace"
    if is_unsettled and any(part.startswith("idle.") for part in parts):
        return True
    affected = {name for issue in observed.rank.issues if issue.effect == effect for name in issue.affects}
    return bool(feature.of) and any(_covers(name, part) for name in affected for part in parts)


def _covers(name: str, part: str) -> bool:
    """Whether an issue that affects `name` affects this part: `idle` means its causes, not their sum."""
    return name == "accounting" or part.startswith(f"{name}.") or (name == part != "idle")
