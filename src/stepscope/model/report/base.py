"""Words and habits that all parts of the report share."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA: Literal["stepscope.report/1"] = "stepscope.report/1"

VerdictClass = Literal[
    "waiting-for-data", "waiting-for-communication", "computing-slowly", "other-stall", "healthy", "undecided"
]
InputKind = Literal["trace", "telemetry", "log", "steps", "snapshot"]
HealthVerdict = Literal["ok", "degraded", "unusable"]
Effect = Literal["none", "degraded", "withheld"]
ClockMethod = Literal["collectives", "given", "none"]
LagStatus = Literal["found", "ambiguous", "declared", "unknown"]
StepUse = Literal["counted", "partial", "warm_up", "no_device_data", "marked", "captured"]
Scope = Literal["steps", "trace"]
WindowKind = Literal["host", "device"]
RowStatus = Literal["ok", "degraded", "withheld"]
Bound = Literal["compute", "memory", "unknown"]
Persistence = Literal["persistent", "moving", "stage", "unknown"]
EventKind = Literal["xid", "oom", "error", "checkpoint", "start", "exit", "capture", "change"]
Severity = Literal["info", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]
LayerName = Literal["hardware", "framework", "model", "business", "scheduling", "host"]
Origin = Literal["trace", "telemetry", "host", "job", "log", "memory"]
Op = Literal[">=", "<=", ">", "<"]
PatchKind = Literal["env", "code", "config", "command"]


def written() -> tuple[()]:
    """An empty list that is written: msgspec leaves out a default `()`, but not one made by a function."""
    return ()


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the report: fields that equal their default are left out of the JSON."""
