"""The report as JSON, and the JSON Schema of every report."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from stepscope.model import report
from stepscope.model.report import Report, encode


def render(report_: Report) -> str:
    """The report as indented JSON, ending in a newline; what could steer a terminal is escaped."""
    return indented(encode(report_))


def indented(data: bytes) -> str:
    """JSON on indented lines, ending in a newline; what could steer a terminal is escaped."""
    text = msgspec.json.format(data, indent=2).decode()
    text = _COLUMN.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    return _STEERING.sub(_escaped, text) + "\n"


# A list of integers on lines of their own; a string has no raw line break.
_COLUMN = re.compile(r"\[\n\s*(-?\d+(?:,\n\s*-?\d+)*)\n\s*\]")


# Characters outside ASCII that control or format (msgspec escapes the others): they stand in strings only.
_STEERING = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)


def _escaped(match: re.Match[str]) -> str:
    """One character as JSON's `\\uXXXX`, in two halves beyond the first 65,536."""
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def embedded(report_: Report) -> str:
    """The report as compact JSON that may stand in an HTML `<script>`: nothing in it can end the element."""
    text = encode(report_).decode()
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return _STEERING.sub(_escaped, text)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `stepscope.report/1`, made from the structs.

    What is not known is absent and never null, so the schema allows no null; objects may have further fields,
    because adding one is no new version.
    """
    return schema_of(Report, report.SCHEMA)


def schema_of(whole: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """The JSON Schema of a struct whose lists at the top are always written, as its `schema` is."""
    made: dict[str, Any] = msgspec.json.schema(whole)
    without_null: dict[str, Any] = _without_null(made)
    top = without_null["$defs"][whole.__name__]
    required = top.setdefault("required", [])
    # Lists at the top are always written, also when they are empty.
    required += [
        name
        for name, value in top["properties"].items()
        if name not in required and (value.get("type") == "array" or name == "schema")
    ]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **without_null}


def schema_text() -> str:
    """The schema as the committed file holds it."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


def _without_null(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_null(each) for each in node]
    if not isinstance(node, dict):
        return node
    cleaned = {
        key: _without_null(value) for key, value in node.items() if not (key == "default" and value is None)
    }
    options = cleaned.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        left = [option for option in options if option != {"type": "null"}]
        del cleaned["anyOf"]
        return {**cleaned, **left[0]} if len(left) == 1 else {**cleaned, "anyOf": left}
    if isinstance(cleaned.get("enum"), list) and None in cleaned["enum"]:
        cleaned["enum"] = [value for value in cleaned["enum"] if value is not None]
    return cleaned
