"""A pipeline's timeline in a report: bad workers, why work is uneven, what a change would win. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from stepscope.analyse.pipeline.imbalance import Uneven, stage_of, work_by_step
from stepscope.analyse.pipeline.whatif import Played, played, without_ranks
from stepscope.analyse.replay.graph import CycleError
from stepscope.detect.peer import against_peers, by_ratio
from stepscope.diagnose import late as late_map
from stepscope.model import report
from stepscope.model.table import Timeline
from stepscope.model.text import Lang, Text, percent

LEAST_SLOWDOWN = 1.05
"""Below 5 % an uneven job is no answer to why steps are slow: the same share as of any finding."""
MOST_ERROR = 0.05
"""Where the untouched replay misses by more, nothing is predicted from it."""

Answer = tuple[report.VerdictClass, Text]


def of_timeline(told: report.Report, table: Timeline, lang: Lang) -> tuple[report.Report, Answer]:
    """The report with stragglers, lateness, imbalance and replay, and the answer."""
    try:
        play = played(table)
    except CycleError as error:
        what = Text(
            en=f": the timeline contradicts itself ({error})",
            zh=f"：时间线自相矛盾（{error}）",
        )
        return told, ("undecided", what)
    stragglers, lateness = _late_workers(table, play)
    why = _why_uneven(play)
    uneven = play.uneven
    imbalance = report.Imbalance(
        class_=uneven.class_,
        why=why.in_(lang),
        slowdown=play.slowdown,
        ranks=uneven.ranks or _of_stage(play, uneven),
        stage=uneven.stage,
        forward_backward_correlation=uneven.correlation,
        micro_batch_variation=uneven.variation,
        bubble_share=play.bubble_share,
    )
    filled = msgspec.structs.replace(
        told, stragglers=stragglers, lateness=lateness, imbalance=imbalance, replay=_replay(play)
    )
    return filled, _answer(play, stragglers)


def _of_stage(play: Played, uneven: Uneven) -> tuple[int, ...]:
    """The ranks of the heaviest stage; nobody for other classes."""
    if uneven.class_ != "stage":
        return ()
    return tuple(np.unique(play.passes.rank[play.passes.stage == uneven.stage]).tolist())


def _late_workers(table: Timeline, play: Played) -> tuple[tuple[report.Straggler, ...], report.Lateness]:
    """Workers that compute longer than the others of their stage, and the map of it."""
    ranks, steps, work = work_by_step(play.passes)
    places = stage_of(play.passes)
    stages = np.array([places[rank][0] for rank in ranks.tolist()], dtype=np.int64)
    behind = np.full(work.shape, np.nan)
    late = np.zeros(work.shape, dtype=bool)
    found: dict[int, tuple[int, ...]] = {}
    noises: list[float] = []
    lacks: str | None = None
    moving: report.Persistence = "unknown"
    for stage in np.unique(stages):
        rows = np.flatnonzero(stages == stage)
        gate = by_ratio(work[rows])
        behind[rows], late[rows] = work[rows] - against_peers(work[rows]), gate.late
        noises.append(gate.noise)
        lacks = gate.why if gate.why and not gate.deviants else lacks
        for each in gate.deviants:
            found[int(ranks[rows[each.rank]])] = each.steps
            moving = gate.persistence if moving != "moving" else moving
    for rank in play.uneven.ranks:
        row = int(np.searchsorted(ranks, rank))
        found.setdefault(rank, tuple(np.flatnonzero(behind[row] > 0).tolist()))
    gains = without_ranks(table, play, sorted(found)) if found else []
    stragglers = []
    for gain in gains:
        rank = gain.ranks[0]
        row, columns = int(np.searchsorted(ranks, rank)), np.array(found[rank])
        stragglers.append(
            report.Straggler(
                rank=rank,
                lateness_ns=round(float(np.nanmedian(behind[row, columns]))),
                lateness_share=float(np.nanmedian(behind[row, columns] / (work[row] - behind[row])[columns])),
                cost_ns=play.won_ns(gain),
                persistence=moving if moving != "unknown" else "persistent",
                reason="slower_kernels",
                share=play.won_ns(gain) / max(int(play.tight_ns.sum()), 1),
                num_steps=int(np.isfinite(work[row]).sum()),
                num_late=len(columns),
                late_steps=tuple(steps[columns[: late_map.MOST_STEPS]].tolist()),
                stage=places[rank][0],
                data_parallel_rank=places[rank][1],
            )
        )
    wait = np.zeros(work.shape)
    at = np.searchsorted(ranks, table.rank), np.searchsorted(steps, table.step)
    inside = np.isin(table.rank, ranks) & np.isin(table.step, steps)
    np.add.at(wait, (at[0][inside], at[1][inside]), play.dependencies.wait_ns[inside])
    wait[~np.isfinite(work)] = np.nan
    can_tell = bool(found) or lacks is None
    noise = float(np.median(noises)) if noises else None
    lateness = report.Lateness(
        status="ok" if can_tell else "withheld",
        noise_ns=round(noise * float(np.nanmedian(work))) if noise is not None else None,
        noise_share=noise,
        why=None if can_tell else lacks,
        steps=tuple(steps[late_map.columns(late)].tolist()) if len(steps) else (),
        rows=late_map.rows(ranks.tolist(), behind, wait, late) if len(steps) else (),
    )
    return tuple(sorted(stragglers, key=lambda each: -(each.cost_ns or 0))), lateness


def _replay(play: Played) -> report.Replay:
    """What the replay wins without each cause, by what it wins."""
    step = round(float(play.replayed_ns.mean()))
    is_sound = play.error_share <= MOST_ERROR

    def row(remove: str, ranks: tuple[int, ...], won_ns: float) -> report.WhatIf:
        won = max(won_ns / len(play.steps), 0.0)
        return report.WhatIf(
            remove=remove,
            step_ns=step,
            predicted_ns=round(step - won),
            gain_share=won / max(step, 1),
            ranks=ranks,
        )

    rows = [row(gain.remove, gain.ranks, play.won_ns(gain)) for gain in play.gains]
    rows.append(row("imbalance", (), float((play.tight_ns - play.even_ns).sum())))
    rows.append(row("launch", (), float((play.replayed_ns - play.tight_ns).sum())))
    whole = max(sum(time for _, _, time in play.path), 1)
    path = tuple(
        report.PathPart(part=part, time_ns=time, share=time / whole, rank=rank)
        for part, rank, time in play.path[:20]
    )
    odd = play.dependencies.num_contradicted
    return report.Replay(
        status=("degraded" if odd else "ok") if is_sound else "withheld",
        error_share=play.error_share,
        num_steps=len(play.steps),
        what_if=tuple(sorted(rows, key=lambda each: -each.gain_share)) if is_sound else (),
        critical_path=path if is_sound else (),
        why=None if is_sound and not odd else f"{odd} transfers end before their peer begins",
    )


def _why_uneven(play: Played) -> Text:
    """The figures that decide."""
    u = play.uneven
    figures = [
        ("slowest worker against its stage", "最慢 worker 与同 stage 之比", u.worker_ratio),
        ("variation of one worker's micro-batches", "单个 worker 各 micro-batch 的变异系数", u.variation),
        ("correlation of forward and backward", "前向与反向的相关系数", u.correlation),
        ("heaviest stage against the others", "最重 stage 与其余之比", u.stage_ratio),
    ]
    known = [(en, zh, value) for en, zh, value in figures if value is not None]
    return Text(
        en=", ".join([f"{en} {value:.2f}" for en, _, value in known] + [f"slowdown {play.slowdown:.2f}"]),
        zh="，".join([f"{zh} {value:.2f}" for _, zh, value in known] + [f"放慢 {play.slowdown:.2f}"]),
    )


def _answer(play: Played, stragglers: Sequence[report.Straggler]) -> Answer:
    if len(np.unique(play.passes.rank)) < 2:
        return "undecided", Text(
            en=": the timeline holds a single worker, and there is nobody to hold it against",
            zh="：时间线中只有一个 worker，无从比较",
        )
    u = play.uneven
    times = f"{play.slowdown:.2f}"
    wait = percent(play.bubble_share)
    if play.slowdown < LEAST_SLOWDOWN:
        more = percent(max(play.slowdown - 1, 0.0))
        return "healthy", Text(
            en=f": workers are even to {more} of the step; they wait for neighbouring stages {wait} of it",
            zh=f"：各 worker 均衡，仅差 {more}；等待相邻 stage 占 {wait}",
        )
    if u.class_ == "bad_worker":
        first = next(each for each in stragglers if each.rank == u.ranks[0])
        others = f" (and {len(u.ranks) - 1} more)" if len(u.ranks) > 1 else ""
        place = f"{first.data_parallel_rank}", f"{first.stage}"
        ratio = f"{dict(u.ratios)[first.rank]:.2f}"
        return "computing-slowly", Text(
            en=f": rank {first.rank}{others} (replica {place[0]}, stage {place[1]}) takes {ratio} times as "
            f"long as the others of its stage, and the job {times} times its even step",
            zh=f"：rank {first.rank}（副本 {place[0]}，stage {place[1]}）耗时为同 stage 其余的 {ratio} 倍，"
            f"作业每步为均衡时的 {times} 倍",
        )
    if u.class_ == "sequence_length":
        spread = percent(u.variation or 0.0)
        return "waiting-for-communication", Text(
            en=f": workers wait for whoever drew the longest sequences, and a step takes {times} times the "
            f"even one; micro-batches vary by {spread}",
            zh=f"：各 worker 等待抽到最长序列者，每步为均衡时的 {times} 倍；micro-batch 变异 {spread}",
        )
    if u.class_ == "stage":
        heavy = f"{u.stage_ratio or 0.0:.2f}"
        return "waiting-for-communication", Text(
            en=f": all stages wait for stage {u.stage}, which takes {heavy} times as long as the others; a "
            f"step takes {times} times the even one",
            zh=f"：所有 stage 等待 stage {u.stage}（耗时为其余的 {heavy} 倍）；每步为均衡时的 {times} 倍",
        )
    return "undecided", Text(
        en=f": a step takes {times} times the even one, and neither one worker, nor sequences, nor a stage "
        "explains it",
        zh=f"：每步为均衡时的 {times} 倍，但并非由单个 worker、序列长度或某个 stage 造成",
    )
