"""Pictures of causes: every unit at its place, nothing cut, readable without eyes and on a dark page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from stepscope.model.text import LANGS, Lang, Text
from stepscope.rules import load_catalog
from stepscope.rules.rule import Rule
from stepscope.rules.signature import DEVICE, HOST, MARKS, Lane, Signature
from stepscope.views.signature import COLOURS, WIDTH, Block, as_svg, as_text, blocks, text_width

TWO = Signature(
    caption=Text(en="A & B < C", zh="甲与乙"),
    lanes=(Lane(HOST, "ll.|l.."), Lane(DEVICE, ".cccc|c")),
)
RULES = [pytest.param(rule, id=rule.id) for rule in load_catalog(others=())]
SVG = "{http://www.w3.org/2000/svg}"


def test_equal_letters_are_one_block_and_a_bar_ends_it() -> None:
    assert blocks(Lane(HOST, "ll.lc|cc")) == [
        Block("l", 0, 2),
        Block("l", 3, 4),
        Block("c", 4, 5),
        Block("c", 5, 7),
    ]


def test_a_bar_takes_a_column_in_every_lane() -> None:
    assert as_text(TWO, 80) == ["host    ll.|l...", "device  .ccccc|c"]
    assert as_text(TWO, 80, "zh") == ["主机  ll.|l...", "设备  .ccccc|c"]


def test_what_is_too_long_goes_on_below() -> None:
    long = Signature(caption=TWO.caption, lanes=(Lane(HOST, "l" * 12), Lane(DEVICE, "c" * 12)))
    assert as_text(long, 16) == ["host    llllllll", "device  cccccccc", "        llll", "        cccc"]


def test_every_letter_has_a_colour_for_light_and_dark() -> None:
    assert set(COLOURS) == set(MARKS)
    assert all(re.fullmatch("#[0-9a-f]{6}", each) for pair in COLOURS.values() for each in pair)


def drawn(rule: Rule, lang: Lang) -> ElementTree.Element:
    return ElementTree.fromstring(as_svg(rule.signature, rule.title, lang))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lang", LANGS)
def test_no_text_is_cut_and_no_two_lie_on_each_other(rule: Rule, lang: Lang) -> None:
    picture = drawn(rule, lang)
    height = float(picture.attrib["height"])
    ends: dict[str, float] = {}
    for text in picture.iter(f"{SVG}text"):
        begin = float(text.attrib["x"])
        assert begin >= ends.get(text.attrib["y"], 0.0)
        ends[text.attrib["y"]] = begin + text_width(text.text or "")
        assert 0 <= begin < ends[text.attrib["y"]] <= WIDTH
        assert 12 < float(text.attrib["y"]) < height - 4
    for block in picture.iter(f"{SVG}rect"):
        assert float(block.attrib.get("x", 0)) + float(block.attrib["width"]) <= WIDTH


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lang", LANGS)
def test_a_picture_says_what_it_shows_and_has_both_kinds_of_page(rule: Rule, lang: Lang) -> None:
    picture = drawn(rule, lang)
    assert picture.attrib["role"] == "img"
    named = {each.attrib["id"]: each.text for each in picture if "id" in each.attrib}
    assert named == {"title": rule.title.in_(lang), "desc": rule.signature.caption.in_(lang)}
    assert picture.attrib["aria-labelledby"].split() == list(named)
    style = next(picture.iter(f"{SVG}style")).text or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    shown = {each.attrib["class"] for each in picture.iter(f"{SVG}rect")}
    for letter in shown:
        assert f".{letter} {{" in light
        assert f".{letter} {{" in dark


def test_what_is_written_is_escaped() -> None:
    picture = ElementTree.fromstring(as_svg(TWO, Text(en="<script>", zh="<b>")))
    assert [each.text for each in picture][:2] == ["<script>", "A & B < C"]


def test_a_letter_is_never_wider_than_we_say() -> None:
    """The widest mean of a lower-case word of ours in DejaVu Sans, the widest common font, is 0.65 ems."""
    assert text_width("what this rule is about") >= 23 * 0.65 * 13
    assert text_width("本规则所指") >= 5 * 13
    assert cell_len("主") == 2


def test_strange_letters_and_lanes_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="no mark"):
        Lane(HOST, "llZ")
    with pytest.raises(ValueError, match="equally long"):
        Signature(caption=TWO.caption, lanes=(Lane(HOST, "ll"), Lane(DEVICE, "ccc")))
    with pytest.raises(ValueError, match="without a lane"):
        Signature(caption=TWO.caption, lanes=())
