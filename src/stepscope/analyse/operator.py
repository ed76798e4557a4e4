"""Ops by name: what they launched, for how long, and how far that is from the device's limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stepscope.analyse.copies import HOST_COPY
from stepscope.analyse.group import groups, percentile_99
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
        self.trace, self.hardware = trace, hardware
        self.activities, self.who = activities.take(chosen), who.take(chosen)
        self.duration_ns: I64 = self.activities.end_ns - self.activities.start_ns
        self.own_row = np.where(self.who.op_row >= 0, self.who.op_row, self.activities.row)
        self.name_id: I32 = trace.spans.name_id[self.own_row]
        self.kernel_id: I32 = trace.spans.name_id[self.activities.row]
        self.total_ns = int(self.duration_ns.sum())
        # One entry a call.
        self.call_row, self.call = np.unique(self.own_row, return_inverse=True)
        self._call_ns = np.zeros(len(self.call_row), dtype=np.int64)
        np.add.at(self._call_ns, self.call, self.duration_ns)
        core = self.activities.tensor_core
        size = len(self.call_row)
        on_cores = np.bincount(self.call, weights=core == 1, minlength=size) > 0
        off_cores = np.bincount(self.call, weights=core != 0, minlength=size) == 0
        self._kinds, self.call_kind = Works(trace).each(
            self.call_row, np.where(on_cores, 1, np.where(off_cores, 0, -1))
        )
        self.is_transform = self._kernels(_TRANSFORM)
        self._is_host_copy = self._kernels(HOST_COPY)

    def _kernels(self, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
        """Of each activity, whether its name has the pattern."""
        names = self.trace.names
        ids = [name for name in np.unique(self.kernel_id).tolist() if pattern.search(names[name])]
        return np.isin(self.kernel_id, ids)

    def calls(self, which: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The calls of these activities."""
        return np.unique(self.call[which])

    def works(self, calls: npt.NDArray[np.intp]) -> list[tuple[Work | None, int, int]]:
        """The work of these calls (`None` where it is not known), each with its flag of tensor cores as in
        `Works.each`, and how many calls are like it."""
        count = np.bincount(self.call_kind[calls], minlength=len(self._kinds))
        return [(*self._kinds[kind], int(count[kind])) for kind in np.flatnonzero(count).tolist()]

    def is_matrix(self) -> npt.NDArray[np.bool_]:
        """Of each call, whether it is matrix work of known arithmetic."""
        kinds = np.array([work is not None and work.is_matrix for work, _ in self._kinds], dtype=bool)
        return kinds[self.call_kind]

    def place(self, which: npt.NDArray[np.intp]) -> tuple[Roofline, Hardware | None, I64]:
        """Where the ops of these activities stand under their device's limits; the device; the device time of
        each call."""
        its_calls = self.calls(which)
        per_call_ns = self._call_ns[its_calls]
        model = _one([self.hardware.get(d) for d in np.unique(self.activities.device[which]).tolist()])
        # A copy between host and device waits for the bus between them, not for the device's memory.
        if self._is_host_copy[which].any():
            return NOT_KNOWN, model, per_call_ns
        works = [(work, cores, times) for work, cores, times in self.works(its_calls) if work]
        is_known = sum(times for _, _, times in works) == len(its_calls)
        is_direct = not self.is_transform[which].any()
        place = roofline(works if is_known else None, int(per_call_ns.sum()), model, is_direct=is_direct)
        return place, model, per_call_ns

    def class_of(self, name: str, which: npt.NDArray[np.intp]) -> str:
        """What the op computes: by its name, else the class of most of its device time."""
        of = self.activities.cls[which]
        by_class = np.bincount(of, weights=self.duration_ns[which], minlength=len(CLASSES))
        return class_of(name) or CLASSES[int(np.argmax(by_class))]

    def tensor_core(self, which: npt.NDArray[np.intp]) -> bool | None:
        """Whether a kernel ran on tensor cores; `None` where their names do not tell."""
        cores = self.activities.tensor_core[which]
        return True if (cores == 1).any() else False if (cores == 0).all() else None


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
    shown = found[:MAX_OPERATORS]
    inclusive = _inclusive(calls, rows, [name_id for name_id, _, _ in shown])
    lines = called_from(
        trace, rows, calls.who, calls.activities, [which for _, which, _ in found[:MAX_TRACED]]
    )
    result = []
    for rank_of_op, (name_id, which, device_ns) in enumerate(found):
        name = trace.names[name_id]
        place, model, per_call = calls.place(which)
        if place.excess is not None and model is not None:
            issues.append(impossible_rate(name, place.excess, model.key, len(per_call)))
        if rank_of_op >= MAX_OPERATORS:
            continue
        is_op = bool((calls.who.op_row[which] >= 0).any())
        total_ns, host_ns = inclusive[name_id] if is_op else (None, None)
        result.append(
            report.Operator(
                rank=rank,
                name=name,
                class_=calls.class_of(name, which),
                count=len(per_call),
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
                p99_ns=percentile_99(per_call),
                launch_latency_ns=median_known(latency[which]),
                phases=phases_struct(calls, which),
                called_from=lines[rank_of_op] if rank_of_op < len(lines) else None,
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


def _inclusive(
    calls: Calls, rows: Mapping[int, HostRows], names: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Of ops by name id: (device, host) nanoseconds launched and spent in them; an op inside one of its own
    name counts once."""
    found = dict.fromkeys(names, (0, 0))
    is_asked = np.zeros(max(len(calls.trace.names), 1), dtype=bool)
    is_asked[list(names)] = True
    for track, of in rows.items():
        asked = np.flatnonzero(is_asked[of.name_id] & (of.kind == Kind.OP))
        mine = np.flatnonzero(calls.who.thread == track)
        at = calls.activities.launch_ns[mine]
        order = np.argsort(at, kind="stable")
        at = at[order]
        summed = np.append(np.int64(0), np.cumsum(calls.duration_ns[mine][order]))
        for name_id, members in groups(of.name_id[asked]):
            row = asked[members]
            open_: Intervals = union(of.start_ns[row], of.end_ns[row], is_sorted=True)
            first, last = np.searchsorted(at, open_.start), np.searchsorted(at, open_.end)
            device, host = found[name_id]
            found[name_id] = device + int((summed[last] - summed[first]).sum()), host + open_.total_ns
    return found
