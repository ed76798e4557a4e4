"""`stepscope explain RULE`: one rule with its thresholds, references and remedies."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from stepscope.cli import option

if TYPE_CHECKING:
    from stepscope.model.text import Lang


@click.command("explain", short_help="One rule: meaning, thresholds, references, remedies.")
@click.argument("rule")
@option.lang_option
@option.debug_option
def command(rule: str, lang: Lang) -> int:
    """Explain one rule: what it means, when it fires, from where its numbers are, what to do."""
    from stepscope.rules import load_catalog
    from stepscope.views.terminal import render_explain

    catalog = load_catalog()
    if rule not in catalog.rules:
        near = difflib.get_close_matches(rule, catalog.rules, n=1)
        hint = f"did you mean {near[0]}?" if near else "`stepscope rules` lists them"
        raise click.UsageError(f"there is no rule {rule!r}; {hint}")
    render_explain(catalog[rule], option.console(), lang)
    return 0
