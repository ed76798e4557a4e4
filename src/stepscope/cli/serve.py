"""`stepscope serve`: the server that keeps what agents ship, notices, and tells."""

from __future__ import annotations

import shlex
import signal
import socket
import threading
from typing import TYPE_CHECKING

import click

from stepscope.cli import option, target
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.model.text import Lang

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
@option.lang_option
@option.debug_option
def command(
    host: str, port: int, data: str, token_file: str | None, remote_write: tuple[str, ...], lang: Lang
) -> int:
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
        wanted = Wanted(data=data, host=host, port=port, token_file=token_file, remote_write=remote_write)
        try:
            running = assemble(wanted, err=_err)
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


def shown_address(host: str, port: int, bound: str) -> str:
    """The address that agents elsewhere use, where it listens on all of this machine's."""
    return f"http://{socket.gethostname()}:{port}" if host in ("0.0.0.0", "::", "") else bound


def _err(line: str) -> None:
    from stepscope.model.redact import without_secrets

    click.echo(f"stepscope serve: {without_secrets(' '.join(line.split()))[0]}", err=True)
