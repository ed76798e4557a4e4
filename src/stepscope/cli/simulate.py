"""`stepscope simulate`: traces of a training run that never was, with faults that are known."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from stepscope.cli import option
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.model.text import Lang

MODELS = ("transformer", "resnet", "moe")
"""As in `stepscope.simulate.config`, which `--help` does not wait for."""

_WRITTEN = Text(
    en="Wrote {ranks} ranks with {steps} steps each to {out}; what is true of them is beside it, in {truth}.",
    zh="已将 {ranks} 个 rank、每个 {steps} 步写入 {out}；其真实情况写在旁边的 {truth}。",
)
_NEXT = Text(en="Next: ", zh="下一步：")


@click.command("simulate", short_help="Traces of a made-up run, with faults that are known.")
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    help="Folder for the traces; the truth goes beside it: DIR.truth.json.",
)
@click.option("--seed", default=0, show_default=True, metavar="N", help="The same seed gives the same bytes.")
@click.option("--ranks", default=1, show_default=True, metavar="N", help="Ranks of the job, one trace each.")
@click.option("--gpu", default="H100", show_default=True, metavar="NAME", help="Accelerator of every rank.")
@click.option(
    "--model", default="transformer", show_default=True, type=click.Choice(MODELS), help="What is trained."
)
@click.option("--steps", default=10, show_default=True, metavar="N", help="Steps, numbered from 0.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[#RANK][:mild|medium|severe][@A:B]",
    help="What goes wrong, from step A to step B (both included; else in all), on RANK where the fault is "
    "one rank's (else by seed). May be given several times. The names: docs/reference/simulate.md.",
)
@click.option(
    "--step-ms", type=float, metavar="MS", help="About how long computing one step takes: sets the batch."
)
@click.option("--layers", type=int, metavar="N", help="Layers of the model: fewer make a smaller trace.")
@click.option(
    "--buckets",
    default=8,
    show_default=True,
    metavar="N",
    help="At most so many all-reduces of gradients a step.",
)
@click.option("--micro-batches", type=int, metavar="N", help="Micro-batches a step.  [default: 1, 2 a stage]")
@click.option(
    "--pipeline-stages",
    default=1,
    show_default=True,
    metavar="N",
    help="Cut the model into stages; N divides the ranks.",
)
@click.option(
    "--clock-offset-ms",
    default=0.0,
    show_default=True,
    metavar="MS",
    help="Clocks of ranks are off by up to this.",
)
@click.option(
    "--clock-drift-ppm",
    default=0.0,
    show_default=True,
    metavar="PPM",
    help="Clocks of ranks drift by up to this.",
)
@click.option(
    "--base-spread-s",
    default=0,
    show_default=True,
    metavar="S",
    help="Base times of the files differ by up to this.",
)
@click.option(
    "--jitter", default=0.01, show_default=True, metavar="SHARE", help="Standard deviation of every duration."
)
@click.option(
    "--tail",
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Share of kernels that take 2 to 5 times as long.",
)
@click.option(
    "--run-ahead",
    default=1,
    show_default=True,
    metavar="N",
    help="Steps that the host may be ahead of the device.",
)
@option.lang_option
@option.debug_option
def command(
    out: str,
    seed: int,
    ranks: int,
    gpu: str,
    model: str,
    steps: int,
    faults: tuple[str, ...],
    step_ms: float | None,
    layers: int | None,
    buckets: int,
    micro_batches: int | None,
    pipeline_stages: int,
    clock_offset_ms: float,
    clock_drift_ppm: float,
    base_spread_s: int,
    jitter: float,
    tail: float,
    run_ahead: int,
    lang: Lang,
) -> int:
    """Write the traces of a training run that never was, one a rank, as PyTorch Profiler would have.

    `stepscope diagnose DIR` reads them. What is true of the run (clocks, faults, step times with and without
    the faults, who was last in each collective) is in DIR.truth.json, beside the folder, where `diagnose`
    does not look.
    """
    from stepscope.simulate import Config, parse, write

    if not out:
        raise click.UsageError("--out is given an empty name; give it a folder")
    config = Config(
        seed=seed,
        ranks=ranks,
        gpu=gpu,
        model=model,
        steps=steps,
        faults=tuple(parse(each) for each in faults),
        step_ms=step_ms,
        layers=layers,
        buckets=buckets,
        micro_batches=micro_batches,
        pipeline_stages=pipeline_stages,
        clock_offset_ms=clock_offset_ms,
        clock_drift_ppm=clock_drift_ppm,
        base_spread_s=base_spread_s,
        jitter=jitter,
        tail=tail,
        run_ahead=run_ahead,
    )
    truth = write(config, out)

    from stepscope.views.page import Page

    page = Page(option.console(), lang)
    page.line(_WRITTEN.in_(lang).format(ranks=ranks, steps=steps, out=out, truth=truth.name))
    page.command(_NEXT.in_(lang), f"stepscope diagnose {shlex.quote(out)}")
    return 0
