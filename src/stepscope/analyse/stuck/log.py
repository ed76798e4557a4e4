"""What watchdogs of collectives say in logs: who waited in which collective, and who had not come so far."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepscope.analyse.stuck.word import ranks_en
from stepscope.model.log import Log
from stepscope.model.stuck import Accused

_OP = re.compile(r"OpType=(\w{1,40})")


def witness(logs: Sequence[Log], known: Sequence[int] = ()) -> Accused | None:
    """Whom the lines accuse: a rank that had enqueued less than the others wait for, one that waited in
    another operation of the same number, or the only ones of the `known` that never waited. `None` without
    lines of ranks."""
    waited: dict[int, tuple[int, str | None]] = {}
    enqueued: dict[int, int] = {}
    for event in (e for log in logs for e in log.events if e.what == "nccl_watchdog"):
        sequence = event.numbers.get("sequence")
        if event.rank is None or sequence is None:
            continue
        op = _OP.search(event.text)
        earlier = waited.get(event.rank)
        if earlier is None or sequence <= earlier[0]:
            waited[event.rank] = (int(sequence), op[1] if op else earlier[1] if earlier else None)
        last = event.numbers.get("last_enqueued")
        if last is not None:
            enqueued[event.rank] = max(int(last), enqueued.get(event.rank, -1))
    if not waited:
        return None
    most = max(sequence for sequence, _ in waited.values())
    names = dict.fromkeys(op for _, op in waited.values() if op)
    what = f"{'/'.join(names) or 'collective'} #{most}"
    en, zh = f"watchdogs: {ranks_en(list(waited))} timed out", f"看门狗：{ranks_en(list(waited))} 超时"
    behind = tuple(sorted(rank for rank, last in enqueued.items() if last < most))
    if behind and len(behind) < len(waited):
        return Accused(
            "watchdog", behind, f"{en}; {ranks_en(behind)} had not entered {what}",
            f"{zh}；{ranks_en(behind)} 未进入 {what}",
        )  # fmt: skip
    odd = _odd(waited)
    if odd:
        return Accused(
            "watchdog", odd, f"{en} in #{most}; {ranks_en(odd)} in another operation than the others",
            f"{zh}（#{most}）；{ranks_en(odd)} 的操作与其余不同", is_mismatch=True,
        )  # fmt: skip
    silent = tuple(sorted(set(known) - set(waited)))
    if silent and len(silent) < len(waited):
        return Accused(
            "watchdog", silent, f"{en} in {what}; {ranks_en(silent)} never waited in it",
            f"{zh}（{what}）；{ranks_en(silent)} 从未在其中等待",
        )  # fmt: skip
    return Accused("watchdog", (), f"{en} in {what}", f"{zh}（{what}）")


def _odd(waited: dict[int, tuple[int, str | None]]) -> tuple[int, ...]:
    """Those in another operation than more than half are."""
    ops: dict[str, list[int]] = {}
    for rank, (_, op) in waited.items():
        if op is not None:
            ops.setdefault(op, []).append(rank)
    if len(ops) < 2:
        return ()
    most = max(ops.values(), key=len)
    if 2 * len(most) <= sum(map(len, ops.values())):
        return ()
    return tuple(sorted(rank for ranks in ops.values() if ranks is not most for rank in ranks))
