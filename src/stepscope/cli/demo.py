"""`stepscope demo`: the first answer, with no GPU and no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target

if TYPE_CHECKING:
    from stepscope.model.text import Lang

SAMPLE = "demo.pt.trace.json.gz"


@click.command("demo", short_help="The first answer, with no GPU and no file.")
@option.format_option(*option.FORMATS)
@option.output_option
@option.lang_option
@option.debug_option
def command(form: str, output: str | None, lang: Lang) -> int:
    """Diagnose the packaged sample: a made-up run whose loader is too slow."""
    from importlib.resources import as_file, files

    from stepscope import offline

    with as_file(files("stepscope.demo") / SAMPLE) as path:
        if output not in (None, "-"):
            target.check_output(output, inputs=[str(path)])
        report = offline.diagnose([path], lang=lang, shown_as={str(path): SAMPLE})
    option.put_report(report, form, lang, output)
    return 0
