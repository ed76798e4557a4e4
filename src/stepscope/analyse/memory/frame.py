"""Which frame of a stack names a place in the user's own code."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_FRAMES = 24
"""Frames of a stack that a report shows."""
NOBODY = "no stack"

_PYTHON = r".*\.py:\d+( |$)"
WANTED: tuple[re.Pattern[str], ...] = (
    # Not of an installed package, of the standard library, or of PyTorch built from source.
    re.compile(r"(?!<)(?!.*(site|dist)-packages/)(?!.*/lib/python[\d.]+/)(?!(.*/)?torch/)" + _PYTHON),
    re.compile(r"(?!<)(?!(.*/)?torch/)" + _PYTHON),
    re.compile(_PYTHON),
)
"""What a frame must look like to name the place, the strictest first: where no frame does, the next is tried.
Native code is never the user's."""


def site(stack: Sequence[str]) -> str:
    """The innermost frame in the user's own code, else in a package other than PyTorch, else in any Python
    code, else the innermost; `NOBODY` for an empty stack."""
    for pattern in WANTED:
        for frame in stack:
            if pattern.match(frame):
                return frame
    return stack[0] if stack else NOBODY
