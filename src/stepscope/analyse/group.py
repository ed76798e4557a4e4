"""Rows by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64, Trace


def groups(key: I32 | I64) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each value of `key`, ascending, with the places where it stands, in order."""
    if not len(key):
        return
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=key[order[:1]] - 1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(key)], strict=True):
        yield int(key[order[begin]]), order[begin:end]


def named(trace: Trace, test: Callable[[str], object]) -> npt.NDArray[np.bool_]:
    """Whether each of the trace's names passes the test: to be indexed with columns of name ids."""
    return np.array([bool(test(name)) for name in trace.names] or [False])
