"""Options that more than one verb takes, and how an answer is put out."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import click

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


def console() -> Console:
    """A console on stdout: colour only where it is a terminal (`NO_COLOR`, `FORCE_COLOR` hold)."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for the outer wall: rich would end with 1, which means a finding here

    return Ours(highlight=False)


def put_report(report: Report, form: str, lang: Lang, output: str | None) -> None:
    """Put the report out in one of `FORMATS`."""
    if form == "json":
        from stepscope.views import json

        put(json.render(report).encode(), output)
    elif form == "markdown":
        from stepscope.views import markdown

        put(markdown.render(report, lang).encode(), output)
    elif form == "html":
        from stepscope.views import html

        put(html.render(report, lang).encode(), output)
    else:
        from stepscope.views.terminal import render_report

        if output is None or output == "-":
            render_report(report, console(), lang)
        else:
            import io

            from rich.console import Console

            sink = io.StringIO()
            render_report(report, Console(file=sink, width=100, highlight=False), lang)
            put(sink.getvalue().encode(), output)


def put(data: bytes, output: str | None) -> None:
    """Write to stdout, or to a file that appears whole or not at all."""
    if output is None or output == "-":
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(data.decode())
        else:
            stream.write(data)
            stream.flush()
        return
    with whole_file(output) as file:
        file.write(data)


@contextlib.contextmanager
def packed_file(output: str, option: str = "-o") -> Iterator[BinaryIO]:
    """`whole_file`, compressed where the name ends in .gz: the same bytes for the same content."""
    import gzip

    with whole_file(output, option) as file:
        if not output.endswith(".gz"):
            yield file
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
            yield cast("BinaryIO", packed)


@contextlib.contextmanager
def whole_file(output: str, option: str = "-o") -> Iterator[BinaryIO]:
    """A file that appears under its name when the block ends well, and not at all where it does not."""
    path = check_output(output, option)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device: nothing to replace
            with path.open("wb") as device:
                yield device
            return
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise click.UsageError(
            f"{output}: cannot be written: {error.strerror}; give another file to {option}"
        ) from error


def missing_extra(what: str, extra: str, error: ModuleNotFoundError) -> click.UsageError:
    """The one line for a part that is not installed; an import of ours that fails is raised as it is."""
    if error.name is None or error.name.partition(".")[0] == "stepscope":
        raise error
    return click.UsageError(f"{what} needs {error.name}; add it: pip install 'stepscope[{extra}]'")


def check_output(output: str, option: str = "-o") -> Path:
    """The path of an option, refused early where it cannot become a file."""
    path = Path(os.path.realpath(output))
    if path.is_dir():
        raise click.UsageError(f"{output}: is a directory; give a file to {option}")
    if not path.parent.is_dir():
        raise click.UsageError(f"{output}: its directory does not exist; make it first")
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
