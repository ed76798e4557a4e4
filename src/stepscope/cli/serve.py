"""`stepscope serve`: the server that keeps what agents ship, notices, and tells."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.model.text import Lang
    from stepscope.server.parts import Parts

INTERRUPTED = 130
_SERVING = Text(
    en="Serving {address}; everything is kept in {data}. {access}",
    zh="服务位于 {address}；所有数据保存在 {data}。{access}",
)
_OPEN = Text(
    en="No token is asked for: only this machine reaches it.",
    zh="不要求令牌：只有本机可以访问。",
)
_CLOSED = Text(
    en="A token is asked for: `stepscope token add` makes one.",
    zh="需要令牌：用 `stepscope token add` 创建。",
)
_NEXT = Text(en="Next: ", zh="下一步：")


@click.command("serve", short_help="Keeps what agents ship, notices what is wrong, and tells.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where it listens.")
@click.option(
    "--port",
    default=9500,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="N",
    help="0 takes a free one.",
)
@click.option("--data", required=True, metavar="DIR", help="Where everything is kept: of one server alone.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="Tokens besides those of `stepscope token`: ROLE NAME TOKEN on each line; agent=ID is a role too.",
)
@click.option(
    "--remote-write",
    multiple=True,
    metavar="URL",
    help="Write samples on by Prometheus remote write; several times.",
)
@click.option("--notify", metavar="FILE", help="Whom to tell: channels, in TOML.")
@click.option("--alerts", metavar="FILE", help="A site's thresholds of alarms, in TOML.")
@click.option("--link", metavar="URL", help="The server's address as people reach it, for messages.")
@click.option(
    "--time-scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.01, 1000),
    metavar="K",
    help="Of jobs that `simulate --serve` runs K times as fast.",
)
@option.lang_option
@option.debug_option
def command(
    host: str, port: int, data: str, token_file: str | None, remote_write: tuple[str, ...],
    notify: str | None, alerts: str | None, link: str | None, time_scale: float, lang: Lang,
) -> int:  # fmt: skip
    """Keep what agents ship, answer questions about it, and tell what happens.

    It ends in order on SIGTERM (code 0) and on Ctrl-C (code 130). A token is asked for as soon as there is
    one; without any it listens on this machine's own addresses alone.
    """
    try:
        from stepscope.server.assemble import Wanted, assemble
    except ModuleNotFoundError as error:
        raise option.missing_extra("serve", "server", error) from error
    from stepscope.views.page import Page

    target.check_place(data, "--data")
    stop = threading.Event()
    seen: list[int] = []

    def end(number: int, _frame: object) -> None:
        seen.append(number)
        stop.set()

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        wanted = Wanted(
            data=data, host=host, port=port, token_file=token_file, remote_write=remote_write,
            time_scale=time_scale, summarise=_summary,
        )  # fmt: skip
        try:
            more = _loop(notify, alerts, link, lang)
            running = assemble(wanted, err=_err, more=more)
        except ModuleNotFoundError as error:
            raise option.missing_extra("serve", "server", error) from error
        try:
            page = Page(option.console(), lang)
            access = _CLOSED if running.parts.auth.is_on else _OPEN
            page.line(_SERVING.in_(lang).format(address=running.address, data=data, access=access.in_(lang)))
            url = shown_address(host, running.served.port, running.address)
            page.command(_NEXT.in_(lang), f"stepscope agent --server {shlex.quote(url)} --spool spool")
            while not stop.wait(0.5) and running.is_running:
                pass
        finally:
            running.stop()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return INTERRUPTED if signal.SIGINT in seen else 0


def _loop(
    notify: str | None, alerts: str | None, link: str | None, lang: Lang
) -> Callable[[Parts, ExitStack], Parts]:
    """What runs behind the paths. UsageError where a file is wrong, before anything is started."""
    from stepscope.cli.notify import lines_of
    from stepscope.offline.option import read_toml
    from stepscope.server.loop import LoopWanted, closed_loop

    shape = "[condition-id], then threshold = number"
    wanted = LoopWanted(
        lines=lines_of(notify, os.environ, "--notify") if notify is not None else (),
        link=link,
        alerts=read_toml(alerts, "--alerts takes a TOML file", shape) if alerts is not None else None,
        lang=lang,
        key=os.environ.get("STEPSCOPE_REDACT_KEY", "").encode(),
    )
    return lambda parts, stack: closed_loop(parts, stack, wanted, _err)


def _summary(path: str) -> bytes:
    """What is kept of a trace when it is no longer kept whole."""
    import io

    from stepscope import offline
    from stepscope.export import ops

    sink = io.BytesIO()
    ops.write(offline.diagnosed([path], keep_identities=True), sink)
    return ops.compressed(sink.getvalue())


def shown_address(host: str, port: int, bound: str) -> str:
    """The address that agents elsewhere use, where it listens on all of this machine's."""
    return f"http://{socket.gethostname()}:{port}" if host in ("0.0.0.0", "::", "") else bound


def _err(line: str) -> None:
    from stepscope.model.redact import without_secrets

    click.echo(f"stepscope serve: {without_secrets(' '.join(line.split()))[0]}", err=True)
