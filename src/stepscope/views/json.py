"""The report as JSON, and the JSON Schema of every report."""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.model import report
from stepscope.model.report import Report, encode


def render(report_: Report) -> str:
    """The report as indented JSON, ending in a newline."""
    return msgspec.json.format(encode(report_), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `stepscope.report/1`, made from the structs.

    What is not known is absent and never null, so the schema allows no null; objects may have further fields,
    because adding one is no new version.
    """
    made: dict[str, Any] = msgspec.json.schema(Report)
    without_null: dict[str, Any] = _without_null(made)
    required = without_null["$defs"]["Report"].setdefault("required", [])
    # Lists at the top are always written, also when they are empty.
    required += [
        name
        for name, value in without_null["$defs"]["Report"]["properties"].items()
        if name not in required and (value.get("type") == "array" or name == "schema")
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": report.SCHEMA,
        **without_null,
    }


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
