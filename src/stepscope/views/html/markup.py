"""Markup that cannot be broken by what it shows: text is escaped when it becomes a child, never before."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from stepscope.views.shape import harmless


class Markup(str):
    """Text that is HTML already, as only `tag` and `joined` make it."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | Iterable[Child] | None"
"""A text, markup, several of them, or nothing."""

_VOID = frozenset(("meta", "br", "rect", "path", "circle"))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element. `class_` is the attribute `class`, `aria_label` is `aria-label`; `None` leaves one out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = joined(children)
    if name in _VOID and not inside:
        return Markup(f"<{name}{told}>" if name in ("meta", "br") else f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{inside}</{name}>")


def joined(children: Child, between: str = "") -> Markup:
    """All children behind one another; texts are escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(_text(children))
    return Markup(_text(between).join(part for part in map(joined, children) if part))


def code(text: str) -> Markup:
    """A name as people find it in their code or trace."""
    return tag("code", text)


def _text(text: str) -> str:
    return escape(harmless(text))
