"""`stepscope simulate`: traces, counters and logs of a training run that never was, with faults that are
known."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli import option, simulate_serve
from stepscope.cli.diagnose import as_range
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.model.text import Lang

MODELS = ("transformer", "resnet", "moe")
"""As in `stepscope.simulate.config`, which `--help` does not wait for."""

_WRITTEN = Text(
    en="Wrote {ranks} ranks with {steps} steps each to {out}; what is true of them is beside it, in {truth}.",
    zh="已将 {ranks} 个 rank、每个 {steps} 步写入 {out}；其真实情况写在旁边的 {truth}。",
)
_BESIDE = Text(
    en="Beside the traces: device counters and host metrics in telemetry/, logs in logs/.",
    zh="traces 旁边：设备计数器和主机指标在 telemetry/，日志在 logs/。",
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
@click.option(
    "--steps",
    type=int,
    metavar="N",
    help="Steps, numbered from 0.  [default: 10; a minute of them with --telemetry]",
)
@click.option(
    "--trace-steps",
    callback=as_range,
    metavar="A:B",
    help="Trace only these, both included.  [default: all; 10 of them with --telemetry]",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[#RANK][:mild|medium|severe|NUMBER][@A:B]",
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
    help="Steps that the host may be ahead of the device; unless told 0 with --serve.",
)
@click.option(
    "--period",
    default=5,
    show_default=True,
    metavar="N",
    help="Steps from one checkpoint or evaluation to the next, where one is asked for.",
)
@click.option("--no-overlap", is_flag=True, help="Gradients are exchanged after the backward pass.")
@click.option(
    "--shard", is_flag=True, help="Each rank updates its share of the parameters, then they gather it."
)
@click.option(
    "--exchange-scale",
    default=1.0,
    show_default=True,
    metavar="X",
    help="Bytes of gradients that are exchanged, against two a parameter.",
)
@click.option(
    "--telemetry", is_flag=True, help="Write device counters, host metrics and logs of the whole run as well."
)
@click.option(
    "--counters",
    default="default",
    show_default=True,
    type=click.Choice(("default", "full")),
    help="Fields of the device exporter: as it comes, or all that help a diagnosis.",
)
@click.option(
    "--field-names",
    default="4.5",
    show_default=True,
    type=click.Choice(("4.5", "4.6")),
    help="Names of these fields as of DCGM up to 4.5, or since 4.6.",
)
@click.option(
    "--collect-ms",
    default=1000,
    show_default=True,
    metavar="MS",
    help="How often the exporter reads its devices.",
)
@click.option(
    "--scrape-ms", default=1000, show_default=True, metavar="MS", help="How often exporters are scraped."
)
@click.option(
    "--scrape-loss", default=0.01, show_default=True, metavar="SHARE", help="Share of scrapes that are lost."
)
@click.option(
    "--telemetry-skew-ms",
    default=0.0,
    show_default=True,
    metavar="MS",
    help="How far the clock of what scrapes is ahead.",
)
@click.option(
    "--log-style",
    default="auto",
    show_default=True,
    type=click.Choice(("auto", "plain", "megatron", "hugging-face", "torchtitan", "deepspeed")),
    help="Whose lines the training log has; auto by seed.",
)
@click.option("--memory-gb", type=float, metavar="GB", help="What the job uses of each device's memory.")
@click.option("--workers", default=8, show_default=True, metavar="N", help="Loader processes of each rank.")
@click.option(
    "--worker-busy", type=float, metavar="SHARE", help="Of a core, what each of them takes in a slow loader."
)
@simulate_serve.serve_options
@option.lang_option
@option.debug_option
@click.pass_context
def command(
    context: click.Context,
    out: str,
    seed: int,
    ranks: int,
    gpu: str,
    model: str,
    steps: int | None,
    trace_steps: tuple[int, int] | None,
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
    period: int,
    no_overlap: bool,
    shard: bool,
    exchange_scale: float,
    telemetry: bool,
    counters: str,
    field_names: str,
    collect_ms: int,
    scrape_ms: int,
    scrape_loss: float,
    telemetry_skew_ms: float,
    log_style: str,
    memory_gb: float | None,
    workers: int,
    worker_busy: float | None,
    serve: bool,
    port: int,
    bind: str,
    time_scale: float,
    duration: float | None,
    events: bool,
    lang: Lang,
) -> int:
    """Write the traces of a training run that never was, one a rank, as PyTorch Profiler would have.

    With --telemetry also what dcgm-exporter, the node exporter, nvidia-smi, the training script, NCCL and the
    kernel would have written, over the whole run, while a few of its steps are traced.
    `stepscope diagnose DIR` reads them. What is true of the run (clocks, faults, step times with and without
    the faults, who was last in each collective) is in DIR.truth.json, beside the folder, where `diagnose`
    does not look.

    With --serve the job goes on until Ctrl-C: its devices and host can be scraped, DIR/run holds the step
    rings of its ranks, which answer captures, and faults are switched by a request to the same port.
    """
    from stepscope.simulate import Config, Recording, parse, recorded_run, write

    if not out:
        raise click.UsageError("--out is given an empty name; give it a folder")
    simulate_serve.refuse(context, serve)
    shape: dict[str, Any] = {
        "seed": seed,
        "ranks": ranks,
        "gpu": gpu,
        "model": model,
        "faults": tuple(parse(each) for each in faults),
        "step_ms": step_ms,
        "layers": layers,
        "buckets": buckets,
        "micro_batches": micro_batches,
        "pipeline_stages": pipeline_stages,
        "clock_offset_ms": clock_offset_ms,
        "clock_drift_ppm": clock_drift_ppm,
        "base_spread_s": base_spread_s,
        "jitter": jitter,
        "tail": tail,
        "run_ahead": run_ahead,
        "period": period,
        "overlap": not no_overlap,
        "shard": shard,
        "exchange_scale": exchange_scale,
    }
    recording = Recording(
        counters=counters,
        names=field_names,
        collect_ms=collect_ms,
        scrape_ms=scrape_ms,
        skew_ms=telemetry_skew_ms,
        lost=scrape_loss,
        log_style=log_style,
        memory_gb=memory_gb,
        workers=workers,
        worker_busy=worker_busy,
    )
    if serve:
        return simulate_serve.serve(
            Config(**simulate_serve.shape_of(context, shape), telemetry=recording),
            out, lang, port=port, bind=bind, time_scale=time_scale, duration=duration, events=events,
        )  # fmt: skip
    if telemetry:
        config = recorded_run(steps, trace_steps, telemetry=recording, **shape)
    else:
        config = Config(steps=10 if steps is None else steps, trace_steps=trace_steps, **shape)
    truth = write(config, out)

    from stepscope.views.page import Page

    page = Page(option.console(), lang)
    page.line(_WRITTEN.in_(lang).format(ranks=ranks, steps=len(config.traced), out=out, truth=truth.name))
    if telemetry:
        page.line(_BESIDE.in_(lang))
    words = ["stepscope diagnose", shlex.quote(out)]
    if telemetry:
        words += ["--telemetry", shlex.quote(f"{out}/telemetry"), "--logs", shlex.quote(f"{out}/logs")]
    page.command(_NEXT.in_(lang), " ".join(words))
    return 0
