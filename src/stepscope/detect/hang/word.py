"""Lines of alarms of jobs that stand still, in both languages. What is true was decided elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model.standing import Standing
from stepscope.model.text import Text

PHASE_ZH = {
    "init": "初始化", "data": "取数据", "forward": "前向", "backward": "反向", "optimizer": "优化器",
    "checkpoint": "检查点", "eval": "评测", "logging": "日志", "other": "其他阶段", "gc": "垃圾回收",
    "compile": "编译", "communication": "通信", "profiler": "分析器",
}  # fmt: skip
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Still:
    """What is told of a job that stands still: where the guilty are (`odd`, empty where nobody is elsewhere
    than the others), where the `others` are; `unheard` hosts whose agents say nothing; `spins` the share of
    the usual power at which a device is busy."""

    silence_s: float
    bound_s: float
    odd: Sequence[Standing]
    others: Sequence[Standing]
    ended: Sequence[int]
    unheard: Sequence[str]
    spins: float | None


def still(of: Still) -> Text:
    """A job makes no steps any more."""
    en = f"no step for {of.silence_s:.0f} s (the bound is {of.bound_s:.0f} s)"
    zh = f"已 {of.silence_s:.0f} 秒没有新的步（界限 {of.bound_s:.0f} 秒）"
    parts = [place(of.odd or of.others)]
    if of.odd and of.others:
        parts.append(place(of.others))
    if of.ended:
        parts.append(
            Text(
                en=f"{_ranks(of.ended)} {_are(of.ended)} not there any more",
                zh=f"{_ranks(of.ended)} 已不在",
            )
        )
    if of.unheard:
        names = ", ".join(of.unheard[:MOST_NAMED])
        parts.append(Text(en=f"nothing is heard of {names}", zh=f"{names} 没有消息"))
    if of.spins is not None:
        share = f"{100 * of.spins:.0f} %"
        parts.append(
            Text(
                en=f"devices are busy at {share} of their usual power: they wait in a collective",
                zh=f"设备忙碌但功耗仅为平时的 {share}：正在集合通信中等待",
            )
        )
    known = [each for each in parts if each.en]
    return Text(
        en=f"{en}: {', '.join(each.en for each in known)}" if known else en,
        zh=f"{zh}：{'，'.join(each.zh for each in known)}" if known else zh,
    )


def place(stands: Sequence[Standing]) -> Text:
    """Who is where, by groups of one place; empty of nobody."""
    groups: dict[object, list[Standing]] = {}
    for each in stands:
        groups.setdefault(each.place, []).append(each)
    said = [_group(group) for group in list(groups.values())[:MOST_NAMED]]
    more = len(groups) - len(said)
    return Text(
        en=", ".join(each.en for each in said) + (f" and {more} places more" if more else ""),
        zh="，".join(each.zh for each in said) + (f" 等，另有 {more} 处" if more else ""),
    )


def _group(group: Sequence[Standing]) -> Text:
    first = group[0]
    ranks = [each.rank for each in group if each.rank is not None]
    who = _ranks(ranks) if len(ranks) == len(group) else "it"
    is_ = _are(ranks) if who != "it" else "is"
    phase = first.phase or "no phase"
    zh = PHASE_ZH.get(phase, phase) if first.phase else "任何阶段之外"
    if first.step is not None:
        return Text(
            en=f"{who} {is_} in {phase} of step {first.step}", zh=f"{who} 停在第 {first.step} 步的{zh}"
        )
    if first.last_step is not None:
        if first.phase is None:
            return Text(
                en=f"{who} {is_} after step {first.last_step}", zh=f"{who} 停在第 {first.last_step} 步之后"
            )
        return Text(
            en=f"{who} {is_} in {phase} after step {first.last_step}",
            zh=f"{who} 停在第 {first.last_step} 步之后的{zh}",
        )
    return Text(en=f"{who} {is_} in {phase} before its first step", zh=f"{who} 停在首步之前（{zh}）")


def gone(ranks: Sequence[int], where: Text) -> Text:
    """Processes that are gone and never said that they end."""
    who = _ranks(ranks) if ranks else "a process"
    is_ = _are(ranks) if ranks else "is"
    return Text(
        en=f"{who} {is_} gone without saying so: killed, or crashed; at the last mark {where.en}",
        zh=f"{who} 未声明结束即消失：被终止或崩溃；最后的标记：{where.zh}",
    )


def never(seconds: float, missing: Sequence[int], where: Text) -> Text:
    """No rank made a step since the run began."""
    en = f"no step since the run began {seconds:.0f} s ago"
    zh = f"自运行开始 {seconds:.0f} 秒以来没有一步"
    if missing:
        en, zh = f"{en}; {_ranks(missing)} never began to mark", f"{zh}；{_ranks(missing)} 从未开始标记"
    return Text(en=f"{en}: {where.en}" if where.en else en, zh=f"{zh}：{where.zh}" if where.zh else zh)


def unheard(host: str, seconds: float) -> Text:
    """An agent that says nothing."""
    return Text(
        en=f"nothing was heard of the agent of {host} for {seconds:.0f} s: what its ranks do is not known",
        zh=f"{host} 的 agent 已 {seconds:.0f} 秒没有消息：其上各 rank 的状况未知",
    )


def _ranks(ranks: Sequence[int]) -> str:
    numbers = sorted(ranks)
    shown = ", ".join(map(str, numbers[:MOST_NAMED]))
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {shown}{more}"


def _are(ranks: Sequence[int]) -> str:
    return "is" if len(ranks) == 1 else "are"
