"""`stepscope mcp`: answers for an agent, over stdin and stdout."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stepscope.cli import option

if TYPE_CHECKING:
    from stepscope.model.text import Lang


@click.command("mcp", short_help="Answers over the Model Context Protocol, read-only.")
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    help="A folder whose traces may be read; may be given again.  [default: the current one]",
)
@option.lang_option
@option.debug_option
def command(roots: tuple[str, ...], lang: Lang) -> int:
    """Answer an agent over the Model Context Protocol on stdin and stdout, until stdin ends.

    Read-only: nothing is written, and no file outside of the roots is read.
    """
    from stepscope.mcp.root import Roots

    found = Roots(roots or (".",))
    try:
        from stepscope.mcp.serve import serve
    except ModuleNotFoundError as error:
        raise option.missing_extra("stepscope mcp", "mcp", error) from error
    from stepscope.cli.doctor import examine
    from stepscope.mcp.desk import Desk

    key = os.environ.get("STEPSCOPE_REDACT_KEY")
    serve(Desk(found, doctor=examine, lang=lang, redact_key=key))
    return 0
