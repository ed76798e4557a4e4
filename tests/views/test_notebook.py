"""A report in a notebook: shown as its page, and in every other way the report that it is."""

from __future__ import annotations

import copy
import pickle
from html import unescape

import msgspec
import pytest

from stepscope.model import report
from stepscope.model.text import LANGS, Lang
from stepscope.views.html import render
from stepscope.views.json import render as as_json
from stepscope.views.notebook import ShownReport, shown
from tests.diagnose import build
from tests.views.test_html import HOSTILE, Page, poisoned


def test_it_is_equal_to_the_report_both_ways_and_to_nothing_else() -> None:
    plain = build.input_starved()
    mine = shown(plain)
    assert mine == plain
    assert plain == mine
    assert mine == shown(plain)
    assert hash(mine) == hash(shown(plain))
    other = build.healthy()
    assert mine != other
    assert other != mine
    assert mine != "report"
    assert msgspec.structs.replace(mine, next="x") != plain
    assert isinstance(msgspec.structs.replace(mine, next="x"), ShownReport)


def test_its_json_is_that_of_the_report() -> None:
    plain = build.late_peer()
    mine = shown(plain)
    assert report.encode(mine) == report.encode(plain)
    assert as_json(mine) == as_json(plain)
    assert report.decode(report.encode(mine)) == mine
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert copy.deepcopy(mine) == mine


@pytest.mark.parametrize("lang", LANGS)
def test_a_notebook_gets_the_page_in_a_frame_that_may_do_nothing(lang: Lang) -> None:
    mine = shown(build.input_starved(lang))
    page = Page(mine._repr_html_())
    ((name, frame),) = page.elements
    assert (name, frame["sandbox"]) == ("iframe", "")
    assert frame["srcdoc"] == render(mine, lang)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:24])
def test_a_hostile_text_does_not_leave_its_frame(text: str) -> None:
    written = shown(poisoned(build.input_starved(), text))._repr_html_()
    assert [name for name, _ in Page(written).elements] == ["iframe"]
    inside = written.partition('srcdoc="')[2].partition('"')[0]
    assert unescape(inside).startswith("<!doctype html>")
