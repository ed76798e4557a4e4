"""What a browser makes of a report: every word can be read, on a phone, a desk and paper, with no script."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepscope.model.text import LANGS, Lang
from stepscope.views.notebook import shown
from tests.browser.conftest import REPORTS
from tests.diagnose import build
from tests.views import many
from tests.views.whole import snapshot_alone

pytestmark = pytest.mark.browser
LAYOUT = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")
JOBS = (many.nobody_late, many.not_comparable, partial(many.job, number=64, num_steps=200))
WIDTHS = (320, 820, 1440)
OPENED = "document.querySelectorAll('details').forEach((each) => { each.open = true })"


def opened(browser: Any, path: Path, width: int = 1440, **options: Any) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", REPORTS)
def test_every_word_can_be_read(browser: Any, pages: Any, name: str, lang: Lang, width: int) -> None:
    page = opened(browser, pages[name, lang], width)
    assert page.evaluate(LAYOUT) == []
    page.evaluate(OPENED)
    assert page.evaluate(LAYOUT) == []
    page.close()


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ("document.querySelector('h1').setAttribute('style', 'margin-bottom: -2rem')", "lies on"),
        ("document.querySelector('.card').setAttribute('style', 'width: 2000px')", "the page is"),
        (
            "document.querySelector('.card').setAttribute('style', 'max-width: 200px; white-space: nowrap')",
            "holds",
        ),
        ("document.querySelector('.bar rect').setAttribute('x', '60%')", "outside svg"),
        ("document.querySelector('.lane').setAttribute('style', 'height: 2px')", "no room"),
    ],
)
def test_a_spoilt_layout_is_told(browser: Any, pages: Any, spoilt: str, said: str) -> None:
    page = opened(browser, pages["sample", "en"], 360, bypass_csp=True)
    page.evaluate(spoilt)
    assert any(said in fault for fault in page.evaluate(LAYOUT)), page.evaluate(LAYOUT)
    page.close()


LOOKS = [
    (name, lang, scheme)
    for name in REPORTS
    for lang, scheme in (("en", "light"), ("en", "dark"), ("zh", "light"), ("zh", "dark"))
    # Its names are endless: of the largest page each language and each scheme once.
    if name != "hostile" or (lang, scheme) in (("en", "light"), ("zh", "dark"))
]


@pytest.mark.parametrize(("name", "lang", "scheme"), LOOKS)
def test_it_is_accessible(browser: Any, pages: Any, name: str, lang: Lang, scheme: str) -> None:
    import axe_playwright_python

    page = opened(browser, pages[name, lang], 820, color_scheme=scheme)
    page.evaluate(OPENED)
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8"))
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})", rules)[
        "violations"
    ]
    assert [(each["id"], each["nodes"][0]["html"][:200], len(each["nodes"])) for each in found] == []
    page.close()


def test_a_contrast_that_is_too_low_is_told(browser: Any, pages: Any) -> None:
    import axe_playwright_python

    page = opened(browser, pages["sample", "en"], bypass_csp=True)
    page.evaluate("document.querySelector('h1').setAttribute('style', 'color: #bbb')")
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document)")["violations"]
    assert "color-contrast" in {each["id"] for each in found}
    page.close()


@pytest.mark.parametrize("name", REPORTS)
def test_it_asks_nobody_for_anything_and_runs_nothing(browser: Any, pages: Any, name: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(pages[name, "en"].as_uri())
    page.evaluate(OPENED)
    page.wait_for_timeout(100)
    assert asked == [pages[name, "en"].as_uri()]
    assert said == []
    context.close()


def test_without_scripts_the_page_is_the_same(browser: Any, pages: Any) -> None:
    shots = []
    for is_on in (True, False):
        page = opened(browser, pages["sample", "en"], java_script_enabled=is_on)
        assert "Waiting for data" in page.locator("h1").inner_text()
        page.locator("summary", has_text="Kernels").click()
        assert page.locator("#kernels table").is_visible()
        shots.append(page.screenshot(full_page=True))
        page.close()
    assert shots[0] == shots[1]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", ["sample", "rich", "work", "whole", "job"])
def test_on_paper_everything_is_open(browser: Any, pages: Any, tmp_path: Path, name: str, lang: Lang) -> None:
    page = opened(browser, pages[name, lang])
    headings = [each.inner_text() for each in page.locator("h2, h3, summary").all()]
    page.emulate_media(media="print")
    hidden = page.evaluate(
        "[...document.querySelectorAll('td, li, h4')]"
        ".filter((each) => !each.closest('nav') && !each.getClientRects().length).length"
    )
    assert hidden == 0
    # A sheet of A4 within its margins, in pixels: nothing is cut there either.
    page.set_viewport_size({"width": 718, "height": 1000})
    wide = page.evaluate(
        "[...document.querySelectorAll('table')]"
        ".map((each) => each.getBoundingClientRect().right).filter((right) => right > 719)"
    )
    assert wide == []
    printed = tmp_path / "page.pdf"
    page.pdf(path=str(printed), format="A4", margin=dict.fromkeys(("top", "right", "bottom", "left"), "10mm"))
    page.close()
    assert printed.read_bytes().startswith(b"%PDF")
    if shutil.which("pdftotext") is not None:
        text = subprocess.run(
            ["pdftotext", "-layout", str(printed), "-"], capture_output=True, check=True
        ).stdout.decode()
        squeezed = re.sub(r"\W", "", text)  # marks may come out behind their words
        assert [each for each in headings if re.sub(r"\W", "", each) not in squeezed] == []


def test_dark_and_light_are_the_readers_choice(browser: Any, pages: Any) -> None:
    seen = set()
    for scheme in ("light", "dark"):
        page = opened(browser, pages["sample", "en"], color_scheme=scheme)
        seen.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert len(seen) == 2


def test_a_link_of_the_contents_leads_to_its_section(browser: Any, pages: Any) -> None:
    page = opened(browser, pages["sample", "en"], 360)
    page.locator("nav a", has_text="Next command").click()
    assert page.locator("#next pre").is_visible()
    assert page.evaluate("scrollY") > 500
    page.close()


def test_the_made_reports_can_be_read_too(browser: Any, tmp_path: Path) -> None:
    from stepscope.views.html import render

    for make in (
        build.late_peer,
        build.unrecorded,
        build.several_files,
        build.healthy,
        snapshot_alone,
        *JOBS,
    ):
        path = tmp_path / "page.html"
        path.write_text(render(make("en")), encoding="utf-8")
        page = opened(browser, path, 360)
        page.evaluate(OPENED)
        assert page.evaluate(LAYOUT) == [], make
        page.close()


def test_in_a_notebook_the_page_stands_in_its_frame(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    style = "<style>h1, p { display: none } * { color: red !important }</style>"
    frame = shown(build.input_starved())._repr_html_()
    path.write_text(
        f"<!doctype html><html lang=en><title>n</title>{style}<main>{frame}</main></html>", "utf-8"
    )
    page = opened(browser, path, 820)
    inside = page.frames[1]
    assert inside.locator("h1").is_visible()
    assert "waits for its next batch" in inside.locator("h1").inner_text()
    assert page.frame_locator("iframe").locator(".card").count() == 1
    page.close()
