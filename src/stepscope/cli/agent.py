"""`stepscope agent`: reads this node's rings, devices, host and logs, and keeps, shows or ships what it
reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target

if TYPE_CHECKING:
    from stepscope.model.text import Lang

PROFILES = ("training", "inference", "debug")
"""As in `stepscope.agent.profile`, which `--help` does not wait for."""
SOURCES = (
    "dcgm", "gpm", "host", "kernel_log", "nccl_log", "nvml", "nvml-pcie", "nvml-xid", "own", "rings",
    "scrape",
)  # fmt: skip
"""As in `stepscope.agent.catalog`."""


@click.command("agent", short_help="Reads this node's rings, devices, host and logs while jobs run.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="training",
    show_default=True,
    help="How often it looks: training every 10 s, every second while a job marks its steps; inference every "
    "second; debug every 100 ms.",
)
@click.option("--once", is_flag=True, help="Look twice, a second apart, and end.")
@click.option(
    "--print",
    "shows",
    is_flag=True,
    help="Print readable lines. The default where nothing else is asked for.",
)
@click.option("--spool", "spool_dir", metavar="DIR", help="Keep everything in DIR: `diagnose` reads it.")
@click.option("--server", metavar="URL", help="Ship the spool there; the token is $STEPSCOPE_TOKEN.")
@click.option("--token-file", metavar="FILE", help="The server's token, instead of $STEPSCOPE_TOKEN.")
@click.option("--remote-write", metavar="URL", help="Write samples there by Prometheus remote write.")
@click.option("--listen", metavar="HOST:PORT", help="Serve /metrics there, such as 127.0.0.1:9401.")
@click.option(
    "--run-dir",
    "run_dirs",
    multiple=True,
    metavar="DIR",
    help="Where rings are, several times or with *.  [default: $STEPSCOPE_RUN_DIR, else /dev/shm/stepscope, "
    "/run/stepscope and the folders in it]",
)
@click.option(
    "--exporter",
    "exporters",
    multiple=True,
    metavar="URL",
    help="An exporter to scrape, several times.  [default: http://127.0.0.1:9400/metrics where it answers]",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(SOURCES),
    metavar="NAME",
    help="Read only this, several times.  [default: everything that is here]",
)
@click.option("--nccl-log", "nccl_logs", multiple=True, metavar="PATTERN", help="Files that NCCL writes.")
@click.option("--dcgm", is_flag=True, help="Read DCGM by its own Python bindings too.")
@click.option("--stacks", type=int, metavar="PID", help="The stacks of a process, once, by py-spy.")
@click.option(
    "--capture",
    default=0,
    metavar="N",
    help="On SIGUSR1 have every job that marks its steps record N of them.  [default: off]",
)
@click.option(
    "--capture-budget",
    metavar="NUM[:SECONDS[:BYTES]]",
    default="12:120:4294967296",
    show_default=True,
    help="The most for one job in an hour, of --capture and of what the server asks for: captures, seconds "
    "of recorded steps, bytes of traces. What goes beyond is refused, and said.",
)
@click.option(
    "--no-capture", is_flag=True, help="Refuse every capture that the server asks for on this node."
)
@click.option(
    "--host",
    envvar="STEPSCOPE_HOST",
    metavar="NAME",
    help="What this node is called.  [default: its own name]",
)
@click.option(
    "--time-scale",
    default=1.0,
    metavar="K",
    help="Look K times as often and stamp so: for sources that `simulate --serve` runs K times as fast.",
)
@option.lang_option
@option.debug_option
def command(
    profile: str,
    once: bool,
    shows: bool,
    spool_dir: str | None,
    server: str | None,
    token_file: str | None,
    remote_write: str | None,
    listen: str | None,
    run_dirs: tuple[str, ...],
    exporters: tuple[str, ...],
    sources: tuple[str, ...],
    nccl_logs: tuple[str, ...],
    dcgm: bool,
    stacks: int | None,
    capture: int,
    capture_budget: str,
    no_capture: bool,
    host: str | None,
    time_scale: float,
    lang: Lang,
) -> int:
    """Read this node's step rings, devices, host and logs, label every sample with its job, rank and steps,
    and print, keep, serve or ship it.

    It ends in order on SIGTERM (code 0) and on Ctrl-C (code 130). What is not here (no driver, no exporter)
    is told and asked again; one source that hangs or fails holds up no other.
    """
    import socket

    from stepscope.agent.assemble import Wanted, run

    if not 0.001 <= time_scale <= 10_000:
        raise click.UsageError(f"--time-scale {time_scale:g} is out of range; give 0.001 to 10000")
    if capture < 0:
        raise click.UsageError(f"--capture {capture} is no number of steps; give 1 or more")
    if server and not spool_dir:
        raise click.UsageError("--server needs --spool DIR: there it keeps what the server has not taken yet")
    if spool_dir is not None:
        target.check_place(spool_dir, "--spool")
    if token_file and not server:
        raise click.UsageError("--token-file is for --server; give both")
    if no_capture and not server:
        raise click.UsageError("--no-capture is for --server; without one nobody asks")
    own_dir = os.environ.get("STEPSCOPE_RUN_DIR")
    wanted = Wanted(
        profile=profile,
        is_once=once,
        shows=shows or not (spool_dir or server or remote_write or listen),
        spool_dir=spool_dir,
        server=server,
        token_file=token_file,
        remote_write=remote_write,
        listen=_address(listen) if listen else None,
        run_dirs=run_dirs or ((own_dir,) if own_dir else None),
        exporters=exporters,
        sources=sources,
        nccl_logs=nccl_logs,
        uses_dcgm=dcgm or "dcgm" in sources,
        stacks_pid=stacks,
        capture_steps=capture,
        capture_budget=_budget(capture_budget),
        refuses_captures=no_capture,
        host=host or socket.gethostname(),
        time_scale=time_scale,
        environment=os.environ,
        lang=lang,
    )
    return run(wanted, out=_out, err=_err)


def _out(line: str) -> None:
    click.echo(line)


def _err(line: str) -> None:
    click.echo(f"stepscope agent: {line}", err=True)


def _budget(text: str) -> tuple[int, float, int]:
    """`NUM`, `NUM:SECONDS` or `NUM:SECONDS:BYTES`; what is left out is as by default."""
    words = text.split(":")
    most = [12.0, 120.0, float(4 << 30)]
    try:
        most[: len(words)] = [float(each) for each in words]
        is_good = len(words) <= 3 and all(0 <= each < 1e18 for each in most) and most[0].is_integer()
    except ValueError:
        is_good = False
    if not is_good:
        raise click.UsageError(
            f"--capture-budget {text}: no budget; give captures, seconds and bytes of an hour: 12:120:4e9"
        )
    return int(most[0]), most[1], int(most[2])


def _address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `:PORT` or `[::1]:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {text}: no address; give one such as 127.0.0.1:9401")
    return host.strip("[]") or "127.0.0.1", int(port)
