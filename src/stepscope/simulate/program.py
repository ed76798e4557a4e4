"""What one rank does in one step, in the order in which its host does it.

A program is a list of instructions: tuples that begin with one of the codes below.
`stepscope.simulate.cluster` finds when each of them happens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stepscope.simulate.config import Config
from stepscope.simulate.fault import Chosen, apply
from stepscope.simulate.gpu import gpu_of
from stepscope.simulate.group import (
    Group,
    Groups,
    all_gather,
    all_reduce,
    all_to_all,
    groups_in,
    reduce_scatter,
    transfer,
)
from stepscope.simulate.maker import Maker
from stepscope.simulate.model import Op, Workload
from stepscope.simulate.plan import Place, Plan
from stepscope.simulate.workload import TINY, Size, update, workload

(
    OP,  # (op, place of its node or None): an op, its launches and its kernels
    NODE,  # (name, place): a node of the autograd graph begins
    CLOSE,  # (): the innermost open row ends
    OPEN,  # (annotation): an annotation begins
    EXCHANGE,  # (exchange): it is issued on its own stream, behind what computes so far
    AWAIT,  # (lane): what computes from here on waits for the last exchange of that lane
    THREAD,  # (number): the host goes on in the main thread (0) or the autograd thread (1)
    PAUSE,  # (ns): Python that launches nothing
    LATE,  # (ns): the same, until the device has been idle for so long
    GC,  # (ns): Python collects garbage
    LOAD,  # (ns): the loader's __next__
    COPY,  # (op, bytes, ns or 0): the batch goes to the device; blocking for so long where it is pageable
    ITEM,  # (): a number is read back, which waits for the device
    DRAIN,  # (): the host waits until the device has done everything
    NODES,  # (number): the first of the nodes that follow, among all of the run
    STEP,  # (number): a step begins
    END_STEP,  # (): it ends; the host waits where it is too far ahead
    ALLOCATE,  # (ns): the allocator gives memory back and takes it again, once the device is idle
) = range(18)

Instruction = tuple[Any, ...]
LOADER_NS = 300_000
"""A batch that lies ready is fetched through a queue."""
OP_HOST_NS = 15_000
"""About what the host needs for an op, Python included: for estimates only."""
ITEM_PAUSE_NS = 20_000
ALLOCATIONS = 3
"""Places of a forward pass at which a fragmented allocator frees and allocates."""


class Programs:
    """The programs of one rank."""

    def __init__(self, config: Config, rank: int, faults: tuple[tuple[Chosen, int | None], ...]) -> None:
        self.config = config
        self.rank = rank
        self.faults = faults
        self.groups = groups_in(config, rank)
        self._layers = config.layers_of(self.groups.stage)

    def plan(self, step: int) -> Plan:
        """What this step is like, faults included."""
        config, size = self.config, self.config.sized[0]
        plan = Plan(LOADER_NS, (size.length,) * config.num_micro_batches)
        for number, (chosen, culprit) in enumerate(self.faults):
            mates = (
                len(self.groups.experts.ranks)
                if chosen.name == "expert-imbalance" and self.groups.experts
                else 0
            )
            place = Place(
                rank=self.rank,
                step=step,
                culprit=-1 if culprit is None else culprit,
                num_ranks=mates or config.ranks,
                stage=self.groups.stage,
                num_stages=config.pipeline_stages,
                step_ns=config.step_ns,
                host_ns=self._host_ns(),
                length=size.length,
                seed=config.seed,
                number=number,
                first=0,
                last=config.num_played - 1,
                period=config.period,
                run_ahead=config.run_ahead,
            )
            apply(plan, chosen, culprit, place)
        return plan

    @property
    def num_ops(self) -> int:
        """Ops of a step, about."""
        return self._host_ns() // OP_HOST_NS

    def _host_ns(self) -> int:
        work = self.config.work(self.config.sized[0])
        nodes = [node for layer in work.layers[slice(*self._layers)] for node in layer]
        ops = sum(len(node.forward) + len(node.backward) for node in nodes)
        return OP_HOST_NS * ops * self.config.num_micro_batches

    def work(self, plan: Plan, micro_batch: int) -> Workload:
        """The model as this micro-batch sees it."""
        size = self.config.sized[0]
        if plan.is_tiny:
            tiny = TINY[self.config.model]
            return workload(
                self.config.model,
                self.config.gpu,
                Size(tiny.batch, tiny.length, tiny.width, size.num_layers),
                variation=plan.variation,
            )
        length = plan.lengths[micro_batch]
        return self.config.work(
            Size(size.batch, length, size.width, size.num_layers), plan.load, plan.variation
        )

    def step(self, step: int, plan: Plan, lucky_layer: float) -> list[Instruction]:
        """One step. `lucky_layer`, 0..1, says where in the forward pass a collection of garbage comes."""
        config, groups = self.config, self.groups
        first, last = self._layers
        works = [self.work(plan, m) for m in range(config.num_micro_batches)]
        program: list[Instruction] = [(STEP, step)]
        if groups.stage in (0, groups.num_stages - 1):
            program.append((LOAD, plan.loader_ns))
            op, num_bytes = works[0].batch
            pageable = plan.pageable_ns
            if pageable:
                num_bytes = max(int(pageable * PAGEABLE_RATE / 1e9), 1)
            program.append((COPY, op, num_bytes * config.num_micro_batches, pageable))
        gc_layer = first + int(lucky_layer * (last - first)) if plan.gc_ns else -1
        # The allocator finds nothing that fits a few times, at the larger tensors.
        short = range(first, last, -(-(last - first) // ALLOCATIONS)) if plan.allocator_ns else range(0)
        nodes = sum(len(layer) for layer in works[0].layers[first:last])
        for kind, m in _schedule(groups.stage, groups.num_stages, config.num_micro_batches):
            base = (step * config.num_micro_batches + m) * nodes
            elements = _boundary(config, works[m], plan, m)
            program.append((NODES, base))
            if kind == "F":
                if groups.stage:
                    program += _transfer(groups, elements, True, False)
                for number in range(first, last):
                    program += _forward(works[m], first, number, groups.experts)
                    if number == gc_layer and m == 0:
                        program.append((GC, plan.gc_ns))
                    if number in short and m == 0:
                        program.append((ALLOCATE, plan.allocator_ns // len(short)))
                    if plan.sync_ns is not None and number + 1 < last:
                        program += [(ITEM,), (PAUSE, plan.sync_ns)]
                if groups.stage < groups.num_stages - 1:
                    program += _transfer(groups, elements, True, True)
                if m == 0 and plan.sleep_ns:
                    program.append((LATE, plan.sleep_ns))
            else:
                if groups.stage < groups.num_stages - 1:
                    program += _transfer(groups, elements, False, False)
                is_last = m == config.num_micro_batches - 1
                program.append((THREAD, 1))
                buckets = config.buckets if is_last and groups.reduce is not None else 0
                program += _backward(works[m], first, last, groups, _Reduction.of(config, buckets))
                program.append((THREAD, 0))
                if groups.stage:
                    program += _transfer(groups, elements, False, True)
        program += _update(works[0], first, last, config, groups.reduce)
        program += self._marked(plan, works[0], first, last)
        program.append((END_STEP,))
        if step in config.drained_steps:
            program.append((DRAIN,))  # as the profiler does when it starts and when it stops
        return program

    def _marked(self, plan: Plan, work: Workload, first: int, last: int) -> list[Instruction]:
        program: list[Instruction] = []
        if plan.eval_batches and self.groups.num_stages == 1:
            program.append((OPEN, "evaluate"))
            for _ in range(plan.eval_batches):
                program += [(LOAD, LOADER_NS), (COPY, *work.batch, 0)]
                for number in range(first, last):
                    program += _forward(work, first, number, self.groups.experts)
                program += [(ITEM,), (PAUSE, self.config.step_ns // 4)]
            program.append((CLOSE,))
        elif plan.eval_batches:
            program += [
                (OPEN, "evaluate"),
                (DRAIN,),
                (PAUSE, plan.eval_batches * self.config.step_ns // 3),
                (CLOSE,),
            ]
        if plan.checkpoint_ns:
            program += [(OPEN, "save_checkpoint"), (DRAIN,), (PAUSE, plan.checkpoint_ns), (CLOSE,)]
        return program


PAGEABLE_RATE = 6e9
"""Bytes per second of a copy from pageable memory: the driver moves it through a buffer of its own."""


def _boundary(config: Config, work: Workload, plan: Plan, micro_batch: int) -> int:
    size = TINY[config.model] if plan.is_tiny else config.sized[0]
    length = size.length if plan.is_tiny else plan.lengths[micro_batch]
    return size.batch * length * size.width


def _schedule(stage: int, stages: int, num: int) -> list[tuple[str, int]]:
    """One forward, one backward: as many forward passes first as there are stages behind this one."""
    ahead = min(stages - 1 - stage, num)
    order = [("F", m) for m in range(ahead)]
    for m in range(num - ahead):
        order += [("F", ahead + m), ("B", m)]
    return order + [("B", m) for m in range(num - ahead, num)]


def _transfer(groups: Groups, elements: int, is_forward: bool, is_send: bool) -> list[Instruction]:
    exchange = transfer(groups, elements, is_forward, is_send)
    issued: list[Instruction] = [(EXCHANGE, exchange)]
    return issued if is_send else [*issued, (AWAIT, exchange.lane)]


def _all_to_all(experts: Any, num_bytes: int) -> list[Instruction]:
    exchange = all_to_all(experts, num_bytes // 2)
    return [(EXCHANGE, exchange), (AWAIT, exchange.lane)]


@lru_cache(maxsize=4096)
def _forward(work: Workload, first: int, number: int, experts: Any) -> tuple[Instruction, ...]:
    place = sum(len(layer) for layer in work.layers[first:number])
    program: list[Instruction] = []
    for node in work.layers[number]:
        if node.exchange_bytes and experts is not None:
            program += _all_to_all(experts, node.exchange_bytes)
        for op in node.forward:
            program.append((OP, op, place))
        place += 1
    return tuple(program)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """How gradients are shared: in how many buckets, whether beside the backward pass, whether each rank
    keeps all of them, and by what their bytes are multiplied."""

    buckets: int
    is_overlapped: bool
    is_sharded: bool
    scale: float

    @classmethod
    def of(cls, config: Config, buckets: int) -> _Reduction:
        return cls(buckets, config.overlap, config.shard, config.exchange_scale)

    def exchange(self, group: Group, num_parameters: int) -> Instruction:
        make = reduce_scatter if self.is_sharded else all_reduce
        return (EXCHANGE, make(group, max(int(num_parameters * self.scale), 1)))


@lru_cache(maxsize=1024)
def _backward(
    work: Workload, first: int, last: int, groups: Groups, reduction: _Reduction
) -> tuple[Instruction, ...]:
    """From the last node to the first; a bucket of gradients goes out when it is full, or, where nothing
    overlaps, after the last of them."""
    nodes = [node for layer in work.layers[first:last] for node in layer]
    total = sum(node.num_parameters for node in nodes if not node.is_local)
    filled, sent, buckets = 0, 0, reduction.buckets
    program: list[Instruction] = []
    kept: list[Instruction] = []
    issued = program if reduction.is_overlapped else kept
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        if node.exchange_bytes and groups.experts is not None:
            program += _all_to_all(groups.experts, node.exchange_bytes)
        program.append((NODE, node.backward_name, place))
        program += [(OP, op, None) for op in node.backward]
        program.append((CLOSE,))
        if not node.is_local:
            filled += node.num_parameters
        is_full = buckets and filled - sent >= total / buckets
        if buckets and groups.reduce is not None and filled > sent and (is_full or place == 0):
            issued.append(reduction.exchange(groups.reduce, filled - sent))
            sent = filled
    if buckets and groups.reduce is not None:
        if sent < filled:
            issued.append(reduction.exchange(groups.reduce, filled - sent))
        program += [*kept, (AWAIT, f"reduce {groups.reduce.name}")]
    return tuple(program)


@lru_cache(maxsize=256)
def _update(
    work: Workload, first: int, last: int, config: Config, group: Group | None
) -> tuple[Instruction, ...]:
    """The optimizer; where each rank has updated its share alone, the shares are gathered."""
    num, mates = work.num_parameters(first, last), 1 if group is None else len(group.ranks)
    own = math.ceil(num / mates) if config.shard else num
    ops = _update_ops(config.gpu, config.sized[1], work.optimizer, own)
    mark = f"Optimizer.step#{work.optimizer}.step"
    program: list[Instruction] = [(OPEN, mark), *((OP, op, None) for op in ops), (CLOSE,)]
    if config.shard and group is not None:
        shared = max(int(num * config.exchange_scale), 1)
        program += [(EXCHANGE, all_gather(group, shared)), (AWAIT, f"reduce {group.name}")]
    return tuple(program)


@lru_cache(maxsize=256)
def _update_ops(gpu: str, stretch: float, optimizer: str, num_parameters: int) -> tuple[Op, ...]:
    return update(Maker(gpu_of(gpu), stretch), optimizer, num_parameters)
