"""Which alarm explains which: the one that is explained is kept and nobody is told of it. A table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stepscope.model.alarm import About

Scope = Literal["job", "ranks", "host"]
"""What the two must share: the job; the job and, where both name ranks, one of them; the job or a host."""
NS = 1_000_000_000
LATEST_NS = 120 * NS
"""A cause may be seen to begin so long after its effect: counters come after steps, and shares fill up."""
SOONEST_NS = 60 * NS
"""What was over for longer when the effect began is no cause of it."""

_SYMPTOMS = (
    "step-slow", "step-mean-up", "tokens-falling", "tensor-low", "sm-low", "dram-high", "communication-up",
    "saw-tooth", "busy-power-falling",
)  # fmt: skip
_LOW = ("busy-low", "idle", "saw-tooth", "busy-power-falling")


@dataclass(frozen=True, slots=True)
class Relation:
    """Each of `causes` explains each of `effects`; earlier relations go first."""

    causes: tuple[str, ...]
    effects: tuple[str, ...]
    scope: Scope
    why: str


RELATIONS: tuple[Relation, ...] = (
    Relation(
        ("xid", "device-lost", "ecc-uncorrected", "row-remap-failed"),
        ("rank-slow", *_SYMPTOMS, "data-wait-up", "busy-low", "idle", "row-remapped", "row-remap-pending"),
        "host",
        "a device with a fault makes its ranks late and everybody wait",
    ),
    Relation(
        ("hang", "process-gone", "never-started", "checkpoint-stuck", "host-out-of-memory"),
        ("rank-slow", *_SYMPTOMS, "data-wait-up", "data-wait-high", *_LOW, "loss-not-updated",
         "collective-timeout"),
        "job",
        "where no step advances nothing is busy, and nothing slow",
    ),
    Relation(
        ("clock-thermal", "power-brake", "power-capped", "clock-locked", "row-remapped"),
        ("rank-slow", "temperature-at-limit"), "ranks",
        "a device with a lower clock, or with memory that fails, makes its rank slow",
    ),
    Relation(
        ("clock-thermal", "power-brake", "power-capped", "clock-locked", "row-remapped"),
        _SYMPTOMS, "job", "and everybody waits for that rank",
    ),
    Relation(
        ("pcie-degraded", "link-errors", "link-lost"), ("communication-up", "data-wait-up", "rank-slow",
                                                        *_SYMPTOMS),
        "job", "what goes over a link that fails takes longer",
    ),
    Relation(("data-wait-up",), ("rank-slow",), "ranks", "a rank without a batch is late"),
    Relation(
        ("data-wait-up",), ("data-wait-high", *_SYMPTOMS, *_LOW), "job",
        "a step without a batch waits, and the devices with it",
    ),
    Relation(("data-wait-high",), _LOW, "job", "devices without a batch idle"),
    Relation(("pauses-high",), _LOW, "job", "devices rest in a checkpoint"),
    Relation(("rank-slow",), _SYMPTOMS, "job", "everybody waits for the slowest"),
    Relation(
        ("communication-up",), ("step-slow", "tokens-falling", "tensor-low", "sm-low", "dram-high"), "job",
        "slow meetings make slow steps",
    ),
    Relation(
        ("step-slow",), ("step-mean-up", "tokens-falling", "tensor-low", "sm-low", "dram-high", *_LOW), "job",
        "a longer step has fewer tokens a second, and less work a second",
    ),
    Relation(
        ("step-mean-up",), ("tokens-falling", "tensor-low", "sm-low", "dram-high", *_LOW), "job", "as above"
    ),
    Relation(("tokens-falling",), ("tensor-low", "sm-low", "dram-high", *_LOW), "job", "as above"),
    Relation(("sm-low",), ("tensor-low", "dram-high", "busy-power-falling"), "job", "less work a second"),
    Relation(("tensor-low",), ("busy-power-falling",), "job", "less work a second"),
    Relation(("memory-growing",), ("memory-high",), "job", "it grows until it is full"),
    Relation(("idle",), ("busy-low",), "job", "the same, and more of it"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """What relations look at of an alarm."""

    condition: str
    about: About
    hosts: frozenset[str]
    """Where its devices and its job's ranks are."""
    onset_ns: int
    end_ns: int | None
    is_note: bool
    """An event that is only of note (an Xid of level info): it explains nothing."""


def explains(cause: Claim, effect: Claim) -> bool:
    """Whether one explains the other by the table, whose it is, and when."""
    if cause.is_note or not _in_time(cause, effect):
        return False
    return any(
        cause.condition in each.causes
        and effect.condition in each.effects
        and _shares(each.scope, cause, effect)
        for each in RELATIONS
    )


def cause_of(effect: Claim, others: Sequence[Claim]) -> int | None:
    """The place of the first that explains it, in the order of the table; `None` where none does."""
    for each in RELATIONS:
        if effect.condition not in each.effects:
            continue
        for place, cause in enumerate(others):
            if cause.condition not in each.causes or cause.is_note or not _in_time(cause, effect):
                continue
            if _shares(each.scope, cause, effect):
                return place
    return None


def _in_time(cause: Claim, effect: Claim) -> bool:
    is_over = cause.end_ns is not None and cause.end_ns < effect.onset_ns - SOONEST_NS
    return cause.onset_ns <= effect.onset_ns + LATEST_NS and not is_over


def _shares(scope: Scope, cause: Claim, effect: Claim) -> bool:
    runs = (cause.about.run, effect.about.run)
    is_other_run = None not in runs and runs[0] != runs[1]
    same_job = cause.about.job is not None and cause.about.job == effect.about.job and not is_other_run
    if scope == "host":
        return same_job or bool(cause.hosts & effect.hosts)
    same_host = cause.about.job is None and bool(cause.hosts & effect.hosts)
    if not (same_job or same_host):
        return False
    if scope == "ranks" and cause.about.ranks and effect.about.ranks:
        return bool(set(cause.about.ranks) & set(effect.about.ranks))
    return True
