"""Holds the product's accounting of a generated trace against the reference's."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    summed: list[int]
    differences: list[str] = field(default_factory=list)

    @classmethod
    def expected_of(cls, trace: Generated, summed: list[int] | None = None) -> Comparison:
        return cls(trace, account(trace.events, summed), trace.steps if summed is None else summed)

    def differ(self, where: str, expected: Any, found: Any) -> None:
        if expected != found:
            self.differences.append(f"{where}: expected {expected}, found {found}")

    def differ_in_parts(
        self, where: str, expected: dict[str, int], found: dict[str, int], is_withheld: bool
    ) -> None:
        if is_withheld:  # more than half of the device time has no launch: all idle time is unknown
            expected = {k: 0 if k.startswith("idle.") else v for k, v in expected.items()}
            expected["idle.unknown_ns"] = expected["idle_ns"]
        for name, ns in expected.items():
            self.differ(f"{where} {name}", ns, found.get(name))

    def describe(self) -> str:
        return f"seed {self.trace.seed}:\n" + "\n".join(self.differences)


def flat(row: Any) -> dict[str, int]:
    """A product's row named as the reference names its parts."""
    parts = {name: getattr(row, name) for name in PARTS}
    parts.update({f"idle.{cause}_ns": getattr(row.idle, f"{cause}_ns") for cause in sorted(CAUSES)})
    return parts


def _device(row: Any) -> int | None:
    return None if row.device.kind == "cpu" else row.device.index


def compare(trace: Generated) -> Comparison:
    """Loads and analyses the trace with the product, and lists every difference."""
    # Imported here so that a mutation of the product's modules is seen by every call.
    from stepscope.analyse.rank import analyse_rank
    from stepscope.trace.load import load_bytes

    found = analyse_rank(load_bytes(trace.bytes(), f"seed-{trace.seed}.json"))
    # Which steps are counted has tests of its own: here both sides sum the same ones.
    summed = [step.step for step in found[0].steps if step.use in SUMMED]
    comparison = Comparison.expected_of(trace, summed)
    comparison.differ("ranks", 1, len(found))
    analysis = found[0]

    used = {step.step: step.use for step in analysis.steps}
    comparison.differ("steps", sorted(trace.steps), sorted(used))

    by_scope = {(_device(row), row.scope): row for row in analysis.accounting}
    scopes = ("steps", "trace") if trace.steps else ("trace",)
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
        whole = by_scope.get((row.device, "trace"))
        if whole is not None:
            comparison.differ_in_parts(f"{name} trace", row.trace.flat(), flat(whole), whole.status == "withheld")
        summed = by_scope.get((row.device, "steps"))
        if summed is None:
            continue
        comparison.differ(f"{name} window", row.window, summed.window)
        comparison.differ(f"{name} num_steps", len(comparison.summed), summed.num_steps)
        comparison.differ_in_parts(f"{name} steps", row.steps.flat(), flat(summed), summed.status == "withheld")
        for step, parts in detailed[row.device].by_step.items():
            comparison.differ_in_parts(f"{name} step {step}", row.by_step[step].flat(), dict(parts), summed.status == "withheld")
        counted = {n for n, use in used.items() if use == "counted"}
        comparison.differ(f"{name} steps apart", set(), counted - set(detailed[row.device].by_step))
        for share in SHARES:
            numerator, denominator = row.host[share]
            value = None if summed.host is None else getattr(summed.host, share)
            expected = numerator / denominator
            if value is None or abs(value - expected) > 1e-12:
                comparison.differ(f"{name} {share}", expected, value)
    return comparison
