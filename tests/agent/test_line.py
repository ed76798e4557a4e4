"""What a person sees."""

from __future__ import annotations

from stepscope.agent.line import lines
from stepscope.model.batch import BatchOwner, BatchSeries, Happened, Lines, Marks, Samples

AT = 1_700_000_000_123_000_000
OWNER = BatchOwner(uuid="GPU-1", mig="3", index=1)


def test_a_series_is_a_line_with_its_newest_value_whose_it_is_and_its_steps() -> None:
    series = BatchSeries(
        "power_watts",
        OWNER,
        [AT - 1, AT],
        [299.0, 300.25],
        {"rank": "1", "job": "j", "run": "r", "dcgm": "X"},
        (7, 9),
    )
    batch = Samples("a", 1, "n1", "nvml", [series])
    assert lines(batch) == [
        "2023-11-14T22:13:20.123Z nvml device 1/3 power_watts 300.25 W (2 values) [job=j rank=1] steps 7–9"
    ]
    assert lines(batch, "zh")[0].endswith("300.25 W (2 个值) [job=j rank=1] 步 7–9")


def test_events_marks_and_logs_are_lines_too() -> None:
    event = Happened("a", 1, "n1", AT, "xid", "Xid 79", 79, OWNER, {"job": "j"})
    assert lines(event) == ["2023-11-14T22:13:20.123Z xid device 1/3: Xid 79 [job=j]"]
    log = Lines("a", 1, "n1", "nccl", "f", [AT], ["NCCL WARN x"])
    assert lines(log) == ["2023-11-14T22:13:20.123Z nccl f: NCCL WARN x"]
    marks = Marks(
        "a", 1, "n1", "r.ring", {"rank": 2}, [], [0, 1], [2, 3], [0, 0], [-1, 5], [0, 0], [AT, AT], [0, 0],
        [0.0, 0.0], [0.0, 0.0], num_lost=4,
    )  # fmt: skip
    assert lines(marks) == ["2023-11-14T22:13:20.123Z rings rank 2: 2 marks, steps 5–5, 4 lost"]
