"""Markups of chat services and mail, a table: how each escapes, weighs, lists and quotes, and what it takes.

Sources: Slack "Formatting text for app surfaces" and the limit of 3,000 characters of a section; DingTalk,
custom robots (20,000 bytes a message); Feishu and Lark, custom bots (`lark_md`, 20 KB a request); WeCom,
group robots (markdown, 4,096 bytes); Microsoft Teams, incoming webhooks (28 KB); Telegram Bot API (HTML,
4,096 characters); Discord webhooks (2,000 characters).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

_ZERO_WIDTH = "\u200b"
_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~<>-])")


def _plain(text: str) -> str:
    # An @ that a service takes for a person to call: a job's name must wake nobody.
    return text.replace("@", "@" + _ZERO_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """One markup. `escape` makes a text of ours or of an input harmless in it; `strong`, `head`, `item`,
    `code` take escaped text (of `code`: raw lines). `most` is how much a message may hold, in bytes of UTF-8
    or in characters."""

    name: str
    most: int
    in_bytes: bool
    escape: Callable[[str], str]
    strong: Callable[[str], str]
    head: Callable[[str], str]
    item: Callable[[str], str]
    code: Callable[[list[str]], str]
    link: Callable[[str, str], str]
    line: Callable[[str], str] = str
    title: Callable[[str], str] = _plain
    """Of most services the title is plain text; elsewhere it stands in the body."""
    newline: str = "\n"
    begin: str = ""
    end: str = ""

    def size(self, text: str) -> int:
        """In the unit of `most`."""
        return len(text.encode("utf-8", "replace")) if self.in_bytes else len(text)


def _markdown(text: str) -> str:
    return _plain(_MARKS.sub(r"\\\1", text))


def _bare_markdown(text: str) -> str:
    """For services whose markdown knows no backslash: what would be markup is put in its full width."""
    return _plain(_EDGE.sub("＿", text.translate(_WIDE)))


_WIDE = str.maketrans({"*": "＊", "`": "ˋ", "[": "［", "]": "］", "<": "＜", ">": "＞", "#": "＃", "~": "～"})


_EDGE = re.compile(r"(?<!\w)_|_(?!\w)")
"""An underscore within a name is no markup, and must not change: people copy names."""


def _slack(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _plain(_EDGE.sub(_ZERO_WIDTH + "_", re.sub(r"([*~`])", _ZERO_WIDTH + r"\1", text)))


def _html(text: str) -> str:
    return html.escape(_plain(text), quote=True)


def _fence(lines: list[str]) -> str:
    return "```\n" + "\n".join(line.replace("```", "'''") for line in lines) + "\n```"


def _quoted(lines: list[str]) -> str:
    return "\n".join("> " + _still_code(line) for line in lines)


def _still_code(line: str) -> str:
    """A line of code for services that have no blocks of it: all of it stays as it is, so that it can be
    copied, but that a blank goes where a tag, a mention or a link would begin. In code it changes nothing."""
    return re.sub(r"<(?=[A-Za-z/@!])", "< ", _unaddressed(line).replace("](", "] (").replace("`", "'"))


def _unaddressed(line: str) -> str:
    """A line of code that calls nobody; a decorator stays one."""
    return _EVERYBODY.sub("@ ", line)


_EVERYBODY = re.compile(r"@(?=(?:all|here|channel|everyone|team|group)\b|所有人)", re.IGNORECASE)


def _ticked(lines: list[str]) -> str:
    """For WeCom, which has code within a line alone: nothing in it is markup."""
    return "\n".join(f"> `{_still_code(line)}`" for line in lines if line.strip())


def _indented(lines: list[str]) -> str:
    return "\n".join("    " + _unaddressed(line) for line in lines)


def _slack_fence(lines: list[str]) -> str:
    kept = (line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in lines)
    return _fence(list(kept))


def _bold(mark: str) -> Callable[[str], str]:
    return lambda text: f"{mark}{text}{mark}"


def _before(mark: str) -> Callable[[str], str]:
    return lambda text: f"{mark}{text}"


def _tag(name: str) -> Callable[[str], str]:
    return lambda text: f"<{name}>{text}</{name}>"


def _pre(lines: list[str]) -> str:
    return "<pre>" + html.escape("\n".join(lines)) + "</pre>"


def _md_link(text: str, url: str) -> str:
    return f"[{text}]({url.replace(')', '%29').replace(' ', '%20')})"


MARKUPS: dict[str, Markup] = {
    each.name: each
    for each in (
        Markup(name="text", most=30_000, in_bytes=False, escape=_plain, strong=str, head=str,
               item=_before("- "), code=_indented,
               link=lambda text, url: f"{text}: {url}"),
        Markup(name="markdown", most=30_000, in_bytes=False, escape=_markdown, strong=_bold("**"),
               head=_bold("**"), item=_before("- "), code=_fence, link=_md_link, newline="\n\n"),
        Markup(name="slack", most=2_900, in_bytes=False, escape=_slack, strong=_bold("*"), head=_bold("*"),
               item=_before("• "), code=_slack_fence,
               link=lambda text, url: f"<{url.replace('>', '%3E').replace('|', '%7C')}|{text}>"),
        Markup(name="dingtalk", most=18_000, in_bytes=True, escape=_bare_markdown, strong=_bold("**"),
               head=_before("#### "), item=_before("- "), code=_quoted, title=_bare_markdown, link=_md_link,
               newline="\n\n"),
        Markup(name="feishu", most=18_000, in_bytes=True, escape=_bare_markdown, strong=_bold("**"),
               head=_bold("**"), item=_before("- "), code=_quoted, link=_md_link),
        Markup(name="wecom", most=4_000, in_bytes=True, escape=_bare_markdown, strong=_bold("**"),
               head=_bold("**"), item=_before("- "), code=_ticked, title=_bare_markdown, link=_md_link),
        Markup(name="teams", most=20_000, in_bytes=True, escape=_markdown, strong=_bold("**"),
               head=_bold("**"), item=_before("- "), code=_fence, link=_md_link, newline="\n\n"),
        Markup(name="discord", most=1_900, in_bytes=False, escape=_markdown, strong=_bold("**"),
               head=_bold("**"), item=_before("- "), code=_fence, link=_md_link),
        Markup(name="telegram", most=4_000, in_bytes=False, escape=_html, strong=_tag("b"), head=_tag("b"),
               item=_before("• "), code=_pre,
               link=lambda text, url: f'<a href="{html.escape(url, quote=True)}">{text}</a>'),
        Markup(name="html", most=100_000, in_bytes=False, escape=_html, strong=_tag("b"), head=_tag("h3"),
               item=_tag("li"), code=_pre, line=_tag("p"),
               link=lambda text, url: f'<a href="{html.escape(url, quote=True)}">{text}</a>'),
    )
}  # fmt: skip
"""By name."""
