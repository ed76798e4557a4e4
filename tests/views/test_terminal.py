"""How a report looks on a terminal: compared with `snapshots/`, rewritten under `UPDATE_SNAPSHOTS=1`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from stepscope.model import report
from stepscope.model.text import LANGS, Lang
from stepscope.rules import load_catalog
from stepscope.views.terminal import render_explain, render_report, render_rules
from tests.diagnose import build
from tests.views import many
from tests.views.measured import measured, telemetry_alone
from tests.views.show import printed, shown

SNAPSHOTS = Path(__file__).parent / "snapshots"
REPORTS: dict[str, Callable[[Lang], report.Report]] = {
    "input_starved": build.input_starved,
    "late_peer": build.late_peer,
    "unrecorded": build.unrecorded,
    "healthy": build.healthy,
    "job": many.job,
    "nobody_late": many.nobody_late,
    "measured": measured,
    "telemetry_alone": telemetry_alone,
}


def compare(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_report_looks_like_its_snapshot(name: str, lang: Lang) -> None:
    compare(f"{name}.{lang}.txt", shown(REPORTS[name](lang), lang))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_report_fits_sixty_columns_but_for_what_is_to_be_copied(lang: Lang) -> None:
    for make in REPORTS.values():
        for line in shown(make(lang), lang, width=60).splitlines():
            copied = re.match(r"\s+[-+] |Next: |下一步：", line)
            assert copied or cell_len(line.rstrip()) <= 60, line


def test_there_is_no_colour_where_there_is_no_terminal() -> None:
    assert "\x1b" not in shown(build.input_starved())


def test_there_is_colour_on_a_terminal_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(console: Console) -> None:
        render_report(build.input_starved(), console)

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31m" in printed(draw, colour=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", printed(draw, colour=True))


def test_a_terminal_of_ascii_gets_ascii_and_the_same_lines() -> None:
    ascii_lines = shown(build.input_starved(), encoding="ascii").splitlines()
    assert len(ascii_lines) == len(shown(build.input_starved()).splitlines())
    assert not any("?" in line and "computing" in line for line in ascii_lines)
    assert "stepscope diagnose NEW_TRACE" in ascii_lines[-1]


def test_a_terminal_without_chinese_says_so() -> None:
    assert shown(build.input_starved("zh"), "zh", encoding="ascii").startswith("This terminal's encoding")


def test_names_of_an_input_can_neither_steer_the_terminal_nor_pass_for_markup() -> None:
    evil = report.Operator(name="\x1b]0;owned\x07[red]x[/red]\u202egnp.exe", count=1, device_ns=5, rank=0)
    answer = build.told(build.rank(build.row(), operators=(evil,)))
    text = shown(answer)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]x[/red]" in text


def test_a_chinese_report_has_no_english_sentence() -> None:
    for make in REPORTS.values():
        # What a driver or a framework said is quoted.
        answer = msgspec.structs.replace(make("zh"), events=())
        for line in shown(answer, "zh").splitlines():
            if not re.match(r"\s+[-+] |下一步：", line):
                assert len(re.findall(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b", line)) == 0, line


def heads(text: str) -> list[str]:
    """The lines over the bars."""
    return [line for line in text.splitlines() if " a step" in line and line.startswith(("rank", "file"))]


def test_of_many_ranks_those_spoken_of_have_bars_and_the_others_a_line() -> None:
    def stalled(n: int) -> dict[str, int]:
        return {"launch": 40 * build.MS} if n == 5 else {"input": (60 if n == 3 else 20) * build.MS}

    ranks = [build.rank(build.row(rank=n, **stalled(n)), world_size=8) for n in range(8)]
    text = shown(build.told(*ranks))
    assert [head.split(",")[0] for head in heads(text)] == ["rank 3", "rank 5"]
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines() if re.match(r"  rank \d  ", line)]
    assert [line[0] for line in rows] == [f"rank {n}" for n in (0, 1, 2, 4, 6, 7)]
    wanted = ["rank 0", "25.0 ms", "80.0 %", "0.0 %", "0.0 %", "20.0 %", "waiting for input 20.0 %"]
    assert rows[0] == wanted
    assert "costs 60.0 % (15.0 ms a step), rank 3, confidence medium" in text
    for lang in LANGS:
        for line in shown(build.told(*ranks, lang=lang), lang, width=60).splitlines():
            assert re.match(r"\s+[-+] |Next: |下一步：", line) or cell_len(line.rstrip()) <= 60, line


def test_very_many_ranks_are_cut_and_said() -> None:
    ranks = [build.rank(build.row(rank=n, input=20 * build.MS), world_size=40) for n in range(40)]
    text = shown(build.told(*ranks))
    assert "+ 7 more rows in the JSON report" in text
    assert text.count("idle_input_share 20.0 % (>= 10.0 %)") == 8
    assert "+ 32 more rows in the JSON report" in text


def test_several_files_without_rank_are_labelled_by_file_and_what_they_all_say_is_said_once() -> None:
    text = shown(build.several_files())
    assert [head.split(",")[0] for head in heads(text)] == ["file host_7.22.pt.trace.json.gz"]
    assert "file host_7.22.pt.trace.json.gz: idle_input_share 82.8 %" in text
    assert "file host_7.33.pt.trace.json.gz: idle_input_share 20.0 %" in text
    assert text.count("no device activity") == 1
    assert "(3 times)" in text


def test_the_bar_fills_its_width_exactly() -> None:
    line = next(
        line for line in shown(build.input_starved(), width=84).splitlines() if line.startswith("  ###")
    )
    assert len(line.rstrip()) == 2 + 80
    assert line.count("i") == pytest.approx(0.33 * 80, abs=1)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_catalogue_looks_like_its_snapshot(lang: Lang) -> None:
    catalog = load_catalog(others=())
    compare(f"rules.{lang}.txt", printed(lambda console: render_rules(catalog, console, lang)))
    rule = catalog["exposed-communication"]
    compare(f"explain.{lang}.txt", printed(lambda console: render_explain(rule, console, lang)))
