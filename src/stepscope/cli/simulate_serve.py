"""`stepscope simulate --serve`: the made-up job goes on for hours, and can be scraped, read and switched."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from stepscope.cli import option
from stepscope.model.error import UsageError
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.model.text import Lang
    from stepscope.simulate import Config

F = TypeVar("F", bound=Callable[..., Any])
STEP_MS, LAYERS = 500.0, 4
"""Of a live job, unless told: light enough for a laptop."""
OF_FILES = (
    "steps", "trace_steps", "clock_offset_ms", "clock_drift_ppm", "base_spread_s", "scrape_ms", "scrape_loss",
    "telemetry_skew_ms",
)  # fmt: skip
"""Options of a run that is written at once: a job that is served has none of it."""
OF_SERVING = ("port", "bind", "time_scale", "duration", "events")

_SERVED = Text(
    en="{ranks} ranks train until Ctrl-C. Scrape http://{at}/metrics (devices) and http://{at}/node/metrics "
    "(host).",
    zh="{ranks} 个 rank 将一直训练到 Ctrl-C。抓取 http://{at}/metrics（设备）和 http://{at}/node/metrics（主机）。",
)
_FOLDERS = Text(
    en="Rings are in {out}/run, captured traces in {out}/run/traces, logs in {out}/logs; what is true is in "
    "{truth}.",
    zh="环形标记在 {out}/run，捕获的 trace 在 {out}/run/traces，日志在 {out}/logs；真实情况在 {truth}。",
)
_SWITCH = Text(en="Switch a fault: ", zh="切换故障：")
_NEXT = Text(en="Next: ", zh="下一步：")
_SLOW = Text(
    en="This machine was too slow, or slept: {seconds:.0f} s of real time were given up.",
    zh="本机太慢或曾休眠：放弃了 {seconds:.0f} 秒真实时间。",
)


def serve_options(function: F) -> F:
    """Options of `--serve`."""
    for add in reversed((
        click.option("--serve", is_flag=True,
                     help="Go on until Ctrl-C, as a job that can be scraped and read: an exporter on a port, "
                     "step rings, traces on demand and growing logs in DIR."),
        click.option("--port", default=9400, show_default=True, metavar="N",
                     help="Of the exporter and the switches; 0 takes a free one."),
        click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS",
                     help="Where the port is opened. Whoever reaches it may switch faults."),
        click.option("--time-scale", default=1.0, show_default=True, metavar="K",
                     help="Simulated seconds in a second."),
        click.option("--duration", type=float, metavar="S", help="End after so many simulated seconds."),
        click.option("--events", is_flag=True,
                     help="What healthy jobs have as well: evaluations, checkpoints, falls of the learning "
                     "rate, restarts of the exporter."),
    )):  # fmt: skip
        function = add(function)
    return function


def refuse(context: click.Context, is_serving: bool) -> None:
    """Refuse options of the other kind of run."""
    others = OF_FILES if is_serving else OF_SERVING
    for name in others:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            why = "is of a run that is written at once: leave it out with --serve"
            raise click.UsageError(
                f"{option} {why if is_serving else 'is of a job that goes on: add --serve'}"
            )


def shape_of(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """A run's shape with what a live job has where it is not told: the host waits for each step."""
    made = given | {"steps": 1_000_000}
    if made["step_ms"] is None:
        made["step_ms"] = STEP_MS
    if made["layers"] is None and made["model"] != "resnet":
        made["layers"] = max(LAYERS, made["pipeline_stages"])
    if context.get_parameter_source("run_ahead") == ParameterSource.DEFAULT:
        made["run_ahead"] = 0
    return made


def serve(
    config: Config, out: str, lang: Lang, *, port: int, bind: str, time_scale: float,
    duration: float | None, events: bool,
) -> int:  # fmt: skip
    """Serve until a signal or the end; the exit code."""
    from stepscope.simulate.config import within
    from stepscope.simulate.serve import Clocks, Pace, Server, Service, Turn
    from stepscope.simulate.write import truth_path
    from stepscope.views.page import Page

    within("port", port, 0, 65_535)
    within("time-scale", time_scale, 0.01, 1000)
    if duration is not None:
        within("duration", duration, 0.1, 1e8)
    stop = threading.Event()
    # Asked before anything is made: what comes while it is made ends it in order too.
    before = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGTERM, signal.SIGINT)}
    page, server = Page(option.console(), lang), None
    try:
        server = Server(bind, port)
        clocks, pace = Clocks(time.monotonic_ns(), time.time_ns()), Pace(time_scale, time.monotonic_ns)
        service = Service(
            config, out, clocks, has_events=events, boot_id=boot_id(time_scale), scale=time_scale
        )
        turn = Turn(service, pace, stop.wait, duration)
        server.answer_for(service, turn.catch_up)
        at = f"{f'[{bind}]' if ':' in bind else bind}:{server.port}"
        page.line(_SERVED.in_(lang).format(ranks=config.ranks, at=at))
        page.line(_FOLDERS.in_(lang).format(out=out, truth=truth_path(Path(out)).name))
        page.command(_SWITCH.in_(lang), f"curl -d 'loader-stall:severe on' http://{at}/faults")
        words = f"{shlex.quote(f'{out}/run')} --logs {shlex.quote(f'{out}/logs')}"
        page.command(_NEXT.in_(lang), f"stepscope diagnose {words}")
        turn.run()
        if turn.lost_s >= 1:
            page.line(_SLOW.in_(lang).format(seconds=turn.lost_s))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{error.filename or out}: cannot be written: {why}; give another --out") from error
    finally:
        if server is not None:
            server.stop()
        for each, handler in before.items():
            signal.signal(each, handler)
    return 0


def boot_id(time_scale: float) -> str:
    """Of this machine's kernel where the job shares its clocks, else one that no machine has."""
    try:
        own = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        own = ""
    return own if time_scale == 1.0 else f"simulated-at-{time_scale:g}"
