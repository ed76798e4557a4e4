"""The tools: their words, their arguments as JSON Schema, and what answers them.

Arguments are checked against the schema here: agents send what they like, and an error must be one line that
says what to send.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from stepscope.mcp import answer, query
from stepscope.mcp.desk import Desk
from stepscope.model import redact
from stepscope.model.error import UsageError
from stepscope.model.text import LANGS
from stepscope.rules import load_catalog
from stepscope.views.table import TABLES

Schema = Mapping[str, Any]
Arguments = Mapping[str, Any]

_HANDLE: Schema = {"type": "string", "maxLength": 40, "description": "`report` of an answer of diagnose"}
_LANG: Schema = {"type": "string", "enum": list(LANGS), "description": "language of the answer"}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**53}
_VALUE: Schema = {"type": ["string", "number", "boolean"], "maxLength": 400}
_NAME: Schema = {"type": "string", "maxLength": 400}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `properties` are its arguments, of which `required` must be there."""

    name: str
    description: str
    properties: Mapping[str, Schema]
    required: tuple[str, ...]
    run: Callable[[Desk, Arguments], Any]

    @property
    def schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _diagnose(desk: Desk, given: Arguments) -> Any:
    steps = given.get("steps")
    if steps is not None and steps[0] > steps[1]:
        raise UsageError("steps: the first is after the last; give [first, last]")
    return answer.diagnosis(
        desk.diagnose(
            given["paths"],
            steps=tuple(steps) if steps is not None else None,
            rank=given.get("rank"),
            lang=given.get("lang", desk.lang),
        )
    )


def _findings(desk: Desk, given: Arguments) -> Any:
    return answer.findings(
        desk.report(given["report"]), severity=given.get("severity"), offset=given.get("offset", 0)
    )


def _evidence(desk: Desk, given: Arguments) -> Any:
    asked = desk.report(given["report"])
    for finding in asked.report.findings:
        if finding.id == given["finding"]:
            return answer.evidence(asked, finding)
    ids = ", ".join(each.id for each in asked.report.findings[:8]) or "none"
    raise UsageError(f"no finding {given['finding'][:80]!r} in {asked.handle}; there are: {ids}")


def _explain(desk: Desk, given: Arguments) -> Any:
    catalog = load_catalog()
    rule = given["rule"]
    if rule not in catalog.rules:
        near = difflib.get_close_matches(rule[:80], catalog.rules, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(catalog.rules)}"
        raise UsageError(f"no rule {rule[:80]!r}; {hint}")
    return answer.explanation(catalog[rule], given.get("lang", desk.lang))


def _doctor(desk: Desk, given: Arguments) -> Any:
    checks = redact.map_strings(msgspec.to_builtins(desk.doctor()), desk.shown, frozenset())
    again = answer.call("diagnose", "every trace under the first root", paths=["."])
    return answer.fitted({"checks": checks, "next": [again]}, ("checks",))


def _query(desk: Desk, given: Arguments) -> Any:
    asked = desk.report(given["report"])
    found = query.rows(
        asked.report,
        given["table"],
        wanted=given.get("columns", ()),
        where=[query.Condition(**each) for each in given.get("where", ())],
        order_by=given.get("order_by"),
        descending=given.get("descending", False),
        limit=given.get("limit", query.DEFAULT_ROWS),
    )
    found["next"] = [
        answer.call("findings", "what was found in these numbers", report=asked.handle)
        if asked.report.findings
        else answer.call("query", "all steps and how they were used", report=asked.handle, table="steps")
    ]
    return answer.fitted({"report": asked.handle, **found}, ("rows",))


TOOLS: tuple[Tool, ...] = (
    Tool(
        "diagnose",
        "Say where the time of a GPU training step went, why, and what to change. Reads traces of PyTorch "
        "Profiler (.json, .json.gz, directories, patterns) under the server's roots. Start here; the answer "
        "has ids for the other tools, what was withheld and why, and the next call.",
        {
            "paths": {
                "type": "array", "minItems": 1, "maxItems": 64,
                "items": {"type": "string", "minLength": 1, "maxLength": 1024},
                "description": "files, directories or patterns; relative ones are under a root",
            },
            "steps": {
                "type": "array", "minItems": 2, "maxItems": 2, "items": _COUNT,
                "description": "[first, last] step to judge, both included",
            },
            "rank": {**_COUNT, "description": "judge this rank alone"},
            "lang": _LANG,
        },
        ("paths",),
        _diagnose,
    ),
    Tool(
        "findings",
        "Every finding of a report on a line: id, rule, title, severity, confidence, cost, steps.",
        {
            "report": _HANDLE,
            "severity": {"type": "string", "enum": ["info", "warning", "critical"]},
            "offset": {**_COUNT, "description": "leave out so many"},
        },
        ("report",),
        _findings,
    ),
    Tool(
        "evidence",
        "One finding in full: measured numbers against thresholds, who was running meanwhile, remedies with "
        "a ready patch, the gain to expect and what would prove it, what is unknown and what is ruled out.",
        {"report": _HANDLE, "finding": {**_NAME, "description": "a finding's id"}},
        ("report", "finding"),
        _evidence,
    ),
    Tool(
        "explain",
        "One rule of the catalogue: what it means, when it fires, from where its thresholds are, remedies.",
        {"rule": {**_NAME, "description": "a rule's id, as in `rule` of a finding"}, "lang": _LANG},
        ("rule",),
        _explain,
    ),
    Tool(
        "doctor",
        "What this server's machine offers for recording and diagnosing, and the line that adds the rest.",
        {},
        (),
        _doctor,
    ),
    Tool(
        "query",
        f"Rows of one of a report's tables, at most {query.MAX_ROWS}. `where` are conditions that all must "
        "hold. Times are in nanoseconds, shares 0..1. Without `columns`, those that have values. Columns are "
        "named in the error for a wrong one.",
        {
            "report": _HANDLE,
            "table": {"type": "string", "enum": list(TABLES)},
            "columns": {"type": "array", "maxItems": 60, "items": _NAME},
            "where": {
                "type": "array", "maxItems": query.MAX_CONDITIONS,
                "items": {
                    "type": "object",
                    "properties": {
                        "column": _NAME,
                        "op": {"type": "string", "enum": list(query.OPERATORS)},
                        "value": _VALUE,
                    },
                    "required": ["column", "op", "value"],
                    "additionalProperties": False,
                },
            },
            "order_by": _NAME,
            "descending": {"type": "boolean"},
            "limit": {"type": "integer", "minimum": 1, "maximum": query.MAX_ROWS},
        },
        ("report", "table"),
        _query,
    ),
)  # fmt: skip
BY_NAME = {tool.name: tool for tool in TOOLS}


def checked(tool: Tool, given: Any) -> Arguments:
    """The arguments, sound. Raises UsageError with the first fault."""
    fault = _fault(given if given is not None else {}, tool.schema, tool.name)
    if fault is not None:
        raise UsageError(fault)
    return dict(given or {})


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def _fault(value: Any, schema: Schema, where: str) -> str | None:
    """What is wrong with a value, by the keywords of JSON Schema that `TOOLS` use."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_TYPES[kind](value) for kind in kinds):
        return f"{where}: give {' or '.join(kinds)}, not {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: give one of {', '.join(schema['enum'])}"
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get(
        "maxLength", 1024
    ):
        return f"{where}: a text of {len(value)} characters; give {schema.get('maxLength', 1024)} at most"
    if "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
        return f"{where}: give {schema['minimum']} to {schema['maximum']}"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
            return f"{where}: {len(value)} items; give {schema.get('minItems', 0)} to {schema['maxItems']}"
        faults = (_fault(each, schema["items"], f"{where}[{i}]") for i, each in enumerate(value))
        return next((fault for fault in faults if fault is not None), None)
    if isinstance(value, Mapping):
        return _object_fault(value, schema, where)
    return None


def _object_fault(value: Mapping[Any, Any], schema: Schema, where: str) -> str | None:
    known = schema["properties"]
    for name in schema["required"]:
        if name not in value:
            return f"{where}: {name} is missing"
    for name, each in value.items():
        if name not in known:
            takes = ", ".join(known) or "nothing"
            return f"{where}: no argument {str(name)[:40]!r}; it takes {takes}"
        fault = _fault(each, known[name], f"{where}.{name}")
        if fault is not None:
            return fault
    return None
