"""Training loops that are played by rules of a few lines, with and without a fault, and their traces.

A host issues work to streams in order; work starts when its launch has arrived, its stream is free and what
it waits for has ended; a collective ends on all ranks when the last one has come to it. All times in
microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stepscope.analyse.rank import analyse_rank
from stepscope.analyse.replay.job import replay as play
from stepscope.analyse.replay.program import Program
from stepscope.model import report
from stepscope.trace.load import load_bytes
from tests.analyse.build import Build

CALL, LATENCY, GAP, AFTER, RETURN, IDLE_SYNC = 5, 8, 1, 2, 10, 4
"""A launch call; from its start to the work; between queued work; after an event of another stream; from the
end of work to the return of who waited for it; a synchronisation with nothing to wait for."""
GEMM, ADD, NCCL = (
    "ampere_sgemm_128x64_nn",
    "elementwise_kernel_add",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
)
MAIN, SIDE = 7, 20
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@dataclass(frozen=True)
class Work:
    """The host works, under the name of an annotation or without."""

    us: int
    name: str | None = None


@dataclass(frozen=True)
class Kernel:
    """Work of a stream, behind all that was issued to another one before where `after` says so."""

    us: int
    name: str = GEMM
    stream: int = MAIN
    after: int | None = None


@dataclass(frozen=True)
class Reduce:
    """A collective behind the main stream's work; its own time is the transfer."""

    us: int
    stream: int = SIDE


@dataclass(frozen=True)
class Sync:
    """The host waits for all work."""


@dataclass(frozen=True)
class Fetch:
    """A blocking copy from the device."""

    us: int


Item = Work | Kernel | Reduce | Sync | Fetch


@dataclass
class Run:
    """What came of one rank: its trace, the bounds of its steps on the host, and its collectives."""

    build: Build
    bounds: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def step_us(self) -> float:
        """Mean length of its steps."""
        return (self.bounds[-1] - self.bounds[0]) / (len(self.bounds) - 1)


def one(
    steps: Sequence[Sequence[Item]],
    done: Sequence[int] | None = None,
    rank: int = 0,
    ranks: int = 1,
    room: int = 1024,
) -> Run:
    """One rank; `done` says when each collective is over for all, `room` how much a stream's queue holds."""
    run = Run(Build(rank=rank, world_size=ranks))
    b, now = run.build, 1000
    free: dict[int, int] = {}
    begun: dict[int, list[int]] = {}

    def enter(stream: int) -> int:
        """When a launch call returns: at once, or when there is room."""
        mine = begun.get(stream, [])
        return max(now + CALL, mine[-room] if len(mine) >= room else 0)

    def issue(us: int | None, stream: int, after: int | None) -> tuple[int, int]:
        start = max(now + LATENCY, free.get(stream, -GAP) + GAP)
        if after is not None:
            start = max(start, free.get(after, -AFTER) + AFTER)
        if us is None:
            index = len(run.ready)
            run.ready.append(start)
            end = max(done[index], start) if done else start
            run.started.append(start)
            run.ended.append(end)
        else:
            end = start + us
        free[stream] = end
        begun.setdefault(stream, []).append(start)
        return start, end

    for number, items in enumerate(steps):
        begin = now
        run.bounds.append(now)
        for item in items:
            if isinstance(item, Work):
                if item.name is not None:
                    b.note(item.name, now, now + item.us)
                now += item.us
            elif isinstance(item, Kernel):
                if item.after is not None:
                    b.call("cudaStreamWaitEvent", now, now + 1)
                    now += 1
                back = enter(item.stream)
                start, end = issue(item.us, item.stream, item.after)
                b.kernel(item.name, start, end, launched=(now, back), stream=item.stream)
                now = back
            elif isinstance(item, Reduce):
                start, end = issue(None if ranks > 1 else item.us, item.stream, MAIN)
                b.kernel(NCCL, start, end, launched=(now, now + CALL), stream=item.stream)
                now += CALL
            elif isinstance(item, Fetch):
                start, end = issue(item.us, MAIN, None)
                b.copy(
                    "Memcpy DtoH (Device -> Pageable)",
                    start,
                    end,
                    launched=(now, end + RETURN),
                    by="cudaMemcpyAsync",
                )
                now = end + RETURN
            else:
                back = max(now + IDLE_SYNC, max(free.values(), default=0) + RETURN)
                b.call("cudaDeviceSynchronize", now, back)
                now = back
        b.step(number, begin, now)
    b.op("aten::item", 0, 1)
    run.bounds.append(now)
    return run


def together(steps: Sequence[Sequence[Sequence[Item]]]) -> list[Run]:
    """All ranks of a job: collectives end when the last rank has come, and the transfer is over."""
    num = len(steps)
    transfer = [item.us for items in steps[0] for item in items if isinstance(item, Reduce)]
    done = [0] * len(transfer)
    while True:
        runs = [one(each, done, rank, num) for rank, each in enumerate(steps)]
        then = [max(run.ready[i] for run in runs) + us for i, us in enumerate(transfer)]
        if then == done:
            return runs
        done = then


def program(run: Run) -> Program:
    """What the analysis of its trace keeps for the replay."""
    trace = load_bytes(run.build.bytes(), "t.json")
    (analysis,) = analyse_rank(trace, rank=run.build.rank)
    found = analysis.devices[0].program
    assert isinstance(found, Program)
    return found


def replayed(*runs: Run) -> report.Replay:
    """The replay of these ranks; their clocks agree, and collectives match in order."""
    programs = [program(run) for run in runs]
    if len(runs) == 1:
        found = play(programs)
    else:
        base = 1_700_000_000_000_000_000 + 10_000_000
        found = play(
            programs,
            [np.arange(len(run.started)) for run in runs],
            [base + 1000 * np.array(run.started) for run in runs],
            [base + 1000 * np.array(run.ended) for run in runs],
        )
    assert found is not None
    return found


def predicted_us(found: report.Replay, remove: str) -> float:
    """Step time without a cause: that of the run as it is where it is not among those removed."""
    for each in found.what_if:
        if each.remove == remove:
            return each.predicted_ns / 1000
    raise KeyError(remove)


def without_input(steps: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """The same loop, the loader free."""
    return [[i for i in items if not (isinstance(i, Work) and i.name == LOADER)] for items in steps]


def faster(steps: Sequence[Sequence[Item]], name: str) -> list[list[Item]]:
    """The same loop, kernels of a name at half their time."""
    return [
        [replace(i, us=i.us // 2) if isinstance(i, Kernel) and i.name == name else i for i in items]
        for items in steps
    ]
