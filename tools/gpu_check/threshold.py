"""The thresholds of patterns A and B held against kernels whose behaviour is known.

They are read from the catalogue (`stepscope.rules.pattern_table`), and a clause is to hold of the kernels
that it is about and to fail of those that it is to leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.model.hardware import Hardware, hardware_of
from stepscope.rules.pattern_table import A, B, Side
from tools.gpu_check.sample import Reading

SETTLED_NS = 250_000_000
"""After a kernel began: two windows, and what the clock needs to rise."""
PRODUCTS = ("matmul-bf16", "matmul-fp16", "matmul-tf32")
STREAMS = ("copy", "elementwise")
EXPECTED: tuple[tuple[str, str, bool, tuple[str, ...]], ...] = (
    ("A", "sm_active_mean", True, (*PRODUCTS, "matmul-fp32")),
    ("A", "large_gemm_peak_share", False, PRODUCTS),
    ("B", "dram_active_mean", True, STREAMS),
    ("B", "dram_active_mean", False, PRODUCTS),
    ("B", "tensor_active_mean", True, STREAMS),
    ("B", "tensor_active_mean", False, PRODUCTS),
)
"""(pattern, feature of its deciding side, whether its clause is to hold, of which kernels)."""
SIGNALS = {
    "sm_active_mean": "sm_active_ratio",
    "sm_occupancy_mean": "sm_occupancy_ratio",
    "tensor_active_mean": "tensor_active_ratio",
    "dram_active_mean": "dram_active_ratio",
}


@dataclass(frozen=True, slots=True)
class Known:
    """One kernel: by feature what was measured of it; what was not is absent."""

    name: str
    flops: float
    bytes_per_second: float
    features: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Check:
    """One clause on one kernel; `is_written` of the side that decides nothing, and is only shown."""

    pattern: str
    clause: str
    kernel: str
    value: float
    holds: bool
    wanted: bool | None

    @property
    def passed(self) -> bool:
        """Whether it is as it should be; what is only shown always is."""
        return self.wanted is None or self.holds == self.wanted


def known(rows: Sequence[Mapping[str, Any]], readings: Sequence[Reading], model: str | None) -> list[Known]:
    """What clock and counters say of each kernel: readings whose whole window lies in its run."""
    hardware = hardware_of(model)
    return [_known(row, readings, hardware) for row in rows]


def _known(row: Mapping[str, Any], readings: Sequence[Reading], hardware: Hardware | None) -> Known:
    start, end = row["start_ns"] + SETTLED_NS, row["end_ns"]
    mine = [r for r in readings if start <= r.wall_ns - (r.window_ns or 0) and r.wall_ns <= end]
    features: dict[str, float] = {}
    for feature, signal in SIGNALS.items():
        seen = [r.ratios[signal] for r in mine if signal in r.ratios]
        if seen:
            features[feature] = sum(seen) / len(seen)
    clocks = [
        r.values["sm_clock_hertz"] / r.values["sm_clock_max_hertz"]
        for r in mine
        if r.values.get("sm_clock_max_hertz") and "sm_clock_hertz" in r.values
    ]
    peak = hardware.peak_flops.get(row["precision"]) if hardware else None
    if peak:
        features["flops_peak_share"] = row["flops"] / peak
        if clocks:
            features["large_gemm_peak_share"] = row["flops"] / (peak * sum(clocks) / len(clocks))
    rate = hardware.memory_bytes_per_second if hardware else None
    if rate and row["name"] in STREAMS:
        features["memory_peak_share"] = row["bytes_per_second"] / rate
    return Known(row["name"], row["flops"], row["bytes_per_second"], features)


def checks(kernels: Sequence[Known]) -> list[Check]:
    """Every clause of A and B on every kernel that it can be judged on."""
    of = {each.name: each for each in kernels}
    found = []
    for letter, feature, wanted, names in EXPECTED:
        side = (A if letter == "A" else B).effective
        found += [_check(letter, side, feature, of[name], wanted) for name in names if name in of]
    for named in (A, B):
        features = dict.fromkeys(clause.feature.name for clause in named.as_written.when)
        about = PRODUCTS if named.letter == "A" else STREAMS
        found += [
            _check(f"{named.letter} as written", named.as_written, feature, of[name], None)
            for feature in features
            for name in about
            if name in of
        ]
    return [each for each in found if each is not None]


def _check(pattern: str, side: Side, feature: str, kernel: Known, wanted: bool | None) -> Check | None:
    clause = next(each for each in side.when if each.feature.name == feature)
    value = kernel.features.get(feature)
    if value is None:
        return None
    return Check(pattern, str(clause), kernel.name, value, clause.holds(value), wanted)


COLUMNS = (
    ("sm_active_mean", "SM active"),
    ("sm_occupancy_mean", "occupancy"),
    ("tensor_active_mean", "tensor"),
    ("dram_active_mean", "DRAM"),
    ("flops_peak_share", "of peak"),
    ("memory_peak_share", "of bandwidth"),
)


def table(kernels: Sequence[Known], found: Sequence[Check]) -> str:
    """What each kernel reached, then each clause with what it says; absent figures stay blank."""
    lines = [f"{'kernel':14}{'TFLOP/s':>9}{'GB/s':>8}" + "".join(f"{head:>13}" for _, head in COLUMNS)]
    for each in kernels:
        shares = (each.features.get(name) for name, _ in COLUMNS)
        cells = "".join(f"{'' if share is None else f'{share:.2f}':>13}" for share in shares)
        lines.append(f"{each.name:14}{each.flops / 1e12:9.1f}{each.bytes_per_second / 1e9:8.0f}{cells}")
    lines.append("")
    for one in found:
        says = "holds" if one.holds else "does not hold"
        mark = "shown only" if one.wanted is None else "as it should" if one.passed else "✗ wanted otherwise"
        lines.append(f"{one.pattern:13}{one.clause:32}{one.kernel:13}{one.value:5.2f}  {says:14}{mark}")
    return "\n".join(lines)
