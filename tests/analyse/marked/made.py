"""Marks by hand: a line a step, such as `d20 f10 b20 o5`, and jobs of several ranks that wait for each other.

Letters are phases, numbers milliseconds: d data, f forward, b backward (ranks meet in it), o optimizer, c
checkpoint, e evaluation, l logging, g garbage collection, k compilation, m communication (a meeting), _ host
time in no phase, | the mark of the step's own beginning. `f10(g3)` nests a phase at the end of another.
Steps tile where no line has a bar; a bar leaves what is before it between the steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
from stepscope.model.mark import PHASES, Identity, Phases, RankMarks, Steps
from stepscope.rules import load_catalog

MS = 1_000_000
BEGIN_NS = 1_790_000_000_000_000_000
PHASE = {
    "d": "data",
    "f": "forward",
    "b": "backward",
    "o": "optimizer",
    "c": "checkpoint",
    "e": "eval",
    "l": "logging",
    "g": "gc",
    "k": "compile",
    "m": "communication",
}
MEETS = "bm"
CATALOG = load_catalog(others=())
_TOKEN = re.compile(r"(\|)|([a-z_])(\d+(?:\.\d+)?)(\([^)]*\))?")


def job(
    lines: Sequence[Sequence[str]],
    *,
    apart_ns: Sequence[int] | None = None,
    hosts: Sequence[str] | None = None,
    flags: Mapping[int, str] | None = None,
    numbers: Sequence[int] | None = None,
    meets: str = MEETS,
    jitter_ns: int = 0,
    seed: int = 0,
) -> list[RankMarks]:
    """The marks of ranks whose steps these lines are. Each meeting ends when the last rank has come and the
    longest has done its part. `apart_ns` is by how much each rank's wall clock is ahead; `flags` step place
    -> `shadow`, `captured` or `stalled`."""
    num = len(lines)
    random = np.random.default_rng(seed)
    now = [BEGIN_NS] * num
    steps: list[list[tuple[int, int, int]]] = [[] for _ in range(num)]
    phases: list[list[tuple[int, int, int, int, bool]]] = [[] for _ in range(num)]
    for place in range(len(lines[0])):
        tokens = [_TOKEN.findall(of[place]) for of in lines]
        number = numbers[place] if numbers is not None else place
        begun = [now[rank] for rank in range(num)]
        at = [0] * num
        while any(at[rank] < len(tokens[rank]) for rank in range(num)):
            arrived = {}
            for rank in range(num):
                while at[rank] < len(tokens[rank]):
                    bar, letter, took, inside = tokens[rank][at[rank]]
                    if bar:
                        begun[rank] = now[rank]
                    elif letter in MEETS and letter in meets:
                        arrived[rank] = (letter, round(float(took) * MS))
                        break
                    else:
                        length = round(float(took) * MS)
                        _put(
                            phases[rank],
                            letter,
                            now[rank],
                            now[rank] + length,
                            number,
                            inside,
                            letter in MEETS,
                        )
                        now[rank] += length
                    at[rank] += 1
            if not arrived:
                continue
            assert len({letter for letter, _ in arrived.values()}) == 1, "ranks meet in the same phase"
            end = max(now[rank] for rank in arrived) + max(took for _, took in arrived.values())
            for rank, (letter, _) in arrived.items():
                own = end + int(random.integers(0, jitter_ns + 1))
                _put(phases[rank], letter, now[rank], own, number, "", True)
                now[rank] = own
                at[rank] += 1
        for rank in range(num):
            steps[rank].append((number, begun[rank], now[rank]))
    return [
        _marks(
            rank,
            num,
            steps[rank],
            phases[rank],
            0 if apart_ns is None else apart_ns[rank],
            "one" if hosts is None else hosts[rank],
            flags or {},
        )
        for rank in range(num)
    ]


def _put(
    phases: list[tuple[int, int, int, int, bool]],
    letter: str,
    start: int,
    end: int,
    number: int,
    inside: str,
    is_sync: bool,
) -> None:
    if letter == "_":
        return
    phases.append((PHASES.index(PHASE[letter]), number, start, end, is_sync))
    for _, nested, took, _ in _TOKEN.findall(inside):
        phases.append((PHASES.index(PHASE[nested]), number, end - round(float(took) * MS), end, False))


def _marks(
    rank: int,
    num: int,
    steps: Sequence[tuple[int, int, int]],
    phases: Sequence[tuple[int, int, int, int, bool]],
    apart: int,
    host: str,
    flags: Mapping[int, str],
) -> RankMarks:
    number, start, end = (np.array(column, dtype=np.int64) for column in zip(*steps, strict=True))
    table = np.array(phases, dtype=np.int64).reshape(len(phases), 5)
    table = table[np.lexsort((-table[:, 3], table[:, 2]))]
    nothing = np.full(len(number), np.nan)
    flagged = {name: np.zeros(len(number), dtype=bool) for name in ("shadow", "captured", "stalled")}
    for place, name in flags.items():
        flagged[name][place] = True
    return RankMarks(
        identity=Identity(
            job="made",
            run="1",
            rank=rank if num > 1 else None,
            world_size=num,
            host=host,
            boot_id=f"boot of {host}",
        ),
        steps=Steps(
            number,
            start + apart,
            end + apart,
            nothing,
            nothing,
            nothing,
            flagged["shadow"],
            flagged["captured"],
            flagged["stalled"],
        ),
        phases=Phases(
            table[:, 0].astype(np.int32),
            np.full(len(table), -1, dtype=np.int32),
            table[:, 1].copy(),
            table[:, 2] + apart,
            table[:, 3] + apart,
            table[:, 4] != 0,
        ),
        start_ns=BEGIN_NS + apart - MS,
        last_ns=int(end[-1]) + apart,
        exit_ns=int(end[-1]) + apart,
        offset_ns=apart,
    )


def judged(ranks: Sequence[RankMarks], **options: object) -> report.Report:
    """The report of these marks alone."""
    marked = analyse_marks(ranks, **options)  # type: ignore[arg-type]
    inputs = [
        report.Input(kind="steps", format="step-ring", name=f"rank{n}.ring", rank=each.identity.rank)
        for n, each in enumerate(ranks)
    ]
    logs = [log_of_marks(each, f"rank{n}.ring") for n, each in enumerate(ranks)]
    return diagnose((), inputs, Options(catalog=CATALOG), (), (), logs, marked)


def named(told: report.Report, least: str = "warning") -> list[tuple[str, tuple[int, ...]]]:
    """(rule, ranks) of the findings of at least this severity that follow from no other."""
    order = ("info", "warning", "critical")
    return [
        (each.rule, each.subject.ranks)
        for each in told.findings
        if each.explained_by is None and order.index(each.severity) >= order.index(least)
    ]
