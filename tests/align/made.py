"""Random jobs as tables, with what is true of each call: groups, clocks, lost records, a late rank.

Everything comes from a seed. Times are nanoseconds of true time plus each rank's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from stepscope.model.peer import SEGMENT_PARTS, CollectiveTable, KernelTable, PeerTable, StepTable
from stepscope.model.trace import ABSENT_I64

EPOCH = 1_700_000_000_000_000_000
COMPUTE = SEGMENT_PARTS.index("compute")
PYTHON = SEGMENT_PARTS.index("python")


@dataclass
class Job:
    """What to make. `groups` are lists of ranks; every group has its collectives in every step."""

    num_ranks: int
    seed: int
    num_steps: int = 10
    step_ns: int = 20_000_000
    per_step: int = 4
    groups: list[list[int]] = field(default_factory=list)
    names: bool = True
    sequence: bool = False
    steps: bool = True
    offset_ns: int = 5_000_000
    drift_ppm: float = 0.0
    drop: float = 0.0
    """Share of records that are lost, each for itself."""
    edge: int = 0
    """Calls lost at either edge of a rank's trace, at most."""
    jitter: float = 0.01
    late_rank: int | None = None
    late_ns: int = 0
    slow: float = 1.0
    """By what factor the late rank computes longer."""
    tail: float = 0.0
    """Share of a rank's pieces of work that take half as long again."""
    kind: str = "all_reduce"
    end_ns: int = 3_000
    """Ends of one collective lie within this."""


@dataclass
class Made:
    """The tables, what instance each row truly is, and the clocks that were put on."""

    tables: list[PeerTable]
    truth: list[np.ndarray]
    offset_ns: np.ndarray
    drift: np.ndarray
    waits: dict[int, tuple[int, int]]
    """Instance -> (rank that came last, skew)."""


def make(job: Job) -> Made:
    """Play the job: ranks work, meet, and leave together."""
    rng = np.random.default_rng(job.seed)
    groups = job.groups or [list(range(job.num_ranks))]
    offset = rng.integers(-job.offset_ns, job.offset_ns + 1, job.num_ranks)
    drift = rng.uniform(-job.drift_ppm, job.drift_ppm, job.num_ranks) * 1e-6
    now = np.zeros(job.num_ranks)
    rows: list[list[tuple]] = [[] for _ in range(job.num_ranks)]
    bounds = [[0.0] for _ in range(job.num_ranks)]
    waits: dict[int, tuple[int, int]] = {}
    instance = 0
    number = [0] * len(groups)
    work = job.step_ns / (job.per_step * len(groups))
    for step in range(job.num_steps):
        for call in range(job.per_step):
            for which, members in enumerate(groups):
                spent = work * (1 + job.jitter * rng.standard_normal(len(members)))
                spent *= np.where(rng.random(len(members)) < job.tail, 1.5, 1.0) if job.tail else 1.0
                if job.late_rank in members:
                    spent[members.index(job.late_rank)] *= job.slow
                parts = np.zeros((len(members), len(SEGMENT_PARTS)))
                parts[:, COMPUTE] = spent
                if job.late_rank in members and call == 0:
                    at = members.index(job.late_rank)
                    spent[at] += job.late_ns
                    parts[at, PYTHON] = job.late_ns
                start = now[members] + spent
                end = start.max() + rng.uniform(50_000, 150_000)
                ends = end + rng.uniform(0, job.end_ns, len(members))
                waits[instance] = (members[int(np.argmax(start))], int(np.ptp(start)))
                for place, rank in enumerate(members):
                    rows[rank].append(
                        (which, instance, step, start[place], ends[place], parts[place], number[which])
                    )
                    now[rank] = ends[place]
                number[which] += 1
                instance += 1
        for rank in range(job.num_ranks):
            bounds[rank].append(now[rank])
    tables, truth = [], []
    for rank in range(job.num_ranks):
        mine = rows[rank]
        first, last = (int(n) for n in rng.integers(0, job.edge + 1, 2))
        mine = mine[first : len(mine) - last]
        mine = [row for row in mine if rng.random() >= job.drop]
        clock = partial(_local, offset[rank], drift[rank])
        tables.append(_table(job, rank, groups, mine, np.array(bounds[rank]), clock))
        truth.append(np.array([row[1] for row in mine], dtype=np.int64))
    return Made(tables, truth, offset, drift, waits)


def _local(offset, drift, true):
    """True times on one rank's clock."""
    true = np.asarray(true)
    return EPOCH + np.round(true + offset + drift * true).astype(np.int64)


def _table(job, rank, groups, mine, bounds, clock):
    num = len(mine)
    texts = [job.kind, *(f"group {n}" for n in range(len(groups)))]
    start = clock([row[3] for row in mine]) if num else np.empty(0, np.int64)
    end = clock([row[4] for row in mine]) if num else np.empty(0, np.int64)
    absent = np.full(num, ABSENT_I64, dtype=np.int64)
    edges = clock(bounds)
    none = np.empty(0, np.int64)
    return PeerTable(
        rank=rank,
        world_size=job.num_ranks,
        device=0,
        host=None,
        anchor="base",
        texts=tuple(texts),
        collectives=CollectiveTable(
            kind_id=np.zeros(num, np.int32),
            group_id=np.array([1 + row[0] if job.names else -1 for row in mine], dtype=np.int32),
            ranks_id=np.full(num, -1, np.int32),
            sequence=np.array([row[6] for row in mine], dtype=np.int64) if job.sequence else absent,
            bytes=np.full(num, 4_000_000, np.int64),
            dtype_id=np.full(num, -1, np.int32),
            group_size=np.array([len(groups[row[0]]) for row in mine], dtype=np.int64),
            src=absent,
            dst=absent,
            device=np.zeros(num, np.int32),
            stream=np.full(num, 20, np.int64),
            start_ns=start,
            end_ns=end,
            step=np.array([row[2] for row in mine], dtype=np.int64)
            if job.steps
            else np.full(num, -1, np.int64),
            exposed_ns=end - start,
            segment=np.array([row[5] for row in mine]).astype(np.int64).reshape(num, len(SEGMENT_PARTS)),
            num_kernels=np.full(num, 100, np.int64),
        ),
        steps=StepTable(
            number=np.arange(job.num_steps),
            start_ns=edges[:-1],
            end_ns=edges[1:],
            window_start_ns=edges[:-1],
            window_end_ns=edges[1:],
            is_counted=np.ones(job.num_steps, bool),
        )
        if job.steps
        else StepTable(none, none, none, none, none, np.empty(0, bool)),
        kernels=KernelTable(none, np.empty(0, np.int32), none, none),
    )
