"""Jobs of many ranks, made by hand: every part of a report that speaks of ranks together is there."""

from __future__ import annotations

from msgspec.structs import replace

from stepscope.model import report
from stepscope.model.peer import MAP_PARTS
from stepscope.model.text import Lang
from tests.diagnose import build
from tests.diagnose.build import MS

CELLS = 120
PARTS = ("clocks", "collectives", "stragglers", "lateness", "rank_map", "imbalance", "replay")
"""The parts of a report that speak of ranks together."""
REPLAY = report.Replay(
    status="ok",
    error_share=0.012,
    num_steps=8,
    what_if=(
        report.WhatIf(
            remove="straggler", step_ns=100 * MS, predicted_ns=82 * MS, gain_share=0.18, ranks=(3,)
        ),
        report.WhatIf(remove="compute.gemm", step_ns=100 * MS, predicted_ns=91 * MS, gain_share=0.09),
        report.WhatIf(remove="communication", step_ns=100 * MS, predicted_ns=95 * MS, gain_share=0.05),
        report.WhatIf(remove="input", step_ns=100 * MS, predicted_ns=100 * MS, gain_share=0.0),
    ),
    critical_path=(
        report.PathPart(part="compute.gemm", time_ns=50 * MS, share=0.5, rank=3),
        report.PathPart(part="python", time_ns=20 * MS, share=0.2, rank=3),
        report.PathPart(part="compute.elementwise", time_ns=15 * MS, share=0.15, rank=0),
        report.PathPart(part="communication", time_ns=15 * MS, share=0.15, rank=0),
    ),
)
IMBALANCE = report.Imbalance(
    class_="bad_worker",
    why="slowest worker against its stage 1.22, slowdown 1.18",
    slowdown=1.18,
    ranks=(3,),
    stage=1,
    forward_backward_correlation=0.12,
    micro_batch_variation=0.03,
    bubble_share=0.07,
)


def straggler(rank: int = 3, num_steps: int = 8) -> report.Straggler:
    """A rank that is late in all steps but one."""
    return report.Straggler(
        rank=rank,
        lateness_ns=18 * MS,
        cost_ns=126 * MS,
        share=0.158,
        persistence="persistent",
        reason="python",
        num_steps=num_steps,
        num_late=num_steps - 1,
        late_steps=tuple(range(11, 10 + num_steps)),
        culprit="job/train.py(41): augment",
        is_confirmed=True,
        stage=1,
        data_parallel_rank=1,
    )


def _cells(rank: int, late: int) -> tuple[int, ...]:
    """Ten steps of twelve cells: the late rank computes on and runs Python, the others wait for it."""
    part = MAP_PARTS.index
    cells: list[int] = []
    for step in range(CELLS // 12):
        begin = [part("input")] if step == 0 else [part("launch")]
        if rank == late:
            cells += [*begin, *[part("compute")] * 6, *[part("python")] * 4, part("communication")]
        else:
            wait = (
                [part("wait")] * 4 if (rank + step) % 5 else [part("wait"), *[part("gc")] * 2, part("wait")]
            )
            cells += [*begin, *[part("compute")] * 6, *wait, part("communication")]
    cells[-2:] = [-1, -1]
    return tuple(cells)


def clocks(number: int) -> report.Clocks:
    """Two hosts, the second 2.4 ms ahead and drifting."""
    half = number // 2
    rows = tuple(
        report.RankClock(
            rank=rank,
            method="collectives",
            component=0,
            offset_ns=(2_400_000 if rank >= half else 0) + 300 * rank,
            offset_error_ns=400 + rank,
            drift_ppm=12.5 if rank >= half else None,
            drift_error_ppm=1.5,
            residual_ns=900 + rank,
        )
        for rank in range(number)
    )
    return report.Clocks(reference_rank=0, ranks=rows)


def collectives(number: int) -> tuple[report.Collective, ...]:
    """Three kinds, two sizes of one of them."""
    row = report.Collective(
        kind="all_reduce",
        count=64,
        group="default_pg",
        bytes=26_214_400,
        transfer_ns=110 * MS,
        wait_ns=840 * MS,
        wait_exposed_ns=800 * MS,
        last_rank=3,
        skew_ns=18 * MS,
        num_ranks=number,
        num_unmatched=1,
        algorithm_bytes_per_second=1.1e11,
        bus_bytes_per_second=1.9e11,
        link_share=0.42,
    )
    return (
        row,
        replace(row, count=8, bytes=4096, transfer_ns=MS, wait_ns=2 * MS, wait_exposed_ns=2 * MS),
        replace(row, kind="all_gather", transfer_ns=300 * MS, wait_ns=20 * MS, wait_exposed_ns=None),
        report.Collective(kind="broadcast", count=2, bytes=64),
    )


def lateness(number: int, num_steps: int, late: int = 3) -> report.Lateness:
    """One rank is late by 18 ms in all steps but the first; the others within 0.4 ms; one lacks a step."""
    steps = tuple(range(10, 10 + num_steps))
    rows = []
    for rank in range(number):
        cells: list[int | None] = [(rank * 7919 + n * 104_729) % 380_000 for n in range(num_steps)]
        wait: list[int | None] = [18 * MS - rank * 1000] * num_steps
        if rank == late:
            cells = [200_000, *[(16 + n % 5) * MS for n in range(1, num_steps)]]
            wait = [100_000] * num_steps
        if rank == number - 1 and num_steps > 2:
            cells[-1] = wait[-1] = None
        rows.append(report.RankLateness(rank=rank, lateness_ns=tuple(cells), wait_ns=tuple(wait)))
    return report.Lateness(status="ok", noise_ns=400_000, num_collectives=64, steps=steps, rows=tuple(rows))


def job(lang: Lang = "en", number: int = 8, num_steps: int = 8) -> report.Report:
    """A job with one rank late, and all that a report can say of it."""
    row = build.row(communication=40 * MS, launch=3 * MS)
    answer = build.told(
        *(build.rank(replace(row, rank=rank), world_size=number) for rank in range(number)),
        lang=lang,
    )
    return replace(
        answer,
        clocks=clocks(number),
        collectives=collectives(number),
        stragglers=(straggler(num_steps=num_steps),),
        lateness=lateness(number, num_steps),
        rank_map=report.RankMap(
            start_ns=100 * MS,
            cell_ns=7 * MS,
            parts=MAP_PARTS,
            rows=tuple(report.RankCells(rank=rank, cells=_cells(rank, 3)) for rank in range(number)),
        ),
        imbalance=IMBALANCE,
        replay=REPLAY,
    )


def nobody_late(lang: Lang = "en") -> report.Report:
    """Four ranks, nobody late, nothing predicted, no clock but one."""
    whole = job(lang, 4)
    even = tuple(
        report.RankLateness(rank=rank, lateness_ns=(1000 * rank,) * 8, wait_ns=(5000,) * 8)
        for rank in range(4)
    )
    return replace(
        whole,
        stragglers=(),
        lateness=replace(whole.lateness, rows=even) if whole.lateness else None,
        imbalance=None,
        replay=report.Replay(
            status="withheld",
            error_share=0.2,
            num_steps=8,
            why="the untouched replay misses a step by 20 %",
        ),
    )


def not_comparable(lang: Lang = "en") -> report.Report:
    """Two ranks without a common axis: who is late is not told, and no map is drawn."""
    whole = job(lang, 2)
    alone = tuple(report.RankClock(rank=rank, method="none") for rank in range(2))
    return replace(
        whole,
        clocks=report.Clocks(ranks=alone),
        collectives=(),
        stragglers=(),
        lateness=report.Lateness(status="withheld", why="no synchronising collective was matched"),
        rank_map=None,
        imbalance=None,
        replay=None,
    )
