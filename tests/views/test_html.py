"""A report as a page: all of it is there, readable without a script, and nothing in it can break out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.diagnose.word import PART, VERDICT
from stepscope.model import report
from stepscope.model.text import LANGS, Lang
from stepscope.trace.kernel_class import CLASSES
from stepscope.views.detail_signal import signal_text
from stepscope.views.html import render
from stepscope.views.html.fill import FILL, JOB_FILL, KIND_FILL, MEMORY_FILL, OF_CLASS, PHASE_FILL
from stepscope.views.html.markup import joined, tag
from stepscope.views.label import COMPUTE_KIND
from stepscope.views.phrase import evidence_lines, gain_of, undecided_lines
from stepscope.views.shape import card_parts, full_rows, parts, readable, tells
from tests.diagnose import build
from tests.views import many
from tests.views import measured as telemetry
from tests.views.measured import measured, telemetry_alone
from tests.views.whole import snapshot_alone, whole

MADE = [
    build.input_starved,
    build.late_peer,
    build.unrecorded,
    build.healthy,
    build.several_files,
    whole,
    snapshot_alone,
    many.job,
    many.nobody_late,
    many.not_comparable,
    measured,
    telemetry_alone,
]
VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page taken apart: its elements with their attributes, its ids, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.data = ""
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attrs)))

    def handle_endtag(self, name: str) -> None:
        if not self.open or self.open.pop() != name:
            self.faults.append(f"</{name}> closes something else")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.data += data
        elif self.open[-1:] != ["style"]:
            self.said.append(data)

    @property
    def words(self) -> str:
        """All that is read, white space made one."""
        return " ".join("".join(self.said).split())

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for each, attributes in self.elements if each == name]


@pytest.fixture(scope="module")
def demo() -> report.Report:
    return stepscope.diagnose(Path(stepscope.__file__).parent / "demo/demo.pt.trace.json.gz")


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("make", MADE)
def test_a_page_is_well_formed_and_every_link_and_look_leads_somewhere(
    make: Callable[[Lang], report.Report], lang: Lang
) -> None:
    page = Page(render(make(lang)))
    assert page.faults == []
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {a["href"] for a in page.all("a")} | {
        f"#{value}" for _, a in page.elements for value in [a.get("aria-labelledby")] if value
    }
    assert wanted <= {f"#{each}" for each in ids}
    looks = {a["fill"] for _, a in page.elements if (a.get("fill") or "").startswith("url(")}
    assert looks <= {f"url(#{each}" + ")" for each in ids}
    assert page.all("html") == [{"lang": {"en": "en", "zh": "zh-Hans"}[lang]}]


def test_a_page_loads_nothing_and_runs_nothing(demo: report.Report) -> None:
    text = render(demo)
    page = Page(text)
    (policy,) = [m["content"] or "" for m in page.all("meta") if m.get("http-equiv")]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert page.all("script") == [{"type": "application/json", "id": "stepscope-report"}]
    for name, attributes in page.elements:
        assert name not in (
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "form",
            "base",
            "video",
            "foreignobject",
        )
        assert not {key for key in attributes if key.startswith("on") or key in ("src", "style", "srcset")}
        assert (attributes.get("href") or "#").startswith("#")


def test_the_whole_report_is_in_the_page_as_json(demo: report.Report) -> None:
    assert report.decode(Page(render(demo)).data) == demo


# What a page does not say: keys of programs, and sentences that it tells in its own words.
UNSAID = frozenset(
    "schema id sha256 kind use scope window status effect code from_ op of unit class_ bound lang affects "
    "findings explained_by cause overlaps_with devices job severity confidence layer missing uuid "
    "persistence what verdict basis reason source method parts part remove walk hint pattern".split()
)


def leaves(value: Any, field: str = "") -> list[tuple[str, str]]:
    """Every string of a report with the field it stands in."""
    if isinstance(value, str):
        return [(field, value)]
    if isinstance(value, msgspec.Struct):
        return [leaf for name in value.__struct_fields__ for leaf in leaves(getattr(value, name), name)]
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in leaves(each, field)]
    return []


def folded(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("make", [*MADE, None])
def test_every_sentence_and_name_of_a_report_is_on_its_page(
    make: Callable[[Lang], report.Report] | None, lang: Lang
) -> None:
    sample = Path(stepscope.__file__).parent / "demo/demo.pt.trace.json.gz"
    answer = stepscope.diagnose(sample, lang=lang) if make is None else make(lang)
    words = Page(render(answer)).words
    missing = []
    # Of several findings on one card the worst is told in full, and numbers that are nothing are not told.
    worst = [card_parts(card, answer).worst for card in answer.cards]
    told_findings = tuple(
        msgspec.structs.replace(each, evidence=tuple(filter(tells, each.evidence))) for each in worst
    )
    for field, text in leaves(msgspec.structs.replace(answer, findings=told_findings)):
        if field in UNSAID or field in ("detail", "why", "would_settle", "error"):
            continue  # told in the reader's language: the next test
        told = readable(text, 120) if field == "name" else text.removeprefix("thread ")
        if field in ("after", "before"):
            told = told.split("  # ")[0]  # the comment is in the reader's language
        if field == "path":
            told = text.split("/")[-1]  # it stands under the modules around it
        if field == "title":
            told = signal_text(text, lang)
        if folded(told) not in words and folded(readable(text, 90)) not in words:
            missing.append((field, text))
    # The names of a timeline stand behind its pieces; those of long tables are cut and said to be.
    assert missing == []


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("make", MADE)
def test_what_other_renderers_say_is_on_the_page(make: Callable[[Lang], report.Report], lang: Lang) -> None:
    answer = make(lang)
    words = Page(render(answer)).words
    for line in undecided_lines(answer.undecided, lang):
        assert folded(line) in words
    for card in answer.cards:
        shown = card_parts(card, answer)
        for line in evidence_lines(shown, answer, lang):
            name, _, value = line.rpartition(": ")[2].rpartition("：")[2].partition(" ")
            assert name in words
            assert value.split(" (")[0].split("（")[0] in words
        for remedy in shown.worst.remedies:
            assert folded(gain_of(remedy, shown.worst.cost, lang)) in words
    for row in full_rows(answer):
        for name, _ in parts(row):
            assert PART[name].in_(lang) in words


@pytest.mark.parametrize(
    ("looks", "parts_"),
    [
        (FILL, set(PART) - {"idle"}),
        ({**FILL, **JOB_FILL}, {*set(PART) - {"idle"}, "wait", "wait_hidden"}),
        (PHASE_FILL, {name.removesuffix("_ns") for name in report.Phases.__struct_fields__}),
        (KIND_FILL, set(report.COMPUTE_KINDS)),
        (MEMORY_FILL, set(report.MEMORY_KINDS)),
    ],
)
def test_no_two_parts_of_one_whole_look_alike_and_all_have_a_look(
    looks: dict[str, tuple[str, str]], parts_: set[str]
) -> None:
    assert set(looks) == parts_
    assert len(set(looks.values())) == len(looks)


def test_every_kind_of_compute_and_class_has_a_name() -> None:
    assert set(COMPUTE_KIND) == set(report.COMPUTE_KINDS)
    assert set(OF_CLASS) <= set(CLASSES)


def test_steps_and_timeline_are_drawn_to_scale(demo: report.Report) -> None:
    page = Page(render(demo))
    bars = [a for name, a in page.elements if name == "rect" and a.get("class") == "part"]
    (row,) = full_rows(demo)
    widths = [round(float((a["width"] or "").rstrip("%")), 2) for a in bars]
    assert row.compute is not None
    phases = [ns for ns in msgspec.structs.astuple(row.phases) if ns]
    kinds = sorted((ns for ns in msgspec.structs.astuple(row.compute) if ns), reverse=True)
    # Of the critical path, kinds of compute are one part.
    assert demo.replay is not None
    shares: dict[str, float] = {}
    for each in demo.replay.critical_path:
        name = each.part.partition(".")[0]
        shares[name] = shares.get(name, 0.0) + each.share
    path = sorted((round(100 * share, 2) for share in shares.values()), reverse=True)
    assert widths == [
        *(round(100 * time / row.total_ns, 2) for _, time in parts(row)),
        *(round(100 * time / sum(phases), 2) for time in phases),
        *(round(100 * time / row.compute_ns, 2) for time in kinds),
        *path,
    ]
    (timeline,) = demo.timelines
    pieces = sum(len(lane.start_ns) for lane in timeline.lanes)
    rects = [a for name, a in page.elements if name == "rect" and (a.get("y") and "fill" not in a)]
    caps = [a for a in rects if a.get("class") == "cap"]
    assert len(rects) - len(caps) == pieces
    assert len(caps) == len(row.variation.slow_steps if row.variation else ())
    for a in rects:
        assert 0 <= float((a["x"] or "").rstrip("%")) <= 100


def test_what_is_not_there_leaves_no_trace() -> None:
    words = Page(render(build.healthy())).words
    for title in (
        "Kernels",
        "Collectives",
        "Ranks",
        "What a change would win",
        "Telemetry",
        "Step by step",
        "Timeline",
    ):
        assert title not in words


HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!--<script>",
    "]]>&lt;&amp;&#60;",
    "javascript:alert(1)//';--",
    "\u202egnp.exe\u2066\u2069\u200b\u200d\ufeff",
    "עברית العربية name",
    "👩‍💻 🏳️‍🌈 é",
    "\ud800 lone \udfff",
    "\x00\x1b[31m\x07\r\n\u2028\u2029\x85",
    "x" * 10_000,
    "a b " * 2_500,
    "",
)


# Words of fixed lists and ids of ours: no input brings them.
FIXED = frozenset(
    "schema id rule code feature layer severity confidence from_ op use scope status method persistence "
    "bound effect lang kind findings explained_by overlaps_with unit window source basis reason".split()
)


def poisoned(value: Any, text: str, field: str = "") -> Any:
    """A report with a hostile text in the place of every string that an input may bring."""
    is_ours = isinstance(value, str) and (value in VERDICT or field == "verdict")
    if field in FIXED or is_ours:
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return msgspec.structs.replace(
            value, **{name: poisoned(getattr(value, name), text, name) for name in names}
        )
    return tuple(poisoned(each, text, field) for each in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:24])
def test_a_hostile_text_in_every_field_stays_text(text: str, lang: Lang, demo: report.Report) -> None:
    made = whole(lang)
    parts = {name: getattr(made, name) for name in ("operators", "operator_shapes", "modules", "memory")}
    parts |= {name: getattr(many.job(lang), name) for name in many.PARTS}
    parts |= {name: getattr(measured(lang), name) for name in telemetry.PARTS}
    full = msgspec.structs.replace(demo, **parts)
    clean = Page(render(full, lang))
    page = Page(render(poisoned(full, text), lang))
    assert page.faults == []
    assert page.open == []
    assert {name for name, _ in page.elements} <= {name for name, _ in clean.elements} | {"br"}
    assert len(page.all("script")) == 1
    json.loads(page.data)
    steering = {c for c in "".join(page.said) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert steering <= {"\n"}
    render(poisoned(full, text), lang).encode()


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(), max_size=80))
def test_any_text_stays_text(text: str) -> None:
    page = Page(str(tag("p", text, title=text)))
    assert page.faults == []
    assert [name for name, _ in page.elements] == ["p"]
    assert "<" not in str(joined(text))


def test_a_lone_surrogate_does_not_end_the_json() -> None:
    answer = build.told(build.rank(build.row()), inputs=[build.trace("x\udcff.json")])
    assert report.decode(report.encode(answer)).inputs[0].name == "x\ufffd.json"
    assert "x\ufffd.json" in Page(render(answer)).words


def test_a_job_of_many_ranks_has_a_page_of_a_size_one_can_mail() -> None:
    operators = tuple(
        report.Operator(rank=0, name=f"aten::op_{n}" + "x" * 60, class_="gemm", count=n, device_ns=n)
        for n in range(1, 51)
    )
    ranks = [build.rank(build.row(rank=n, input=33 * build.MS), operators=operators) for n in range(64)]
    assert len(render(build.told(*ranks)).encode()) < 1_500_000
