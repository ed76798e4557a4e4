"""Tables of the ranks of a job together."""

from __future__ import annotations

from typing import Any

from stepscope.views.table import TABLES, table
from tests.diagnose import build
from tests.views import many

JOB = ("stragglers", "lateness", "rank_map", "clocks", "what_if", "critical_path")


def rows(name: str, whole: Any) -> list[dict[str, Any]]:
    found = table(whole, name)
    return [dict(zip((c.name for c in found.columns), row, strict=True)) for row in found.rows]


def test_lateness_is_a_row_a_rank_and_step_with_nothing_where_a_rank_has_no_such_step() -> None:
    whole = many.job(number=8, num_steps=8)
    found = rows("lateness", whole)
    assert len(found) == 64
    assert found[0] == {"rank": 0, "step": 10, "lateness_ns": 0, "wait_ns": 18_000_000}
    assert found[-1] == {"rank": 7, "step": 17, "lateness_ns": None, "wait_ns": None}
    assert [each["lateness_ns"] for each in found if each["rank"] == 3][1] == 17_000_000


def test_the_map_is_pieces_that_cover_what_was_recorded_once() -> None:
    whole = many.job()
    found = rows("rank_map", whole)
    mine = [each for each in found if each["rank"] == 3]
    assert mine[:3] == [
        {"rank": 3, "start_ns": 100_000_000, "dur_ns": 7_000_000, "part": "input"},
        {"rank": 3, "start_ns": 107_000_000, "dur_ns": 42_000_000, "part": "compute"},
        {"rank": 3, "start_ns": 149_000_000, "dur_ns": 28_000_000, "part": "python"},
    ]
    assert sum(each["dur_ns"] for each in mine) == 118 * 7_000_000
    ends = [each["start_ns"] + each["dur_ns"] for each in mine]
    assert all(end <= each["start_ns"] for end, each in zip(ends, mine[1:], strict=False))


def test_what_a_change_wins_and_the_path_are_rows_of_the_replay() -> None:
    whole = many.job()
    first = rows("what_if", whole)[0]
    assert (first["remove"], first["gain_share"], first["ranks"]) == ("straggler", 0.18, "3")
    assert [(each["part"], each["rank"]) for each in rows("critical_path", whole)][1] == ("python", 3)


def test_clocks_are_a_row_a_rank() -> None:
    found = rows("clocks", many.job(number=4))
    assert [each["offset_ns"] for each in found] == [0, 300, 2_400_600, 2_400_900]
    assert [each["drift_ppm"] for each in found] == [None, None, 12.5, 12.5]


def test_of_one_rank_the_tables_have_their_columns_and_no_row() -> None:
    assert set(JOB) <= set(TABLES)
    for name in JOB:
        found = table(build.healthy(), name)
        assert found.columns
        assert found.rows == ()
