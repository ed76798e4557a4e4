"""What a page shows of a device's work and memory: every number of it, in its place, and to scale."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepscope.model import report
from stepscope.model.text import LANGS, Lang
from stepscope.views.html import render
from stepscope.views.html.module import module_tree
from stepscope.views.memory import memory_lines, memory_notes
from stepscope.views.phrase import work_lines
from tests.diagnose import build
from tests.diagnose.build import MS
from tests.views.test_html import Page, folded
from tests.views.whole import EFFICIENCY, MEMORY, PHASES, SNAPSHOT, snapshot_alone, whole

PARTS = ("operators", "operator_shapes", "modules", "efficiency", "kernels", "memory")
# What a page does not say of these parts, and why.
UNSAID = {
    "memory.reserve.at_ns": "the drawing shows the level over time",
    "memory.growth.certainty": "it decides whether growth is told at all",
    "memory.growth.steady_share": "for the rule that judges growth",
    "memory.out_of_memory.at_ns": "the latest is first",
}


def others(value: Any, hint: Any) -> Any:
    """A value of the same kind that reads differently."""
    words = [each for each in typing.get_args(hint) if isinstance(each, str)]
    for inner in typing.get_args(hint):
        words += [each for each in typing.get_args(inner) if isinstance(each, str)]
    if words:
        return next(each for each in words if each != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 3 + 1 if isinstance(value, int) else value * 0.7 + 0.01
    return f"{value} otherwise"


def variants(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The value with each of its leaves changed in turn, with where that leaf is."""
    hints = typing.get_type_hints(type(value))
    for name in value.__struct_fields__:
        old, here = getattr(value, name), f"{path}.{name}"
        if isinstance(old, msgspec.Struct):
            changed = variants(old, here)
        elif isinstance(old, tuple) and old and isinstance(old[0], msgspec.Struct):
            changed = ((where, (new, *old[1:])) for where, new in variants(old[0], here))
        elif isinstance(old, tuple) and old:
            changed = iter([(here, (others(old[0], None), *old[1:]))])
        elif old is None or old == ():
            continue
        else:
            changed = iter([(here, others(old, hints[name]))])
        for where, new in changed:
            yield where, replace(value, **{name: new})


def seen(answer: report.Report) -> str:
    """What people see of a page: all but the data in it."""
    return re.sub(r"<script.*?</script>", "", render(answer), flags=re.DOTALL)


@pytest.mark.parametrize("part", PARTS)
def test_every_number_and_name_of_a_part_is_seen(part: str) -> None:
    answer = whole()
    before = seen(answer)
    unseen = []
    for place, row in enumerate(getattr(answer, part)):
        for where, changed in variants(row, part):
            rows = list(getattr(answer, part))
            rows[place] = changed
            if where not in UNSAID and seen(replace(answer, **{part: tuple(rows)})) == before:
                unseen.append((place, where))
    assert not unseen, unseen


@pytest.mark.parametrize("field", ["phases", "compute"])
def test_every_phase_and_kind_of_a_row_is_seen(field: str) -> None:
    answer = whole()
    before = seen(answer)
    (row,) = answer.accounting
    for name in getattr(row, field).__struct_fields__:
        changed = replace(row, **{field: replace(getattr(row, field), **{name: 5 * MS + 1})})
        assert seen(replace(answer, accounting=(changed,))) != before, name


def test_of_many_ranks_each_has_its_phases_and_kinds_in_a_table() -> None:
    answer = build.told(
        *(build.rank(replace(build.row(rank=n, queued=n * MS), phases=PHASES)) for n in range(5))
    )
    page = render(answer)
    kinds, phases = (
        page.split(f'id="rows-{part}"')[1].split("</table>")[0] for part in ("compute", "phases")
    )
    assert re.findall(r"<td class=.words.>(rank \d)</td>", kinds) == [f"rank {n}" for n in range(5)]
    times = [f"{time} ms" for time in ("100", "99.0", "98.0", "97.0", "96.0")]
    assert re.findall(r"<td class=.number.>([\d.]+ ms)</td>", kinds) == times
    assert phases.count(">17.0 ms<") == 5
    assert 'id="rows-' not in render(whole())


@pytest.mark.parametrize("lang", LANGS)
def test_a_page_says_what_the_other_views_say_of_work_and_memory(lang: Lang) -> None:
    answer = whole(lang)
    words = Page(render(answer)).words
    phases, arithmetic = work_lines(answer, lang)
    assert "MFU 33.0 %" in arithmetic
    assert folded(arithmetic) in words
    for piece in re.split(r", |、", re.split(": |：", phases, maxsplit=1)[1]):
        assert piece in words
    for row in answer.memory:
        for line in [*memory_lines(row, lang), *memory_notes(row, lang)]:
            assert folded(line) in words
    assert {"en": "not yet compared with a real run's snapshot", "zh": "尚未与真实运行的快照核对"}[
        lang
    ] in words


def test_two_files_that_name_no_rank_have_each_their_own_arithmetic() -> None:
    rows = [build.row(rank=None, queued=ms * MS, total=total * MS) for ms, total in ((30, 290), (13, 157))]
    inputs = [build.trace(name, None) for name in ("a.json", "b.json")]
    answer = replace(
        build.told(*map(build.rank, rows), inputs=inputs),
        efficiency=tuple(
            replace(EFFICIENCY, rank=None, total_ns=total * MS, mfu=mfu)
            for total, mfu in ((290, 0.25), (157, 0.5))
        ),
    )
    page = render(answer)
    parts = re.split(r"<h3>", re.split(r'<h2 id="where-title">', page)[1].split("</section>")[0])[1:]
    assert [re.findall(r"MFU [\d.]+ %", part) for part in parts] == [["MFU 25.0 %"], ["MFU 50.0 %"]]


def test_modules_stand_under_the_one_around_them_hottest_first() -> None:
    assert [(place.depth, place.name) for place in module_tree(whole().modules)] == [
        (0, "GPT_0"),
        (1, "Block_1"),
        (2, "Attention_1"),
        (1, "Block_0"),
        (2, "ModuleList_0/MLP_0"),  # the list between them is not reported
        (0, "Loss_0"),
    ]


def test_the_models_of_two_files_are_two_trees() -> None:
    model = [report.Module(path=path, device_ns=1, total_ns=9) for path in ("A", "A/B")]
    places = module_tree([*model, *model])
    assert [(each.depth, each.name) for each in places] == [(0, "A"), (1, "B"), (0, "A"), (1, "B")]


@given(st.lists(st.tuples(st.integers(0, 1), st.text("ab/", max_size=7), st.integers(0, 9)), max_size=30))
def test_no_module_is_lost_whatever_it_is_called(paths: list[tuple[int, str, int]]) -> None:
    modules = [report.Module(rank=rank, path=path, device_ns=0, total_ns=ns) for rank, path, ns in paths]
    places = module_tree(modules)
    key = lambda each: (each.rank, each.path, each.total_ns)  # noqa: E731
    assert sorted((place.module for place in places), key=key) == sorted(modules, key=key)
    for place in places:
        assert place.module.path.endswith(place.name)
        assert (place.depth == 0) == (place.name == place.module.path)


def test_a_path_as_deep_as_it_likes_is_no_recursion() -> None:
    path = "/".join(["m"] * 3000)
    modules = [report.Module(path=path[: 2 * n - 1], device_ns=1, total_ns=1) for n in range(1, 3001)]
    assert [place.depth for place in module_tree(modules)] == list(range(3000))


def test_memory_is_drawn_to_scale() -> None:
    page = Page(render(whole()))
    allocated, reserved = (
        [a["d"] or "" for a in page.all("path") if a.get("class") == look] for look in LOOKS
    )
    assert (len(allocated), len(reserved)) == (1, 1)
    # 2 of 8 GiB at the start: a quarter of 152 pixels above the bottom at 160; held: 7 of 8.
    assert allocated[0].startswith("M0 160H0V122H20V")
    assert reserved[0].startswith("M0 27H0V27H20V27")
    assert reserved[0].endswith("H2000V8")
    (peak,) = [a for a in page.all("circle") if a.get("class") == "peak" and a.get("cx") != "50%"]
    # The 25th of 100 points: 24/99 of the width; (2 + 24 · 170 / 1024) of 8 GiB high.
    assert (peak["cx"], peak["cy"]) == ("24.24%", "46.3")
    begins = [a["x1"] for a in page.all("line") if a.get("class") == "begins" and a.get("y2") == "160"]
    assert begins == ["0%", "25.25%", "50.51%", "75.76%"]
    assert "peak 5.98 GiB at 24.0 ms" in page.words
    assert "a step begins (5 to 8)" in page.words
    assert "top of the drawing: 8.00 GiB" in page.words


LOOKS = ("allocated", "reserved")


@pytest.mark.parametrize(
    "timeline",
    [(), MEMORY.timeline[:1], (MEMORY.timeline[0], MEMORY.timeline[0])],
    ids=["no", "one", "equal"],
)
def test_what_has_no_history_has_no_drawing(timeline: tuple[report.MemoryPoint, ...]) -> None:
    answer = replace(whole(), memory=(replace(MEMORY, timeline=timeline),))
    assert 'class="levels"' not in render(answer)


def test_steps_that_would_be_a_hatching_are_not_drawn() -> None:
    answer = whole()
    (step, *_) = answer.steps
    many = tuple(replace(step, step=n, start_ns=125 * MS + n * MS) for n in range(81))
    assert "a step begins" in render(replace(answer, steps=many[:80]))
    assert "a step begins" not in render(replace(answer, steps=many))


@pytest.mark.parametrize("lang", LANGS)
def test_a_snapshot_alone_has_its_page(lang: Lang) -> None:
    answer = snapshot_alone(lang)
    assert answer.accounting == ()
    page = Page(render(answer))
    assert "memory" in {a["href"][1:] for a in page.all("a") if a["href"]}
    assert {"en": "held now", "zh": "当前持有"}[lang] in page.words
    assert "train.py:42 forward" in page.words
    assert "/home/ada" not in render(answer)


def test_failed_requests_and_sites_that_the_lines_leave_out_are_in_tables() -> None:
    words = Page(render(whole())).words
    assert "All failed requests (3)" in words
    assert "All sites, with their stacks (7)" in words
    assert SNAPSHOT.sites[0].stack[1] in words


@pytest.mark.parametrize("lang", LANGS)
def test_a_cost_that_is_only_a_bound_is_told_as_one(lang: Lang) -> None:
    answer = build.input_starved(lang)
    (first, *rest) = answer.findings
    assert first.cost is not None
    bound = replace(first, cost=replace(first.cost, is_bound=True))
    said = {"en": "to win at most 33.0 %", "zh": "至多可省 33.0 %"}[lang]
    assert said not in Page(render(answer)).words
    assert said in Page(render(replace(answer, findings=(bound, *rest)))).words


def test_every_rule_of_a_card_says_how_to_read_all_of_it() -> None:
    answer = build.input_starved()
    words = Page(render(answer)).words
    for card in answer.cards:
        assert f"stepscope explain {card.id}" in words
    assert "stepscope explain RULE" in words
