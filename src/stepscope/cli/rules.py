"""`stepscope rules`: the catalogue."""

from __future__ import annotations

import click

from stepscope.cli import option


@click.command("rules")
@option.lang_option
@option.debug_option
def command(lang: str) -> int:
    """List every cause that stepscope knows, with its thresholds."""
    from stepscope.rules import load_catalog
    from stepscope.views.terminal import render_rules

    render_rules(load_catalog(), option.console(), lang)
    return 0
