"""A table of step times in a report: who is slower than its peers, and the answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from stepscope.detect.peer import Gate, against_peers, by_ratio
from stepscope.diagnose import late as late_map
from stepscope.model import report
from stepscope.model.table import StepTimes
from stepscope.model.text import Lang, Text, percent

Answer = tuple[report.VerdictClass, Text]


def of_steps(told: report.Report, table: StepTimes, lang: Lang) -> tuple[report.Report, Answer]:
    """The report with its stragglers and lateness, and the answer."""
    gate = by_ratio(table.duration)
    typical = float(np.nanmedian(table.duration))
    late = {each.rank: np.array(each.steps) for each in gate.deviants}
    ordered = np.sort(np.where(np.isfinite(table.duration), table.duration, -np.inf), axis=0)
    total = float(np.where(np.isfinite(ordered[-1]), ordered[-1], 0).sum())
    behind = table.duration - against_peers(table.duration)
    stragglers = []
    for each in gate.deviants:
        columns = late[each.rank]
        second = ordered[-2, columns]
        mine = table.duration[each.rank, columns]
        cost = float(np.maximum(mine - np.where(np.isfinite(second), second, mine), 0).sum())
        stragglers.append(
            report.Straggler(
                rank=table.ranks[each.rank],
                lateness_ns=round(float(np.median(behind[each.rank, columns]))) if table.is_ns else None,
                lateness_share=float(np.expm1(each.excess)),
                cost_ns=round(cost) if table.is_ns else None,
                persistence=gate.persistence,
                reason="unknown",
                share=cost / total if total > 0 else None,
                num_steps=int(np.isfinite(table.duration[each.rank]).sum()),
                num_late=len(columns),
                late_steps=tuple(table.steps[column] for column in columns[: late_map.MOST_STEPS].tolist()),
            )
        )
    can_tell = not (gate.why and not gate.deviants)
    lateness = report.Lateness(
        status="ok" if can_tell else "withheld",
        noise_ns=round(gate.noise * typical) if table.is_ns else None,
        noise_share=gate.noise,
        why=_why(gate, table, lang),
        steps=tuple(table.steps[column] for column in late_map.columns(gate.late)) if table.is_ns else (),
        rows=late_map.rows(table.ranks, behind, ordered[-1] - table.duration, gate.late)
        if table.is_ns
        else (),
    )
    filled = msgspec.structs.replace(told, stragglers=tuple(stragglers), lateness=lateness)
    return filled, _answer(stragglers, lateness, gate, table)


def _why(gate: Gate, table: StepTimes, lang: Lang) -> str | None:
    """Why nobody can be named, or what is seen beside."""
    if gate.slower_kind:
        who = ", ".join(str(table.ranks[row]) for row in gate.slower_kind)
        return Text(
            en=f"workers {who} are always a little slower than the rest: another kind of machine or role, "
            "which is not called a straggler",
            zh=f"worker {who} 始终比其余略慢：机器类型或角色不同，不视为落后者",
        ).in_(lang)
    return gate.why


def _answer(
    stragglers: Sequence[report.Straggler], lateness: report.Lateness, gate: Gate, table: StepTimes
) -> Answer:
    noise = percent(gate.noise)
    if lateness.status == "withheld":
        return "undecided", Text(
            en=f": who is slow cannot be told: {gate.why}", zh=f"：无法判断谁慢：{gate.why}"
        )
    if not stragglers:
        num = len(table.ranks)
        return "undecided", Text(
            en=f": none of {num} workers differs from its peers beyond the noise of {noise}; why "
            "steps take as long as they do, a table of their times cannot tell",
            zh=f"：{num} 个 worker 中没有一个超出 {noise} 的噪声；步时表无法说明步本身为何这么长",
        )
    first = stragglers[0]
    if len(stragglers) == 1:
        assert first.lateness_share is not None
        steps = first.late_steps
        is_whole = first.num_late == len(steps)
        until = (f" to {steps[-1]}", f" 至 {steps[-1]}") if is_whole else (" on", " 起")
        return "other-stall", Text(
            en=f": worker {first.rank} takes {percent(first.lateness_share)} longer than its peers in "
            f"{first.num_late} of {first.num_steps} steps ({steps[0]}{until[0]}); noise {noise}",
            zh=f"：worker {first.rank} 在 {first.num_steps} 步中的 {first.num_late} 步"
            f"（{steps[0]}{until[1]}）比同伴慢 {percent(first.lateness_share)}；噪声 {noise}",
        )
    who = ", ".join(str(rank) for rank in sorted(each.rank for each in stragglers))
    shares = [each.lateness_share or 0.0 for each in stragglers]
    how = (" in turn", "轮流") if gate.persistence == "moving" else ("", "")
    return "other-stall", Text(
        en=f": workers {who} are slower than their peers{how[0]}, by {percent(min(shares))} to "
        f"{percent(max(shares))}; noise {noise}",
        zh=f"：worker {who} {how[1]}比同伴慢 {percent(min(shares))} 至 {percent(max(shares))}；噪声 {noise}",
    )
