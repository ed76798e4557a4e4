"""Wrapping: Chinese between characters, nothing lost, nothing too wide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stepscope.views.page import wrapped

_words = st.lists(st.text("abz中文，。）(1", min_size=1, max_size=9), max_size=30).map(" ".join)


@given(text=_words, width=st.integers(20, 60))
def test_no_line_is_wider_than_asked_and_no_character_is_lost(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_chinese_breaks_between_characters_and_punctuation_never_begins_a_line() -> None:
    assert wrapped("设备在等待下一个批次，占每步的三分之一。", 20) == [
        "设备在等待下一个批",
        "次，占每步的三分之",
        "一。",
    ]


def test_english_breaks_at_spaces() -> None:
    assert wrapped("the device waits for its next batch", 20) == ["the device waits for", "its next batch"]


def test_indents_of_code_stay() -> None:
    assert wrapped("    a = 1", 20) == ["    a = 1"]


def test_a_long_name_is_cut_where_the_line_ends() -> None:
    assert wrapped("x" * 45, 20) == ["x" * 20, "x" * 20, "x" * 5]


def test_nothing_is_one_empty_line() -> None:
    assert wrapped("", 20) == [""]
