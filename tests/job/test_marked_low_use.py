"""Low use of a device whose job marks its steps and phases: counters each second, and no log. What filled the
rest is told by the marks, as it is by a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.diagnose.verdict import RESTS
from stepscope.model import report
from stepscope.model.mark import PHASES, Identity, Phases, RankMarks, Steps
from stepscope.sources.telemetry import read_parts
from tests.analyse.marked.made import CATALOG
from tests.job import stated
from tests.job.test_low_use import FAMILY, Column, device, then

RANKS = 2
STEP = 2.0
INSIDE = (("data", 0.0, 0.1), ("forward", 0.1, 0.7), ("backward", 0.7, 1.8), ("optimizer", 1.8, 2.0))
"""(phase, begin, end) in seconds of a step."""
Span = tuple[float, float]


def at(seconds: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Wall times of seconds after the counters begin."""
    return np.array([stated.START_NS + round(each * stated.SECOND_NS) for each in seconds], dtype=np.int64)


def marks(
    rank: int,
    stepping: Sequence[Span],
    phase: tuple[str, float, float] | None,
    open_: tuple[str, float] | None,
) -> RankMarks:
    """Steps of two seconds over these spans, one phase besides, and what the process is in now."""
    begin = [float(first) for a, b in stepping for first in np.arange(a, b - STEP / 2, STEP)]
    inside = [
        (name, step, start + first, start + last)
        for step, start in enumerate(begin)
        for name, first, last in INSIDE
    ]
    inside += [(phase[0], -1, phase[1], phase[2])] if phase is not None else []
    inside.sort(key=lambda each: each[2])
    none, no = np.full(len(begin), np.nan), np.zeros(len(begin), dtype=bool)
    ends = [1.0, *(each[3] for each in inside), *([open_[1]] if open_ is not None else [])]
    return RankMarks(
        identity=Identity(
            job="j", run="1", rank=rank, world_size=RANKS, host="n1", device_uuids=(stated.uuid(rank),)
        ),
        steps=Steps(
            np.arange(len(begin)),
            at(begin),
            at([each + STEP for each in begin]),
            none,
            none,
            none,
            no,
            no,
            no,
        ),
        phases=Phases(
            np.array([PHASES.index(name) for name, *_ in inside], dtype=np.int32),
            np.full(len(inside), -1, dtype=np.int32),
            np.array([step for _, step, *_ in inside], dtype=np.int64),
            at([start for *_, start, _ in inside]),
            at([end for *_, end in inside]),
            np.array([name == "backward" for name, *_ in inside], dtype=bool),
        ),
        start_ns=int(at([1.0])[0]),
        last_ns=int(at([max(ends)])[0]),
        open_phase=open_[0] if open_ is not None else None,
        open_since_ns=int(at([open_[1]])[0]) if open_ is not None else None,
        is_alive=True,
        offset_ns=0,
    )


def told(folder: Path, busy: Column, ranks: Sequence[RankMarks]) -> report.Report:
    """The report of these marks beside counters of their devices; read when the counters end."""
    stated.dcgm(folder, [device(busy)] * len(ranks), len(busy))
    path = folder / "telemetry" / "dcgm.prom"
    telemetry = read_parts(str(path), data=path.read_bytes())
    names = [f"rank{n}.ring" for n in range(len(ranks))]
    logs = [
        log_of_marks(each, name, int(at([len(busy)])[0])) for each, name in zip(ranks, names, strict=True)
    ]
    inputs = [report.Input(kind="steps", format="step-ring", name=name) for name in names]
    return diagnose((), inputs, Options(catalog=CATALOG), (), telemetry, logs, analyse_marks(ranks))


MINUTE_AND_FOUR = then((60, 92.0), (240, 0.0))
AND_ON = then((60, 92.0), (240, 0.0), (60, 92.0))


@pytest.mark.parametrize(
    ("busy", "stepping", "phase", "open_", "rule", "first"),
    [
        pytest.param(
            MINUTE_AND_FOUR, [(0, 60)], None, ("checkpoint", 60.0), "idle-in-checkpoint", None, id="saving"
        ),
        pytest.param(
            MINUTE_AND_FOUR, [(0, 60)], None, ("eval", 60.0), "idle-in-evaluation", None, id="evaluating"
        ),
        pytest.param(
            AND_ON,
            [(0, 60), (300, 360)],
            ("checkpoint", 60, 300),
            None,
            "idle-in-checkpoint",
            "checkpoint-stall",
            id="saved",
        ),
        pytest.param(
            AND_ON,
            [(0, 60), (300, 360)],
            ("eval", 60, 300),
            None,
            "idle-in-evaluation",
            "eval-stall",
            id="evaluated",
        ),
        pytest.param(then((300, 0.0)), [], None, ("init", 2.0), "initialising", None, id="before any step"),
        pytest.param(
            then((240, 0.0), (60, 92.0)),
            [(240, 300)],
            ("init", 2, 239),
            None,
            "initialising",
            None,
            id="started, and stepping since a minute",
        ),
    ],
)
def test_what_filled_a_rest_is_told_by_marks(
    tmp_path: Path,
    busy: Column,
    stepping: list[Span],
    phase: tuple[str, float, float] | None,
    open_: tuple[str, float] | None,
    rule: str,
    first: str | None,
) -> None:
    found = told(tmp_path, busy, [marks(n, stepping, phase, open_) for n in range(RANKS)])
    assert {f.rule for f in found.findings} & FAMILY == {rule}
    # Where steps hold the rest, the rule that says what it costs them stands above it: one cause, one card.
    own = {f.rule for f in found.findings if f.explained_by is None}
    assert own == {first or rule}
    assert found.verdict.class_ == "other-stall"


def test_a_rest_in_no_phase_is_a_standstill_and_no_pause(tmp_path: Path) -> None:
    found = told(
        tmp_path, MINUTE_AND_FOUR, [marks(n, [(0, 60)], None, ("backward", 60.0)) for n in range(RANKS)]
    )
    assert {f.rule for f in found.findings} & FAMILY == {"no-progress"}


def test_a_device_that_works_rests_nowhere(tmp_path: Path) -> None:
    found = told(tmp_path, then((300, 92.0)), [marks(n, [(0, 300)], None, None) for n in range(RANKS)])
    assert {f.rule for f in found.findings} & FAMILY == set()
    assert found.verdict.class_ == "undecided"


def test_rules_that_answer_for_a_rest_are_in_the_catalogue() -> None:
    assert {rule.id for rule in CATALOG} >= RESTS
    assert FAMILY - {"dead-job", "no-progress"} == RESTS  # those two end a job: they answer first
