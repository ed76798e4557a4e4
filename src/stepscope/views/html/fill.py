"""What each part of a drawing looks like: a colour and a pattern, so no two parts differ by colour alone."""

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

# Parts of other wholes. Each whole is a bar of its own with its legend, so a look may come again in another.
PHASE_FILL: Mapping[str, tuple[str, str]] = {
    "forward": ("blue", "plain"),
    "backward": ("teal", "slant"),
    "recompute": ("red", "bars"),
    "optimizer": ("purple", "dots"),
    "other": ("grey", "grid"),
}
KIND_FILL: Mapping[str, tuple[str, str]] = {
    "recompute": ("red", "bars"),
    "optimizer": ("purple", "dots"),
    "layout": ("red", "slant"),
    "copy": ("blue", "dots"),
    "gemm": ("green", "plain"),
    "convolution": ("teal", "plain"),
    "attention": ("blue", "plain"),
    "normalization": ("purple", "plain"),
    "softmax": ("pink", "plain"),
    "elementwise": ("amber", "plain"),
    "reduction": ("amber", "slant"),
    "embedding": ("pink", "dots"),
    "triton": ("teal", "grid"),
    "other": ("grey", "grid"),
}
MEMORY_FILL: Mapping[str, tuple[str, str]] = {
    "before": ("grey", "slant"),
    "activations": ("green", "plain"),
    "gradients": ("blue", "dots"),
    "optimizer_state": ("purple", "bars"),
    "other": ("grey", "grid"),
}
JOB_FILL: Mapping[str, tuple[str, str]] = {
    "wait": ("purple", "plain"),
    "wait_hidden": ("purple", "dots"),
}
"""What only a job of many ranks has, beside all of `FILL`."""
_LOOK: Mapping[str, tuple[str, str]] = {
    **FILL,
    **{f"phase.{name}": look for name, look in PHASE_FILL.items()},
    **{f"kind.{name}": look for name, look in KIND_FILL.items()},
    **{f"memory.{name}": look for name, look in MEMORY_FILL.items()},
    **{f"map.{name}": look for name, look in JOB_FILL.items()},
}
"""The look of every name that `fill` and `swatch` take."""

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
            id=f"look-{colour}-{pattern}",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )
        for colour, pattern in dict.fromkeys(_LOOK.values())
    ]
    return tag("svg", tag("defs", patterns), class_="definitions", aria_hidden="true", focusable="false")


def fill(part: str) -> str:
    """The `fill` of a part's shapes; a part that a later version names looks as the unknown one does."""
    return "url(#look-{}-{})".format(*_LOOK.get(part, FILL["idle.unknown"]))


def swatch(part: str) -> Markup:
    """A small field in a part's look, for a legend or a table."""
    shape = tag("rect", width="100%", height="100%", fill=fill(part))
    return tag("svg", shape, class_="swatch", aria_hidden="true", focusable="false")
