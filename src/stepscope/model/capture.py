"""A capture that a server asked for, from the asking to the traces. Stored as it is (JSON)."""

from __future__ import annotations

from typing import Literal

import msgspec

CaptureStep = Literal["agreeing", "recording", "sending", "done", "failed", "refused"]
UNDER_WAY: frozenset[CaptureStep] = frozenset(("agreeing", "recording", "sending"))


class CapturePart(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One rank of it: where it runs, and what it cost there. `stall_ns` is how long its steps were held up
    in all, `bytes` of its trace; `None` where it did not say."""

    ring: str
    agent: str
    host: str
    rank: int | None = None
    answer: str | None = None
    stall_ns: int | None = None
    bytes: int | None = None


class CaptureHour(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What captures have cost this job in the hour before, this one included, and the budget of an hour:
    captures, seconds of captured steps, bytes of traces, share of the hour that a rank was held up."""

    captures: int
    seconds: float
    bytes: int
    held_up_ratio: float
    most_captures: int
    most_seconds: float
    most_bytes: int
    most_held_up_ratio: float


class CaptureDocument(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One capture. `id` names it for ever, and its traces in the store; `capture` is the id that ranks, their
    marks and their traces know it by (each attempt has another). `steps` are the recorded ones, both ends
    included, the first of which the analysis leaves out where there are several; `None` before they are
    agreed. `by` whom and `why` it was asked for."""

    id: int
    job: str
    run: str
    state: CaptureStep
    by: str
    why: str
    asked_ns: int
    num_steps: int
    mode: Literal["full", "light"] = "full"
    flags: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    parts: tuple[CapturePart, ...] = ()
    num_missing: int = 0
    """Ranks of the job that no agent shows."""
    capture: int | None = None
    steps: tuple[int, int] | None = None
    refusal: str | None = None
    """Why it failed or was refused."""
    attempts: int = 0
    delay_ns: int | None = None
    """From an order to its answer, beyond the rank's own step, as it was taken for the margin."""
    seconds: float | None = None
    """That the recorded steps took, by the usual step."""
    stall_ns: int | None = None
    """Of the rank that was held up longest."""
    bytes: int | None = None
    """Of the traces of all ranks."""
    ended_ns: int | None = None
    report: str | None = None
    """Id of the report that was made of it alone: of one that a person asked for."""
    no_report: str | None = None
    """Why there is none, though all traces are here."""
    hour: CaptureHour | None = None
