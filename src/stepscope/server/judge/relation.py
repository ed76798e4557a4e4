"""Which causes explain which alarms: what joins an open incident, and which card is about an alarm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stepscope.model.alarm import AlertLevel

ANY = "*"


@dataclass(frozen=True, slots=True)
class Family:
    """Alarms that tell of one kind of trouble. `causes` are the rules whose cards are about them, first those
    that name it best; `verdicts` the classes of rules that explain such an alarm beside these (`ANY`: every
    one that costs time). `asks` is what is recorded before somebody is told: a trace, the ranks' stacks, or
    nothing, where neither would say more."""

    name: str
    conditions: tuple[str, ...]
    causes: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    asks: Literal["trace", "stacks", "nothing"] = "trace"
    before_ns: int | None = None
    """How far before the onset counters count; `None` for the usual (`look.Range`)."""


MEMORY = ("out-of-memory", "logged-out-of-memory", "fragmented-out-of-memory", "memory-leak", "memory-creep",
          "memory-jump", "memory-fragmentation", "allocator-thrash", "memory-nearly-full")  # fmt: skip
HEAT = ("thermal-throttle", "hot-device")
CLOCK = ("power-brake", "power-cap", "locked-clock", "clock-ramp", "thermal-throttle")
DEVICE = ("device-fault", "uncorrected-memory-errors", "row-remap-failed", "row-remap-pending",
          "remapped-rows", "device-warning")  # fmt: skip
LINK = ("failing-link", "nvlink-errors", "pcie-downgrade", "pcie-replays", "slow-bus")
PAUSES = ("checkpoint-stall", "eval-stall")
STILL = ("collective-mismatch", "rank-not-in-collective", "device-fault", "out-of-memory",
         "logged-out-of-memory", "killed-process", "dead-job", "no-progress", "initialising")  # fmt: skip
IDLE = ("dead-job", "no-progress", "idle-device", "idle-in-checkpoint", "idle-in-evaluation", "initialising",
        "sparse-bursts")  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    Family("growth", ("memory-growing",), MEMORY, asks="nothing", before_ns=0),  # before, it was steady
    Family("memory", ("memory-high", "host-out-of-memory"), MEMORY, asks="nothing"),
    Family("heat", ("temperature-at-limit", "temperature-over-80", "clock-thermal"), HEAT),
    Family("clock", ("power-brake", "power-capped", "clock-locked"), CLOCK),
    Family("device", ("xid", "device-lost", "ecc-uncorrected", "row-remapped", "row-remap-pending",
                      "row-remap-failed"), DEVICE, asks="nothing"),
    Family("link", ("link-lost", "link-errors", "pcie-degraded"), LINK),
    Family("data", ("data-wait-up", "data-wait-high"), verdicts=("waiting-for-data",)),
    Family("pauses", ("pauses-high",), PAUSES, ("other-stall",), asks="nothing"),
    Family("communication", ("communication-up",), LINK, ("waiting-for-communication",)),
    Family("peer", ("rank-slow",), verdicts=(ANY,)),
    Family("idle", ("busy-low", "idle", "saw-tooth"), IDLE, (ANY,)),
    Family("still", ("hang", "process-gone", "never-started", "collective-timeout", "checkpoint-stuck"),
           STILL, asks="stacks"),
    Family("agent", ("agent-silent",), asks="nothing"),
    Family("loss", ("loss-not-finite", "loss-not-updated"), asks="nothing"),
    Family("steps", ("step-slow", "step-mean-up", "tokens-falling", "tensor-low", "dram-high", "sm-low"),
           verdicts=(ANY,)),
)  # fmt: skip

_OF: Mapping[str, Family] = {name: family for family in FAMILIES for name in family.conditions}
_BY_LEVEL: Mapping[AlertLevel, Family] = {
    "resource": next(each for each in FAMILIES if each.name == "device"),
    "performance": next(each for each in FAMILIES if each.name == "steps"),
    "task": next(each for each in FAMILIES if each.name == "still"),
}
SYMPTOMS = frozenset(("slowing-steps", "periodic-stall", "irregular-pauses", "waiting-for-peers"))
"""Rules that say that it is slow, and not by what: another card goes first."""


def family_of(condition: str, level: AlertLevel) -> Family:
    """The family of a condition; of one that is not in the table that of its level."""
    return _OF.get(condition, _BY_LEVEL[level])


def explains(rule: str, verdict_class: str, condition: str, level: AlertLevel) -> bool:
    """Whether a card of this rule explains such an alarm. `verdict_class` is the rule's own."""
    family = family_of(condition, level)
    if rule in family.causes:
        return True
    is_costly = verdict_class not in ("healthy", "undecided")
    return (ANY in family.verdicts and is_costly) or verdict_class in family.verdicts
