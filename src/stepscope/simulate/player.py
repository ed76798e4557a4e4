"""One rank going through its programs: when its host issues, and when its device does what was issued.

Nothing is drawn and then painted with noise: a host goes through its program, each launch has its kernel
start when the stream is free and the launch is there, and what waits for a peer waits until that peer has
come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.simulate.config import START_NS, Config
from stepscope.simulate.counter.meter import Meter
from stepscope.simulate.fault import Chosen
from stepscope.simulate.group import COMPUTE_STREAM, Exchange
from stepscope.simulate.meeting import Key, Meetings
from stepscope.simulate.model import Op
from stepscope.simulate.plan import Plan
from stepscope.simulate.program import (
    ALLOCATE,
    AWAIT,
    CLOSE,
    COPY,
    DRAIN,
    END_STEP,
    EXCHANGE,
    GC,
    ITEM,
    ITEM_PAUSE_NS,
    LATE,
    LOAD,
    NODE,
    NODES,
    OP,
    OPEN,
    PAUSE,
    STEP,
    THREAD,
    Instruction,
    Programs,
)
from stepscope.simulate.row import (
    ROW_CALL,
    ROW_COPY,
    ROW_EXCHANGE,
    ROW_GC,
    ROW_KERNEL,
    ROW_MARK,
    ROW_NODE,
    ROW_OP,
    ROW_RECORD,
    Row,
)

# What the host needs, in nanoseconds: an eager framework takes 10–20 µs from op to op on a present server
# core, a third of that in the launching call.
OP_BEFORE_NS, CALL_NS, OP_AFTER_NS, BETWEEN_NS = 5_000, 4_500, 1_500, 3_000
SHORT_CALL_NS = 1_200
START_LATENCY_NS = 2_500
"""From the end of the launching call to the kernel's start on an idle device."""
KERNEL_GAP_NS = 900
"""Between two queued kernels."""
HAND_OVER_NS = 12_000
"""From thread to thread."""
RETURN_NS = 3_000
"""From the end of the device's work to the return of the call that waits for it."""
QUEUE_DEPTH = 1024
"""Launches that a device takes before the next call blocks."""
END_SPREAD_NS = (500, 6_500)
"""How much later than the fastest each rank leaves a collective."""
NUM_DRAWN = 4096
PREEMPTED_NS = 4_000_000
"""A slice of the scheduler: how long a thread waits that has lost its core."""
HOST_CALLS = 6
"""Pieces of host work of an op."""
SEGMENTS = 6
"""Of device memory, that an allocator gives back before it takes another."""
LONG_NS = 2_000_000
"""What the host does for longer than that is kept for its own metrics."""
EXTERNAL_START, CORRELATION_START = 1, 1000


class Player:
    """One rank going through its programs. `rows` is where they are put, `None` to keep none; `meter` what
    sums what its device does; `last` the last step that is played, `None` for all."""

    def __init__(
        self,
        config: Config,
        rank: int,
        faults: tuple[tuple[Chosen, int | None], ...],
        meetings: Meetings,
        rows: list[Row] | None = None,
        meter: Meter | None = None,
        last: int | None = None,
    ) -> None:
        self.config, self.rank, self.meetings = config, rank, meetings
        self.rows: list[Row] | None = None
        self._kept, self._meter = rows, meter
        self._last = config.num_played - 1 if last is None else last
        self.plans: list[Plan] = []
        """What each step was like: kept with a meter only."""
        self.happenings: list[tuple[str, int, int, int]] = []
        """What the host did for long: kind, start, end, step. Kept with a meter only."""
        self.programs = Programs(config, rank, faults)
        self.step = -1
        self.step_end_ns: list[int] = []
        """End of the device's work of each step."""
        self._program: Sequence[Instruction] = ()
        self._at = 0
        skew = float(np.random.default_rng([config.seed, 1, rank]).random())
        start = START_NS + int(40_000 * skew)
        self._now = [start, start]
        self._thread = 0
        self._tail = start
        self._lanes: dict[str, int] = {}
        # As the framework counts: collectives and transfers of a group apart, each rank for itself. The two
        # ends of a transfer give it different numbers.
        self._sequence: dict[tuple[str, bool], int] = {}
        self._streams: dict[int, Key] = {}
        self._open: list[tuple[int, int, int, Any, int, int]] = []
        self._external, self._correlation = EXTERNAL_START, CORRELATION_START
        self._started = [0] * QUEUE_DEPTH
        self._launches = 0
        self._base = 0
        self._begun = start

    def run(self) -> Key | None:
        """Go on until an exchange is needed that not all ranks have come to: its key, `None` at the end."""
        while True:
            while self._at < len(self._program):
                waits = self._do(self._program[self._at])
                if waits is not None:
                    return waits
                self._at += 1
            if self.step >= self._last:
                return None
            self._next_step()

    def _next_step(self) -> None:
        config = self.config
        self.step += 1
        plan = self.programs.plan(self.step)
        draw = np.random.default_rng([config.seed, 2, self.rank, self.step])
        noise = np.maximum(1.0 + config.jitter * draw.standard_normal(NUM_DRAWN), 0.5)
        if config.tail:
            noise *= np.where(draw.random(NUM_DRAWN) < config.tail, 2.0 + 3.0 * draw.random(NUM_DRAWN), 1.0)
        self.rows = self._kept if self.step in config.traced else None
        if self._meter is not None:
            self.plans.append(plan)
        self._plan = plan
        self._kernel_noise: list[float] = (plan.compute * noise).tolist()
        host = np.maximum(1.0 + 4 * config.jitter * draw.standard_normal(NUM_DRAWN), 0.4)
        self._host_noise: list[float] = (plan.host * host).tolist()
        spread = END_SPREAD_NS if config.jitter else (0, 0)
        self._preempted: list[int] = []
        if plan.preempted_ns:
            chance = plan.preempted_ns / (HOST_CALLS * max(self.programs.num_ops, 1) * PREEMPTED_NS)
            lost = PREEMPTED_NS * max(chance, 1.0) * (0.5 + draw.random(NUM_DRAWN))
            self._preempted = np.where(draw.random(NUM_DRAWN) < chance, lost, 0.0).astype(int).tolist()
        self._end_noise: list[int] = draw.integers(spread[0], spread[1] + 1, 512).tolist()
        self._transfer = plan.transfer
        rate = config.device.link_rate
        self._rate = min(rate, plan.bandwidth) if plan.bandwidth is not None else rate
        self._num_kernels = self._num_hosts = self._num_ends = 0
        self._program = self.programs.step(self.step, plan, float(draw.random()))
        self._at = 0

    # ── time ────────────────────────────────────────────────────────────────────────────────────────

    def _host(self, ns: float) -> int:
        self._num_hosts += 1
        number = self._num_hosts % NUM_DRAWN
        took = int(ns * self._host_noise[number])
        return took + self._preempted[number] if self._preempted else took

    def _happened(self, kind: str, start_ns: int) -> None:
        """Something that the host did since then, if it was long."""
        end_ns = self._now[self._thread]
        if self._meter is not None and end_ns - start_ns >= LONG_NS:
            self.happenings.append((kind, start_ns, end_ns, self.step))

    def _launched(self, call_end: int) -> int:
        """When a launching call returns: later where the device's queue is full."""
        return max(call_end, self._started[self._launches % QUEUE_DEPTH])

    def _starts(self, at: int) -> None:
        self._started[self._launches % QUEUE_DEPTH] = at
        self._launches += 1

    def _emit(self, *row: Any) -> None:
        if self.rows is not None:
            self.rows.append(Row(*row))

    def _opened(self, kind: int, what: Any, place: int = -1) -> int:
        """A row begins now on the current thread; returns its external id."""
        external = self._external
        self._external = external + 1
        self._open.append((kind, self._thread, self._now[self._thread], what, external, place))
        return external

    def _closed(self) -> None:
        kind, thread, start, what, external, place = self._open.pop()
        if self.rows is not None:
            self.rows.append(Row(kind, thread, start, self._now[thread], what, external, 0, place))

    def _called(self, name: str, ns: float, external: int) -> int:
        """A call of the runtime that launches nothing; returns its correlation."""
        start = self._now[self._thread]
        self._now[self._thread] = end = start + self._host(ns)
        self._correlation += 1
        self._emit(ROW_CALL, self._thread, start, end, name, external, self._correlation)
        return self._correlation

    # ── instructions ────────────────────────────────────────────────────────────────────────────────

    def _do(self, instruction: Instruction) -> Key | None:
        code = instruction[0]
        if code == OP:
            self._op(instruction[1], instruction[2])
        elif code == NODE:
            self._now[self._thread] += self._host(1_500)
            self._opened(ROW_NODE, instruction[1], self._base + instruction[2])
            self._now[self._thread] += self._host(1_500)
        elif code == CLOSE:
            self._now[self._thread] += self._host(800)
            self._closed()
        elif code == EXCHANGE:
            return self._exchange(instruction[1])
        elif code == AWAIT:
            return self._await(instruction[1])
        elif code == THREAD:
            self._hand_over(instruction[1])
        elif code == NODES:
            self._base = instruction[1]
        elif code == OPEN:
            self._now[self._thread] += self._host(2_000)
            self._opened(ROW_MARK, instruction[1])
            self._now[self._thread] += self._host(1_000)
        elif code == DRAIN:
            return self._drain()
        else:
            self._rarely(code, instruction)
        return None

    def _rarely(self, code: int, instruction: Instruction) -> None:
        if code == PAUSE:
            start = self._now[self._thread]
            self._now[self._thread] += instruction[1]
            self._happened(str(self._open[-1][3]), start)
        elif code == GC:
            start = self._now[self._thread]
            self._now[self._thread] = end = start + self._host(instruction[1])
            self._emit(ROW_GC, self._thread, start, end, "Python GC", 0, 0)
            self._now[self._thread] += self._host(BETWEEN_NS)
        elif code == LOAD:
            start = self._now[self._thread]
            self._opened(ROW_MARK, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
            self._now[self._thread] += self._host(instruction[1])
            self._closed()
            self._happened("load", start)
            self._now[self._thread] += self._host(8_000)
        elif code == COPY:
            self._copy(instruction[1], instruction[2], instruction[3])
        elif code == ITEM:
            self._item()
        elif code == ALLOCATE:
            self._allocate(instruction[1])
        elif code == LATE:
            self._now[self._thread] = max(self._now[self._thread], self._tail) + instruction[1]
        elif code == STEP:
            self._begun = self._now[0]
            self._opened(ROW_MARK, f"ProfilerStep#{instruction[1]}")
            self._now[0] += self._host(20_000)
        elif code == END_STEP:
            self._end_step()

    def _op(self, op: Op, place: int | None) -> None:
        thread, now, meter, clock = self._thread, self._now, self._meter, self._plan.clock
        has_parent = op.parent is not None
        number = -1 if place is None else self._base + place
        if has_parent:
            self._opened(ROW_OP, op.parent)
            now[thread] += self._host(1_500)
        external = self._opened(ROW_OP, op, number)
        now[thread] += self._host(OP_BEFORE_NS)
        for kernel in op.kernels:
            start = now[thread]
            end = self._launched(start + self._host(CALL_NS))
            begin = max(end + START_LATENCY_NS, self._tail + KERNEL_GAP_NS)
            self._num_kernels += 1
            takes = kernel.dur_ns * self._kernel_noise[self._num_kernels % NUM_DRAWN]
            if clock != 1.0:
                takes *= kernel.slowed(clock)
            finish = begin + max(int(takes), 1)
            self._tail = finish
            if meter is not None:
                meter.kernel(begin, finish, kernel)
            self._starts(begin)
            self._correlation += 1
            if self.rows is not None:
                number = self._correlation
                self.rows.append(Row(ROW_CALL, thread, start, end, "cudaLaunchKernel", external, number))
                self.rows.append(Row(ROW_KERNEL, COMPUTE_STREAM, begin, finish, kernel, external, number))
            now[thread] = end + self._host(OP_AFTER_NS)
        self._closed()
        if has_parent:
            now[thread] += self._host(800)
            self._closed()
        now[thread] += self._host(BETWEEN_NS)

    def _exchange(self, exchange: Exchange) -> Key | None:
        before = self._streams.get(exchange.stream)
        free = 0
        if before is not None:
            free = self.meetings.end_ns(before, self.rank)
            if not free:
                return before
        thread = self._thread
        key = (exchange.lane, self._lanes.get(exchange.lane, -1) + 1)
        self._now[thread] += self._host(2_000)
        counter = (exchange.group.name, exchange.source is not None)
        what = (exchange, self._sequence.get(counter, 0) + 1)
        self._sequence[counter] = what[1]
        external = self._opened(ROW_RECORD, what)
        self._now[thread] += self._host(4_000)
        self._called("cudaEventRecord", SHORT_CALL_NS, external)
        self._called("cudaStreamWaitEvent", SHORT_CALL_NS, external)
        self._opened(ROW_MARK, exchange.annotation)
        start = self._now[thread] = self._now[thread] + self._host(3_000)
        end = self._launched(start + self._host(CALL_NS))
        begin = max(end + START_LATENCY_NS, free + KERNEL_GAP_NS, self._tail + KERNEL_GAP_NS)
        self._starts(begin)
        self._correlation += 1
        self._num_kernels += 1
        noise = self._kernel_noise[self._num_kernels % NUM_DRAWN]
        takes = int(exchange.transfer_ns(self._rate) * self._transfer * min(max(noise, 0.9), 1.1))
        self._num_ends += 1
        tail = self._end_noise[self._num_ends % len(self._end_noise)]
        self.meetings.arrive(key, exchange, self.step, self.rank, begin, takes, tail)
        self._lanes[exchange.lane] = key[1]
        self._streams[exchange.stream] = key
        if self._meter is not None:
            self._meter.exchange(begin, key, self._plan.path)
        if self.rows is not None:
            number = self._correlation
            over = self.meetings.end_ns(key, self.rank)
            self.rows.append(Row(ROW_CALL, thread, start, end, "cudaLaunchKernelExC", external, number))
            self.rows.append(Row(ROW_EXCHANGE, exchange.stream, begin, over, what, external, number))
        self._now[thread] = end + self._host(1_500)
        self._closed()
        self._called("cudaEventRecord", SHORT_CALL_NS, external)
        self._now[thread] += self._host(1_500)
        self._closed()
        self._now[thread] += self._host(BETWEEN_NS)
        return None

    def _await(self, lane: str) -> Key | None:
        key = (lane, self._lanes[lane])
        end = self.meetings.end_ns(key, self.rank)
        if not end:
            return key
        self._called("cudaStreamWaitEvent", SHORT_CALL_NS, 0)
        self._now[self._thread] += self._host(1_000)
        self._tail = max(self._tail, end)
        return None

    def _hand_over(self, to: int) -> None:
        arrives = self._now[self._thread] + self._host(HAND_OVER_NS)
        self._thread = to
        self._now[to] = max(self._now[to], arrives)

    def _copy(self, op: Op, num_bytes: int, blocking_ns: int) -> None:
        thread = self._thread
        self._opened(ROW_OP, op.parent)
        self._now[thread] += self._host(4_000)
        external = self._opened(ROW_OP, op)
        start = self._now[thread] = self._now[thread] + self._host(OP_BEFORE_NS)
        end = self._launched(start + self._host(CALL_NS))
        begin = max(end + START_LATENCY_NS, self._tail + KERNEL_GAP_NS)
        takes = blocking_ns or 1_500 + 1e9 * num_bytes / self.config.device.pcie_rate
        finish = begin + int(takes * self._plan.copy)
        self._tail = finish
        if self._meter is not None:
            self._meter.copy(begin, finish, num_bytes)
        self._starts(begin)
        self._correlation += 1
        if blocking_ns:
            end = max(end, finish + RETURN_NS)
        name = f"Memcpy HtoD ({'Pageable' if blocking_ns else 'Pinned'} -> Device)"
        self._emit(ROW_CALL, thread, start, end, "cudaMemcpyAsync", external, self._correlation)
        self._emit(ROW_COPY, COMPUTE_STREAM, begin, finish, name, external, self._correlation, -1, num_bytes)
        self._now[thread] = end
        if blocking_ns:
            self._called("cudaStreamSynchronize", SHORT_CALL_NS, external)
        self._now[thread] += self._host(OP_AFTER_NS)
        self._closed()
        self._now[thread] += self._host(1_500)
        self._closed()
        self._now[thread] += self._host(BETWEEN_NS)

    def _item(self) -> None:
        thread = self._thread
        self._opened(ROW_OP, "aten::item")
        self._now[thread] += self._host(1_500)
        external = self._opened(ROW_OP, "aten::_local_scalar_dense")
        start = self._now[thread] = self._now[thread] + self._host(3_000)
        end = self._launched(start + self._host(CALL_NS))
        begin = max(end + START_LATENCY_NS, self._tail + KERNEL_GAP_NS)
        finish = begin + 1_400
        self._tail = finish
        self._starts(begin)
        self._correlation += 1
        if self._meter is not None:
            self._meter.copy(begin, finish, 4, is_to_device=False)
        name, number = "Memcpy DtoH (Device -> Pageable)", self._correlation
        self._emit(ROW_CALL, thread, start, end, "cudaMemcpyAsync", external, number)
        self._emit(ROW_COPY, COMPUTE_STREAM, begin, finish, name, external, number, -1, 4)
        self._now[thread] = end + 500
        self._wait_until("cudaStreamSynchronize", finish, external)
        self._now[thread] += self._host(OP_AFTER_NS)
        self._closed()
        self._now[thread] += self._host(1_000)
        self._closed()
        self._now[thread] += self._host(ITEM_PAUSE_NS)

    def _allocate(self, ns: int) -> None:
        """Memory goes back to the device, which must be idle for that, and is taken again in one piece."""
        self._wait_until("cudaDeviceSynchronize", self._tail, 0)
        start = self._now[self._thread]
        for _ in range(SEGMENTS):
            self._called("cudaFree", ns / (2 * SEGMENTS), 0)
        self._called("cudaMalloc", ns / 2, 0)
        self._happened("allocate", start)

    def _wait_until(self, name: str, device_ns: int, external: int) -> None:
        start = self._now[self._thread]
        end = max(start + self._host(SHORT_CALL_NS), device_ns + self._host(RETURN_NS))
        self._correlation += 1
        self._emit(ROW_CALL, self._thread, start, end, name, external, self._correlation)
        self._now[self._thread] = end

    def _drain(self) -> Key | None:
        ends = [self._tail]
        for key in self._streams.values():
            end = self.meetings.end_ns(key, self.rank)
            if not end:
                return key
            ends.append(end)
        self._wait_until("cudaDeviceSynchronize", max(ends), 0)
        return None

    def _end_step(self) -> None:
        self.step_end_ns.append(self._tail)
        self._now[0] += self._host(10_000)
        late = len(self.step_end_ns) - 1 - self.config.run_ahead
        if late >= 0 and self.step_end_ns[late] > self._now[0]:
            self._wait_until("cudaEventSynchronize", self.step_end_ns[late], 0)
        self._now[0] += self._host(5_000)
        self._closed()
        self._now[0] += self._host(4_000)
