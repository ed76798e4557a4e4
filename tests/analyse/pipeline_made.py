"""Timelines of pipelines that are not there: a 1F1B schedule played event by event, with faults to order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from stepscope.model.table import Timeline

MS = 1_000_000
Times = npt.NDArray[np.float64]
FORWARD_MS, BACKWARD_MS, SEND_MS = 20.0, 40.0, 1.0
Order = list[tuple[str, int]]


def schedule(stage: int, stages: int, micro_batches: int) -> Order:
    """Operations of one worker in a step: (kind, number)."""
    ahead = min(stages - 1 - stage, micro_batches)
    passes = [("forward", n) for n in range(ahead)]
    for n in range(micro_batches - ahead):
        passes += [("forward", ahead + n), ("backward", n)]
    passes += [("backward", n) for n in range(micro_batches - ahead, micro_batches)]
    order: Order = [("params-all-gather", 0)]
    for kind, n in passes:
        takes, gives = (stage > 0, stage < stages - 1)[:: 1 if kind == "forward" else -1]
        order += [(f"{kind}-recv", n)] * takes + [(f"{kind}-compute", n)] + [(f"{kind}-send", n)] * gives
    return [*order, ("grads-reduce-scatter", 0), ("optimizer", 0)]


def timeline(
    seed: int = 0,
    *,
    stages: int = 4,
    replicas: int = 4,
    micro_batches: int = 8,
    steps: int = 6,
    jitter: float = 0.01,
    lengths: float = 0.0,
    fault: Callable[[Times], None] | None = None,
) -> Timeline:
    """A job of (replica, stage) workers, ranks `replica + stage * replicas`.

    `lengths` is the variation of sequence lengths, which forward and backward share on all stages; `fault`
    changes the factors (steps, replicas, stages, micro-batches) in place.
    """
    draw = np.random.default_rng(seed)
    shape = (steps, replicas, stages, micro_batches)
    factor = np.ones(shape)
    if lengths:
        factor *= np.exp(lengths * draw.standard_normal((steps, replicas, 1, micro_batches)))
    if fault is not None:
        fault(factor)
    noise = 1 + jitter * draw.standard_normal((2, *shape))
    times = {"forward": FORWARD_MS * factor * noise[0], "backward": BACKWARD_MS * factor * noise[1]}
    rows: list[tuple[int, int, int, int, str, int, int, int]] = []
    for step in range(steps):
        done = _step(step, times, stages, replicas, micro_batches)
        for (replica, stage), ops in done.items():
            for kind, n, start, end in ops:
                a, b = round(start * MS), round(end * MS)
                rank = replica + stage * replicas
                rows.append((step, rank, a, b - a, kind, stage, replica, n))
    rows.sort(key=lambda row: row[:4])
    kinds = sorted({row[4] for row in rows})
    column = [np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1, 2, 3, 5, 6, 7)]
    return Timeline(
        name="made",
        kinds=tuple(kinds),
        step=column[0],
        rank=column[1],
        stage=column[4],
        data_parallel_rank=column[5],
        kind=np.array([kinds.index(row[4]) for row in rows], dtype=np.int32),
        start_ns=column[2],
        duration_ns=column[3],
        sequence=column[6],
        chunk=np.zeros(len(rows), dtype=np.int64),
        micro_batch=np.array([row[7] if "compute" in row[4] else -1 for row in rows], dtype=np.int64),
    )


Done = dict[tuple[int, int], list[tuple[str, int, float, float]]]


def _step(step: int, times: dict[str, Times], stages: int, replicas: int, micro_batches: int) -> Done:
    """Play one step: sends are buffered, receives wait for the send, collectives for all replicas."""
    workers = [(replica, stage) for replica in range(replicas) for stage in range(stages)]
    orders = {worker: schedule(worker[1], stages, micro_batches) for worker in workers}
    done: Done = {worker: [] for worker in workers}
    now = dict.fromkeys(workers, 0.0)
    sent: dict[tuple[str, int, int, int], float] = {}
    while any(orders.values()):
        moved = False
        for worker in workers:
            while orders[worker]:
                kind, n = orders[worker][0]
                end = _end(worker, kind, n, step, times, now, orders, sent)
                if end is None:
                    break
                orders[worker].pop(0)
                done[worker].append((kind, n, now[worker], end))
                if kind.endswith("send"):
                    to = worker[1] + (1 if kind.startswith("forward") else -1)
                    sent[kind.partition("-")[0], worker[0], to, n] = now[worker]
                now[worker] = end
                moved = True
            if orders[worker] and orders[worker][0][0] in ("params-all-gather", "grads-reduce-scatter"):
                moved |= _collective(worker, orders, done, now, replicas)
        assert moved, "the schedule waits for itself"
    return done


def _end(
    worker: tuple[int, int],
    kind: str,
    n: int,
    step: int,
    times: dict[str, Times],
    now: dict[tuple[int, int], float],
    orders: dict[tuple[int, int], Order],
    sent: dict[tuple[str, int, int, int], float],
) -> float | None:
    """When the next operation of a worker ends, `None` where it has to wait for something not yet played."""
    del orders
    what = kind.partition("-")[0]
    if kind.endswith("compute"):
        return now[worker] + float(times[what][step, worker[0], worker[1], n])
    if kind.endswith("send"):
        return now[worker] + SEND_MS
    if kind.endswith("recv"):
        start = sent.get((what, *worker, n))
        return None if start is None else max(now[worker], start) + SEND_MS
    return now[worker] + 2 if kind == "optimizer" else None


def _collective(
    worker: tuple[int, int],
    orders: dict[tuple[int, int], Order],
    done: Done,
    now: dict[tuple[int, int], float],
    replicas: int,
) -> bool:
    """Play a collective of a stage once all its replicas have come to it."""
    group = [(replica, worker[1]) for replica in range(replicas)]
    kind = orders[worker][0][0]
    if not all(orders[each] and orders[each][0][0] == kind for each in group):
        return False
    end = max(now[each] for each in group) + 5
    for each in group:
        done[each].append((kind, 0, now[each], end))
        orders[each].pop(0)
        now[each] = end
    return True
