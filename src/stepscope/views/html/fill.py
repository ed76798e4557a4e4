"""What each part of a step looks like: a colour and a pattern, so no two parts differ by colour alone."""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.views.html.markup import Markup, tag

# Colours are classes of style.css: each has a contrast of 3:1 and more on light and on dark.
FILL: Mapping[str, tuple[str, str]] = {
    "compute": ("green", "plain"),
    "communication_exposed": ("purple", "slant"),
    "copy_exposed": ("blue", "dots"),
    "idle.queued": ("grey", "slant"),
    "idle.input": ("red", "plain"),
    "idle.preprocess": ("red", "slant"),
    "idle.host_sync": ("amber", "plain"),
    "idle.copy_wait": ("blue", "bars"),
    "idle.allocator": ("amber", "slant"),
    "idle.gc": ("amber", "dots"),
    "idle.compile": ("amber", "grid"),
    "idle.checkpoint": ("teal", "plain"),
    "idle.eval": ("teal", "slant"),
    "idle.logging": ("teal", "dots"),
    "idle.launch": ("pink", "plain"),
    "idle.peer": ("purple", "bars"),
    "idle.profiler": ("grey", "dots"),
    "idle.python": ("pink", "slant"),
    "idle.unknown": ("grey", "grid"),
}

_INK: Mapping[str, str] = {
    "plain": "",
    "slant": "M-2 2l4-4M0 8l8-8M6 10l4-4",
    "dots": "M2 2h2v2h-2zM6 6h2v2h-2z",
    "bars": "M0 2h8M0 6h8",
    "grid": "M0 4h8M4 0v8",
}

OF_CLASS: Mapping[str, str] = {
    "communication": "communication_exposed",
    "copy": "copy_exposed",
    "set": "copy_exposed",
}
"""The part that a class of kernels is drawn as; all others compute."""


def definitions() -> Markup:
    """The patterns, for every drawing of the page."""
    patterns = [
        tag(
            "pattern",
            tag("rect", width=8, height=8, class_=colour),
            tag("path", d=_INK[pattern], class_="ink") if _INK[pattern] else None,
            id=_id(part),
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )
        for part, (colour, pattern) in FILL.items()
    ]
    return tag("svg", tag("defs", patterns), class_="definitions", aria_hidden="true", focusable="false")


def fill(part: str) -> str:
    """The `fill` of a part's shapes."""
    return f"url(#{_id(part)})"


def swatch(part: str) -> Markup:
    """A small field in a part's look, for a legend or a table."""
    shape = tag("rect", width="100%", height="100%", fill=fill(part))
    return tag("svg", shape, class_="swatch", aria_hidden="true", focusable="false")


def _id(part: str) -> str:
    return f"fill-{part.replace('.', '-').replace('_', '-')}"
