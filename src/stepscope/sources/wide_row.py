"""Wide rows of samples, one column a signal, back to batches: what a store holds and what its files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.batch import BatchOwner, BatchSeries, Samples
from stepscope.model.trace import I64


@dataclass(frozen=True, slots=True)
class Meanings:
    """What the numbers in rows mean. A source is (host, source, collect_ns, lag_ns)."""

    owner: Callable[[int], BatchOwner]
    source: Callable[[int], tuple[str, str, int | None, int | None]]
    labels: Callable[[int], dict[str, str]]
    missing: Callable[[int], list[tuple[str, str, int]]]


def samples_of_rows(
    columns: Mapping[str, npt.NDArray[Any]],
    signals: Sequence[str],
    meanings: Meanings,
    *,
    agent: str = "store",
    every_ns: int | None = None,
) -> Iterator[Samples]:
    """Batches of rows with `at_ns`, `owner`, `source`, `labels`, `window_ns`, `missing` (-1: none) and a
    column a signal (NaN: absent). One batch a source, window and `every_ns` (`None`: all time), in order of
    time; `seq` is 0."""
    num = len(columns["at_ns"])
    if not num:
        return
    at_ns: I64 = columns["at_ns"]
    piece = at_ns // every_ns if every_ns else np.zeros(num, dtype=np.int64)
    order = np.lexsort(
        (at_ns, columns["labels"], columns["owner"], columns["window_ns"], columns["source"], piece)
    )
    keys = np.stack([each[order] for each in (piece, columns["source"], columns["window_ns"])])
    ends = [*(np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1).tolist(), num]
    begin = 0
    for end in ends:
        mine = order[begin:end]
        begin = end
        first = int(mine[0])
        host, source, collect_ns, lag_ns = meanings.source(int(columns["source"][first]))
        window_ns = int(columns["window_ns"][first])
        told = columns["missing"][mine]
        yield Samples(
            agent=agent,
            seq=0,
            host=host,
            source=source,
            series=list(_series(columns, signals, meanings, mine)),
            window_ns=window_ns if window_ns >= 0 else None,
            collect_ns=collect_ns,
            lag_ns=lag_ns,
            missing=[each for one in told[told >= 0].tolist() for each in meanings.missing(int(one))],
        )


def _series(
    columns: Mapping[str, npt.NDArray[Any]], signals: Sequence[str], meanings: Meanings, rows: I64
) -> Iterator[BatchSeries]:
    keys = np.stack([columns["owner"][rows], columns["labels"][rows]])
    cuts = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
    for part in np.split(rows, cuts):
        first = int(part[0])
        owner = meanings.owner(int(columns["owner"][first]))
        labels = meanings.labels(int(columns["labels"][first]))
        at_ns = columns["at_ns"][part]
        all_times: list[int] = at_ns.tolist()
        for signal in signals:
            value = columns[signal][part]
            known = np.isfinite(value)
            if known.all():
                yield BatchSeries(signal, owner, all_times, value.tolist(), labels)
            elif known.any():
                yield BatchSeries(signal, owner, at_ns[known].tolist(), value[known].tolist(), labels)
