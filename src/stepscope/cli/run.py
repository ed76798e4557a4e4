"""`stepscope run -- CMD`: a script instead of a file."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target

if TYPE_CHECKING:
    from stepscope.model.text import Lang


def _as_capture(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """`auto` is -1, `off` is `None`, else the number of steps."""
    if value in ("auto", "off"):
        return -1 if value == "auto" else None
    if value.isdecimal() and 1 <= int(value) <= 100:
        return int(value)
    raise click.BadParameter(f"{value!r} is no number of steps; write auto, off, or 1 to 100")


@click.command(
    "run",
    short_help="Run a training script as it is, and say why it is slow.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.argument("words", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--capture",
    metavar="auto|off|N",
    default="auto",
    show_default=True,
    callback=_as_capture,
    help="A trace of a few steps: only where the marks cannot decide, never, or of N steps in any case.",
)
@click.option("--keep", metavar="DIR", help="Keep the marks and the captured trace there.")
@option.format_option(*option.FORMATS)
@option.output_option
@option.lang_option
@click.option(
    "--fail-on",
    type=click.Choice(option.SEVERITIES),
    help="End with 1 if a finding is at least this severe and the command itself ended with 0.",
)
@click.option(
    "--no-redact", is_flag=True, help="Keep host and user names, paths and addresses (secrets go always)."
)
@option.debug_option
def command(
    words: tuple[str, ...],
    capture: int | None,
    keep: str | None,
    form: str,
    output: str | None,
    lang: Lang,
    fail_on: str | None,
    no_redact: bool,
) -> int:
    """Run a training script as it is, and say at its end why it is slow.

    CMD is what you would have typed: python train.py, torchrun …, accelerate launch …, or a shell script.
    Nothing of it is changed: steps are found by the optimizer. The answer comes at its end, also after Ctrl-C
    or a crash, on standard error or in the file after -o; standard output stays the command's own.

    The exit code is the command's (128 + N where signal N ended it, 127 where it is not found).
    """
    from stepscope.run import Options, run

    if output not in (None, "-"):
        target.check_output(output)
    if keep is not None:
        target.check_place(keep, "--keep")
    options = Options(capture=capture, keep=keep, lang=lang, keep_identities=no_redact,
                      redact_key=os.environ.get("STEPSCOPE_REDACT_KEY"))  # fmt: skip
    done = run(words, os.environ, options, time.time())
    for line in done.lines:
        click.echo(f"stepscope: {line}", err=True)
    if done.report is not None:
        option.put_report(done.report, form, lang, output, is_error=True)
        if fail_on is not None and done.code == 0:
            from stepscope.cli.diagnose import exit_code

            return int(exit_code(done.report, fail_on) == 1)
    return done.code
