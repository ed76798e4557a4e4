"""Matrix work in fp32 that leaves the tensor cores idle."""

from __future__ import annotations

import re

import numpy as np

from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.model.hardware import Hardware

_NO_CORES = re.compile(
    r"gemv|dot_kernel|gemmk1|dgemm|zgemm|cgemm|_dfma_|depthwise|winograd|fft|grouped_direct|fp16|bf16|half",
    re.I,
)
"""Kernels off the tensor cores that would not run on them in another precision, or are of half precision."""


def off_cores_ns(seen: Seen, hardware: Hardware | None) -> tuple[F64, float] | None:
    """Time of fp32 matrix work on the vector units, and what the tensor cores would save of it at most.

    Nothing on a device without a faster precision; `None` where there is such work and the device is not
    known. The saving assumes the same share of the peak, and no less than the memory's time where shapes tell
    it.
    """
    calls = seen.calls
    is_matrix = seen.of_kind("gemm", "convolution")
    names = calls.trace.names
    able = {n: not _NO_CORES.search(names[n]) for n in np.unique(calls.kernel_id[is_matrix]).tolist()}
    named = np.isin(calls.kernel_id, [n for n, is_able in able.items() if is_able])
    works = [each.work for each in seen.known]
    is_other = np.array(
        [w is not None and (w.precision != "fp32" or not w.is_matrix) for w in works] or [False]
    )
    mine = is_matrix & named & (calls.activities.tensor_core == 0) & ~seen.taken
    if len(works):
        mine &= ~(seen.has_op & is_other[seen.which])
    nothing = np.zeros(len(seen.own_ns))
    if not mine.any():
        return nothing, 0.0
    if hardware is None:
        return None
    peaks = hardware.peak_flops
    slow, fast = peaks.get("fp32"), peaks.get("tf32") or peaks.get("fp16")
    # AMD's matrix units do fp32 as fp32, and a card without tensor cores has no faster type.
    if not slow or not fast or fast <= slow or hardware.key.startswith("MI"):
        return nothing, 0.0
    seen.taken |= mine
    saved = seen.own_ns * (1 - slow / fast)
    bandwidth = hardware.memory_bytes_per_second
    if bandwidth and len(works):
        floor = np.array([w.bytes / bandwidth * 1e9 if w is not None else 0.0 for w in works])
        bound = np.maximum(seen.own_ns - floor[seen.which], 0.0)
        saved = np.where(seen.has_op, np.minimum(saved, bound), saved)
    return np.where(mine, seen.own_ns, 0.0), float(saved[mine].sum())
