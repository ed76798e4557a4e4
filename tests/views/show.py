"""A report as a terminal shows it."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.views.terminal import render_report


def printed(
    draw: Callable[[Console], None], width: int = 100, encoding: str = "utf-8", colour: bool = False
) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    system = "standard" if colour else "auto"
    draw(Console(file=file, width=width, highlight=False, force_terminal=colour or None, color_system=system))
    file.flush()
    return raw.getvalue().decode(encoding)


def shown(answer: report.Report, lang: Lang = "en", width: int = 100, encoding: str = "utf-8") -> str:
    return printed(lambda console: render_report(answer, console, lang), width, encoding)
