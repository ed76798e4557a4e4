"""`stepscope diagnose PATH…`: where the time of a step went, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target

if TYPE_CHECKING:
    from stepscope.model.report import Report
    from stepscope.model.text import Lang
    from stepscope.offline import Diagnosed


def as_range(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """`first:last` as a pair."""
    if value is None:
        return None
    first, colon, last = value.partition(":")
    try:
        steps = int(first), int(last if colon else first)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a range of steps; write first:last, as in 5:9") from None
    if steps[0] > steps[1]:
        raise click.BadParameter(f"{value!r} ends before it begins; write first:last, as in 5:9")
    return steps


def _as_flops(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        flops = float(value)
    except ValueError:
        flops = 0.0
    if not 1 <= flops < 2**63:
        raise click.BadParameter(f"{value!r} is no number of operations; write one, as in 3.2e14")
    return int(flops)


@click.command("diagnose", short_help="Where the time of a step went, why, and what to change.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--telemetry",
    multiple=True,
    metavar="FILE|DIR|URL",
    help="Counters of devices and hosts: exporter scrapes, nvidia-smi, dcgmi, an agent's spool, "
    "http://HOST:9500 of `stepscope serve`, or prometheus+http://HOST:9090. "
    "May be given several times, also without a trace.",
)
@click.option(
    "--logs",
    multiple=True,
    metavar="FILE|DIR",
    help="Training, NCCL and kernel logs. May be given several times, also without a trace.",
)
@click.option(
    "--log-pattern",
    metavar="REGEX",
    help="Pattern of the lines of your own training log, with named groups: step, and loss, time, …",
)
@click.option(
    "--parameters",
    metavar="N[:W,G,O]",
    help="Parameters of the model, as in 8e9 or 8B, and bytes of weights, gradients and optimizer states of "
    "each (2,2,12): for the memory that training needs.",
)
@click.option("--steps", metavar="A:B", callback=as_range, help="Only these steps, both ends included.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option("--job", metavar="ID", help="The job's name, for the report; of a spool, which job to read.")
@option.format_option(*option.FORMATS)
@option.output_option
@option.lang_option
@click.option(
    "--rules-config",
    metavar="FILE",
    help="Thresholds of your site, in TOML: [rule-id], then feature = number.",
)
@click.option(
    "--model-flops",
    callback=_as_flops,
    metavar="N",
    help="Arithmetic that one rank's model needs in one step, as in 3.2e14: for MFU.",
)
@click.option(
    "--fail-on", type=click.Choice(option.SEVERITIES), help="End with 1 if a finding is at least this severe."
)
@click.option(
    "--perfetto",
    metavar="OUT",
    help="Also write the traces and what was found in them for the Perfetto viewer (.gz: compressed).",
)
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
    paths: tuple[str, ...],
    telemetry: tuple[str, ...],
    logs: tuple[str, ...],
    log_pattern: str | None,
    parameters: str | None,
    steps: tuple[int, int] | None,
    rank: int | None,
    job: str | None,
    form: str,
    output: str | None,
    lang: Lang,
    rules_config: str | None,
    model_flops: int | None,
    fail_on: str | None,
    perfetto: str | None,
    no_redact: bool,
    jobs: int,
) -> int:
    """Say where the time of a training step went, why, and what to change.

    PATH is a trace of PyTorch Profiler (.json, .json.gz), an archive or a directory of them, or a pattern; or
    a memory snapshot of PyTorch (.pickle), alone or beside traces; or a table of all ranks: step times
    (.csv, .tsv) or a pipeline's timeline (.parquet). Telemetry and logs are joined to them on one time axis,
    or judged alone.
    """
    from stepscope import offline
    from stepscope.cli.progress import Progress

    if not (paths or telemetry or logs):
        raise click.UsageError("Missing argument 'PATH...': give a trace, --telemetry or --logs.")
    inputs = (*paths, *telemetry, *logs, *(() if rules_config is None else (rules_config,)))
    if output not in (None, "-"):
        target.check_output(output, inputs=inputs)
    if perfetto is not None:
        _check_perfetto(perfetto, paths, inputs, output)
    with Progress() as progress:
        done = offline.diagnosed(
            paths,
            telemetry=telemetry,
            logs=logs,
            log_pattern=log_pattern,
            parameters=parameters,
            steps=steps,
            rank=rank,
            job=job,
            lang=lang,
            rules_config=rules_config,
            keep_identities=no_redact,
            model_flops=model_flops,
            redact_key=os.environ.get("STEPSCOPE_REDACT_KEY"),
            jobs=jobs,
            on_progress=progress.advance if progress.is_shown else None,
        )
    if perfetto is not None and (done.sources or done.telemetry):
        _put_perfetto(done, perfetto, lang)
    with option.reader_may_go():
        option.put_report(done.report, form, lang, output)
    if perfetto is not None and not (done.sources or done.telemetry):
        what = "is not written: no trace and no telemetry is among the inputs; leave --perfetto out"
        click.echo(f"stepscope: {perfetto}: {what}", err=True)
    return exit_code(done.report, fail_on)


def _check_perfetto(
    perfetto: str, paths: tuple[str, ...], inputs: tuple[str, ...], output: str | None
) -> None:
    """Refuse early what could not be written later."""
    from stepscope.export.again import check_readable_twice

    path = target.check_output(perfetto, "--perfetto", inputs)
    if perfetto == "-":
        raise click.UsageError("--perfetto writes a file; give its name")
    if output not in (None, "-") and path == target.check_output(output):
        raise click.UsageError(f"{perfetto}: is given to -o and to --perfetto; give two files")
    check_readable_twice(paths, "--perfetto")


def _put_perfetto(done: Diagnosed, perfetto: str, lang: Lang) -> None:
    from stepscope.export.again import far_line
    from stepscope.export.perfetto import outside_line, write

    with target.packed_file(perfetto, "--perfetto") as file:
        written = write(done, file, lang, done.telemetry)
    for left_out in (far_line(written.left_out), outside_line(written.outside)):
        if left_out is not None:
            click.echo(f"stepscope: {perfetto}: {left_out}", err=True)


def exit_code(report: Report, fail_on: str | None) -> int:
    """3 where the data can carry no verdict, 1 for a finding at or above `fail_on`, else 0."""
    if report.health.verdict == "unusable":
        return 3
    if fail_on is not None:
        least = option.SEVERITIES.index(fail_on)
        if any(option.SEVERITIES.index(finding.severity) >= least for finding in report.findings):
            return 1
    return 0
