"""A site's own thresholds of alerts, as read from TOML: `{condition id: {key: value}}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from stepscope.detect.alert.condition import SECOND_NS, Condition
from stepscope.model.alarm import SEVERITIES
from stepscope.model.error import UsageError

KEYS = ("threshold", "clear", "for_s", "clear_for_s", "severity", "pages", "on")
"""What may be said of a condition. Units are those of the table; times are seconds."""
MOST_SECONDS = 86_400.0


def with_thresholds(table: Sequence[Condition], config: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The table with a site's thresholds. UsageError for a condition, a key or a value that cannot be: what
    is misspelt would silence nothing, or everything, without a word."""
    known = {each.id: each for each in table}
    for name, keys in config.items():
        if name not in known:
            raise UsageError(f"[{name}]: no such condition; there are: {', '.join(sorted(known))}")
        if not isinstance(keys, Mapping):
            raise UsageError(f"[{name}]: is no table; write [{name}] and below it such as threshold = 0.95")
        known[name] = _with(known[name], keys)
    return tuple(known[each.id] for each in table)


def _with(row: Condition, keys: Mapping[str, Any]) -> Condition:
    changed: dict[str, Any] = {}
    for key, value in keys.items():
        place = f"[{row.id}] {key}"
        if key in ("threshold", "clear"):
            if row.threshold is None:
                raise UsageError(f"{place}: its own baseline decides here; leave it out")
            changed[key] = number_ = _number(place, value)
            if row.unit == "ratio" and not 0.0 <= number_ <= 1.0:
                raise UsageError(f"{place}: {value} is no share; give 0 to 1, such as {row.threshold:g}")
            if not isfinite(number_):
                raise UsageError(f"{place}: {value} can never be; give such as {row.threshold:g}")
        elif key in ("for_s", "clear_for_s"):
            seconds = _number(place, value)
            if not 0 <= seconds <= MOST_SECONDS:
                raise UsageError(f"{place}: {value} is no time; give 0 to {MOST_SECONDS:.0f} seconds")
            changed[f"{key[:-2]}_ns"] = round(seconds * SECOND_NS)
        elif key == "severity":
            if value not in SEVERITIES:
                raise UsageError(f"{place}: {value!r} is none; give one of {', '.join(SEVERITIES)}")
            changed["severity"] = value
        elif key in ("pages", "on"):
            if not isinstance(value, bool):
                raise UsageError(f"{place}: {value!r} is neither true nor false")
            changed["pages" if key == "pages" else "is_on"] = value
        else:
            raise UsageError(f"{place}: no such key; there are: {', '.join(KEYS)}")
    if "threshold" in changed and "clear" not in changed and row.threshold is not None:
        # The distance of the hysteresis stays; where it was none it stays none.
        apart = 0.0 if row.clear is None else row.clear - row.threshold
        changed["clear"] = changed["threshold"] + apart
    made = replace(row, **changed)
    _in_order(made)
    return made


def _in_order(row: Condition) -> None:
    """What clears an alarm must lie on the side that is well."""
    if row.threshold is None or row.clear is None:
        return
    is_beyond = row.clear > row.threshold if row.side == "above" else row.clear < row.threshold
    if is_beyond:
        side = "at or below" if row.side == "above" else "at or above"
        raise UsageError(f"[{row.id}] clear: {row.clear:g} must be {side} the threshold {row.threshold:g}")


def _number(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise UsageError(f"{place}: {value!r} is no number")
    return float(value)
