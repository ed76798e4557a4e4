"""Tables of step times: which column is what, in which unit, and what is wrong with a line."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.model.error import InputError
from stepscope.sources.catalog.step_table import Columns, columns, is_step_table, parse


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (["", "worker", "gpu", "time", "batch_time_norm"], Columns(1, 3, 4, None)),
        (["rank", "step", "duration_ns"], Columns(0, 1, 2, 1.0)),
        (["step", "rank", "step_time_us"], Columns(1, 0, 2, 1e3)),
        (["Global Rank", "Iteration", "Iteration Time (ms)"], Columns(0, 1, 2, 1e6)),
        (["workerId", "globalStep", "elapsed_s"], Columns(0, 1, 2, 1e9)),
        (["rank", "step", "duration"], Columns(0, 1, 2, None)),
        (["rank", "step", "time"], Columns(0, 1, 2, None)),
        (["rank", "time_ms"], Columns(0, None, 1, 1e6)),
        (["rank", "order", "batch_time_ms_norm"], Columns(0, 1, 2, None)),
    ],
)
def test_columns_are_found_by_their_names(header: list[str], expected: Columns) -> None:
    assert columns(header) == expected


@pytest.mark.parametrize(
    ("header", "lack"),
    [
        (["step", "duration_ms"], "no column names the worker or rank"),
        (["rank", "step", "loss"], "no column names the duration of a step"),
        (["rank", "time"], "no column names the duration of a step"),
    ],
)
def test_a_header_that_lacks_a_column_says_which(header: list[str], lack: str) -> None:
    assert columns(header) == lack


def test_a_table_becomes_ranks_by_steps_with_holes() -> None:
    table = parse(b"rank,step,duration_ms\n1,10,2.5\n0,10,2\n0,12,nan\n1,12,-3\n0,14,inf\n1,14,4\n", "t.csv")
    assert (table.ranks, table.steps, table.is_ns) == ((0, 1), (10, 12, 14), True)
    np.testing.assert_array_equal(table.duration, [[2e6, np.nan, np.nan], [2.5e6, np.nan, 4e6]])
    assert (table.num_odd, table.num_repeated) == (3, 0)


def test_rows_in_order_number_the_steps_and_repeats_are_counted() -> None:
    table = parse(b"worker\tdur\nw-1\t5\nw-2\t6\nw-1\t7\n", "t.tsv")
    assert (table.ranks, table.steps) == ((1, 2), (0, 1))
    np.testing.assert_array_equal(table.duration, [[5, 7], [6, np.nan]])
    assert parse(b"\xef\xbb\xbfrank;step;dur\r\n0;1;5\r\n0;1;6\r\n", "t.csv").num_repeated == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "t.csv: holds no line; give columns named like worker, step and duration_ms"),
        (
            b"a,b\n1,2\n",
            "t.csv at line 1: no column names the worker or rank (its columns: a, b); give columns named "
            "like worker, step and duration_ms",
        ),
        (
            b"rank,step,dur\n0,1,2\nx,1,2\n",
            "t.csv at line 3: the worker 'x' has no number; number the workers from 0",
        ),
        (
            b"rank,step,dur\n0,one,2\n",
            "t.csv at line 2: the step 'one' is no whole number; number the steps",
        ),
        (
            b"rank,step,dur\n0,1\n",
            "t.csv at line 2: has 2 fields, the header 3; complete the line or leave it out",
        ),
        (
            b"rank,step,dur\n0,1,nan\n",
            "t.csv: holds no usable duration; give columns named like worker, step and duration_ms",
        ),
    ],
)
def test_what_is_no_table_is_said_in_one_line(text: bytes, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse(text, "t.csv")
    assert str(raised.value) == message


def test_a_file_is_meant_as_a_table_by_its_name_and_its_columns() -> None:
    assert is_step_table("a.csv", b"rank,step,duration_ms\n0,1,2\n")
    assert not is_step_table("a.csv", b"index, utilization.gpu [%]\n0, 99 %\n")
    assert not is_step_table("a.txt", b"rank,step,duration_ms\n0,1,2\n")
