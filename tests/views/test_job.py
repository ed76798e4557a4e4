"""What a reader sees of many ranks: rows that are chosen, cells that become one, levels, and the words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from stepscope.model import report
from stepscope.model.peer import MAP_PARTS
from stepscope.model.text import LANGS, Lang
from stepscope.views import html, markdown
from stepscope.views.detail_job import job_why
from stepscope.views.html.fill import FILL, JOB_FILL
from stepscope.views.job import (
    LEVELS,
    MAP_MARK,
    NOTHING,
    WAIT,
    Strip,
    chosen,
    heat,
    kinds_of_collectives,
    part_key,
    path_parts,
    strips,
)
from stepscope.views.job_word import (
    clock_line,
    lateness_lines,
    part_name,
    ranks_name,
    straggler_line,
    what_if_lines,
)
from stepscope.views.label import MARK
from tests.diagnose import build
from tests.views import many
from tests.views.show import shown

MS = 1_000_000
HAN = re.compile("[\u4e00-\u9fff]")


def part_of_page(text: str, head: str = "\nRanks\n") -> str:
    return text[text.index(head) :]


def mapped(*cells: int, late: bool = False) -> report.Report:
    """A map of one row."""
    drawn = report.RankMap(
        start_ns=0, cell_ns=MS, parts=MAP_PARTS, rows=(report.RankCells(rank=4, cells=cells),)
    )
    return replace(many.job(), rank_map=drawn, stragglers=(many.straggler(4),) if late else ())


def late_map(*rows: tuple[int | None, ...], noise_ns: int = 0) -> report.Report:
    """A map of lateness, a row a rank."""
    told = tuple(
        report.RankLateness(rank=rank, lateness_ns=cells, wait_ns=(1,) * len(cells))
        for rank, cells in enumerate(rows)
    )
    whole = report.Lateness(
        status="ok", noise_ns=noise_ns, steps=tuple(range(len(rows[0]))), rows=told, num_collectives=1
    )
    return replace(many.job(), lateness=whole, stragglers=())


@pytest.mark.parametrize(
    ("ranks", "late", "most", "expected"),
    [
        ([0, 1, 2], set(), 16, [0, 1, 2]),
        (list(range(64)), {63}, 4, [0, 21, 42, 63]),
        ([5, 9, 70], {9}, 1, [1]),
        (list(range(10)), set(range(10)), 3, [0, 1, 2]),
    ],
)
def test_late_ranks_have_a_row_then_evenly_spaced_ones(
    ranks: list[int], late: set[int], most: int, expected: list[int]
) -> None:
    assert chosen(ranks, late, most) == expected


@given(number=st.integers(1, 300), late=st.sets(st.integers(0, 299), max_size=40), most=st.integers(1, 64))
def test_no_more_rows_than_there_is_room_for_and_none_twice(number: int, late: set[int], most: int) -> None:
    found = chosen(range(number), late, most)
    assert found == sorted(set(found))
    assert len(found) == min(number, most)
    assert (
        len(set(found) & late) == min(len({each for each in late if each < number}), most) or number <= most
    )


def test_of_cells_that_become_one_the_commonest_stays_and_recorded_wins_a_tie() -> None:
    compute, wait = MAP_PARTS.index("compute"), MAP_PARTS.index("wait")
    (strip,) = strips(mapped(compute, compute, -1, wait, -1, -1), 4, 3)
    assert strip.parts == ("compute", WAIT, NOTHING)
    (whole,) = strips(mapped(compute, wait), 4, 60)
    assert whole.parts == ("compute", WAIT)


def test_equal_neighbours_are_one_run_and_holes_are_none() -> None:
    parts = ("compute", "compute", NOTHING, "compute", WAIT, WAIT)
    strip = Strip(0, False, parts)
    assert strip.runs == [("compute", 0, 2), ("compute", 3, 1), (WAIT, 4, 2)]
    assert strip.shares == [("compute", 0.6), (WAIT, 0.4)]


@given(st.lists(st.sampled_from(["compute", WAIT, NOTHING, "idle.gc"]), max_size=60))
def test_runs_say_the_same_as_the_cells(parts: list[str]) -> None:
    again = [NOTHING] * len(parts)
    for part, first, count in Strip(0, False, tuple(parts)).runs:
        again[first : first + count] = [part] * count
    assert again == parts


def test_a_level_is_an_eighth_of_the_latest_and_nothing_within_the_noise() -> None:
    found = heat(late_map((0, 100, 101, 400, 800, None), (0,) * 6, noise_ns=100), 16)
    assert found is not None
    assert found.rows[0].levels == (0, 0, 2, 4, LEVELS, None)
    assert (found.rows[0].most_ns, found.rows[0].latest_step, found.rows[0].wait_ns) == (800, 4, 6)
    assert found.most_ns == 800


def test_of_steps_that_become_one_the_latest_counts() -> None:
    found = heat(late_map((0, 0, 800, 0, None, None)), 16, 3)
    assert found is not None
    assert found.rows[0].levels == (0, LEVELS, None)


def test_collectives_of_one_kind_are_one_row_and_what_is_not_split_is_in_none() -> None:
    first, second = kinds_of_collectives(many.job())
    assert (first.kind, first.count, first.transfer_ns) == ("all_reduce", 72, 111 * MS)
    assert (first.wait_exposed_ns, first.wait_hidden_ns, first.last_rank) == (802 * MS, 40 * MS, 3)
    assert (second.kind, second.wait_exposed_ns, second.wait_hidden_ns) == ("all_gather", 20 * MS, 0)
    assert [part for part, _ in second.pieces] == [WAIT, "communication_exposed"]


def test_all_compute_of_the_critical_path_is_one_part() -> None:
    told = path_parts(many.REPLAY)
    assert [(part, round(share, 3)) for part, share in told] == [
        ("compute", 0.65),
        ("idle.python", 0.2),
        ("communication_exposed", 0.15),
    ]


def test_every_part_of_the_map_has_a_letter_a_look_and_a_name_of_its_own() -> None:
    keys = [part_key(part) for part in MAP_PARTS]
    looks = {**FILL, **{f"map.{name}": look for name, look in JOB_FILL.items()}}
    assert len({MAP_MARK[key][0] for key in keys} | {MAP_MARK[NOTHING][0]}) == len(keys) + 1
    assert len({looks[key] for key in keys}) == len(keys)
    for lang in LANGS:
        assert len({part_name(key, build.healthy(lang), lang) for key in keys}) == len(keys)
    assert part_key("of a later version") == "idle.unknown"
    assert set(MARK) < set(MAP_MARK)


def test_a_straggler_is_told_with_all_that_is_known_of_it() -> None:
    row = many.straggler()
    assert straggler_line(row, "en") == (
        "rank 3 (stage 1, replica 1): late by 18.0 ms, in 7 of 8 steps, costs 15.8 %, "
        "at times, and no other rank, Python code without ops (augment (job/train.py:41)), "
        "confirmed without clocks"
    )
    bare = report.Straggler(
        rank=2, lateness_ns=MS, cost_ns=MS, persistence="unknown", reason="slower_kernels"
    )
    assert straggler_line(bare, "en") == (
        "rank 2: late by 1.00 ms, the same kernels take longer, not told without clocks"
    )
    assert straggler_line(bare, "zh") == "rank 2：落后 1.00 ms，相同的 kernel 更慢，不看时钟则无法判定"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (many.nobody_late, ["Nobody is late beyond 400 µs"]),
        (many.not_comparable, ["Who is late is not told: no synchronising collective was matched"]),
        (build.healthy, []),
    ],
)
def test_nobody_late_and_nothing_told_are_two_things(make: object, told: list[str]) -> None:
    assert callable(make)
    assert lateness_lines(make(), "en") == told


def test_ranks_that_come_late_and_cost_nobody_much_are_not_said_to_be_on_time() -> None:
    late = late_map((0, 700_000), (0, 0), noise_ns=400_000)
    assert lateness_lines(late, "en") == [
        "Nobody notably holds the others up (the latest came 700 µs late; within 400 µs is noise)"
    ]
    assert lateness_lines(late_map((0, 400_000), noise_ns=400_000), "zh") == ["没有 rank 落后（超过 400 µs）"]


def test_a_doubt_stands_behind_those_who_are_late() -> None:
    whole = many.job()
    assert whole.lateness is not None
    why = "rank 9 shares no synchronising collective with any other rank"
    doubted = replace(whole, lateness=replace(whole.lateness, status="degraded", why=why))
    first, second = lateness_lines(doubted, "en")
    assert first.startswith("rank 3")
    assert second == f"degraded: {why}"
    assert lateness_lines(doubted, "zh")[1] == "有缺损：rank 9 与其他 rank 没有共同的同步集合通信"
    assert why in html.render(doubted)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"drift_ppm": 12.5}, "drift 0 to +12.5 ppm"),
        ({"drift_error_ppm": 148.7}, "drift not identifiable (± 149 ppm)"),
        ({}, "drift not identifiable"),
    ],
)
def test_clocks_are_one_line(row: dict[str, float], told: str) -> None:
    clocks = report.Clocks(
        reference_rank=0,
        ranks=(
            report.RankClock(rank=0, method="collectives", component=0, offset_ns=0, residual_ns=500),
            report.RankClock(
                rank=1, method="collectives", component=0, offset_ns=-1500, residual_ns=900, **row
            ),
        ),
    )
    line = clock_line(replace(many.job(), clocks=clocks), "en")
    assert line == f"Clocks: against rank 0, offsets -1.50 µs to 0, residual at most 900 ns, {told}"


def test_a_change_that_wins_nothing_is_not_shown() -> None:
    lines = what_if_lines(many.REPLAY, "en")
    assert len(lines) == 3
    assert lines[0] == "without the late rank (rank 3): −18.0 % (100 ms → 82.0 ms)"
    assert what_if_lines(replace(many.REPLAY, what_if=()), "en") == ["no single change wins 0.1 %"]


def test_ranks_are_named_in_runs() -> None:
    assert ranks_name((0, 1, 2, 3, 8), "en") == "ranks 0-3, 8"
    assert ranks_name((7,), "en") == "rank 7"
    assert ranks_name(range(0, 40, 2), "zh").endswith("、…")


WHYS = [
    "rank 3 shares no synchronising collective with any other rank",
    "ranks 0-3, 8 share no synchronising collective with any other rank",
    "no collective joins ranks 0-3 with ranks 4-7: nobody is late across them",
    "no synchronising collective was matched",
    "matched collectives contradict causality",
    "the clocks say that rank 3, rank 4 came last, the durations of the collectives do not",
    "3 of 5 ranks differ from the rest: with no majority nobody is ordinary",
    "of two ranks it shows only that one is slower than the other",
    "ranks leave matched collectives up to 12.3 ms before others enter them, whatever the clocks: the "
    "matched calls are not the same collectives",
    "clocks of ranks on one host differ by 4 ms by their collectives: that one host has one clock was not "
    "assumed",
    "what the device waited for is not known: the accounting withholds its causes too",
    "for 40 % of the time the device waited for what was not recorded",
    "the untouched replay misses a step by 20 %",
    "2 transfers end before their peer begins",
    "slowest worker against its stage 1.22, slowdown 1.18",
]


@pytest.mark.parametrize("why", WHYS)
def test_every_reason_is_told_in_chinese_with_its_numbers(why: str) -> None:
    told = job_why(why, "zh")
    assert HAN.search(told)
    assert re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", told) is None
    assert sorted(re.findall(r"\d+(?:\.\d+)?", told)) == sorted(re.findall(r"\d+(?:\.\d+)?", why))
    assert job_why(why, "en") == why


def test_many_ranks_have_no_more_lines_than_a_screen_and_the_late_one_is_among_them() -> None:
    whole = part_of_page(shown(many.job(number=64, num_steps=200)))
    section = whole[: whole.index("\nWhat a change would win")]
    assert len(section.splitlines()) < 60
    assert section.count("rank 3 !") == 2
    assert section.count("48 more ranks are not drawn") == 2


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_row_is_wider_than_the_terminal(lang: Lang, width: int) -> None:
    text = shown(many.job(lang, number=128, num_steps=200), lang, width=width)
    section = part_of_page(text, "\n各 rank\n" if lang == "zh" else "\nRanks\n")
    for line in section[: section.index("\n\n", 10)].splitlines():
        assert cell_len(line.rstrip()) <= width


def test_in_ascii_a_level_is_a_digit() -> None:
    text = part_of_page(shown(many.job(num_steps=8), encoding="ascii"))
    rows = [line.split()[3] for line in text.splitlines() if line.startswith("    rank 3 !")]
    assert rows[1] == ".7888778"


def test_one_rank_alone_has_no_section() -> None:
    text = shown(build.healthy())
    assert "\nRanks\n" not in text
    assert 'id="ranks"' not in html.render(build.healthy())
    assert "Ranks" not in markdown.render(build.healthy())


def test_a_page_of_64_ranks_and_200_steps_stays_small() -> None:
    """What is drawn takes less than the report itself, which is in the page as JSON."""
    whole = many.job(number=64, num_steps=200)
    size = len(html.render(whole).encode())
    assert size - len(report.encode(whole)) < 350_000
    long = many.job(number=8, num_steps=200)
    assert len(html.render(long).encode()) - len(report.encode(long)) < 100_000


def test_rows_of_the_page_say_in_words_what_they_draw() -> None:
    page = html.render(many.job())
    assert 'aria-label="rank 3 (late): computing 50.8 %, ' in page
    assert 'aria-label="rank 3 (late): late by at most 20.0 ms"' in page
    assert 'aria-label="without the late rank (rank 3): −18.0 % (100 ms → 82.0 ms)"' in page


def test_markdown_holds_what_the_terminal_says_of_the_ranks() -> None:
    whole = many.job()
    text = markdown.render(whole)
    for line in (*lateness_lines(whole, "en"), clock_line(whole, "en"), *what_if_lines(many.REPLAY, "en")):
        assert line.replace("augment (job/train.py:41)", "`augment (job/train.py:41)`") in text
    (row,) = [line for line in text.splitlines() if line.startswith("rank 3 (late)")]
    assert row.split()[-1].startswith("i###pp")
