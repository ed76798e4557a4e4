"""Where a job that stands still, or was killed, was by its marks: which rank the others wait for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.diagnose import word
from stepscope.diagnose.card import runs
from stepscope.model.standing import Standing, elsewhere
from stepscope.model.text import Text


def accused_ranks(stands: Sequence[Standing]) -> tuple[int, ...]:
    """The ranks that the others wait for by their marks, by number; else those that are gone."""
    gone = [each for each in stands if each.is_alive is False]
    return tuple(sorted(each.rank for each in elsewhere(stands) or gone if each.rank is not None))


def where(stands: Sequence[Standing]) -> Text | None:
    """`rank 1 is in forward of step 96, the others in optimizer`; `None` of no rank."""
    if not stands:
        return None
    is_alive = any(each.is_alive for each in stands)
    odd = elsewhere(stands)
    here = odd or tuple(stands)
    others = [each for each in stands if each not in here]
    is_one = len({each.place for each in here}) == 1
    if not is_one:
        parts = [_said([each], is_alive) for each in here[:MOST_NAMED]]
        more = len(here) - len(parts)
        en, zh = ", ".join(part.en for part in parts), "，".join(part.zh for part in parts)
        first = Text(
            en=f"{en}{f' and {more} more' if more else ''}", zh=f"{zh}{f' 等 {len(here)} 个' if more else ''}"
        )
    else:
        first = _said(here, is_alive)
    places = {each.place for each in others}
    if not others:
        return first
    if len(places) > 1:
        return Text(en=f"{first.en}, the others elsewhere", zh=f"{first.zh}，其余在别处")
    place = _place(others[0], is_same_step=is_one and others[0].step == here[0].step)
    return Text(en=f"{first.en}, the others {place.en}", zh=f"{first.zh}，其余{place.zh}")


MOST_NAMED = 4
"""Ranks that are told one by one where each is in a place of its own."""


def _said(here: Sequence[Standing], is_alive: bool) -> Text:
    """Who is where, of ranks in one place."""
    place = _place(here[0])
    ranks = sorted(each.rank for each in here if each.rank is not None)
    is_gone = is_alive and all(each.is_alive is False for each in here)
    is_, war = ("was killed", "被终止于") if is_gone else ("is", "停在") if is_alive else ("was", "最后在")
    if not ranks or len(ranks) < len(here):
        return Text(en=f"it {is_} {place.en}", zh=f"它{war}{place.zh.removeprefix('在')}")
    are = is_ if len(ranks) == 1 else {"is": "are", "was": "were", "was killed": "were killed"}[is_]
    names = runs(ranks)
    of = "rank" if len(ranks) == 1 else "ranks"
    zh = "、".join(names)
    return Text(
        en=f"{of} {', '.join(names)} {are} {place.en}", zh=f"rank {zh} {war}{place.zh.removeprefix('在')}"
    )


def _place(of: Standing, *, is_same_step: bool = False) -> Text:
    """In which phase of which step, or between which steps."""
    if of.step is None:
        if of.phase is not None:
            phase = word.phase(of.phase)
            if of.last_step is None:
                return Text(en=f"in {phase.en} before its first step", zh=f"在首步之前的{phase.zh}")
            return Text(
                en=f"in {phase.en} after step {of.last_step}", zh=f"在第 {of.last_step} 步之后的{phase.zh}"
            )
        if of.last_step is None:
            return Text(en="before its first step", zh="在首步之前")
        return Text(en=f"after step {of.last_step}", zh=f"在第 {of.last_step} 步之后")
    if of.phase is None:
        return Text(en=f"in no phase of step {of.step}", zh=f"在第 {of.step} 步的任何阶段之外")
    phase = word.phase(of.phase)
    if is_same_step:
        return Text(en=f"in {phase.en}", zh=f"在{phase.zh}")
    return Text(en=f"in {phase.en} of step {of.step}", zh=f"在第 {of.step} 步的{phase.zh}")
