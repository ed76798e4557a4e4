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


def alike(*columns: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The kinds of rows that equally long columns tell apart, ascending: of each kind the place of its first
    row, and of each row its kind."""
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), dtype=bool)
    is_new[:1] = True
    for column in columns:
        value = column[order]
        is_new[1:] |= value[1:] != value[:-1]
    kind = np.empty(len(order), dtype=np.intp)
    kind[order] = np.cumsum(is_new) - 1
    return order[is_new], kind


def percentile_99(values: I64) -> int:
    """The smallest value that at least 99 % of the others do not exceed; of at least one value."""
    place = -(-99 * (len(values) - 1) // 100)
    return int(np.partition(values, place)[place])


def named(trace: Trace, test: Callable[[str], object]) -> npt.NDArray[np.bool_]:
    """Whether each of the trace's names passes the test: to be indexed with columns of name ids."""
    return np.array([bool(test(name)) for name in trace.names] or [False])
