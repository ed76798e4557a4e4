"""Holds the product's accounting of a generated trace against the reference's."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.analyse.generate import Generated
from tests.analyse.reference import CAUSES, Row, account

SUMMED = ("counted", "marked")
PARTS = ("total_ns", "compute_ns", "communication_exposed_ns", "copy_exposed_ns", "idle_ns")
SHARES = ("loader_share", "sync_share", "copy_call_share", "launch_share")


@dataclass
class Comparison:
    """What the reference expects, what the product says, and where they differ."""

    trace: Generated
    expected: list[Row]
    differences: list[str] = field(default_factory=list)

    @classmethod
    def expected_of(cls, trace: Generated, summed: list[int] | None = None) -> Comparison:
        return cls(trace, account(trace.events, summed))

    def differ(self, where: str, expected: Any, found: Any) -> None:
        if expected != found:
            self.differences.append(f"{where}: expected {expected}, found {found}")

    def differ_in_parts(self, where: str, expected: dict[str, int], found: dict[str, int]) -> None:
        for name, ns in expected.items():
            self.differ(f"{where} {name}", ns, found.get(name))

    def differ_in_shares(self, where: str, row: Row, product: Any) -> None:
        for share in SHARES:
            numerator, denominator = row.host[share]
            value = None if product.host is None else getattr(product.host, share)
            expected = numerator / denominator
            if value is None or abs(value - expected) > 1e-12:
                self.differ(f"{where} {share}", expected, value)

    def describe(self) -> str:
        return f"seed {self.trace.seed}:\n" + "\n".join(self.differences)


def flat(row: Any) -> dict[str, int]:
    """A product's row named as the reference names its parts."""
    parts = {name: getattr(row, name) for name in PARTS}
    parts.update({f"idle.{cause}_ns": getattr(row.idle, f"{cause}_ns") for cause in sorted(CAUSES)})
    return parts


def _device(row: Any) -> int | None:
    return None if row.device.kind == "cpu" else row.device.index


def withheld(parts: dict[str, int]) -> dict[str, int]:
    """Where causes are withheld all idle time is unknown."""
    parts = {name: 0 if name.startswith("idle.") else ns for name, ns in parts.items()}
    return {**parts, "idle.unknown_ns": parts["idle_ns"]}


def compare(trace: Generated) -> Comparison:
    """Loads and analyses the trace with the product, and lists every difference."""
    # Imported here so that a mutation of the product's modules is seen by every call.
    from stepscope.analyse.rank import analyse_rank
    from stepscope.trace.load import load_bytes

    found = analyse_rank(load_bytes(trace.bytes(), f"seed-{trace.seed}.json"))
    analysis = found[0]
    used = {step.step: step.use for step in analysis.steps}
    # Which steps are summed has tests of its own; here both sides sum the same ones.
    summed = [step for step, use in used.items() if use in SUMMED]
    comparison = Comparison.expected_of(trace, summed)
    comparison.differ("ranks", 1, len(found))
    comparison.differ("steps", sorted(trace.steps), sorted(used))
    owned = comparison.expected[0].activities
    typical = median(owned.values()) if owned else 0
    # But none that has its share of the work may be lost.
    complete = [step for step, count in owned.items() if count >= typical]
    comparison.differ("steps lost", [], [(step, used.get(step)) for step in complete if step not in summed])

    by_scope = {(_device(row), row.scope): row for row in analysis.accounting}
    scopes = ("steps", "trace") if summed else ("trace",)
    comparison.differ(
        "rows",
        sorted(
            (row.device is None, row.device or 0, scope) for row in comparison.expected for scope in scopes
        ),
        sorted((device is None, device or 0, scope) for device, scope in by_scope),
    )
    detailed = {_device(d.accounting): d for d in analysis.devices}
    for row in comparison.expected:
        name = "cpu" if row.device is None else f"device {row.device}"
        for scope, parts in (("trace", row.trace), ("steps", row.steps)):
            product = by_scope.get((row.device, scope))
            if product is None:
                continue
            is_withheld = row.is_withheld.get(scope, False)
            shown = withheld if is_withheld else dict
            comparison.differ(f"{name} {scope} withheld", is_withheld, product.status == "withheld")
            comparison.differ_in_parts(f"{name} {scope}", shown(parts.flat()), flat(product))
            if scope == "steps":
                comparison.differ(f"{name} window", row.window, product.window)
                comparison.differ(f"{name} num_steps", len(summed), product.num_steps)
                for step, found_parts in detailed[row.device].by_step.items():
                    expected = shown(row.by_step[step].flat())
                    comparison.differ_in_parts(f"{name} step {step}", expected, dict(found_parts))
                counted = {n for n, use in used.items() if use == "counted"}
                comparison.differ(f"{name} steps apart", counted, counted & set(detailed[row.device].by_step))
                comparison.differ_in_shares(name, row, product)
    return comparison
