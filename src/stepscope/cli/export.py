"""`stepscope export KIND PATH… -o OUT`: a report or its traces for another program."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli import option, target
from stepscope.cli.diagnose import as_range

if TYPE_CHECKING:
    from stepscope.export.kind import Kind
    from stepscope.model.report import Report
    from stepscope.model.text import Lang

KINDS = ("ops", "csv", "parquet", "speedscope", "samples")
TABLES = (
    "accounting", "steps", "operators", "operator_shapes", "modules", "efficiency", "kernels",
    "collectives", "memory", "findings", "evidence", "culprits", "remedies", "undecided", "issues",
    "withheld", "inputs", "stragglers", "lateness", "rank_map", "clocks", "signals", "signal_points",
    "signal_steps", "telemetry_clocks", "events", "progress", "own_cost", "patterns", "pattern_evidence",
    "walks", "hints", "what_if", "critical_path",
)  # fmt: skip
"""As in `stepscope.export.kind` and `stepscope.views.table`, which `--help` does not wait for."""


@click.command("export", short_help="A report or its traces for another program.")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "-o", "--output", metavar="OUT", required=True, help="File to write; for all tables a directory."
)
@click.option("--table", type=click.Choice(TABLES), help="Only this table of csv or parquet, as a file.")
@click.option("--steps", metavar="A:B", callback=as_range, help="Only these steps, both ends included.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option("--job", metavar="NAME", help="Of samples: this job's, where there are several.")
@click.option(
    "--no-redact", is_flag=True, help="Keep host and user names, paths and addresses (secrets go always)."
)
@option.lang_option
@option.debug_option
def command(
    kind: str,
    paths: tuple[str, ...],
    output: str,
    table: str | None,
    steps: tuple[int, int] | None,
    rank: int | None,
    job: str | None,
    no_redact: bool,
    lang: Lang,
) -> int:
    """Write a report, or the traces it is of, for another program.

    KIND is `ops` (every op and kernel by step and shape, JSON), `csv` or `parquet` (the report's tables),
    `speedscope` (threads and streams for that viewer), or `samples` (one long table, Parquet where OUT's name
    ends so, else CSV; PATH is http://HOST:9500 of a server, or what --telemetry takes). Else PATH is as for
    `diagnose`; for the tables it may be a report that was saved as JSON. A file whose name ends in .gz is
    compressed.
    """
    from stepscope.export.kind import KINDS as ALL
    from stepscope.offline.saved import is_saved

    if kind == "samples":
        if table or steps or rank is not None or len(paths) != 1:
            raise click.UsageError("export samples takes one PATH, -o, --job and --no-redact alone")
        _export_samples(paths[0], output, job, no_redact)
        return 0
    if job is not None:
        raise click.UsageError(f"--job is for samples; leave it out for {kind}")
    chosen = ALL[kind]
    if table is not None and chosen.is_of_traces:
        raise click.UsageError(f"--table is for csv and parquet; leave it out for {kind}")
    is_report = len(paths) == 1 and is_saved(paths[0])
    if is_report and chosen.is_of_traces:
        raise click.UsageError(f"{paths[0]}: is a report, and {kind} is made of traces; give those")
    if is_report and (steps is not None or rank is not None):
        raise click.UsageError(f"{paths[0]}: is a report; --steps and --rank are for traces")
    options: dict[str, Any] = {
        "steps": steps,
        "rank": rank,
        "lang": lang,
        "keep_identities": no_redact,
        "redact_key": os.environ.get("STEPSCOPE_REDACT_KEY"),
    }
    if chosen.is_of_traces:
        _export_traces(chosen, paths, output, options)
    else:
        _export_tables(chosen, paths, output, table, is_report, options)
    return 0


def _export_traces(kind: Kind, paths: tuple[str, ...], output: str, options: dict[str, Any]) -> None:
    from stepscope import offline
    from stepscope.export.again import check_readable_twice

    if output == "-":
        raise click.UsageError(f"export {kind.name} writes a file; give its name to -o")
    target.check_output(output, inputs=paths)
    check_readable_twice(paths, f"export {kind.name}")
    done = offline.diagnosed(paths, **options)
    with target.packed_file(output) as file:
        left_out = kind.writer_of_traces()(done, file)
    if left_out:
        click.echo(f"stepscope: {output}: {left_out}", err=True)


def _export_samples(path: str, output: str, job: str | None, keeps_identities: bool) -> None:
    from stepscope.export import samples
    from stepscope.model import redact

    if output == "-":
        raise click.UsageError("export samples writes a file; give its name to -o")
    target.check_output(output, inputs=[path])
    given = os.environ.get("STEPSCOPE_REDACT_KEY")
    key = given.encode() if given else redact.key_of_inputs([path])
    try:
        with target.packed_file(output) as file:
            samples.write(
                path, output, file, job=job, environment=os.environ, key=None if keeps_identities else key
            )
    except ModuleNotFoundError as error:
        raise option.missing_extra("export samples to Parquet", "sql", error) from error


def _export_tables(
    kind: Kind,
    paths: tuple[str, ...],
    output: str,
    name: str | None,
    is_report: bool,
    options: dict[str, Any],
) -> None:
    from stepscope.views.table import table

    try:
        write = kind.writer_of_table()
    except ModuleNotFoundError as error:
        raise option.missing_extra(f"export {kind.name}", kind.extra or "", error) from error
    if name is None:
        if output == "-":
            mend = "give its name to -o, or one table with --table"
            raise click.UsageError(f"export {kind.name} writes a directory; {mend}")
        places = target.check_folder(output, [f"{each}{kind.suffix}" for each in TABLES], paths)
        report = _report(paths, is_report, options)
        with target.made_folder(output), target.whole_files(places) as files:
            for each, file in zip(TABLES, files, strict=True):
                write(table(report, each), file)
        return
    if output != "-":
        target.check_output(output, inputs=paths)
    found = table(_report(paths, is_report, options), name)
    if output == "-":
        sink = io.BytesIO()
        write(found, sink)
        option.put(sink.getvalue(), output)
        return
    with target.packed_file(output) as file:
        write(found, file)


def _report(paths: tuple[str, ...], is_report: bool, options: dict[str, Any]) -> Report:
    if not is_report:
        from stepscope import offline

        return offline.diagnose(paths, **options)
    from stepscope.offline import saved

    return saved.read(paths[0], redact_key=options["redact_key"], keep_identities=options["keep_identities"])
