"""`stepscope compare BASE NEW`: what changed from one run to another, and whether it is more than noise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target
from stepscope.cli.diagnose import as_range

if TYPE_CHECKING:
    from stepscope.model.comparison import Comparison
    from stepscope.model.text import Lang
    from stepscope.offline.side import Wish

FORMATS = ("text", "json", "markdown")


@click.command("compare", short_help="What changed between two runs, and whether it is more than noise.")
@click.argument("base")
@click.argument("new", required=False)
@click.option(
    "--at",
    type=int,
    metavar="STEP",
    help="Compare BASE with itself: the steps before this one against it and those behind it.",
)
@click.option("--base-steps", metavar="A:B", callback=as_range, help="Only these steps of BASE.")
@click.option("--new-steps", metavar="A:B", callback=as_range, help="Only these steps of NEW.")
@click.option("--job", metavar="ID", help="Of a spool or a server: which job to read.")
@click.option(
    "--fail-on",
    type=click.Choice(option.SEVERITIES),
    default="info",
    show_default=True,
    help="End with 1 if NEW is slower by at least this much: info from 2 % on, warning from 5 %, critical "
    "from 20 %.",
)
@option.format_option(*FORMATS)
@option.output_option
@option.lang_option
@click.option(
    "--no-redact", is_flag=True, help="Keep host and user names, paths and addresses (secrets go always)."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Files read at the same time.",
)
@option.debug_option
def command(
    base: str,
    new: str | None,
    at: int | None,
    base_steps: tuple[int, int] | None,
    new_steps: tuple[int, int] | None,
    job: str | None,
    fail_on: str,
    form: str,
    output: str | None,
    lang: Lang,
    no_redact: bool,
    jobs: int,
) -> int:
    """Compare two runs: what changed in a step, and whether it is more than noise.

    BASE and NEW are each a report (--format json), a trace, a directory of traces, step rings, an agent's
    spool, or a window that a server stores: http://HOST:9500?job=J&start=…&end=….

    Exit codes: 1 where NEW is slower beyond the noise, 3 where the two are not comparable.
    """
    from stepscope.diagnose.compare import compare
    from stepscope.offline import has_native_loader
    from stepscope.offline.side import Steps, Wish, redacted, resolved

    if (new is None) == (at is None):
        raise click.UsageError("give NEW, or --at STEP to compare BASE before and behind a step")
    if at is not None and (base_steps or new_steps):
        raise click.UsageError("--at divides the steps already; leave --base-steps and --new-steps out")
    given = (base,) if new is None else (base, new)
    if output not in (None, "-"):
        target.check_output(output, inputs=given)

    def wish(steps: Steps | None) -> Wish:
        return Wish(steps, job, lang, no_redact, os.environ.get("STEPSCOPE_REDACT_KEY"), jobs)

    before: Steps | None = base_steps if at is None else (None, at - 1)
    after: Steps | None = new_steps if at is None else (at, None)
    first, second = resolved(base, wish(before)), resolved(base if new is None else new, wish(after))
    comparison = redacted(
        compare(first, second, lang, native_loader=has_native_loader()), first, second, wish(None)
    )
    with option.reader_may_go():
        put(comparison, form, lang, output)
    return exit_code(comparison, fail_on)


def put(comparison: Comparison, form: str, lang: Lang, output: str | None) -> None:
    """Put the comparison out in one of `FORMATS`."""
    from stepscope.views import compare as views

    if form == "json":
        option.put(views.as_json(comparison).encode(), output)
    elif form == "markdown":
        option.put(views.as_markdown(comparison, lang).encode(), output)
    elif output is None or output == "-":
        views.render(comparison, option.console(), lang)
    else:
        import io

        from rich.console import Console

        sink = io.StringIO()
        views.render(comparison, Console(file=sink, width=100, highlight=False), lang)
        option.put(sink.getvalue().encode(), output)


def exit_code(comparison: Comparison, fail_on: str) -> int:
    """3 where the sides are not comparable, 1 for a regression at or above `fail_on`, else 0."""
    if not comparison.is_comparable:
        return 3
    severity = comparison.verdict.severity
    if severity is not None and option.SEVERITIES.index(severity) >= option.SEVERITIES.index(fail_on):
        return 1
    return 0
