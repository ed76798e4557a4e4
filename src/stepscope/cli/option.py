"""Options that more than one verb takes, and how an answer is put out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepscope.cli.target import whole_file

if TYPE_CHECKING:
    from rich.console import Console

    from stepscope.model.report import Report
    from stepscope.model.text import Lang

F = TypeVar("F", bound=Callable[..., Any])

SEVERITIES = ("info", "warning", "critical")
FORMATS = ("text", "json", "markdown", "html")


def lang_option(function: F) -> F:
    """`--lang en|zh`."""
    return click.option(
        "--lang",
        type=click.Choice(["en", "zh"]),
        default="en",
        show_default=True,
        help="Language of the answer.",
    )(function)


def debug_option(function: F) -> F:
    """`--debug`: the outer wall reads it from the words themselves."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(
        function
    )


def format_option(*formats: str) -> Callable[[F], F]:
    """`--format`, the first one being the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Form of the answer.",
    )


def output_option(function: F) -> F:
    """`-o FILE`."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write there instead of to the screen; the file appears when it is complete.",
    )(function)


def console(is_error: bool = False) -> Console:
    """A console on stdout or stderr: colour only where it is a terminal (`NO_COLOR`, `FORCE_COLOR` hold)."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for the outer wall: rich would end with 1, which means a finding here

    return Ours(highlight=False, stderr=is_error)


@contextlib.contextmanager
def reader_may_go() -> Iterator[None]:
    """What is put out in here may find no reader any more (`| head -1`): the verb ends with its own code all
    the same, a regression is no success because nobody read to the end."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def put_report(report: Report, form: str, lang: Lang, output: str | None, *, is_error: bool = False) -> None:
    """Put the report out in one of `FORMATS`; without a file to stdout, or to stderr where it is not ours."""
    if form == "json":
        from stepscope.views import json

        put(json.render(report).encode(), output, is_error)
    elif form == "markdown":
        from stepscope.views import markdown

        put(markdown.render(report, lang).encode(), output, is_error)
    elif form == "html":
        from stepscope.views import html

        put(html.render(report, lang).encode(), output, is_error)
    else:
        from stepscope.views.terminal import render_report

        if output is None or output == "-":
            render_report(report, console(is_error and output is None), lang)
        else:
            import io

            from rich.console import Console

            sink = io.StringIO()
            render_report(report, Console(file=sink, width=100, highlight=False), lang)
            put(sink.getvalue().encode(), output)


def put(data: bytes, output: str | None, is_error: bool = False) -> None:
    """Write to stdout, or stderr, or to a file that appears whole or not at all."""
    if output is None or output == "-":
        text = sys.stderr if is_error and output is None else sys.stdout
        text.flush()
        stream = getattr(text, "buffer", None)
        if stream is None:
            text.write(data.decode())
        else:
            stream.write(data)
            stream.flush()
        return
    with whole_file(output) as file:
        file.write(data)


def missing_extra(what: str, extra: str, error: ModuleNotFoundError) -> click.UsageError:
    """The one line for a part that is not installed; an import of ours that fails is raised as it is."""
    if error.name is None or error.name.partition(".")[0] == "stepscope":
        raise error
    return click.UsageError(f"{what} needs {error.name}; add it: pip install 'stepscope[{extra}]'")
