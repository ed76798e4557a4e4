"""What dumps of the flight recorder say: who did not enter a collective, and who called another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stepscope.analyse.stuck.word import frame_of, ranks_en
from stepscope.model.stuck import Accused, Call, Flight, Group

SAME_SIZES = frozenset(
    {
        "all_reduce", "broadcast", "reduce", "all_gather", "_all_gather_base", "all_gather_into_tensor",
        "_reduce_scatter_base", "reduce_scatter_tensor", "all_reduce_barrier", "allreduce", "_allgather_base",
    }
)  # fmt: skip
"""Collectives in which every rank gives as many elements: others may differ rightly."""
ROOTED = frozenset({"gather", "scatter", "_broadcast_oop", "_reduce_oop"})
"""Of these the root has tensors that the others have not: types do not compare."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first collective of a group that is not over. `absent` never entered it, `mismatched` call another
    one; `waiting` are in it. `unknown` are members of whom there is no dump."""

    group: Group
    sequence: int
    call: Call | None
    """As most of those that entered call it; `None` where its record is gone."""
    waiting: tuple[int, ...]
    absent: tuple[int, ...]
    mismatched: tuple[int, ...]
    unknown: tuple[int, ...]
    calls: dict[int, Call]
    """What each rank calls there, as far as it is recorded."""
    differs: Literal["", "op", "sizes", "types"] = ""
    since_ns: int | None = None

    @property
    def is_told(self) -> bool:
        return bool(self.absent or self.mismatched)


def blocked(flights: Sequence[Flight]) -> list[Blocked]:
    """Of each group the collective that holds it up, those that tell most first; empty where all are over."""
    ranked = [each for each in flights if each.rank is not None]
    names = dict.fromkeys(
        name for each in ranked for name in (*(c.group for c in each.calls if not c.is_p2p), *each.enqueued)
    )
    found = [one for name in names if (one := _of_group(name, ranked)) is not None]
    # What began to wait first is what the rest follow from.
    return sorted(found, key=lambda each: (not each.is_told, each.since_ns or 0))


def _of_group(name: str, flights: Sequence[Flight]) -> Blocked | None:
    known = [each.groups[name] for each in flights if name in each.groups]
    members = max((each.ranks for each in known), key=len, default=())
    group = next((each for each in known if each.description), known[0] if known else Group(name))
    mine = {
        each.rank: each
        for each in flights
        if each.rank is not None and (each.rank in members if members else each.last(name) is not None)
    }
    last = {rank: each.last(name) for rank, each in mine.items()}
    if len(mine) < 2 or all(value is None for value in last.values()):
        return None
    mismatch = _first_mismatch(name, mine)
    first = _first_open(name, mine)
    if first is None and mismatch is None:
        return None
    sequence = min(value for value in (first, mismatch) if value is not None)
    calls = {rank: call for rank, each in mine.items() if (call := _call(name, each, sequence)) is not None}
    usual, odd, differs = _odd(calls)
    absent = tuple(sorted(rank for rank, value in last.items() if value is None or value < sequence))
    waiting = tuple(sorted(rank for rank in mine if rank not in absent and rank not in odd))
    times = [call.created_ns for call in calls.values() if call.created_ns is not None]
    return Blocked(
        group=group,
        sequence=sequence,
        call=usual,
        waiting=waiting,
        absent=absent,
        mismatched=odd,
        unknown=tuple(sorted(set(members) - set(mine))),
        calls=calls,
        differs=differs,
        since_ns=min(times, default=None),
    )


def _call(name: str, flight: Flight, sequence: int) -> Call | None:
    """The call of a sequence; of several (coalesced into one) the last."""
    mine = [c for c in flight.calls if c.group == name and c.sequence == sequence and not c.is_p2p]
    return mine[-1] if mine else None


def _first_open(name: str, mine: dict[int, Flight]) -> int | None:
    """The first sequence that any rank is in and has not left. `None`: there is none."""
    found = []
    for each in mine.values():
        done = each.completed.get(name, -1)
        found += [
            call.sequence
            for call in each.calls
            if call.group == name and not call.is_p2p and not call.is_done and call.sequence > done
        ]
    return min(found, default=None)


def _first_mismatch(name: str, mine: dict[int, Flight]) -> int | None:
    """The first sequence that two ranks recorded and that is not the same call. Records before the first that
    all still have say nothing: buffers are reused."""
    columns = [
        {call.sequence: call for call in each.calls if call.group == name and not call.is_p2p}
        for each in mine.values()
    ]
    shared = sorted({n for column in columns for n in column})
    for sequence in shared:
        calls = {place: column[sequence] for place, column in enumerate(columns) if sequence in column}
        if len(calls) > 1 and _odd(calls)[1]:
            return sequence
    return None


def _odd(calls: dict[int, Call]) -> tuple[Call | None, tuple[int, ...], Literal["", "op", "sizes", "types"]]:
    """(what most call, those who call something else, in what). Of two halves both are odd."""
    if not calls:
        return None, (), ""
    kinds: tuple[Literal["op", "sizes", "types"], ...] = ("op", "sizes", "types")
    for kind in kinds:
        groups: dict[object, list[int]] = {}
        for rank, call in calls.items():
            value = _trait(call, kind)
            if value is not None:
                groups.setdefault(value, []).append(rank)
        if len(groups) > 1:
            most = max(groups.values(), key=len)
            known = sum(map(len, groups.values()))
            has_majority = 2 * len(most) > known
            odd = [r for ranks in groups.values() if not (has_majority and ranks is most) for r in ranks]
            return calls[most[0]], tuple(sorted(odd)), kind
    return next(iter(calls.values())), (), ""


def _trait(call: Call, kind: str) -> object:
    """What must be alike in a kind of call; `None` where it need not, or is not known."""
    if kind == "op":
        return call.op
    if kind == "sizes":
        return call.input_sizes if call.op in SAME_SIZES else None
    return call.input_types if call.op not in ROOTED and call.input_types else None


def witness(flights: Sequence[Flight]) -> tuple[Accused | None, Blocked | None]:
    """Whom the dumps accuse, `None` without dumps; and the collective that it is about."""
    if not flights:
        return None, None
    found = blocked(flights)
    if not found:
        en = "the flight recorder: every collective that a rank entered is over on all of them"
        return Accused("flight", (), en, "飞行记录器：各 rank 进入的集合通信均已完成"), None
    first, missing = _root(found)
    name = f"{first.call.op if first.call is not None else 'collective'} #{first.sequence}"
    of, of_zh = f"{name} of group {first.group}", f"组 {first.group} 的 {name}"
    if first.mismatched:
        return _of_mismatch(first, of, of_zh), first
    # Nobody can be accused for a rank whose dump is not here: it may be the one that the others wait for.
    if missing:
        where = frame_of(first.call.frames) if first.call is not None else None
        who, wait = ranks_en(missing), ranks_en(first.waiting)
        en = f"the flight recorder: {who} did not enter {of}, {wait} wait in it"
        zh = f"飞行记录器：{who} 未进入{of_zh}，{wait} 在其中等待"
        if where is not None:
            en, zh = f"{en} at {where}", f"{zh}（{where}）"
        return Accused("flight", missing, en, zh), first
    if first.unknown:
        en = (
            f"the flight recorder: {ranks_en(first.waiting)} wait in {of}; "
            f"of {ranks_en(first.unknown)} there is no dump"
        )
        zh = f"飞行记录器：{ranks_en(first.waiting)} 在{of_zh}中等待；缺少 {ranks_en(first.unknown)} 的转储"
        return Accused("flight", (), en, zh), first
    en = f"the flight recorder: all of {ranks_en(first.waiting)} entered {of}, and it does not end"
    return Accused(
        "flight", (), en, f"飞行记录器：{ranks_en(first.waiting)} 均已进入{of_zh}，但没有结束"
    ), first


def _root(found: Sequence[Blocked]) -> tuple[Blocked, tuple[int, ...]]:
    """(the collective that the rest follow from, those that did not come to it). Ranks that did not come
    since they wait in another one lead to that other one; where that goes round in a circle, the first that
    began to wait counts."""
    one, seen = found[0], [found[0]]
    while one.absent:
        elsewhere = [each for each in found if each is not one and each.is_told]
        idle = set(one.absent) - {rank for each in elsewhere for rank in each.waiting}
        if idle:
            return one, tuple(sorted(idle))
        following = next((each for each in elsewhere if set(one.absent) & set(each.waiting)), None)
        if following is None or any(each is following for each in seen):
            return found[0], found[0].absent
        seen.append(following)
        one = following
    return one, one.absent


def _of_mismatch(first: Blocked, of: str, of_zh: str) -> Accused:
    """Who calls something else. Of two halves nobody is accused."""
    named = first.mismatched[:4]
    en = ", ".join(f"rank {rank} calls {_called(first.calls[rank], first.differs)}" for rank in named)
    zh = "，".join(f"rank {rank} 调用 {_called(first.calls[rank], first.differs)}" for rank in named)
    if first.waiting:
        usual = _called(first.call, first.differs)
        en, zh = f"{en}; {ranks_en(first.waiting)} {usual}", f"{zh}；{ranks_en(first.waiting)} 调用 {usual}"
    return Accused(
        "flight",
        first.mismatched if first.waiting else (),
        f"the flight recorder, {of}: {en}",
        f"飞行记录器，{of_zh}：{zh}",
        is_mismatch=True,
    )


def _called(call: Call | None, differs: str) -> str:
    if call is None:
        return "another one"
    if differs == "sizes":
        sizes = "+".join("×".join(map(str, each)) or "1" for each in call.input_sizes or ())
        return f"{call.op} of {sizes or 'nothing'}"
    if differs == "types":
        return f"{call.op} of {', '.join(call.input_types or ())}"
    where = frame_of(call.frames)
    return f"{call.op} at {where}" if where is not None else call.op
