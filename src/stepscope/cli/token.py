"""`stepscope token`: who may ask a server what."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli import option
from stepscope.model.error import UsageError
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.model.text import Lang

ROLES = ("viewer", "operator", "admin", "agent")
"""As in `stepscope.server.auth`, which `--help` does not wait for."""
_MADE = Text(
    en="This is shown once; keep it where only {name} reads it, and give it as STEPSCOPE_TOKEN.",
    zh="仅显示这一次；请保存在只有 {name} 能读取的地方，并通过 STEPSCOPE_TOKEN 提供。",
)
_REMOVED = Text(en="Token {id} is taken back.", zh="令牌 {id} 已收回。")
_NONE = Text(en="There is no token.", zh="没有令牌。")


@click.command("token", short_help="Makes, lists and takes back the tokens of a server.")
@click.argument("action", type=click.Choice(["add", "list", "remove"]))
@click.argument("which", metavar="[ID]", required=False)
@click.option("--data", required=True, metavar="DIR", help="The server's folder.")
@click.option("--role", type=click.Choice(ROLES), help="What a new token may do.")
@click.option("--name", metavar="NAME", help="Whose a new token is: it stands in the audit log.")
@click.option("--agent", metavar="ID", help="Of the role agent: good for this agent's id alone.")
@option.lang_option
@option.debug_option
def command(
    action: str,
    which: str | None,
    data: str,
    role: str | None,
    name: str | None,
    agent: str | None,
    lang: Lang,
) -> int:
    """Make a token for a server, list them, or take one back by its ID.

    viewer reads; operator also sees logs and process names, asks for captures, silences and works on
    incidents; admin also sets thresholds and tokens, and reads the audit log; agent ships and takes orders.
    Where a server runs on the folder it is asked, with the token in $STEPSCOPE_TOKEN (an admin's).
    """
    if (action == "add") != (role is not None) or (action == "add" and not name):
        raise click.UsageError("`token add` takes --role and --name, and nothing else does")
    if (action == "remove") != (which is not None):
        raise click.UsageError("`token remove` takes the ID that `token list` shows, and nothing else does")
    try:
        from stepscope.server.place import read_address
        from stepscope.server.token import Asked, Opened
    except ModuleNotFoundError as error:
        raise option.missing_extra("token", "server", error) from error

    address = read_address(data)
    asks: Any
    if address is not None:
        asks = Asked(address, os.environ.get("STEPSCOPE_TOKEN"))
    elif action != "add" and not os.path.isdir(data):
        raise UsageError(f"{data}: no folder of a server; give the --data of `stepscope serve`")
    else:
        asks = Opened(data, time.time_ns())
    if action == "add":
        token = asks.add(name, role, agent)
        click.echo(token)
        click.echo(_MADE.in_(lang).format(name=name), err=True)
    elif action == "remove":
        asks.remove(which)
        click.echo(_REMOVED.in_(lang).format(id=which), err=True)
    else:
        rows = asks.list()
        for row in rows:
            click.echo("  ".join((row.id, f"{row.role:8}", row.name, row.agent or "")).rstrip())
        if not rows:
            click.echo(_NONE.in_(lang), err=True)
    return 0
