"""`stepscope rules`: the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli import option

if TYPE_CHECKING:
    from stepscope.model.text import Lang


@click.command("rules", short_help="Every cause that is known, with its thresholds.")
@option.lang_option
@option.debug_option
def command(lang: Lang) -> int:
    """List every cause that stepscope knows, with its thresholds."""
    from stepscope.rules import load_catalog
    from stepscope.views.terminal import render_rules

    render_rules(load_catalog(), option.console(), lang)
    return 0
