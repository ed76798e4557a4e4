"""How far ops are from what the device can do: work from recorded shapes against its peaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import alike
from stepscope.analyse.work import FORMULAS, Call, Work, call_of, work_of
from stepscope.model import report
from stepscope.model.hardware import Hardware
from stepscope.model.trace import Trace

NS = 1e9
MOST = 2**63 - 1
"""The most that a report's number holds."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """An op's work and its place under the device's limits; `None` where shapes or limits do not tell.

    `peak_share` and `memory_peak_share`: the time that the arithmetic alone, or the traffic alone, takes at
    the device's peak, of the device time it took. A share of the arithmetic above 1 cannot be: `excess` is
    that share, and no other rate is given. Traffic may come out of a cache, above the memory's rate: then its
    share is absent.
    """

    flops: int | None = None
    num_bytes: int | None = None
    achieved_flops_per_second: float | None = None
    achieved_bytes_per_second: float | None = None
    peak_share: float | None = None
    memory_peak_share: float | None = None
    bound: report.Bound | None = None
    excess: float | None = None


NOT_KNOWN = Roofline()


@dataclass(frozen=True, slots=True)
class Known:
    """One op with its arguments; `work` is `None` where they do not tell, `strides` empty if not recorded."""

    op: str
    call: Call
    work: Work | None
    strides: str


class Works:
    """The work of each call, worked out once for every op with the same arguments."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[tuple[int, int, int, int], Work | None] = {}
        ops = trace.ops
        self._at = np.full(len(trace.spans.ts_ns), -1, dtype=np.int64)
        self._at[ops.row] = np.arange(len(ops.row))
        self._has_formula = np.array([name in FORMULAS for name in trace.names] or [False])

    def of(
        self, rows: npt.NDArray[np.integer], cores: npt.NDArray[np.integer] | None = None
    ) -> list[tuple[Work, int, int]] | None:
        """The work of calls by their core rows, each with its flag of `cores`: 1 on tensor cores, 0 not, -1
        not known (so where none are given), and how many calls are like it. `None` where the work of any is
        not known.
        """
        if not len(rows) or not self._has_formula[self._trace.spans.name_id[rows]].all():
            return None
        kinds, kind_of = self.each(rows, cores)
        count = np.bincount(kind_of, minlength=len(kinds)).tolist()
        works: list[tuple[Work, int, int]] = []
        for (work, flag), times in zip(kinds, count, strict=True):
            if work is None:
                return None
            works.append((work, flag, times))
        return works

    def each(
        self, rows: npt.NDArray[np.integer], cores: npt.NDArray[np.integer] | None = None
    ) -> tuple[list[tuple[Work | None, int]], npt.NDArray[np.intp]]:
        """Every kind of work among these calls (`None` where it is not known) with its flag of `cores`, and
        the kind of each call."""
        ops, at = self._trace.ops, self._at[rows]
        flags = np.full(len(rows), -1) if cores is None else cores
        if not len(ops.row):
            return [(None, -1)], np.zeros(len(rows), dtype=np.intp)
        name_id, is_bare = self._trace.spans.name_id[rows], at < 0
        columns = (name_id, ops.dims_id[at], ops.types_id[at], ops.concrete_id[at], flags, is_bare)
        first, kind_of = alike(*columns)
        kinds: list[tuple[Work | None, int]] = []
        for name, dims, types, concrete, flag, is_absent in zip(
            *(column[first].tolist() for column in columns), strict=True
        ):
            is_known = not is_absent and bool(self._has_formula[name])
            kinds.append((self._work((name, dims, types, concrete)) if is_known else None, flag))
        return kinds, kind_of

    def known(self, rows: npt.NDArray[np.integer]) -> tuple[list[Known], npt.NDArray[np.intp]]:
        """What is known of each call by its core row: the different ones, and which of them each call is."""
        ops, at = self._trace.ops, self._at[rows]
        name_id, is_bare = self._trace.spans.name_id[rows], at < 0
        if not len(ops.row):
            absent = np.full(len(rows), -1)
            columns = (name_id, absent, absent, absent, absent)
        else:
            columns = (
                name_id,
                *(
                    np.where(is_bare, -1, column[at])
                    for column in (ops.dims_id, ops.types_id, ops.concrete_id, ops.strides_id)
                ),
            )
        first, which = alike(*columns)
        keys = zip(*(column[first].tolist() for column in columns), strict=True)
        return [self._of_key(key) for key in keys], which

    def _of_key(self, key: tuple[int, ...]) -> Known:
        name, dims, types, concrete, strides = key
        texts = self._trace.texts
        call = call_of(*(texts[text] if text >= 0 else "" for text in (dims, types, concrete)))
        op = self._trace.names[name]
        work = self._work((name, dims, types, concrete)) if self._has_formula[name] else None
        return Known(op, call, work, texts[strides] if strides >= 0 else "")

    def _work(self, key: tuple[int, int, int, int]) -> Work | None:
        if key not in self._known:
            name, *texts = key
            call = call_of(*(self._trace.texts[text] if text >= 0 else "" for text in texts))
            self._known[key] = work_of(self._trace.names[name], call)
        return self._known[key]


def roofline(
    works: list[tuple[Work, int, int]] | None,
    device_ns: int,
    hardware: Hardware | None,
    *,
    is_direct: bool = True,
) -> Roofline:
    """Where an op with this work, done in so much device time, stands.

    With each work: 1 where its kernels ran on tensor cores, 0 where not, -1 where names do not tell; and how
    often it was done. Not `is_direct`: a transform (Winograd, FFT) does the same with less arithmetic, so
    that a share would say nothing.
    """
    if works is None or device_ns <= 0:
        return NOT_KNOWN
    seconds = device_ns / NS
    flops = sum(work.flops * times for work, _, times in works)
    num_bytes = sum(work.bytes * times for work, _, times in works)
    if max(flops, num_bytes) > MOST:  # shapes that no memory holds
        return NOT_KNOWN
    arithmetic = _sum((arithmetic_seconds(work, hardware, cores), times) for work, cores, times in works)
    if not is_direct:
        arithmetic = None
    bandwidth = hardware.memory_bytes_per_second if hardware is not None else None
    traffic = num_bytes / bandwidth if bandwidth else None
    is_matrix = all(work.is_matrix for work, _, _ in works)
    share = arithmetic / seconds if arithmetic is not None and is_matrix else None
    if share is not None and share > 1:
        return Roofline(flops=flops, num_bytes=num_bytes, excess=share)
    bound: report.Bound | None = None
    if arithmetic is not None and traffic is not None:
        bound = "compute" if arithmetic >= traffic else "memory"
    memory_share = traffic / seconds if traffic is not None else None
    return Roofline(
        flops=flops,
        num_bytes=num_bytes,
        achieved_flops_per_second=flops / seconds,
        achieved_bytes_per_second=num_bytes / seconds,
        peak_share=share,
        memory_peak_share=memory_share if memory_share is not None and memory_share <= 1 else None,
        bound=bound,
    )


def arithmetic_seconds(work: Work, hardware: Hardware | None, cores: int) -> float | None:
    """Seconds that the arithmetic takes at the device's peak, `None` where the peak is unknown."""
    if work.flops == 0:
        return 0.0
    peak = peak_of(work, hardware, cores)
    return work.flops / peak if peak else None


def peak_of(work: Work, hardware: Hardware | None, cores: int) -> float | None:
    """FLOP/s that bound this work.

    Arithmetic on single elements runs on the vector units, in single precision whatever the operands are. A
    matrix product in fp32 or fp64 has two peaks, and the kernel's name tells which.
    """
    if hardware is None:
        return None
    peaks = hardware.peak_flops
    if not work.is_matrix:
        return peaks.get("fp64" if work.precision == "fp64" else "fp32")
    if hardware.key.startswith("MI") and work.precision == "fp32":
        # Matrix units of AMD do fp32 as fp32; their peak is that of the vector units only where the table has
        # one figure for both (MI300 and later).
        return peaks.get("fp32") if cores == 0 or hardware.key.startswith("MI3") else None
    faster = {"fp32": "tf32", "fp64": "fp64_tensor"}.get(work.precision)
    if faster is None or faster not in peaks:
        return peaks.get(work.precision)
    if cores < 0:
        return None
    return peaks.get(faster if cores else work.precision)


def _sum(values: Iterable[tuple[float | None, int]]) -> float | None:
    total = 0.0
    for value, times in values:
        if value is None:
            return None
        total += value * times
    return total
