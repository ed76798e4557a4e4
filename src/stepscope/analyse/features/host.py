"""Features of the host's own work: long Python, pauses, phases by step, compilation, graph replays."""

from __future__ import annotations

import re
from collections.abc import Callable

from stepscope.analyse.features import copy_stall_share, has_device, is_marked, part_ns, tells
from stepscope.model.feature import Feature, Observed

MARKED_SHARE = 0.01
"""A step in which a cause takes less than this share hardly has it: as for steps that a phase marks."""


def _steps_with(cause: str, what: str) -> Feature:
    """How many steps have idle time of a cause; `None` without steps."""

    def value(observed: Observed) -> float | None:
        if is_marked(observed) and not tells(observed, (f"idle.{cause}",)):
            return None
        steps = observed.device.by_step.values()
        key = f"idle.{cause}_ns"
        had = sum(parts.get(key, 0) >= MARKED_SHARE * parts.get("total_ns", 0) > 0 for parts in steps)
        return float(had) if steps else None

    return Feature(f"{cause}_steps", "steps", f"Steps in which the device waits for {what}.", value)


checkpoint_steps = _steps_with("checkpoint", "a checkpoint")
eval_steps = _steps_with("eval", "an evaluation")
logging_steps = _steps_with("logging", "logs")
gc_steps = _steps_with("gc", "garbage collection")


def _number(name: str, unit: str, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: observed.device.numbers.get(name))


recompiling_steps = _number(
    "recompiling_steps",
    "steps",
    "Steps that compile after a step that did not; unknown where every step compiles.",
)
unrecorded_graph_share = _number(
    "unrecorded_graph_share",
    "ratio",
    "Graph launches without any recorded device work, as a share of all; 0 where no graph is launched.",
)
pageable_upload_share = _number(
    "pageable_upload_share",
    "ratio",
    "Copies to the device from pageable memory, as a share of what copies cost.",
)


def _uploads(observed: Observed) -> float | None:
    whole = copy_stall_share.value(observed)
    share = observed.device.numbers.get("pageable_upload_share")
    return 0.0 if whole == 0 else None if whole is None or share is None else whole * share


def _other_copies(observed: Observed) -> float | None:
    whole = copy_stall_share.value(observed)
    share = observed.device.numbers.get("pageable_upload_share", 0.0)
    return None if whole is None else whole * (1 - share)


# Each of the two has its own part of the same time: as labels of kernels they are disjoint.
pageable_upload_stall_share = Feature(
    "pageable_upload_stall_share",
    "ratio",
    "What copies to the device from pageable memory cost, as a share of the step: their part of "
    "copy_stall_share.",
    _uploads,
    of=copy_stall_share.of,
    blame=("pageable_upload", "copy_wait"),
)
other_copy_stall_share = Feature(
    "other_copy_stall_share",
    "ratio",
    "What all other copies cost, as a share of the step; all of copy_stall_share where no copy's name tells "
    "its memory.",
    _other_copies,
    of=copy_stall_share.of,
    blame=("other_copy", "copy_wait"),
)
pageable_upload_bytes = _number(
    "pageable_upload_bytes",
    "B",
    "Mean size of copies to the device from pageable memory, each weighted by what it costs.",
)


def _of_total(number: str, *parts: str) -> Callable[[Observed], float | None]:
    """A number of nanoseconds as a share of the step; 0 where the parts that it lies in are empty."""

    def value(observed: Observed) -> float | None:
        row = observed.device.accounting
        if row.total_ns <= 0 or not (has_device(observed) or tells(observed, parts)):
            return None
        if not any(part_ns(row, part) for part in parts):
            return 0.0
        time = observed.device.numbers.get(number)
        return None if time is None else time / row.total_ns

    return value


python_stall_share = Feature(
    "python_stall_share",
    "ratio",
    "Device idle while Python code without ops runs for over 1 ms at a stretch, as a share of the step.",
    _of_total("python_stall_ns", "idle.python"),
    of=("idle.python",),
)


def _between_steps(observed: Observed) -> float | None:
    total = observed.device.accounting.total_ns
    if total <= 0:
        return None
    time = observed.device.numbers.get("between_steps_ns")
    if time is None:  # elsewhere the loop itself says where its steps begin
        return 0.0 if has_device(observed) else None
    return time / total


between_steps_share = Feature(
    "between_steps_share",
    "ratio",
    "Host code for over 1 ms at a stretch between the optimizer and the next forward pass, of which nothing "
    "tells whether it ends a step or begins the next, as a share of the step.",
    _between_steps,
    of=("idle.python",),
)
long_pause_share = Feature(
    "long_pause_share",
    "ratio",
    "Device idle while the host issues ops or runs Python for over 50 ms at a stretch, as a share of the "
    "step.",
    _of_total("long_pause_ns", "idle.launch", "idle.python"),
    of=("idle.launch", "idle.python"),
)
irregular_pause_share = Feature(
    "irregular_pause_share",
    "ratio",
    "Device idle in pauses of over 50 ms that come inside the forward pass of some steps at no period, as a "
    "share of the step; only where no Python function was recorded.",
    _of_total("irregular_pause_ns", "idle.launch", "idle.python"),
    of=("idle.launch", "idle.python"),
)


def _of_compile(pattern: str) -> Callable[[Observed], float | None]:
    """Rows of these names, as a share of idle time for compilation; `None` where nothing names that time."""
    wanted = re.compile(pattern)

    def value(observed: Observed) -> float | None:
        whole = observed.device.accounting.idle.compile_ns
        named = observed.device.culprits.get("compile", ())
        time = sum(each.time_ns for each in named if wanted.search(each.name))
        return min(time / whole, 1.0) if named and whole > 0 else None

    return value


kernel_loading_share = Feature(
    "kernel_loading_share",
    "ratio",
    "Loading of kernels at their first use, as a share of the idle time for compilation.",
    _of_compile("Lazy Function Loading|(Module|Library)Load"),
)
cudnn_search_share = Feature(
    "cudnn_search_share",
    "ratio",
    "cuDNN's search for the fastest algorithm, as a share of the idle time for compilation.",
    _of_compile("(?i)cudnn"),
)
_FUNCTION = re.compile(r"\.py\(\d+\): |^<built-in ")
"""How a profiler writes a Python function. An annotation names a part of the step, not what runs in it."""


def _python_named(observed: Observed) -> float | None:
    if is_marked(observed):
        return observed.device.numbers.get("python_named_share")
    whole = observed.device.accounting.idle.python_ns
    named = [c for c in observed.device.culprits.get("python", ()) if _FUNCTION.search(c.name)]
    return max((each.time_ns for each in named), default=0) / whole if whole > 0 else None


python_named_share = Feature(
    "python_named_share",
    "ratio",
    "The Python function that covers most of the Python code without ops: its share of it.",
    _python_named,
)
