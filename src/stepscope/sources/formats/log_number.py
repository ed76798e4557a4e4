"""Numbers as logs write them: thousands separators, exponents, suffixes, and what is not finite."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d{1,18})(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?|[-+]?\.\d{1,30}"
NOT_FINITE = r"[-+]?(?i:nan|inf(?:inity)?)\b"
VALUE = rf"(?:{NOT_FINITE}|{NUMBER})"
"""A number, or `nan` or `inf`."""

SECONDS: Mapping[str, float] = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "msec": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6,
}  # fmt: skip
BYTES: Mapping[str, float] = {
    # Frameworks divide by 1024**3 and print "GB" as well as "GiB".
    "b": 1.0, "bytes": 1.0, "kb": 2.0**10, "kib": 2.0**10, "k": 2.0**10, "mb": 2.0**20, "mib": 2.0**20,
    "m": 2.0**20, "gb": 2.0**30, "gib": 2.0**30, "g": 2.0**30, "tb": 2.0**40, "tib": 2.0**40,
}  # fmt: skip
RATIO: Mapping[str, float] = {"%": 0.01}
COUNT: Mapping[str, float] = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9}
TFLOPS: Mapping[str, float] = {"t": 1.0, "tflops": 1.0, "tflop": 1.0, "p": 1e3, "pflops": 1e3, "gflops": 1e-3}

_DURATION = re.compile(r"(?:(\d{1,6}) days?, )?(?:(\d{1,6}):)?(\d{1,4}):(\d{2})\Z")


def number(text: str) -> float:
    """The value of what `VALUE` matched: may be NaN or infinite."""
    return float(text.replace(",", ""))


def finite(text: str) -> float | None:
    """A finite number, `None` for anything else."""
    try:
        value = number(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def whole(text: str) -> int | None:
    """A whole number of at most 18 digits that is not negative, `None` for anything else: `7,123`, `20.0`."""
    value = finite(text)
    return int(value) if value is not None and 0 <= value < 1e18 and value == int(value) else None


def seconds(text: str) -> float | None:
    """Seconds of `00:25`, `1:02:03` or `1 day, 2:03:04`; `None` for anything else."""
    match = _DURATION.match(text)
    if match is None:
        return None
    days, hours, minutes, rest = (int(each or 0) for each in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
