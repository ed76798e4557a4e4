"""How fast each rank's kernels are beside the same ones of its peers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.model.peer import PeerTable
from stepscope.trace.kernel_class import classify

CLOCK_BOUND = frozenset({"gemm", "convolution", "attention"})
"""Classes of kernels that the clock of the multiprocessors bounds; the others wait for memory."""
LEAST_KERNEL_SHARE = 0.02
"""Kernels of one kind that take less of a rank's time tell nothing of its speed."""


def slowdowns(tables: Sequence[PeerTable]) -> list[dict[str, float]]:
    """`matrix_slowdown` and `other_slowdown` of each rank: time of its kernels against what the same ones (by
    name, grid and block) take on the median of the other ranks. Absent of one rank alone, and where ranks
    have no kernels in common."""
    means: dict[int, dict[int, float]] = {}
    for place, table in enumerate(tables):
        kernels = table.kernels
        for key, count, total in zip(
            kernels.key.tolist(), kernels.count.tolist(), kernels.total_ns.tolist(), strict=True
        ):
            if count:
                means.setdefault(key, {})[place] = total / count
    found = []
    for place, table in enumerate(tables):
        sums = {"matrix": [0.0, 0.0], "other": [0.0, 0.0]}
        kernels = table.kernels
        for key, name, count, total in zip(
            kernels.key.tolist(),
            kernels.name_id.tolist(),
            kernels.count.tolist(),
            kernels.total_ns.tolist(),
            strict=True,
        ):
            others = [mean for at, mean in means.get(key, {}).items() if at != place]
            if others and count:
                kind = "matrix" if classify(table.texts[name])[0] in CLOCK_BOUND else "other"
                sums[kind][0] += total
                sums[kind][1] += float(np.median(others)) * count
        whole = sum(own for own, _ in sums.values())
        found.append(
            {
                f"{kind}_slowdown": own / usual
                for kind, (own, usual) in sums.items()
                if usual > 0 and own >= LEAST_KERNEL_SHARE * whole
            }
        )
    return found
