"""Telemetry and logs in Markdown: folded sections of counters, events, progress, patterns and walks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.views.counter import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    MOST_OWNERS,
    MOST_WALKS,
    device_rows,
    host_rows,
)
from stepscope.views.counter_word import (
    counters_head,
    event_lines,
    hint_lines,
    lag_lines,
    more_line,
    own_cost_lines,
    owner_table,
    pattern_lines,
    pattern_table,
    progress_lines,
    reason_lines,
    representative_line,
    walk_head,
    walk_status,
    walk_steps,
)
from stepscope.views.label_signal import say

_Text = Callable[[str], str]
_Fold = Callable[[str, list[str]], list[str]]


def sections(
    report_: report.Report, lang: Lang, text: _Text, code: _Text, html: _Text, fold: _Fold
) -> list[list[str]]:
    """The sections that there is something to say in. `text`, `code`, `html` and `fold` are the page's ways
    to write plain text, a name, a text within HTML and a section that opens."""
    made = []
    events, num_more = event_lines(report_, lang, text)
    if events:
        lines = [f"- {_bracketed(line)}" for _, line in events]
        made.append(fold(say("events", lang), [*lines, *_more(num_more, lang)]))
    if progress := progress_lines(report_, lang, text):
        made.append(fold(say("progress", lang), [f"- {line}" for line in progress]))
    if costs := own_cost_lines(report_, lang):
        made.append(fold(say("own_cost", lang), [f"- {line}" for line in costs]))
    if counters := _counters(report_, lang, text):
        made.append(fold(html(counters_head(report_, lang)), counters))
    if report_.patterns:
        heads, rows, num_more = pattern_table(report_, lang)
        lines = [*_table(heads, rows, text, is_words=True), *_more(num_more, lang), ""]
        lines += [f"- {line}" for line in pattern_lines(report_, lang, code, text)]
        made.append(fold(say("patterns", lang), [*lines, f"- {say('decides_nothing', lang)}"]))
    for walk in report_.walks[:MOST_WALKS]:
        lines = [
            f"{place}. **{walk_status(status, lang)}** {text(line)}"
            for place, (status, line) in enumerate(walk_steps(walk, lang), 1)
        ]
        made.append(fold(html(walk_head(walk, lang)), lines))
    hints, num_more = hint_lines(report_, lang, code, text)
    if hints:
        made.append(fold(say("hints", lang), [*(f"- {line}" for line in hints), *_more(num_more, lang)]))
    return made


def _counters(report_: report.Report, lang: Lang, text: _Text) -> list[str]:
    lines: list[str] = []
    for rows, columns in (
        (device_rows(report_), DEVICE_COLUMNS),
        (host_rows(report_), HOST_COLUMNS),
    ):
        if rows:
            lines += ["", *_table(*owner_table(rows[:MOST_OWNERS], columns, lang), text)]
            lines += _more(len(rows) - MOST_OWNERS, lang)
    alike = representative_line(report_, lang)
    told = [*map(text, reason_lines(report_, lang)), *lag_lines(report_, lang, text)]
    told += [text(alike)] if alike else []
    return [*lines[1:], "", *(f"- {line}" for line in told)] if lines or told else []


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], text: _Text, *, is_words: bool = False
) -> list[str]:
    line = "---|" if is_words else "--:|"
    return [
        "| " + " | ".join(map(text, heads)) + " |",
        "|---|" + line * (len(heads) - 1),
        *("| " + " | ".join(map(text, row)) + " |" for row in rows),
    ]


def _bracketed(line: str) -> str:
    """A line that begins with a word in brackets, which Markdown would take for a task or a link."""
    return line.replace("[", "\\[", 1).replace("]", "\\]", 1)


def _more(count: int, lang: Lang) -> list[str]:
    return ["", more_line(count, lang)] if count > 0 else []
