"""Edges of a program while it is put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay.program import Changes, Composition
from stepscope.model.trace import I64


class Edges:
    """Columns that grow by blocks of edges."""

    def __init__(self, scenarios: Sequence[str]) -> None:
        self.num_edges = 0
        self._num_scenarios = len(scenarios)
        self._columns: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("source", "target", "rest", "segment", "host_edge")
        }
        self._times: dict[str, list[I64]] = {"host_part_ns": [], "device_part_ns": []}
        self._weight: list[I64] = []
        self._parts: list[tuple[I64, int, I64]] = []

    def add(
        self,
        source: npt.NDArray[np.integer],
        target: npt.NDArray[np.integer],
        weight: int | npt.NDArray[Any],
        *,
        rest: int | npt.NDArray[np.integer],
        parts: Sequence[tuple[int, I64]] = (),
        segment: int | npt.NDArray[np.integer] = -1,
        host_part: int | I64 = 0,
        host_edge: int | npt.NDArray[np.integer] = -1,
        device_part: int | I64 = 0,
    ) -> None:
        """A block of edges, see `Program`; `weight` is (scenarios, edges), or alike in all scenarios."""
        n = len(source)
        given = {
            "source": source, "target": target, "rest": rest, "segment": segment, "host_edge": host_edge,
        }  # fmt: skip
        for name, column in given.items():
            self._columns[name].append(np.broadcast_to(np.asarray(column, dtype=np.int32), (n,)))
        for name, time in (("host_part_ns", host_part), ("device_part_ns", device_part)):
            self._times[name].append(np.broadcast_to(np.asarray(time, dtype=np.int64), (n,)))
        self._weight.append(np.broadcast_to(np.asarray(weight, dtype=np.int64), (self._num_scenarios, n)))
        for part, ns in parts:
            some = np.flatnonzero(ns > 0)
            self._parts.append((self.num_edges + some, part, ns[some]))
        self.num_edges += n

    def columns(self) -> dict[str, Any]:
        """The fields of `Program` that are about edges."""
        edge = [at for at, _, _ in self._parts]
        part = [np.full(len(at), which, dtype=np.int32) for at, which, _ in self._parts]
        ns = [each for _, _, each in self._parts]
        weight = np.concatenate(self._weight, axis=1)
        scenario, changed = np.nonzero(weight != weight[0])
        empty = [np.empty(0, dtype=np.int64)]
        return {
            **{name: np.concatenate(each) for name, each in self._columns.items()},
            **{name: np.concatenate(each) for name, each in self._times.items()},
            "untouched": weight[0],
            "changes": Changes(scenario.astype(np.int8), changed.astype(np.int32), weight[scenario, changed]),
            "parts": Composition(
                np.concatenate([*empty, *edge]).astype(np.int32),
                np.concatenate([*empty, *part]).astype(np.int32),
                np.concatenate([*empty, *ns]),
            ),
        }
