"""A headless Chromium, and pages of several kinds of reports in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

import stepscope
from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.views.html import render
from tests.diagnose import build
from tests.views import many
from tests.views import measured as telemetry
from tests.views.measured import measured, telemetry_alone
from tests.views.test_html import HOSTILE, poisoned
from tests.views.whole import whole

# Without a user namespace or a GPU, and without a word to anybody: the browser's own services are off.
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --font-render-hinting=none"
).split()
RICH = "traces/holistictraceanalysis/negative_queue_length_values_check/rank0.json.gz"
WORK = "traces/tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"


@pytest.fixture(scope="session")
def browser():  # type: ignore[no-untyped-def]
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium on this machine (Debian: apt install chromium fonts-noto-cjk)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


def _sample(lang: Lang) -> report.Report:
    return stepscope.diagnose(Path(stepscope.__file__).parent / "demo/demo.pt.trace.json.gz", lang=lang)


def _rich(lang: Lang) -> report.Report:
    """A real report with collectives, several threads and slow steps; where it is absent, a made one."""
    from tests.conftest import _shared_data

    path = _shared_data() / RICH
    return stepscope.diagnose(path, lang=lang) if path.exists() else build.several_files(lang)


def _work(lang: Lang) -> report.Report:
    """A real report with shapes, modules, stacks and memory; where it is absent, a made one."""
    from tests.conftest import _shared_data

    path = _shared_data() / WORK
    return stepscope.diagnose(path, lang=lang) if path.exists() else whole(lang)


def _hostile(lang: Lang) -> report.Report:
    """Every text of the sample hostile, and of what other reports have of work and memory."""
    made = whole(lang)
    parts = {name: getattr(made, name) for name in ("operators", "operator_shapes", "modules", "memory")}
    parts |= {name: getattr(many.job(lang), name) for name in many.PARTS}
    parts |= {name: getattr(measured(lang), name) for name in telemetry.PARTS}
    answer = poisoned(replace(_sample(lang), **parts), " ".join(HOSTILE))
    assert isinstance(answer, report.Report)
    return answer


def _job(lang: Lang) -> report.Report:
    """The ranks of a job, with as many steps as are drawn."""
    return many.job(lang, number=8, num_steps=200)


REPORTS = {
    "sample": _sample,
    "rich": _rich,
    "hostile": _hostile,
    "work": _work,
    "whole": whole,
    "job": _job,
    "measured": measured,
    "telemetry": telemetry_alone,
}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, Lang], Path]:
    """A file for each kind of report and language."""
    folder = tmp_path_factory.mktemp("pages")
    made: dict[tuple[str, Lang], Path] = {}
    languages: tuple[Lang, ...] = ("en", "zh")
    for name, make in REPORTS.items():
        for lang in languages:
            made[name, lang] = folder / f"{name}.{lang}.html"
            made[name, lang].write_text(render(make(lang), lang), encoding="utf-8")
    return made
