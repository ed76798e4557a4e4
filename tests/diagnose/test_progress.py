"""When a job was saving, evaluating or starting, by its log: what was begun and is not over goes on."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.diagnose.progress import progressed
from stepscope.model.log import ABSENT_NS, Log, LogEvent, Progress

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND


def event(second: float, what: str, kind: str = "checkpoint") -> LogEvent:
    return LogEvent(kind, what, what, START + int(second * SECOND), 1)


def log(
    seconds: list[float],
    *events: LogEvent,
    format: str = "plain",
    total: int | None = None,
    is_timed: bool = True,
) -> Log:
    at = START + (np.array(seconds) * SECOND).astype(np.int64)
    if not is_timed:
        at = np.full(len(seconds), ABSENT_NS)
    progress = Progress(at, np.arange(1, len(seconds) + 1), total=total) if seconds else None
    return Log("train.log", format, progress, events)


def seconds(found: object) -> list[tuple[float, float]]:
    return [
        ((start - START) / SECOND, (end - START) / SECOND)
        for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True)  # type: ignore[attr-defined]
    ]


STEPS = [2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize(
    ("events", "end", "saves"),
    [
        ([event(9, "checkpoint_start"), event(12, "checkpoint_end")], 60, [(9, 12)]),
        ([event(9, "checkpoint_start")], 60, [(9, 60)]),
        ([event(9, "checkpoint_start")], None, [(9, 9)]),
        # The next line that states a step ends one without an end.
        ([event(3, "checkpoint_start")], 60, [(3, 4)]),
        # And so does the end of the job.
        ([event(9, "checkpoint_start"), event(20, "training_end", "exit")], 60, [(9, 20)]),
        ([event(9, "eval_start", "change")], 60, []),
    ],
)
def test_a_checkpoint_goes_on_until_something_says_that_it_is_over(
    events: list[LogEvent], end: int | None, saves: list[tuple[float, float]]
) -> None:
    until = None if end is None else START + end * SECOND
    found = progressed((), [log(STEPS, *events)], until)
    assert found.checkpoints is not None
    assert seconds(found.checkpoints) == [pair for pair in saves if pair[0] < pair[1]]
    assert found.until_ns == max(until or 0, START + 8 * SECOND, *(each.at_ns or 0 for each in events))


INIT = event(1, "init", "start")


@pytest.mark.parametrize(
    ("logs", "is_before"),
    [
        ([log([], INIT)], True),
        ([log([], INIT), log([], event(2, "xid", "xid"), format="kernel")], True),
        ([log([2.0], INIT)], False),
        ([log([2.0], INIT, is_timed=False)], False),
        ([log([], INIT, event(30, "checkpoint_end"))], False),
        ([log([], INIT, event(30, "cuda_out_of_memory", "oom"))], False),
        ([log([])], False),
        ([], False),
    ],
)
def test_a_log_of_a_start_and_nothing_else_has_all_time_before_the_first_step(
    logs: list[Log], is_before: bool
) -> None:
    end = START + 60 * SECOND
    found = progressed((), logs, end)
    assert (found.first_step_ns is not None and found.first_step_ns > end) is is_before
