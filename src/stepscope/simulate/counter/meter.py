"""What a rank does to its device, summed on a fine grid while it is played: no row is kept.

An interval (a kernel, a copy, the bytes of an exchange) has levels, which hold while it lasts, and totals,
which are spread evenly over it. Intervals overlap: levels add up to what the device has, and *busy* is the
union.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.simulate.config import START_NS
from stepscope.simulate.gpu import Gpu
from stepscope.simulate.group import Exchange
from stepscope.simulate.meeting import Key, Meetings
from stepscope.simulate.model import Kernel

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BIN_NS = 20_000_000
"""The grid: fine against what any exporter averages over, coarse against kernels."""
LEVELS = ("busy", "sm_active", "occupancy", "fp32", "integer")
TOTALS = (
    "tensor_flops", "dram_bytes", "pcie_rx", "pcie_tx", "link_tx", "link_rx", "rdma_tx", "rdma_rx",
    "socket_tx", "socket_rx",
)  # fmt: skip
QUANTITIES = LEVELS + TOTALS
EXCHANGE_BLOCKS, EXCHANGE_WARPS = 24, 20
"""As NCCL launches (`stepscope.simulate.kineto.EXCHANGE_LAUNCH`)."""
SETTLE_AT = 20_000
MOST_KINDS = 4096
"""Of intervals, that a meter which is read while it runs remembers."""
RANKS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Activity:
    """A device's time on the grid: `start_ns` of the first bin, and in each bin the mean of a level or the
    sum of a total, by name in `QUANTITIES`."""

    start_ns: int
    of: dict[str, F64]

    def __len__(self) -> int:
        return len(self.of["busy"])

    def padded(self, before: int, num: int) -> Activity:
        """With so many empty bins before it, and `num` in all."""
        after = num - before - len(self)
        made = {name: np.pad(values, (before, max(after, 0)))[:num] for name, values in self.of.items()}
        return replace(self, start_ns=self.start_ns - before * BIN_NS, of=made)


class Meter:
    """The device of one rank. Times handed in are true; the grid begins with the run."""

    def __init__(self, gpu: Gpu, rank: int, meetings: Meetings) -> None:
        self._gpu, self._rank, self._meetings = gpu, rank, meetings
        self._start, self._end = array("q"), array("q")
        self._kind: list[int] = []
        self._known: dict[int, int] = {}
        self._kernels: list[Kernel] = []  # kept, so that no other gets its id
        self._rows: list[tuple[float, ...]] = []
        self._exchanges: list[tuple[int, Key, str]] = []
        self._tail = START_NS
        self._origin = START_NS
        self._grid = np.zeros((len(QUANTITIES), 1024))
        self._num_bins = 0
        width = gpu.num_sm * gpu.warps_per_sm
        sm = min(EXCHANGE_BLOCKS / gpu.num_sm, 1.0)
        self._exchange = self._kind_of(
            busy=1.0, sm_active=sm, occupancy=EXCHANGE_BLOCKS * EXCHANGE_WARPS / width, integer=0.02
        )
        self._moved: dict[tuple[Exchange, str], int] = {}

    def _kind_of(self, **given: float) -> int:
        self._rows.append(tuple(given.get(name, 0.0) for name in QUANTITIES))
        return len(self._rows) - 1

    def kernel(self, start_ns: int, end_ns: int, kernel: Kernel) -> None:
        """A kernel of the stream that computes: none begins before the one before."""
        kind = self._known.get(id(kernel))
        if kind is None:
            kind = self._kind_of(
                busy=1.0, sm_active=kernel.sm_active, occupancy=kernel.occupancy, fp32=kernel.fp32,
                integer=kernel.integer, tensor_flops=kernel.tensor_flops, dram_bytes=kernel.num_bytes,
            )  # fmt: skip
            self._known[id(kernel)] = kind
            self._kernels.append(kernel)
        self._start.append(start_ns)
        self._end.append(end_ns)
        self._kind.append(kind)
        self._tail = end_ns
        if len(self._kind) >= SETTLE_AT:
            self._settle(end_ns)

    def copy(self, start_ns: int, end_ns: int, num_bytes: int, is_to_device: bool = True) -> None:
        """A copy between host and device. The compute engine does nothing for it."""
        way = "pcie_rx" if is_to_device else "pcie_tx"
        self._start.append(start_ns)
        self._end.append(end_ns)
        self._kind.append(self._kind_of(**{way: float(num_bytes), "dram_bytes": float(num_bytes)}))
        self._tail = max(self._tail, end_ns)

    def exchange(self, start_ns: int, key: Key, path: str) -> None:
        """An exchange begins on this rank; when it ends is found when all have come."""
        self._exchanges.append((start_ns, key, path))

    def activity(self) -> Activity:
        """All of it. Every exchange must be over."""
        self._settle(None)
        if self._exchanges:
            raise AssertionError(f"rank {self._rank}: {self._exchanges[0][1]} is not over")
        grid = self._grid[:, : self._num_bins]
        return Activity(
            self._origin,
            {name: grid[row] / (BIN_NS if name in LEVELS else 1.0) for row, name in enumerate(QUANTITIES)},
        )

    def taken(self, until_ns: int) -> Activity:
        """What lies before `until_ns`, a bin's edge, and from now on is forgotten. Nothing that is handed in
        later may begin before that, and every exchange that began before must be over."""
        num = max((until_ns - self._origin) // BIN_NS, 0)
        if not num:
            return Activity(until_ns, {name: np.zeros(0) for name in QUANTITIES})
        self._settle(until_ns)
        grid = np.zeros((len(QUANTITIES), num))
        known = min(num, self._grid.shape[1])
        grid[:, :known] = self._grid[:, :known]
        left = max(self._num_bins - num, 0)
        kept = np.zeros((len(QUANTITIES), max(2 * left, 64)))
        kept[:, :left] = self._grid[:, num : num + left]
        made = Activity(
            self._origin,
            {name: grid[row] / (BIN_NS if name in LEVELS else 1.0) for row, name in enumerate(QUANTITIES)},
        )
        self._grid, self._num_bins, self._origin = kept, left, until_ns
        if len(self._rows) > MOST_KINDS:
            self._forget_kinds()
        return made

    def _forget_kinds(self) -> None:
        """Keep only the kinds of intervals that are still to come: every copy has one of its own."""
        used = sorted({self._exchange, *self._kind})
        place = {kind: number for number, kind in enumerate(used)}
        self._rows = [self._rows[kind] for kind in used]
        self._kind = [place[kind] for kind in self._kind]
        self._exchange = place[self._exchange]
        self._known, self._kernels, self._moved = {}, [], {}

    def _settle(self, until: int | None) -> None:
        """Put on the grid what lies before `until`, or before the first exchange that is not over."""
        waiting: list[tuple[int, Key, str]] = []
        for start, key, path in self._exchanges:
            end = self._meetings.end_ns(key, self._rank)
            if not end:
                waiting.append((start, key, path))
                continue
            meeting = self._meetings.by_key[key]
            self._add(start, end, self._exchange)
            last = max(meeting.start_ns.values())
            self._add(last, meeting.end_ns, self._moves(meeting.exchange, path))
        self._exchanges = waiting
        if not self._kind:
            return
        begun, over = np.array(self._start, dtype=np.int64), np.array(self._end, dtype=np.int64)
        kind = np.array(self._kind)
        scale = 1.0 / np.maximum(over - begun, 1)
        bound = int(over.max()) if until is None else until
        if waiting:
            bound = min(bound, min(row[0] for row in waiting))
        taken = begun < bound
        self._sum(begun[taken], np.minimum(over[taken], bound), kind[taken], scale[taken])
        # What goes on past the bound is cut there; a total keeps its rate.
        self._start, self._end, self._kind = array("q"), array("q"), []
        for at in np.flatnonzero(over > bound).tolist():
            left = max(int(begun[at]), bound)
            row = kind[at]
            if left > begun[at]:
                share = (int(over[at]) - left) * float(scale[at])
                values = self._rows[row]
                num = len(LEVELS)
                self._rows.append((*values[:num], *(share * value for value in values[num:])))
                row = len(self._rows) - 1
            self._add(left, int(over[at]), int(row))

    def _add(self, start: int, end: int, kind: int) -> None:
        self._start.append(start)
        self._end.append(end)
        self._kind.append(kind)

    def _moves(self, exchange: Exchange, path: str) -> int:
        """The kind of an interval in which an exchange's bytes move."""
        found = self._moved.get((exchange, path))
        if found is None:
            found = self._moved[(exchange, path)] = self._kind_of(**self._bytes(exchange, path))
        return found

    def _bytes(self, exchange: Exchange, path: str) -> dict[str, float]:
        sends = exchange.source is None or exchange.source == self._rank
        receives = exchange.target is None or exchange.target == self._rank
        across = share_across(exchange.members)
        made: dict[str, float] = {"dram_bytes": 2.0 * exchange.moved_bytes}
        within = exchange.moved_bytes * (1 - across)
        beyond = exchange.moved_bytes * across
        is_linked = not path and self._gpu.has_link
        for way, is_there in (("tx", sends), ("rx", receives)):
            if not is_there:
                continue
            made[f"link_{way}"] = within if is_linked else 0.0
            made[f"pcie_{way}"] = beyond if is_linked else within + beyond
            made[f"rdma_{way}"] = beyond if path != "network" else 0.0
            made[f"socket_{way}"] = within + beyond if path == "network" else 0.0
        return made

    def _sum(self, start: I64, end: I64, kind: npt.NDArray[np.int64], scale: F64) -> None:
        """Add intervals to the grid: levels of each piece between two boundaries, integrated over bins."""
        if not len(start):
            return
        table = np.array(self._rows)
        rates = table[kind]
        rates[:, len(LEVELS) :] *= scale[:, None]
        at = np.concatenate((start, end))
        order = np.argsort(at, kind="stable")
        at = at[order]
        level = np.cumsum(np.concatenate((rates, -rates))[order], axis=0)[:-1]
        level = np.where(np.abs(level) < 1e-12, 0.0, level)  # what is left of sums that cancel
        level[:, 0] = np.minimum(np.rint(level[:, 0]), 1.0)
        level[:, 1] = np.clip(level[:, 1], 0.0, 1.0)
        level[:, 2] = np.clip(level[:, 2], 0.0, level[:, 1])
        level[:, 3:5] = np.clip(level[:, 3:5], 0.0, 1.0)
        level = np.maximum(level, 0.0)
        since = (at - self._origin).astype(np.float64)
        summed = np.vstack((np.zeros(level.shape[1]), np.cumsum(level * np.diff(since)[:, None], axis=0)))
        first, last = int(since[0] // BIN_NS), int(since[-1] // BIN_NS) + 1
        while last > self._grid.shape[1]:
            self._grid = np.pad(self._grid, ((0, 0), (0, self._grid.shape[1])))
        edges = np.arange(first, last + 1) * float(BIN_NS)
        for row in range(len(QUANTITIES)):
            self._grid[row, first:last] += np.diff(np.interp(edges, since, summed[:, row]))
        self._num_bins = max(self._num_bins, last)


def share_across(members: tuple[int, ...]) -> float:
    """Of what each member of a ring sends on average, the share that leaves its node."""
    nodes = [rank // RANKS_PER_NODE for rank in members]
    if len(members) == 2:
        return float(nodes[0] != nodes[1])
    edges = zip(nodes, nodes[1:] + nodes[:1], strict=True)
    return sum(a != b for a, b in edges) / len(nodes)
