"""The ranks of a job together in Markdown: folded sections of the ranks and of what a change would win."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.model import report
from stepscope.model.text import Lang, duration
from stepscope.views.job import MAP_MARK, NOTHING, is_joined, strips, used_parts
from stepscope.views.job_word import (
    clock_line,
    collective_lines,
    has_ranks,
    imbalance_line,
    lateness_lines,
    part_name,
    path_line,
    replay_line,
    say,
    sentences,
    strip_name,
    what_if_lines,
)
from stepscope.views.label import colon, joined

MOST_ROWS, MOST_CELLS = 16, 60

_Text = Callable[[str], str]
_Fold = Callable[[str, list[str]], list[str]]


def sections(report_: report.Report, lang: Lang, text: _Text, code: _Text, fold: _Fold) -> list[list[str]]:
    """The sections that there is something to say in. `text`, `code` and `fold` are the page's ways to write
    plain text, a name and a section that opens."""
    made = []
    if has_ranks(report_):
        lines = [f"- {line}" for line in lateness_lines(report_, lang, code, text)]
        lines += [f"- {line}" for line in (imbalance_line(report_, lang, text),) if line]
        lines += [f"- {text(line)}" for line in collective_lines(report_, lang)]
        lines += [f"- {line}" for line in (clock_line(report_, lang),) if line and is_joined(report_)]
        made.append(fold(say("ranks", lang), [*lines, *_map(report_, lang)]))
    replay = report_.replay
    if replay is not None:
        lines = [f"- {line}" for line in what_if_lines(replay, lang, text)]
        lines += [f"- {line}" for line in (path_line(replay, report_, lang),) if line]
        lines.append(f"- {replay_line(replay, lang, text)}")
        made.append(fold(say("what_if", lang), lines))
    return made


def _map(report_: report.Report, lang: Lang) -> list[str]:
    """The map of ranks as text, with what its letters mean."""
    whole, shown = report_.rank_map, strips(report_, MOST_ROWS, MOST_CELLS)
    if whole is None or not shown:
        return []
    names = [strip_name(strip.rank, report_, lang) for strip in shown]
    wide = max(map(len, names))
    rows = [
        f"{name:<{wide}}  {''.join(MAP_MARK[part][0] for part in strip.parts)}"
        for name, strip in zip(names, shown, strict=True)
    ]
    told = [f"{MAP_MARK[part][0]} {part_name(part, report_, lang)}" for part in used_parts(shown)]
    if any(part == NOTHING for strip in shown for part in strip.parts):
        told.append(f"{MAP_MARK[NOTHING][0]} {say('nothing', lang)}")
    length = duration(whole.cell_ns * max(len(row.cells) for row in whole.rows))
    left = len(whole.rows) - len(shown)
    more = f"另有 {left} 个 rank 未绘出" if lang == "zh" else f"{left} more ranks are not drawn"
    head = joined((say("map", lang), length), lang)
    return [
        "",
        f"{head}{colon(lang)}".rstrip(),
        "",
        "```text",
        *rows,
        "",
        sentences(told, lang),
        *([more] if left > 0 else []),
        "```",
    ]
