"""Times in names of files."""

from __future__ import annotations

from datetime import datetime, timezone


def hour_name(at_ns: int) -> str:
    """`2026-11-30T12`, of an hour's start."""
    return datetime.fromtimestamp(at_ns // 1_000_000_000, timezone.utc).strftime("%Y-%m-%dT%H")
