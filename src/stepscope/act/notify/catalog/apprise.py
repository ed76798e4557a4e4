"""Chat services, mail and whatever else apprise knows, by one address each (`slack://…`, `mailto://…`).

Three are asked directly, with the address as apprise reads it: DingTalk and WeCom answer 200 to what they
refuse and say so in the body, which apprise takes for success, and of WeCom it knows plain text alone; of
Slack's webhooks it escapes a part of what was escaped already.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from stepscope.act.notify.channel import Channel, Message, Secrets, Sender, Sent, Settings
from stepscope.act.notify.post import Answered, post
from stepscope.act.notify.secret import required
from stepscope.model.error import UsageError

MARKUP_OF: Mapping[str, tuple[str, str]] = {
    "slack": ("markdown", "markdown"),
    "dingtalk": ("dingtalk", "markdown"),
    "feishu": ("feishu", "markdown"),
    "lark": ("feishu", "markdown"),
    "wecombot": ("wecom", "markdown"),
    "workflow": ("teams", "markdown"),
    "workflows": ("teams", "markdown"),
    "msteams": ("teams", "markdown"),
    "discord": ("discord", "markdown"),
    "tgram": ("telegram", "html"),
    "mailto": ("html", "html"),
    "mailtos": ("html", "html"),
    "ntfy": ("markdown", "markdown"),
    "ntfys": ("markdown", "markdown"),
    "matrix": ("markdown", "markdown"),
    "matrixs": ("markdown", "markdown"),
    "mmost": ("markdown", "markdown"),
    "mmosts": ("markdown", "markdown"),
}
"""(row of `views.markup`, apprise's format) by the address' scheme; any other is plain text."""
FINAL = re.compile(r"error=(?:400|401|403|404|405|410|413|422)\b")
"""In apprise's log: what the service would refuse again."""
TIMEOUT_S = 15.0


class AppriseSender:
    """One address of apprise's. One message at a time: its log is read for what went wrong."""

    repeats_s: float | None = None
    _lock = threading.Lock()

    def __init__(self, url: str, name: str) -> None:
        import apprise

        scheme = url.partition("://")[0].lower()
        self.markup, self._format = MARKUP_OF.get(scheme, ("text", "text"))
        asset = apprise.AppriseAsset(
            app_id="stepscope", app_desc="stepscope", app_url="", image_url_mask="", image_path_mask="",
            async_mode=False, secure_logging=True,
        )  # fmt: skip
        plugin = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
        if plugin is None:
            raise UsageError(f"channel {name}: apprise knows no such address; see its list of services")
        plugin.notify_format = apprise.NotifyFormat(self._format)
        plugin.socket_connect_timeout = plugin.socket_read_timeout = TIMEOUT_S
        self.plugin: Any = plugin
        self._apprise = apprise.Apprise(asset=asset)
        self._apprise.add(plugin)
        self.shown = f"{scheme}://…"

    def send(self, message: Message) -> Sent:
        """Send once; why it failed is read from apprise's log."""
        import apprise

        kind = {"critical": "failure", "warning": "warning"}.get(message.notice.severity, "info")
        if message.notice.state in ("ended", "closed", "verified"):
            kind = "success"
        with self._lock, apprise.LogCapture(level=30) as log:  # type: ignore[no-untyped-call]
            done = self._apprise.notify(
                body=message.body, title=message.title, notify_type=apprise.NotifyType(kind),
                body_format=apprise.NotifyFormat(self._format),
            )  # fmt: skip
            said = log.getvalue()
        if done:
            return Sent(True)
        return Sent(False, _why(said), bool(FINAL.search(said)))

    def preview(self, message: Message) -> str:
        """Title and body, in the service's markup."""
        return f"{message.title}\n\n{message.body}"


def _why(said: str) -> str:
    """The status that apprise's log tells, without the rest: it may hold parts of an address."""
    status = re.search(r"error=(\d{3})", said)
    return f"it answers {status[1]}" if status else "it cannot be reached, or refuses"


@dataclass(frozen=True, slots=True)
class Bot:
    """A chat robot that is asked directly. `busy` are codes in the answer's body that mean too many messages;
    `None` where its status says all."""

    markup: str
    payload: Callable[[Message], dict[str, object]]
    address: Callable[[Any], str]
    busy: frozenset[int] | None


def _dingtalk_address(plugin: Any) -> str:
    url = str(plugin.notify_url.format(token=plugin.token))
    if plugin.secret:
        at = str(round(time.time() * 1000))
        signed = f"{at}\n{plugin.secret}".encode()
        digest = hmac.new(plugin.secret.encode(), signed, hashlib.sha256).digest()
        url += f"&timestamp={at}&sign={quote(base64.b64encode(digest), safe='')}"
    return url


def _slack_payload(message: Message) -> dict[str, object]:
    title = {"type": "plain_text", "text": message.title[:150]}
    body = {"type": "mrkdwn", "text": message.body}
    return {
        "text": message.title,
        "blocks": [{"type": "header", "text": title}, {"type": "section", "text": body}],
    }


def _slack_address(plugin: Any) -> str:
    return f"{plugin.webhook_url}/{plugin.token_a}/{plugin.token_b}/{plugin.token_c}"


BOTS: Mapping[str, Bot] = {
    "slack": Bot("slack", _slack_payload, _slack_address, None),
    "dingtalk": Bot(
        "dingtalk",
        lambda m: {"msgtype": "markdown", "markdown": {"title": m.title, "text": f"### {m.title}\n{m.body}"}},
        _dingtalk_address,
        frozenset({130101, 130102}),
    ),
    "wecombot": Bot(
        "wecom",
        lambda m: {"msgtype": "markdown", "markdown": {"content": f"**{m.title}**\n{m.body}"}},
        lambda plugin: str(plugin.api_url),
        frozenset({45009, -1}),
    ),
}
"""By scheme. Codes: DingTalk, custom robots, too many messages a minute; WeCom, global error codes."""


class BotSender(AppriseSender):
    """A robot whose answer's body decides. `ask` is how bytes are posted."""

    def __init__(self, url: str, name: str, ask: Callable[..., Answered] = post) -> None:
        super().__init__(url, name)
        self._bot, self._ask = BOTS[url.partition("://")[0].lower()], ask
        self.markup = self._bot.markup

    def send(self, message: Message) -> Sent:
        """Post once; `errcode` other than 0 is a refusal."""
        body = msgspec.json.encode(self._bot.payload(message))
        headers = {"Content-Type": "application/json; charset=utf-8"}
        answer = self._ask(self._bot.address(self.plugin), body, headers)
        sent = answer.sent()
        if not sent.is_sent or self._bot.busy is None:
            return sent
        try:
            code = msgspec.json.decode(answer.body, type=dict[str, Any]).get("errcode")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            code = None
        if code == 0:
            return sent
        return Sent(False, f"it refuses (errcode {code})", code is not None and code not in self._bot.busy)

    def preview(self, message: Message) -> str:
        """The payload, indented."""
        return msgspec.json.format(msgspec.json.encode(self._bot.payload(message)), indent=2).decode()


def _make(settings: Settings, secrets: Secrets) -> Sender:
    url = required(settings, "url", secrets)
    try:
        scheme = url.partition("://")[0].lower()
        # With a bot's token Slack has no webhook.
        is_bot = scheme in BOTS and not (scheme == "slack" and "xox" in url)
        return (BotSender if is_bot else AppriseSender)(url, settings.name)
    except ImportError:
        raise UsageError(
            f"channel {settings.name}: apprise is not installed; pip install 'stepscope[server]'"
        ) from None


CHANNEL = Channel(
    kind="apprise",
    title="Chat, mail and more (apprise)",
    options=frozenset({"url_env", "url_file"}),
    make=_make,
)
