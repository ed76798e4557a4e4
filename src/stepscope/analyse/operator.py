"""Ops by name: what they launched, for how long, and how far that is from the device's limits."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.analyse.copies import HOST_COPY
from stepscope.analyse.group import groups
from stepscope.analyse.kernel import latencies, median_known
from stepscope.analyse.launched import Launched
from stepscope.analyse.phase import Phase
from stepscope.analyse.roofline import NOT_KNOWN, Roofline, Works, roofline
from stepscope.analyse.source import called_from
from stepscope.analyse.work import Work
from stepscope.model import report
from stepscope.model.hardware import Hardware
from stepscope.model.interval import Intervals, union
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.health import Issue, impossible_rate
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import Activities
from stepscope.trace.nesting import HostRows

MAX_OPERATORS = 50
MAX_TRACED = 10
"""Ops of which the calling line of Python is looked up."""

# An op whose name says what it computes: its helpers (transposes, casts) may run longer than its main kernel.
_BY_NAME = (
    (
        "convolution",
        re.compile(r"(^|[:_])(conv\d?d|convolution|cudnn_convolution|miopen_convolution)", re.IGNORECASE),
    ),
    ("gemm", re.compile(r"^aten::(mm|addmm|bmm|baddbmm|matmul|linear|addmv|mv|dot)$")),
    ("attention", re.compile(r"scaled_dot_product|_attention_(forward|backward)", re.IGNORECASE)),
    ("normalization", re.compile(r"(batch|layer|group|instance|rms)_?norm", re.IGNORECASE)),
)


def class_of(op: str) -> str | None:
    """The class that an op's name tells, `None` where it tells none."""
    return next((cls for cls, pattern in _BY_NAME if pattern.search(op)), None)


_TRANSFORM = re.compile(r"winograd|[^a-z]fft|cufft", re.IGNORECASE)
"""Kernels that convolve with less arithmetic than the definition."""


def _one(models: list[Hardware | None]) -> Hardware | None:
    """The model that all these devices are, `None` where they differ or one is not known."""
    return models[0] if all(model == models[0] for model in models) else None


class Calls:
    """Activities in scope with the ops that own them: what every table of ops is made of.

    All arrays are of the chosen activities; `own_row` is the op's core row, else the activity's own.
    """

    def __init__(
        self,
        trace: Trace,
        activities: Activities,
        who: Launched,
        chosen: npt.NDArray[np.bool_],
        hardware: Mapping[int, Hardware | None],
    ) -> None:
        self.trace, self.hardware, self.works = trace, hardware, Works(trace)
        self.activities, self.who = activities.take(chosen), who.take(chosen)
        self.duration_ns: I64 = self.activities.end_ns - self.activities.start_ns
        self.own_row = np.where(self.who.op_row >= 0, self.who.op_row, self.activities.row)
        self.name_id: I32 = trace.spans.name_id[self.own_row]
        self.kernel_id: I32 = trace.spans.name_id[self.activities.row]
        self.total_ns = int(self.duration_ns.sum())

    def of_device(self, device: int) -> Calls:
        """Those of one device; works that are known stay known."""
        other = copy.copy(self)
        mine = self.activities.device == device
        other.activities, other.who = self.activities.take(mine), self.who.take(mine)
        for column in ("duration_ns", "own_row", "name_id", "kernel_id"):
            setattr(other, column, getattr(self, column)[mine])
        other.total_ns = int(other.duration_ns.sum())
        return other

    def _with_cores(self, which: npt.NDArray[np.intp]) -> tuple[I32, npt.NDArray[np.integer]]:
        """Rows of the ops of these activities, and whether each ran on tensor cores (1, 0, -1 not known)."""
        calls, of_call = np.unique(self.own_row[which], return_inverse=True)
        cores = self.activities.tensor_core[which]
        on_cores = np.bincount(of_call, weights=cores == 1) > 0
        off_cores = np.bincount(of_call, weights=cores != 0) == 0
        return calls, np.where(on_cores, 1, np.where(off_cores, 0, -1))

    def matrix_works(self, which: npt.NDArray[np.intp]) -> list[tuple[Work, int, int]] | None:
        """Work of the ops of these activities, as `Works.of`; `None` where it is not known, is no matrix
        work, or was done by a transform with less arithmetic than the definition."""
        if any(_TRANSFORM.search(self.trace.names[n]) for n in np.unique(self.kernel_id[which]).tolist()):
            return None
        works = self.works.of(*self._with_cores(which))
        return works if works and all(work.is_matrix for work, _, _ in works) else None

    def place(self, which: npt.NDArray[np.intp]) -> tuple[Roofline, Hardware | None, I32]:
        """Where the ops of these activities stand under their device's limits; the device; the ops' rows."""
        calls, by_call = self._with_cores(which)
        model = _one([self.hardware.get(d) for d in np.unique(self.activities.device[which]).tolist()])
        # A copy between host and device waits for the bus between them, not for the device's memory.
        kernels = [self.trace.names[n] for n in np.unique(self.kernel_id[which]).tolist()]
        if any(HOST_COPY.search(kernel) for kernel in kernels):
            return NOT_KNOWN, model, calls
        is_direct = not any(_TRANSFORM.search(kernel) for kernel in kernels)
        device_ns = int(self.duration_ns[which].sum())
        return roofline(self.works.of(calls, by_call), device_ns, model, is_direct=is_direct), model, calls

    def class_of(self, name: str, which: npt.NDArray[np.intp]) -> str:
        """What the op computes: by its name, else the class of most of its device time."""
        of = self.activities.cls[which]
        by_class = np.bincount(of, weights=self.duration_ns[which], minlength=len(CLASSES))
        return class_of(name) or CLASSES[int(np.argmax(by_class))]

    def tensor_core(self, which: npt.NDArray[np.intp]) -> bool | None:
        """Whether a kernel ran on tensor cores; `None` where their names do not tell."""
        cores = self.activities.tensor_core[which]
        return True if (cores == 1).any() else False if (cores == 0).all() else None

    def per_call_ns(self, which: npt.NDArray[np.intp]) -> I64:
        """Device time of each call."""
        _, of_call = np.unique(self.own_row[which], return_inverse=True)
        summed = np.zeros(int(of_call.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(summed, of_call, self.duration_ns[which])
        return summed


def operator_table(
    calls: Calls, rows: Mapping[int, HostRows], rank: int | None
) -> tuple[tuple[report.Operator, ...], list[Issue]]:
    """The hottest ops by the device time they launched; work without an op stands under its kernel's name.

    The issues name ops that would be faster than the device can be.
    """
    trace = calls.trace
    issues: list[Issue] = []
    found = sorted(
        ((name, which, int(calls.duration_ns[which].sum())) for name, which in groups(calls.name_id)),
        key=lambda each: (-each[2], trace.names[each[0]]),
    )
    latency = latencies(calls.activities)
    inclusive = _Inclusive(calls, rows)
    result = []
    for rank_of_op, (name_id, which, device_ns) in enumerate(found):
        name = trace.names[name_id]
        place, model, its_calls = calls.place(which)
        if place.excess is not None and model is not None:
            issues.append(impossible_rate(name, place.excess, model.key, len(its_calls)))
        if rank_of_op >= MAX_OPERATORS:
            continue
        is_op = bool((calls.who.op_row[which] >= 0).any())
        per_call = calls.per_call_ns(which)
        total_ns, host_ns = inclusive.of(name_id) if is_op else (None, None)
        result.append(
            report.Operator(
                rank=rank,
                name=name,
                class_=calls.class_of(name, which),
                count=len(its_calls),
                device_ns=device_ns,
                share=device_ns / calls.total_ns if calls.total_ns else None,
                tensor_core=calls.tensor_core(which),
                flops=place.flops,
                bytes=place.num_bytes,
                achieved_flops_per_second=place.achieved_flops_per_second,
                achieved_bytes_per_second=place.achieved_bytes_per_second,
                peak_share=place.peak_share,
                memory_peak_share=place.memory_peak_share,
                bound=place.bound,
                total_ns=total_ns,
                host_ns=host_ns,
                mean_ns=int(per_call.mean()),
                p99_ns=int(np.percentile(per_call, 99, method="higher")),
                launch_latency_ns=median_known(latency[which]),
                phases=phases_struct(calls, which),
                called_from=called_from(calls.trace, rows, calls.who, calls.activities, which)
                if rank_of_op < MAX_TRACED
                else None,
            )
        )
    return tuple(result), issues


_OF_PHASE = {
    Phase.FORWARD: "forward_ns",
    Phase.BACKWARD: "backward_ns",
    Phase.RECOMPUTE: "recompute_ns",
    Phase.OPTIMIZER: "optimizer_ns",
    Phase.OTHER: "other_ns",
}


def phases_struct(calls: Calls, which: npt.NDArray[np.intp] | slice) -> report.Phases | None:
    """Device time of these activities by phase, `None` where the trace marks none."""
    if calls.who.phase is None:
        return None
    phase, duration = calls.who.phase[which], calls.duration_ns[which]
    return report.Phases(**{field: int(duration[phase == each].sum()) for each, field in _OF_PHASE.items()})


class _Inclusive:
    """Device time launched inside ops of a name, and the host's time in them."""

    def __init__(self, calls: Calls, rows: Mapping[int, HostRows]) -> None:
        self._rows = rows
        self._launches: dict[int, tuple[I64, I64]] = {}
        for track in np.unique(calls.who.thread).tolist():
            if track in rows:
                mine = np.flatnonzero(calls.who.thread == track)
                at = calls.activities.launch_ns[mine]
                order = np.argsort(at, kind="stable")
                summed = np.append(np.int64(0), np.cumsum(calls.duration_ns[mine][order]))
                self._launches[track] = at[order], summed

    def of(self, name_id: int) -> tuple[int, int]:
        """(device, host) nanoseconds; an op that calls itself counts once."""
        device = host = 0
        for track, rows in self._rows.items():
            mask = (rows.name_id == name_id) & (rows.kind == Kind.OP)
            open_: Intervals = union(rows.start_ns[mask], rows.end_ns[mask], is_sorted=True)
            host += open_.total_ns
            if track in self._launches and len(open_):
                at, summed = self._launches[track]
                first, last = np.searchsorted(at, open_.start), np.searchsorted(at, open_.end)
                device += int((summed[last] - summed[first]).sum())
        return device, host
