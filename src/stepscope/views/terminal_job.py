"""The ranks of a job together on a terminal: who is late, what each did when, and what would win."""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.text import Text as Styled

from stepscope.model import report
from stepscope.model.text import Lang, duration
from stepscope.views.job import LEVELS, MAP_MARK, NOTHING, heat, is_joined, late_ranks, strips, used_parts
from stepscope.views.job_word import (
    clock_line,
    collective_lines,
    has_ranks,
    heat_scale,
    imbalance_line,
    lateness_lines,
    part_name,
    path_line,
    rank_name,
    replay_line,
    say,
    sentences,
    what_if_lines,
)
from stepscope.views.label import joined
from stepscope.views.page import Page

MOST_ROWS, MOST_CELLS = 16, 60
"""Ranks with a row, and cells of one: as many as a screen has room for beside its other lines."""
_LABEL = 2
_BLOCKS = "▁▂▃▄▅▆▇█"
_WITHIN, _MISSING = "·", " "


def ranks(page: Page, report_: report.Report) -> None:
    """All that is known of the ranks together; nothing where there is one."""
    if not has_ranks(report_):
        return
    lang = page.lang
    page.gap()
    page.line(say("ranks", lang), "bold")
    is_late = bool(report_.stragglers)
    for line in lateness_lines(report_, lang):
        page.line(line, "red" if is_late else "", indent=2)
    if line := imbalance_line(report_, lang):
        page.line(line, indent=2)
    _map(page, report_)
    _heat(page, report_)
    if lines := collective_lines(report_, lang):
        page.line(say("collectives", lang), "bold", indent=2)
        for line in lines:
            page.line(line, indent=4)
    if is_joined(report_) and (line := clock_line(report_, lang)):
        page.line(line, "dim", indent=2)


def what_if(page: Page, report_: report.Report) -> None:
    """What a change would win, and the critical path; nothing without a replay."""
    replay, lang = report_.replay, page.lang
    if replay is None:
        return
    page.gap()
    page.line(say("what_if", lang), "bold")
    for line in what_if_lines(replay, lang):
        page.line(line, indent=2)
    if line := path_line(replay, report_, lang):
        page.line(line, indent=2)
    page.line(replay_line(replay, lang), "dim" if replay.status == "ok" else "yellow", indent=2)


def _labels(shown: Sequence[int], report_: report.Report, lang: Lang) -> tuple[list[str], int]:
    late = late_ranks(report_)
    told = [rank_name(rank, lang) + (" !" if rank in late else "") for rank in shown]
    return told, max(map(len, told), default=0)


def _map(page: Page, report_: report.Report) -> None:
    lang, whole = page.lang, report_.rank_map
    if whole is None or not whole.rows:
        return
    labels, wide = _labels([row.rank for row in whole.rows], report_, lang)
    shown = strips(report_, MOST_ROWS, min(MOST_CELLS, page.width - wide - 2 - 2 * _LABEL))
    length = duration(whole.cell_ns * max(len(row.cells) for row in whole.rows))
    page.line(joined((say("map", lang), length), lang), "bold", indent=2)
    labels, _ = _labels([strip.rank for strip in shown], report_, lang)
    for strip, label in zip(shown, labels, strict=True):
        line = Styled(f"{label:<{wide}}  ", "red" if strip.is_late else "", no_wrap=True)
        for part in strip.parts:
            mark, colour = MAP_MARK[part]
            line.append(mark, colour)
        page.put(Padding(line, (0, 0, 0, 2 * _LABEL), expand=False))
    told = [f"{MAP_MARK[part][0]} {part_name(part, report_, lang)}" for part in used_parts(shown)]
    if any(part == NOTHING for strip in shown for part in strip.parts):
        told.append(f"{MAP_MARK[NOTHING][0]} {say('nothing', lang)}")
    page.line(sentences(told, lang), "dim", indent=2 * _LABEL)
    _left_out(page, len(whole.rows) - len(shown))


def _heat(page: Page, report_: report.Report) -> None:
    lang = page.lang
    wide = _labels([row.rank for row in report_.lateness.rows], report_, lang)[1] if report_.lateness else 0
    # Behind the cells stands how late it came at most, and how long it waited: `18.0 ms  126 ms`.
    found = heat(report_, MOST_ROWS, max(10, min(MOST_CELLS, page.width - wide - 4 - 2 * _LABEL - 18)))
    if found is None or not found.is_any_late:
        return
    first, last = found.steps[0], found.steps[-1]
    which = f"第 {first}–{last} 步" if lang == "zh" else f"steps {first}–{last}"
    if first == last:
        which = f"第 {first} 步" if lang == "zh" else f"step {first}"
    page.line(joined((say("heat", lang), which), lang), "bold", indent=2)
    labels, _ = _labels([row.rank for row in found.rows], report_, lang)
    for row, label in zip(found.rows, labels, strict=True):
        line = Styled(f"{label:<{wide}}  ", "red" if row.is_late else "", no_wrap=True)
        for level in row.levels:
            if level is None:
                line.append(_MISSING)
            elif level == 0:
                line.append(page.text(_WITHIN, "bright_black"))
            else:
                line.append(page.text(_BLOCKS[level - 1], "red" if 2 * level > LEVELS else "yellow"))
        most = "" if row.most_ns is None else duration(row.most_ns)
        line.append(page.text(f"  {most:>8} {duration(row.wait_ns):>8}"))
        page.put(Padding(line, (0, 0, 0, 2 * _LABEL), expand=False))
    scale = heat_scale(found, lang)
    columns = "右侧：最大落后、共等待" if lang == "zh" else "right: latest by, waited in all"
    page.line(sentences((scale, columns), lang), "dim", indent=2 * _LABEL)
    _left_out(page, found.num_left_out)


def _left_out(page: Page, number: int) -> None:
    if number > 0:
        more = f"另有 {number} 个 rank 未绘出" if page.lang == "zh" else f"{number} more ranks are not drawn"
        page.line(more, "dim", indent=2 * _LABEL)
